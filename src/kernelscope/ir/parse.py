"""Reads a program from its text form; the inverse of ``text.print_program``."""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Callable
from typing import Any

import sympy
import torch

from kernelscope.errors import ProgramTextError
from kernelscope.ir.expr import as_dim, symbol
from kernelscope.ir.formats import BY_WORD, FORMATS, Flag, Optional
from kernelscope.ir.kernels import CppBuild, Kernel, MultiKernel
from kernelscope.ir.lines import KernelDefinitionLine, Line, Origin, SourceLocation, WrapperLine
from kernelscope.ir.program import (
    Constant,
    Function,
    Graph,
    GraphNode,
    Input,
    ObjectInput,
    Program,
    ScalarInput,
    Storage,
    SymbolInfo,
    TensorInput,
)
from kernelscope.ir.scan import Scanner
from kernelscope.ir.serialize import decode
from kernelscope.ir.text import default_of
from kernelscope.ir.values import (
    BufferRef,
    ConstantRef,
    DeviceValue,
    Dim,
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
    Value,
    View,
)


def parse_program(text: str) -> Program:
    """The program whose text this is.

    Raises:
        ProgramTextError: it is no program's text; says where and what was expected.
    """
    return _Parser(text).program()


def parse_line(text: str) -> WrapperLine:
    """One line, as ``print_line`` prints it; a defined kernel is known by name only and so cannot be read here."""
    scanner = _Parser(text)
    line, _ = scanner.line()
    if not scanner.done():
        raise scanner.fail("the end of the line")
    parsed: WrapperLine = line
    return parsed


@dataclasses.dataclass(slots=True)
class _Parts:
    """What has been read so far."""

    symbols: list[SymbolInfo] = dataclasses.field(default_factory=list)
    constants: list[Constant] = dataclasses.field(default_factory=list)
    functions: list[tuple[str, tuple[Input, ...], list[tuple[Any, int | None]]]] = dataclasses.field(
        default_factory=list
    )
    origins: dict[int, Origin] = dataclasses.field(default_factory=dict)
    kernels: dict[str, Kernel] = dataclasses.field(default_factory=dict)
    build: CppBuild | None = None
    storages: list[Storage] = dataclasses.field(default_factory=list)
    nodes: list[GraphNode] | None = None
    buffers: list[tuple[str, str]] = dataclasses.field(default_factory=list)


class _Values(Scanner):
    """Reads operands, types and other fields of lines."""

    def symbol(self) -> sympy.Symbol:
        return symbol(self.name())

    def listed(self, opener: str, closer: str, read: Callable[[], Any]) -> tuple[Any, ...]:
        """Items between brackets, separated by commas."""
        self.expect(opener)
        items: list[Any] = []
        while not self.take(closer):
            if items:
                self.expect(",")
            items.append(read())
        return tuple(items)

    def dim(self) -> Dim:
        return as_dim(self.braced())  # type: ignore[arg-type]

    def braced(self) -> sympy.Basic:
        self.expect("{")
        found = self.expr("}")
        self.expect("}")
        return found

    def dims(self, opener: str = "[", closer: str = "]") -> tuple[Dim, ...]:
        return self.listed(opener, closer, lambda: as_dim(self.expr(f",{closer}")))  # type: ignore[arg-type]

    def dtype(self) -> torch.dtype:
        start = self.at
        found = getattr(torch, self.name(), None)
        if not isinstance(found, torch.dtype):
            self.at = start
            raise self.fail("a dtype")
        return found

    def torch_device(self) -> torch.device:
        start = self.at
        try:
            return torch.device(self.device())
        except RuntimeError as error:
            self.at = start
            raise self.fail("a device") from error

    def tensor_type(self) -> TensorType:
        dtype = self.dtype()
        size, stride = self.dims(), self.dims("{", "}")
        device = self.torch_device()
        offset = self.dim() if self.take("+") else 0
        if len(size) != len(stride):
            raise self.fail(f"{len(size)} strides")
        return TensorType(dtype=dtype, device=device, size=size, stride=stride, offset=offset)

    def value(self) -> Value:
        self.skip()
        head = self.text[self.at : self.at + 1]
        if head == "[":
            return ListValue(self.listed("[", "]", self.value))
        if head == "(":
            return TupleValue(self.listed("(", ")", self.value))
        if head == "{":
            return SymExpr(self.braced())
        if head == '"':
            return Scalar(self.string())
        if head == "%":
            self.expect("%")
            return NodeRef(self.name())
        if head.isdigit() or head == "-" or self.peek("inf") or self.peek("nan"):
            return Scalar(self.number())
        return self.worded()

    def worded(self) -> Value:
        read = _WORDED.get(self.word())
        if read is None:
            return BufferRef(self.name())
        self.name()
        return read(self)

    def enclosed(self, read: Callable[[], Any]) -> Any:
        self.expect("(")
        found = read()
        self.expect(")")
        return found

    def view(self) -> View:
        self.expect("(")
        base = self.value()
        if not isinstance(base, (BufferRef, ConstantRef)):
            raise self.fail("a buffer or constant")
        self.expect(",")
        size = self.dims()
        self.expect(",")
        stride = self.dims()
        self.expect(",")
        offset = self.dim()
        dtype = self.dtype() if self.take(",") else None
        self.expect(")")
        return View(base=base, size=size, stride=stride, offset=offset, dtype=dtype)

    def complex(self) -> Scalar:
        self.expect("(")
        real = float(self.number())
        self.expect(",")
        imag = float(self.number())
        self.expect(")")
        return Scalar(complex(real, imag))

    def truth(self) -> bool:
        if self.take("true"):
            return True
        self.expect("false")
        return False

    def keyword(self) -> tuple[str, Value]:
        key = self.name()
        self.expect("=")
        return key, self.value()

    def step(self) -> tuple[str, Any]:
        return self.name(), self.json()

    def location(self) -> SourceLocation:
        file, line = self.string(), self.integer()
        return SourceLocation(file=file, line=line, function=self.string(), text=self.string())


_WORDED: dict[str, Callable[[_Values], Value]] = {
    "none": lambda scan: NoneValue(),
    "true": lambda scan: Scalar(True),
    "false": lambda scan: Scalar(False),
    "const": lambda scan: ConstantRef(scan.name()),
    "view": lambda scan: scan.view(),
    "complex": lambda scan: scan.complex(),
    "dtype": lambda scan: DTypeValue(scan.enclosed(scan.dtype)),
    "device": lambda scan: DeviceValue(scan.enclosed(scan.torch_device)),
    "layout": lambda scan: LayoutValue(scan.enclosed(scan.name)),
    "memory_format": lambda scan: MemoryFormatValue(scan.enclosed(scan.name)),
    "op": lambda scan: OperatorRef(scan.enclosed(scan.name)),
    "object": lambda scan: ObjectRef(scan.enclosed(scan.name)),
}

_FIELDS: dict[str, Callable[[_Values], Any]] = {
    "bool": lambda scan: scan.truth(),
    "device": lambda scan: scan.torch_device(),
    "dim": lambda scan: scan.dim(),
    "dims": lambda scan: scan.dims(),
    "expr": lambda scan: scan.braced(),
    "int": lambda scan: scan.integer(),
    "kernel": lambda scan: scan.name(),
    "kwargs": lambda scan: scan.listed("(", ")", scan.keyword),
    "name": lambda scan: scan.name(),
    "names": lambda scan: scan.listed("(", ")", scan.name),
    "operands": lambda scan: scan.listed("(", ")", scan.value),
    "path": lambda scan: scan.listed("[", "]", scan.json),
    "steps": lambda scan: scan.listed("[", "]", scan.step),
    "string": lambda scan: scan.string(),
    "symbol": lambda scan: scan.symbol(),
    "type": lambda scan: scan.tensor_type(),
    "value": lambda scan: scan.value(),
}


class _Parser(_Values):
    """Reads the sections of a program's text."""

    def program(self) -> Program:
        self.expect("program")
        name = self.string()
        self.expect("phase=")
        phase: Any = self.name()
        release = self.string() if self.take("torch=") else ""
        self.expect("passes=")
        passes = self.listed("[", "]", self.name)
        parts = _Parts()
        while not self.done():
            section = _SECTIONS.get(self.word())
            if section is None:
                raise self.fail("a section (symbol, constant, func, origin, kernel, build, storage, graph, buffer)")
            self.name()
            section(self, parts)
        return self.assemble(parts, name=name, phase=phase, passes=passes, torch_version=release)

    def assemble(self, parts: _Parts, **header: Any) -> Program:
        functions = tuple(
            Function(
                name=name, inputs=inputs, lines=tuple(self.finished(line, number, parts) for line, number in lines)
            )
            for name, inputs, lines in parts.functions
        )
        if not functions:
            raise self.fail("a function")
        graph = None if parts.nodes is None else Graph(nodes=tuple(parts.nodes), buffers=tuple(parts.buffers))
        return Program(
            main=functions[0],
            functions=functions[1:],
            constants=tuple(parts.constants),
            storages=tuple(parts.storages),
            symbols=tuple(parts.symbols),
            cpp_build=parts.build,
            graph=graph,
            **header,
        )

    def finished(self, line: WrapperLine, number: int | None, parts: _Parts) -> WrapperLine:
        """A line with its origin and its kernel, which stand in sections of their own."""
        changes: dict[str, Any] = {}
        if number is not None:
            if number not in parts.origins:
                raise ProgramTextError(f"there is no origin #{number}")
            changes["origin"] = parts.origins[number]
        if isinstance(line, KernelDefinitionLine):
            kernel: Any = line.kernel
            if kernel not in parts.kernels:
                raise ProgramTextError(f"there is no text of kernel {kernel}")
            changes["kernel"] = parts.kernels[kernel]
        return dataclasses.replace(line, **changes) if changes else line

    # --- sections ---

    def symbol_info(self, parts: _Parts) -> None:
        sym, kind = self.symbol(), self.name()
        found = {word: self.number() for word in ("hint", "lower", "upper") if self.take(f"{word}=")}
        parts.symbols.append(SymbolInfo(symbol=sym, kind=kind, **found))  # type: ignore[arg-type]

    def constant(self, parts: _Parts) -> None:
        name = self.name()
        self.expect(":")
        layout = self.tensor_type()
        self.expect("in")
        parts.constants.append(Constant(name=name, type=layout, storage=self.string()))

    def func(self, parts: _Parts) -> None:
        name = self.name()
        inputs = self.listed("(", ")", self.input)
        self.expect("{")
        lines: list[tuple[Any, int | None]] = []
        while not self.take("}"):
            lines.append(self.line())
        parts.functions.append((name, inputs, lines))

    def input(self) -> Input:
        name = self.name()
        if self.take("="):
            return ScalarInput(name=name, expr=self.dim())
        self.expect(":")
        if self.take("object"):
            return ObjectInput(name=name, kind=self.name())
        donated = self.take("donated")
        return TensorInput(name=name, type=self.tensor_type(), donated=donated)

    def line(self) -> tuple[Any, int | None]:
        """A line and the number of its origin."""
        kind = BY_WORD.get(self.word())
        if kind is None:
            raise self.fail("a line")
        fields = self.fields(kind)
        number = None
        if self.take(";"):
            self.expect("#")
            number = self.integer()
        return kind(**fields), number

    def fields(self, kind: type[Line]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for part in FORMATS[kind]:
            if isinstance(part, str):
                self.expect(part)
            elif isinstance(part, Flag):
                found[part.name] = self.take(part.word)
            elif isinstance(part, Optional):
                given = self.take(part.word)
                found[part.name] = _FIELDS[part.kind](self) if given else default_of(kind, part.name)
                if found[part.name] is None and part.kind == "names":
                    found[part.name] = ()
            else:
                found[part.name] = _FIELDS[part.kind](self)
        return found

    def origin(self, parts: _Parts) -> None:
        self.expect("#")
        number = self.integer()
        self.expect("ops")
        ops = self.listed("[", "]", self.name)
        self.expect("nodes")
        nodes = self.listed("[", "]", self.name)
        self.expect("at")
        locations = self.listed("[", "]", self.location)
        parts.origins[number] = Origin(nodes=nodes, ops=ops, locations=locations)

    def kernel(self, parts: _Parts) -> None:
        name = self.name()
        record = self.record()
        self.rest_of_line()
        if not isinstance(record, MultiKernel):
            source: list[str] = []
            while self.text.startswith("  |", self.at):
                source.append(self.rest_of_line()[4:])
            record = dataclasses.replace(record, source="\n".join(source))
        parts.kernels[name] = record

    def record(self) -> Any:
        start = self.at
        try:
            return decode(self.json())
        except (KeyError, TypeError, ValueError) as error:
            self.at = start
            raise self.fail("a record") from error

    def build(self, parts: _Parts) -> None:
        parts.build = self.record()

    def storage(self, parts: _Parts) -> None:
        key = self.string()
        self.expect("nbytes")
        nbytes = self.integer()
        self.expect("data")
        start = self.at
        try:
            data = None if self.take("none") else base64.b64decode(self.string(), validate=True)
        except binascii.Error as error:
            self.at = start
            raise self.fail("base64 data") from error
        parts.storages.append(Storage(key=key, nbytes=nbytes, data=data))

    def graph(self, parts: _Parts) -> None:
        parts.nodes = []
        self.expect("{")
        while not self.take("}"):
            parts.nodes.append(self.node())

    def node(self) -> GraphNode:
        self.expect("%")
        name = self.name()
        self.expect("=")
        op: Any = self.name()
        target = self.name()
        args = self.listed("(", ")", self.value)
        kwargs = self.listed("(", ")", self.keyword) if self.take("with") else ()
        layout = self.tensor_type() if self.take(":") else None
        location = self.location() if self.take("at") else None
        return GraphNode(name=name, op=op, target=target, args=args, kwargs=kwargs, type=layout, location=location)

    def buffer(self, parts: _Parts) -> None:
        name = self.name()
        self.expect("%")
        parts.buffers.append((name, self.name()))


_SECTIONS: dict[str, Callable[[_Parser, _Parts], None]] = {
    "symbol": _Parser.symbol_info,
    "constant": _Parser.constant,
    "func": _Parser.func,
    "origin": _Parser.origin,
    "kernel": _Parser.kernel,
    "build": _Parser.build,
    "storage": _Parser.storage,
    "graph": _Parser.graph,
    "buffer": _Parser.buffer,
}
