"""What a function's tensor inputs must look like, in the form that ``runtime.host.input_checker`` takes."""

from __future__ import annotations

from typing import Any

from kernelscope.ir.program import Function, TensorInput
from kernelscope.ir.values import Dim

InputSpec = tuple[int, str, Any, str, tuple["int | None", ...], tuple["int | None", ...]]
"""Position, name, dtype, device, size, stride; None for a dimension that only the call knows."""


def input_specs(function: Function) -> tuple[InputSpec, ...]:
    """The specification of each tensor input."""
    return tuple(
        (
            index,
            entry.name,
            entry.type.dtype,
            str(entry.type.device),
            _known(entry.type.size),
            _known(entry.type.stride),
        )
        for index, entry in enumerate(function.inputs)
        if isinstance(entry, TensorInput)
    )


def _known(dims: tuple[Dim, ...]) -> tuple[int | None, ...]:
    return tuple(dim if isinstance(dim, int) else None for dim in dims)
