"""Where a program's probes lead: takes what they show, between two launches, and hands it on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from kernelscope.ir import lines as l
from kernelscope.ir.program import Program
from kernelscope.probe.look import PLAIN, SMALL, describe, dtype_name, parts, plain_value, statistics_of, text_of
from kernelscope.probe.raw import looker
from kernelscope.probe.records import Event, Level, Observed, TensorRecord, Unwritten
from kernelscope.probe.seen import Parts, Run, Seen, around_call, count_of
from kernelscope.probe.selection import Selection

Keeper = Callable[[Seen], None]
"""Gets what each probe saw."""
Receiver = Callable[[Event, Any], None]
"""Gets each event, and the value itself (None where there is none)."""

# How the native module treats a value; the numbers are those of runtime/native/observe.cpp.
_WANTED, _WRITTEN, _UNWRITTEN = 1, 2, 4
_Key = tuple[int, torch.Size, tuple[int, ...], torch.dtype]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a probe's values are: their labels if they are wanted, and a byte of modes for each."""

    line: l.ProbeLine
    labels: tuple[str, ...]
    modes: bytes


class Sink:
    """The probe function of one program: ``sink(number, values)``.

    A tensor is looked at once, and its record holds until somebody writes its storage, which is known from the
    probes' records; at the start of a step nothing is held. Where some calls have no probes (``sees_all`` is false)
    nobody tells of what they write, and each tensor is looked at anew.

    Args:
        program: The program with probes.
        selection: Which values are wanted.
        level: How closely they are looked at.
        keepers: Get what each probe saw.
        receivers: Get each event with its value, at once.
        sees_all: Whether every call has probes.
    """

    def __init__(
        self,
        program: Program,
        selection: Selection,
        level: Level,
        keepers: Sequence[Keeper],
        receivers: Sequence[Receiver],
        *,
        sees_all: bool,
    ) -> None:
        self.program = program
        self.selection = selection
        self.level: Level = level
        self.keepers = tuple(keepers)
        self.receivers = tuple(receivers)
        self._sees_all = sees_all
        self._filters = bool(selection.dtypes or selection.devices)
        self._plans = {
            line.number: self._plan(line)
            for function in program.all_functions()
            for line in function.lines
            if isinstance(line, l.ProbeLine)
        }
        self._steps = 0
        self._lock = threading.Lock()
        self._local = threading.local()

    def __call__(self, number: int, values: tuple[Any, ...]) -> None:
        """Shows the values of probe ``number``."""
        plan = self._plans[number]
        line = plan.line
        state = self._state(line)
        if not state.wanted:
            return
        if line.moment == "inputs" and not self.selection.inputs:
            return
        if not self._sees_all:
            state.forget()
        items = () if self.level == "names" else self._look(plan, state, values)
        count, labels = count_of(line, items), plan.labels if items else ()
        seen = Seen(line, state.run, time.time_ns(), state.order, count, labels, items)
        state.order += count
        for keep in self.keepers:
            keep(seen)
        if self.receivers:
            self._tell(seen, plan, values)

    def _plan(self, line: l.ProbeLine) -> _Plan:
        wanted = tuple(label for label in line.labels if self.selection.wants_label(label))
        modes = (
            _WANTED * (label in wanted) | _WRITTEN * (label in line.written) | _UNWRITTEN * (label in line.unwritten)
            for label in line.labels
        )
        return _Plan(line, wanted, bytes(modes))

    def _state(self, line: l.ProbeLine) -> _Step:
        if line.moment == "inputs":
            with self._lock:
                step, self._steps = self._steps, self._steps + 1
            run = Run(self.program.name, os.getpid(), threading.get_ident(), rank(), step)
            self._local.step = _Step(run, self.level, wanted=self.selection.wants_step(step))
        return self._local.step  # type: ignore[no-any-return]

    def _look(self, plan: _Plan, state: _Step, values: tuple[Any, ...]) -> tuple[Any, ...]:
        line = plan.line

        def other(index: int, value: Any) -> Parts:
            label = line.labels[index]
            unwritten = label in line.unwritten
            return [
                (name, state.observed(each, unwritten=unwritten))
                for name, each in parts(label, value)
                if self._passes(each)
            ]

        after = line.moment == "after"
        if after:
            state.forget_written(line, values)
        if state.native is None or self._filters:
            wanted = (index for index, mode in enumerate(plan.modes) if mode & _WANTED)
            return tuple(other(index, values[index]) for index in wanted)
        return state.native.look(values, plan.modes, after, other)  # type: ignore[no-any-return]

    def _passes(self, value: Any) -> bool:
        if not self._filters or not isinstance(value, torch.Tensor):
            return True
        return self.selection.wants_tensor(dtype_name(value.dtype), str(value.device))

    def _tell(self, seen: Seen, plan: _Plan, values: tuple[Any, ...]) -> None:
        for event, value in zip(seen.events(), self._values(seen, plan, values), strict=True):
            for receive in self.receivers:
                receive(event, value)

    def _values(self, seen: Seen, plan: _Plan, values: tuple[Any, ...]) -> Iterator[Any]:
        """The values of the events, in their order."""
        if around_call(seen.line):
            yield None
        if seen.items:
            for label, mode, given in zip(plan.line.labels, plan.modes, values, strict=True):
                if mode & _WANTED:
                    yield from (value for _, value in parts(label, given) if self._passes(value))


class _Step:
    """One running call of a program, and the records of tensors that still hold."""

    def __init__(self, run: Run, level: Level, *, wanted: bool) -> None:
        found = None if level == "names" else looker()
        # Small tensors whose values are shown are looked at here, all others in native code where it can.
        whole = SMALL if level == "values" else -1
        self.native = None if found is None else found[0].Step(torch.get_num_threads(), whole)
        self.level = level
        self.run = run
        self.wanted = wanted
        self.order = 0
        self._known: dict[int, dict[_Key, TensorRecord]] = {}

    def forget(self) -> None:
        self._known.clear()
        if self.native is not None:
            self.native.clear()

    def forget_written(self, line: l.ProbeLine, values: tuple[Any, ...]) -> None:
        """Forgets what is held here; the native module does so itself."""
        if not self._known:
            return
        for label, given in zip(line.labels, values, strict=True):
            if label in line.written:
                for _, value in parts(label, given):
                    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
                        self._known.pop(_storage(value), None)

    def observed(self, value: Any, *, unwritten: bool) -> Observed:
        if not isinstance(value, torch.Tensor):
            return plain_value(value)
        if unwritten:
            return Unwritten(tuple(value.size()), dtype_name(value.dtype))
        if type(value) not in PLAIN or value.layout is not torch.strided:
            return describe(value)
        key = (value.data_ptr(), value.size(), value.stride(), value.dtype)
        known = self._known.setdefault(_storage(value), {})
        found = known.get(key)
        if found is None:
            found = known[key] = _looked_at(value, self.level)
        return found


def _looked_at(tensor: torch.Tensor, level: Level) -> TensorRecord:
    record = describe(tensor)
    if record.note:
        return record
    found, why = statistics_of(tensor)
    return replace(record, statistics=found, text=text_of(tensor) if level == "values" else "", note=why)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata if type(tensor) in PLAIN else id(tensor)


def rank() -> int:
    """This process's rank in the process group; 0 without one."""
    from torch import distributed

    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0
