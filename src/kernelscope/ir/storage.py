"""Which names share a storage, followed line by line through reuse, views, aliases and packs.

Used by the verifier's rules. The memory report has its own, independent account, as an oracle.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelscope.ir import lines as l
from kernelscope.ir.dataflow import defines, ends, tensor_name
from kernelscope.ir.lines import WrapperLine
from kernelscope.ir.program import Function, TensorInput
from kernelscope.ir.values import Dim, TensorType


@dataclass(slots=True)
class Storages:
    """The state before the next line.

    Attributes:
        roots: For each name ever defined, the name that its storage came into being with.
        alive: Names that have not ended.
        borrowed: Roots that the caller owns.
        sizes: Bytes of each root's storage, where known.
        types: The layout of each name, where known.
    """

    roots: dict[str, str] = field(default_factory=dict)
    alive: set[str] = field(default_factory=set)
    borrowed: set[str] = field(default_factory=set)
    sizes: dict[str, Dim] = field(default_factory=dict)
    types: dict[str, TensorType] = field(default_factory=dict)
    _users: dict[str, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, function: Function, constants: frozenset[str] = frozenset()) -> Storages:
        """The state before a function's first line."""
        state = cls()
        for name in constants:
            state._add(name, name)
        for entry in function.inputs:
            state._add(entry.name, entry.name)
            if isinstance(entry, TensorInput):
                state.types[entry.name] = entry.type
            if not (isinstance(entry, TensorInput) and entry.donated):
                state.borrowed.add(entry.name)
        return state

    def __contains__(self, name: str) -> bool:
        return name in self.roots

    def root(self, name: str) -> str:
        """The name that a name's storage came into being with."""
        return self.roots.get(name, name)

    def bytes_of(self, name: str) -> Dim | None:
        """Bytes of a name's storage, where known."""
        return self.sizes.get(self.root(name))

    def alive_on(self, root: str) -> set[str]:
        """Names alive that use a root's storage."""
        return set(self._users.get(root, ()))

    def step(self, line: WrapperLine) -> None:
        """Goes past one line."""
        for name in ends(line):
            self.alive.discard(name)
            self._users.get(self.root(name), set()).discard(name)
        for name in defines(line):
            self._define(name, line)

    def _define(self, name: str, line: WrapperLine) -> None:
        layout = getattr(line, "type", None)
        if isinstance(layout, TensorType):
            self.types[name] = layout
        source = _source(line)
        if source is not None and source in self.roots:
            self._add(name, self.roots[source])
            return
        self._add(name, name)
        if isinstance(line, l.AllocateLine):
            size = line.type.size if line.allocation_size is None else line.allocation_size
            allocated = TensorType(dtype=line.type.dtype, device=line.type.device, size=size, stride=line.type.stride)
            self.sizes[name] = allocated.nbytes()
        elif isinstance(line, (l.ExternKernelAllocLine, l.MultiOutputLine)) and line.aliases:
            # May share any of several storages: treated as borrowed, so it is never taken over.
            self.borrowed.add(name)

    def _add(self, name: str, root: str) -> None:
        self.roots[name] = root
        self.alive.add(name)
        self._users.setdefault(root, set()).add(name)


def _source(line: WrapperLine) -> str | None:
    """The name whose storage a line's result certainly has."""
    match line:
        case l.ReuseLine():
            return line.old
        case l.ReinterpretLine():
            return tensor_name(line.value)
        case l.ExternKernelAllocLine(aliases=(only,)) | l.MultiOutputLine(aliases=(only,)):
            return only
        case l.MultiOutputLine(path=()):
            return line.source
        case _:
            return None
