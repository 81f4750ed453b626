"""Typed operands of wrapper lines, and the type of a tensor.

Every operand says by its class what it is (A2): nothing is guessed from the spelling of a name. Must not
live here: lines (see ``lines``), anything that computes with a tensor's data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import sympy
import torch

Dim: TypeAlias = "int | sympy.Expr"
"""A size, stride or offset, in elements: a plain ``int`` when static, else a sympy expression over symbols."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorType:
    """The layout of one tensor: dtype, device, size, stride and storage offset (the last three in elements)."""

    dtype: torch.dtype
    device: torch.device
    size: tuple[Dim, ...]
    stride: tuple[Dim, ...]
    offset: Dim = 0

    def __post_init__(self) -> None:
        if len(self.size) != len(self.stride):
            raise ValueError(f"size {self.size} and stride {self.stride} differ in rank")

    @property
    def is_static(self) -> bool:
        """True when no size, stride or offset is symbolic."""
        return all(isinstance(dim, int) for dim in (*self.size, *self.stride, self.offset))

    def storage_elems(self) -> Dim:
        """Elements a fresh storage needs to hold this layout (offset included)."""
        if any(dim == 0 for dim in self.size):
            return 0
        span = sum((size - 1) * stride for size, stride in zip(self.size, self.stride, strict=True))
        return 1 + span + self.offset

    def nbytes(self) -> Dim:
        """Bytes a fresh storage needs to hold this layout."""
        return self.storage_elems() * self.dtype.itemsize

    def numel(self) -> Dim:
        """Number of elements."""
        return math.prod(self.size)


@dataclass(frozen=True, slots=True)
class BufferRef:
    """A tensor (or a pack of tensors) defined by an input or an earlier line."""

    name: str


@dataclass(frozen=True, slots=True)
class ConstantRef:
    """A tensor stored with the program."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A reinterpretation of ``base``'s storage.

    ``size``, ``stride`` and ``offset`` are in elements of the base's dtype; ``offset`` counts from the start of
    ``base`` itself. With ``dtype`` set the bits are then read as that dtype (``Tensor.view(dtype)``).
    """

    base: BufferRef | ConstantRef
    size: tuple[Dim, ...]
    stride: tuple[Dim, ...]
    offset: Dim = 0
    dtype: torch.dtype | None = None


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number, truth value or string known at compile time."""

    value: bool | int | float | complex | str

    def __eq__(self, other: object) -> bool:
        """Equal type and equal bits: ``1 != True``, ``0.0 != -0.0``, ``nan == nan``."""
        return isinstance(other, Scalar) and type(self.value) is type(other.value) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


@dataclass(frozen=True, slots=True)
class SymExpr:
    """A number computed on the host from symbols."""

    expr: sympy.Basic


@dataclass(frozen=True, slots=True)
class NoneValue:
    """An absent optional operand."""


@dataclass(frozen=True, slots=True)
class DTypeValue:
    """A dtype passed to an operator."""

    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class DeviceValue:
    """A device passed to an operator."""

    device: torch.device


@dataclass(frozen=True, slots=True)
class LayoutValue:
    """A ``torch.layout`` by its name, such as ``strided``."""

    name: str


@dataclass(frozen=True, slots=True)
class MemoryFormatValue:
    """A ``torch.memory_format`` by its name, such as ``channels_last``."""

    name: str


@dataclass(frozen=True, slots=True)
class OperatorRef:
    """An operator passed as an argument, by qualified overload name (``aten.add.Tensor``)."""

    name: str


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """A non-tensor object that enters through an input: random generator, script object, process group."""

    name: str


@dataclass(frozen=True, slots=True)
class NodeRef:
    """A node of the recorded FX graph; occurs in ``Graph`` only, never in a line."""

    name: str


@dataclass(frozen=True, slots=True)
class ListValue:
    """A list of operands."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class TupleValue:
    """A tuple of operands (kept apart from a list where the operator tells them apart)."""

    items: tuple[Value, ...]


Value: TypeAlias = (
    "BufferRef | ConstantRef | View | Scalar | SymExpr | NoneValue | DTypeValue | DeviceValue | LayoutValue"
    " | MemoryFormatValue | OperatorRef | ObjectRef | NodeRef | ListValue | TupleValue"
)
TensorValue: TypeAlias = "BufferRef | ConstantRef | View"
