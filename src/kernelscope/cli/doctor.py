"""Say what this machine has: compiler, PyTorch, Triton, GPU, caches; and what to install.

Examples:
  kernelscope doctor
  kernelscope doctor --json
"""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
import sys
from collections.abc import Callable
from pathlib import Path

from kernelscope.cli.output import output_arguments, write, write_json
from kernelscope.errors import KernelscopeError


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    output_arguments(parser)


def execute(options: argparse.Namespace) -> int:
    """Prints one line per finding; fails if something that is needed is missing."""
    findings = [_finding(name, check) for name, check in _CHECKS]
    if options.json:
        write_json(findings, options)
    else:
        marks = {"ok": "ok     ", "missing": "MISSING", "note": "note   "}
        rows = []
        for finding in findings:
            rows.append(f"{marks[finding['state']]}  {finding['name']:<16} {finding['text']}")
            rows += [f"{'':26}to do: {finding['hint']}"] if finding["hint"] else []
        write("\n".join(rows), options)
    return 1 if any(finding["state"] == "missing" for finding in findings) else 0


def _finding(name: str, check: Callable[[], tuple[str, str]]) -> dict[str, str]:
    try:
        state, text = check()
        return {"name": name, "state": state, "text": text, "hint": ""}
    except KernelscopeError as error:
        return {"name": name, "state": "missing", "text": error.what, "hint": error.hint}


def _python() -> tuple[str, str]:
    return "ok", f"{platform.python_version()} ({sys.executable})"


def _torch() -> tuple[str, str]:
    import torch

    from kernelscope.api import check_version

    check_version()
    return "ok", torch.__version__


def _compiler() -> tuple[str, str]:
    from kernelscope import config
    from kernelscope.api import compiler

    found = compiler.find_compiler(config.current().cxx)
    return "ok", f"{found}: {compiler.identity(found)}"


def _headers() -> tuple[str, str]:
    from kernelscope.api import compiler

    return "ok", compiler.python_include().removeprefix("-I")


def _vectors() -> tuple[str, str]:
    import torch

    return "ok", torch.backends.cpu.get_cpu_capability()


def _hostcalls() -> tuple[str, str]:
    from kernelscope.api import hostcalls

    return ("ok", "built") if hostcalls() is not None else ("note", "not available: host calls stay in Python")


def _triton() -> tuple[str, str]:
    try:
        return "ok", importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return "note", "not installed; only GPU kernels need it"


def _gpu() -> tuple[str, str]:
    import torch

    if not torch.cuda.is_available():
        return "note", "none that PyTorch can use"
    return "ok", ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))


def _cache() -> tuple[str, str]:
    from kernelscope import config

    root = config.current().cache_dir
    size = sum(file.stat().st_size for file in root.rglob("*") if file.is_file()) if root.exists() else 0
    return "ok", f"{root} ({_megabytes(root, size)})"


def _megabytes(root: Path, size: int) -> str:
    return f"{size / 2**20:.1f} MiB" if root.exists() else "not there yet"


_CHECKS: tuple[tuple[str, Callable[[], tuple[str, str]]], ...] = (
    ("python", _python),
    ("pytorch", _torch),
    ("c++ compiler", _compiler),
    ("python headers", _headers),
    ("cpu vectors", _vectors),
    ("host calls", _hostcalls),
    ("triton", _triton),
    ("gpu", _gpu),
    ("cache", _cache),
)
