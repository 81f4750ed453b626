"""Reads a flight recorder's file, which a process may still be writing, or have left behind when it died.

The layout is that of ``runtime/native/flight.h``, described in ``docs/trace.md``. Must not live here: what the calls
are (the file knows numbers only).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from kernelscope.errors import TraceError
from kernelscope.runtime.processes import start_of

VERSION = 1
_MAGIC = b"KSFLIGHT"
_HEADER = struct.Struct("<8s8I3Q3I")
_HEADER_BYTES = 4096
_PROGRAM_BYTES = 128
_SLOT = struct.Struct("<3I16s36x")
_FRAME = struct.Struct("<2I4Q2I16x")
_ARGUMENT = struct.Struct("<Q2H3Bx8q")
_ENTRY = struct.Struct("<4Q4I")
_NO_PART = 0xFFFF

DTYPES = (
    *("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"),
    *("complex32", "complex64", "complex128", "bool", "qint8", "quint8", "qint32", "bfloat16", "quint4x2", "quint2x4"),
    *("bits1x8", "bits2x4", "bits4x2", "bits8", "bits16"),
    *("float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "uint16", "uint32", "uint64"),
    *(f"uint{bits}" for bits in range(1, 8)),
    *(f"int{bits}" for bits in range(1, 8)),
    *("float8_e8m0fnu", "float4_e2m1fn_x2"),
)
"""Dtypes by PyTorch's number for them (``c10/core/ScalarType.h``, to which new ones are appended)."""

State: TypeAlias = Literal["running", "done", "raised"]
_STATES: dict[int, State] = {1: "running", 2: "done", 3: "raised"}
_KINDS = ("None", "tensor", "int", "float", "bool", "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A value that a call was given.

    Attributes:
        operand: Its position among the call's operands.
        part: Its position in the list that the operand is; None where that is no list.
        kind: ``tensor``, ``int``, ``float``, ``bool``, ``None`` or ``other``.
        value: A tensor's address, a number, a truth value; None for the rest.
        dtype: A tensor's dtype.
        size: A tensor's size, its first 8 dimensions.
    """

    operand: int
    part: int | None
    kind: str
    value: int | float | None
    dtype: str = ""
    size: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallState:
    """A call that a thread began.

    Attributes:
        program: The program's file, below the recorder's folder; its number where that is not kept.
        step: How many calls of the program began before.
        call: The call's number in the program.
        state: Whether it is running, returned, or was left by an exception.
        begun_ns: When it began, in nanoseconds since 1970.
        ended_ns: When it ended; 0 where it did not.
        arguments: What it was given: the first 24.
        left_out: How many arguments more it had.
    """

    program: str
    step: int
    call: int
    state: State
    begun_ns: int
    ended_ns: int
    arguments: tuple[Argument, ...] = ()
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadState:
    """A thread.

    Attributes:
        number: The system's number of it.
        name: Its name.
        inside: How many programs it is in.
        running: The calls it is in, the outermost first.
        last: The last call that it left, within those or outside of any; None before the first.
    """

    number: int
    name: str
    inside: int
    running: tuple[CallState, ...]
    last: CallState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A beginning or an end of a call, in some thread."""

    time_ns: int
    thread: int
    program: str
    step: int
    call: int
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightLog:
    """What a flight recorder's file says.

    Attributes:
        path: The file.
        process: The process that wrote it, and when the system says that one started.
        rank: Its rank in the process group.
        opened_ns: When recording began, in nanoseconds since 1970.
        ended: Whether recording ended in good order.
        alive: Whether the process is there still, on this machine.
        without: Calls that were not recorded, for want of a thread's slot.
        threads: The threads that called something.
        moments: The last beginnings and ends of calls, the oldest first.
    """

    path: Path
    process: int
    rank: int
    opened_ns: int
    ended: bool
    alive: bool
    without: int
    threads: tuple[ThreadState, ...]
    moments: tuple[Moment, ...]


def read(path: Path) -> FlightLog:
    """Reads a file.

    Raises:
        TraceError: it cannot be read, or is no flight recorder's file of a version known here.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TraceError(
            f"cannot read {path}: {error.strerror}", hint="give the folder of a flight recorder"
        ) from error
    if len(data) < _HEADER_BYTES or data[: len(_MAGIC)] != _MAGIC:
        raise TraceError(f"{path} is no flight recorder's file", hint="it may have died while it was made; delete it")
    header = _HEADER.unpack_from(data)
    if header[1] != VERSION:
        raise TraceError(
            f"{path} has version {header[1]}, and this Kernelscope reads version {VERSION}",
            hint="read it with the Kernelscope that wrote it",
        )
    return _Reader(path, data, header).log()


class _Reader:
    """The parts of a file, whose numbers of parts are in its header."""

    def __init__(self, path: Path, data: bytes, header: tuple[int, ...]) -> None:
        self.path = path
        self.data = data
        self.header = header
        _, _, self.slots, self.frames, self.arguments, self.ring, self.most_programs, *_ = header
        self.frame_bytes = _FRAME.size + self.arguments * _ARGUMENT.size
        self.slot_bytes = _SLOT.size + self.frames * self.frame_bytes
        self.slots_at = _HEADER_BYTES + self.most_programs * _PROGRAM_BYTES
        self.ring_at = self.slots_at + self.slots * self.slot_bytes
        if len(data) < self.ring_at + self.ring * _ENTRY.size:
            raise TraceError(f"{path} is truncated", hint="copy the whole file")

    def log(self) -> FlightLog:
        _, _, _, _, _, _, _, process, rank, opened, start, _, ended, without, _ = self.header
        return FlightLog(
            path=self.path,
            process=process,
            rank=rank,
            opened_ns=opened,
            ended=bool(ended),
            alive=start_of(process) == start,
            without=without,
            threads=tuple(self._threads()),
            moments=tuple(self._moments()),
        )

    def _program(self, number: int) -> str:
        if number >= self.most_programs:
            return f"number {number}"
        at = _HEADER_BYTES + number * _PROGRAM_BYTES
        return _text(self.data[at : at + _PROGRAM_BYTES])

    def _threads(self) -> Iterator[ThreadState]:
        for index in range(self.slots):
            at = self.slots_at + index * self.slot_bytes
            number, depth, inside, name = _SLOT.unpack_from(self.data, at)
            if number == 0:
                continue
            first = at + _SLOT.size
            frames = [self._call(first + frame * self.frame_bytes) for frame in range(self.frames)]
            running = tuple(frame for frame in frames[:depth] if frame is not None)
            last = frames[depth] if depth < self.frames else None
            yield ThreadState(number=number, name=_text(name), inside=inside, running=running, last=last)

    def _call(self, at: int) -> CallState | None:
        state, call, program, step, begun, ended, given, kept = _FRAME.unpack_from(self.data, at)
        if state not in _STATES:
            return None
        first = at + _FRAME.size
        return CallState(
            program=self._program(program),
            step=step,
            call=call,
            state=_STATES[state],
            begun_ns=begun,
            ended_ns=ended,
            arguments=tuple(self._argument(first + index * _ARGUMENT.size) for index in range(kept)),
            left_out=given - kept,
        )

    def _argument(self, at: int) -> Argument:
        word, operand, part, kind, dtype, dimensions, *size = _ARGUMENT.unpack_from(self.data, at)
        name = _KINDS[kind]
        return Argument(
            operand=operand,
            part=None if part == _NO_PART else part,
            kind=name,
            value=_value(name, word),
            dtype=(DTYPES[dtype] if dtype < len(DTYPES) else f"dtype {dtype}") if name == "tensor" else "",
            size=tuple(size[:dimensions]),
        )

    def _moments(self) -> Iterator[Moment]:
        entries = [_ENTRY.unpack_from(self.data, self.ring_at + index * _ENTRY.size) for index in range(self.ring)]
        for sequence, time_ns, program, step, call, state, slot, _ in sorted(entries):
            if sequence and state in _STATES:
                thread = _SLOT.unpack_from(self.data, self.slots_at + slot * self.slot_bytes)[0]
                yield Moment(
                    time_ns=time_ns,
                    thread=thread,
                    program=self._program(program),
                    step=step,
                    call=call,
                    state=_STATES[state],
                )


def _text(data: bytes) -> str:
    return data.split(b"\0", 1)[0].decode(errors="replace")


def _value(kind: str, word: int) -> int | float | None:
    raw = struct.pack("<Q", word)
    match kind:
        case "tensor":
            return word
        case "int":
            return int(struct.unpack("<q", raw)[0])
        case "float":
            return float(struct.unpack("<d", raw)[0])
        case "bool":
            return bool(word)
        case _:
            return None
