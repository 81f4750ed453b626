"""Properties of the text and the file form: any record comes back equal, whatever its names and numbers."""

from __future__ import annotations

import contextlib
import dataclasses
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelscope.errors import ProgramFileError, ProgramTextError
from kernelscope.ir.codec import decode, encode
from kernelscope.ir.kernels import CppKernel, MultiKernel, TritonKernel
from kernelscope.ir.lines import KernelDefinitionLine
from kernelscope.ir.parse import parse_line, parse_program
from kernelscope.ir.program import Graph, Program
from kernelscope.ir.serialize import from_json, to_json
from kernelscope.ir.text import print_line, print_program
from tests.programs import rich_program
from tests.record_strategies import lines, records, texts

quickly = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
KERNELS = (CppKernel, TritonKernel, MultiKernel)


@st.composite
def any_programs(draw):
    """A program of sound records, which keeps no rule across lines; kernels have names of their own."""
    program = draw(records(Program))
    kernels = draw(st.lists(st.one_of(*map(records, KERNELS)), max_size=3, unique_by=lambda kernel: kernel.name))
    kernels = [
        kernel if isinstance(kernel, MultiKernel) else dataclasses.replace(kernel, source=draw(texts))
        for kernel in kernels
    ]
    body = draw(st.lists(lines(), max_size=4))
    functions = [
        dataclasses.replace(
            function,
            lines=tuple(line for line in (*function.lines, *body) if not isinstance(line, KernelDefinitionLine)),
        )
        for function in program.all_functions()
    ]
    definitions = tuple(KernelDefinitionLine(kernel=kernel) for kernel in kernels)
    main = dataclasses.replace(functions[0], lines=(*definitions, *functions[0].lines))
    return dataclasses.replace(program, main=main, functions=tuple(functions[1:]))


@settings(quickly, max_examples=300)
@given(lines())
def test_any_line_comes_back_equal(line):
    text = print_line(line)
    assert "\n" not in text
    assert parse_line(text) == line
    assert decode(json.loads(json.dumps(encode(line))), type(line)) == line


@settings(quickly, max_examples=50)
@given(any_programs())
def test_any_program_comes_back_equal(program):
    text = print_program(program)
    text.encode()
    assert parse_program(text) == program
    assert from_json(to_json(program)) == program


@quickly
@given(records(Graph))
def test_any_graph_comes_back_equal(graph):
    program = dataclasses.replace(rich_program(), graph=graph)
    assert parse_program(print_program(program)) == program


@quickly
@given(st.data())
def test_text_with_a_hole_is_refused_or_read(data):
    """No text raises anything but the error for text."""
    text = print_program(rich_program())
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 30)))
    try:
        parse_program(text[:start] + data.draw(st.text(max_size=3)) + text[end:])
    except ProgramTextError as error:
        located = error.where.startswith("line ")
    else:
        located = True
    assert located


@quickly
@given(st.data())
def test_cut_text_is_refused(data):
    text = to_json(rich_program())
    with pytest.raises(ProgramFileError):
        from_json(text[: data.draw(st.integers(0, len(text) - 1))])


@quickly
@given(st.data())
def test_file_with_another_value_is_refused_or_read(data):
    """Whatever stands in the place of a value, reading gives a program of sound types or the error for files."""
    document = json.loads(to_json(rich_program()))
    place = document["program"]
    while True:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        if not isinstance(place[key], (dict, list)) or not place[key] or data.draw(st.integers(0, 3)) == 0:
            break
        place = place[key]
    place[key] = data.draw(st.sampled_from([None, True, 7, 1.5, "x", [], {}, {"$": "Scalar"}, {"$": "dtype", "v": []}]))
    with contextlib.suppress(ProgramFileError):
        program = from_json(json.dumps(document))
        assert from_json(to_json(program)) == program
