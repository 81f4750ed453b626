"""The state that the recorder's entry methods share while one graph is being recorded."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator
from typing import Any

import sympy
from torch import fx
from torch._inductor.virtualized import V

from kernelscope.capture.inductor.origins import ir_origins, origin_of
from kernelscope.capture.inductor.values import named_tensor
from kernelscope.errors import UnsupportedError
from kernelscope.ir.dataflow import defines
from kernelscope.ir.expr import canonical, symbol
from kernelscope.ir.kernels import Kernel
from kernelscope.ir.lines import CommentLine, Line, Origin, SymbolicCallArgLine, WrapperLine
from kernelscope.ir.program import Function
from kernelscope.ir.values import BufferRef, ConstantRef


class Recording:
    """Lines recorded so far and what Inductor's scheduler asks about them.

    The attributes without a leading underscore are part of the interface that Inductor expects of a wrapper code
    generator; it reads and updates them itself.
    """

    supports_caching = True
    supports_intermediate_hooks = False
    none_str = "None"
    comment = "#"
    declare = ""
    ending = ""

    def __init__(self, *, name: str, parent: Recording | None) -> None:
        self.name = name
        self.parent = parent
        self.allocated: set[str] = set()
        self.freed: set[str] = set()
        self.src_to_kernel: dict[str, str] = {} if parent is None else parent.src_to_kernel
        self.computed_sizes: set[sympy.Symbol] = set()
        self.record_ns = 0
        self.additional_files: list[str] = []
        self.last_seen_device_guard_index: int | None = None
        self.user_defined_kernel_cache: dict[Any, Any] = {} if parent is None else parent.user_defined_kernel_cache
        self._names_iter: Iterator[int] = iter(range(1_000_000)) if parent is None else parent._names_iter
        self._lines: list[WrapperLine] = []
        self._defined: set[str] = set()
        self._kernels: dict[str, Kernel] = {} if parent is None else parent._kernels
        self._functions: dict[str, Function] = {} if parent is None else parent._functions
        self._owner: dict[str, fx.Node] = {} if parent is None else parent._owner
        self._graph_stack: list[Any] = []
        self._size_stack: list[set[sympy.Symbol]] = []

    # --- lines ---

    def record(self, line: WrapperLine, nodes: Iterable[Any] | None = None) -> None:
        """Appends a line; its origin comes from ``nodes`` of Inductor's IR, else from the scheduler's position."""
        start = time.perf_counter_ns()
        if line.origin is None and not isinstance(line, CommentLine):
            line = dataclasses.replace(line, origin=self.origin(nodes))
        self._defined.update(defines(line))
        self._lines.append(line)
        self.record_ns += time.perf_counter_ns() - start

    def origin(self, nodes: Iterable[Any] | None = None) -> Origin | None:
        """The origin of what is being generated now."""
        if nodes is None:
            current = getattr(V.graph.scheduler, "current_node", None)
            nodes = () if current is None else (current,)
        return origin_of(ir_origins(nodes))

    def writeline(self, line: object) -> None:
        """Refuses text: every kind of node has a typed capture (A4)."""
        if isinstance(line, Line):
            self.record(line)  # type: ignore[arg-type]
            return
        raise UnsupportedError(
            f"the compiler asked the host program for a free line of text: {str(line).strip()[:200]!r}",
            where=self._where(),
            hint='set on_unsupported="inductor" to run this graph by plain Inductor',
        )

    def writelines(self, lines: Iterable[object]) -> None:
        """Refuses text, as ``writeline``."""
        for line in lines:
            self.writeline(line)

    def make_comment(self, text: str) -> None:
        """Drops the compiler's remarks: origins are typed, and emitters write their own comments."""

    def enter_context(self, node: fx.Node) -> None:
        """Ignores the position in the FX graph: origins are taken from the scheduler's nodes."""

    def __getattr__(self, name: str) -> Any:
        """Refuses what the recorder does not implement, by name."""
        if name.startswith("_"):
            raise AttributeError(name)
        raise UnsupportedError(
            f"the compiler asked the host program for {name!r}, which the capture does not implement",
            where=self._where(),
            hint='set on_unsupported="inductor" to run this graph by plain Inductor',
        )

    def _where(self) -> str:
        current = getattr(getattr(V.graph, "scheduler", None), "current_node", None)
        origin = origin_of(ir_origins(() if current is None else (current,)))
        if origin is None:
            return f"graph {self.name}"
        place = f"{origin.locations[0].file}:{origin.locations[0].line}" if origin.locations else f"graph {self.name}"
        return f"operator {', '.join(origin.ops)} ({place})"

    # --- names ---

    def next_kernel_suffix(self) -> str:
        """A number that no kernel of this program has yet."""
        return str(next(self._names_iter))

    def tensor(self, name: str) -> BufferRef | ConstantRef:
        """The operand a buffer's name stands for."""
        return named_tensor(name)

    # --- symbols ---

    def ensure_size_computed(self, sym: sympy.Symbol) -> None:
        """Records the definition of a size that Inductor precomputed on the host, once."""
        replacements = V.graph.sizevars.inv_precomputed_replacements
        if sym not in replacements or sym in self.computed_sizes:
            return
        self.computed_sizes.add(sym)
        self.record(SymbolicCallArgLine(symbol=symbol(str(sym)), expr=canonical(replacements[sym])))

    def push_computed_sizes(self, sizes: set[sympy.Symbol]) -> None:
        """Saves the set of computed sizes."""
        self._size_stack.append(set(sizes))

    def pop_computed_sizes(self) -> set[sympy.Symbol]:
        """Restores the set of computed sizes."""
        return self._size_stack.pop()

    def push_codegened_graph(self, graph: Any) -> None:
        """Enters a graph."""
        self._graph_stack.append(graph)

    def pop_codegened_graph(self) -> Any:
        """Leaves a graph."""
        return self._graph_stack.pop()

    def get_codegened_graph(self) -> Any:
        """The graph being recorded."""
        return self._graph_stack[-1]
