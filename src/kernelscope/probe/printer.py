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
        if isinstance(out, (str, os.PathLike)):
            file = self._closing.enter_context(open(out, "a", encoding="utf-8"))  # noqa: SIM115  # closed by the stack
            self._stream: TextIO | None = file
        else:
            self._stream = out

    def write(self, text: str) -> None:
        """Writes one record and a line's end."""
        stream = self._stream or sys.stdout
        with self._lock:
            stream.flush()
            descriptor = _descriptor(stream)
            if descriptor is None:
                stream.write(f"{text}\n")
                stream.flush()
            else:
                _write_whole(descriptor, f"{text}\n".encode(errors="replace"))

    def close(self) -> None:
        """Closes a file that the printer opened."""
        self._closing.close()


def _descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, AttributeError, ValueError):  # a stream in memory has none
        return None


def _write_whole(descriptor: int, data: bytes) -> None:
    with _turn(descriptor):
        while data:
            data = data[os.write(descriptor, data) :]


def _turn(descriptor: int) -> contextlib.AbstractContextManager[None]:
    """Keeps other processes from writing to the same terminal or pipe through here; files keep writes whole."""
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode):
        return contextlib.nullcontext()
    folder = Path(tempfile.gettempdir())
    return cache.lock(folder / f"kernelscope-print-{os.getuid()}-{found.st_dev}-{found.st_ino}.lock")
