"""Reuse planning: which freed storage serves which later allocation.

A storage that waits for its next user stays allocated meanwhile, so reuse can cost memory. This pass reuses only
where the peak stays at what it is without any reuse, which is the least a plan of separate storages can need.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from kernelscope.ir import lines as l
from kernelscope.ir.collectives import InFlight
from kernelscope.ir.dataflow import called_functions, defines, ends
from kernelscope.ir.expr import to_text
from kernelscope.ir.lines import WrapperLine
from kernelscope.ir.program import Function, Program
from kernelscope.ir.sizes import Sizes
from kernelscope.ir.storage import SharedInputs, Storages, nbytes_of, shared_inputs
from kernelscope.ir.values import Dim, TensorType
from kernelscope.passes.base import PassResult


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMemory:
    """Turns allocations into reuse of freed storages.

    Needs: a verified program. Ensures: the same values; a peak (by ``memory_report``) no higher than before.

    Attributes:
        view_bytes: A storage smaller than this is reused only for the same size and stride, because another
            layout costs a view at run time, which is dearer than allocating so little.
    """

    view_bytes: int = 4096

    @property
    def name(self) -> str:
        """The pass's name."""
        return "plan_memory"

    def run(self, program: Program) -> PassResult:
        """The program with reuse planned in each of its functions."""
        profiles = _Profiles(program, Sizes.of(program), shared_inputs(program))
        main = _Plan.of(program.main, profiles, self.view_bytes).planned()
        functions = tuple(_Plan.of(function, profiles, self.view_bytes).planned() for function in program.functions)
        planned = dataclasses.replace(program, main=main, functions=functions)
        return PassResult(program=planned, changed=planned != program)


@dataclass(frozen=True, slots=True)
class _Free:
    """A storage that is free from line ``since`` on."""

    name: str
    since: int
    type: TensorType
    nbytes: int


_Key: TypeAlias = "tuple[object, ...]"


@functools.lru_cache(maxsize=4096)
def _size_text(nbytes: Dim) -> str:
    # Sizes are compared as expressions: s0 does not serve s1 because today's examples agree.
    return to_text(nbytes)


class _Profiles:
    """Bytes in use in each of a program's functions, without further reuse."""

    def __init__(self, program: Program, sizes: Sizes, calls: SharedInputs) -> None:
        self.sizes = sizes
        self.calls = calls
        self._functions = {function.name: function for function in program.functions}
        self._live: dict[str, list[int]] = {}

    def live(self, function: Function) -> list[int]:
        """Bytes of a function's own storages after each line; at a call, those of its callee's peak too."""
        known = self._live.get(function.name)
        if known is None:
            self._live[function.name] = []
            known = self._live[function.name] = self._walk(function)
        return known

    def _walk(self, function: Function) -> list[int]:
        storages = Storages.of(function, calls=self.calls)
        held: dict[str, int] = {}
        total, profile = 0, []
        for line in function.lines:
            ended = [root for name in ends(line) for root in storages.roots_of(name)]
            storages.step(line)
            for name in defines(line):
                if storages.roots_of(name) == (name,):
                    held[name] = self.sizes.nbytes(storages.sizes.get(name, 0))
                    total += held[name]
            for root in ended:
                if not storages.is_used(root):
                    total -= held.pop(root, 0)
            callees = [self._functions[name] for name in called_functions(line) if name in self._functions]
            profile.append(total + max((max(self.live(callee), default=0) for callee in callees), default=0))
        return profile


@dataclass(slots=True)
class _Plan:
    """The plan of one function, made in one walk over its lines.

    Attributes:
        live: Bytes of the function's own storages after each line, with the reuse decided so far.
        peak: The most of them without any reuse.
        pool: Free storages by what they can serve, in the order in which they came free.
        streams: The streams whose scopes are open, innermost last.
        used_on: The stream on which each storage was made: only there it may serve again, because other streams
            do not wait for its last use.
    """

    function: Function
    sizes: Sizes
    view_bytes: int
    storages: Storages
    flight: InFlight
    live: list[int]
    peak: int
    pool: dict[_Key, list[_Free]] = field(default_factory=dict)
    streams: list[int] = field(default_factory=list)
    used_on: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, function: Function, profiles: _Profiles, view_bytes: int) -> _Plan:
        live = list(profiles.live(function))
        storages = Storages.of(function, calls=profiles.calls)
        peak = max(live, default=0)
        return cls(function, profiles.sizes, view_bytes, storages, InFlight(storages), live, peak)

    def planned(self) -> Function:
        """The function with reuse in place of allocations and of the frees before them."""
        reuses: dict[int, l.ReuseLine] = {}
        dropped: set[int] = set()
        reusable = _reusable(self.function)
        for index, line in enumerate(self.function.lines):
            step: WrapperLine = line
            if isinstance(line, l.AllocateLine) and _plain(line):
                found = self._choose(line, index)
                if found is not None:
                    for at in range(found.since, index):
                        self.live[at] += found.nbytes
                    step = l.ReuseLine(old=found.name, new=line.name, type=line.type, origin=line.origin)
                    reuses[index] = step
                    dropped.add(found.since)
            elif isinstance(line, l.FreeIfNotReusedLine) and line.name in reusable:
                self._release(line.name, index)
            self._pass(step, index)
        lines = (reuses.get(index, line) for index, line in enumerate(self.function.lines) if index not in dropped)
        return dataclasses.replace(self.function, lines=tuple(_trimmed(lines)))

    def _pass(self, line: WrapperLine, index: int) -> None:
        self.storages.step(line)
        self.flight.step(line, index)
        if isinstance(line, l.EnterStreamLine):
            self.streams.append(line.stream)
        elif isinstance(line, l.ExitStreamLine):
            self.streams.pop()
        for name in defines(line):
            self.used_on.setdefault(self.storages.root(name), self._stream())

    def _stream(self) -> int:
        return self.streams[-1] if self.streams else 0

    def _key(self, layout: TensorType, nbytes: Dim) -> _Key:
        return (layout.device, layout.dtype, self._stream(), _size_text(nbytes))

    def _release(self, name: str, index: int) -> None:
        """Adds a storage to the pool, if it is this function's and no other name alive may use it."""
        roots, layout, nbytes = (
            self.storages.roots_of(name),
            self.storages.types.get(name),
            self.storages.bytes_of(name),
        )
        if layout is None or nbytes is None or len(roots) != 1 or roots[0] in self.storages.borrowed:
            return
        if self.storages.alive_on(roots[0]) != {name} or self.flight.holds(name):
            return
        if self.used_on.get(roots[0], self._stream()) == self._stream():
            free = _Free(name, index, layout, self.sizes.nbytes(nbytes))
            self.pool.setdefault(self._key(layout, nbytes), []).append(free)

    def _choose(self, line: l.AllocateLine, index: int) -> _Free | None:
        """The storage to reuse for an allocation: same layout first, then the one freed last."""
        waiting = self.pool.get(self._key(line.type, nbytes_of(line.type)), [])
        layout = (line.type.size, line.type.stride)
        same = [free for free in waiting if (free.type.size, free.type.stride) == layout]
        others = [
            free for free in waiting if (free.type.size, free.type.stride) != layout and free.nbytes >= self.view_bytes
        ]
        for free in (*reversed(same), *reversed(others)):
            # Taken, or out for good: a storage that cannot wait until here cannot wait longer either.
            waiting.remove(free)
            if max(self.live[free.since : index], default=0) + free.nbytes <= self.peak:
                return free
        return None


def _plain(line: l.AllocateLine) -> bool:
    return line.allocation_size is None and not line.pinned and not line.workspace and line.type.offset == 0


def _reusable(function: Function) -> frozenset[str]:
    """Names that are laid over a whole storage of a known size, which is no one else's.

    An operator's result counts if it may alias nothing; a donated input does too. An alias does not: it may begin
    in the middle of its storage.
    """
    names = {entry.name for entry in function.inputs}
    packs: set[str] = set()
    for line in function.lines:
        layout = getattr(line, "type", None)
        match line:
            case l.AllocateLine():
                whole = _plain(line)
            case l.ReuseLine():
                whole = line.old in names
            case l.ExternKernelAllocLine(result=str() as name, aliases=(), mutates=()):
                packs.add(name)
                whole = layout is not None and layout.offset == 0
            case l.MultiOutputLine(source=source, aliases=()):
                whole = source in packs and layout is not None and layout.offset == 0
            case _:
                whole = False
        if whole:
            names.update(defines(line))
    return frozenset(names)


def _trimmed(lines: Iterable[WrapperLine]) -> list[WrapperLine]:
    """The lines without frees just before the return, where leaving the function frees everything anyway."""
    kept = list(lines)
    position = len(kept) - 2
    while position >= 0 and isinstance(kept[position], (l.FreeIfNotReusedLine, l.FreeLine, l.NullLine)):
        del kept[position]
        position -= 1
    return kept
