"""The programs loaded in this process, and putting another function in place of theirs while somebody observes.

A loaded program's ``call`` is a plain function that PyTorch holds on to. While nobody observes it is what the target
generated, and costs what it costs. As long as there is an observer, the function's code is one that asks the observer
first; the frames that run meanwhile are not touched. Must not live here: what an observer does with a program.
"""

from __future__ import annotations

import enum
import threading
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from kernelscope.runtime.boot import KernelSet

Call: TypeAlias = Callable[[list[Any]], Any]
"""A program's function: takes its flat inputs, which it empties; gives what the program returns."""
Probe: TypeAlias = Callable[[int, "tuple[Any, ...]"], None]
"""Gets a probe line's number and its values."""


@dataclass(eq=False, kw_only=True)
class Loaded:
    """A program that was loaded.

    Attributes:
        target: The target that generated it.
        text: Gives the program in its file form.
        namespace: The globals of its code: ``call``, kernels, constants.
        kernels: Its C++ kernels.
        call: Its entry, a plain function without free variables.
    """

    target: str
    text: Callable[[], str]
    namespace: dict[str, Any]
    kernels: KernelSet
    call: types.FunctionType = field(init=False)

    def __post_init__(self) -> None:
        # The function itself: whoever wraps it puts another under its name, and goes on calling this one.
        self.call = self.namespace["call"]


Observer: TypeAlias = Callable[[Loaded], "Call | None"]
"""Gives what runs in a loaded program's place; None where it leaves that to the next observer."""


class Precedence(enum.IntEnum):
    """Who asked for an observer, the last word last."""

    ENVIRONMENT = 0
    OPTIONS = 1
    SCOPE = 2


_lock = threading.RLock()
_loaded: weakref.WeakSet[Loaded] = weakref.WeakSet()
_observers: tuple[tuple[Precedence, Observer], ...] = ()
"""The first to be asked is the last."""
_DISPATCH = "__kernelscope_dispatch__"


def register(loaded: Loaded) -> None:
    """Notes a program; its namespace keeps the note."""
    with _lock:
        loaded.namespace["__kernelscope_loaded__"] = loaded
        _loaded.add(loaded)
        if _observers:
            _divert(loaded)


def observe(observer: Observer, precedence: Precedence = Precedence.SCOPE) -> None:
    """From now on, ``observer`` is asked for every program, before those of its precedence that came earlier."""
    global _observers
    with _lock:
        first = not _observers
        _observers = tuple(sorted((*_observers, (precedence, observer)), key=lambda each: each[0]))
        if first:
            for loaded in tuple(_loaded):
                _divert(loaded)


def stop(observer: Observer) -> None:
    """``observer`` is asked no more."""
    global _observers
    with _lock:
        last = max(index for index, (_, each) in enumerate(_observers) if each == observer)
        _observers = _observers[:last] + _observers[last + 1 :]
        if not _observers:
            for loaded in tuple(_loaded):
                _restore(loaded)


def _divert(loaded: Loaded) -> None:
    call = loaded.call
    plain = types.FunctionType(call.__code__, loaded.namespace, "call")

    def dispatch(args: list[Any]) -> Any:
        for _, observer in reversed(_observers):
            chosen = observer(loaded)
            if chosen is not None:
                return chosen(args)
        return plain(args)

    loaded.namespace[_DISPATCH] = dispatch
    loaded.namespace["__kernelscope_plain__"] = plain
    call.__code__ = _diverted.__code__


def _restore(loaded: Loaded) -> None:
    loaded.call.__code__ = loaded.namespace["__kernelscope_plain__"].__code__


def _diverted(args: list[Any]) -> Any:
    return __kernelscope_dispatch__(args)  # type: ignore[name-defined]  # noqa: F821  # in the program's globals
