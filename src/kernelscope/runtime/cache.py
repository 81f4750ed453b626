"""The content-addressed cache of built files, safe for processes and threads that start cold at once."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from kernelscope.errors import BuildError


def digest(parts: Iterable[str]) -> str:
    """A key over texts: equal texts in equal order, equal key."""
    state = hashlib.sha256()
    for part in parts:
        state.update(f"{len(part)}:".encode())
        state.update(part.encode())
    return state.hexdigest()[:32]


def directory(cache_dir: Path) -> Path:
    """``cache_dir``, made if need be; where that is not writable, a temporary directory, with a warning."""
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache_dir):
            return cache_dir
    except OSError as error:
        return _fallback(cache_dir, str(error))


@functools.cache
def _fallback(cache_dir: Path, reason: str) -> Path:
    temporary = Path(tempfile.mkdtemp(prefix="kernelscope-"))
    warnings.warn(
        f"cache directory {cache_dir} is not writable ({reason}): kernels are built in {temporary}, for this "
        "process only; set KERNELSCOPE_CACHE_DIR to a directory that is",
        stacklevel=4,
    )
    return temporary


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Holds an exclusive lock on a file; a process that dies lets go of it.

    Raises:
        BuildError: the lock file cannot be made.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise BuildError(f"cannot lock {path}: {error}", hint="set KERNELSCOPE_CACHE_DIR elsewhere") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
