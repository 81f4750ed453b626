"""Rules over calls: of kernels, and of the program's own functions."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kernelscope.ir import lines as l
from kernelscope.ir.dataflow import buffers_of_roles, call_operands, called_functions
from kernelscope.ir.kernels import READ_ROLES, WRITE_ROLES, CppParam, Kernel, MultiKernel, TritonParam
from kernelscope.ir.program import TensorInput
from kernelscope.ir.values import BufferRef, ConstantRef, TensorValue, Value, View
from kernelscope.ir.verify_subject import Breach, Context, Subject


def kernels_before_call(subject: Subject) -> Iterator[Breach]:
    """A kernel is defined before its call, and called with one operand of the right kind per parameter."""
    own = {line.kernel.name for line in subject.lines if isinstance(line, l.KernelDefinitionLine)}
    # Kernels of other functions are defined when a module is loaded, before any function runs.
    defined = set(subject.context.kernels) - own
    for index, line, _ in subject:
        if isinstance(line, l.KernelDefinitionLine):
            defined.add(line.kernel.name)
        elif isinstance(line, l.KernelCallLine):
            if line.kernel not in defined:
                yield subject.breach("kernels_before_call", f"kernel {line.kernel} is not defined", index)
            else:
                yield from _call_matches(line, subject, index)


def _params(kernel: Kernel | None, context: Context) -> tuple[CppParam | TritonParam, ...] | None:
    """A kernel's parameters; None for a multi-kernel without a sound choice, which has a rule of its own."""
    if isinstance(kernel, MultiKernel):
        choices = [context.kernels.get(name) for name in kernel.choices]
        kernel = choices[0] if choices else None
    return None if kernel is None or isinstance(kernel, MultiKernel) else kernel.params


def _call_matches(line: l.KernelCallLine, subject: Subject, index: int) -> Iterator[Breach]:
    params = _params(subject.context.kernels[line.kernel], subject.context)
    if params is None:
        return
    if len(params) != len(line.args):
        message = f"kernel {line.kernel} takes {len(params)} operands, got {len(line.args)}"
        yield subject.breach("kernel_operands", message, index)
        return
    for position, (param, arg) in enumerate(zip(params, line.args, strict=True)):
        problem = _operand_problem(param, arg, subject)
        if problem:
            yield subject.breach("kernel_operands", f"operand {position} of kernel {line.kernel} {problem}", index)
    roles = [param.role for param in params]
    for label, given, wanted in (("reads", line.reads, READ_ROLES), ("writes", line.writes, WRITE_ROLES)):
        names = set(buffers_of_roles(roles, line.args, wanted))
        if names != set(given):
            message = f"{label} {sorted(given)} of kernel {line.kernel} should be {sorted(names)}"
            yield subject.breach("kernel_effects", message, index)


def _operand_problem(param: CppParam | TritonParam, arg: Value, subject: Subject) -> str:
    tensor = isinstance(arg, (BufferRef, ConstantRef, View))
    if tensor != (param.role != "scalar"):
        return f"is {'a' if tensor else 'no'} tensor"
    if isinstance(arg, (BufferRef, ConstantRef, View)) and isinstance(param, CppParam) and param.dtype is not None:
        dtype = _dtype(arg, subject)
        if dtype is not None and dtype != param.dtype:
            return f"is of {dtype}, its parameter of {param.dtype}"
    return ""


def _dtype(value: TensorValue, subject: Subject) -> torch.dtype | None:
    if isinstance(value, View):
        return value.dtype or _dtype(value.base, subject)
    layout = subject.types.get(value.name)
    return None if layout is None else layout.dtype


def calls_match(subject: Subject) -> Iterator[Breach]:
    """A called function exists, gets as many operands as it has inputs, and gets tensors of its inputs' dtypes."""
    for index, line, _ in subject:
        operands = call_operands(line)
        for name in called_functions(line):
            callee = subject.context.functions.get(name)
            if callee is None:
                yield subject.breach("calls_match", f"there is no function {name}", index)
            elif len(operands) != len(callee.inputs):
                message = f"function {name} takes {len(callee.inputs)} operands, got {len(operands)}"
                yield subject.breach("calls_match", message, index)
            else:
                for entry, value in zip(callee.inputs, operands, strict=True):
                    if isinstance(value, (BufferRef, ConstantRef, View)) != isinstance(entry, TensorInput):
                        message = f"input {entry.name} of function {name} is given the wrong kind of operand"
                        yield subject.breach("calls_match", message, index)
