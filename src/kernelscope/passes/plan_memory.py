"""Reuse planning: which freed storage serves which later allocation.

A storage that waits for its next user stays allocated meanwhile, so reuse can cost memory. This pass reuses only
where the peak stays at what it is without any reuse, which is the least a plan of separate storages can need.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from kernelscope.ir import lines as l
from kernelscope.ir.dataflow import ends
from kernelscope.ir.expr import to_text
from kernelscope.ir.lines import WrapperLine
from kernelscope.ir.program import Function, Program
from kernelscope.ir.sizes import Sizes
from kernelscope.ir.storage import Storages
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
        sizes = Sizes.of(program)
        main = _plan(program.main, sizes, self.view_bytes)
        functions = tuple(_plan(function, sizes, self.view_bytes) for function in program.functions)
        planned = dataclasses.replace(program, main=main, functions=functions)
        return PassResult(program=planned, changed=planned != program)


@dataclass(slots=True)
class _Free:
    """A storage that is free from line ``since`` on."""

    name: str
    since: int
    type: TensorType
    nbytes: int


def _key(layout: TensorType, nbytes: Dim) -> tuple[object, ...]:
    # Sizes are compared as expressions: s0 does not serve s1 because today's examples agree.
    return (layout.device, layout.dtype, to_text(nbytes))


def _plan(function: Function, sizes: Sizes, view_bytes: int) -> Function:
    live = _live_bytes(function, sizes)
    peak = max(live, default=0)
    storages = Storages.of(function)
    pool: dict[tuple[object, ...], list[_Free]] = {}
    reuses: dict[int, l.ReuseLine] = {}
    dropped: set[int] = set()
    for index, line in enumerate(function.lines):
        if isinstance(line, l.AllocateLine) and _plain(line):
            found = _choose(line, index, pool, live, peak, view_bytes)
            if found is not None:
                for at in range(found.since, index):
                    live[at] += found.nbytes
                reuses[index] = l.ReuseLine(old=found.name, new=line.name, type=line.type, origin=line.origin)
                dropped.add(found.since)
                storages.step(reuses[index])
                continue
        elif isinstance(line, l.FreeIfNotReusedLine):
            free = _freed(line.name, index, storages, sizes)
            if free is not None:
                pool.setdefault(_key(free.type, storages.bytes_of(line.name) or 0), []).append(free)
        storages.step(line)
    lines = (reuses.get(index, line) for index, line in enumerate(function.lines) if index not in dropped)
    return dataclasses.replace(function, lines=tuple(_trimmed(lines)))


def _plain(line: l.AllocateLine) -> bool:
    return line.allocation_size is None and not line.pinned and not line.workspace and line.type.offset == 0


def _freed(name: str, index: int, storages: Storages, sizes: Sizes) -> _Free | None:
    """A storage that may serve again: allocated here, and used by no other name that is alive."""
    root, layout = storages.root(name), storages.types.get(name)
    nbytes = storages.bytes_of(name)
    if layout is None or nbytes is None or root in storages.borrowed or storages.alive_on(root) != {name}:
        return None
    return _Free(name=name, since=index, type=layout, nbytes=sizes.nbytes(nbytes))


def _choose(
    line: l.AllocateLine,
    index: int,
    pool: dict[tuple[object, ...], list[_Free]],
    live: list[int],
    peak: int,
    view_bytes: int,
) -> _Free | None:
    """The storage to reuse for an allocation: same layout first, then the one freed last."""
    candidates = pool.get(_key(line.type, line.type.nbytes()), [])
    layout = (line.type.size, line.type.stride)
    for same_layout in (True, False):
        for free in reversed(candidates):
            same = (free.type.size, free.type.stride) == layout
            if same != same_layout or (not same and free.nbytes < view_bytes):
                continue
            if max(live[free.since : index], default=0) + free.nbytes <= peak:
                candidates.remove(free)
                return free
    return None


def _live_bytes(function: Function, sizes: Sizes) -> list[int]:
    """Bytes of the function's own allocations that are live after each line, without further reuse."""
    storages = Storages.of(function)
    held: dict[str, int] = {}
    total, profile = 0, []
    for line in function.lines:
        ended = {storages.root(name) for name in ends(line)}
        storages.step(line)
        if isinstance(line, l.AllocateLine):
            held[line.name] = sizes.nbytes(storages.bytes_of(line.name) or 0)
            total += held[line.name]
        for root in ended:
            if not storages.alive_on(root):
                total -= held.pop(root, 0)
        profile.append(total)
    return profile


def _trimmed(lines: Iterator[WrapperLine]) -> list[WrapperLine]:
    """The lines without frees just before the return, where leaving the function frees everything anyway."""
    kept = list(lines)
    position = len(kept) - 2
    while position >= 0 and isinstance(kept[position], (l.FreeIfNotReusedLine, l.FreeLine, l.NullLine)):
        del kept[position]
        position -= 1
    return kept
