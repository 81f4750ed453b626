"""Turns a value of a running program into a record, without changing it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from kernelscope.probe.records import Observed, TensorRecord, ValueRecord
from kernelscope.probe.statistics import Statistics, statistics
from kernelscope.runtime.native_module import observe

SMALL = 64
"""Tensors of at most that many elements are shown whole, as PyTorch's own printers do."""
PLAIN = (torch.Tensor, torch.nn.Parameter)
"""The classes of tensors whose values are looked at."""
_LINE = 80
_LONGEST_TEXT = 1000


def parts(label: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A value and its label, or, of a list or tuple, those of its elements."""
    if isinstance(value, (list, tuple)) and any(isinstance(item, (torch.Tensor, list, tuple)) for item in value):
        for index, item in enumerate(value):
            yield from parts(f"{label}[{index}]", item)
    else:
        yield label, value


def dtype_name(dtype: torch.dtype) -> str:
    """A dtype's name without its module: ``float32``."""
    return str(dtype).removeprefix("torch.")


def describe(tensor: torch.Tensor) -> TensorRecord:
    """A tensor's description, without its values."""
    strided = tensor.layout is torch.strided
    plain = type(tensor) in PLAIN
    return TensorRecord(
        type=type(tensor).__name__,
        dtype=dtype_name(tensor.dtype),
        device=str(tensor.device),
        size=tuple(int(extent) for extent in tensor.size()) if plain else (),
        stride=tensor.stride() if strided and plain else None,
        offset=int(tensor.storage_offset()) if strided and plain else 0,
        layout=str(tensor.layout).removeprefix("torch."),
        requires_grad=tensor.requires_grad,
        contiguous=tensor.is_contiguous() if strided and plain else False,
        pointer=tensor.data_ptr() if strided and plain else 0,
        note=_why_no_values(tensor, strided=strided, plain=plain),
    )


def _why_no_values(tensor: torch.Tensor, *, strided: bool, plain: bool) -> str:
    if not plain:
        return f"values of a {type(tensor).__name__} are not looked at"
    if not strided:
        return f"values of a {tensor.layout} tensor are not looked at"
    if tensor.device.type == "meta":
        return "a meta tensor has no values"
    return ""


def statistics_of(tensor: torch.Tensor) -> tuple[Statistics | None, str]:
    """Statistics, or why there are none."""
    try:
        return statistics(tensor), ""
    except (RuntimeError, NotImplementedError) as error:  # a dtype that PyTorch cannot convert on this device
        return None, f"no statistics: {str(error).splitlines()[0]}"


def text_of(tensor: torch.Tensor) -> str:
    """A small tensor as PyTorch's C++ prints it, closed by its type line; empty for a larger one."""
    if tensor.numel() > SMALL:
        return ""
    shown = tensor.detach().resolve_conj().resolve_neg()
    native = observe()
    try:
        if native is not None and not shown.is_complex():  # the C++ printer drops imaginary parts
            return str(native.tensor_text(shown._cdata, _LINE))
        kind = shown.type().removeprefix("torch.").removeprefix("cuda.").removesuffix("Tensor")
        prefix = shown.device.type.upper()
        sizes = ",".join(map(str, shown.size()))
        return f"{_bare(shown)}\n[ {prefix}{kind}Type{{{sizes}}} ]"
    except (RuntimeError, NotImplementedError) as error:
        return f"(PyTorch cannot print this dtype: {str(error).splitlines()[0]})"


def _bare(tensor: torch.Tensor) -> str:
    text = repr(tensor.cpu())
    return text[len("tensor(") : text.rfind(")")].split(", dtype=")[0]


def plain_value(value: Any) -> Observed:
    """A value that is no tensor."""
    text = repr(value)
    if len(text) > _LONGEST_TEXT:
        text = f"{text[:_LONGEST_TEXT]}... ({len(text)} characters)"
    return ValueRecord(type(value).__name__, text)
