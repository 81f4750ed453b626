"""Entry methods for operators of the library: out variants, fallbacks, scatter, copies, collectives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch._inductor import ir

from kernelscope.capture.inductor.recording import Recording
from kernelscope.capture.inductor.values import layout_type, tensor_type, to_tensor_value, to_value
from kernelscope.errors import UnsupportedError
from kernelscope.ir.lines import (
    AssertAlignmentLine,
    AssertSizeStrideLine,
    CollectiveLine,
    CopyLine,
    ExternKernelAllocLine,
    ExternKernelLine,
    ExternKernelMultiOutLine,
    IndexPutFallbackLine,
    Kwargs,
    MultiOutputLine,
    ScatterFallbackLine,
)
from kernelscope.ir.values import BufferRef, NoneValue, TensorType, Value

_LIBRARY_CALLS = {"extern_kernels.convolution": "aten.convolution.default"}


def operator_of(node: Any) -> str:
    """The qualified overload name of the operator that an extern node calls.

    Raises:
        UnsupportedError: the node calls a Python function that is no registered operator.
    """
    overload = node.op_overload
    if isinstance(overload, torch._ops.OpOverload):
        return str(overload)
    if isinstance(overload, torch._ops.HigherOrderOperator):
        return f"higher_order.{overload._name}"
    name = node.get_kernel_name()
    if name in _LIBRARY_CALLS:
        return _LIBRARY_CALLS[name]
    packet: Any = torch.ops
    path = name.removeprefix("torch.ops.").removeprefix("inductor_ops.")
    if name.startswith("inductor_ops."):
        path = f"inductor.{path}"
    for part in path.split("."):
        packet = getattr(packet, part, None)
    if isinstance(packet, torch._ops.OpOverloadPacket):
        packet = packet.default
    if isinstance(packet, torch._ops.OpOverload):
        return str(packet)
    raise UnsupportedError(
        f"extern call of {name!r} is not a registered operator",
        where=type(node).__name__,
        hint='set on_unsupported="inductor" to run this graph by plain Inductor',
    )


def _values(items: Iterable[Any]) -> tuple[Value, ...]:
    return tuple(to_value(item) for item in items)


def _keywords(kwargs: dict[str, Any]) -> Kwargs:
    return tuple((name, to_value(value)) for name, value in kwargs.items())


def operands(node: Any) -> tuple[tuple[Value, ...], Kwargs]:
    """Positional and keyword operands of an extern node, in the order of the operator's schema."""
    if isinstance(node, ir.FallbackKernel):
        args, kwargs = node.unflatten_args(list(node.inputs), list(node.constant_args))
        return _values(args), _keywords({**node.kwargs, **kwargs})
    return _values((*node.inputs, *node.constant_args)), _keywords(node.kwargs)


def mutated(node: Any) -> tuple[str, ...]:
    """Names of existing buffers that an extern node writes in place."""
    names = dict.fromkeys(node.get_mutation_names())
    for output in getattr(node, "mutation_outputs", ()):
        names.update(dict.fromkeys(output.get_mutation_names()))
    return tuple(names)


class OperatorEntries(Recording):
    """Calls of library operators."""

    def generate_extern_kernel_out(self, node: Any) -> None:
        """Records a call of an out-variant operator."""
        args, kwargs = operands(node)
        out = to_tensor_value(node.output_view) if node.output_view else BufferRef(node.get_name())
        self.record(ExternKernelLine(op=operator_of(node), args=args, kwargs=kwargs, out=out), nodes=(node,))

    def generate_extern_kernel_alloc(self, node: Any) -> None:
        """Records a call of an operator that makes its own result."""
        self._alloc_call(node)
        if isinstance(node.layout, ir.Layout):
            node.codegen_size_asserts(self)

    def generate_fallback_kernel(self, node: Any) -> None:
        """Records a call of an operator that Inductor does not lower."""
        self._alloc_call(node)

    def generate_fallback_kernel_with_runtime_lookup(self, *args: Any) -> None:
        """Refuses Inductor's C++ mode, which the capture never uses."""
        raise UnsupportedError("a fallback with run-time lookup belongs to Inductor's C++ mode", where=str(args[1]))

    def _alloc_call(self, node: Any) -> None:
        args, kwargs = operands(node)
        collective = isinstance(node, (ir._CollectiveKernel, ir._WaitKernel))
        kind = CollectiveLine if collective else ExternKernelAllocLine
        writes = mutated(node)
        shared = tuple(name for name in dict.fromkeys(node.get_inputs_that_alias_output()) if name not in writes)
        self.record(
            kind(
                op=operator_of(node),
                args=args,
                kwargs=kwargs,
                result=None if isinstance(node.layout, ir.NoneLayout) else node.get_name(),
                type=self._result_type(node),
                mutates=writes,
                aliases=shared,
            ),
            nodes=(node,),
        )

    def _result_type(self, node: Any) -> TensorType | None:
        return layout_type(node.layout) if isinstance(node.layout, ir.Layout) else None

    def generate_extern_kernel_multi_out(self, node: Any) -> None:
        """Records a call of an out-variant operator with several results."""
        for output in node.out_variant_output_nodes:
            self.codegen_allocation(output)
        args, kwargs = operands(node)
        outs = tuple(
            (name, BufferRef(output.get_name()))
            for name, output in zip(node.out_arg_names, node.out_variant_output_nodes, strict=True)
        )
        self.record(ExternKernelMultiOutLine(op=operator_of(node), args=args, kwargs=kwargs, outs=outs), nodes=(node,))
        for output in node.out_variant_output_nodes:
            output.codegen_size_asserts(self)

    def codegen_multi_output(self, node: Any) -> None:
        """Records the taking of one element from a pack."""
        self.record(
            MultiOutputLine(
                name=node.get_name(),
                source=node.input_name(0),
                path=tuple(index for _, index in node.indices),
                type=tensor_type(node) if isinstance(node.layout, ir.Layout) else None,
                aliases=tuple(dict.fromkeys(self._pack_aliases(node))),
            ),
            nodes=(node,),
        )

    def _pack_aliases(self, node: Any) -> Iterable[str]:
        for parent in node.inputs:
            if isinstance(parent, ir.FallbackKernel):
                yield from parent.get_inputs_that_alias_output()

    def generate_scatter_fallback(self, node: Any) -> None:
        """Records a scatter into a buffer in place."""
        target, index, *rest = node.inputs
        source = rest[0] if node.src_is_tensor else node.constant_args[1]
        op = operator_of(node)
        kwargs = node.kwargs if op.startswith("aten.scatter_reduce") else {"reduce": node.kwargs["reduce"]}
        self.record(
            ScatterFallbackLine(
                op=op,
                target=to_tensor_value(target),
                dim=int(node.constant_args[0]),
                index=to_tensor_value(index),
                src=to_value(source),
                kwargs=_keywords({name: value for name, value in kwargs.items() if value is not None}),
            ),
            nodes=(node,),
        )

    def generate_index_put_fallback(self, node: Any) -> None:
        """Records an indexed store into a buffer in place."""
        target, values, *given = node.inputs
        tensors = iter(given)
        indices = tuple(NoneValue() if index is None else to_tensor_value(next(tensors)) for index in node.indices)
        self.record(
            IndexPutFallbackLine(
                op="aten.index_put_.default",
                target=to_tensor_value(target),
                indices=indices,
                values=to_tensor_value(values),
                accumulate=bool(node.constant_args[0]),
            ),
            nodes=(node,),
        )

    def record_inplace(self, node: Any) -> None:
        """Records an operator that only changes its first operand (bernoulli_, resize_storage_bytes_...)."""
        args, kwargs = operands(node)
        self.record(
            ExternKernelAllocLine(op=operator_of(node), args=args, kwargs=kwargs, result=None, mutates=mutated(node)),
            nodes=(node,),
        )

    def record_copy(self, dst: Any, src: Any, non_blocking: bool, node: Any) -> None:
        """Records a copy between buffers."""
        line = CopyLine(dst=to_tensor_value(dst), src=to_tensor_value(src), non_blocking=bool(non_blocking))
        self.record(line, nodes=(node,))

    # --- checks on operators' results ---

    def write_assert_size_stride(self, name: str, size: Any, stride: Any, op_name: str) -> None:
        """Records that an operator's result has the layout its kernels expect."""
        self.record(AssertSizeStrideLine(name=name, size=size, stride=stride, label=op_name))

    def record_alignment(self, name: str, alignment_bytes: int, label: str) -> None:
        """Records that an operator's result is aligned as its kernels expect."""
        self.record(AssertAlignmentLine(name=name, alignment_bytes=alignment_bytes, label=label))

    def write_provenance_debug_handle(self, kernel_name: str, debug_handle: int | None = None) -> None:
        """Drops the compiler's numbering of kernels: lines have origins."""

    def include_extra_header(self, header: str) -> None:
        """Drops a C++ header that only Inductor's C++ mode needs."""
