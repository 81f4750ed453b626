"""Kernelscope: run, look at and check the host programs of compiled PyTorch models.

Examples:
  kernelscope run train.py --epochs 1      an unmodified script through Kernelscope
  kernelscope show model.py                the host program of a model
  kernelscope doctor                       what this machine has, and what to install
  kernelscope demo                         a tour with a small transformer
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence

from kernelscope.errors import BuildError, KernelscopeError, OptionError
from kernelscope.version import __version__

COMMANDS = ("run", "show", "doctor", "demo")
EXIT_FAULT, EXIT_USAGE, EXIT_TOOL, EXIT_INTERNAL = 1, 2, 3, 70


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; gives the process's exit code.

    0: well; 1: a fault was found; 2: wrong usage or input; 3: an external tool failed; 70: a bug of ours.
    """
    parser = argparse.ArgumentParser(
        prog="kernelscope", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
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
    options = parser.parse_args(argv)
    return _guarded(options.execute, options)


def _guarded(execute: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    try:
        return execute(options)
    except BuildError as error:
        print(f"kernelscope: {error}", file=sys.stderr)
        return EXIT_TOOL
    except (KernelscopeError, OptionError) as error:
        print(f"kernelscope: {error}", file=sys.stderr)
        return EXIT_USAGE
    except BrokenPipeError:
        # The reader of a pipe had enough (kernelscope show ... | head).
        sys.stderr.close()
        return 0
    except Exception:  # noqa: BLE001
        report = _report()
        print(f"kernelscope: internal error; please report it with {report}", file=sys.stderr)
        return EXIT_INTERNAL


def _report() -> str:
    with tempfile.NamedTemporaryFile("w", prefix="kernelscope-error-", suffix=".txt", delete=False) as file:
        file.write(f"kernelscope {__version__}\npython {sys.version}\narguments {sys.argv[1:]}\n\n")
        traceback.print_exc(file=file)
    return file.name


if __name__ == "__main__":
    sys.exit(main())
