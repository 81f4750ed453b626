"""What the verifier's rules look at: a program, and one function of it with each line's effects worked out once.

Must not live here: rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from kernelscope.ir.dataflow import defines, ends, reads, writes
from kernelscope.ir.kernels import Kernel
from kernelscope.ir.lines import WrapperLine
from kernelscope.ir.program import Function, Program, TensorInput
from kernelscope.ir.storage import SharedInputs, shared_inputs
from kernelscope.ir.values import BufferRef, ConstantRef, ListValue, NodeRef, ObjectRef, TensorType, TupleValue, View

Reference: TypeAlias = "BufferRef | ConstantRef | ObjectRef | NodeRef | View"

_NO_OPERANDS = frozenset(
    ["origin", "name", "type", "kernel", "reads", "writes", "mutates", "aliases", "op", "label", "symbol", "path"]
)


@dataclass(frozen=True, slots=True)
class Breach:
    """One breach of a rule, at line ``index`` of ``function`` (None: of the program as a whole)."""

    rule: str
    message: str
    function: Function | None = None
    index: int | None = None


class Effects(NamedTuple):
    """What one line reads, writes, ends and defines (see ``dataflow``)."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    ends: tuple[str, ...]
    defines: tuple[str, ...]

    def touched(self) -> dict[str, None]:
        """Names that the line reads or writes, in order."""
        return dict.fromkeys((*self.reads, *self.writes))


@dataclass(frozen=True, slots=True)
class Context:
    """What rules need to know of the whole program."""

    program: Program
    kernels: dict[str, Kernel]
    functions: dict[str, Function]
    constants: dict[str, TensorType]
    calls: SharedInputs

    @classmethod
    def of(cls, program: Program) -> Context:
        """The context of a program's rules."""
        return cls(
            program=program,
            kernels={kernel.name: kernel for kernel in program.kernels()},
            functions={function.name: function for function in program.all_functions()},
            constants={constant.name: constant.type for constant in program.constants},
            calls=shared_inputs(program),
        )


@dataclass(frozen=True, slots=True)
class Subject:
    """One function, as its rules see it.

    Attributes:
        context: The program's.
        function: The function.
        effects: Of each line.
        references: Every name that each line's operands mention, as it is mentioned.
        types: The layout of each tensor that an input, a constant or a line defines.
    """

    context: Context
    function: Function
    effects: tuple[Effects, ...]
    references: tuple[list[Reference], ...]
    types: dict[str, TensorType]

    @classmethod
    def of(cls, function: Function, context: Context) -> Subject:
        """A function of a program."""
        types = dict(context.constants)
        types.update((entry.name, entry.type) for entry in function.inputs if isinstance(entry, TensorInput))
        effects = tuple(Effects(reads(line), writes(line), ends(line), defines(line)) for line in function.lines)
        for line, effect in zip(function.lines, effects, strict=True):
            if effect.defines and isinstance(layout := getattr(line, "type", None), TensorType):
                types.update(dict.fromkeys(effect.defines, layout))
        mentioned = tuple(_references(line) for line in function.lines)
        return cls(context, function, effects, mentioned, types)

    @property
    def lines(self) -> tuple[WrapperLine, ...]:
        """The function's lines."""
        return self.function.lines

    def __iter__(self) -> Iterator[tuple[int, WrapperLine, Effects]]:
        """Each line with its index and effects."""
        for index, (line, effect) in enumerate(zip(self.function.lines, self.effects, strict=True)):
            yield index, line, effect

    def breach(self, rule: str, message: str, index: int | None) -> Breach:
        """A breach of a rule at a line."""
        return Breach(rule, message, self.function, index)


def _references(line: WrapperLine) -> list[Reference]:
    found: list[Reference] = []
    for name in _operand_fields(type(line)):
        _collect(getattr(line, name), found)
    return found


_fields: dict[type, tuple[str, ...]] = {}


def _operand_fields(kind: type) -> tuple[str, ...]:
    if kind not in _fields:
        _fields[kind] = tuple(name for name in getattr(kind, "__slots__", ()) if name not in _NO_OPERANDS)
    return _fields[kind]


def _collect(value: object, found: list[Reference]) -> None:
    if isinstance(value, (BufferRef, ConstantRef, ObjectRef, NodeRef, View)):
        found.append(value)
    elif isinstance(value, (ListValue, TupleValue)):
        _collect(value.items, found)
    elif isinstance(value, tuple):
        for item in value:
            _collect(item, found)
