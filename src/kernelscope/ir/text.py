"""The text form of a program: readable, one line per wrapper line; ``parse`` reads it back (A6).

Order: header, symbols, constants, functions; then the long parts: origins, kernels' text, storages, the graph.
Must not live here: how a line or an operand is spelled (see ``formats`` and ``text_values``).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from kernelscope.ir.codec import encode
from kernelscope.ir.formats import FORMATS, Field, Flag, Optional, Part, Result, left_out
from kernelscope.ir.kernels import Kernel
from kernelscope.ir.lines import Origin, SourceLocation, WrapperLine
from kernelscope.ir.program import Function, Graph, GraphNode, Input, Program, ScalarInput, SymbolInfo, TensorInput
from kernelscope.ir.text_values import KINDS, expr, kwargs, name, operands, string, tensor_type

_REMARK_COLUMN = 72
_REMARK_CHARS = 60
_SIGNATURE_CHARS = 110


def print_program(program: Program, *, origins: bool = True, kernels: bool = True, graph: bool = True) -> str:
    """The program's text.

    Args:
        program: The program.
        origins: Whether lines say where they come from.
        kernels: Whether kernels' text and storages' bytes are printed.
        graph: Whether the graph before fusion is printed.

    With anything left out the text is for reading only: it does not parse back to the same program.
    """
    return "\n".join(_Printer(program, origins).sections(kernels=kernels, graph=graph)) + "\n"


def print_line(line: WrapperLine) -> str:
    """One line's text, without its origin."""
    text = ""
    for part in FORMATS[type(line)]:
        spelled, glued = _part(part, line)
        if spelled:
            text += spelled if glued or not text else f" {spelled}"
    return text


def _part(part: Part, line: WrapperLine) -> tuple[str, bool]:
    """A part's text, empty if it is left out, and whether no space goes before it."""
    if isinstance(part, str):
        return part, False
    found = getattr(line, part.name)
    match part:
        case Result(kind=kind):
            return ("" if found is None else f"{KINDS[kind](found)} ="), False
        case Field(kind=kind, glued=glued):
            return KINDS[kind](found), glued
        case Flag(word=word, when=when):
            return (word if found is when else ""), False
        case Optional(word=word, kind=kind, glued=glued):
            if found == left_out(type(line), part):
                return "", False
            return f"{word}{'' if glued else ' '}{KINDS[kind](found)}", False


class _Printer:
    """Prints one program and numbers the origins that its lines name."""

    def __init__(self, program: Program, origins: bool) -> None:
        self.program = program
        self.with_origins = origins
        self.origins: dict[Origin, int] = {}

    def sections(self, *, kernels: bool, graph: bool) -> Iterator[str]:
        program = self.program
        release = f" torch={string(program.torch_version)}" if program.torch_version else ""
        passes = ", ".join(map(name, program.passes))
        yield f"program {string(program.name)} phase={program.phase}{release} passes=[{passes}]"
        yield from (_symbol_info(info) for info in program.symbols)
        for constant in program.constants:
            yield f"constant {name(constant.name)}: {tensor_type(constant.type)} in {string(constant.storage)}"
        for function in program.all_functions():
            yield from self.function(function)
        if self.origins:
            yield ""
        yield from (f"origin #{number} {_origin(origin)}" for origin, number in self.origins.items())
        if kernels:
            yield from _long_parts(program)
        if graph and program.graph is not None:
            yield from _graph(program.graph)

    def function(self, function: Function) -> Iterator[str]:
        yield ""
        yield _signature(function)
        last = None
        for line in function.lines:
            text = f"  {print_line(line)}"
            shown = line.origin if self.with_origins else None
            yield text if shown is None else self.with_origin(text, shown, remark=shown != last)
            last = shown
        yield "}"

    def with_origin(self, text: str, origin: Origin, *, remark: bool) -> str:
        """A line with the number of its origin, and with ``remark``, for the reader, what is there, in a few words."""
        number = self.origins.setdefault(origin, len(self.origins))
        return f"{text:{_REMARK_COLUMN}}  ; #{number} {_remark(origin) if remark else ''}".rstrip(" ")


def _signature(function: Function) -> str:
    inputs = [_input(entry) for entry in function.inputs]
    line = f"func {name(function.name)}({', '.join(inputs)}) {{"
    if not inputs or len(line) <= _SIGNATURE_CHARS:
        return line
    return "\n".join(
        [f"func {name(function.name)}(", *(f"    {entry}," for entry in inputs[:-1]), f"    {inputs[-1]}", ") {"]
    )


def _remark(origin: Origin) -> str:
    if not origin.locations:
        return _one_line(", ".join(origin.ops or origin.nodes))
    place = origin.locations[-1]
    return _one_line(f"{place.file.rpartition('/')[2]}:{place.line} {place.text}")


def _one_line(text: str) -> str:
    words = "".join(char if char.isprintable() else "?" for char in " ".join(text.split()))
    return words if len(words) <= _REMARK_CHARS else f"{words[: _REMARK_CHARS - 3]}..."


# --- records ---------------------------------------------------------------------------------------------------


def _symbol_info(info: SymbolInfo) -> str:
    parts = [f"symbol {name(str(info.symbol))} {info.kind}"]
    for word in ("hint", "lower", "upper"):
        bound = getattr(info, word)
        if bound is not None:
            parts.append(f"{word}={bound!r}")
    return " ".join(parts)


def _input(entry: Input) -> str:
    if isinstance(entry, TensorInput):
        return f"{name(entry.name)}: {'donated ' if entry.donated else ''}{tensor_type(entry.type)}"
    if isinstance(entry, ScalarInput):
        return f"{name(entry.name)} = {expr(entry.expr)}"
    return f"{name(entry.name)}: object {name(entry.kind)}"


def _origin(origin: Origin) -> str:
    places = ", ".join(map(_location, origin.locations))
    return f"ops [{', '.join(map(name, origin.ops))}] nodes [{', '.join(map(name, origin.nodes))}] at [{places}]"


def _location(place: SourceLocation) -> str:
    return f"{string(place.file)} {place.line} {string(place.function)} {string(place.text)}"


def _long_parts(program: Program) -> Iterator[str]:
    for kernel in {kernel.name: kernel for kernel in program.kernels()}.values():
        yield from _kernel(kernel)
    if program.cpp_build is not None:
        yield ""
        yield f"build {_record(encode(program.cpp_build))}"
    if program.storages:
        yield ""
    for storage in program.storages:
        data = "none" if storage.data is None else string(base64.b64encode(storage.data).decode())
        yield f"storage {string(storage.key)} nbytes {storage.nbytes} data {data}"


def _kernel(kernel: Kernel) -> Iterator[str]:
    fields = encode(kernel)
    source = fields.pop("source", None)
    fields.pop("name")
    yield ""
    yield f"kernel {name(kernel.name)} {_record(fields)}"
    if source is not None:
        yield from (f"  | {line}" if line else "  |" for line in source.split("\n"))


def _record(fields: dict[str, Any]) -> str:
    """A record as JSON, with a list of records one a line."""
    parts: list[str] = []
    for key, field in fields.items():
        if isinstance(field, list) and field and isinstance(field[0], dict):
            items = ",\n    ".join(map(json.dumps, field))
            parts.append(f"{json.dumps(key)}: [\n    {items}]")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(field)}")
    return f"{{{', '.join(parts)}}}"


def _graph(graph: Graph) -> Iterator[str]:
    yield ""
    yield "graph {"
    yield from (f"  {_node(node)}" for node in graph.nodes)
    yield "}"
    yield from (f"buffer {name(buffer)} %{name(node)}" for buffer, node in graph.buffers)


def _node(node: GraphNode) -> str:
    parts = [f"%{name(node.name)} = {node.op} {name(node.target)}{operands(node.args)}"]
    if node.kwargs:
        parts.append(f"with{kwargs(node.kwargs)}")
    if node.type is not None:
        parts.append(f": {tensor_type(node.type)}")
    if node.location is not None:
        parts.append(f"at {_location(node.location)}")
    return " ".join(parts)
