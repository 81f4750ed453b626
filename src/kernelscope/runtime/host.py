"""What generated Python calls: allocation, views, checks, operators, control flow.

Everything here is on the launch path of a compiled model, so it is either PyTorch's own C function or very short.
Must not live here: building kernels (``cpp_build``), loading programs (``boot``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from kernelscope.errors import CallError, UnsupportedError
from kernelscope.runtime.native_module import hostcalls
from kernelscope.runtime.scopes import enter_device, enter_stream, exit_device, exit_stream

_guards: Any = torch._C._dynamo.guards

empty_strided_cpu: Callable[..., torch.Tensor] = _guards._empty_strided_cpu
"""``empty_strided_cpu(size, stride, dtype)``: an uninitialised CPU tensor."""

reinterpret_tensor: Callable[..., torch.Tensor]
"""``reinterpret_tensor(base, size, stride, offset)``: a view; ``offset`` in elements from the start of ``base``."""

assert_size_stride: Callable[..., None] = _guards.assert_size_stride
"""``assert_size_stride(tensor, size, stride, label)``: raises ``AssertionError`` when the layout is another."""

assert_alignment: Callable[..., None] = _guards.assert_alignment
"""``assert_alignment(tensor, alignment_bytes, label)``: raises ``AssertionError`` when data is not aligned."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Makes ``reinterpret_tensor`` when it is first asked for, so that importing this module builds nothing."""
        if name != "reinterpret_tensor":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        native, plain = hostcalls(), _guards._reinterpret_tensor
        globals()[name] = plain if native is None else native.direct_call(name, plain)
        return globals()[name]


_ALIGNMENT_BYTES = 16

# Python bindings that run the same kernel as the overload, without the overload's argument matching.
_BINDINGS: dict[str, Callable[..., Any]] = {
    "aten.mm.out": torch.mm,
    "aten.addmm.out": torch.addmm,
    "aten.bmm.out": torch.bmm,
    "aten.baddbmm.out": torch.baddbmm,
    "aten.convolution.default": torch.convolution,
}

_NATIVE = {
    "aten.mm.out": "mm_out",
    "aten.bmm.out": "bmm_out",
    "aten.addmm.out": "addmm_out",
    "aten.baddbmm.out": "baddbmm_out",
}
"""Those with a native form (``native/hostcalls.cpp``)."""


def operator(name: str) -> Callable[..., Any]:
    """The operator of a qualified overload name such as ``aten.mm.out``.

    Raises:
        UnsupportedError: no such operator is registered in this process.
    """
    if name in _NATIVE and (native := hostcalls()) is not None:
        return native.direct_call(_NATIVE[name], _BINDINGS[name])  # type: ignore[no-any-return]
    if name in _BINDINGS:
        return _BINDINGS[name]
    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise UnsupportedError(
            f"operator {name} is not registered in this process",
            hint="import the module that defines it before the program is loaded",
        )
    return found  # type: ignore[no-any-return]


def input_checker(count: int, inputs: tuple[tuple[Any, ...], ...]) -> Callable[[list[Any]], None]:
    """A function that checks the flat list of a program's inputs, and raises ``CallError`` if one does not fit.

    Args:
        count: How many inputs the program has.
        inputs: ``(position, name, dtype, device, size, stride)`` of each tensor; None in a size is not checked.
    """

    def check(args: list[Any]) -> None:
        if len(args) != count:
            raise CallError(f"the program takes {count} inputs, got {len(args)}", hint="pass its flat list of inputs")
        check_inputs(args, inputs)

    native = hostcalls()
    if native is None:
        return check
    exemplars = tuple(
        (position, torch.empty(0, dtype=dtype, device=device), size, stride)
        for position, _, dtype, device, size, stride in inputs
    )
    return native.input_checker(count, exemplars, check)  # type: ignore[no-any-return]


def check_inputs(args: Sequence[Any], inputs: Sequence[tuple[Any, ...]]) -> None:
    """Checks the tensor inputs of a program against their types, as ``input_checker`` describes.

    Raises:
        CallError: one does not fit; its text says which and how.
    """
    for position, name, dtype, device, size, stride in inputs:
        tensor = args[position]
        if (
            not isinstance(tensor, torch.Tensor)
            or tensor.dtype is not dtype
            or not _fits(size, tensor.shape)
            or (tensor.numel() and not _strides_fit(size, stride, tensor))
            or tensor.device.type != device.partition(":")[0]
        ):
            raise _bad_input(position, name, dtype, device, size, stride, tensor)


def _fits(expected: Sequence[int | None], found: Sequence[int]) -> bool:
    return len(expected) == len(found) and all(
        want is None or want == have for want, have in zip(expected, found, strict=True)
    )


def _strides_fit(size: Sequence[int | None], stride: Sequence[int | None], tensor: torch.Tensor) -> bool:
    pairs = zip(tensor.shape, stride, tensor.stride(), strict=True)
    return all(extent == 1 or want is None or want == have for extent, want, have in pairs)


def _bad_input(position: int, name: str, dtype: Any, device: str, size: Any, stride: Any, found: Any) -> CallError:
    expected = f"{dtype} of size {_shape(size)} and stride {_shape(stride)} on {device}"
    if isinstance(found, torch.Tensor):
        given = f"{found.dtype} of size {tuple(found.shape)} and stride {found.stride()} on {found.device}"
    else:
        given = f"a {type(found).__name__}"
    return CallError(
        f"input {position} ({name}) is {given}; the program was compiled for {expected}",
        where=f"input {position} ({name})",
        hint="pass the layout it was compiled for, or compile again for this one",
    )


def _shape(shape: Sequence[int | None]) -> str:
    return f"({', '.join('any' if dim is None else str(dim) for dim in shape)})"


def align_input(tensor: torch.Tensor) -> torch.Tensor:
    """``tensor``, cloned with its strides when its data does not start at a multiple of 16 bytes."""
    if tensor.data_ptr() % _ALIGNMENT_BYTES == 0:
        return tensor
    clone = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return clone.copy_(tensor)


def divide_exactly(value: int, divisor: int) -> int:
    """``value / divisor`` where that is a whole number.

    Raises:
        AssertionError: there is a remainder.
    """
    quotient, rest = divmod(value, divisor)
    if rest:
        raise AssertionError(f"{value} not divisible by {divisor}")
    return quotient


def select_index(index: int, size: int, *, clamp: bool) -> int:
    """An index as Python counts it, from the end when negative; brought into ``[0, size]`` with ``clamp``."""
    counted = index + size if index < 0 else index
    return max(0, min(size, counted)) if clamp else counted


def slice_length(start: int, end: int, step: int, size: int) -> int:
    """The length of the Python slice ``start:end:step`` of a dimension of ``size``; ``step`` is positive."""
    first, last = (max(0, min(bound + size if bound < 0 else bound, size)) for bound in (start, end))
    return max(0, (last - first + step - 1) // step)


def while_loop(
    condition: Callable[[list[Any]], Sequence[Any]],
    body: Callable[[list[Any]], Sequence[Any]],
    carried: list[Any],
    additional: list[Any],
    *,
    stack: bool,
) -> list[Any]:
    """Runs ``body`` while ``condition`` holds; gives the carried values, stacked over iterations with ``stack``.

    A loop that never runs gives clones of the initial values (with a leading dimension of one with ``stack``).
    """
    history: list[list[Any]] = [[] for _ in carried]
    ran = False
    while condition([*carried, *additional])[0]:
        ran = True
        carried = list(body([*carried, *additional]))
        for values, value in zip(history, carried, strict=True):
            values.append(value) if stack else None
    if not ran:
        return [_clone(value.unsqueeze(0) if stack else value) for value in carried]
    return [torch.stack(values) for values in history] if stack else carried


def _clone(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


__all__ = [
    "align_input",
    "assert_alignment",
    "assert_size_stride",
    "check_inputs",
    "divide_exactly",
    "empty_strided_cpu",
    "enter_device",
    "enter_stream",
    "exit_device",
    "exit_stream",
    "input_checker",
    "operator",
    "reinterpret_tensor",
    "select_index",
    "slice_length",
    "while_loop",
]
