"""The verifier: rules across lines that every program must keep (A5).

Each rule is a small function that yields the breaches it finds; ``verify`` collects all of them. The rules are in
``verify_program``, ``verify_names``, ``verify_calls`` and ``verify_storage``. Must not live here: what holds
within one record (that is in ``__post_init__``), and repair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from kernelscope.errors import VerifyError
from kernelscope.ir import verify_calls, verify_names, verify_program, verify_storage
from kernelscope.ir.lines import Origin
from kernelscope.ir.program import Program
from kernelscope.ir.text import print_line
from kernelscope.ir.verify_subject import Breach, Context, Subject

_CONTEXT = 3
_SHOWN = 10

ProgramRule: TypeAlias = "Callable[[Context], Iterator[Breach]]"
FunctionRule: TypeAlias = "Callable[[Subject], Iterator[Breach]]"

PROGRAM_RULES: tuple[ProgramRule, ...] = (
    verify_program.names_are_unique,
    verify_program.constants_have_storage,
    verify_program.kernel_choices_exist,
    verify_program.calls_do_not_recur,
)
FUNCTION_RULES: tuple[FunctionRule, ...] = (
    verify_names.defined_before_use,
    verify_names.references_name_their_kind,
    verify_names.symbols_before_use,
    verify_names.probes_name_their_operands,
    verify_names.bindings_name_inputs,
    verify_names.packs_and_tensors,
    verify_names.returns_once,
    verify_names.scopes_balance,
    verify_calls.kernels_before_call,
    verify_calls.calls_match,
    verify_storage.storage_has_one_owner,
    verify_storage.sizes_fit,
    verify_storage.collectives_are_awaited,
)


def breaches(program: Program) -> list[Breach]:
    """Every breach of every rule, those of the whole program first."""
    context = Context.of(program)
    found = [breach for rule in PROGRAM_RULES for breach in rule(context)]
    for function in program.all_functions():
        subject = Subject.of(function, context)
        for function_rule in FUNCTION_RULES:
            found.extend(function_rule(subject))
    return found


def verify(program: Program) -> None:
    """Checks a program against all rules.

    Raises:
        VerifyError: some rule is broken; its text lists the breaches, each with the lines around it.
    """
    found = breaches(program)
    if found:
        reports = [_report(breach) for breach in found[:_SHOWN]]
        # Of a badly broken program the first breaches tell most; the others are named in a line each.
        reports += [_headline(breach) for breach in found[_SHOWN:]]
        raise VerifyError(
            f"program {program.name} breaks {len(found)} rule{'s' if len(found) > 1 else ''} of the IR",
            where="\n".join(reports),
            hint="a pass or a front end made a wrong program: report it with the program's text",
        )


def _headline(breach: Breach) -> str:
    text = f"[{breach.rule}] {breach.message}"
    if breach.function is None or breach.index is None:
        return text
    return f"{text} (function {breach.function.name}, line {breach.index})"


def _report(breach: Breach) -> str:
    if breach.function is None or breach.index is None:
        return _headline(breach)
    lines = breach.function.lines
    shown = range(max(0, breach.index - _CONTEXT), min(len(lines), breach.index + _CONTEXT + 1))
    around = [f"  {'>' if at == breach.index else ' '} {at:4d}  {print_line(lines[at])}" for at in shown]
    origin = lines[breach.index].origin if breach.index < len(lines) else None
    return "\n".join([_headline(breach), *around, *_made_by(origin)])


def _made_by(origin: Origin | None) -> Iterator[str]:
    if origin is None:
        return
    ops = ", ".join(origin.ops or origin.nodes)
    places = "".join(f" at {location.file}:{location.line}" for location in origin.locations[-1:])
    yield f"    made by {ops}{places}"
