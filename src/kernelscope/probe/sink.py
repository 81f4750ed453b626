"""Where a program's probes lead: makes records of what they show and hands them on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from kernelscope.ir import lines as l
from kernelscope.ir.program import Program
from kernelscope.probe.look import PLAIN, describe, dtype_name, parts, plain_value, statistics_of, text_of
from kernelscope.probe.records import Event, Level, Observed, TensorRecord, Unwritten
from kernelscope.probe.selection import Selection

Receiver = Callable[[Event, Any], None]
"""Gets each event, and the value itself (None where there is none)."""

_Key = tuple[int, torch.Size, tuple[int, ...], torch.dtype]


class Sink:
    """The probe function of one program: ``sink(number, values)``.

    A tensor is looked at once, and its record holds until somebody writes its storage, which is known from the
    probes' records; at the start of a step nothing is held. Where some calls have no probes (``sees_all`` is false)
    nobody tells of what they write, and each tensor is looked at anew.
    """

    def __init__(
        self,
        program: Program,
        selection: Selection,
        level: Level,
        receivers: Sequence[Receiver],
        *,
        sees_all: bool,
    ) -> None:
        self.program = program
        self.selection = selection
        self.level: Level = level
        self.receivers = tuple(receivers)
        self._sees_all = sees_all
        self._filters = bool(selection.dtypes or selection.devices)
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
            self._tell(line, state)
        if self.level == "names":
            return
        if line.moment == "after":
            state.forget_written(line, values)
        if not self._sees_all:
            state.forget()
        for label, given in zip(line.labels, values, strict=True):
            if self.selection.wants_label(label):
                self._show(line, state, label, given)

    def _state(self, line: l.ProbeLine) -> _Step:
        if line.moment == "inputs":
            with self._lock:
                self._local.step = _Step(self._steps, rank())
                self._steps += 1
        return self._local.step  # type: ignore[no-any-return]

    def _show(self, line: l.ProbeLine, state: _Step, label: str, given: Any) -> None:
        written = label in line.written
        for name, value in parts(label, given):
            if not isinstance(value, torch.Tensor):
                self._tell(line, state, name, plain_value(value), written, value)
            elif self._filters and not self.selection.wants_tensor(dtype_name(value.dtype), str(value.device)):
                continue
            elif label in line.unwritten:
                self._tell(line, state, name, Unwritten(tuple(value.size()), dtype_name(value.dtype)), written, value)
            else:
                self._tell(line, state, name, state.record(value, self.level), written, value)

    def _tell(
        self,
        line: l.ProbeLine,
        state: _Step,
        label: str = "",
        seen: Observed | None = None,
        written: bool = False,
        value: Any = None,
    ) -> None:
        state.order += 1
        event = Event(
            time_ns=time.time_ns(),
            process=os.getpid(),
            thread=threading.get_ident(),
            rank=state.rank,
            program=self.program.name,
            step=state.step,
            order=state.order,
            call=line.call if line.moment in ("before", "after") else None,
            moment=line.moment,
            subject=line.subject,
            label=label,
            value=seen,
            written=written,
            origin=line.origin,
        )
        for receive in self.receivers:
            receive(event, value)


class _Step:
    """One running call of a program, and the records of tensors that still hold."""

    def __init__(self, step: int, rank: int) -> None:
        self.step = step
        self.rank = rank
        self.order = -1
        self._known: dict[int, dict[_Key, TensorRecord]] = {}

    def forget(self) -> None:
        self._known.clear()

    def forget_written(self, line: l.ProbeLine, values: tuple[Any, ...]) -> None:
        for label, given in zip(line.labels, values, strict=True):
            if label in line.written:
                for _, value in parts(label, given):
                    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
                        self._known.pop(_storage(value), None)

    def record(self, tensor: torch.Tensor, level: Level) -> TensorRecord:
        if type(tensor) not in PLAIN or tensor.layout is not torch.strided:
            return describe(tensor)
        key = (tensor.data_ptr(), tensor.size(), tensor.stride(), tensor.dtype)
        known = self._known.setdefault(_storage(tensor), {})
        found = known.get(key)
        if found is None:
            found = known[key] = _looked_at(tensor, level)
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
