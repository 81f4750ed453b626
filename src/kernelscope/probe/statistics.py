"""Statistics of a tensor's values: one native pass on the CPU, PyTorch's operators elsewhere.

Counts are over all elements; minimum, maximum, mean and standard deviation over the finite ones, so that one NaN does
not spoil them.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch

from kernelscope.runtime.native_module import observe

_KINDS = (
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, None),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
)
"""Dtypes by the number that the native module has for them; one-byte floats go through a table."""
_TABLE_KIND = _KINDS.index(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Statistics of one tensor.

    Attributes:
        count: Elements.
        nan: NaN elements (of a complex number: in either part).
        positive_inf: Elements that are +Inf.
        negative_inf: Elements that are -Inf.
        zero: Elements that are 0 or -0.
        subnormal: Elements that are subnormal numbers of the dtype; None where that was not counted.
        min: Least finite value; None where there is none.
        max: Greatest finite value; None where there is none.
        mean: Mean of the finite values; None where there is none.
        std: Their standard deviation, with Bessel's correction as ``torch.std`` has it; None with fewer than two.
        first_nan: Position of the first NaN in row-major order.
        argmin: Position of ``min``.
        argmax: Position of ``max``.
        hash: 64 bits that depend on every bit of the elements and on their order in memory: equal tensors have equal
            hashes where their dimensions lie in memory in the same order. None where the data was not hashed.
    """

    count: int
    nan: int = 0
    positive_inf: int = 0
    negative_inf: int = 0
    zero: int = 0
    subnormal: int | None = None
    min: float | int | None = None
    max: float | int | None = None
    mean: float | None = None
    std: float | None = None
    first_nan: int | None = None
    argmin: int | None = None
    argmax: int | None = None
    hash: int | None = None

    @property
    def inf(self) -> int:
        """Elements that are infinite."""
        return self.positive_inf + self.negative_inf


def statistics(tensor: torch.Tensor) -> Statistics:
    """Statistics of a strided tensor of any dtype; a complex tensor's are of its magnitudes.

    Mean and deviation are summed in blocks of 4096 elements, in the element's own precision (float32 for shorter
    dtypes) over 64-byte vectors, and blocks are joined in float64: the mean's error is below 2^-16 of the mean
    magnitude for float32, whatever the size.
    """
    native = observe() if tensor.device.type == "cpu" else None
    kind = dtype_kind(tensor.dtype)
    if native is None or kind is None or tensor.is_quantized or tensor.is_neg():
        return _by_operators(tensor)
    table = table_of(tensor.dtype)
    numbers = native.statistics(
        tensor.data_ptr(),
        kind,
        tensor.element_size(),
        tuple(tensor.size()),
        tensor.stride(),
        0 if table is None else table.data_ptr(),
        torch.get_num_threads(),
    )
    return from_numbers(*numbers)


def from_numbers(
    count: int,
    nan: int,
    positive_inf: int,
    negative_inf: int,
    zero: int,
    subnormal: int,
    first_nan: int,
    argmin: int,
    argmax: int,
    low: float | int,
    high: float | int,
    mean: float,
    m2: float,
    bits: int,
) -> Statistics:
    """Statistics from the native module's numbers, where a position of -1 is none."""
    finite = count - nan - positive_inf - negative_inf
    return Statistics(
        count=count,
        nan=nan,
        positive_inf=positive_inf,
        negative_inf=negative_inf,
        zero=zero,
        subnormal=subnormal,
        min=low if finite else None,
        max=high if finite else None,
        mean=mean if finite else None,
        std=math.sqrt(m2 / (finite - 1)) if finite > 1 else None,
        first_nan=None if first_nan < 0 else first_nan,
        argmin=argmin if finite else None,
        argmax=argmax if finite else None,
        hash=bits,
    )


@functools.cache
def dtype_kind(dtype: torch.dtype) -> int | None:
    """The native module's number for a dtype; None where it does not look at it."""
    if dtype in _KINDS:
        return _KINDS.index(dtype)
    one_byte = dtype.is_floating_point and dtype.itemsize == 1 and not str(dtype).endswith("_x2")  # two in a byte
    return _TABLE_KIND if one_byte else None


@functools.cache
def table_of(dtype: torch.dtype) -> torch.Tensor | None:
    """The values of all 256 elements of a one-byte float, then 1 for those that are subnormal; 512 float32."""
    if dtype_kind(dtype) != _TABLE_KIND:
        return None
    values = torch.arange(256, dtype=torch.uint8).view(dtype).float()
    smallest = torch.finfo(dtype).smallest_normal
    subnormal = (values != 0) & (values.abs() < smallest)
    return torch.cat((values, subnormal.float()))


def _by_operators(tensor: torch.Tensor) -> Statistics:
    with torch.no_grad():
        values = _as_float64(tensor.detach())
        nan, infinite = values.isnan(), values.isinf()
        finite = values[~(nan | infinite)]
        positions = torch.arange(values.numel(), device=values.device)[~(nan | infinite)]
        return Statistics(
            count=values.numel(),
            nan=int(nan.sum()),
            positive_inf=int((infinite & (values > 0)).sum()),
            negative_inf=int((infinite & (values < 0)).sum()),
            zero=int((values == 0).sum()),
            first_nan=int(nan.nonzero()[0]) if bool(nan.any()) else None,
            min=finite.min().item() if finite.numel() else None,
            max=finite.max().item() if finite.numel() else None,
            mean=finite.mean().item() if finite.numel() else None,
            std=finite.std().item() if finite.numel() > 1 else None,
            argmin=int(positions[finite.argmin()]) if finite.numel() else None,
            argmax=int(positions[finite.argmax()]) if finite.numel() else None,
        )


def _as_float64(tensor: torch.Tensor) -> torch.Tensor:
    """All elements in row-major order as float64; magnitudes of complex numbers, values of quantised ones."""
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj()).double()
        return torch.hypot(tensor[..., 0], tensor[..., 1]).where(~tensor.isnan().any(-1), math.nan).reshape(-1)
    return tensor.to(torch.float64).reshape(-1)
