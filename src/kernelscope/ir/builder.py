"""Builds functions of wrapper lines by hand: short methods, fresh names, strides filled in.

Must not live here: checks (see ``verify``); a builder builds wrong functions too, on which the verifier is tried.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from kernelscope.ir import lines as l
from kernelscope.ir.dataflow import buffers_of_roles, defines
from kernelscope.ir.expr import as_dim
from kernelscope.ir.kernels import READ_ROLES, WRITE_ROLES, Kernel, MultiKernel
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
    """Collects the inputs and lines of one function.

    Attributes:
        name: The function's name.
        inputs: Its inputs so far.
        lines: Its lines so far.
        origin: The origin of lines added from here on that have none.
    """

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self.inputs: list[Input] = []
        self.lines: list[l.WrapperLine] = []
        self.origin: l.Origin | None = None
        self._count = 0
        self._taken: set[str] = set()
        self._kernels: dict[str, Kernel] = {}

    def fresh(self) -> str:
        """A buffer name that nothing in this builder has yet."""
        while (name := f"buf{self._count}") in self._taken:
            self._count += 1
        self._count += 1
        return name

    def tensor(self, name: str, layout: TensorType, *, donated: bool = False) -> BufferRef:
        """Adds a tensor input."""
        self._taken.add(name)
        self.inputs.append(TensorInput(name=name, type=layout, donated=donated))
        return BufferRef(name)

    def scalar(self, name: str, expr: Dim) -> None:
        """Adds a number input."""
        self._taken.add(name)
        self.inputs.append(ScalarInput(name=name, expr=expr))

    def add(self, line: l.WrapperLine) -> None:
        """Adds a line; it gets the builder's origin if it has none."""
        if self.origin is not None and line.origin is None:
            line = dataclasses.replace(line, origin=self.origin)
        self._taken.update(defines(line))
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

    def alias(self, value: TensorValue, layout: TensorType) -> BufferRef:
        """Adds an alias of a tensor or view."""
        name = self.fresh()
        self.add(l.ReinterpretLine(name=name, value=value, type=layout))
        return BufferRef(name)

    def free(self, buffer: BufferRef) -> None:
        """Adds the end of a buffer."""
        self.add(l.FreeIfNotReusedLine(name=buffer.name))

    def define(self, kernel: Kernel) -> None:
        """Adds the definition of a kernel."""
        self._kernels[kernel.name] = kernel
        self.add(l.KernelDefinitionLine(kernel=kernel))

    def call(self, kernel: str, *args: Value, device: torch.device = CPU) -> None:
        """Adds a call of a kernel that this builder defined; what it reads and writes follows from its roles."""
        record = self._kernels[kernel]
        while isinstance(record, MultiKernel):
            record = self._kernels[record.choices[0]]
        roles = [param.role for param in record.params]
        reads, writes = (buffers_of_roles(roles, args, wanted) for wanted in (READ_ROLES, WRITE_ROLES))
        self.add(l.KernelCallLine(kernel=kernel, args=args, reads=reads, writes=writes, device=device))

    def out(self, op: str, args: Sequence[Value], out: TensorValue) -> None:
        """Adds a call of an out-variant operator."""
        self.add(l.ExternKernelLine(op=op, args=tuple(args), out=out))

    def alloc_call(self, op: str, args: Sequence[Value], layout: TensorType | None = None, **fields: Any) -> BufferRef:
        """Adds a call of an operator that makes its own result: a tensor of ``layout``, or a pack without one."""
        name = self.fresh()
        self.add(l.ExternKernelAllocLine(op=op, args=tuple(args), result=name, type=layout, **fields))
        return BufferRef(name)

    def element(self, pack: BufferRef, *path: int | str, layout: TensorType | None) -> BufferRef:
        """Adds the taking of an element out of a pack."""
        name = self.fresh()
        self.add(l.MultiOutputLine(name=name, source=pack.name, path=path, type=layout))
        return BufferRef(name)

    def build(self, *values: Value) -> Function:
        """The function, returning ``values``."""
        returned = l.ReturnLine(values=tuple(values))
        return Function(name=self.name, inputs=tuple(self.inputs), lines=(*self.lines, returned))

    def program(self, *values: Value, **fields: Any) -> Program:
        """A program whose ``main`` is the function; ``fields`` are the program's other fields."""
        given: dict[str, Any] = {"name": "built", "phase": "inference", **fields}
        return Program(main=self.build(*values), **given)
