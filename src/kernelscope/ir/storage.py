"""Which names share a storage, followed line by line through reuse, views, aliases, packs and calls.

Used by the verifier's rules and by planning. The memory report has its own, independent account, as an oracle.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kernelscope.ir import lines as l
from kernelscope.ir.dataflow import call_operands, called_functions, defines, ends, operand_names, tensor_name
from kernelscope.ir.lines import WrapperLine
from kernelscope.ir.program import Function, Program, TensorInput
from kernelscope.ir.values import Dim, TensorType

SharedInputs = Mapping[str, frozenset[int]]
"""For each function, the positions of the inputs whose storage its results may share."""


@functools.lru_cache(maxsize=4096)
def nbytes_of(layout: TensorType) -> Dim:
    """Bytes of a layout's storage; remembered, because symbolic arithmetic is slow."""
    return layout.nbytes()


@dataclass(slots=True)
class Storages:
    """The state before the next line.

    Attributes:
        roots: For each name ever defined, the names that the storages it may use came into being with: one, unless
            an operator's result may alias several tensors.
        alive: Names that have not ended.
        borrowed: Roots that the caller owns.
        sizes: Bytes of each root's storage, where known.
        types: The layout of each name, where known.
    """

    calls: SharedInputs
    roots: dict[str, tuple[str, ...]] = field(default_factory=dict)
    alive: set[str] = field(default_factory=set)
    borrowed: set[str] = field(default_factory=set)
    sizes: dict[str, Dim] = field(default_factory=dict)
    types: dict[str, TensorType] = field(default_factory=dict)
    _users: dict[str, set[str]] = field(default_factory=dict)
    _elements: dict[tuple[str, tuple[int | str, ...]], str] = field(default_factory=dict)

    @classmethod
    def of(cls, function: Function, constants: Iterable[str] = (), calls: SharedInputs | None = None) -> Storages:
        """The state before a function's first line; ``calls`` is what ``shared_inputs`` says of its callees."""
        state = cls(calls or {})
        for name in constants:
            state._add(name, (name,))
        for entry in function.inputs:
            state._add(entry.name, (entry.name,))
            if isinstance(entry, TensorInput):
                state.types[entry.name] = entry.type
            if not (isinstance(entry, TensorInput) and entry.donated):
                state.borrowed.add(entry.name)
            else:
                state.sizes[entry.name] = nbytes_of(entry.type)
        return state

    def __contains__(self, name: str) -> bool:
        return name in self.roots

    def roots_of(self, name: str) -> tuple[str, ...]:
        """The names that the storages a name may use came into being with."""
        return self.roots.get(name, (name,))

    def root(self, name: str) -> str:
        """The first of a name's roots: the only one, unless the name may alias several tensors."""
        return self.roots_of(name)[0]

    def bytes_of(self, name: str) -> Dim | None:
        """Bytes of a name's storage, where known."""
        roots = self.roots_of(name)
        return self.sizes.get(roots[0]) if len(roots) == 1 else None

    def alive_on(self, root: str) -> set[str]:
        """Names alive that use, or may use, a root's storage."""
        return set(self._users.get(root, ()))

    def is_used(self, root: str) -> bool:
        """Whether a name alive uses, or may use, a root's storage."""
        return bool(self._users.get(root))

    def step(self, line: WrapperLine) -> None:
        """Goes past one line."""
        for name in ends(line):
            self.alive.discard(name)
            for root in self.roots_of(name):
                self._users.get(root, set()).discard(name)
        for name in defines(line):
            self._define(name, line)

    def _define(self, name: str, line: WrapperLine) -> None:
        layout = getattr(line, "type", None)
        if isinstance(layout, TensorType):
            self.types[name] = layout
        shared = dict.fromkeys(root for source in self._sources(line) for root in self._known_roots(source))
        self._add(name, tuple(shared) or (name,))
        if isinstance(line, l.MultiOutputLine):
            self._elements.setdefault((line.source, line.path), name)
        if shared or not isinstance(layout, TensorType):
            return
        if isinstance(line, l.AllocateLine) and line.allocation_size is not None:
            layout = TensorType(
                dtype=layout.dtype, device=layout.device, size=line.allocation_size, stride=layout.stride
            )
        self.sizes[name] = nbytes_of(layout)

    def _known_roots(self, name: str) -> tuple[str, ...]:
        if name not in self.roots:
            self._add(name, (name,))
            self.borrowed.add(name)
        return self.roots[name]

    def _add(self, name: str, roots: tuple[str, ...]) -> None:
        self.roots[name] = roots
        self.alive.add(name)
        for root in roots:
            self._users.setdefault(root, set()).add(name)

    def _sources(self, line: WrapperLine) -> Iterable[str]:
        """The names whose storage a line's result has, or may have."""
        match line:
            case l.ReuseLine():
                return (line.old,)
            case l.ReinterpretLine():
                return (tensor_name(line.value),)
            case l.ExternKernelAllocLine() | l.CollectiveLine():
                return line.aliases
            case l.MultiOutputLine():
                return self._element_sources(line)
            case l.InvokeSubgraphLine() | l.ConditionalLine() | l.WhileLoopLine():
                positions = frozenset().union(*(self.calls.get(name, ()) for name in called_functions(line)))
                operands = call_operands(line)
                return [name for at in sorted(positions) if at < len(operands) for name in operand_names(operands[at])]
            case _:
                return ()

    def _element_sources(self, line: l.MultiOutputLine) -> tuple[str, ...]:
        if line.aliases:
            return line.aliases
        if not line.path and line.source in self.types:
            return (line.source,)
        first = self._elements.get((line.source, line.path))
        if first is not None:
            return (first,)
        return tuple(root for root in self.roots_of(line.source) if root != line.source)


def shared_inputs(program: Program) -> SharedInputs:
    """For each function that others may call, the inputs whose storage its results may share."""
    functions = {function.name: function for function in program.functions}
    found: dict[str, frozenset[int]] = {}

    def visit(name: str) -> None:
        found[name] = frozenset()  # what a function that calls itself, which the verifier refuses, sees of itself
        function = functions[name]
        for line in function.lines:
            for callee in called_functions(line):
                if callee in functions and callee not in found:
                    visit(callee)
        found[name] = _returned_inputs(function, found)

    for name in functions:
        if name not in found:
            visit(name)
    return found


def _returned_inputs(function: Function, calls: SharedInputs) -> frozenset[int]:
    storages = Storages.of(function, calls=calls)
    returned: set[str] = set()
    for line in function.lines:
        if isinstance(line, l.ReturnLine):
            returned.update(root for name in operand_names(line.values) for root in storages.roots_of(name))
        storages.step(line)
    return frozenset(at for at, entry in enumerate(function.inputs) if entry.name in returned)
