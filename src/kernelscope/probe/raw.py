"""Records of tensors as the native module packs them: short to make between two launches, read when somebody asks.

The layout is that of ``Raw`` in ``runtime/native/observe.cpp``, followed by sizes and strides.
"""

from __future__ import annotations

import functools
import struct
from types import ModuleType

import torch

from kernelscope.probe.records import TensorRecord, Unwritten
from kernelscope.probe.statistics import dtype_kind, from_numbers, table_of
from kernelscope.runtime.native_module import observe

# Flags of a record.
_REQUIRES_GRAD, _CONTIGUOUS, _PARAMETER, _UNWRITTEN = 1, 2, 4, 8
_RAW = struct.Struct("<2Q12q4d2BHI")


@functools.cache
def looker() -> tuple[ModuleType, dict[int, str]] | None:
    """The native module, told of the dtypes that it looks at, and their names by PyTorch's numbers; None without it."""
    native = observe()
    if native is None:
        return None
    names = {}
    for dtype in {value for value in vars(torch).values() if isinstance(value, torch.dtype)}:
        kind = dtype_kind(dtype)
        if kind is not None:
            table = table_of(dtype)
            address = 0 if table is None else table.data_ptr()
            number = native.tell_kind(torch.empty(0, dtype=dtype), kind, dtype.itemsize, address)
            names[number] = str(dtype).removeprefix("torch.")
    return native, names


def unpacked(raw: bytes) -> TensorRecord | Unwritten:
    """The record in bytes that the native module made."""
    found = looker()
    assert found is not None
    pointer, bits, offset, *numbers = _RAW.unpack_from(raw)
    *counts, low, high, least, most, mean, m2, dtype, flags, dimensions, _ = numbers
    name = found[1][dtype]
    extents = struct.unpack_from(f"<{2 * dimensions}q", raw, _RAW.size)
    if flags & _UNWRITTEN:
        return Unwritten(extents[:dimensions], name)
    integral = name.startswith(("int", "uint", "bool"))
    extremes = (low, high) if integral else (least, most)
    facts = [*counts, *extremes, mean, m2, bits]
    return TensorRecord(
        type="Parameter" if flags & _PARAMETER else "Tensor",
        dtype=name,
        device="cpu",
        size=extents[:dimensions],
        stride=extents[dimensions:],
        offset=offset,
        layout="strided",
        requires_grad=bool(flags & _REQUIRES_GRAD),
        contiguous=bool(flags & _CONTIGUOUS),
        pointer=pointer,
        statistics=from_numbers(*facts),
    )
