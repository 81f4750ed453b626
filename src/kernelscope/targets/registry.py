"""The targets by name, and the place where a target made elsewhere is added (B6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kernelscope.errors import OptionError
from kernelscope.ir.program import Program
from kernelscope.runtime.switch import Call, Loaded, Probe
from kernelscope.targets.artifact import Artifact


class Target(Protocol):
    """What a target must be able to do."""

    name: str

    def emit(self, program: Program) -> Artifact:
        """The program as code."""

    def module(self, program: Program, program_json: str) -> str:
        """The text of a Python module that PyTorch loads; it defines ``call(args)``."""

    def observed(self, program: Program, loaded: Loaded, probe: Probe) -> Call:
        """A program with probes, to run in the place of the loaded one, whose kernels and constants it uses."""


def _python() -> Target:
    from kernelscope.targets.python.target import PythonTarget

    return PythonTarget()


def _interpreter() -> Target:
    from kernelscope.targets.interpreter.target import InterpreterTarget

    return InterpreterTarget()


_targets: dict[str, Callable[[], Target]] = {"python": _python, "interpreter": _interpreter}


def register(name: str, factory: Callable[[], Target]) -> None:
    """Adds a target.

    Raises:
        OptionError: there is one of that name.
    """
    if name in _targets:
        raise OptionError(f"there is a target {name!r} already", hint="choose another name")
    _targets[name] = factory


def names() -> tuple[str, ...]:
    """The names of all targets."""
    return tuple(_targets)


def target(name: str) -> Target:
    """The target of that name.

    Raises:
        OptionError: there is none.
    """
    if name not in _targets:
        raise OptionError(f"unknown target {name!r}", hint=f"targets are {', '.join(_targets)}")
    return _targets[name]()
