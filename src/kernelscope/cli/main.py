"""Kernelscope: run, look at and check the host programs of compiled PyTorch models.

Examples:
  kernelscope run train.py --epochs 1      an unmodified script through Kernelscope
  kernelscope show model.py                the host program of a model
  kernelscope crash run/                   which kernel a process died in, or hangs in
  kernelscope doctor                       what this machine has, and what to install
  kernelscope demo                         a tour with a small transformer
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from kernelscope.cli.failures import guarded
from kernelscope.version import __version__

COMMANDS = ("run", "show", "crash", "doctor", "demo")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; gives the process's exit code.

    0: well; 1: a fault was found; 2: wrong usage or input; 3: an external tool failed; 70: a bug of ours.
    """
    options = parser().parse_args(argv)
    return guarded(options.execute, options)


def parser() -> argparse.ArgumentParser:
    """The parser of all commands. A command's docstring is its help; its module must be light to import."""
    whole = argparse.ArgumentParser(
        prog="kernelscope", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    whole.add_argument("--version", action="version", version=f"kernelscope {__version__}")
    commands = whole.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        module = importlib.import_module(f"kernelscope.cli.{name}")
        text = module.__doc__ or ""
        command = commands.add_parser(
            name,
            help=text.split("\n", 1)[0],
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.arguments(command)
        command.set_defaults(execute=module.execute)
    return whole


if __name__ == "__main__":
    sys.exit(main())
