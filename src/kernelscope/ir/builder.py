"""Builds functions of wrapper lines by hand: short methods, fresh names, strides filled in."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kernelscope.ir import lines as l
from kernelscope.ir.expr import as_dim
from kernelscope.ir.program import Function, Input, Program, ScalarInput, TensorInput
from kernelscope.ir.values import BufferRef, Dim, TensorType, TensorValue, Value

CPU = torch.device("cpu")


def contiguous(size: Sequence[Dim], dtype: torch.dtype = torch.float32, device: torch.device = CPU) -> TensorType:
    """The type of a contiguous tensor."""
    stride: list[Dim] = []
    step: Dim = 1
    for extent in reversed(size):
        stride.append(step)
        step = as_dim(step * extent)
    return TensorType(dtype=dtype, device=device, size=tuple(size), stride=tuple(reversed(stride)))


class FunctionBuilder:
    """Collects the inputs and lines of one function."""

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self.inputs: list[Input] = []
        self.lines: list[l.WrapperLine] = []
        self._count = 0

    def fresh(self) -> str:
        """A buffer name that this builder has not given yet."""
        self._count += 1
        return f"buf{self._count - 1}"

    def tensor(self, name: str, layout: TensorType, *, donated: bool = False) -> BufferRef:
        """Adds a tensor input."""
        self.inputs.append(TensorInput(name=name, type=layout, donated=donated))
        return BufferRef(name)

    def scalar(self, name: str, expr: Dim) -> None:
        """Adds a number input."""
        self.inputs.append(ScalarInput(name=name, expr=expr))

    def add(self, line: l.WrapperLine) -> None:
        """Adds a line as it is."""
        self.lines.append(line)

    def allocate(self, layout: TensorType, name: str | None = None) -> BufferRef:
        """Adds an allocation."""
        name = name or self.fresh()
        self.add(l.AllocateLine(name=name, type=layout))
        return BufferRef(name)

    def reuse(self, old: BufferRef, layout: TensorType) -> BufferRef:
        """Adds a take-over of ``old``'s storage."""
        name = self.fresh()
        self.add(l.ReuseLine(old=old.name, new=name, type=layout))
        return BufferRef(name)

    def free(self, buffer: BufferRef) -> None:
        """Adds the end of a buffer."""
        self.add(l.FreeIfNotReusedLine(name=buffer.name))

    def out(self, op: str, args: Sequence[Value], out: TensorValue) -> None:
        """Adds a call of an out-variant operator."""
        self.add(l.ExternKernelLine(op=op, args=tuple(args), out=out))

    def alloc_call(self, op: str, args: Sequence[Value], layout: TensorType | None = None) -> BufferRef:
        """Adds a call of an operator that makes its own result."""
        name = self.fresh()
        self.add(l.ExternKernelAllocLine(op=op, args=tuple(args), result=name, type=layout))
        return BufferRef(name)

    def build(self, *values: Value) -> Function:
        """The function, returning ``values``."""
        returned = l.ReturnLine(values=tuple(values))
        return Function(name=self.name, inputs=tuple(self.inputs), lines=(*self.lines, returned))

    def program(self, *values: Value, **fields: object) -> Program:
        """A program whose ``main`` is the function; ``fields`` are the program's other fields."""
        given: dict[str, object] = {"name": "built", "phase": "inference", **fields}
        return Program(main=self.build(*values), **given)  # type: ignore[arg-type]
