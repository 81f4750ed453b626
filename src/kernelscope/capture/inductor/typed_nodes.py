"""Typed capture for the nodes of Inductor's IR that would write lines of text (A4).

``install`` gives those node classes a ``codegen`` that records typed lines when the wrapper is our recorder, and
does what it always did otherwise; it is idempotent and safe while other graphs compile.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch._inductor import config, ir
from torch._inductor.utils import sympy_product
from torch._inductor.virtualized import V

from kernelscope.capture.inductor.operators import OperatorEntries
from kernelscope.capture.inductor.symbols import SymbolEntries
from kernelscope.capture.inductor.values import dims

_GPU_ALIGN_BYTES = 16


def _inplace(node: Any, wrapper: OperatorEntries) -> None:
    wrapper.record_inplace(node)


def _copy_into_first(node: Any, wrapper: OperatorEntries) -> None:
    dst, src = node.inputs
    wrapper.record_copy(dst, src, node.constant_args[0], node)


def _device_copy(node: Any, wrapper: OperatorEntries) -> None:
    wrapper.record_copy(node.output_view or node, node.inputs[0], node.constant_args[0], node)


def _assert_scalar(node: Any, wrapper: SymbolEntries) -> None:
    if config.scalar_asserts:
        wrapper.record_assertion(node.scalar, node.msg)


def _size_asserts(node: Any, wrapper: OperatorEntries) -> None:
    # Strides of an empty tensor mean nothing, so they are not compared.
    if config.size_asserts and sympy_product(node.get_size()) != 0:
        size, stride = dims(node.get_size()), dims(node.get_stride())
        wrapper.write_assert_size_stride(node.get_name(), size, stride, _label(node))


def _alignment_asserts(node: Any, wrapper: OperatorEntries) -> None:
    if config.alignment_asserts and node.get_name() not in V.graph.unaligned_buffers:
        wrapper.record_alignment(node.get_name(), _GPU_ALIGN_BYTES, _label(node))


def _label(node: Any) -> str:
    return str(node.fx_node.target) if getattr(node, "fx_node", None) is not None else str(node.op_overload or "")


def _nothing(node: Any, wrapper: Any, *args: Any, **kwargs: Any) -> None:
    """Remarks and memory tracking of the compiler's own tests have no line."""


_TYPED: tuple[tuple[type[Any], str, Callable[..., None]], ...] = (
    (ir.InplaceBernoulliFallback, "codegen", _inplace),
    (ir.MutatingFirstArgExternKernel, "codegen", _inplace),
    (ir.InplaceCopyFallback, "codegen", _copy_into_first),
    (ir.DeviceCopy, "codegen", _device_copy),
    (ir.AssertScalar, "codegen", _assert_scalar),
    (ir.ExternKernel, "codegen_size_asserts", _size_asserts),
    (ir.ExternKernel, "codegen_alignment_asserts", _alignment_asserts),
    (ir.ExternKernel, "codegen_memory_tracking", _nothing),
    (ir.ExternKernel, "codegen_comment", _nothing),
)


def _dispatching(original: Callable[..., Any], typed: Callable[..., None]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, wrapper: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(wrapper, OperatorEntries):
            return typed(self, wrapper, *args, **kwargs)
        return original(self, wrapper, *args, **kwargs)

    return method


@functools.cache
def install() -> None:
    """Installs the typed captures, once per process."""
    for owner, name, typed in _TYPED:
        if name in vars(owner):
            setattr(owner, name, _dispatching(vars(owner)[name], typed))
