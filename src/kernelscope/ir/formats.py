"""How each line kind is spelled: one table that the printer and the parser share (A6).

A format is a sequence of literal words and fields. ``Field(name, kind)`` is always there; ``Optional(word, name,
kind)`` is there, after its word, only when the field differs from its default; ``Flag(word, name)`` is the word when
a truth value is set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from kernelscope.ir import lines as l


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a line, spelled as ``kind``."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Optional:
    """A word and a field, left out at the field's default."""

    word: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Flag:
    """A word that stands for a field that is True."""

    word: str
    name: str


Part: TypeAlias = "str | Field | Optional | Flag"
Format: TypeAlias = "tuple[Part, ...]"

_NAME = Field("name", "name")
_SYMBOL = Field("symbol", "symbol")
_CALL: Format = (Field("op", "name"), Field("args", "operands"), Optional("with", "kwargs", "kwargs"))
_EFFECTS: Format = (Optional("mutates", "mutates", "names"), Optional("aliases", "aliases", "names"))
_RESULT: Format = (Optional("gives", "result", "name"), Optional(":", "type", "type"))

FORMATS: dict[type[l.Line], Format] = {
    l.AllocateLine: (
        "allocate",
        _NAME,
        ":",
        Field("type", "type"),
        Optional("padded", "allocation_size", "dims"),
        Flag("pinned", "pinned"),
        Flag("workspace", "workspace"),
    ),
    l.FreeIfNotReusedLine: ("free_if_not_reused", _NAME),
    l.ReuseLine: (
        "reuse",
        Field("old", "name"),
        "as",
        Field("new", "name"),
        ":",
        Field("type", "type"),
        Optional("delete", "delete_old", "bool"),
    ),
    l.NullLine: ("null",),
    l.ReinterpretLine: ("alias", _NAME, "=", Field("value", "value"), ":", Field("type", "type")),
    l.FreeLine: ("free", _NAME),
    l.KernelDefinitionLine: ("define", Field("kernel", "kernel")),
    l.KernelCallLine: (
        "call",
        Field("kernel", "name"),
        Field("args", "operands"),
        Optional("reads", "reads", "names"),
        Optional("writes", "writes", "names"),
        "on",
        Field("device", "device"),
        Optional("stream", "stream", "int"),
    ),
    l.ExternKernelLine: ("extern", *_CALL, "into", Field("out", "value")),
    l.ExternKernelAllocLine: ("extern_alloc", *_CALL, *_RESULT, *_EFFECTS),
    l.ExternKernelMultiOutLine: ("extern_multi_out", *_CALL, "into", Field("outs", "kwargs")),
    l.MultiOutputLine: (
        "element",
        _NAME,
        "=",
        Field("source", "name"),
        Field("path", "path"),
        Optional(":", "type", "type"),
        Optional("aliases", "aliases", "names"),
    ),
    l.ScatterFallbackLine: (
        "scatter",
        Field("op", "name"),
        Field("target", "value"),
        "dim",
        Field("dim", "int"),
        "index",
        Field("index", "value"),
        "from",
        Field("src", "value"),
        Optional("with", "kwargs", "kwargs"),
    ),
    l.IndexPutFallbackLine: (
        "index_put",
        Field("op", "name"),
        Field("target", "value"),
        "at",
        Field("indices", "operands"),
        "from",
        Field("values", "value"),
        "accumulate",
        Field("accumulate", "bool"),
    ),
    l.CopyLine: ("copy", Field("src", "value"), "to", Field("dst", "value"), Flag("non_blocking", "non_blocking")),
    l.CollectiveLine: ("collective", *_CALL, *_RESULT, *_EFFECTS),
    l.BindSymbolLine: (
        "bind",
        _SYMBOL,
        "=",
        Field("attribute", "name"),
        "of",
        Field("source", "name"),
        Optional("dim", "dim", "int"),
    ),
    l.SymbolicCallArgLine: ("let", _SYMBOL, "=", Field("expr", "expr")),
    l.DynamicScalarLine: (
        "item",
        _SYMBOL,
        "=",
        Field("source", "value"),
        Optional("convert", "convert", "name"),
        Optional("by", "divisor", "int"),
    ),
    l.DynamicSelectLine: (
        "select_offset",
        _SYMBOL,
        "=",
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
        "slice_length",
        _SYMBOL,
        "=",
        Field("start", "dim"),
        "to",
        Field("end", "dim"),
        "step",
        Field("step", "dim"),
        "size",
        Field("size", "dim"),
    ),
    l.UnbackedSymbolDefsLine: ("read", _SYMBOL, "=", Field("source", "name"), Field("path", "steps")),
    l.AssertSizeStrideLine: (
        "assert_layout",
        _NAME,
        Field("size", "dims"),
        Field("stride", "dims"),
        "of",
        Field("label", "string"),
    ),
    l.AssertAlignmentLine: (
        "assert_aligned",
        _NAME,
        "to",
        Field("alignment_bytes", "int"),
        "of",
        Field("label", "string"),
    ),
    l.AssertScalarLine: ("assert", Field("condition", "expr"), "else", Field("message", "string")),
    l.AlignInputLine: ("align", _NAME),
    l.EnterDeviceLine: ("enter_device", Field("device", "device"), Optional("streams", "num_streams", "int")),
    l.ExitDeviceLine: ("exit_device",),
    l.EnterStreamLine: ("enter_stream", Field("stream", "int")),
    l.ExitStreamLine: ("exit_stream",),
    l.InvokeSubgraphLine: (
        "invoke",
        Field("result", "name"),
        "=",
        Field("function", "name"),
        Field("operands", "operands"),
        Optional("mutates", "mutates", "names"),
    ),
    l.ConditionalLine: (
        "if",
        Field("result", "name"),
        "=",
        Field("predicate", "value"),
        "then",
        Field("true_function", "name"),
        "else",
        Field("false_function", "name"),
        Field("operands", "operands"),
        Optional("mutates", "mutates", "names"),
    ),
    l.WhileLoopLine: (
        "while",
        Field("result", "name"),
        "=",
        Field("cond_function", "name"),
        "do",
        Field("body_function", "name"),
        "carried",
        Field("carried", "operands"),
        "additional",
        Field("additional", "operands"),
        Flag("stacked", "stack_outputs"),
        Optional("mutates", "mutates", "names"),
    ),
    l.CommentLine: ("comment", Field("text", "string")),
    l.ReturnLine: ("return", Field("values", "operands")),
}

BY_WORD: dict[str, type[l.Line]] = {str(spelling[0]): kind for kind, spelling in FORMATS.items()}
