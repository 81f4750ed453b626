"""The public face of Kernelscope."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from os import PathLike
from typing import Any

import torch

from kernelscope.backend import Compiled, kernelscope_backend, observing
from kernelscope.diagnose.crash import CrashReport, crash_report
from kernelscope.errors import KernelscopeError, UnsupportedError
from kernelscope.ir import program as ir
from kernelscope.ir import serialize
from kernelscope.ir.text import print_program
from kernelscope.passes.memory_report import MemoryReport, memory_report
from kernelscope.runtime import compiler
from kernelscope.runtime.native_module import hostcalls
from kernelscope.targets import registry
from kernelscope.targets.artifact import Artifact
from kernelscope.watch import Scope
from kernelscope.watch import Scope as scope  # the public name

__all__ = [
    "Artifact",
    "CrashReport",
    "MemoryReport",
    "Program",
    "Scope",
    "capture",
    "capture_training",
    "check_version",
    "compiler",
    "crash_report",
    "hostcalls",
    "memory_report",
    "scope",
]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Program(ir.Program):
    """A host program. ``str(program)`` is its text form."""

    @classmethod
    def of(cls, program: ir.Program) -> Program:
        """The same program with these methods."""
        return cls(**{field.name: getattr(program, field.name) for field in dataclasses.fields(ir.Program)})

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Program:
        """Reads a program from its file.

        Raises:
            ProgramFileError: the file is missing, truncated, foreign, or from a newer version.
        """
        return cls.of(serialize.load(path))

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the program to a file, constants included; an existing file is replaced whole or not at all."""
        serialize.save(self.plain(), path)

    def plain(self) -> ir.Program:
        """The same program as a plain record of the IR."""
        return ir.Program(**{field.name: getattr(self, field.name) for field in dataclasses.fields(ir.Program)})

    def emit(self, target: str = "python") -> Artifact:
        """The program as code of a target; ``emit(...).load()`` gives a function of the flat input list.

        Raises:
            OptionError: there is no such target.
        """
        return registry.target(target).emit(self.plain())

    def __str__(self) -> str:
        return print_program(self.plain())


def check_version() -> None:
    """Refuses a version of PyTorch outside the supported range.

    Raises:
        VersionError: the installed version is not supported.
    """
    from kernelscope.capture.inductor.versions import check_version as check

    check()


class _Captured(Exception):
    """Stops the call that was made only to compile."""


def _capture(model: Callable[..., Any], inputs: tuple[Any, ...], dynamic: bool | None) -> list[Program]:
    from kernelscope.capture.inductor.compile import uncached

    programs: list[Program] = []

    def keep(compiled: Compiled) -> None:
        programs.append(Program.of(compiled.program))

    def backend(graph: torch.fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
        kernelscope_backend(graph, example_inputs)

        def stop(*args: Any) -> Any:
            raise _Captured

        return stop

    compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=dynamic)
    with uncached(), observing(keep):
        try:
            compiled(*inputs)
        except _Captured:
            return programs
        except torch._dynamo.exc.Unsupported as error:
            raise UnsupportedError(
                f"the model is not one graph: {str(error).splitlines()[0]}",
                hint="capture the part that is one graph, or compile with torch.compile, which may break graphs",
            ) from error
    return programs


def capture(model: Callable[..., Any], *inputs: Any, dynamic: bool | None = False) -> Program:
    """Captures the inference program of a model, without running it.

    Args:
        model: A module or function that Dynamo can trace as one graph.
        *inputs: Example inputs.
        dynamic: As for ``torch.compile``: True makes sizes symbolic.

    Raises:
        UnsupportedError: the model is not one graph, or its host program has no form in the IR.
    """
    with torch.no_grad():
        programs = _capture(model, inputs, dynamic)
    if not programs:
        raise KernelscopeError(
            "the model computes nothing: it has no host program", hint="capture a model with operators"
        )
    return programs[-1]


def capture_training(model: Callable[..., Any], *inputs: Any, dynamic: bool | None = False) -> tuple[Program, ...]:
    """Captures the forward and backward programs of a model, without running them.

    Raises:
        UnsupportedError: as ``capture``.
    """
    with torch.enable_grad():
        programs = _capture(model, inputs, dynamic)
    order = {"forward": 0, "inference": 0, "backward": 1}
    return tuple(sorted(programs, key=lambda program: order[program.phase]))
