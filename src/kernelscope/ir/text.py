"""The text form of a program: readable, one line per wrapper line; ``parse`` reads it back (A6).

Order: header, symbols, constants, functions; then the long parts: origins, kernels' text, storages, the graph.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

from kernelscope.ir.expr import to_text
from kernelscope.ir.formats import FORMATS, Flag, Optional, Part
from kernelscope.ir.kernels import CppBuild, Kernel, MultiKernel
from kernelscope.ir.lines import Origin, SourceLocation, WrapperLine
from kernelscope.ir.program import Function, Graph, GraphNode, Input, Program, ScalarInput, SymbolInfo, TensorInput
from kernelscope.ir.serialize import encode
from kernelscope.ir.values import (
    BufferRef,
    ConstantRef,
    DeviceValue,
    DTypeValue,
    LayoutValue,
    ListValue,
    MemoryFormatValue,
    NodeRef,
    NoneValue,
    ObjectRef,
    OperatorRef,
    Scalar,
    SymExpr,
    TensorType,
    TupleValue,
    View,
)

PLAIN_NAME = re.compile(r"[A-Za-z_][\w.]*(?:::[\w.]+)*\Z")
RESERVED = frozenset(
    [
        "none",
        "true",
        "false",
        "inf",
        "nan",
        "view",
        "complex",
        "dtype",
        "device",
        "layout",
        "memory_format",
        "op",
        "object",
        "const",
        "float",
    ]
)


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
    return " ".join(part for spelled in FORMATS[type(line)] for part in _part(spelled, line))


class _Printer:
    def __init__(self, program: Program, origins: bool) -> None:
        self.program = program
        self.with_origins = origins
        self.origins: dict[Origin, int] = {}

    def sections(self, *, kernels: bool, graph: bool) -> Iterator[str]:
        program = self.program
        passes = ", ".join(program.passes)
        release = f" torch={json.dumps(program.torch_version)}" if program.torch_version else ""
        yield f"program {json.dumps(program.name)} phase={program.phase}{release} passes=[{passes}]"
        yield from (_symbol_info(info) for info in program.symbols)
        for constant in program.constants:
            yield f"constant {name(constant.name)} : {tensor_type(constant.type)} in {json.dumps(constant.storage)}"
        for function in program.all_functions():
            yield from self.function(function)
        for origin, number in self.origins.items():
            yield f"origin #{number} {_origin(origin)}"
        if kernels:
            yield from (line for kernel in program.kernels() for line in _kernel(kernel))
            if program.cpp_build is not None:
                yield f"build {_json(program.cpp_build)}"
            for storage in program.storages:
                data = "none" if storage.data is None else json.dumps(base64.b64encode(storage.data).decode())
                yield f"storage {json.dumps(storage.key)} nbytes {storage.nbytes} data {data}"
        if graph and program.graph is not None:
            yield from _graph(program.graph)

    def function(self, function: Function) -> Iterator[str]:
        inputs = ", ".join(_input(entry) for entry in function.inputs)
        yield ""
        yield f"func {name(function.name)}({inputs}) {{"
        for line in function.lines:
            yield f"  {print_line(line)}{self.origin(line)}"
        yield "}"

    def origin(self, line: WrapperLine) -> str:
        if not self.with_origins or line.origin is None:
            return ""
        return f"  ; #{self.origins.setdefault(line.origin, len(self.origins))}"


def _part(part: Part, line: WrapperLine) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, Flag):
        if getattr(line, part.name):
            yield part.word
    elif isinstance(part, Optional):
        value = getattr(line, part.name)
        if value != default_of(type(line), part.name):
            yield part.word
            yield KINDS[part.kind](value)
    else:
        yield KINDS[part.kind](getattr(line, part.name))


def default_of(kind: type[Any], field_name: str) -> Any:
    """The default of a field; None for a field that has none (it is None when left out of text)."""
    for field in dataclasses.fields(kind):
        if field.name == field_name:
            return None if field.default is dataclasses.MISSING else field.default
    raise KeyError(field_name)


# --- records ---------------------------------------------------------------------------------------------------


def _symbol_info(info: SymbolInfo) -> str:
    parts = [f"symbol {info.symbol} {info.kind}"]
    for word in ("hint", "lower", "upper"):
        value = getattr(info, word)
        if value is not None:
            parts.append(f"{word}={value!r}")
    return " ".join(parts)


def _input(entry: Input) -> str:
    if isinstance(entry, TensorInput):
        return f"{name(entry.name)}: {'donated ' if entry.donated else ''}{tensor_type(entry.type)}"
    if isinstance(entry, ScalarInput):
        return f"{name(entry.name)} = {{{to_text(entry.expr)}}}"
    return f"{name(entry.name)}: object {name(entry.kind)}"


def _origin(origin: Origin) -> str:
    places = [_location(place) for place in origin.locations]
    ops, nodes = ", ".join(map(name, origin.ops)), ", ".join(map(name, origin.nodes))
    return f"ops [{ops}] nodes [{nodes}] at [{', '.join(places)}]"


def _location(place: SourceLocation) -> str:
    return f"{json.dumps(place.file)} {place.line} {json.dumps(place.function)} {json.dumps(place.text)}"


def _kernel(kernel: Kernel) -> Iterator[str]:
    yield ""
    if isinstance(kernel, MultiKernel):
        yield f"kernel {name(kernel.name)} {_json(kernel)}"
        return
    yield f"kernel {name(kernel.name)} {_json(dataclasses.replace(kernel, source=''))}"
    for text in kernel.source.split("\n"):
        yield f"  | {text}".rstrip(" ") if not text else f"  | {text}"


def _json(record: Kernel | CppBuild) -> str:
    return json.dumps(encode(record), allow_nan=False)


def _graph(graph: Graph) -> Iterator[str]:
    yield ""
    yield "graph {"
    for node in graph.nodes:
        yield f"  {_node(node)}"
    yield "}"
    for buffer, node_name in graph.buffers:
        yield f"buffer {name(buffer)} %{name(node_name)}"


def _node(node: GraphNode) -> str:
    parts = [f"%{name(node.name)} = {node.op} {name(node.target)} {operands(node.args)}"]
    if node.kwargs:
        parts.append(f"with {kwargs(node.kwargs)}")
    if node.type is not None:
        parts.append(f": {tensor_type(node.type)}")
    if node.location is not None:
        parts.append(f"at {_location(node.location)}")
    return " ".join(parts)


# --- operands --------------------------------------------------------------------------------------------------


def name(text: str) -> str:
    """A name, quoted where it could be read as something else."""
    return text if PLAIN_NAME.match(text) and text not in RESERVED else f"${json.dumps(text)}"


def names(items: tuple[str, ...]) -> str:
    """Names in parentheses."""
    return f"({', '.join(name(item) for item in items)})"


def dims(shape: tuple[Any, ...]) -> str:
    """A size or stride in brackets."""
    return f"[{', '.join(to_text(dim) for dim in shape)}]"


def dtype(kind: torch.dtype) -> str:
    """A dtype by its name."""
    return str(kind).removeprefix("torch.")


def tensor_type(layout: TensorType) -> str:
    """A layout: ``float32[8, 4]{4, 1} cpu``, with ``+offset`` if there is one."""
    size = ", ".join(to_text(dim) for dim in layout.size)
    stride = ", ".join(to_text(dim) for dim in layout.stride)
    offset = "" if layout.offset == 0 else f" +{{{to_text(layout.offset)}}}"
    return f"{dtype(layout.dtype)}[{size}]{{{stride}}} {layout.device}{offset}"


def scalar(literal: bool | int | float | complex | str) -> str:
    """A literal."""
    if isinstance(literal, bool):
        return "true" if literal else "false"
    if isinstance(literal, str):
        return json.dumps(literal)
    if isinstance(literal, complex):
        return f"complex({literal.real!r}, {literal.imag!r})"
    return repr(literal)


def value(operand: Any) -> str:
    """An operand."""
    match operand:
        case BufferRef(name=text):
            return name(text)
        case ConstantRef(name=text):
            return f"const {name(text)}"
        case View():
            recast = "" if operand.dtype is None else f", {dtype(operand.dtype)}"
            layout = f"{dims(operand.size)}, {dims(operand.stride)}, {{{to_text(operand.offset)}}}"
            return f"view({value(operand.base)}, {layout}{recast})"
        case Scalar(value=literal):
            return scalar(literal)
        case SymExpr(expr=expr):
            return f"{{{to_text(expr)}}}"
        case NoneValue():
            return "none"
        case DTypeValue(dtype=kind):
            return f"dtype({dtype(kind)})"
        case DeviceValue(device=place):
            return f"device({place})"
        case LayoutValue(name=text):
            return f"layout({text})"
        case MemoryFormatValue(name=text):
            return f"memory_format({text})"
        case OperatorRef(name=text):
            return f"op({name(text)})"
        case ObjectRef(name=text):
            return f"object({name(text)})"
        case NodeRef(name=text):
            return f"%{name(text)}"
        case ListValue(items=items):
            return f"[{', '.join(value(item) for item in items)}]"
        case TupleValue(items=items):
            return operands(items)
        case _:
            raise TypeError(f"{type(operand).__name__} is no operand")


def operands(items: tuple[Any, ...]) -> str:
    """Operands in parentheses."""
    return f"({', '.join(value(item) for item in items)})"


def kwargs(pairs: tuple[tuple[str, Any], ...]) -> str:
    """Keyword operands in parentheses."""
    return f"({', '.join(f'{name(key)}={value(item)}' for key, item in pairs)})"


def path(steps: tuple[int | str, ...]) -> str:
    """Indices and keys into a pack."""
    return f"[{', '.join(json.dumps(step) for step in steps)}]"


def steps(items: tuple[tuple[str, Any], ...]) -> str:
    """Steps to a number inside an operator's result."""
    return f"[{', '.join(f'{kind} {json.dumps(argument)}' for kind, argument in items)}]"


def _expr(expr: Any) -> str:
    return f"{{{to_text(expr)}}}"


KINDS: dict[str, Callable[[Any], str]] = {
    "bool": lambda flag: "true" if flag else "false",
    "device": str,
    "dim": _expr,
    "dims": dims,
    "expr": _expr,
    "int": str,
    "kernel": lambda kernel: name(kernel.name),
    "kwargs": kwargs,
    "name": name,
    "names": names,
    "operands": operands,
    "path": path,
    "steps": steps,
    "string": json.dumps,
    "symbol": str,
    "type": tensor_type,
    "value": value,
}
