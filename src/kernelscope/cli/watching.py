"""Flags that watch a script's compiled programs: what is shown, saved and checked."""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernelscope.errors import OptionError

_UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_SELECTIONS = {
    "kernels": "kernels and operators by name; globs and /regular expressions/ too, with commas between them",
    "exclude": "kernels and operators that are not watched",
    "operators": "operators fused into a kernel, or called, such as aten.softmax",
    "sources": "places of the model, such as model.py:12 or model.py:10-20",
    "buffers": "values by their label, such as buf3",
    "dtypes": "tensors by dtype, such as float32",
    "devices": "tensors by device, such as cuda",
    "steps": "calls of each program by number from 0, such as 3 or 10-20",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the flags."""
    shown = parser.add_argument_group("watching values")
    shown.add_argument("--print", choices=("names", "stats", "values"), default=None, help="print each call's values")
    shown.add_argument(
        "--format", choices=("kernelscope", "torch-aoti", "torch-jit", "json"), default="kernelscope", help="of --print"
    )
    shown.add_argument("--json", action="store_true", help="print one JSON record a line (--format json)")
    shown.add_argument("--out", metavar="FILE", default=None, help="where --print goes; standard output by default")
    shown.add_argument("--save", metavar="DIR", default=None, help="save every tensor seen, for torch.load")
    shown.add_argument("--save-limit", metavar="SIZE", default=None, help="at most that much, such as 2GiB")
    shown.add_argument("--trace", metavar="DIR", default=None, help="keep every record in a database there")
    shown.add_argument("--flight", metavar="DIR", default=None, help="flight recorder there, for kernelscope crash")
    shown.add_argument(
        "--check", metavar="CHECKS", default=None, help="stop at nan, inf, -inf, range:LOW:HIGH, finite_growth:FACTOR"
    )
    chosen = parser.add_argument_group("which values are watched (all by default)")
    for name, text in _SELECTIONS.items():
        chosen.add_argument(f"--{name}", metavar="PATTERNS", default=None, help=text)


def scope_of(options: argparse.Namespace) -> contextlib.AbstractContextManager[Any]:
    """The scope that the flags ask for; none where nothing is watched.

    Raises:
        OptionError: a flag has a value that it cannot have, or selects values and does nothing with them.
    """
    chosen = {name: getattr(options, name) for name in _SELECTIONS if getattr(options, name) is not None}
    if options.print is None and options.json:
        options.print = "stats"
    if options.print is None and options.save is None and options.check is None and options.trace is None:
        if chosen or options.out:
            flag = f"--{next(iter(chosen), 'out')}"
            raise OptionError(f"{flag} has nothing to apply to", hint="add --print, --save, --check or --trace")
        if options.flight is None:
            return contextlib.nullcontext()
    from kernelscope.probe.saver import DEFAULT_LIMIT_BYTES
    from kernelscope.watch import Scope

    return Scope(
        print=options.print,
        format="json" if options.json else options.format,
        out=options.out,
        save=options.save,
        check=options.check,
        trace=options.trace,
        flight=options.flight,
        save_limit_bytes=DEFAULT_LIMIT_BYTES if options.save_limit is None else size(options.save_limit),
        **chosen,
    )


@contextlib.contextmanager
def stack_written(options: argparse.Namespace) -> Iterator[None]:
    """Within, a signal that ends the process has Python's stack written beside the flight recorder's file."""
    folder = options.flight or options.trace
    if folder is None or faulthandler.is_enabled():
        yield
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = Path(folder) / f"stack-{os.getpid()}.txt"
    with path.open("w") as file:
        faulthandler.enable(file)
        try:
            yield
        finally:
            faulthandler.disable()
            path.unlink()  # nothing came of it


def size(text: str) -> int:
    """Bytes from a text such as ``2GiB`` or ``500MB``.

    Raises:
        OptionError: it is no size.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    if found is None or found[2].upper() not in _UNITS:
        raise OptionError(f"{text!r} is no size", hint="write 500MB or 2GiB")
    return int(float(found[1]) * _UNITS[found[2].upper()])
