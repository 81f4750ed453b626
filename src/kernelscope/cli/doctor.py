"""Say what this machine has: compiler, PyTorch, Triton, GPU, caches; and what to install.

The exit code is 1 if something that is needed is missing.

Examples:
  kernelscope doctor
  kernelscope doctor --json
"""

from __future__ import annotations

import argparse
import functools
import getpass
import importlib.metadata
import importlib.util
import os
import platform
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from kernelscope import config
from kernelscope.cli.failures import EXIT_FAULT
from kernelscope.cli.output import output_arguments, write, write_json
from kernelscope.errors import KernelscopeError

Found = tuple[str, str, str]
"""A state (``ok``, ``missing``, ``note``), what was found, and what to do about it (empty if nothing)."""
Check = Callable[[], Found]
_MARKS = {"ok": "ok     ", "missing": "MISSING", "note": "note   "}
_OLDEST_PYTHON = (3, 10)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    output_arguments(parser)


def execute(options: argparse.Namespace) -> int:
    """Prints one line per finding; fails if something that is needed is missing."""
    findings = [_finding(name, check) for name, check in _CHECKS]
    if options.json:
        write_json(findings, options)
    else:
        rows = []
        for finding in findings:
            rows.append(f"{_MARKS[finding['state']]}  {finding['name']:<16} {finding['text']}")
            rows += [f"{'':26}to do: {finding['hint']}"] if finding["hint"] else []
        write("\n".join(rows), options)
    return EXIT_FAULT if any(finding["state"] == "missing" for finding in findings) else 0


def _finding(name: str, check: Check) -> dict[str, str]:
    try:
        state, text, hint = check()
    except KernelscopeError as error:
        state, text, hint = "missing", error.what, error.hint
    return {"name": name, "state": state, "text": text, "hint": hint}


def _python() -> Found:
    text = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info < _OLDEST_PYTHON:
        return "missing", text, "install Python 3.10 or newer"
    return "ok", text, ""


def _pytorch() -> Found:
    if importlib.util.find_spec("torch") is None:
        return "missing", "not installed", 'pip install "torch>=2.11,<2.16"'
    import torch

    from kernelscope.api import check_version

    check_version()
    return "ok", torch.__version__, ""


def _with_pytorch(check: Check) -> Check:
    @functools.wraps(check)
    def guarded() -> Found:
        if importlib.util.find_spec("torch") is None:
            return "note", "not known without PyTorch", ""
        return check()

    return guarded


@_with_pytorch
def _compiler() -> Found:
    from kernelscope.api import compiler

    found = compiler.find_compiler(config.current().cxx)
    return "ok", f"{found}: {compiler.identity(found)}", ""


@_with_pytorch
def _headers() -> Found:
    from kernelscope.api import compiler

    return "ok", compiler.python_include().removeprefix("-I"), ""


@_with_pytorch
def _vectors() -> Found:
    import torch

    return "ok", torch.backends.cpu.get_cpu_capability(), ""


@_with_pytorch
def _hostcalls() -> Found:
    from kernelscope.api import hostcalls

    if hostcalls() is None:
        return "note", "not available, so host calls stay in Python; the warning says why", ""
    return "ok", "built", ""


def _triton() -> Found:
    try:
        return "ok", importlib.metadata.version("triton"), ""
    except importlib.metadata.PackageNotFoundError:
        return "note", "not installed; only GPU kernels need it", "pip install triton"


@_with_pytorch
def _gpu() -> Found:
    import torch

    if not torch.cuda.is_available():
        return "note", "none that PyTorch can use", ""
    return "ok", ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())), ""


def _kernel_cache() -> Found:
    return "ok", _sized(config.current().cache_dir), ""


def _inductor_cache() -> Found:
    # As PyTorch finds it; its own function would load the whole compiler.
    given = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return "ok", _sized(Path(given) if given else Path(tempfile.gettempdir()) / f"torchinductor_{_user()}"), ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return f"uid_{os.getuid()}"


def _sized(root: Path) -> str:
    if not root.exists():
        return f"{root} (not there yet)"
    size = sum(_bytes(file) for file in root.rglob("*"))
    return f"{root} ({size / 2**20:.1f} MiB)"


def _bytes(path: Path) -> int:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return 0  # a build elsewhere took it away since it was listed
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


_CHECKS: tuple[tuple[str, Check], ...] = (
    ("python", _python),
    ("pytorch", _pytorch),
    ("c++ compiler", _compiler),
    ("python headers", _headers),
    ("cpu vectors", _vectors),
    ("host calls", _hostcalls),
    ("triton", _triton),
    ("gpu", _gpu),
    ("kernel cache", _kernel_cache),
    ("pytorch cache", _inductor_cache),
)
