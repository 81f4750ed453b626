"""The content-addressed cache of built files, safe for processes and threads that start cold at once.

A file of the cache appears under its name by an atomic rename, complete or not at all, so a builder that dies leaves
nothing that the next one could mistake for a result. Must not live here: what is built (``cpp_build``).
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from kernelscope.errors import BuildError
from kernelscope.runtime import forks


def digest(parts: Iterable[str]) -> str:
    """A key over texts: equal texts in equal order, equal key."""
    state = hashlib.sha256()
    for part in parts:
        state.update(f"{len(part)}:".encode())
        state.update(part.encode())
    return state.hexdigest()[:32]


def built(cache_dir: Path, place: str, make: Callable[[Path], None]) -> Path:
    """The file ``place`` of the cache; made where it is not there, by one process at a time.

    Where the cache cannot be written (read-only, no space left), the file is made in a temporary directory that goes
    away with the process, with a warning.

    Args:
        cache_dir: The cache.
        place: The file's path in the cache.
        make: Writes the file under the path it is given, which is a temporary one in the same directory.

    Raises:
        BuildError: ``make`` failed, or nothing can be written anywhere.
    """
    if (cache_dir / place).exists():
        return cache_dir / place  # of a read-only cache, too
    root = directory(cache_dir)
    try:
        return _made(root / place, make)
    except OSError as error:
        if root != cache_dir:
            raise BuildError(f"cannot write to {root}: {error}", hint="set TMPDIR to a directory with space") from error
        return _made(_fallback(cache_dir, error) / place, make)


def _made(path: Path, make: Callable[[Path], None]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock(path.with_name(f"{path.name}.lock")):
        if not path.exists():
            with replacing(path) as temporary:
                make(temporary)
    return path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name beside ``path``, which takes its place at the end; for one process at a time, under a lock."""
    for leftover in path.parent.glob(f"{path.name}-*.part"):
        leftover.unlink(missing_ok=True)  # of a process that ended meanwhile
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}-", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def directory(cache_dir: Path) -> Path:
    """``cache_dir``, made if need be; where that is not writable, a temporary directory, with a warning."""
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache_dir):
            return cache_dir
    except OSError as error:
        return _fallback(cache_dir, error)


_fallbacks: dict[Path, Path] = {}
_fallbacks_lock = threading.Lock()


def _fallback(cache_dir: Path, reason: OSError) -> Path:
    with _fallbacks_lock:
        if cache_dir in _fallbacks:
            return _fallbacks[cache_dir]
        try:
            temporary = _fallbacks[cache_dir] = Path(tempfile.mkdtemp(prefix="kernelscope-"))
        except OSError as error:
            raise BuildError(
                f"cache directory {cache_dir} is not writable ({reason.strerror}), nor is a temporary one ({error})",
                hint="set KERNELSCOPE_CACHE_DIR or TMPDIR to a directory that is",
            ) from error
    atexit.register(_remove, temporary, os.getpid())
    warnings.warn(
        f"cache directory {cache_dir} is not writable ({reason.strerror}): kernels are built in {temporary}, for this "
        "process only; set KERNELSCOPE_CACHE_DIR to a directory that is",
        stacklevel=2,
    )
    return temporary


def _remove(temporary: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(temporary, ignore_errors=True)


_held: set[int] = set()
"""Locks that this process holds now, as file descriptors."""


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Holds an exclusive lock on a file; a process that dies lets go of it."""
    with forks.undivided:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        _held.add(handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)  # a child that was just forked has the file open, too
        _held.discard(handle)
        os.close(handle)


def _forget_locks() -> None:
    # A forked child shares its parent's locks, and would keep them from everyone for as long as it lives.
    for handle in _held:
        os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_forget_locks)
