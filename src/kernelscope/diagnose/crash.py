"""Which call a process was in when it died, hung or raised: the flight recorder's files, with their programs (E3)."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Literal, TypeAlias

from kernelscope.errors import ProgramFileError, TraceError
from kernelscope.ir.calls import Call, calls
from kernelscope.ir.lines import SourceLocation
from kernelscope.ir.program import Program
from kernelscope.ir.serialize import load
from kernelscope.ir.text import print_line
from kernelscope.probe.flight_file import Argument, CallState, FlightLog, ThreadState, read

AROUND = 3
_FINISHED = 5
_PLACES = 3
_NOT_THE_USERS = ("site-packages", "dist-packages", "<frozen ", "Extension modules:", str(Path(__file__).parent.parent))

End: TypeAlias = Literal["died", "alive", "ended"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReport:
    """A call, as its program has it.

    Attributes:
        program: The program's name.
        step: How many calls of the program began before.
        number: The call's number in the program.
        state: ``running``, ``done`` or ``raised``.
        begun_ns: When it began, in nanoseconds since 1970.
        kind: ``kernel``, ``operator`` or ``function``; empty where the program's file is missing.
        subject: The kernel, operator or function.
        arguments: Label and text of each.
        lines: The program's lines around it, each with whether it is the call's own.
        places: The lines of the model it comes from, the innermost last.
        missing: Why the program is not known; empty where it is.
    """

    program: str
    step: int
    number: int
    state: str
    begun_ns: int
    kind: str = ""
    subject: str = ""
    arguments: tuple[tuple[str, str], ...] = ()
    lines: tuple[tuple[bool, str], ...] = ()
    places: tuple[SourceLocation, ...] = ()
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadReport:
    """A thread, with the calls it is in (the outermost first), and the last one that it left."""

    number: int
    name: str
    in_program: bool
    running: tuple[CallReport, ...]
    last: CallReport | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReport:
    """A process.

    Attributes:
        process: Its number.
        rank: Its rank in the process group.
        end: ``died`` without a word, ``alive``, or ``ended`` in good order.
        opened_ns: When recording began, in nanoseconds since 1970.
        threads: Those that were in a call or a program, or were left by an exception, first.
        finished: The last calls that ended, in any thread, the latest first: thread, subject, number.
        stack: What Python wrote down when a signal ended the process; empty without it.
        without: Calls that were not recorded.
    """

    process: int
    rank: int
    end: End
    opened_ns: int
    threads: tuple[ThreadReport, ...]
    finished: tuple[tuple[int, str, int], ...]
    stack: str
    without: int

    @property
    def culprits(self) -> tuple[CallReport, ...]:
        """The innermost call that each thread is in, and calls left by an exception."""
        running = tuple(thread.running[-1] for thread in self.threads if thread.running)
        raised = tuple(thread.last for thread in self.threads if thread.last and thread.last.state == "raised")
        return (*running, *raised)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashReport:
    """What the flight recorders in a folder say; ``str(report)`` is its text.

    Attributes:
        folder: The folder.
        now_ns: When the files were read.
        processes: Those that died first, then those alive; the latest first.
    """

    folder: Path
    now_ns: int
    processes: tuple[ProcessReport, ...]

    @property
    def found(self) -> bool:
        """Whether a process died, or is in a call, or an exception left one."""
        return any(process.end == "died" or process.culprits for process in self.processes)

    def __str__(self) -> str:
        return "\n\n".join("\n".join(_process(process, self.now_ns)) for process in self.processes)


def crash_report(folder: str | PathLike[str]) -> CrashReport:
    """Reads the flight recorders' files in a folder, of processes that died, hang, run or ended.

    Raises:
        TraceError: there are none, or one cannot be read.
    """
    place = Path(folder)
    logs = [read(path) for path in sorted(place.glob("flight-rank*.bin"))]
    if not logs:
        raise TraceError(
            f"{place} has no flight recorder's file (flight-rank*.bin)",
            hint="run with kernelscope run --flight DIR or --trace DIR, or set KERNELSCOPE_FLIGHT=DIR",
        )
    programs = functools.cache(functools.partial(_program, place))
    reports = [_Report(log, programs).process() for log in logs]
    order = ("died", "alive", "ended")
    latest = sorted(reports, key=lambda report: (order.index(report.end), -report.opened_ns))
    return CrashReport(folder=place, now_ns=time.time_ns(), processes=tuple(latest))


_Known: TypeAlias = "tuple[Program, tuple[Call, ...]] | str"


def _program(folder: Path, name: str) -> _Known:
    """A program and its calls; why there is none."""
    try:
        program = load(folder / name)
    except ProgramFileError as error:
        return str(error).splitlines()[0]
    return program, calls(program)


class _Report:
    """Makes the report of one process."""

    def __init__(self, log: FlightLog, programs: functools._lru_cache_wrapper[_Known]) -> None:
        self.log = log
        self.programs = programs

    def process(self) -> ProcessReport:
        log = self.log
        threads = sorted(map(self._thread, log.threads), key=lambda thread: (not thread.running, not thread.in_program))
        ended = [moment for moment in reversed(log.moments) if moment.state == "done"][:_FINISHED]
        return ProcessReport(
            process=log.process,
            rank=log.rank,
            end="ended" if log.ended else "alive" if log.alive else "died",
            opened_ns=log.opened_ns,
            threads=tuple(threads),
            finished=tuple((each.thread, self._subject(each.program, each.call), each.call) for each in ended),
            stack=_stack(log.path.with_name(f"stack-{log.process}.txt")),
            without=log.without,
        )

    def _thread(self, thread: ThreadState) -> ThreadReport:
        return ThreadReport(
            number=thread.number,
            name=thread.name,
            in_program=thread.inside > 0,
            running=tuple(map(self._call, thread.running)),
            last=self._call(thread.last) if thread.last else None,
        )

    def _subject(self, program: str, number: int) -> str:
        known = self.programs(program)
        return "" if isinstance(known, str) else known[1][number].subject

    def _call(self, seen: CallState) -> CallReport:
        known = self.programs(seen.program)
        facts = {"step": seen.step, "number": seen.call, "state": seen.state, "begun_ns": seen.begun_ns}
        if isinstance(known, str):
            return CallReport(program=seen.program, missing=known, **facts)  # type: ignore[arg-type]
        program, found = known
        call = found[seen.call]
        return CallReport(
            program=program.name,
            kind=call.kind,
            subject=call.subject,
            arguments=tuple(_arguments(call, seen)),
            lines=tuple(_lines_around(program, call)),
            places=call.line.origin.locations if call.line.origin else (),
            **facts,  # type: ignore[arg-type]
        )


def _stack(path: Path) -> str:
    """What Python wrote when a signal ended the process: the thread that got it, without the frames of packages."""
    if not path.is_file():
        return ""
    lines = path.read_text(errors="replace").splitlines()
    current = next((index for index, line in enumerate(lines) if line.startswith("Current thread")), 1)
    lines[1:current] = []
    kept = (line for line in lines if line and not any(part in line for part in _NOT_THE_USERS))
    return "\n".join(kept)


def _arguments(call: Call, seen: CallState) -> Iterator[tuple[str, str]]:
    for argument in seen.arguments:
        label = call.operands[argument.operand].label
        yield (label if argument.part is None else f"{label}[{argument.part}]"), _argument(argument)
    if seen.left_out:
        yield "...", f"{seen.left_out} more"


def _argument(argument: Argument) -> str:
    if argument.kind == "tensor":
        return f"{argument.dtype}{list(argument.size)} at {argument.value:#x}"
    return argument.kind if argument.value is None else str(argument.value)


def _lines_around(program: Program, call: Call) -> Iterator[tuple[bool, str]]:
    function = next(each for each in program.all_functions() if each.name == call.function)
    first = max(0, call.index - AROUND)
    for index, line in enumerate(function.lines[first : call.index + AROUND + 1], first):
        yield index == call.index, print_line(line)


# --- text ------------------------------------------------------------------------------------------------------


def _process(report: ProcessReport, now_ns: int) -> Iterator[str]:
    said = {"died": "died", "alive": "is alive", "ended": "ended in good order"}[report.end]
    yield f"process {report.process} (rank {report.rank}, recorded since {_clock(report.opened_ns)}) {said}"
    for thread in report.threads:
        yield from (f"  {line}" for line in _thread(thread, report.end, now_ns))
    if not report.threads:
        yield "  it had called nothing yet"
    elif report.end == "died" and not any(thread.running for thread in report.threads):
        yield "  no call was running: the process died between calls, where memory is allocated and freed, or outside"
        yield "  of compiled programs. A kernel that wrote out of bounds before may be the reason."
    if report.end != "ended" and report.finished:
        yield "  finished last:"
        yield from (f"    call {number}  {subject}  (thread {thread})" for thread, subject, number in report.finished)
    if report.without:
        yield f"  {report.without} calls were not recorded: more threads than the recorder has room for"
    if report.stack and report.end == "died":
        yield f"  Python says (all of it in stack-{report.process}.txt):"
        yield from (f"    {line}" for line in report.stack.splitlines())


def _thread(thread: ThreadReport, end: End, now_ns: int) -> Iterator[str]:
    name = f"thread {thread.number} ({thread.name})"
    if thread.running:
        yield f"{name} {'was' if end == 'died' else 'is'} in"
        for call in thread.running:
            yield from (f"  {line}" for line in _call(call, now_ns if end == "alive" else None))
    elif thread.last is not None and thread.last.state == "raised":
        yield f"{name}: an exception left"
        yield from (f"  {line}" for line in _call(thread.last, None))
    elif thread.in_program and thread.last is not None:
        yield f"{name} was between calls of {thread.last.program}, after call {thread.last.number}"
        yield from (f"  {line}" for line in _call(thread.last, None))


def _call(call: CallReport, now_ns: int | None) -> Iterator[str]:
    since = "" if now_ns is None else f", for {(now_ns - call.begun_ns) / 1e9:.1f} s"
    yield f"call {call.number} of {call.program}, step {call.step}, begun {_clock(call.begun_ns)}{since}"
    if call.missing:
        yield f"  what it is, is not known: {call.missing}"
        return
    yield f"  {call.kind} {call.subject}"
    width = max((len(label) for label, _ in call.arguments), default=0)
    yield from (f"    {label:<{width}}  {text}" for label, text in call.arguments)
    yield "  in the program"
    yield from (f"   {'>' if own else ' '} {text}" for own, text in call.lines)
    if call.places:
        yield "  in the model"
        yield from (f"    {place.file}:{place.line}  {place.text.strip()}" for place in call.places[-_PLACES:])


def _clock(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9).strftime("%H:%M:%S.%f")[:-3]
