"""What one probe saw, as it was taken between two launches, and the log that keeps the last of them.

Events are made of it when somebody reads them: making one takes as long as a small kernel. Bytes and numbers are also
nothing that Python's garbage collector looks at, which a hundred thousand events would be.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from kernelscope.ir.lines import ProbeLine
from kernelscope.probe.look import plain_value
from kernelscope.probe.raw import unpacked
from kernelscope.probe.records import Event, Observed

Parts = list[tuple[str, Observed]]
"""Labels and records of the parts of one value."""
_SEVERAL = (list, tuple)


@dataclass(frozen=True, slots=True)
class Run:
    """A running call of a program.

    Attributes:
        program: The program's name.
        process: Process id.
        thread: Thread id.
        rank: Rank in the process group.
        step: How many calls of the program began before, in this process.
    """

    program: str
    process: int
    thread: int
    rank: int
    step: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What one probe saw.

    Attributes:
        line: The probe.
        run: The call of the program that it belongs to.
        time_ns: Nanoseconds since 1970.
        first: The position of its first event among the step's.
        count: How many events it stands for.
        labels: The labels of ``items``.
        items: What was seen: packed records of tensors, plain values, tuples of these two, or ``Parts``.
    """

    line: ProbeLine
    run: Run
    time_ns: int
    first: int
    count: int
    labels: tuple[str, ...] = ()
    items: tuple[Any, ...] = ()

    def events(self) -> Iterator[Event]:
        """The events."""
        order = self.first
        if around_call(self.line):
            yield self._event(order, "", None)
            order += 1
        for label, item in zip(self.labels, self.items, strict=True):
            for name, value in _parts(label, item):
                yield self._event(order, name, value, written=label in self.line.written)
                order += 1

    def _event(self, order: int, label: str, value: Observed | None, *, written: bool = False) -> Event:
        line, run = self.line, self.run
        return Event(
            time_ns=self.time_ns,
            process=run.process,
            thread=run.thread,
            rank=run.rank,
            program=run.program,
            step=run.step,
            order=order,
            call=line.call if around_call(line) else None,
            moment=line.moment,
            subject=line.subject,
            label=label,
            value=value,
            written=written,
            origin=line.origin,
        )


def around_call(line: ProbeLine) -> bool:
    """Whether a probe is before or after a call: then the call has an event of its own."""
    return line.moment in ("before", "after")


def count_of(line: ProbeLine, items: tuple[Any, ...]) -> int:
    """How many events stand for what a probe saw."""
    count = len(items) + around_call(line)
    for item in items:
        if type(item) in _SEVERAL:
            count += len(item) - 1
    return count


def _parts(label: str, item: Any) -> Parts:
    if type(item) is list:
        return item
    if type(item) is tuple:
        return [part for index, each in enumerate(item) for part in _parts(f"{label}[{index}]", each)]
    return [(label, unpacked(item) if type(item) is bytes else plain_value(item))]


class EventLog(Sequence[Event]):
    """The last events, oldest first: at least ``most`` of them, if there were as many.

    Attributes:
        dropped: How many older ones are gone.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen: deque[Seen] = deque()
        self._count = 0
        self._lock = threading.Lock()
        self._made: list[Event] | None = None
        self.dropped = 0

    def append(self, seen: Seen) -> None:
        """Adds what a probe saw."""
        with self._lock:
            self._made = None
            self._seen.append(seen)
            self._count += seen.count
            while self._count - self._seen[0].count >= self._most:
                gone = self._seen.popleft().count
                self._count -= gone
                self.dropped += gone

    def clear(self) -> None:
        """Forgets all events."""
        with self._lock:
            self._seen.clear()
            self._count, self._made = 0, None

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Event]:
        return iter(self._events())

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | Sequence[Event]:
        return self._events()[index]

    def _events(self) -> list[Event]:
        with self._lock:
            if self._made is None:
                self._made = [event for seen in self._seen for event in seen.events()]
            return self._made
