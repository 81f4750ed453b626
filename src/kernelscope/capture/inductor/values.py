"""Inductor's IR nodes as typed operands.

What ``codegen_reference`` would print as text becomes a value here. Must not live here: lines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.virtualized import V

from kernelscope.errors import UnsupportedError
from kernelscope.ir.expr import canonical, canonical_dim
from kernelscope.ir.values import (
    BufferRef,
    ConstantRef,
    DeviceValue,
    Dim,
    DTypeValue,
    LayoutValue,
    ListValue,
    MemoryFormatValue,
    NoneValue,
    ObjectRef,
    OperatorRef,
    Scalar,
    SymExpr,
    TensorType,
    TensorValue,
    TupleValue,
    Value,
    View,
)


def dims(shape: Any) -> tuple[Dim, ...]:
    """A size or stride tuple, canonical."""
    return tuple(canonical_dim(dim) for dim in shape)


def tensor_type(node: Any) -> TensorType:
    """The type of a buffer, view or box of Inductor's IR."""
    layout = node.get_layout() if hasattr(node, "get_layout") else node.layout
    return layout_type(layout)


def layout_type(layout: Any) -> TensorType:
    """The type that one of Inductor's layouts describes."""
    return TensorType(
        dtype=layout.dtype,
        device=layout.device,
        size=dims(layout.size),
        stride=dims(layout.stride),
        offset=canonical_dim(layout.offset),
    )


def named_tensor(name: str) -> BufferRef | ConstantRef:
    """The operand that a buffer's name stands for in the current graph."""
    return ConstantRef(name) if name in V.graph.constants else BufferRef(name)


def to_tensor_value(node: Any) -> TensorValue:
    """A tensor operand.

    Raises:
        UnsupportedError: the node is not a tensor.
    """
    value = to_value(node)
    if not isinstance(value, (BufferRef, ConstantRef, View)):
        raise UnsupportedError(f"expected a tensor operand, got {value}", where=type(node).__name__)
    return value


def to_value(node: Any) -> Value:
    """Any operand of a call that Inductor makes, typed.

    Raises:
        UnsupportedError: the IR has no value of this kind.
    """
    for kinds, convert in _CONVERSIONS:
        if isinstance(node, kinds):
            return convert(node)
    raise UnsupportedError(
        f"an operand of type {type(node).__module__}.{type(node).__qualname__} has no form in the wrapper IR",
        where=_current_operator(),
        hint='set on_unsupported="inductor" to run this graph by plain Inductor',
    )


def _current_operator() -> str:
    node = getattr(V.graph, "current_node", None)
    return f"operator {node.target}" if node is not None else ""


def _scalar_or_expr(expr: sympy.Basic) -> Value:
    if isinstance(expr, sympy.Integer):
        return Scalar(int(expr))
    if expr in (sympy.true, sympy.false):
        return Scalar(bool(expr))
    if isinstance(expr, (sympy.Float, sympy.Rational)):
        return Scalar(float(expr))
    return SymExpr(canonical(expr))


def _number(value: Any) -> Value:
    # Subclasses of int and float (enumerations, numpy scalars) become plain numbers.
    kinds: tuple[type[Any], ...] = (bool, int, float, complex, str)
    return Scalar(next(kind(value) for kind in kinds if isinstance(value, kind)))


def _reinterpreted(view: ir.ReinterpretView) -> TensorValue:
    """A view operand, the base itself where the view changes nothing.

    Follows Inductor: a chain of views with one offset collapses onto the innermost buffer, whose layout is then
    the one to compare with.
    """
    base = named_tensor(view.data.get_name())
    layout = view.layout
    base_layout = _collapsed_layout(view.data, layout.offset)
    same = (
        list(layout.size) == list(base_layout.size)
        and list(layout.stride) == list(base_layout.stride)
        and layout.offset == base_layout.offset
    )
    recast = layout.dtype if layout.dtype != base_layout.dtype else None
    if same and recast is None:
        return base
    # An offset counts from the start of the base; a base that is viewed in place keeps its own.
    offset = 0 if same else canonical_dim(layout.offset)
    return View(base=base, size=dims(layout.size), stride=dims(layout.stride), offset=offset, dtype=recast)


def _collapsed_layout(data: Any, offset: Any) -> Any:
    current, layouts = data, []
    while isinstance(current, (ir.TensorBox, ir.StorageBox, ir.ReinterpretView)):
        layouts.append(current.get_layout())
        current = current.data
    if isinstance(current, ir.Buffer):
        layouts.append(current.get_layout())
        innermost = layouts[-1]
        if all(layout.offset == innermost.offset for layout in layouts) and offset == innermost.offset:
            return innermost
    return data.get_layout()


def _sequence(kind: type[ListValue] | type[TupleValue]) -> Callable[[Any], Value]:
    return lambda items: kind(tuple(to_value(item) for item in items))


_SYM_TYPES = (torch.SymInt, torch.SymFloat, torch.SymBool)

_CONVERSIONS: tuple[tuple[Any, Callable[[Any], Value]], ...] = (
    (type(None), lambda node: NoneValue()),
    ((bool, int, float, complex, str), _number),
    (sympy.Basic, _scalar_or_expr),
    (_SYM_TYPES, lambda node: _scalar_or_expr(node.node.expr)),
    (torch.Size, _sequence(ListValue)),
    (tuple, _sequence(TupleValue)),
    (list, _sequence(ListValue)),
    (torch.dtype, DTypeValue),
    (torch.device, DeviceValue),
    (torch.layout, lambda node: LayoutValue(str(node).removeprefix("torch."))),
    (torch.memory_format, lambda node: MemoryFormatValue(str(node).removeprefix("torch."))),
    (torch._ops.OpOverload, lambda node: OperatorRef(str(node))),
    (ir.NoneAsConstantBuffer, lambda node: NoneValue()),
    (ir.ShapeAsConstantBuffer, lambda node: _scalar_or_expr(sympy.sympify(node.expr))),
    (ir.ReinterpretView, _reinterpreted),
    ((ir.TensorBox, ir.StorageBox), lambda node: to_value(node.data)),
    (ir.NonTensorObj, lambda node: ObjectRef(node.get_name())),
    (ir.ConstantBuffer, lambda node: ConstantRef(node.get_name())),
    (ir.Buffer, lambda node: named_tensor(node.get_name())),
)
