"""Hypothesis strategies for valid, runnable programs over CPU operators."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

from kernelscope.ir import lines as l
from kernelscope.ir.builder import FunctionBuilder, contiguous
from kernelscope.ir.expr import parse_expr, symbol
from kernelscope.ir.program import Function, Program, SymbolInfo
from kernelscope.ir.values import BufferRef, Scalar, SymExpr, View

ROWS = symbol("s0")
_SIZES = ((2, 3), (3, 2), (6,), (4, 4), (600, 2))
_BINARY = ("aten.add.out", "aten.mul.out", "aten.sub.out")
_UNARY = ("aten.relu.out", "aten.sin.out", "aten.neg.out")


class _Drawn:
    """A function being drawn: the buffers alive, by their size, and which may be freed."""

    def __init__(self, draw, dynamic):
        self.draw = draw
        self.builder = FunctionBuilder()
        self.sizes = {}
        self.own = set()
        self.aliased = set()
        for index, size in enumerate(_SIZES):
            self.sizes[self.builder.tensor(f"x{index}", contiguous(size)).name] = size
        if dynamic:
            size = (ROWS, 2)
            self.sizes[self.builder.tensor("d", contiguous(size)).name] = size
            self.builder.add(l.BindSymbolLine(symbol=ROWS, source="d", attribute="size", dim=0))

    def pick(self, names=None):
        return self.draw(st.sampled_from(sorted(names if names is not None else self.sizes)))

    def allocate(self, size):
        buffer = self.builder.allocate(contiguous(size))
        self.sizes[buffer.name] = size
        self.own.add(buffer.name)
        return buffer

    def step(self):
        kind = self.draw(
            st.sampled_from(("unary", "binary", "alloc", "free", "in_place", "alias", "pack", "scalar", "copy"))
        )
        getattr(self, kind)()

    def unary(self):
        source = self.pick()
        self.builder.out(self.draw(st.sampled_from(_UNARY)), (BufferRef(source),), self.allocate(self.sizes[source]))

    def binary(self):
        left = self.pick()
        right = self.pick([name for name, size in self.sizes.items() if size == self.sizes[left]])
        op = self.draw(st.sampled_from(_BINARY))
        self.builder.out(op, (BufferRef(left), BufferRef(right)), self.allocate(self.sizes[left]))

    def alloc(self):
        source = self.pick()
        result = self.builder.alloc_call("aten.abs.default", (BufferRef(source),), contiguous(self.sizes[source]))
        self.sizes[result.name] = self.sizes[source]

    def free(self):
        free = sorted(self.own - self.aliased)
        if free and len(self.sizes) > 3:
            name = self.pick(free)
            self.builder.free(BufferRef(name))
            self.own.discard(name)
            del self.sizes[name]

    def in_place(self):
        free = sorted(self.own - self.aliased)
        if free:
            old = self.pick(free)
            new = self.builder.reuse(BufferRef(old), contiguous(self.sizes[old]))
            self.own.remove(old)
            self.own.add(new.name)
            self.sizes[new.name] = self.sizes.pop(old)
            self.builder.add(
                l.ExternKernelAllocLine(op="aten.neg_.default", args=(new,), result=None, mutates=(new.name,))
            )

    def alias(self):
        name = self.pick()
        size = self.sizes[name]
        if all(isinstance(extent, int) for extent in size):
            flat = (torch.Size(size).numel(),)
            view = View(base=BufferRef(name), size=flat, stride=(1,))
            alias = self.builder.fresh()
            self.builder.add(l.ReinterpretLine(name=alias, value=view, type=contiguous(flat)))
            self.sizes[alias] = flat
            self.aliased.add(name)

    def pack(self):
        matrices = [name for name, size in self.sizes.items() if size == (4, 4)]
        source, name = self.pick(matrices), self.builder.fresh()
        self.builder.add(
            l.ExternKernelAllocLine(op="aten.sort.default", args=(BufferRef(source), Scalar(0)), result=name)
        )
        values = self.builder.fresh()
        self.builder.add(l.MultiOutputLine(name=values, source=name, path=(0,), type=contiguous((4, 4))))
        self.sizes[values] = (4, 4)

    def scalar(self):
        source = self.pick()
        factor = self.draw(st.integers(-3, 3))
        result = self.builder.alloc_call(
            "aten.mul.Tensor", (BufferRef(source), Scalar(factor)), contiguous(self.sizes[source])
        )
        self.sizes[result.name] = self.sizes[source]

    def copy(self):
        if self.own:
            target = self.pick(self.own)
            source = self.pick([name for name, size in self.sizes.items() if size == self.sizes[target]])
            self.builder.add(l.CopyLine(dst=BufferRef(target), src=BufferRef(source)))


@st.composite
def programs(draw) -> Program:
    """A valid program over float32 CPU tensors, with static or dynamic sizes; it can be run by any target."""
    dynamic = draw(st.booleans())
    drawn = _Drawn(draw, dynamic)
    for _ in range(draw(st.integers(1, 25))):
        drawn.step()
    returned = draw(st.lists(st.sampled_from(sorted(drawn.sizes)), min_size=1, max_size=4, unique=True))
    values = [BufferRef(name) for name in returned]
    if dynamic:
        values.append(SymExpr(parse_expr("FloorDiv(s0, 2) + 1")))
    symbols = (SymbolInfo(symbol=ROWS, kind="backed", hint=5, lower=2),) if dynamic else ()
    return drawn.builder.program(*values, symbols=symbols, functions=(_callee(),) if draw(st.booleans()) else ())


def _callee() -> Function:
    builder = FunctionBuilder("helper")
    builder.tensor("helper_x", contiguous((2, 2)))
    return builder.build(BufferRef("helper_x"))


def inputs_of(program: Program, rows: int = 5) -> list[torch.Tensor]:
    """Seeded inputs of a drawn program."""
    generator = torch.Generator().manual_seed(0)
    sizes = [[rows if not isinstance(dim, int) else dim for dim in entry.type.size] for entry in program.main.inputs]
    return [torch.randn(size, generator=generator) for size in sizes]
