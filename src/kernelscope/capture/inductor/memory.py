"""Entry methods for memory: what is allocated, aliased, taken over and freed.

These record the compiler's liveness only; which freed storage serves which allocation is decided by our own pass.
"""

from __future__ import annotations

from typing import Any

from torch._inductor import ir
from torch._inductor.virtualized import V

from kernelscope.capture.inductor.recording import Recording
from kernelscope.capture.inductor.values import dims, layout_type, tensor_type, to_tensor_value
from kernelscope.errors import UnsupportedError
from kernelscope.ir.lines import (
    AllocateLine,
    ExternKernelAllocLine,
    FreeIfNotReusedLine,
    FreeLine,
    ReinterpretLine,
    ReuseLine,
)
from kernelscope.ir.values import BufferRef


class MemoryEntries(Recording):
    """Allocation, reuse in place, and freeing."""

    def codegen_allocation(self, buffer: Any) -> None:
        """Records the allocation of a buffer that the host program owns, once."""
        name = buffer.get_name()
        if name in V.graph.removed_buffers or name in self.allocated:
            return
        if isinstance(buffer, (ir.DonatedBuffer, ir.SubgraphBuffer, ir.InputBuffer)):
            return
        self.allocated.add(name)
        makes_itself = isinstance(buffer.get_defining_op(), (ir.ExternKernelAlloc, ir.MultiOutput))
        if makes_itself and not buffer.should_allocate():
            return
        layout = buffer.get_output_spec()
        if isinstance(layout, (ir.MutationLayoutSHOULDREMOVE, ir.NoneLayout)):
            return
        if isinstance(layout, ir.NonOwningLayout):
            self._alias(buffer, layout.view)
            return
        if isinstance(layout, ir.CommBufferLayout):
            raise UnsupportedError(
                f"buffer {name} lives in a symmetric-memory pool", where=self._where(), hint="not supported yet"
            )
        self._allocate(buffer)

    def _allocate(self, buffer: Any) -> None:
        allocation = dims(V.graph.get_allocation_size(buffer))
        layout = tensor_type(buffer)
        self.record(
            AllocateLine(
                name=buffer.get_name(),
                type=layout,
                allocation_size=allocation if allocation != layout.size else None,
                pinned=bool(buffer.get_is_pinned()),
            ),
            nodes=(buffer,),
        )

    def _alias(self, buffer: Any, view: Any) -> None:
        target = view.data
        while not isinstance(target, ir.Buffer):
            target = target.unwrap_view() if isinstance(target, ir.BaseView) else target.data
        self.codegen_allocation(target)
        self.record(
            ReinterpretLine(name=buffer.get_name(), value=to_tensor_value(view), type=layout_type(view.layout)),
            nodes=(buffer,),
        )

    def codegen_inplace_reuse(self, input_buffer: Any, output_buffer: Any) -> None:
        """Records that a kernel writes its result over an input that ends there."""
        self.codegen_allocation(input_buffer)
        old, new = input_buffer.get_name(), output_buffer.get_name()
        self.freed.add(old)
        self.allocated.add(new)
        self.record(ReuseLine(old=old, new=new, type=tensor_type(output_buffer)), nodes=(output_buffer,))

    def codegen_free(self, buffer: Any) -> None:
        """Records that a name is not used any more."""
        name = buffer.get_name()
        if isinstance(buffer, (ir.InputBuffer, ir.TorchBindObject)):
            self.record(FreeLine(name=name))
            return
        if not self.can_reuse(buffer):
            return
        self.freed.add(name)
        if name in self._defined or name in V.graph.graph_inputs:
            self.record(self._end_of(buffer))

    def _end_of(self, buffer: Any) -> FreeLine | FreeIfNotReusedLine:
        shared = len(buffer.get_inputs_that_alias_output()) > 0
        pack = isinstance(buffer.layout, ir.MultiOutputLayout)
        return FreeLine(name=buffer.get_name()) if shared or pack else FreeIfNotReusedLine(name=buffer.get_name())

    def can_reuse(self, input_buffer: Any, output_buffer: Any = None) -> bool:
        """Whether a buffer's storage may be taken over when it ends."""
        name = input_buffer.get_name()
        given = name in V.graph.graph_inputs and not isinstance(V.graph.graph_inputs_original[name], ir.DonatedBuffer)
        return not (
            given
            or name in V.graph.removed_buffers
            or name in V.graph.constants
            or name in V.graph.torchbind_constants
            or name in V.graph.never_reuse_buffers
            or name in self.freed
        )

    def generate_workspace_allocation(self, workspace: Any) -> None:
        """Records scratch memory of a kernel, zeroed where the kernel expects zeros."""
        name = workspace.get_name()
        if name in self._defined:
            return
        layout = tensor_type(workspace)
        self.record(AllocateLine(name=name, type=layout, workspace=True))
        if workspace.zero_mode.name != "UNINITIALIZED":
            self.record(
                ExternKernelAllocLine(op="aten.zero_.default", args=(BufferRef(name),), result=None, mutates=(name,))
            )

    def generate_workspace_deallocation(self, workspace: Any) -> None:
        """Records the end of scratch memory."""
        if workspace.zero_mode.name != "ZERO_PER_GRAPH":
            self.record(FreeIfNotReusedLine(name=workspace.get_name()))
