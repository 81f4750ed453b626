"""The top of a generated Python module: imports, operators, and what the inputs must look like."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import torch

from kernelscope.ir import lines as l
from kernelscope.ir.program import Program, TensorInput
from kernelscope.ir.values import DTypeValue, ListValue, OperatorRef, TensorType, TupleValue, View
from kernelscope.targets.inputs import input_specs
from kernelscope.targets.python.literals import dtype, operator_alias
from kernelscope.targets.writer import Writer
from kernelscope.version import __version__

_HOST = (
    "align_input",
    "assert_alignment",
    "assert_size_stride",
    "divide_exactly",
    "empty_strided_cpu",
    "enter_device",
    "enter_stream",
    "exit_device",
    "exit_stream",
    "input_checker",
    "operator",
    "reinterpret_tensor",
    "select_index",
    "slice_length",
    "while_loop",
)


def write(out: Writer, program: Program) -> None:
    """Writes everything above the functions."""
    passes = f" · passes {', '.join(program.passes)}" if program.passes else ""
    out.comment(f"kernelscope {__version__} · target python · program {program.name}{passes}")
    out.line('"""Generated host program. The loader puts kernels and constants into this namespace."""')
    out.line()
    out.line("import math")
    out.line()
    out.line("import torch")
    names = sorted(_dtypes(program))
    if names:
        out.line(f"from torch import {', '.join(names)}")
    out.line("from kernelscope.runtime.host import (")
    with out.indent():
        for name in _HOST:
            out.line(f"{name},")
    out.line(")")
    operators = sorted(_operators(program))
    if operators:
        out.line()
    for name in operators:
        out.line(f"{operator_alias(name)} = operator({name!r})")
    _write_inputs(out, program)


def _write_inputs(out: Writer, program: Program) -> None:
    specs = input_specs(program.main)
    if not specs:
        return
    out.line()
    out.line(f"check_inputs = input_checker({len(program.main.inputs)}, (")
    with out.indent():
        out.comment("position, name, dtype, device, size, stride; None is not checked here")
        for index, name, kind, place, size, stride in specs:
            out.line(f"({index}, {name!r}, {dtype(kind)}, {place!r}, {size!r}, {stride!r}),")
    out.line("))")


def _lines(program: Program) -> Iterator[l.WrapperLine]:
    for function in program.all_functions():
        yield from function.lines


def _fields(program: Program) -> Iterator[object]:
    for line in _lines(program):
        for field in dataclasses.fields(line):
            if field.name != "origin":
                yield getattr(line, field.name)


def _operators(program: Program) -> set[str]:
    called = {line.op for line in _lines(program) if hasattr(line, "op")}
    return called | {value.name for value in _flat(_fields(program)) if isinstance(value, OperatorRef)}


def _dtypes(program: Program) -> set[str]:
    found: set[torch.dtype] = {entry.type.dtype for entry in program.main.inputs if isinstance(entry, TensorInput)}
    for value in _flat(_fields(program)):
        kind = value.dtype if isinstance(value, (DTypeValue, TensorType, View)) else None
        if kind is not None:
            found.add(kind)
    return {dtype(kind) for kind in found}


def _flat(items: Iterable[object]) -> Iterator[object]:
    for item in items:
        if isinstance(item, (ListValue, TupleValue)):
            yield from _flat(item.items)
        elif isinstance(item, tuple):
            yield from _flat(item)
        else:
            yield item
