"""The calls of a program: every launch, operator and function call, with its operands, in one form.

What a call reads and writes is known from its line (``dataflow``), never from how a name is spelled. Must not live
here: which calls somebody wants to see (``probe.selection``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from kernelscope.ir import lines as l
from kernelscope.ir.dataflow import operand_names, reads, tensor_name, writes
from kernelscope.ir.kernels import CppKernel, Kernel, TritonKernel
from kernelscope.ir.program import Function, Program
from kernelscope.ir.values import BufferRef, ConstantRef, ObjectRef, Value, View

CallKind: TypeAlias = Literal["kernel", "operator", "function"]


@dataclass(frozen=True, slots=True)
class Operand:
    """A value passed to a call, under a label that no other operand of the call has."""

    label: str
    value: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One line of a function that calls something.

    Attributes:
        number: The call's number in its program, from 0, in the order of functions and lines.
        function: The function it stands in.
        index: The line's index in that function.
        kind: What is called.
        subject: The kernel's, operator's or function's name.
        operands: What is passed.
        results: What comes into being.
        reads: Names whose contents the call may read.
        written: Labels of operands whose contents the call changes.
        line: The line.
    """

    number: int
    function: str
    index: int
    kind: CallKind
    subject: str
    operands: tuple[Operand, ...]
    results: tuple[Operand, ...]
    reads: tuple[str, ...]
    written: tuple[str, ...]
    line: l.WrapperLine


def calls(program: Program) -> tuple[Call, ...]:
    """All calls of a program."""
    kernels = {kernel.name: kernel for kernel in program.kernels()}
    found: list[Call] = []
    for function in program.all_functions():
        found += _calls_of(function, kernels, len(found))
    return tuple(found)


def _calls_of(function: Function, kernels: Mapping[str, Kernel], first: int) -> Iterator[Call]:
    number = first
    for index, line in enumerate(function.lines):
        described = _described(line, kernels)
        if described is None:
            continue
        kind, subject, given, result = described
        operands = _labelled(given)
        changed = set(writes(line))
        yield Call(
            number=number,
            function=function.name,
            index=index,
            kind=kind,
            subject=subject,
            operands=operands,
            results=() if result is None else (Operand(result, BufferRef(result)),),
            reads=reads(line),
            written=tuple(entry.label for entry in operands if changed.intersection(operand_names(entry.value))),
            line=line,
        )
        number += 1


_Given: TypeAlias = "list[tuple[str, Value]]"
_OperatorLine: TypeAlias = (
    "l.ExternKernelLine | l.ExternKernelAllocLine | l.ExternKernelMultiOutLine | l.CollectiveLine"
)


def _described(line: l.WrapperLine, kernels: Mapping[str, Kernel]) -> tuple[CallKind, str, _Given, str | None] | None:
    """Kind, subject, named operands and result of a call; None for any other line."""
    match line:
        case l.KernelCallLine():
            return "kernel", line.kernel, _kernel_operands(line, kernels.get(line.kernel)), None
        case l.ExternKernelLine():
            return "operator", line.op, [*_operator_operands(line), ("out", line.out)], None
        case l.ExternKernelAllocLine() | l.CollectiveLine():
            return "operator", line.op, _operator_operands(line), line.result
        case l.ExternKernelMultiOutLine():
            return "operator", line.op, [*_operator_operands(line), *line.outs], None
        case l.ScatterFallbackLine():
            given: _Given = [("target", line.target), ("index", line.index), ("src", line.src), *line.kwargs]
            return "operator", line.op, given, None
        case l.IndexPutFallbackLine():
            indices = ((f"index{position}", value) for position, value in enumerate(line.indices))
            return "operator", line.op, [("target", line.target), *indices, ("values", line.values)], None
        case l.CopyLine():
            return "operator", "aten.copy_.default", [("dst", line.dst), ("src", line.src)], None
        case l.InvokeSubgraphLine():
            return "function", line.function, _numbered(line.operands), line.result
        case l.ConditionalLine():
            name = f"{line.true_function}|{line.false_function}"
            return "function", name, [("predicate", line.predicate), *_numbered(line.operands)], line.result
        case l.WhileLoopLine():
            return "function", line.body_function, _numbered((*line.carried, *line.additional)), line.result
        case _:
            return None


def _numbered(values: tuple[Value, ...]) -> _Given:
    return [(f"arg{index}", value) for index, value in enumerate(values)]


def _operator_operands(line: _OperatorLine) -> _Given:
    return [*_numbered(line.args), *line.kwargs]


def _kernel_operands(line: l.KernelCallLine, kernel: Kernel | None) -> _Given:
    names = [param.name for param in kernel.params] if isinstance(kernel, (CppKernel, TritonKernel)) else []
    if len(names) == len(line.args):
        return list(zip(names, line.args, strict=True))
    return _numbered(line.args)


def _labelled(given: _Given) -> tuple[Operand, ...]:
    """Tensors and objects are labelled by their own names, all else by its parameter's; each tensor is there once."""
    named = {pair[1]: pair for pair in reversed(given) if _own_name(pair[1])}
    given = [pair for pair in given if not _own_name(pair[1]) or named[pair[1]] is pair]
    plain = [_own_name(value) or name for name, value in given]
    repeated = {label for label, count in Counter(plain).items() if count > 1}
    return tuple(
        Operand(f"{label}:{name}" if label in repeated and label != name else label, value)
        for label, (name, value) in zip(plain, given, strict=True)
    )


def _own_name(value: Value) -> str | None:
    match value:
        case BufferRef() | ConstantRef() | View():
            return tensor_name(value)
        case ObjectRef():
            return value.name
        case _:
            return None
