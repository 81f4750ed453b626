"""Writes records to a terminal, a pipe or a file, each whole even when threads and processes share it."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
import threading
from pathlib import Path
from typing import TextIO

from kernelscope.runtime import cache


class Printer:
    """Writes texts, each in one piece and at once: what was printed before a crash is there.

    Args:
        out: A stream, the path of a file that is appended to, or None for standard output.
    """

    def __init__(self, out: TextIO | str | os.PathLike[str] | None = None) -> None:
        self._lock = threading.Lock()
        self._closing = contextlib.ExitStack()
        self._stream: TextIO | None = None
        self._file: int | None = None
        if not isinstance(out, (str, os.PathLike)):
            self._stream = out
        else:
            stream = self._closing.enter_context(open(out, "a", encoding="utf-8"))  # noqa: SIM115  # closed by the stack
            if _is_regular(os.fstat(stream.fileno())):
                self._file = stream.fileno()
            else:
                self._stream = stream

    def write(self, text: str) -> None:
        """Writes one record and a line's end."""
        with self._lock:
            if self._file is not None:
                _write(self._file, f"{text}\n".encode(errors="replace"))
            else:
                _write_to(self._stream or sys.stdout, f"{text}\n")

    def close(self) -> None:
        """Closes a file that the printer opened."""
        self._closing.close()


def _write_to(stream: TextIO, text: str) -> None:
    """Writes through a stream that others may write to, or have turned elsewhere since."""
    stream.flush()
    descriptor = _descriptor(stream)
    if descriptor is None:
        stream.write(text)
        stream.flush()
    else:
        with _turn(descriptor):
            _write(descriptor, text.encode(errors="replace"))


def _descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, AttributeError, ValueError):  # a stream in memory has none
        return None


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _is_regular(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode)


def _turn(descriptor: int) -> contextlib.AbstractContextManager[None]:
    """Keeps other processes from writing to the same terminal or pipe through here; files keep writes whole."""
    found = os.fstat(descriptor)
    if _is_regular(found):
        return contextlib.nullcontext()
    folder = Path(tempfile.gettempdir())
    return cache.lock(folder / f"kernelscope-print-{os.getuid()}-{found.st_dev}-{found.st_ino}.lock")
