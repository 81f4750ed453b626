"""What commands share: where output goes, progress, and loading a model or a program."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelscope.errors import KernelscopeError, ProgramFileError

if TYPE_CHECKING:
    from kernelscope.api import Program


def output_arguments(parser: ArgumentParser) -> None:
    """The options of every reading command."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("-o", "--output", metavar="FILE", help="write there instead of standard output")


def write(text: str, options: Namespace) -> None:
    """Writes a command's result."""
    if options.output:
        Path(options.output).write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
    else:
        print(text.rstrip("\n"))


def write_json(data: Any, options: Namespace) -> None:
    """Writes a command's result as JSON."""
    write(json.dumps(data, indent=2), options)


@contextlib.contextmanager
def progress(text: str) -> Iterator[None]:
    """Shows on a terminal that something takes a while."""
    from rich.console import Console

    with Console(stderr=True, quiet=not sys.stderr.isatty()).status(text):
        yield


def load_programs(path: str) -> list[Program]:
    """The programs of a saved program, or of a model file that defines ``make()``.

    Raises:
        ProgramFileError: there is no such file, or it is neither.
    """
    from kernelscope import api

    if not Path(path).exists():
        raise ProgramFileError(f"there is no file {path}", hint="give a saved program (.json) or a model file (.py)")
    if path.endswith(".py"):
        model, inputs, dynamic = load_model(path)
        with progress(f"compiling {path}"):
            return [api.capture(model, *inputs, dynamic=dynamic)]
    return [api.Program.load(path)]


def load_model(path: str) -> tuple[Any, tuple[Any, ...], bool | None]:
    """The model, the example inputs, and whether its sizes are dynamic, of a model file.

    Raises:
        KernelscopeError: the file does not define ``make()``.
    """
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise KernelscopeError(f"cannot load {path}", hint="give a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if not hasattr(module, "make"):
        raise KernelscopeError(
            f"{path} does not define make()",
            where=path,
            hint="define make() that gives (model, tuple of example inputs)",
        )
    model, inputs = module.make()
    return model, tuple(inputs), getattr(module, "DYNAMIC", False)
