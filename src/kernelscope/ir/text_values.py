"""How operands, types and the other fields of lines are spelled in the text form; ``parse_values`` reads them back.

Must not live here: the order of a line's fields (see ``formats``), and a program's sections (see ``text``).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import torch

from kernelscope.ir.expr import to_text
from kernelscope.ir.formats import WORDS
from kernelscope.ir.kernels import Kernel
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

NAME = re.compile(r"[A-Za-z_][\w.]*(?:::[\w.]+)*")
_VALUE_WORDS = frozenset(
    [
        *("none", "true", "false", "inf", "nan", "complex"),
        *("const", "view", "dtype", "device", "layout", "memory_format", "op", "object"),
    ]
)
_SHORT_DTYPE = re.compile(r"(float|bfloat|int|uint|complex)(?=\d)")
_SHORT_PREFIX = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}


@functools.lru_cache(maxsize=16384)
def name(text: str) -> str:
    """A name, quoted where it could be read as something else."""
    plain = NAME.fullmatch(text) and text not in WORDS and text not in _VALUE_WORDS
    return text if plain else f"${string(text)}"


def string(text: str) -> str:
    """A string in quotes; anything but plain ASCII is escaped, so that any text survives any file."""
    return json.dumps(text)


def names(items: Iterable[str]) -> str:
    """Names in parentheses."""
    return f"({', '.join(map(name, items))})"


def listed(shape: Iterable[Dim]) -> str:
    """Sizes, separated by commas."""
    return ", ".join(map(to_text, shape))


def dims(shape: Iterable[Dim]) -> str:
    """A size in brackets."""
    return f"[{listed(shape)}]"


def strides(shape: Iterable[Dim]) -> str:
    """Strides in braces."""
    return f"{{{listed(shape)}}}"


@functools.cache
def dtype(kind: torch.dtype) -> str:
    """A dtype by its short name: ``f32``, ``bf16``, ``i64``, ``bool``, ``f8_e4m3fn``."""
    long = str(kind).removeprefix("torch.")
    return _SHORT_DTYPE.sub(lambda match: _SHORT_PREFIX[match[1]], long, count=1) if _SHORT_DTYPE.match(long) else long


@functools.cache
def dtypes() -> dict[str, torch.dtype]:
    """All dtypes by their short names."""
    return {dtype(kind): kind for kind in vars(torch).values() if isinstance(kind, torch.dtype)}


def tensor_type(layout: TensorType) -> str:
    """A layout: ``f32[8, 4]{4, 1} cpu``, and ``+{offset}`` if there is one."""
    offset = "" if layout.offset == 0 else f" +{expr(layout.offset)}"
    return f"{dtype(layout.dtype)}{dims(layout.size)}{strides(layout.stride)} {layout.device}{offset}"


def expr(expression: Any) -> str:
    """An expression in braces."""
    return f"{{{to_text(expression)}}}"


def scalar(literal: bool | int | float | complex | str) -> str:
    """A literal."""
    if isinstance(literal, bool):
        return "true" if literal else "false"
    if isinstance(literal, str):
        return string(literal)
    if isinstance(literal, complex):
        return f"complex({literal.real!r}, {literal.imag!r})"
    return repr(literal)


def view(operand: View) -> str:
    """A reinterpretation: ``view(buf0, [4]{1} +{2} as i32)``."""
    offset = "" if operand.offset == 0 else f" +{expr(operand.offset)}"
    recast = "" if operand.dtype is None else f" as {dtype(operand.dtype)}"
    return f"view({value(operand.base)}, {dims(operand.size)}{strides(operand.stride)}{offset}{recast})"


def value(operand: Value) -> str:
    """An operand."""
    spell = _VALUES.get(type(operand))
    if spell is None:
        raise TypeError(f"{type(operand).__name__} is no operand")
    return spell(operand)


def operands(items: Iterable[Value]) -> str:
    """Operands in parentheses."""
    return f"({', '.join(map(value, items))})"


def kwargs(pairs: Iterable[tuple[str, Value]]) -> str:
    """Keyword operands in parentheses."""
    return f"({', '.join(f'{name(key)}={value(item)}' for key, item in pairs)})"


def path(steps: Iterable[int | str]) -> str:
    """Indices and keys into a pack."""
    return f"[{', '.join(map(json.dumps, steps))}]"


def steps(items: Iterable[tuple[str, int | str]]) -> str:
    """Steps to a number inside an operator's result."""
    return f"[{', '.join(f'{kind} {json.dumps(argument)}' for kind, argument in items)}]"


_VALUES: dict[type[Any], Callable[[Any], str]] = {
    BufferRef: lambda operand: name(operand.name),
    ConstantRef: lambda operand: f"const {name(operand.name)}",
    View: view,
    Scalar: lambda operand: scalar(operand.value),
    SymExpr: lambda operand: expr(operand.expr),
    NoneValue: lambda operand: "none",
    DTypeValue: lambda operand: f"dtype({dtype(operand.dtype)})",
    DeviceValue: lambda operand: f"device({operand.device})",
    LayoutValue: lambda operand: f"layout({name(operand.name)})",
    MemoryFormatValue: lambda operand: f"memory_format({name(operand.name)})",
    OperatorRef: lambda operand: f"op({name(operand.name)})",
    ObjectRef: lambda operand: f"object({name(operand.name)})",
    NodeRef: lambda operand: f"%{name(operand.name)}",
    ListValue: lambda operand: f"[{', '.join(map(value, operand.items))}]",
    TupleValue: lambda operand: operands(operand.items),
}


def _defined(kernel: Kernel) -> str:
    return name(kernel.name)


KINDS: dict[str, Callable[[Any], str]] = {
    "attribute": str,
    "convert": str,
    "moment": str,
    "device": str,
    "dim": expr,
    "dims": dims,
    "expr": expr,
    "int": str,
    "kernel": _defined,
    "kwargs": kwargs,
    "name": name,
    "names": names,
    "operands": operands,
    "path": path,
    "steps": steps,
    "strides": strides,
    "string": string,
    "symbol": lambda symbol: name(str(symbol)),
    "type": tensor_type,
    "value": value,
}
"""How each kind of field is spelled."""
