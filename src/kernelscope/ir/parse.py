"""Reads a program from its text form; the inverse of ``text.print_program``.

Must not live here: how an operand or a type is read (see ``parse_values``).
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kernelscope.ir.codec import RecordError, decode
from kernelscope.ir.expr import symbol
from kernelscope.ir.formats import BY_WORD, FORMATS, Flag, Optional, Result, left_out
from kernelscope.ir.kernels import CppBuild, CppKernel, Kernel, MultiKernel, TritonKernel
from kernelscope.ir.lines import KernelDefinitionLine, Line, Origin, WrapperLine
from kernelscope.ir.parse_values import KINDS, ValueReader
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


def parse_program(text: str) -> Program:
    """The program whose text this is.

    Raises:
        ProgramTextError: it is no program's text; says where and what was expected.
    """
    parser = _Parser(text)
    try:
        return parser.program()
    except RecursionError as error:
        raise parser.fail("lists and expressions that are nested less deeply") from error


def parse_line(text: str, kernels: Mapping[str, Kernel] | None = None) -> WrapperLine:
    """The line whose text this is, without an origin.

    Args:
        text: What ``print_line`` printed.
        kernels: The kernels that the line may define, by name.

    Raises:
        ProgramTextError: it is no line's text, or defines a kernel that is not among ``kernels``.
    """
    parser = _Parser(text)
    draft = parser.draft()
    if not parser.done():
        raise parser.fail("the end of the line")
    line: WrapperLine = parser.line(draft, kernels or {}, {})
    return line


class _Draft(NamedTuple):
    """A line as it was read: its origin and a defined kernel stand elsewhere, and are known by number and name."""

    kind: type[Line]
    fields: dict[str, Any]
    origin: int | None
    at: int
    origin_at: int


@dataclasses.dataclass(slots=True)
class _Parts:
    """What has been read so far."""

    symbols: list[SymbolInfo] = dataclasses.field(default_factory=list)
    constants: list[Constant] = dataclasses.field(default_factory=list)
    functions: list[tuple[str, tuple[Input, ...], list[_Draft]]] = dataclasses.field(default_factory=list)
    origins: dict[int, Origin] = dataclasses.field(default_factory=dict)
    kernels: dict[str, Kernel] = dataclasses.field(default_factory=dict)
    build: CppBuild | None = None
    storages: list[Storage] = dataclasses.field(default_factory=list)
    nodes: list[GraphNode] | None = None
    buffers: list[tuple[str, str]] = dataclasses.field(default_factory=list)


class _Parser(ValueReader):
    """Reads the sections of a program's text."""

    def program(self) -> Program:
        self.expect("program")
        name = self.string()
        self.expect("phase=")
        phase: Any = self.choice("inference", "forward", "backward")
        release = self.string() if self.take("torch=") else ""
        self.expect("passes=")
        passes = self.listed("[", "]", self.name)
        parts = _Parts()
        while not self.done():
            word = self.word()
            section = _SECTIONS.get(word)
            if section is None:
                raise self.fail(f"a section ({', '.join(_SECTIONS)})")
            self.at += len(word)
            section(self, parts)
        return self.assemble(parts, name=name, phase=phase, passes=passes, torch_version=release)

    def assemble(self, parts: _Parts, **header: Any) -> Program:
        if not parts.functions:
            raise self.fail("a function")
        functions = tuple(
            Function(
                name=name,
                inputs=inputs,
                lines=tuple([self.line(draft, parts.kernels, parts.origins) for draft in drafts]),
            )
            for name, inputs, drafts in parts.functions
        )
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

    # --- lines ---

    def draft(self) -> _Draft:
        """A line, up to its end."""
        self.skip()
        start = self.at
        result = None
        kind = None if self.punctuation("$") else BY_WORD.get(self.word())
        if kind is None:
            if not (self.word() or self.punctuation("$")):
                raise self.fail("a line")
            result = self.name()
            if not self.take("="):
                raise self.fail("a line", start)
            kind = BY_WORD.get(self.word())
            if kind is None or not isinstance(FORMATS[kind][0], Result):
                raise self.fail("the word of a line that has a result")
        fields = self.fields(kind, result, start)
        number, origin_at = None, self.at
        if self.take(";"):
            self.expect("#")
            origin_at = self.at
            number = self.integer()
            self.rest_of_line()  # a remark for the reader
        return _Draft(kind, fields, number, start, origin_at)

    def fields(self, kind: type[Line], result: str | None, start: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for part in FORMATS[kind]:
            if isinstance(part, str):
                self.expect(part)
            elif isinstance(part, Result):
                if result is None and not part.optional:
                    raise self.fail("the name of the line's result and '='", start)
                found[part.name] = symbol(result) if result is not None and part.kind == "symbol" else result
            elif isinstance(part, Flag):
                found[part.name] = self.take(part.word) is part.when
            elif isinstance(part, Optional):
                found[part.name] = KINDS[part.kind](self) if self.take(part.word) else left_out(kind, part)
            else:
                found[part.name] = KINDS[part.kind](self)
        return found

    def line(self, draft: _Draft, kernels: Mapping[str, Kernel], origins: Mapping[int, Origin]) -> Any:
        """A line with its origin and its kernel, which stand in sections of their own."""
        if draft.origin is not None:
            if draft.origin not in origins:
                raise self.fail("the number of an origin that has a section", draft.origin_at)
            draft.fields["origin"] = origins[draft.origin]
        if draft.kind is KernelDefinitionLine:
            name = draft.fields["kernel"]
            if name not in kernels:
                raise self.fail(f"a kernel that has a section, not {name}", draft.at)
            draft.fields["kernel"] = kernels[name]
        return draft.kind(**draft.fields)

    # --- sections ---

    def symbol_info(self, parts: _Parts) -> None:
        sym = self.symbol()
        kind: Any = self.choice("backed", "unbacked")
        hint = self.number() if self.take("hint=") else None
        lower = self.integer() if self.take("lower=") else None
        upper = self.integer() if self.take("upper=") else None
        parts.symbols.append(SymbolInfo(symbol=sym, kind=kind, hint=hint, lower=lower, upper=upper))

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
        drafts: list[_Draft] = []
        while not self.take("}"):
            drafts.append(self.draft())
        parts.functions.append((name, inputs, drafts))

    def input(self) -> Input:
        name = self.name()
        if self.take("="):
            return ScalarInput(name=name, expr=self.dim())
        self.expect(":")
        if self.take("object"):
            return ObjectInput(name=name, kind=self.name())
        donated = self.take("donated")
        return TensorInput(name=name, type=self.tensor_type(), donated=donated)

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
        self.skip()
        start = self.at
        name = self.name()
        if name in parts.kernels:
            raise self.fail(f"one section for kernel {name}, not two", start)
        self.skip()
        start = self.at
        fields = self.json()
        if not isinstance(fields, dict):
            raise self.fail("a kernel's record", start)
        self.rest_of_line()
        fields["name"] = name
        if self.text.startswith("  |", self.at):
            fields["source"] = self.block()
        parts.kernels[name] = self.record(fields, CppKernel | TritonKernel | MultiKernel, start)

    def block(self) -> str:
        """Text whose lines are marked by a bar each."""
        found: list[str] = []
        while self.text.startswith("  |", self.at):
            found.append(self.rest_of_line()[4:])
        return "\n".join(found)

    def record(self, fields: Any, kind: Any, start: int) -> Any:
        try:
            return decode(fields, kind)
        except RecordError as error:
            raise self.fail(f"a sound record ({error})", start) from error

    def build(self, parts: _Parts) -> None:
        self.skip()
        start = self.at
        parts.build = self.record(self.json(), CppBuild, start)

    def storage(self, parts: _Parts) -> None:
        key = self.string()
        self.expect("nbytes")
        nbytes = self.integer()
        self.expect("data")
        self.skip()
        start = self.at
        try:
            data = None if self.take("none") else base64.b64decode(self.string(), validate=True)
        except binascii.Error as error:
            raise self.fail("base64 data", start) from error
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
        op: Any = self.choice("placeholder", "get_attr", "call_function", "output", "opaque")
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
