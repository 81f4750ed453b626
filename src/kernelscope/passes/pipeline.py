"""The order of passes, and running them with a check in between."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from kernelscope.errors import InternalError
from kernelscope.ir.parse import parse_program
from kernelscope.ir.program import Program
from kernelscope.ir.serialize import from_json, to_json
from kernelscope.ir.text import print_program
from kernelscope.ir.verify import verify
from kernelscope.passes.base import Pass
from kernelscope.passes.memory_report import memory_report
from kernelscope.passes.plan_memory import PlanMemory

DEFAULT_PASSES: tuple[Pass, ...] = (PlanMemory(),)

OnPass = Callable[[str, Program], None]
"""Told of the program after capture (named ``capture``) and after each pass."""


def run_passes(
    program: Program,
    passes: Sequence[Pass] = DEFAULT_PASSES,
    *,
    verify_level: int = 1,
    on_pass: OnPass | None = None,
) -> Program:
    """The program after all passes, checked before the first and after each.

    Args:
        program: A program, as captured.
        passes: The passes, in order.
        verify_level: 0 checks nothing, 1 the IR's rules, 2 the memory plan too, 3 text and file round trips too.
        on_pass: Called after each step.

    Raises:
        VerifyError: a step gave a program that breaks a rule.
    """
    _after("capture", program, verify_level, on_pass)
    for step in passes:
        result = step.run(program)
        program = dataclasses.replace(result.program, passes=(*result.program.passes, step.name))
        _after(step.name, program, verify_level, on_pass)
    return program


def _after(step: str, program: Program, verify_level: int, on_pass: OnPass | None) -> None:
    if verify_level >= 1:
        verify(program)
    if verify_level >= 2:
        violations = [text for report in memory_report(program).functions for text in report.violations]
        if violations:
            raise InternalError(f"after {step}: {'; '.join(violations)}")
    if verify_level >= 3:
        _round_trips(step, program)
    if on_pass is not None:
        on_pass(step, program)


def _round_trips(step: str, program: Program) -> None:
    if parse_program(print_program(program)) != program:
        raise InternalError(f"after {step}: the text of program {program.name} does not parse back to it")
    if from_json(to_json(program)) != program:
        raise InternalError(f"after {step}: the file of program {program.name} does not read back to it")
