"""Entry methods for control flow and scopes: called functions, conditionals, loops, devices, streams."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.virtualized import V

from kernelscope.capture.inductor.operators import mutated
from kernelscope.capture.inductor.recording import Recording
from kernelscope.capture.inductor.values import to_tensor_value, to_value
from kernelscope.errors import UnsupportedError
from kernelscope.ir.lines import (
    AlignInputLine,
    ConditionalLine,
    EnterDeviceLine,
    EnterStreamLine,
    ExitDeviceLine,
    ExitStreamLine,
    InvokeSubgraphLine,
    WhileLoopLine,
)
from kernelscope.ir.values import SymExpr, Value


class ControlEntries(Recording):
    """Called functions, and device and stream scopes."""

    def codegen_invoke_subgraph(self, node: Any) -> None:
        """Records a call of a region that was compiled once."""
        function = self._function(node.subgraph)
        line = InvokeSubgraphLine(
            result=node.get_name(), function=function, operands=_values(node.inputs), mutates=mutated(node)
        )
        self.record(line, nodes=(node,))

    def codegen_conditional(self, node: Any) -> None:
        """Records a choice between two functions."""
        self._choice(node, node.predicate, node.true_subgraph, node.false_subgraph)

    def codegen_switch(self, node: Any) -> None:
        """Records a ``torch.cond`` as PyTorch 2.15 states it: by a number, 0 for the false branch, 1 for the true one.

        Raises:
            UnsupportedError: it is a ``torch.switch``, which has no form in the IR.
        """
        if not node.is_cond:
            raise UnsupportedError(
                f"torch.switch of {len(node.branches)} branches has no form in the IR",
                hint='write it as nested torch.cond, or set on_unsupported="inductor"',
            )
        false_branch, true_branch = node.branches
        self._choice(node, node.selector, true_branch, false_branch)

    def _choice(self, node: Any, condition: Any, true_branch: Any, false_branch: Any) -> None:
        predicate = to_value(condition)
        self.record(
            ConditionalLine(
                result=node.get_name(),
                predicate=predicate if isinstance(predicate, SymExpr) else to_tensor_value(condition),
                true_function=self._function(true_branch),
                false_function=self._function(false_branch),
                operands=_values(node.operands),
                mutates=mutated(node),
            ),
            nodes=(node,),
        )

    def codegen_while_loop(self, node: Any, stack_output: bool = False) -> None:
        """Records a loop over functions."""
        self.record(
            WhileLoopLine(
                result=node.get_name(),
                cond_function=self._function(node.cond_subgraph),
                body_function=self._function(node.body_subgraph),
                carried=_values(node.carried_inputs),
                additional=_values(node.additional_inputs),
                stack_outputs=bool(stack_output),
                mutates=mutated(node),
            ),
            nodes=(node,),
        )

    def codegen_subgraph_with_flattened_outputs(self, subgraph: Any, inputs: Any, outputs: Any) -> None:
        """Refuses a sub-graph chosen by autotuning, whose call Inductor describes as text only."""
        raise UnsupportedError(f"autotuned sub-graph {subgraph.graph.name}", where=self._where())

    def _function(self, subgraph: Any) -> str:
        """Records a sub-graph as a function of the program, once; gives its name."""
        graph = subgraph.graph
        if graph.name not in self._functions:
            graph.cpp_wrapper, graph.fx_wrapper = V.graph.cpp_wrapper, V.graph.fx_wrapper
            self.push_codegened_graph(graph)
            with V.set_graph_handler(graph), config.patch("graph_partition", False):
                graph.codegen()
            self.pop_codegened_graph()
        return str(graph.name)

    # --- devices and streams ---

    def codegen_device_guard_enter(self, device_idx: int, num_streams: int = 1, *rest: Any) -> None:
        """Records that launches go to a device from here on."""
        device = torch.device(V.graph.device_type, device_idx)
        self.record(EnterDeviceLine(device=device, num_streams=num_streams))
        self.last_seen_device_guard_index = device_idx

    def codegen_device_guard_exit(self) -> None:
        """Records the end of a device scope."""
        self.record(ExitDeviceLine())

    def codegen_cuda_stream_enter(self, stream_idx: int) -> None:
        """Records that launches go to a stream from here on."""
        self.record(EnterStreamLine(stream=stream_idx))

    def codegen_cuda_stream_exit(self) -> None:
        """Records the end of a stream scope."""
        self.record(ExitStreamLine())

    # --- inputs ---

    def register_alignment_check_inputs(self) -> None:
        """Notes the inputs that must be cloned where their data is not aligned."""
        checked = getattr(V.graph, "inputs_to_check", None) or ()
        changed = set(V.graph.mutated_input_idxs)
        self._unaligned = {V.graph.graph_input_names[index] for index in checked if index not in changed}
        if self._unaligned:
            V.graph._defers_input_alignment = True

    def codegen_deferred_alignment_copies(self, input_names: Any, stream: int = 0) -> None:
        """Records the alignment of inputs just before their first use; newer versions of PyTorch give its stream."""
        for name in input_names:
            if name in self._unaligned:
                self._unaligned.discard(name)
                self.record(AlignInputLine(name=name))

    @property
    def _pending_alignment_copies(self) -> Collection[str]:
        """The inputs still to be aligned, under the name by which PyTorch 2.15's scheduler asks for them."""
        return self._unaligned

    def mark_multistream_alignment(self, names: Iterable[str]) -> None:
        """Aligns inputs that several streams read before any of them starts (asked by PyTorch 2.15)."""
        self.codegen_deferred_alignment_copies(list(names))

    @contextlib.contextmanager
    def kernel_profile_scope(self, *args: Any, **kwargs: Any) -> Iterator[None]:
        """Opens no scope: it is one of C++ text, for profiling (entered by PyTorch 2.15)."""
        yield

    profiled_kernel_scope = kernel_profile_scope

    def records_profiling_args(self) -> bool:
        """Says that nothing is to be prepared for a profiler (asked by PyTorch 2.15)."""
        return False

    def make_profiling_args(self, values: Sequence[Any]) -> None:
        """Prepares nothing for a profiler (asked by PyTorch 2.15)."""

    def codegen_deferred_input_asserts(self, input_names: Any) -> None:
        """Drops the compiler's checks of inputs: their types are in the program, targets check them at entry."""


def _values(nodes: Sequence[Any]) -> tuple[Value, ...]:
    return tuple(to_value(node) for node in nodes)
