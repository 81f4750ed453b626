"""What a plan needs: its peak, who makes it, and the least it could need.

This account of storages is the planner's oracle: it shares no code with the planner or the verifier. It runs a
function's lines with reference counts on made-up storages, as a Python program would hold them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kernelscope.ir import lines as l
from kernelscope.ir.dataflow import (
    call_operands,
    called_functions,
    defines,
    ends,
    operand_names,
    reads,
    writes,
)
from kernelscope.ir.program import Function, Program, TensorInput
from kernelscope.ir.sizes import Sizes
from kernelscope.ir.values import TensorType


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionMemory:
    """The memory of one function's own tensors (inputs and constants are not counted), its callees' included.

    Attributes:
        function: Its name.
        peak_bytes: The most that is allocated at a time under the plan.
        peak_index: The line at which that is so.
        peak_names: Who holds it there: ``(name, bytes)``, largest first; a call that runs there as ``function()``.
        max_live_bytes: The most that is in use at a time if each storage lives exactly from its first to its last
            use: no plan needs less.
        allocations: Lines that allocate.
        reuses: Lines that take a storage over.
        violations: Breaches of the plan: a storage written while another live name uses it.
    """

    function: str
    peak_bytes: int
    peak_index: int
    peak_names: tuple[tuple[str, int], ...]
    max_live_bytes: int
    allocations: int
    reuses: int
    violations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReport:
    """The memory of each function of a program, ``main`` first."""

    functions: tuple[FunctionMemory, ...]

    @property
    def main(self) -> FunctionMemory:
        """The memory of ``main``."""
        return self.functions[0]


def memory_report(program: Program) -> MemoryReport:
    """The memory of a program; symbolic sizes at the example values of its capture."""
    accounts = _Accounts(program)
    return MemoryReport(functions=tuple(accounts.of(function).memory for function in program.all_functions()))


@dataclass(frozen=True, slots=True)
class _Result:
    """What a caller needs to know of a function: its memory, and the inputs that its results may lie in."""

    memory: FunctionMemory
    passed_through: frozenset[int]


class _Accounts:
    """The accounts of a program's functions, each made once, callees before their callers."""

    def __init__(self, program: Program) -> None:
        self.sizes = Sizes.of(program)
        self._functions = {function.name: function for function in program.functions}
        self._results: dict[str, _Result] = {}
        self._running: set[str] = set()

    def of(self, function: Function) -> _Result:
        """The account of a function."""
        if function.name not in self._results:
            self._running.add(function.name)
            self._results[function.name] = _Account(function, self).result()
            self._running.discard(function.name)
        return self._results[function.name]

    def called_by(self, line: l.WrapperLine) -> list[_Result]:
        """The accounts of the functions that a line runs; a function that calls itself counts once."""
        names = [name for name in called_functions(line) if name in self._functions and name not in self._running]
        return [self.of(self._functions[name]) for name in names]


@dataclass(slots=True)
class _Block:
    """A storage: its bytes, whether the function made it, and the names alive that hold it."""

    number: int
    nbytes: int
    owned: bool
    holders: set[str] = field(default_factory=set)


class _Account:
    def __init__(self, function: Function, accounts: _Accounts) -> None:
        self.function = function
        self.accounts = accounts
        self.sizes = accounts.sizes
        self.blocks: list[_Block] = []
        self.held_bytes = 0
        self.held: dict[str, list[_Block]] = {}
        self.elements: dict[tuple[str, tuple[int | str, ...]], str] = {}
        self.first: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self.in_calls: dict[int, _Result] = {}
        self.violations: list[str] = []
        self.donated: set[int] = set()
        self.returned: set[int] = set()
        self.alias_of = {
            line.name: next(iter(operand_names(line.value)))
            for line in function.lines
            if isinstance(line, l.ReinterpretLine)
        }

    def result(self) -> _Result:
        for entry in self.function.inputs:
            size = self.sizes.nbytes(entry.type.nbytes()) if isinstance(entry, TensorInput) else 0
            block = self._block(size, owned=False)
            self._hold(entry.name, [block], -1)
            if isinstance(entry, TensorInput) and entry.donated:
                self.donated.add(block.number)
        peak, peak_index = 0, 0
        peak_names: tuple[tuple[str, int], ...] = ()
        for index, line in enumerate(self.function.lines):
            self._step(index, line)
            inside = self.in_calls[index].memory.peak_bytes if index in self.in_calls else 0
            if self.held_bytes + inside > peak:
                peak, peak_index, peak_names = self.held_bytes + inside, index, self._holders(index)
        memory = FunctionMemory(
            function=self.function.name,
            peak_bytes=peak,
            peak_index=peak_index,
            peak_names=peak_names,
            max_live_bytes=self._max_live(),
            allocations=sum(isinstance(line, l.AllocateLine) for line in self.function.lines),
            reuses=sum(isinstance(line, l.ReuseLine) for line in self.function.lines),
            violations=tuple(self.violations),
        )
        # The blocks of inputs come first, one each.
        inputs = range(len(self.function.inputs))
        return _Result(memory, frozenset(at for at in inputs if at in self.returned))

    def _holders(self, index: int) -> tuple[tuple[str, int], ...]:
        found = [(min(block.holders), block.nbytes) for block in self.blocks if block.owned and block.holders]
        if index in self.in_calls:
            memory = self.in_calls[index].memory
            found.append((f"{memory.function}()", memory.peak_bytes))
        return tuple(sorted(found, key=lambda item: -item[1]))

    def _block(self, nbytes: int, *, owned: bool) -> _Block:
        block = _Block(number=len(self.blocks), nbytes=nbytes, owned=owned)
        self.blocks.append(block)
        return block

    def _hold(self, name: str, blocks: list[_Block], index: int) -> None:
        self.held[name] = blocks
        self.first[name] = self.last[name] = index
        for block in blocks:
            if block.owned and not block.holders:
                self.held_bytes += block.nbytes
            block.holders.add(name)

    def _drop(self, name: str) -> None:
        for block in self._of(name):
            if block.owned and block.holders == {name}:
                self.held_bytes -= block.nbytes
            block.holders.discard(name)

    def _step(self, index: int, line: l.WrapperLine) -> None:
        if not isinstance(line, l.ReuseLine):
            # Taking a storage over is no use of its former value.
            self.last.update((name, index) for name in (*reads(line), *writes(line)) if name in self.last)
        called = self.accounts.called_by(line)
        if called:
            self.in_calls[index] = max(called, key=lambda result: result.memory.peak_bytes)
        made = [(name, self._blocks_of(line, called)) for name in defines(line)]
        if isinstance(line, l.ReuseLine):
            self._check_reuse(line, index)
        if isinstance(line, l.ReturnLine):
            self.returned.update(block.number for name in operand_names(line.values) for block in self._of(name))
        for name in ends(line):
            self._drop(name)
        for name, blocks in made:
            self._hold(name, blocks, index)

    def _of(self, name: str) -> list[_Block]:
        return self.held.get(name, [])

    def _check_reuse(self, line: l.ReuseLine, index: int) -> None:
        where = f"{self.function.name} line {index}"
        for block in self._of(line.old):
            others = block.holders - {line.old}
            if others:
                self.violations.append(f"{where}: {line.new} takes storage that {min(others)} still holds")
            if not block.owned and block.number not in self.donated:
                self.violations.append(f"{where}: {line.new} takes the caller's storage")
            needed = self.sizes.nbytes(line.type.nbytes())
            if needed > block.nbytes:
                self.violations.append(f"{where}: {line.new} needs {needed} bytes, {line.old} has {block.nbytes}")

    def _blocks_of(self, line: l.WrapperLine, called: list[_Result]) -> list[_Block]:
        """The storages that a line's result holds: shared ones, or a new one; none for a pack of new tensors."""
        shared = self._shared(line, called)
        blocks = {block.number: block for name in shared for block in self._of(name)}
        element = isinstance(line, l.MultiOutputLine) and not line.aliases
        if blocks or (shared and not element) or not isinstance(getattr(line, "type", None), TensorType):
            return list(blocks.values())
        return [self._block(self._new_bytes(line), owned=True)]

    def _shared(self, line: l.WrapperLine, called: list[_Result]) -> tuple[str, ...]:
        """The names in whose storages a line's result lies, or may lie."""
        match line:
            case l.ReuseLine():
                return (line.old,)
            case l.ReinterpretLine():
                return tuple(operand_names(line.value))
            case l.ExternKernelAllocLine() | l.CollectiveLine():
                return line.aliases
            case l.MultiOutputLine():
                # The same element again is the same tensor; any element may lie where its pack may.
                first = self.elements.setdefault((line.source, line.path), line.name)
                return (*line.aliases, line.source if first == line.name else first)
            case l.InvokeSubgraphLine() | l.ConditionalLine() | l.WhileLoopLine():
                passed = {at for result in called for at in result.passed_through}
                return tuple(
                    name
                    for at, operand in enumerate(call_operands(line))
                    if at in passed
                    for name in operand_names(operand)
                )
            case _:
                return ()

    def _new_bytes(self, line: Any) -> int:
        layout: TensorType = line.type
        padded = getattr(line, "allocation_size", None)
        if padded is not None:
            layout = TensorType(dtype=layout.dtype, device=layout.device, size=padded, stride=layout.stride)
        return self.sizes.nbytes(layout.nbytes())

    def _max_live(self) -> int:
        """The bound: each value of each storage counted from its first to its last use."""
        changes = [0] * (len(self.function.lines) + 2)
        for number, spans in self._spans().items():
            for start, end in _merged(spans):
                changes[start] += self.blocks[number].nbytes
                changes[end + 1] -= self.blocks[number].nbytes
        total, most = 0, 0
        for index, change in enumerate(changes):
            total += change
            inside = self.in_calls[index].memory.max_live_bytes if index in self.in_calls else 0
            most = max(most, total + inside)
        return most

    def _spans(self) -> dict[int, list[tuple[int, int]]]:
        """For each storage that the function made, from where to where each of its values is used."""
        values: dict[tuple[int, str], tuple[int, int]] = {}
        for name, blocks in self.held.items():
            value = name
            while value in self.alias_of:  # names that alias each other carry one value; a reuse begins a new one
                value = self.alias_of[value]
            for block in blocks:
                if block.owned:
                    start, end = values.get((block.number, value), (self.first[name], self.last[name]))
                    values[block.number, value] = min(start, self.first[name]), max(end, self.last[name])
        spans: dict[int, list[tuple[int, int]]] = {}
        for (number, _), span in values.items():
            spans.setdefault(number, []).append(span)
        return spans


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans without overlap that cover the same lines."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
