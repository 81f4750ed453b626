"""The C++ compiler: which one, what it is, where PyTorch's and Python's headers are, and running it."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import shutil
import subprocess
import sysconfig
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from kernelscope.errors import BuildError
from kernelscope.runtime import forks

_TAIL_CHARACTERS = 2048
INSTALL_HINT = "apt-get install -y g++ python3-dev"


def find_compiler(cxx: str) -> str:
    """The compiler's path.

    Args:
        cxx: The user's choice; empty for ``$CXX``, then g++, then clang++.

    Raises:
        BuildError: there is none.
    """
    for name in (cxx, os.environ.get("CXX", ""), "g++", "clang++"):
        found = shutil.which(name) if name else None
        if found:
            return found
        if name and name == cxx:
            raise BuildError(f"there is no C++ compiler {cxx!r}", hint=f"unset KERNELSCOPE_CXX, or {INSTALL_HINT}")
    raise BuildError("there is no C++ compiler on this machine", hint=INSTALL_HINT)


@functools.cache
def identity(compiler: str) -> str:
    """The compiler's own words about its version.

    Raises:
        BuildError: it does not run.
    """
    _, output = _output([compiler, "--version"])
    return output.split("\n", 1)[0]


@functools.cache
def include_flags() -> tuple[str, ...]:
    """Where PyTorch's headers are; as system headers, so that their warnings stay out of the way."""
    root = Path(torch.__file__).parent / "include"
    return tuple(f"-isystem{path}" for path in (root, root / "torch" / "csrc" / "api" / "include"))


@functools.cache
def library_flags() -> tuple[str, ...]:
    """Where PyTorch's libraries are, at link time and at run time."""
    root = Path(torch.__file__).parent / "lib"
    return (f"-L{root}", f"-Wl,-rpath,{root}")


@functools.cache
def python_include() -> str:
    """The flag for Python's headers.

    Raises:
        BuildError: they are not installed.
    """
    include = Path(sysconfig.get_path("include"))
    if not (include / "Python.h").exists():
        raise BuildError(f"Python's headers are not installed ({include}/Python.h)", hint=INSTALL_HINT)
    return f"-I{include}"


_turns = threading.Condition()
_running = 0


def _reset_turns() -> None:
    # A forked child runs none of its parent's compilers.
    global _turns, _running
    _turns, _running = threading.Condition(), 0


os.register_at_fork(after_in_child=_reset_turns)


@contextlib.contextmanager
def turn(jobs: int) -> Iterator[None]:
    """Waits until fewer than ``jobs`` compilers of this process run, and counts one more within."""
    global _running
    turns = _turns
    with turns:
        turns.wait_for(lambda: _running < max(1, jobs))
        _running += 1
    try:
        yield
    finally:
        with turns:
            _running -= 1
            turns.notify_all()


def run(command: Sequence[str], *, kept: Path) -> None:
    """Runs a compiler.

    Raises:
        BuildError: it failed; its text has the command, the end of its output, and the file that was compiled.
    """
    code, output = _output(command)
    if code != 0:
        raise BuildError(
            f"the C++ compiler failed with exit code {code}\n{output[-_TAIL_CHARACTERS:].strip()}",
            where=str(kept),
            hint=f"the command was: {shlex.join(command)}",
        )


def _output(command: Sequence[str]) -> tuple[int, str]:
    """Runs a command; its exit code, and what it wrote."""
    try:
        with forks.undivided:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
    except OSError as error:
        raise BuildError(f"cannot run {command[0]}: {error}", hint=INSTALL_HINT) from error
    output, _ = process.communicate()
    return process.returncode, output
