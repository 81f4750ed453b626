"""What reading commands share: where output goes, and progress on a terminal."""

from __future__ import annotations

import contextlib
import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelscope import config
from kernelscope.errors import KernelscopeError


def output_arguments(parser: ArgumentParser) -> None:
    """Declares the options of every reading command."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("-o", "--output", metavar="FILE", help="write there instead of standard output")


def write(text: str, options: Namespace) -> None:
    """Writes a command's result.

    Raises:
        KernelscopeError: the file cannot be written.
    """
    text = text.rstrip("\n")
    if not options.output:
        print(text)
        return
    try:
        Path(options.output).write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise KernelscopeError(
            f"cannot write {options.output}: {error.strerror}", hint="give another file after -o"
        ) from error


def write_json(data: Any, options: Namespace) -> None:
    """Writes a command's result as JSON."""
    write(json.dumps(data, indent=2), options)


@contextlib.contextmanager
def progress(text: str) -> Iterator[None]:
    """Shows on standard error that something takes a while, as the setting ``progress`` says."""
    setting = config.current().progress
    if setting == "off" or (setting == "auto" and not sys.stderr.isatty()):
        yield
        return
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(text):
            yield
    else:
        console.print(f"kernelscope: {text}")
        yield


def plural(count: int, noun: str) -> str:
    """``count`` and the noun, with an s unless it is one."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
