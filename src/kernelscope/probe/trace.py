"""The trace of a run: a folder with a SQLite database of every value seen, and the programs it came from.

The database is written in batches by a thread of its own, in write-ahead mode: it can be read meanwhile, and a process
that is killed loses at most the batch that was not written yet. ``docs/trace.md`` describes the schema.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sqlite3
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch

from kernelscope.ir.calls import calls
from kernelscope.ir.program import Program
from kernelscope.probe import programs
from kernelscope.probe.records import Event, TensorRecord, Unwritten, ValueRecord
from kernelscope.probe.seen import Seen
from kernelscope.version import __version__

VERSION = 1
BATCH = 2_000
MOST_WAITING = 200_000
_INTERVAL_S = 0.05
_BUSY_S = 30

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE programs (name TEXT, process INTEGER, phase TEXT, file TEXT, PRIMARY KEY (name, process));
CREATE TABLE calls (
    program TEXT, process INTEGER, number INTEGER, function TEXT, kind TEXT, subject TEXT, ops TEXT,
    source_file TEXT, source_line INTEGER, source_text TEXT, PRIMARY KEY (program, process, number));
CREATE TABLE events (
    id INTEGER PRIMARY KEY, time_ns INTEGER, process INTEGER, thread INTEGER, program TEXT, step INTEGER, ord INTEGER,
    call INTEGER, moment TEXT, subject TEXT, label TEXT, kind TEXT, written INTEGER,
    dtype TEXT, device TEXT, size TEXT, stride TEXT, layout TEXT, pointer INTEGER,
    count INTEGER, nan INTEGER, positive_inf INTEGER, negative_inf INTEGER, zero INTEGER, subnormal INTEGER,
    min REAL, max REAL, mean REAL, std REAL, first_nan INTEGER, argmin INTEGER, argmax INTEGER, hash INTEGER,
    text TEXT, note TEXT);
CREATE INDEX events_by_call ON events (program, call, step);
"""
_counts = attrgetter("count", "nan", "positive_inf", "negative_inf", "zero", "subnormal")
_moments = attrgetter("mean", "std", "first_nan", "argmin", "argmax")
_ADD_DROPPED = (
    "INSERT INTO meta VALUES ('dropped', ?) "
    "ON CONFLICT (key) DO UPDATE SET value = CAST(CAST(value AS INTEGER) + ? AS TEXT)"
)
_INSERT = f"INSERT INTO events VALUES ({', '.join('?' * 35)})"


class Trace:
    """Writes the events it is told of to a folder, off the thread that tells them.

    When events come faster than they are written and 200 000 of them wait, the next ones are dropped; how many is in
    ``dropped`` and in the table ``meta``.

    Args:
        folder: The trace's folder; made if need be. An older trace in it is continued.
        rank: Rank in the process group, which is part of the file's name.
    """

    def __init__(self, folder: str | os.PathLike[str], rank: int = 0) -> None:
        self.folder = Path(folder).absolute()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.path = self.folder / f"trace-rank{rank}.sqlite"
        self.dropped = 0
        self._noted = 0
        self._waiting: deque[Seen] = deque()
        self._count = 0
        self._counting = threading.Lock()
        self._wake = threading.Event()
        self._closing = False
        self._writing = threading.Lock()
        self._process = os.getpid()
        with _connected(self.path) as database:
            _prepare(database)
        self._thread = threading.Thread(target=self._run, name="kernelscope-trace", daemon=True)
        self._thread.start()

    def __call__(self, seen: Seen) -> None:
        """Takes what a probe saw; it is written soon."""
        count = seen.count
        with self._counting:
            if self._count + count > MOST_WAITING:
                self.dropped += count
                return
            self._count += count
            self._waiting.append(seen)
        if self._count >= BATCH:
            self._wake.set()

    def add_program(self, program: Program) -> None:
        """Notes a program and its calls."""
        name = programs.keep(self.folder, program)
        process = os.getpid()
        rows = []
        for call in calls(program):
            origin = call.line.origin
            place = origin.locations[-1] if origin and origin.locations else None
            where = (place.file, place.line, place.text) if place else (None, None, None)
            ops = ",".join(origin.ops) if origin else ""
            rows.append((program.name, process, call.number, call.function, call.kind, call.subject, ops, *where))
        with _connected(self.path) as database, database:
            row = (program.name, process, program.phase, name)
            database.execute("INSERT OR REPLACE INTO programs VALUES (?, ?, ?, ?)", row)
            database.executemany("INSERT OR REPLACE INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def flush(self) -> None:
        """Writes what waits, before it returns."""
        with self._writing, _connected(self.path) as database:
            self._write(database)

    def close(self) -> None:
        """Writes what waits and ends the thread; warns if records were dropped."""
        self._closing = True
        self._wake.set()
        if self._process == os.getpid():
            self._thread.join()
        self.flush()
        if self.dropped:
            warnings.warn(
                f"{self.dropped} records are not in the trace {self.folder}: they came faster than they could be "
                "written; watch fewer calls or steps to have them all",
                stacklevel=2,
            )

    def _run(self) -> None:
        with _connected(self.path) as database:
            while not self._closing:
                self._wake.wait(_INTERVAL_S)
                self._wake.clear()
                with self._writing:
                    self._write(database)

    def _write(self, database: sqlite3.Connection) -> None:
        while self._waiting or self._noted != self.dropped:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH))]
            with self._counting:
                self._count -= sum(seen.count for seen in batch)
            with database:
                database.executemany(_INSERT, (_row(event) for seen in batch for event in seen.events()))
                self._note_dropped(database)

    def _note_dropped(self, database: sqlite3.Connection) -> None:
        new = self.dropped - self._noted
        if new:
            database.execute(_ADD_DROPPED, (str(new), new))
            self._noted += new


@contextlib.contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(path, timeout=_BUSY_S)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=OFF")  # safe against the process's death, not against the machine's
        yield database


def _prepare(database: sqlite3.Connection) -> None:
    with database:
        database.execute("BEGIN IMMEDIATE")
        if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
            return
        for statement in SCHEMA.split(";"):
            database.execute(statement)
        facts = {
            "version": VERSION,
            "kernelscope": __version__,
            "torch": torch.__version__,
            "created_ns": time.time_ns(),
        }
        database.executemany("INSERT INTO meta VALUES (?, ?)", [(key, str(value)) for key, value in facts.items()])


def _row(event: Event) -> tuple[Any, ...]:
    value = event.value
    tensor: tuple[Any, ...] = (None,) * 6
    found: tuple[Any, ...] = (None,) * 14
    text = note = None
    if isinstance(value, TensorRecord):
        stride = None if value.stride is None else _list(value.stride)
        tensor = (value.dtype, value.device, _list(value.size), stride, value.layout, _signed(value.pointer))
        text, note = value.text or None, value.note or None
        facts = value.statistics
        if facts is not None:
            bits = None if facts.hash is None else _signed(facts.hash)
            found = (*_counts(facts), _number(facts.min), _number(facts.max), *_moments(facts), bits)
    elif isinstance(value, Unwritten):
        tensor = (value.dtype, None, _list(value.size), None, None, None)
        text = "(not yet written)"
    elif isinstance(value, ValueRecord):
        text = value.text
    return (
        *(None, event.time_ns, event.process, event.thread, event.program, event.step, event.order, event.call),
        *(event.moment, event.subject, event.label, "call" if value is None else type(value).__name__),
        *(int(event.written), *tensor, *found, text, note),
    )


@functools.lru_cache(1024)
def _list(numbers: tuple[int, ...]) -> str:
    """A JSON list; sizes and strides come again and again."""
    return json.dumps(numbers)


def _signed(word: int) -> int:
    """64 bits as SQLite keeps them: a signed number."""
    return word - (1 << 64) if word >= 1 << 63 else word


def _number(value: Any) -> Any:
    """Integers beyond 64 signed bits as floats, which SQLite has."""
    return float(value) if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63 else value
