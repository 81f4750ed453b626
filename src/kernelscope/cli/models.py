"""What a command's PROGRAM argument stands for: a saved program, or a model file that defines ``make()``."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kernelscope.cli.failures import error_of_ours, is_our_bug, last_place, users_frames
from kernelscope.cli.output import progress
from kernelscope.errors import KernelscopeError, ProgramFileError

if TYPE_CHECKING:
    from kernelscope.api import Program

_MAKE_HINT = "define make() that gives (model, tuple of example inputs)"


def load_program(path: str) -> Program:
    """The program in a saved file, or of a model file.

    Raises:
        ProgramFileError: there is no such file, or it is neither.
        KernelscopeError: the model file fails, or the model cannot be captured.
    """
    if not Path(path).is_file():
        raise ProgramFileError(f"there is no file {path}", hint="give a saved program (.json) or a model file (.py)")
    with progress("loading PyTorch"):
        from kernelscope import api
    if not path.endswith(".py"):
        return api.Program.load(path)
    model, inputs, dynamic = load_model(path)
    with progress(f"compiling {path}"), _users_code(path, "cannot be compiled"):
        return api.capture(model, *inputs, dynamic=dynamic)


def load_model(path: str) -> tuple[Any, tuple[Any, ...], bool | None]:
    """The model, the example inputs, and whether its sizes are dynamic, of a model file.

    Raises:
        KernelscopeError: the file fails, or does not define ``make()`` as it should.
    """
    with _users_code(path, "fails"):
        module = _module(path)
        if not hasattr(module, "make"):
            raise KernelscopeError(f"{path} does not define make()", where=path, hint=_MAKE_HINT)
        made = module.make()
    if not (isinstance(made, tuple) and len(made) == 2 and callable(made[0]) and isinstance(made[1], (tuple, list))):
        raise KernelscopeError(f"make() gives {type(made).__name__}, not a pair", where=path, hint=_MAKE_HINT)
    model, inputs = made
    return model, tuple(inputs), getattr(module, "DYNAMIC", False)


def _module(path: str) -> ModuleType:
    # A name of its own, so that a file called random.py does not take the place of the library's module.
    spec = importlib.util.spec_from_file_location(f"kernelscope_model_{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise KernelscopeError(f"cannot load {path}", hint="give a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    folder = str(Path(path).resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _users_code(path: str, fails: str) -> Iterator[None]:
    """Within, an error is the user's: its traceback is shown, from their file on, and an error of ours names it."""
    try:
        yield
    except Exception as error:
        if error_of_ours(error) is not None or is_our_bug(error):
            raise
        traceback.print_exception(type(error), error, users_frames(error, path))
        first, _, _ = str(error).partition("\n")
        raise KernelscopeError(
            f"{path} {fails}: {type(error).__name__}: {first}",
            where=last_place(error, path),
            hint="see the traceback above",
        ) from error
