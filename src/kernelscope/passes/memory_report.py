"""What a plan needs: its peak, who makes it, and the least it could need.

This account of storages is the planner's oracle: it shares no code with the planner or the verifier. It runs a
function's lines with reference counts on made-up storages, as a Python program would hold them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelscope.ir import lines as l
from kernelscope.ir.dataflow import defines, ends, operand_names, reads, writes
from kernelscope.ir.program import Function, Program, TensorInput
from kernelscope.ir.sizes import Sizes
from kernelscope.ir.values import TensorType


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionMemory:
    """The memory of one function's own tensors (inputs and constants are not counted).

    Attributes:
        function: Its name.
        peak_bytes: The most that is allocated at a time under the plan.
        peak_index: The line at which that is so.
        peak_names: Who holds it there: ``(name, bytes)``, largest first.
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
    sizes = Sizes.of(program)
    return MemoryReport(functions=tuple(_Account(function, sizes).report() for function in program.all_functions()))


@dataclass(slots=True)
class _Block:
    """A storage: its bytes, when it came, the names that hold it, and when their values were last used."""

    number: int
    nbytes: int
    owned: bool
    holders: set[str] = field(default_factory=set)
    spans: list[tuple[int, int]] = field(default_factory=list)


class _Account:
    def __init__(self, function: Function, sizes: Sizes) -> None:
        self.function = function
        self.sizes = sizes
        self.blocks: list[_Block] = []
        self.held: dict[str, list[_Block]] = {}
        self.live_names: set[str] = set()
        self.first: dict[str, int] = {}
        self.last: dict[str, int] = {}
        self.violations: list[str] = []
        self.alias_of = {
            line.name: next(iter(operand_names(line.value)))
            for line in function.lines
            if isinstance(line, l.ReinterpretLine)
        }

    def report(self) -> FunctionMemory:
        for entry in self.function.inputs:
            size = self.sizes.nbytes(entry.type.nbytes()) if isinstance(entry, TensorInput) else 0
            self._hold(entry.name, [self._block(size, owned=False)], -1)
        peak, peak_index = 0, 0
        peak_names: tuple[tuple[str, int], ...] = ()
        for index, line in enumerate(self.function.lines):
            self._step(index, line)
            now = [block for block in self.blocks if block.owned and block.holders]
            total = sum(block.nbytes for block in now)
            if total > peak:
                holders = sorted(((min(block.holders), block.nbytes) for block in now), key=lambda item: -item[1])
                peak, peak_index, peak_names = total, index, tuple(holders)
        return FunctionMemory(
            function=self.function.name,
            peak_bytes=peak,
            peak_index=peak_index,
            peak_names=peak_names,
            max_live_bytes=self._max_live(),
            allocations=sum(isinstance(line, l.AllocateLine) for line in self.function.lines),
            reuses=sum(isinstance(line, l.ReuseLine) for line in self.function.lines),
            violations=tuple(self.violations),
        )

    def _block(self, nbytes: int, *, owned: bool) -> _Block:
        block = _Block(number=len(self.blocks), nbytes=nbytes, owned=owned)
        self.blocks.append(block)
        return block

    def _hold(self, name: str, blocks: list[_Block], index: int) -> None:
        self.held[name] = blocks
        self.live_names.add(name)
        self.first[name] = self.last[name] = index
        for block in blocks:
            block.holders.add(name)

    def _drop(self, name: str) -> None:
        self.live_names.discard(name)
        for block in self.held.get(name, []):
            block.holders.discard(name)

    def _step(self, index: int, line: l.WrapperLine) -> None:
        if not isinstance(line, l.ReuseLine):
            # Taking a storage over is no use of its former value.
            self.last.update((name, index) for name in (*reads(line), *writes(line)) if name in self.last)
        made = [(name, self._blocks_of(line)) for name in defines(line)]
        if isinstance(line, l.ReuseLine):
            self._check_reuse(line, index)
        for name in ends(line):
            self._drop(name)
        for name, blocks in made:
            self._hold(name, blocks, index)

    def _check_reuse(self, line: l.ReuseLine, index: int) -> None:
        for block in self.held.get(line.old, []):
            others = block.holders - {line.old}
            if others:
                self.violations.append(
                    f"{self.function.name} line {index}: {line.new} takes storage that {min(others)} still holds"
                )
            if not block.owned and not self._donated(line.old):
                self.violations.append(f"{self.function.name} line {index}: {line.new} takes the caller's storage")

    def _donated(self, name: str) -> bool:
        roots = {entry.name for entry in self.function.inputs if isinstance(entry, TensorInput) and entry.donated}
        return any(self.held.get(root) == self.held.get(name) for root in roots)

    def _blocks_of(self, line: l.WrapperLine) -> list[_Block]:
        """The storages that a line's result holds: shared ones, or a new one."""
        shared: tuple[str, ...] = ()
        match line:
            case l.ReuseLine():
                shared = (line.old,)
            case l.ReinterpretLine():
                shared = tuple(operand_names(line.value))
            case l.MultiOutputLine(path=()):
                shared = (line.source,)
            case l.ExternKernelAllocLine() | l.MultiOutputLine():
                shared = line.aliases
        blocks = [block for name in shared for block in self.held.get(name, [])]
        return blocks or [self._block(self._new_bytes(line), owned=True)]

    def _new_bytes(self, line: l.WrapperLine) -> int:
        layout = getattr(line, "type", None)
        if not isinstance(layout, TensorType):
            return 0
        padded = getattr(line, "allocation_size", None)
        if padded is not None:
            layout = TensorType(dtype=layout.dtype, device=layout.device, size=padded, stride=layout.stride)
        return self.sizes.nbytes(layout.nbytes())

    def _max_live(self) -> int:
        """The bound: each value of each storage counted from its first to its last use."""
        changes = [0] * (len(self.function.lines) + 2)
        spans: dict[tuple[int, str], tuple[int, int]] = {}
        for name, blocks in self.held.items():
            for block in blocks:
                if block.owned:
                    spans[block.number, self._value(name)] = self._widened(spans, block, name)
        for (number, _), (start, end) in spans.items():
            changes[start] += self.blocks[number].nbytes
            changes[end + 1] -= self.blocks[number].nbytes
        total, most = 0, 0
        for change in changes:
            total += change
            most = max(most, total)
        return most

    def _value(self, name: str) -> str:
        """Names that alias each other carry one value; a reuse begins a new one."""
        while name in self.alias_of:
            name = self.alias_of[name]
        return name

    def _widened(self, spans: dict[tuple[int, str], tuple[int, int]], block: _Block, name: str) -> tuple[int, int]:
        key = (block.number, self._value(name))
        start, end = spans.get(key, (self.first[name], self.last[name]))
        return min(start, self.first[name]), max(end, self.last[name])
