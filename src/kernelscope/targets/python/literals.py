"""Operands, sizes and types as Python source: the only place that spells values for the Python target."""

from __future__ import annotations

import keyword
import math

import torch
from typing_extensions import assert_never

from kernelscope.ir.expr import python_expr
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
    TensorValue,
    TupleValue,
    Value,
    View,
)


def identifier(name: str) -> str:
    """``name`` as a Python identifier; names that already are one stay as they are."""
    clean = "".join(char if char.isalnum() or char == "_" else "_" for char in name)
    if not clean or clean[0].isdigit() or keyword.iskeyword(clean):
        clean = f"_{clean}"
    return clean


def operator_alias(name: str) -> str:
    """The module-level name of an operator: ``aten.mm.out`` is ``aten_mm_out``."""
    return identifier(name.replace("::", ".").replace(".", "_"))


def dims(shape: tuple[Dim, ...]) -> str:
    """A size or stride tuple."""
    inner = ", ".join(python_expr(dim) for dim in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def dtype(value: torch.dtype) -> str:
    """A dtype, by the name it has in ``torch``; the module imports it from there."""
    return str(value).removeprefix("torch.")


def device(value: torch.device) -> str:
    """A device."""
    return f"torch.device({str(value)!r})"


def number(value: bool | int | float | complex | str) -> str:
    """A literal; infinities and NaN through ``float``."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    if isinstance(value, complex) and not (math.isfinite(value.real) and math.isfinite(value.imag)):
        return f"complex({number(value.real)}, {number(value.imag)})"
    return repr(value)


def tensor(value: TensorValue) -> str:
    """A tensor operand."""
    if not isinstance(value, View):
        return identifier(value.name)
    view = f"{identifier(value.base.name)}, {dims(value.size)}, {dims(value.stride)}, {python_expr(value.offset)}"
    text = f"reinterpret_tensor({view})"
    return text if value.dtype is None else f"{text}.view({dtype(value.dtype)})"


def value(operand: Value) -> str:
    """Any operand."""
    match operand:
        case BufferRef() | ConstantRef() | View():
            return tensor(operand)
        case Scalar(value=literal):
            return number(literal)
        case SymExpr(expr=expr):
            return python_expr(expr)
        case NoneValue():
            return "None"
        case DTypeValue(dtype=kind):
            return dtype(kind)
        case DeviceValue(device=place):
            return device(place)
        case LayoutValue(name=name) | MemoryFormatValue(name=name):
            return f"torch.{name}"
        case OperatorRef(name=name):
            return operator_alias(name)
        case ObjectRef(name=name) | NodeRef(name=name):
            return identifier(name)
        case ListValue(items=items):
            return f"[{values(items)}]"
        case TupleValue(items=items):
            return f"({values(items)},)" if len(items) == 1 else f"({values(items)})"
        case _:
            assert_never(operand)


def values(operands: tuple[Value, ...]) -> str:
    """Operands, separated by commas."""
    return ", ".join(value(operand) for operand in operands)
