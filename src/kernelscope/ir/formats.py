"""How each line kind is spelled: one table that the printer and the parser share (A6).

A format is a sequence of literal words and parts. Must not live here: how an operand or a type is spelled (see
``text_values`` and ``parse_values``).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, TypeAlias

from kernelscope.ir import lines as l


@dataclass(frozen=True, slots=True)
class Result:
    """The name or symbol that a line defines, spelled ``NAME =`` at its beginning; if ``optional``, it may be None."""

    name: str
    kind: str = "name"
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a line, spelled as ``kind``; ``glued`` to what stands before it."""

    name: str
    kind: str
    glued: bool = False


@dataclass(frozen=True, slots=True)
class Optional:
    """A word and a field, left out at the field's default (an empty tuple or None where it has none)."""

    word: str
    name: str
    kind: str
    glued: bool = False


@dataclass(frozen=True, slots=True)
class Flag:
    """A word that stands for a truth value that is ``when``."""

    word: str
    name: str
    when: bool = True


Part: TypeAlias = "str | Result | Field | Optional | Flag"
Format: TypeAlias = "tuple[Part, ...]"

_NAME = Field("name", "name")
_SYMBOL = Result("symbol", "symbol")
_TYPE = Field("type", "type")
_OP = Field("op", "name")
_WITH = Optional("with", "kwargs", "kwargs", glued=True)
_CALL: Format = (_OP, Field("args", "operands", glued=True), _WITH)
_MUTATES = Optional("mutates", "mutates", "names", glued=True)
_ALIASES = Optional("aliases", "aliases", "names", glued=True)
_OF_TYPE = Optional(":", "type", "type")
_SIZE, _STRIDE = Field("size", "dims"), Field("stride", "strides", glued=True)
_PASSING = Optional("passing", "operands", "operands", glued=True)

_MEMORY: dict[type[l.Line], Format] = {
    l.AllocateLine: (
        Result("name"),
        "allocate",
        _TYPE,
        Optional("padded", "allocation_size", "dims"),
        Flag("pinned", "pinned"),
        Flag("workspace", "workspace"),
    ),
    l.FreeIfNotReusedLine: ("free?", _NAME),
    l.ReuseLine: (
        Result("new"),
        "reuse",
        Field("old", "name"),
        Flag("keeping_old", "delete_old", when=False),
        "as",
        _TYPE,
    ),
    l.NullLine: ("null",),
    l.ReinterpretLine: (Result("name"), "alias", Field("value", "value"), "as", _TYPE),
    l.FreeLine: ("free", _NAME),
}

_CALLS: dict[type[l.Line], Format] = {
    l.KernelDefinitionLine: ("define", Field("kernel", "kernel")),
    l.KernelCallLine: (
        "call",
        Field("kernel", "name"),
        Field("args", "operands", glued=True),
        Optional("reads", "reads", "names", glued=True),
        Optional("writes", "writes", "names", glued=True),
        "on",
        Field("device", "device"),
        Optional("stream", "stream", "int"),
    ),
    l.ExternKernelLine: ("extern", *_CALL, "into", Field("out", "value")),
    l.ExternKernelAllocLine: (Result("result", optional=True), "extern_alloc", *_CALL, _OF_TYPE, _MUTATES, _ALIASES),
    l.ExternKernelMultiOutLine: ("extern_multi_out", *_CALL, "into", Field("outs", "kwargs", glued=True)),
    l.MultiOutputLine: (
        Result("name"),
        "element",
        Field("source", "name"),
        Field("path", "path", glued=True),
        _OF_TYPE,
        _ALIASES,
    ),
    l.ScatterFallbackLine: (
        "scatter",
        _OP,
        "into",
        Field("target", "value"),
        "dim",
        Field("dim", "int"),
        "at",
        Field("index", "value"),
        "from",
        Field("src", "value"),
        _WITH,
    ),
    l.IndexPutFallbackLine: (
        "index_put",
        _OP,
        "into",
        Field("target", "value"),
        "at",
        Field("indices", "operands"),
        "from",
        Field("values", "value"),
        Flag("accumulate", "accumulate"),
    ),
    l.CopyLine: ("copy", Field("src", "value"), "to", Field("dst", "value"), Flag("non_blocking", "non_blocking")),
    l.CollectiveLine: (Result("result", optional=True), "collective", *_CALL, _OF_TYPE, _MUTATES, _ALIASES),
}

_SYMBOLS: dict[type[l.Line], Format] = {
    l.BindSymbolLine: (
        _SYMBOL,
        "bind",
        Field("attribute", "attribute"),
        "of",
        Field("source", "name"),
        Optional("dim", "dim", "int"),
    ),
    l.SymbolicCallArgLine: (_SYMBOL, "compute", Field("expr", "expr")),
    l.DynamicScalarLine: (
        _SYMBOL,
        "item",
        Field("source", "value"),
        Optional("convert", "convert", "convert"),
        Optional("by", "divisor", "int"),
    ),
    l.DynamicSelectLine: (
        _SYMBOL,
        "select_offset",
        Field("base_offset", "dim"),
        "stride",
        Field("base_stride", "dim"),
        "index",
        Field("index", "expr"),
        "size",
        Field("size", "dim"),
        Flag("clamp", "clamp"),
    ),
    l.DynamicSliceLine: (
        _SYMBOL,
        "slice_length",
        Field("start", "dim"),
        "to",
        Field("end", "dim"),
        "step",
        Field("step", "dim"),
        "size",
        Field("size", "dim"),
    ),
    l.UnbackedSymbolDefsLine: (_SYMBOL, "read", Field("source", "name"), Field("path", "steps", glued=True)),
}

_CHECKS: dict[type[l.Line], Format] = {
    l.AssertSizeStrideLine: ("assert_layout", _NAME, _SIZE, _STRIDE, "from", Field("label", "string")),
    l.AssertAlignmentLine: (
        "assert_aligned",
        _NAME,
        "to",
        Field("alignment_bytes", "int"),
        "from",
        Field("label", "string"),
    ),
    l.AssertScalarLine: ("assert", Field("condition", "expr"), "else", Field("message", "string")),
    l.AlignInputLine: ("align", _NAME),
}

_CONTROL: dict[type[l.Line], Format] = {
    l.EnterDeviceLine: ("enter_device", Field("device", "device"), Optional("streams", "num_streams", "int")),
    l.ExitDeviceLine: ("exit_device",),
    l.EnterStreamLine: ("enter_stream", Field("stream", "int")),
    l.ExitStreamLine: ("exit_stream",),
    l.InvokeSubgraphLine: (
        Result("result"),
        "invoke",
        Field("function", "name"),
        Field("operands", "operands", glued=True),
        _MUTATES,
    ),
    l.ConditionalLine: (
        Result("result"),
        "if",
        Field("predicate", "value"),
        "then",
        Field("true_function", "name"),
        "else",
        Field("false_function", "name"),
        _PASSING,
        _MUTATES,
    ),
    l.WhileLoopLine: (
        Result("result"),
        "while",
        Field("cond_function", "name"),
        "do",
        Field("body_function", "name"),
        Optional("carrying", "carried", "operands", glued=True),
        Optional("passing", "additional", "operands", glued=True),
        Flag("stacked", "stack_outputs"),
        _MUTATES,
    ),
    l.CommentLine: ("comment", Field("text", "string")),
    l.ProbeLine: (
        "probe",
        Field("number", "int"),
        Field("moment", "moment"),
        "call",
        Field("call", "int"),
        "of",
        Field("subject", "name"),
        Field("operands", "operands", glued=True),
        Optional("as", "labels", "names", glued=True),
        Optional("written", "written", "names", glued=True),
        Optional("unwritten", "unwritten", "names", glued=True),
    ),
    l.ReturnLine: ("return", Field("values", "operands")),
}

FORMATS: dict[type[l.Line], Format] = {**_MEMORY, **_CALLS, **_SYMBOLS, **_CHECKS, **_CONTROL}

_EMPTY_KINDS = ("names", "operands", "kwargs")


def _words(spelling: Format) -> list[str]:
    return [
        part if isinstance(part, str) else part.word for part in spelling if isinstance(part, (str, Optional, Flag))
    ]


BY_WORD: dict[str, type[l.Line]] = {
    next(part for part in spelling if isinstance(part, str)): kind for kind, spelling in FORMATS.items()
}
"""The line kind by the first word of its format."""

WORDS = frozenset(word for spelling in FORMATS.values() for word in _words(spelling))
"""All words of all formats: a name that is one of them is quoted."""


def _default(kind: type[l.Line], part: Optional) -> Any:
    default = next(field.default for field in dataclasses.fields(kind) if field.name == part.name)
    if default is not dataclasses.MISSING:
        return default
    return () if part.kind in _EMPTY_KINDS else None


_LEFT_OUT = {
    (kind, part.name): _default(kind, part)
    for kind, spelling in FORMATS.items()
    for part in spelling
    if isinstance(part, Optional)
}


def left_out(kind: type[l.Line], part: Optional) -> Any:
    """What an optional field is when its word is not there."""
    return _LEFT_OUT[kind, part.name]
