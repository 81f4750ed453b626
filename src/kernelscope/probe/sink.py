"""Where a program's probes lead: makes records of what they show and hands them on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from kernelscope.ir import lines as l
from kernelscope.ir.program import Program
from kernelscope.probe.look import describe, parts, plain_value, statistics_of, text_of
from kernelscope.probe.records import Event, Level, Observed, Unwritten
from kernelscope.probe.selection import Selection
from kernelscope.probe.statistics import Statistics

Receiver = Callable[[Event, Any], None]
"""Gets each event, and the value itself (None where there is none)."""

_Key = tuple[int, tuple[int, ...], tuple[int, ...], torch.dtype]


class Sink:
    """The probe function of one program: ``sink(number, values)``.

    Statistics of a tensor are computed once and hold until somebody writes its storage, which is known from the
    probes' records; at the start of a step nothing is held.
    """

    def __init__(self, program: Program, selection: Selection, level: Level, receivers: Sequence[Receiver]) -> None:
        self.program = program
        self.selection = selection
        self.level: Level = level
        self.receivers = tuple(receivers)
        self.probes = {
            line.number: line
            for function in program.all_functions()
            for line in function.lines
            if isinstance(line, l.ProbeLine)
        }
        self._steps = 0
        self._lock = threading.Lock()
        self._local = threading.local()

    def __call__(self, number: int, values: tuple[Any, ...]) -> None:
        """Shows the values of probe ``number``."""
        line = self.probes[number]
        state = self._state(line)
        if not self.selection.wants_step(state.step):
            return
        if line.moment == "inputs" and not self.selection.inputs:
            return
        if line.moment in ("before", "after"):
            self._send(self._event(line, state), None)
        if self.level == "names":
            return
        if line.moment == "after":
            state.forget_written(line, values)
        for label, value, event in self._values(line, values, state):
            self._send(replace(event, label=label, value=self._record(label, value, line, state)), value)

    def _state(self, line: l.ProbeLine) -> _Step:
        if line.moment == "inputs":
            with self._lock:
                self._local.step = _Step(self._steps)
                self._steps += 1
        return self._local.step  # type: ignore[no-any-return]

    def _event(self, line: l.ProbeLine, state: _Step) -> Event:
        state.order += 1
        return Event(
            time_ns=time.time_ns(),
            process=os.getpid(),
            thread=threading.get_ident(),
            rank=rank(),
            program=self.program.name,
            step=state.step,
            order=state.order,
            call=line.call if line.moment in ("before", "after") else None,
            moment=line.moment,
            subject=line.subject,
            origin=line.origin,
        )

    def _values(self, line: l.ProbeLine, values: tuple[Any, ...], state: _Step) -> Iterator[tuple[str, Any, Event]]:
        for label, given in zip(line.labels, values, strict=True):
            if not self.selection.wants_label(label):
                continue
            for name, value in parts(label, given):
                if isinstance(value, torch.Tensor) and not self.selection.wants_tensor(
                    str(value.dtype).removeprefix("torch."), str(value.device)
                ):
                    continue
                event = self._event(line, state)
                yield name, value, replace(event, written=True) if label in line.written else event

    def _record(self, label: str, value: Any, line: l.ProbeLine, state: _Step) -> Observed:
        if not isinstance(value, torch.Tensor):
            return plain_value(value)
        if label in line.unwritten:
            return Unwritten(tuple(value.size()), str(value.dtype).removeprefix("torch."))
        record = describe(value)
        if record.note:
            return record
        found, why = state.statistics(value)
        text = text_of(value) if self.level == "values" else ""
        return replace(record, statistics=found, text=text, note=why)

    def _send(self, event: Event, value: Any) -> None:
        for receive in self.receivers:
            receive(event, value)


class _Step:
    """One running call of a program."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.order = -1
        self._known: dict[int, dict[_Key, tuple[Statistics | None, str]]] = {}

    def forget_written(self, line: l.ProbeLine, values: tuple[Any, ...]) -> None:
        for label, given in zip(line.labels, values, strict=True):
            if label in line.written:
                for _, value in parts(label, given):
                    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
                        self._known.pop(_storage(value), None)

    def statistics(self, tensor: torch.Tensor) -> tuple[Statistics | None, str]:
        key = (tensor.data_ptr(), tuple(tensor.size()), tensor.stride(), tensor.dtype)
        known = self._known.setdefault(_storage(tensor), {})
        if key not in known:
            known[key] = statistics_of(tensor)
        return known[key]


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if type(tensor) in (torch.Tensor, torch.nn.Parameter) else id(tensor)


def rank() -> int:
    """This process's rank in the process group; 0 without one."""
    from torch import distributed

    return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0
