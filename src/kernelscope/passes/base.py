"""What a pass is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kernelscope.ir.program import Program


@dataclass(frozen=True, slots=True)
class PassResult:
    """A pass's program, and whether it differs from the one it got."""

    program: Program
    changed: bool


class Pass(Protocol):
    """A frozen dataclass whose fields are its options."""

    @property
    def name(self) -> str:
        """The name under which the pass is listed in the program."""

    def run(self, program: Program) -> PassResult:
        """The transformed program; the given one is not changed."""
