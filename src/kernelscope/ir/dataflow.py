"""What each line defines, reads, writes and ends: the one place that knows, used by every pass and check."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence

import sympy

from kernelscope.ir import lines as l
from kernelscope.ir.expr import free_symbols
from kernelscope.ir.kernels import ParamRole
from kernelscope.ir.lines import WrapperLine
from kernelscope.ir.values import (
    BufferRef,
    ConstantRef,
    ListValue,
    ObjectRef,
    SymExpr,
    TensorType,
    TupleValue,
    Value,
    View,
)

_SYMBOL_LINES = (
    l.BindSymbolLine,
    l.SymbolicCallArgLine,
    l.DynamicScalarLine,
    l.DynamicSelectLine,
    l.DynamicSliceLine,
    l.UnbackedSymbolDefsLine,
)


_PLAIN_FIELDS = frozenset(
    [
        *("origin", "kernel", "symbol", "name", "op", "reads", "writes", "mutates", "aliases", "label", "device"),
        *("stream", "number", "moment", "subject", "call", "labels", "written", "unwritten"),
    ]
)
"""Fields of lines that never hold a size or an operand."""


def tensor_name(value: BufferRef | ConstantRef | View) -> str:
    """The name of the buffer or constant that a tensor operand is, or views."""
    return value.base.name if isinstance(value, View) else value.name


def operand_names(value: object) -> Iterator[str]:
    """Names of all buffers, constants and objects in an operand (lists and views included), in order."""
    match value:
        case BufferRef(name) | ConstantRef(name) | ObjectRef(name):
            yield name
        case View(base=base):
            yield base.name
        case ListValue(items) | TupleValue(items):
            for item in items:
                yield from operand_names(item)
        case tuple():
            for item in value:
                yield from operand_names(item)
        case _:
            return


def buffers_of_roles(
    roles: Sequence[ParamRole], args: Sequence[Value], wanted: tuple[ParamRole, ...]
) -> tuple[str, ...]:
    """Names of the buffers passed to a kernel for parameters of the wanted roles, without repeats."""
    pairs = zip(roles, args, strict=True)
    return tuple(dict.fromkeys(name for role, arg in pairs if role in wanted for name in operand_names(arg)))


def operand_symbols(value: object) -> Iterator[sympy.Symbol]:
    """Symbols that must be known to compute an operand, a size or a type."""
    match value:
        case SymExpr(expr):
            yield from free_symbols(expr)
        case sympy.Basic():
            yield from free_symbols(value)
        case ListValue(items) | TupleValue(items):
            yield from operand_symbols(items)
        case View():
            yield from operand_symbols((*value.size, *value.stride, value.offset))
        case TensorType():
            yield from operand_symbols((*value.size, *value.stride, value.offset))
        case tuple():
            for item in value:
                yield from operand_symbols(item)
        case _:
            return


def defines(line: WrapperLine) -> tuple[str, ...]:
    """Names of tensors and packs that come into being at ``line``."""
    match line:
        case l.AllocateLine(name=name) | l.ReinterpretLine(name=name) | l.MultiOutputLine(name=name):
            return (name,)
        case l.ReuseLine(new=name):
            return (name,)
        case l.ExternKernelAllocLine(result=str() as name) | l.CollectiveLine(result=str() as name):
            return (name,)
        case l.InvokeSubgraphLine(result=name) | l.ConditionalLine(result=name) | l.WhileLoopLine(result=name):
            return (name,)
        case _:
            return ()


def ends(line: WrapperLine) -> tuple[str, ...]:
    """Names that must not be used after ``line``."""
    match line:
        case l.FreeLine(name=name) | l.FreeIfNotReusedLine(name=name):
            return (name,)
        case l.ReuseLine(old=name, delete_old=True):
            return (name,)
        case _:
            return ()


def reads(line: WrapperLine) -> tuple[str, ...]:
    """Names of tensors, packs and objects whose contents ``line`` may read, without repeats."""
    match line:
        case l.KernelCallLine():
            names: tuple[str, ...] = line.reads
        case l.ExternKernelLine() | l.ExternKernelAllocLine() | l.ExternKernelMultiOutLine() | l.CollectiveLine():
            names = (*operand_names(line.args), *(name for _, value in line.kwargs for name in operand_names(value)))
        case l.ReinterpretLine():
            names = tuple(operand_names(line.value))
        case l.ReuseLine():
            names = (line.old,)
        case l.MultiOutputLine() | l.UnbackedSymbolDefsLine() | l.BindSymbolLine():
            names = (line.source,)
        case l.ScatterFallbackLine():
            names = tuple(operand_names((line.target, line.index, line.src)))
        case l.IndexPutFallbackLine():
            names = tuple(operand_names((line.target, *line.indices, line.values)))
        case l.CopyLine():
            names = tuple(operand_names(line.src))
        case l.DynamicScalarLine():
            names = tuple(operand_names(line.source))
        case l.AssertSizeStrideLine() | l.AssertAlignmentLine() | l.AlignInputLine():
            names = (line.name,)
        case l.InvokeSubgraphLine():
            names = tuple(operand_names(line.operands))
        case l.ConditionalLine():
            names = tuple(operand_names((line.predicate, *line.operands)))
        case l.WhileLoopLine():
            names = tuple(operand_names((*line.carried, *line.additional)))
        case l.ReturnLine():
            names = tuple(operand_names(line.values))
        case l.ProbeLine():
            names = tuple(operand_names(line.operands))
        case _:
            names = ()
    return tuple(dict.fromkeys(names))


def writes(line: WrapperLine) -> tuple[str, ...]:
    """Names of existing tensors whose contents ``line`` changes, without repeats."""
    match line:
        case l.KernelCallLine():
            return line.writes
        case l.ExternKernelLine():
            return (tensor_name(line.out),)
        case l.ExternKernelAllocLine() | l.CollectiveLine():
            return line.mutates
        case l.InvokeSubgraphLine() | l.ConditionalLine() | l.WhileLoopLine():
            return line.mutates
        case l.ExternKernelMultiOutLine():
            return tuple(dict.fromkeys(tensor_name(out) for _, out in line.outs))
        case l.ScatterFallbackLine() | l.IndexPutFallbackLine():
            return (tensor_name(line.target),)
        case l.CopyLine():
            return (tensor_name(line.dst),)
        case _:
            return ()


def defined_symbol(line: WrapperLine) -> sympy.Symbol | None:
    """The symbol that gets its value at ``line``."""
    return line.symbol if isinstance(line, _SYMBOL_LINES) else None


def used_symbols(line: WrapperLine) -> frozenset[sympy.Symbol]:
    """Symbols that must have a value before ``line``.

    Not those of an operator's own result: its size is known once the operator has run, and is read off it then.
    """
    found: set[sympy.Symbol] = set()
    kind: type = type(line)
    for name in _fields_with_symbols(kind):
        if name != "type" or kind is not l.ExternKernelAllocLine:
            found.update(operand_symbols(getattr(line, name)))
    return frozenset(found - {defined_symbol(line)})


@functools.cache
def _fields_with_symbols(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind) if field.name not in _PLAIN_FIELDS)


def called_functions(line: WrapperLine) -> tuple[str, ...]:
    """Names of the program's functions that ``line`` runs."""
    match line:
        case l.InvokeSubgraphLine(function=function):
            return (function,)
        case l.ConditionalLine():
            return (line.true_function, line.false_function)
        case l.WhileLoopLine():
            return (line.cond_function, line.body_function)
        case _:
            return ()


def call_operands(line: WrapperLine) -> tuple[Value, ...]:
    """Operands that ``line`` passes to each function it runs, in the order of the functions' inputs."""
    match line:
        case l.InvokeSubgraphLine() | l.ConditionalLine():
            return line.operands
        case l.WhileLoopLine():
            return (*line.carried, *line.additional)
        case _:
            return ()
