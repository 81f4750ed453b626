"""The recorder: stands where Inductor expects its wrapper code generator, and records a program instead of text.

Inductor's scheduler drives it through the entry methods of its parts: ``memory``, ``launches``, ``operators``,
``symbols``, ``control``. What it does not know it refuses by name; it never drops a line.
"""

from __future__ import annotations

import time
from typing import Any

import sympy
from torch._inductor import ir
from torch._inductor.utils import ValueWithLineMap
from torch._inductor.virtualized import V

from kernelscope.capture.inductor import constants, session
from kernelscope.capture.inductor.control import ControlEntries
from kernelscope.capture.inductor.kernels import cpp_build
from kernelscope.capture.inductor.launches import KernelEntries
from kernelscope.capture.inductor.memory import MemoryEntries
from kernelscope.capture.inductor.operators import OperatorEntries
from kernelscope.capture.inductor.origins import record_graph
from kernelscope.capture.inductor.symbols import SymbolEntries
from kernelscope.capture.inductor.values import tensor_type, to_value
from kernelscope.errors import UnsupportedError
from kernelscope.ir import lines as l
from kernelscope.ir.dataflow import defines, ends
from kernelscope.ir.expr import canonical_dim, symbol
from kernelscope.ir.kernels import CppKernel
from kernelscope.ir.program import Function, Input, ObjectInput, Program, ScalarInput, SymbolInfo, TensorInput


class Recorder(MemoryEntries, KernelEntries, OperatorEntries, SymbolEntries, ControlEntries):
    """Records one graph: the main function of a program, or a function it calls."""

    def __init__(self, *, name: str = "main", parent: Recorder | None = None) -> None:
        super().__init__(name=name, parent=parent)
        self._graph = V.graph
        self.bind_input_symbols(dict(V.graph.graph_inputs))

    @staticmethod
    def create(
        is_subgraph: bool,
        subgraph_name: str | None,
        parent_wrapper: Any,
        partition_signatures: Any = None,
    ) -> Recorder:
        """Makes the recorder of a graph, as Inductor calls it."""
        if partition_signatures is not None:
            raise UnsupportedError("partitioned graphs", hint='set the option "graph_partition" to False')
        return Recorder(name=subgraph_name or "main", parent=parent_wrapper if is_subgraph else None)

    def generate(self, is_inference: bool) -> tuple[ValueWithLineMap, ValueWithLineMap]:
        """Finishes the function; for the main one, gives the Python module that PyTorch loads and caches."""
        start = time.perf_counter_ns()
        function = self._function_record()
        empty = ValueWithLineMap("", [])
        if self.parent is not None:
            self._functions[self.name] = function
            return empty, empty
        program = self._program(function, is_inference)
        capture_ns = self.record_ns + time.perf_counter_ns() - start
        return ValueWithLineMap(session.current().finish(program, capture_ns), []), empty

    # --- assembling ---

    def _function_record(self) -> Function:
        returned = l.ReturnLine(values=tuple(to_value(output) for output in V.graph.graph_outputs))
        inputs = tuple(self._input(name) for name in V.graph.graph_input_names)
        return Function(name=self.name, inputs=inputs, lines=(*self._live_lines(), returned))

    def _live_lines(self) -> tuple[l.WrapperLine, ...]:
        """The recorded lines without those for buffers that fusion removed after they were announced."""
        removed = V.graph.removed_buffers
        return tuple(line for line in self._lines if not removed.intersection((*defines(line), *ends(line))))

    def _input(self, name: str) -> Input:
        value = V.graph.graph_inputs[name]
        if isinstance(value, ir.TensorBox):
            donated = isinstance(V.graph.graph_inputs_original.get(name), ir.DonatedBuffer)
            return TensorInput(name=name, type=tensor_type(value), donated=donated)
        if isinstance(value, (sympy.Basic, int, float)):
            return ScalarInput(name=name, expr=canonical_dim(sympy.sympify(value)))
        return ObjectInput(name=name, kind=type(value).__name__)

    def _program(self, main: Function, is_inference: bool) -> Program:
        graph = self._graph
        phase: Any = "backward" if graph.is_backward else "inference" if is_inference else "forward"
        recorded = (*main.lines, *(line for function in self._functions.values() for line in function.lines))
        compiled = any(
            isinstance(line, l.KernelDefinitionLine) and isinstance(line.kernel, CppKernel) for line in recorded
        )
        stored, storages = constants.record(graph.constants, recorded)
        return Program(
            name=f"{phase}_{graph.graph_id or 0}",
            phase=phase,
            main=main,
            functions=tuple(self._functions.values()),
            constants=stored,
            storages=storages,
            symbols=self._symbols(),
            cpp_build=cpp_build() if compiled else None,
            graph=record_graph(graph.module.graph, self._buffer_nodes()),
            torch_version=session.torch_release(),
        )

    def _buffer_nodes(self) -> list[tuple[str, Any]]:
        pairs = []
        for buffer in self._graph.buffers:
            node = buffer.get_origin_node() if hasattr(buffer, "get_origin_node") else None
            if node is not None:
                pairs.append((buffer.get_name(), node))
        return pairs

    def _symbols(self) -> tuple[SymbolInfo, ...]:
        env = self._graph.sizevars.shape_env
        infos = {}
        for sym, hint in sorted(env.backed_var_to_val.items(), key=lambda item: str(item[0])):
            infos[str(sym)] = self._symbol_info(sym, "backed", hint)
        return tuple(infos.values())

    def _symbol_info(self, sym: Any, kind: Any, hint: Any) -> SymbolInfo:
        bounds = self._graph.sizevars.shape_env.var_to_range.get(sym)
        lower, upper = (None, None) if bounds is None else (_bound(bounds.lower), _bound(bounds.upper))
        value = None if hint is None else (float(hint) if isinstance(hint, sympy.Float) else int(hint))
        return SymbolInfo(symbol=symbol(str(sym)), kind=kind, hint=value, lower=lower, upper=upper)


def _bound(value: Any) -> int | None:
    return int(value) if isinstance(value, sympy.Integer) and abs(int(value)) < 2**62 else None
