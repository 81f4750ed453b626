"""Options of ``torch.compile`` that watch: those of ``kernelscope.scope``, for the programs compiled with them.

A program's module carries its options, so that a module found in PyTorch's cache is watched as well. They hold where no
scope is open, before what the environment asks for.
"""

from __future__ import annotations

import atexit
import inspect
import json
import os
import threading
from collections.abc import Mapping
from typing import Any

from kernelscope.errors import OptionError
from kernelscope.runtime.switch import Precedence
from kernelscope.watch import MARK, Scope

NAMES = tuple(name for name in inspect.signature(Scope).parameters)
_FOLDERS = ("out", "save", "trace", "flight")
_lock = threading.Lock()
_open: dict[str, Scope] = {}


def text_of(given: Mapping[str, Any]) -> str:
    """Options as text that goes into a module; empty without any.

    Raises:
        OptionError: a value has no text, such as a function or a stream.
    """
    return json.dumps({name: _plain(name, given[name]) for name in sorted(given)}) if given else ""


def _plain(name: str, value: Any) -> Any:
    if name in _FOLDERS and isinstance(value, (str, os.PathLike)):
        return os.path.abspath(os.fspath(value))
    try:
        json.dumps(value)
    except TypeError as error:
        raise OptionError(
            f"option {name} of torch.compile cannot be {value!r}",
            hint="it goes into generated code, so it is text, numbers, or lists of them; functions and streams are "
            f"given to kernelscope.scope({name}=...)",
        ) from error
    return value


def mark(text: str) -> str:
    """The line of a module that says how its program is watched."""
    return f"{MARK} = {text!r}\n" if text else ""


def watch(text: str) -> None:
    """Watches programs that carry these options, until the process ends.

    Raises:
        OptionError: an option has a value that it cannot have.
    """
    with _lock:
        if text and text not in _open:
            scope = Scope(**json.loads(text))
            scope.open_as(Precedence.OPTIONS, text)
            _open[text] = scope
            atexit.register(scope.close)
