"""Records as text: our own format, and those of PyTorch's printers that scripts match.

``torch-aoti`` is what ``aoti_torch_print_tensor_handle`` writes (torch/csrc/inductor/aoti_torch/shim_common.cpp),
``torch-jit`` what ``_print_debugging_tensor_value_info`` prints (Inductor's debug_utils.py).
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from kernelscope.errors import OptionError
from kernelscope.probe.look import SMALL
from kernelscope.probe.records import Event, TensorRecord, Unwritten, ValueRecord

_LAUNCH = {"before": "before_launch", "after": "after_launch", "inputs": "inputs", "returns": "returns"}
_CAFFE2_NAMES = {
    "int64": "long int",
    "int32": "int",
    "int16": "short int",
    "int8": "signed char",
    "uint8": "unsigned char",
    "float64": "double",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


def subject_line(event: Event) -> str:
    """The line that names a call: ``[ before_launch: KERNEL ]``."""
    return f"[ {_LAUNCH[event.moment]}: {event.subject} ]"


def ours(event: Event, value: Any = None) -> str:
    """Our format of one value: its header, its values where it is small, a field a line."""
    header = f"[ {_LAUNCH[event.moment]} - {event.subject} - {event.label} ]:"
    match event.value:
        case TensorRecord() as tensor:
            return "\n".join((header, *_tensor_lines(tensor)))
        case Unwritten() as fresh:
            return f"{header}\n(not yet written)\nSize: {list(fresh.size)}\nDtype: {fresh.dtype}"
        case ValueRecord() as plain:
            return f"{header} {plain.text}"
        case _:
            return subject_line(event)


def _tensor_lines(tensor: TensorRecord) -> list[str]:
    found = tensor.statistics
    lines = [tensor.text] if tensor.text else []
    if found is not None:
        lines += [
            f"Min value: {_number(found.min)}{_at(tensor, found.argmin)}",
            f"Max value: {_number(found.max)}{_at(tensor, found.argmax)}",
            f"Mean: {_number(found.mean)}",
            f"Std: {_number(found.std)}",
            f"NaN count: {found.nan}{_at(tensor, found.first_nan, 'first ')}",
            f"Inf count: {found.inf}",
            f"Zero count: {found.zero}",
        ]
    if tensor.note:
        lines.append(f"Note: {tensor.note}")
    lines += [
        *([] if tensor.type in ("Tensor", "Parameter") else [f"Type: {tensor.type}"]),
        f"Device: {tensor.device}",
        f"Size: {list(tensor.size)}",
        f"Stride: {'none' if tensor.stride is None else list(tensor.stride)}",
        f"Dtype: {tensor.dtype}",
        f"Layout: {tensor.layout.capitalize()}",
        f"Number of elements: {tensor.numel}",
        f"Is contiguous: {int(tensor.contiguous)}",
        f"Requires grad: {int(tensor.requires_grad)}",
    ]
    return lines


def _at(tensor: TensorRecord, position: int | None, word: str = "") -> str:
    """Where an element stands, for tensors whose values are not all shown."""
    if position is None or tensor.text:
        return ""
    return f" ({word}at {list(unravelled(position, tensor.size))})"


def unravelled(position: int, size: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an element from its position in row-major order."""
    index = []
    for extent in reversed(size):
        position, rest = divmod(position, extent)
        index.append(rest)
    return tuple(reversed(index))


def _number(value: float | int | None) -> str:
    if value is None:
        return "none"
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def torch_aoti(event: Event, value: Any) -> str:
    """What ahead-of-time compiled code prints in PyTorch, from the same operators' results."""
    name = f"{_LAUNCH[event.moment]} - {event.subject} - {event.label}"
    match event.value:
        case TensorRecord() as tensor if tensor.note:
            return f"[  {name}  ]:\n{tensor.note}\n"
        case TensorRecord() as tensor:
            return "\n".join((f"[  {name}  ]:", *_aoti_lines(tensor, value), ""))
        case ValueRecord() as plain:
            return f"[  {name}: {plain.text}  ]"
        case Unwritten():
            return f"[  {name}  ]:\n(not yet written)\n"
        case _:
            return subject_line(event)


def _aoti_lines(tensor: TensorRecord, value: torch.Tensor) -> list[str]:
    lines = [tensor.text] if tensor.text else []
    lines += [f"Number of elements: {tensor.numel}", f"Dtype: {_CAFFE2_NAMES.get(tensor.dtype, tensor.dtype)}"]
    if tensor.numel and not value.is_complex():
        shown = value.detach()
        lines.append(f"Mean value: {_six_digits(shown.float().mean().item())}")
        # PyTorch's own printer takes extremes in the tensor's dtype, which is not there for every one.
        wide = shown if _has_extremes(shown.dtype) else shown.float()
        lines.append(f"Min value: {_six_digits(float(wide.min().float()))}")
        lines.append(f"Max value: {_six_digits(float(wide.max().float()))}")
    return [
        *lines,
        f"Device: {tensor.device}",
        f"Size: {list(tensor.size)}",
        f"Stride: {list(tensor.stride or ())}",
        f"Layout: {tensor.layout.capitalize()}",
        f"Is contiguous: {int(tensor.contiguous)}",
        f"Requires grad: {int(tensor.requires_grad)}",
    ]


def _has_extremes(dtype: torch.dtype) -> bool:
    return dtype.itemsize > 1 or not dtype.is_floating_point


def _six_digits(value: float) -> str:
    """A number as a C++ stream writes it: six digits."""
    return f"{value:.6g}"


def torch_jit(event: Event, value: Any) -> str:
    """What just-in-time compiled code prints in PyTorch, from the same operators' results.

    Where PyTorch's printer raises (an empty tensor), the lines that it cannot make are left out.
    """
    name = f"inductor: {_LAUNCH[event.moment]} - {event.subject} - {event.label}"
    match event.value:
        case TensorRecord() as tensor if tensor.note:
            return f"{name}\n{tensor.note}"
        case TensorRecord():
            return "\n".join((name, *_jit_lines(value)))
        case ValueRecord():
            return f"{name}\nValue:  {value}"
        case Unwritten():
            return f"{name}\n(not yet written)"
        case _:
            return subject_line(event)


def _jit_lines(value: torch.Tensor) -> list[str]:
    numel = value.numel()
    lines = [str(value)] if numel <= SMALL else []
    lines += [f"Number of elements:  {numel}", f"Size:  {value.size()}", f"Dtype:  {value.dtype}"]
    if numel and not value.is_complex():
        wide = value.detach().float()
        std, mean = torch.std_mean(wide) if numel > 1 else (torch.tensor(math.nan), wide.mean())
        least, most = torch.aminmax(wide)
        found = (("Mean", mean), ("Min", least), ("Max", most), ("Std", std))
        lines += [f"{word}:  {number.item()}" for word, number in found]
    return lines


def names(event: Event, value: Any = None) -> str:
    """The call's name alone."""
    return subject_line(event)


def as_json(event: Event, value: Any = None) -> str:
    """One line of JSON: the event's fields, those that are not set left out."""
    return json.dumps(fields_of(event), separators=(",", ":"), allow_nan=True)


def fields_of(record: Any) -> dict[str, Any]:
    """A record's fields as JSON has them; those that are not set are left out, and ``kind`` names a value's record."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if value is None or value == "" or value == ():
            continue
        if field.name == "value":
            found["kind"] = type(value).__name__
        nested = dataclasses.is_dataclass(value) or (isinstance(value, tuple) and dataclasses.is_dataclass(value[0]))
        if nested:
            found[field.name] = [fields_of(item) for item in value] if isinstance(value, tuple) else fields_of(value)
        else:
            found[field.name] = value
    return found


Format: TypeAlias = Callable[[Event, Any], str]
"""Makes a text of an event and the value that it is about."""

FORMATS: dict[str, Format] = {
    "kernelscope": ours,
    "torch-aoti": torch_aoti,
    "torch-jit": torch_jit,
    "names": names,
    "json": as_json,
}


def format_of(name: str) -> Format:
    """The format of that name.

    Raises:
        OptionError: there is none.
    """
    if name not in FORMATS:
        raise OptionError(f"unknown format {name!r}", hint=f"formats are {', '.join(FORMATS)}")
    return FORMATS[name]
