"""Operands to run-time values, under an environment of names and symbols."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from types import CodeType
from typing import Any

import sympy
import torch
from typing_extensions import assert_never

from kernelscope.errors import InternalError
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
    TupleValue,
    Value,
    View,
)
from kernelscope.runtime.host import operator, reinterpret_tensor

Environment = Mapping[str, Any]
"""Values by name: tensors, packs, objects, and numbers for symbols."""


@functools.lru_cache(maxsize=8192)
def _code(expr: sympy.Basic) -> CodeType:
    return compile(python_expr(expr), "<expression>", "eval")


def number(expr: Dim | sympy.Basic, env: Environment) -> Any:
    """A size, scalar or condition as a number."""
    if isinstance(expr, int):
        return expr
    return eval(_code(expr), {"math": math, "torch": torch}, dict(env))


def shape(dims: tuple[Dim, ...], env: Environment) -> tuple[int, ...]:
    """A size or stride tuple as numbers."""
    return tuple(number(dim, env) for dim in dims)


def value(operand: Value, env: Environment) -> Any:
    """The run-time value of an operand."""
    match operand:
        case BufferRef(name) | ConstantRef(name) | ObjectRef(name):
            return env[name]
        case View():
            base = env[operand.base.name]
            offset = number(operand.offset, env)
            view = reinterpret_tensor(base, shape(operand.size, env), shape(operand.stride, env), offset)
            return view if operand.dtype is None else view.view(operand.dtype)
        case Scalar(value=literal):
            return literal
        case SymExpr(expr=expr):
            return number(expr, env)
        case NoneValue():
            return None
        case DTypeValue(dtype=dtype):
            return dtype
        case DeviceValue(device=device):
            return device
        case LayoutValue(name=name) | MemoryFormatValue(name=name):
            return getattr(torch, name)
        case OperatorRef(name=name):
            return operator(name)
        case ListValue(items=items):
            return [value(item, env) for item in items]
        case TupleValue(items=items):
            return tuple(value(item, env) for item in items)
        case NodeRef(name=name):
            raise InternalError(f"graph node {name} in a line")
        case _:
            assert_never(operand)


def values(operands: tuple[Value, ...], env: Environment) -> list[Any]:
    """The run-time values of operands."""
    return [value(operand, env) for operand in operands]
