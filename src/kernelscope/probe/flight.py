"""The flight recorder: which call each thread is in, in a file that outlives the process (E3).

Stores only; no value is looked at. ``flight_file`` reads the file, ``docs/trace.md`` describes it.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from kernelscope.ir import lines as l
from kernelscope.ir.program import Program
from kernelscope.probe import programs
from kernelscope.runtime.native_module import flight
from kernelscope.runtime.processes import start_of
from kernelscope.runtime.switch import Call

log = logging.getLogger("kernelscope.probe")


def opened(folder: str | os.PathLike[str], rank: int = 0) -> Flight | None:
    """A flight recorder in ``folder``; None, with a warning, where there can be none, and the program goes on."""
    native = flight()
    if native is None:
        return None
    try:
        return Flight(native, Path(folder).absolute(), rank)
    except OSError as error:
        log.warning("there is no flight recorder: %s", error)
        return None


class Flight:
    """Records the calls that threads of this process begin and end, in ``flight-rankN-PID.bin``.

    A forked child goes on in a file of its own.

    Args:
        native: The native module.
        folder: Where the file goes, and the programs; made if need be.
        rank: Rank in the process group, which is part of the file's name.

    Raises:
        OSError: the file cannot be made, or its space cannot be had.
    """

    def __init__(self, native: ModuleType, folder: Path, rank: int) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self._native = native
        self._rank = rank
        self._recorder = native.Recorder(*self._place())
        _open.add(self)

    def probe(self, program: Program, probed: Program) -> Callable[[int, tuple[Any, ...]], None]:
        """The probe function of ``probed``, which is ``program`` with probes around all calls.

        Raises:
            OSError: the program's file cannot be written.
        """
        found = {
            line.number: _moment(line)
            for function in probed.all_functions()
            for line in function.lines
            if isinstance(line, l.ProbeLine)
        }
        number = self._recorder.add_program(programs.keep(self.folder, program))
        moments = tuple(found.get(index, -1) for index in range(max(found, default=-1) + 1))
        return self._native.Probe(self._recorder, number, moments)  # type: ignore[no-any-return]

    def guard(self, call: Call) -> Call:
        """The same function; the recorder is told when it is entered, and when it is left by an exception."""
        return self._native.Guard(self._recorder, call)  # type: ignore[no-any-return]

    def close(self) -> None:
        """Notes in the file that recording ended in good order."""
        _open.discard(self)
        self._recorder.close()

    def _place(self) -> tuple[str, int, int, int]:
        process = os.getpid()
        path = self.folder / f"flight-rank{self._rank}-{process}.bin"
        return str(path), process, start_of(process) or 0, self._rank

    def _go_on(self) -> None:
        try:
            self._recorder.reopen(*self._place())
        except OSError as error:
            log.warning("this forked process has no flight recorder: %s", error)


def _moment(line: l.ProbeLine) -> int:
    if line.moment not in ("before", "after"):
        return -1
    return 2 * line.call + (line.moment == "after")


_open: weakref.WeakSet[Flight] = weakref.WeakSet()


def _after_fork() -> None:
    for opened in tuple(_open):
        opened._go_on()


os.register_at_fork(after_in_child=_after_fork)
