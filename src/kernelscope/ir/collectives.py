"""Which storages collectives work on, from a collective's start to its wait.

Used by the verifier's rule and by planning. Must not live here: what a collective does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelscope.ir import lines as l
from kernelscope.ir.dataflow import operand_names
from kernelscope.ir.lines import WrapperLine
from kernelscope.ir.storage import Storages


def is_wait(line: WrapperLine) -> bool:
    """Whether a line waits for a collective."""
    return isinstance(line, l.CollectiveLine) and "wait_tensor" in line.op


@dataclass(slots=True)
class InFlight:
    """The state before the next line.

    Attributes:
        storages: The storages at the same line; whoever steps this steps them first.
        written: Roots that a collective writes, with the line of its start: neither read nor written meanwhile.
        lent: Roots that a collective only reads: not written meanwhile.
    """

    storages: Storages
    written: dict[str, int] = field(default_factory=dict)
    lent: dict[str, int] = field(default_factory=dict)

    def holds(self, name: str) -> bool:
        """Whether a collective works on a name's storage."""
        return any(root in self.written or root in self.lent for root in self.storages.roots_of(name))

    def forbids(self, reads: tuple[str, ...], writes: tuple[str, ...]) -> list[tuple[str, int]]:
        """Names that must not be read or written now, each with the line of the collective's start."""
        if not self.written and not self.lent:
            return []
        found = {name: at for name in (*reads, *writes) if (at := self._start(self.written, name)) is not None}
        found.update((name, at) for name in writes if (at := self._start(self.lent, name)) is not None)
        return list(found.items())

    def _start(self, running: dict[str, int], name: str) -> int | None:
        starts = [running[root] for root in self.storages.roots_of(name) if root in running]
        return min(starts) if starts else None

    def step(self, line: WrapperLine, index: int) -> None:
        """Goes past the line at ``index``."""
        if isinstance(line, l.CollectiveLine):
            names = tuple(operand_names(line.args))
            if is_wait(line):
                self._wait(names)
            else:
                self._begin(line, names, index)
        elif isinstance(line, l.MultiOutputLine) and line.source in self.written:
            self._mark(self.written, line.name, self.written[line.source])

    def _begin(self, line: l.CollectiveLine, names: tuple[str, ...], index: int) -> None:
        for name in names:
            self._mark(self.lent, name, index)
        for name in (*line.mutates, *(() if line.result is None else (line.result,))):
            self._mark(self.written, name, index)

    def _mark(self, running: dict[str, int], name: str, index: int) -> None:
        running.update(dict.fromkeys(self.storages.roots_of(name), index))

    def _wait(self, names: tuple[str, ...]) -> None:
        roots = {root for name in names for root in self.storages.roots_of(name)}
        starts = {self.written.pop(root) for root in roots if root in self.written}
        self.lent = {root: start for root, start in self.lent.items() if start not in starts and root not in roots}
