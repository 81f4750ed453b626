"""Entry methods for kernels: their definitions and calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import sympy
from torch._inductor.virtualized import V

from kernelscope.capture.inductor.kernels import cpp_kernel, shell_call, string_constants
from kernelscope.capture.inductor.origins import ir_origins, origin_of
from kernelscope.capture.inductor.recording import Recording
from kernelscope.capture.inductor.triton import triton_kernel, user_triton_kernel
from kernelscope.capture.inductor.values import to_value
from kernelscope.capture.inductor.versions import current_stream
from kernelscope.errors import UnsupportedError
from kernelscope.ir.dataflow import buffers_of_roles
from kernelscope.ir.expr import canonical, symbol
from kernelscope.ir.kernels import READ_ROLES, WRITE_ROLES, CppKernel, Kernel, MultiKernel, ParamRole, TritonKernel
from kernelscope.ir.lines import KernelCallLine, KernelDefinitionLine, Origin
from kernelscope.ir.values import NoneValue, Scalar, SymExpr, Value


def kernel_roles(kernel: Kernel, kernels: dict[str, Kernel]) -> tuple[ParamRole, ...]:
    """The roles of a kernel's parameters; a multi-kernel has those of its first choice."""
    if isinstance(kernel, MultiKernel):
        return kernel_roles(kernels[kernel.choices[0]], kernels)
    return tuple(param.role for param in kernel.params)


class KernelEntries(Recording):
    """Definitions and launches of generated and user-defined kernels."""

    def define_kernel(
        self,
        kernel_name: str,
        kernel_body: str,
        metadata: str | None = None,
        gpu: bool = True,
        cpp_definition: str | None = None,
    ) -> None:
        """Records a kernel's text as a kernel record."""
        kind, args = shell_call(kernel_body)
        if kind == "cpp_pybinding":
            kernel: Kernel = cpp_kernel(kernel_name, string_constants(args)[1])
        elif kind == "triton":
            kernel = triton_kernel(kernel_name, *string_constants(args)[:2])
        else:
            raise UnsupportedError(
                f"kernel {kernel_name} is of kind {kind!r}, which has no form in the wrapper IR", where=self._where()
            )
        self._define(kernel)

    def _define(self, kernel: Kernel) -> None:
        self._kernels[kernel.name] = kernel
        origin = origin_of(ir_origins(self._scheduled_nodes()))
        if origin is not None and not isinstance(kernel, MultiKernel):
            kernel = dataclasses.replace(kernel, fused_ops=origin.ops)
        self.record(KernelDefinitionLine(kernel=kernel, origin=origin))

    def define_user_defined_triton_kernel(
        self,
        kernel: Any,
        configs: Any,
        kwargs: dict[str, Any],
        restore_value_args: Any,
        reset_to_zero_args: Any,
        grids: Any,
        epilogue_fusion: Any = None,
    ) -> tuple[str, dict[str, Any], dict[str, Any], list[Any]]:
        """Records a Triton kernel that the user wrote; its grid becomes part of the kernel's record."""
        if epilogue_fusion is not None:
            raise UnsupportedError(f"epilogue fused into user kernel {kernel.__name__}", where=self._where())
        record, host_sizes = user_triton_kernel(kernel, configs, kwargs, restore_value_args, reset_to_zero_args, grids)
        key = (id(kernel.fn), dataclasses.replace(record, name=""))
        if key not in self.user_defined_kernel_cache:
            name = f"{record.name}_{len(self.user_defined_kernel_cache)}"
            self.user_defined_kernel_cache[key] = name
            self._define(dataclasses.replace(record, name=name))
        return self.user_defined_kernel_cache[key], {}, {}, host_sizes

    def generate_kernel_call(
        self,
        kernel_name: str,
        call_args: Sequence[Any],
        *,
        device: Any = None,
        triton: bool = True,
        arg_types: Sequence[Any] | None = None,
        raw_keys: Any = None,
        raw_args: Any = None,
        triton_meta: Any = None,
        inductor_meta: Any = None,
        original_fxnode_name: str | None = None,
    ) -> None:
        """Records a launch: one typed operand per parameter, no grid."""
        kernel = self._kernels.get(kernel_name)
        if kernel is None:
            raise UnsupportedError(f"call of kernel {kernel_name}, which was never defined", where=self._where())
        roles = kernel_roles(kernel, self._kernels)
        if isinstance(kernel, CppKernel):
            args = tuple(self._cpp_operand(role, arg) for role, arg in zip(roles, call_args, strict=True))
        else:
            by_user = isinstance(kernel, TritonKernel) and kernel.category == "user"
            given = [arg for arg in raw_args if arg is not None] if by_user else call_args
            args = self._triton_operands(kernel_name, roles, given)
        self.record(
            KernelCallLine(
                kernel=kernel_name,
                args=args,
                reads=buffers_of_roles(roles, args, READ_ROLES),
                writes=buffers_of_roles(roles, args, WRITE_ROLES),
                device=device or V.graph.get_current_device_or_throw(),
                stream=current_stream(V.graph.scheduler),
                origin=self._call_origin(),
            )
        )

    def _cpp_operand(self, role: ParamRole, arg: Any) -> Value:
        """A C++ kernel's operand: the parameter's type tells a buffer's name from a size symbol's."""
        if role != "scalar":
            return self.tensor(str(arg))
        if isinstance(arg, sympy.Basic):
            return SymExpr(canonical(arg))
        return Scalar(int(arg)) if str(arg).lstrip("-").isdigit() else SymExpr(symbol(str(arg)))

    def _triton_operands(self, name: str, roles: Sequence[ParamRole], given: Sequence[Any]) -> tuple[Value, ...]:
        values = tuple(self.tensor(arg) if isinstance(arg, str) else to_value(arg) for arg in given)
        if len(values) > len(roles) or any(isinstance(value, NoneValue) for value in values):
            raise UnsupportedError(f"kernel {name} is called with {len(values)} operands for {len(roles)} parameters")
        return values[: len(roles)]

    def _scheduled_nodes(self) -> Sequence[Any]:
        """The scheduler's nodes that the kernel now being written covers."""
        scheduler = V.graph.scheduler
        current = scheduler.current_node
        for backend in scheduler.backends.values():
            group = getattr(backend, "kernel_group", None)
            if group is not None and getattr(group, "scheduled_nodes", None):
                return tuple(group.scheduled_nodes)
        return () if current is None else (current,)

    def _call_origin(self) -> Origin | None:
        return origin_of(ir_origins(self._scheduled_nodes()))

    def write_triton_header_once(self) -> None:
        """Drops imports: a target writes its own."""

    def write_get_raw_stream_header(self) -> None:
        """Drops imports: a target writes its own."""

    def write_kernel_context_guard_begin(self) -> None:
        """Drops the compiler's profiling scopes."""

    def write_kernel_context_guard(self, kernel_name: str, node_schedule: Any) -> None:
        """Drops the compiler's profiling scopes."""

    def write_kernel_context_guard_end(self) -> None:
        """Drops the compiler's profiling scopes."""
