"""Watching compiled programs while they run: ``kernelscope.scope``.

A scope holds in the whole process, for all threads: code that was compiled by ``torch.compile`` runs its backward
pass in other threads than the one that opened the scope. Of several scopes that are open, the one opened last is
asked; where none is, options of ``torch.compile`` hold for the programs compiled with them (``watch_options``), and
else PyTorch's own variables. A program runs in a variant of its own, with probes, as long as it is watched; its plain
code is not touched (D8).
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO
from weakref import WeakKeyDictionary

from kernelscope import config
from kernelscope.errors import KernelFault, OptionError
from kernelscope.ir.calls import Call, calls
from kernelscope.ir.lines import ProbeLine
from kernelscope.ir.program import Program
from kernelscope.ir.serialize import from_json
from kernelscope.passes.insert_probes import InsertProbes
from kernelscope.passes.pipeline import run_passes
from kernelscope.probe.checks import Checker, UserCheck, checks
from kernelscope.probe.flight import Flight, opened
from kernelscope.probe.formats import as_json, format_of, subject_line
from kernelscope.probe.printer import Printer
from kernelscope.probe.records import Event, Level
from kernelscope.probe.saver import DEFAULT_LIMIT_BYTES, DEFAULT_LIMIT_TENSORS, Saver
from kernelscope.probe.seen import EventLog, Seen
from kernelscope.probe.selection import Selection, patterns
from kernelscope.probe.sink import Receiver, Sink, rank
from kernelscope.probe.trace import Trace
from kernelscope.runtime import switch
from kernelscope.runtime.native_module import start_observe
from kernelscope.targets import registry

log = logging.getLogger("kernelscope.probe")

LEVELS: tuple[Level, ...] = ("names", "stats", "values")
KEPT_EVENTS = 100_000
MARK = "__kernelscope_watch__"
"""A module that was compiled with options that watch has them under this name."""
PRINTER_LEVEL = "AOT_INDUCTOR_DEBUG_INTERMEDIATE_VALUE_PRINTER"
PRINTER_FILTER = "AOT_INDUCTOR_FILTERED_KERNELS_TO_PRINT"


class Scope:
    """Watches compiled programs from its opening to its closing; use it in a ``with`` statement.

    Attributes:
        events: The last 100 000 records, oldest first; ``events.dropped`` tells how many older ones are gone.
        programs: The programs seen, by name.
    """

    def __init__(
        self,
        print: str | None = None,  # the public name
        *,
        format: str = "kernelscope",  # the public name
        out: TextIO | str | os.PathLike[str] | None = None,
        save: str | os.PathLike[str] | None = None,
        save_limit_bytes: int = DEFAULT_LIMIT_BYTES,
        save_limit_tensors: int = DEFAULT_LIMIT_TENSORS,
        trace: str | os.PathLike[str] | None = None,
        flight: str | os.PathLike[str] | None = None,
        check: str | Sequence[str | UserCheck] | Mapping[str | UserCheck, str] | None = None,
        kernels: str | Iterable[str] | None = None,
        operators: str | Iterable[str] | None = None,
        sources: str | Iterable[str] | None = None,
        buffers: str | Iterable[str] | None = None,
        exclude: str | Iterable[str] | None = None,
        dtypes: str | Iterable[str] | None = None,
        devices: str | Iterable[str] | None = None,
        steps: str | Iterable[str] | None = None,
        inputs: bool | None = None,
        returns: bool | None = None,
    ) -> None:
        """What to watch.

        Args:
            print: ``names`` prints a line before and after each call, ``stats`` statistics of every value as well,
                ``values`` the values of small tensors too; None prints nothing and keeps statistics in ``events``.
            format: ``kernelscope``, ``torch-aoti``, ``torch-jit``, ``names`` or ``json``.
            out: Where to print: a stream, or the path of a file; standard output if None.
            save: A folder: every tensor seen is saved there, in files that ``torch.load(weights_only=True)`` reads.
            save_limit_bytes: How many bytes of tensors are saved at most.
            save_limit_tensors: How many tensors are saved at most.
            trace: A folder: every record goes into its SQLite database (``docs/trace.md``), and the flight recorder
                is on there.
            flight: A folder for the flight recorder, which tells after the process has died what each thread was
                calling (``kernelscope crash``). With nothing else wanted, no values are looked at and no events kept.
                A scope within has it too.
            check: Checks of what calls write: ``nan``, ``inf``, ``-inf``, ``range:LOW:HIGH``, ``finite_growth:FACTOR``
                (against the first call of the program), or functions that get a tensor and say what is wrong with it
                (or None). A mapping gives each ``raise`` (as without one), ``warn`` or ``record``.
            kernels: Patterns of kernels and operators: names, globs, ``/regular expressions/``.
            operators: Patterns of operators that were fused into a kernel, or are called.
            sources: Places of the model: ``model.py``, ``model.py:12``, ``model.py:10-20``.
            buffers: Patterns of the values' labels.
            exclude: Patterns of kernels and operators that are not watched.
            dtypes: Patterns of tensors' dtypes.
            devices: Patterns of tensors' devices.
            steps: Numbers of calls of each program, from 0: ``3``, ``10-20``.
            inputs: Whether the programs' inputs are shown; None shows them unless ``kernels``, ``operators`` or
                ``sources`` choose among the calls.
            returns: Whether what they return is shown; None as for ``inputs``.

        Raises:
            OptionError: a level or format is unknown, or a pattern cannot be read.
        """
        self._prints = print is not None
        self._names_only = print == "names"
        keeps = not (save is None and check is None and trace is None)
        self._level = _level(print, keeps)
        self._looks = flight is None or self._prints or keeps
        self._format = format_of(format)
        self._out = out
        self._printer: Printer | None = None
        self._saver = (
            None if save is None else Saver(save, limit_bytes=save_limit_bytes, limit_tensors=save_limit_tensors)
        )
        self._trace_folder = trace
        self._trace: Trace | None = None
        self._flight_folder = trace if flight is None else flight
        self._flight: Flight | None = None
        wanted = checks(check)
        self._checker = Checker(wanted) if wanted else None
        chosen = {"kernels": kernels, "operators": operators, "sources": sources, "buffers": buffers}
        chosen |= {"exclude": exclude, "dtypes": dtypes, "devices": devices, "steps": steps}
        self._selection = _selection(chosen, inputs, returns)
        self._calls: WeakKeyDictionary[switch.Loaded, switch.Call] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._mark = ""
        self.events = EventLog(KEPT_EVENTS)
        self.programs: dict[str, Program] = {}

    def __enter__(self) -> Scope:
        self.open()
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def open(self) -> None:
        """Begins to watch.

        Raises:
            OptionError: PyTorch's own variables hold a level that is none.
        """
        open_from_environment(os.environ)  # what it asks for comes first, whenever programs are compiled
        self.open_as(switch.Precedence.SCOPE)

    def open_as(self, precedence: switch.Precedence, mark: str = "") -> None:
        """Begins to watch what nobody of a higher precedence watches, or only programs that carry a mark."""
        if self._looks and self._level != "names":
            start_observe()
        if self._prints:
            self._printer = Printer(self._out)
        if self._trace_folder is not None:
            self._trace = Trace(self._trace_folder, rank())
        self._open_flight()
        self._mark = mark
        _open_scopes.append(self)
        switch.observe(self._variant, precedence)

    def close(self) -> None:
        """Watches no more."""
        switch.stop(self._variant)
        _open_scopes.remove(self)
        if self._printer is not None:
            self._printer.close()
            self._printer = None
        if self._saver is not None:
            self._saver.close()
        if self._trace is not None:
            self._trace.close()
            self._trace = None
        if self._flight is not None and self._flight_folder is not None:
            self._flight.close()

    def _open_flight(self) -> None:
        """Its own recorder, or that of the scope around it; variants made for another are made anew."""
        around = _open_scopes[-1]._flight if _open_scopes else None
        recorder = around if self._flight_folder is None else opened(self._flight_folder, rank())
        if recorder is not self._flight:
            self._calls.clear()
        self._flight = recorder

    def _variant(self, loaded: switch.Loaded) -> switch.Call | None:
        if self._mark and loaded.namespace.get(MARK) != self._mark:
            return None
        with self._lock:
            found = self._calls.get(loaded)
            if found is None:
                found = self._calls[loaded] = self._observed(loaded)
            return found

    def _observed(self, loaded: switch.Loaded) -> switch.Call:
        program = from_json(loaded.text())
        self.programs[program.name] = program
        if self._trace is not None:
            self._trace.add_program(program)
        found = calls(program)
        subjects = dict.fromkeys(call.subject for call in found)
        log.info("program %s: kernels and operators: %s", program.name, ", ".join(subjects))
        chosen = frozenset(call.number for call in found if self._selection.wants_call(call))
        everything = len(chosen) == len(found)
        if self._flight is None:
            probed = self._probed(program, lambda call: call.number in chosen)
            return self._run(probed, loaded, self._sink(probed, everything))
        probed = self._probed(program, lambda call: True)
        probe = self._flight.probe(program, probed)
        if self._looks:
            probe = _both(probe, self._sink(probed, everything), _probes_of(probed, chosen))
        return self._flight.guard(self._run(probed, loaded, probe))

    def _probed(self, program: Program, wanted: Callable[[Call], bool]) -> Program:
        step = InsertProbes(wanted=wanted, returns=self._looks and self._selection.returns)
        return run_passes(program, (step,), verify_level=min(config.current().verify, 1))

    def _run(self, probed: Program, loaded: switch.Loaded, probe: switch.Probe) -> switch.Call:
        return registry.target(loaded.target).observed(probed, loaded, probe)

    def _sink(self, probed: Program, everything: bool) -> Sink:
        keepers = (self.events.append,) if self._trace_folder is None else (self.events.append, self._tell_trace)
        return Sink(probed, self._selection, self._level, keepers, self._receivers(), sees_all=everything)

    @property
    def faults(self) -> list[KernelFault]:
        """What broke a check so far, the first one first."""
        return [] if self._checker is None else self._checker.faults

    def _receivers(self) -> list[Receiver]:
        printing: tuple[Receiver | None, ...] = (self._print,) if self._prints else ()
        # The check comes last: what it raises at has been printed and saved by then.
        wanted = (*printing, self._saver, self._checker)
        return [receive for receive in wanted if receive is not None]

    def _tell_trace(self, seen: Seen) -> None:
        trace = self._trace
        if trace is not None:
            trace(seen)

    def _print(self, event: Event, value: Any) -> None:
        printer = self._printer
        # A call's own line stands for the call where nothing else does; in JSON every record is a line.
        if printer is None:
            return
        if self._names_only:
            if not event.label:
                printer.write(as_json(event) if self._format is as_json else subject_line(event))
        elif event.label or self._format is as_json:
            printer.write(self._format(event, value))


def _level(print: str | None, keeps: bool) -> Level:
    """What is found of every value; names alone are enough where they are all that is wanted."""
    if print is not None and print not in LEVELS:
        raise OptionError(f"print cannot be {print!r}", hint=f"it is one of {', '.join(LEVELS)}, or None")
    if print is None or (print == "names" and keeps):
        return "stats"
    return next(level for level in LEVELS if level == print)


def _selection(
    chosen: Mapping[str, str | Iterable[str] | None], inputs: bool | None, returns: bool | None
) -> Selection:
    """What is watched; a program's ends are left out where calls are chosen and nothing is said of the ends."""
    read = {name: patterns(texts) for name, texts in chosen.items()}
    ends = not (read["kernels"] or read["operators"] or read["sources"])
    inputs, returns = (ends if shown is None else shown for shown in (inputs, returns))
    selection = Selection(**read, inputs=inputs, returns=returns)
    selection.wants_step(0)  # a step that cannot be read is refused here, not in the middle of a run
    return selection


def _probes_of(probed: Program, chosen: frozenset[int]) -> frozenset[int]:
    """Numbers of the probes at inputs, at returns, and around the chosen calls."""
    return frozenset(
        line.number
        for function in probed.all_functions()
        for line in function.lines
        if isinstance(line, ProbeLine) and (line.moment not in ("before", "after") or line.call in chosen)
    )


def _both(recorder: switch.Probe, sink: switch.Probe, chosen: frozenset[int]) -> switch.Probe:
    """The recorder knows of every call, the sink of the chosen ones."""

    def probe(number: int, values: tuple[Any, ...]) -> None:
        recorder(number, values)
        if number in chosen:
            sink(number, values)

    return probe


_open_scopes: list[Scope] = []
"""The scopes that are open in this process, the outermost first."""

_from_environment: Scope | None = None
_environment_lock = threading.Lock()


def open_from_environment(environ: Mapping[str, str]) -> None:
    """Opens, once per process, the scope that PyTorch's own variables and ``KERNELSCOPE_FLIGHT`` ask for.

    Raises:
        OptionError: the level is none.
    """
    global _from_environment
    level = environ.get(PRINTER_LEVEL, "0")
    if level not in ("0", "1", "2", "3"):
        raise OptionError(f"{PRINTER_LEVEL} is {level!r}", where="environment", hint="it is 0, 1, 2 or 3")
    recorder = config.Config.from_env(environ).flight
    with _environment_lock:
        if (level != "0" or recorder is not None) and _from_environment is None:
            wanted = environ.get(PRINTER_FILTER) or None
            folder = Path.cwd() / "kernelscope-tensors" if level == "1" else None
            printed = {"0": None, "1": None, "2": "values", "3": "names"}[level]
            _from_environment = Scope(print=printed, save=folder, kernels=wanted, flight=recorder)
            _from_environment.open_as(switch.Precedence.ENVIRONMENT)
            atexit.register(close_from_environment)


def close_from_environment() -> None:
    """Closes that scope, if it is open."""
    global _from_environment
    with _environment_lock:
        if _from_environment is not None:
            _from_environment.close()
            _from_environment = None
