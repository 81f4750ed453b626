"""Puts probes around calls, at inputs and at returns: the one place that decides where values are shown (D1).

Comes last, when memory is planned: a probe changes no lifetime. Must not live here: what is done with the values
(``probe``).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from kernelscope.ir import lines as l
from kernelscope.ir.calls import Call, Operand, calls
from kernelscope.ir.dataflow import operand_names, tensor_name, writes
from kernelscope.ir.program import Function, ObjectInput, Program, TensorInput
from kernelscope.ir.values import BufferRef, ObjectRef, SymExpr, Value
from kernelscope.passes.base import PassResult


def _all_calls(call: Call) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertProbes:
    """Shows the wanted calls' values before and after them.

    Attributes:
        wanted: Which calls are shown.
        inputs: Whether the program's inputs are shown.
        returns: Whether what the program returns is shown.
    """

    wanted: Callable[[Call], bool] = _all_calls
    inputs: bool = True
    returns: bool = True
    name: str = "insert_probes"

    def run(self, program: Program) -> PassResult:
        """The program with probes."""
        chosen = {(call.function, call.index): call for call in calls(program) if self.wanted(call)}
        main = self._graph_probes(program.main, _with_probes(program.main, chosen))
        functions = tuple(
            dataclasses.replace(function, lines=_with_probes(function, chosen)) for function in program.functions
        )
        number = itertools.count()
        changed = dataclasses.replace(
            program,
            main=_numbered(dataclasses.replace(program.main, lines=main), number),
            functions=tuple(_numbered(function, number) for function in functions),
        )
        return PassResult(changed, changed != program)

    def _graph_probes(self, main: Function, lines: tuple[l.WrapperLine, ...]) -> tuple[l.WrapperLine, ...]:
        bound = next((i for i, line in enumerate(lines) if not isinstance(line, l.BindSymbolLine)), len(lines))
        shown = list(lines)
        last = lines[-1] if lines else None
        if self.returns and isinstance(last, l.ReturnLine):
            outputs = [Operand(f"output{index}", value) for index, value in enumerate(last.values)]
            shown.insert(len(shown) - 1, _probe("returns", main.name, outputs))
        if self.inputs:
            shown.insert(bound, _probe("inputs", main.name, _inputs(main, lines[:bound])))
        return tuple(shown)


def _inputs(main: Function, bindings: Iterable[l.WrapperLine]) -> list[Operand]:
    found = []
    for entry in main.inputs:
        if isinstance(entry, TensorInput):
            found.append(Operand(entry.name, BufferRef(entry.name)))
        elif isinstance(entry, ObjectInput):
            found.append(Operand(entry.name, ObjectRef(entry.name)))
    symbols = [line.symbol for line in bindings if isinstance(line, l.BindSymbolLine)]
    return [*found, *(Operand(str(symbol), SymExpr(symbol)) for symbol in symbols)]


def _numbered(function: Function, number: Iterator[int]) -> Function:
    lines = tuple(
        dataclasses.replace(line, number=next(number)) if isinstance(line, l.ProbeLine) else line
        for line in function.lines
    )
    return dataclasses.replace(function, lines=lines)


def _probe(moment: l.Moment, subject: str, operands: Iterable[Operand]) -> l.ProbeLine:
    shown = tuple(operands)
    return l.ProbeLine(
        number=0,
        moment=moment,
        subject=subject,
        call=0,
        operands=tuple(operand.value for operand in shown),
        labels=tuple(operand.label for operand in shown),
    )


def _with_probes(function: Function, chosen: Mapping[tuple[str, int], Call]) -> tuple[l.WrapperLine, ...]:
    unwritten = _Unwritten()
    shown: list[l.WrapperLine] = []
    for index, line in enumerate(function.lines):
        call = chosen.get((function.name, index))
        if call is None:
            shown.append(line)
        else:
            shown += [_around(call, "before", unwritten), line, _around(call, "after", unwritten)]
        unwritten.after(line)
    return tuple(shown)


def _around(call: Call, moment: l.Moment, unwritten: _Unwritten) -> l.ProbeLine:
    operands = call.operands if moment == "before" else (*call.operands, *call.results)
    fresh = tuple(
        operand.label for operand in call.operands if unwritten.holds(operand.value) and not _read(call, operand)
    )
    return l.ProbeLine(
        number=0,
        moment=moment,
        subject=call.subject,
        call=call.number,
        operands=tuple(operand.value for operand in operands),
        labels=tuple(operand.label for operand in operands),
        written=(*call.written, *(result.label for result in call.results if moment == "after")),
        unwritten=tuple(label for label in fresh if moment == "before" or label not in call.written),
        origin=call.line.origin,
    )


def _read(call: Call, operand: Operand) -> bool:
    return any(name in call.reads for name in operand_names(operand.value))


class _Unwritten:
    """Which buffers hold nothing yet, line by line."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._base: dict[str, str] = {}

    def holds(self, value: Value) -> bool:
        return any(self._root(name) in self._names for name in operand_names(value))

    def after(self, line: l.WrapperLine) -> None:
        match line:
            case l.AllocateLine(name=name) | l.ReuseLine(new=name):
                self._names.add(name)
                self._base.pop(name, None)
            case l.ReinterpretLine():
                self._base[line.name] = self._root(tensor_name(line.value))
            case _:
                self._names.difference_update(self._root(name) for name in writes(line))

    def _root(self, name: str) -> str:
        return self._base.get(name, name)
