"""Hypothesis strategies for valid programs over CPU operators, which every target can run.

For valid programs of all line kinds see ``valid_strategies``; for records without rules ``record_strategies``.
"""

from __future__ import annotations

import torch
from hypothesis import strategies as st

from kernelscope.ir import lines as l
from kernelscope.ir.builder import FunctionBuilder, contiguous
from kernelscope.ir.expr import parse_expr, symbol
from kernelscope.ir.program import Constant, Function, Program, Storage, SymbolInfo
from kernelscope.ir.values import BufferRef, ConstantRef, DTypeValue, ListValue, Scalar, SymExpr, View

ROWS = symbol("s0")
_SIZES = ((2, 3), (3, 2), (6,), (4, 4), (600, 2))
_BINARY = ("aten.add.out", "aten.mul.out", "aten.sub.out")
_STEPS = (
    *("unary", "binary", "alloc", "free", "in_place", "alias", "pack", "scalar", "copy", "transposed", "constant"),
    *("invoke", "condition", "loop", "item", "index_put", "scatter", "comment", "free", "free", "in_place", "copy"),
)
_SQUARE = (4, 4)
_UNARY = ("aten.relu.out", "aten.sin.out", "aten.neg.out")


class _Drawn:
    """A function being drawn: the buffers alive, by their size, and which may be freed."""

    def __init__(self, draw, dynamic):
        self.draw = draw
        self.builder = FunctionBuilder()
        self.sizes = {}
        self.own = set()
        self.aliased = set()
        self.symbols = []
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
        kind = self.draw(st.sampled_from(_STEPS))
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
        source, name = self.pick(self.squares()), self.builder.fresh()
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

    def squares(self, names=None):
        """Names of matrices of the size that called functions take."""
        return [name for name in (self.sizes if names is None else names) if self.sizes[name] == _SQUARE]

    def transposed(self):
        view = View(base=BufferRef(self.pick(self.squares())), size=_SQUARE, stride=(1, 4))
        self.builder.out("aten.mm.out", (view, BufferRef(self.pick(self.squares()))), self.allocate(_SQUARE))

    def constant(self):
        args = (BufferRef(self.pick(self.squares())), ConstantRef("c0"))
        self.builder.out("aten.add.out", args, self.allocate(_SQUARE))

    def invoke(self):
        operands = self.operands(2)
        self.result_of(l.InvokeSubgraphLine(result=self.builder.fresh(), function="helper", operands=operands))

    def condition(self):
        positive = self.builder.alloc_call("aten.sum.default", (BufferRef(self.pick(self.squares())),), contiguous(()))
        predicate = self.builder.alloc_call("aten.gt.Scalar", (positive, Scalar(0)), contiguous((), torch.bool))
        operands = self.operands(2)
        self.result_of(
            l.ConditionalLine(
                result=self.builder.fresh(),
                predicate=predicate,
                true_function="helper",
                false_function="other",
                operands=operands,
            )
        )

    def loop(self):
        operands = self.operands(1)
        self.result_of(
            l.WhileLoopLine(
                result=self.builder.fresh(),
                cond_function="small",
                body_function="doubled",
                carried=operands,
                additional=(),
            )
        )

    def operands(self, count):
        """Operands of a call, whose storage lives on in the call's result, for all that is known here."""
        names = [self.pick(self.squares()) for _ in range(count)]
        self.aliased.update(names)
        return tuple(map(BufferRef, names))

    def result_of(self, line):
        self.builder.add(line)
        self.sizes[self.builder.element(BufferRef(line.result), 0, layout=contiguous(_SQUARE)).name] = _SQUARE

    def item(self):
        total = self.builder.alloc_call("aten.sum.default", (BufferRef(self.pick(self.squares())),), contiguous(()))
        whole = self.builder.alloc_call("aten.to.dtype", (total, DTypeValue(torch.int64)), contiguous((), torch.int64))
        self.symbols.append(symbol(f"u{len(self.symbols)}"))
        self.builder.add(l.DynamicScalarLine(symbol=self.symbols[-1], source=whole))

    def index_put(self):
        if own := self.squares(self.own):
            index = self.builder.alloc_call("aten.arange.default", (Scalar(3),), contiguous((3,), torch.int64))
            value = self.builder.alloc_call("aten.ones.default", (ListValue((Scalar(4),)),), contiguous((4,)))
            line = l.IndexPutFallbackLine(
                op="aten.index_put_.default",
                target=BufferRef(self.pick(own)),
                indices=(index,),
                values=value,
                accumulate=self.draw(st.booleans()),
            )
            self.builder.add(line)

    def scatter(self):
        if own := self.squares(self.own):
            zeros = (ListValue((Scalar(2), Scalar(4))),)
            kwargs = (("dtype", DTypeValue(torch.int64)),)
            layout = contiguous((2, 4), torch.int64)
            index = self.builder.alloc_call("aten.zeros.default", zeros, layout, kwargs=kwargs)
            target = BufferRef(self.pick(own))
            self.builder.add(
                l.ScatterFallbackLine(op="aten.scatter_.value", target=target, dim=1, index=index, src=Scalar(2.5))
            )

    def comment(self):
        self.builder.add(l.CommentLine(text=self.draw(st.text(max_size=5))))


@st.composite
def programs(draw) -> Program:
    """A valid program over float32 CPU tensors, with static or dynamic sizes; it can be run by any target."""
    dynamic = draw(st.booleans())
    drawn = _Drawn(draw, dynamic)
    for _ in range(draw(st.integers(1, 25))):
        drawn.step()
    returned = draw(st.lists(st.sampled_from(sorted(drawn.sizes)), min_size=1, max_size=4, unique=True))
    values = [*map(BufferRef, returned), *map(SymExpr, drawn.symbols)]
    if dynamic:
        values.append(SymExpr(parse_expr("FloorDiv(s0, 2) + 1")))
    symbols = (SymbolInfo(symbol=ROWS, kind="backed", hint=5, lower=2),) if dynamic else ()
    data = torch.arange(16, dtype=torch.float32).numpy().tobytes()
    return drawn.builder.program(
        *values,
        symbols=(*symbols, *(SymbolInfo(symbol=sym, kind="unbacked") for sym in drawn.symbols)),
        functions=_callees(),
        constants=(Constant(name="c0", type=contiguous(_SQUARE), storage="numbers"),),
        storages=(Storage(key="numbers", nbytes=len(data), data=data),),
    )


def _callees() -> tuple[Function, ...]:
    """Functions of matrices: a sum, a difference, and the two of a loop."""
    square = contiguous(_SQUARE)
    helper, other, small, doubled = map(FunctionBuilder, ("helper", "other", "small", "doubled"))
    for builder in (helper, other):
        x, y = (builder.tensor(f"{builder.name}_{part}", square) for part in "xy")
        result = builder.allocate(square, f"{builder.name}_result")
        builder.out("aten.add.out" if builder is helper else "aten.sub.out", (x, y), result)
    x = small.tensor("small_x", square)
    largest = small.alloc_call("aten.max.default", (x,), contiguous(()))
    condition = small.alloc_call("aten.lt.Scalar", (largest, Scalar(10.0)), contiguous((), torch.bool))
    x = doubled.tensor("doubled_x", square)
    positive = doubled.alloc_call("aten.abs.default", (x,), square)
    more = doubled.alloc_call("aten.add.Scalar", (positive, Scalar(1), Scalar(2)), square)
    results = (BufferRef("helper_result"), BufferRef("other_result"), condition, more)
    builders = (helper, other, small, doubled)
    return tuple(builder.build(result) for builder, result in zip(builders, results, strict=True))


def inputs_of(program: Program, rows: int = 5) -> list[torch.Tensor]:
    """Seeded inputs of a drawn program."""
    generator = torch.Generator().manual_seed(0)
    sizes = [[rows if not isinstance(dim, int) else dim for dim in entry.type.size] for entry in program.main.inputs]
    return [torch.randn(size, generator=generator) for size in sizes]
