"""What becomes of an exception on the command line: its text, the exit code, the report file.

Every command runs inside ``guarded``. Must not live here: what commands do, and anything that imports PyTorch.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from kernelscope.errors import BuildError, KernelFault, KernelscopeError
from kernelscope.version import __version__

EXIT_FAULT, EXIT_USAGE, EXIT_TOOL, EXIT_INTERNAL, EXIT_INTERRUPTED = 1, 2, 3, 70, 130
_PACKAGE = str(Path(__file__).parent.parent)


def guarded(execute: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """Runs a command; gives the exit code, also of one that fails."""
    try:
        code = execute(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader had enough (kernelscope show ... | head); what is still buffered must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("kernelscope: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001  # the outermost layer: whatever it is, a person reads it
        return _failed(error)
    return code


def _failed(error: Exception) -> int:
    ours = error_of_ours(error)
    if ours is not None:
        print(f"kernelscope: {ours}", file=sys.stderr)
        if isinstance(ours, KernelFault):
            return EXIT_FAULT
        return EXIT_TOOL if isinstance(ours, BuildError) else EXIT_USAGE
    first, _, _ = str(error).partition("\n")
    print(f"kernelscope: internal error: {type(error).__name__}: {first}", file=sys.stderr)
    print(f"  what to do: please report it with {_report(error)}", file=sys.stderr)
    return EXIT_INTERNAL


def _report(error: Exception) -> str:
    with tempfile.NamedTemporaryFile("w", prefix="kernelscope-error-", suffix=".txt", delete=False) as file:
        file.write(f"kernelscope {__version__}\npython {sys.version}\narguments {sys.argv[1:]}\n\n")
        traceback.print_exception(type(error), error, error.__traceback__, file=file)
    return file.name


def error_of_ours(error: BaseException | None) -> KernelscopeError | None:
    """The error of ours that ``error`` is, or that PyTorch wrapped when a backend raised it."""
    while error is not None and not isinstance(error, KernelscopeError):
        error = getattr(error, "inner_exception", None)
    return error


def is_our_bug(error: BaseException) -> bool:
    """Whether PyTorch wrapped an error, none that a user can act on, that was raised in this package's own code."""
    inner = getattr(error, "inner_exception", None)
    if inner is None or error_of_ours(error) is not None:
        return False
    frames = traceback.extract_tb(inner.__traceback__)
    return bool(frames) and frames[-1].filename.startswith(_PACKAGE)


def users_frames(error: BaseException, path: str) -> TracebackType | None:
    """The traceback from the first frame in the file ``path`` on: what Python shows without this program around it."""
    tb = error.__traceback__
    while tb is not None and not _same(tb.tb_frame.f_code.co_filename, path):
        tb = tb.tb_next
    return tb


def last_place(error: BaseException, path: str) -> str:
    """The innermost place of the error in the file ``path``, as ``path:line``; ``path`` if it has none there."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if _same(frame.filename, path)]
    return f"{path}:{lines[-1]}" if lines else path


def _same(filename: str, path: str) -> bool:
    return os.path.abspath(filename) == os.path.abspath(path)
