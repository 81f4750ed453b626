"""Hypothesis strategies for valid programs in which every line kind can occur; they are checked and read, not run.

For programs that targets can run see ``strategies``; for records without rules ``record_strategies``.
"""

from __future__ import annotations

import dataclasses

import torch
from hypothesis import strategies as st

from kernelscope.ir import lines as l
from kernelscope.ir.builder import CPU, FunctionBuilder, contiguous
from kernelscope.ir.expr import parse_expr, symbol
from kernelscope.ir.program import Constant, Graph, GraphNode, ObjectInput, Program, ScalarInput, Storage, SymbolInfo
from kernelscope.ir.values import (
    BufferRef,
    ConstantRef,
    ListValue,
    NodeRef,
    NoneValue,
    ObjectRef,
    Scalar,
    SymExpr,
    View,
)
from tests.programs import KERNEL, MULTI, ORIGIN, TRITON

MATRIX, FLAG = contiguous((4, 4)), contiguous((), torch.bool)
ROWS, COLUMNS = symbol("s0"), symbol("s1")
DYNAMIC = contiguous((ROWS, 4))
CUDA = torch.device("cuda:0")
STEPS = (
    *("allocate", "free", "reuse", "null", "alias", "kernel", "multi_kernel", "out", "alloc", "in_place", "multi_out"),
    *("pack", "scatter", "index_put", "copy", "collective", "compute", "item", "select", "slice", "read", "checks"),
    *("device", "stream", "close", "comment", "probe", "invoke", "condition", "loop"),
)


class Draft:
    """A function being drawn: the matrices alive, those it may free, its open scopes, its symbols."""

    def __init__(self, draw, name, callees=(), constants=()):
        self.draw = draw
        self.builder = FunctionBuilder(name)
        self.callees = callees
        self.constants = constants
        self.alive = {self.builder.tensor(f"{name}_{part}", MATRIX).name for part in ("x", "y")}
        self.own: set[str] = set()
        self.scopes: list[l.Line] = []
        self.known = []
        self.count = 0

    def open_up(self):
        """Adds the inputs and bindings that only ``main`` has, and the kernels."""
        builder = self.builder
        builder.tensor("dynamic", DYNAMIC, donated=True)
        builder.inputs.append(ScalarInput(name="columns", expr=COLUMNS))
        builder.inputs.append(ObjectInput(name="generator", kind="Generator"))
        builder.add(l.AlignInputLine(name="dynamic"))
        builder.add(l.BindSymbolLine(symbol=ROWS, source="dynamic", attribute="size", dim=0))
        builder.add(l.BindSymbolLine(symbol=COLUMNS, source="columns", attribute="value"))
        self.known += [ROWS, COLUMNS]
        for kernel in (KERNEL, TRITON, MULTI):
            builder.define(kernel)

    # --- drawing ---

    def pick(self, names=None):
        return BufferRef(self.draw(st.sampled_from(sorted(self.alive if names is None else names))))

    def tensor(self):
        """A matrix alive, a view of one, or a constant."""
        whole = self.pick()
        view = View(base=whole, size=(4, 4), stride=(1, 4), dtype=self.draw(st.sampled_from((None, torch.float32))))
        return self.draw(st.sampled_from((whole, view, *map(ConstantRef, self.constants))))

    def number(self):
        return self.draw(st.sampled_from((Scalar(2), Scalar(float("nan")), *map(SymExpr, self.known))))

    def new_symbol(self):
        self.count += 1
        return symbol(f"u{self.builder.name == 'main':d}{self.count}")

    def became(self, buffer, own=False):
        self.alive.add(buffer.name)
        if own:
            self.own.add(buffer.name)
        return buffer

    def new(self):
        return self.became(self.builder.allocate(MATRIX, self.fresh()), own=True)

    def fresh(self):
        return f"{self.builder.name}_{self.builder.fresh()}"

    def learn(self, line):
        self.builder.add(line)
        self.known.append(line.symbol)

    # --- memory ---

    def allocate(self):
        self.new()
        line = l.AllocateLine(
            name=self.fresh(), type=MATRIX, allocation_size=(4, 8), workspace=self.draw(st.booleans())
        )
        self.builder.add(line)

    def free(self):
        if self.own:
            name = self.pick(self.own)
            self.builder.free(name)
            self.forget(name)

    def forget(self, buffer):
        self.own.discard(buffer.name)
        self.alive.discard(buffer.name)

    def reuse(self):
        if self.own:
            old = self.pick(self.own)
            self.builder.add(l.ReuseLine(old=old.name, new=self.fresh(), type=MATRIX))
            self.forget(old)
            self.became(BufferRef(self.builder.lines[-1].new), own=True)

    def null(self):
        self.builder.add(l.NullLine())

    def alias(self):
        source = self.pick()
        self.own.discard(source.name)
        self.builder.add(l.ReinterpretLine(name=self.fresh(), value=source, type=MATRIX))
        self.became(BufferRef(self.builder.lines[-1].name))

    # --- kernels and operators ---

    def kernel(self):
        if self.known:
            self.builder.add(self._call(KERNEL.name, self.pick(), self.pick(), SymExpr(self.known[0])))

    def _call(self, kernel, source, target, *rest):
        return l.KernelCallLine(
            kernel=kernel, args=(source, target, *rest), reads=(source.name,), writes=(target.name,), device=CPU
        )

    def multi_kernel(self):
        target = self.pick()
        name = self.draw(st.sampled_from((TRITON.name, MULTI.name)))
        args = (target, self.number())
        names = (target.name,)
        self.builder.add(
            l.KernelCallLine(kernel=name, args=args, reads=names, writes=names, device=CUDA, stream=len(self.scopes))
        )

    def out(self):
        self.builder.out("aten.mm.out", (self.tensor(), self.tensor()), self.new())

    def alloc(self):
        line = l.ExternKernelAllocLine(
            op="aten.add.Tensor",
            args=(self.tensor(), self.number()),
            kwargs=(("alpha", Scalar(3)),),
            result=self.fresh(),
            type=MATRIX,
        )
        self.builder.add(line)
        self.became(BufferRef(line.result))

    def in_place(self):
        target = self.pick()
        args = (target, ListValue((Scalar(1), NoneValue())), ObjectRef("generator"))
        args = args if self.builder.name == "main" else args[:-1]
        self.builder.add(l.ExternKernelAllocLine(op="my::op_.default", args=args, result=None, mutates=(target.name,)))

    def multi_out(self):
        outs = (("values", self.new()), ("indices", self.new()))
        self.builder.add(l.ExternKernelMultiOutLine(op="aten.sort.values", args=(self.tensor(),), outs=outs))

    def pack(self):
        pack, name = self.fresh(), self.fresh()
        self.builder.add(l.ExternKernelAllocLine(op="aten.sort.default", args=(self.tensor(),), result=pack))
        self.builder.add(l.MultiOutputLine(name=name, source=pack, path=(0,), type=MATRIX))
        self.became(BufferRef(name))
        if self.draw(st.booleans()):
            path = (("index", 1), ("size", 0))
            self.learn(l.UnbackedSymbolDefsLine(symbol=self.new_symbol(), source=pack, path=path))
        self.builder.add(l.FreeLine(name=pack))

    def scatter(self):
        src = self.draw(st.sampled_from((self.pick(), Scalar(1.5))))
        kwargs = (("reduce", Scalar("add")),)
        op = "aten.scatter_.src_reduce"
        line = l.ScatterFallbackLine(op=op, target=self.pick(), dim=0, index=self.tensor(), src=src, kwargs=kwargs)
        self.builder.add(line)

    def index_put(self):
        indices = self.draw(st.sampled_from(((self.tensor(),), (NoneValue(), self.tensor()))))
        line = l.IndexPutFallbackLine(
            op="aten.index_put_.default",
            target=self.pick(),
            indices=indices,
            values=self.tensor(),
            accumulate=self.draw(st.booleans()),
        )
        self.builder.add(line)

    def copy(self):
        self.builder.add(l.CopyLine(dst=self.pick(), src=self.tensor(), non_blocking=self.draw(st.booleans())))

    def collective(self):
        target = self.pick()
        start, wait = "_c10d_functional.all_reduce_.default", "_c10d_functional.wait_tensor.default"
        self.builder.add(l.CollectiveLine(op=start, args=(target, Scalar("sum")), result=None, mutates=(target.name,)))
        self.builder.add(l.CollectiveLine(op=wait, args=(target,), result=None))

    # --- symbols and checks ---

    def compute(self):
        if self.known:
            expr = parse_expr(f"FloorDiv({self.draw(st.sampled_from(self.known))}*3, 2) + 1")
            self.learn(l.SymbolicCallArgLine(symbol=self.new_symbol(), expr=expr))

    def item(self):
        convert = self.draw(st.sampled_from((("none", 1), ("bool", 1), ("divide", 4))))
        line = l.DynamicScalarLine(symbol=self.new_symbol(), source=self.pick(), convert=convert[0], divisor=convert[1])
        self.learn(line)

    def select(self):
        index = parse_expr("-1")
        self.learn(
            l.DynamicSelectLine(
                symbol=self.new_symbol(),
                index=index,
                base_offset=0,
                base_stride=4,
                size=4,
                clamp=self.draw(st.booleans()),
            )
        )

    def slice(self):
        end = self.draw(st.sampled_from((3, *self.known)))
        self.learn(l.DynamicSliceLine(symbol=self.new_symbol(), start=1, end=end, step=2, size=4))

    def read(self):
        path = (("stride", 0), ("floordiv", 2))
        self.learn(l.UnbackedSymbolDefsLine(symbol=self.new_symbol(), source=self.pick().name, path=path))

    def checks(self):
        name = self.pick().name
        self.builder.add(l.AssertSizeStrideLine(name=name, size=(4, 4), stride=(4, 1), label="aten.mm"))
        self.builder.add(l.AssertAlignmentLine(name=name, alignment_bytes=16, label="aten.mm"))
        if self.known:
            condition = parse_expr(f"{self.draw(st.sampled_from(self.known))} >= 0")
            self.builder.add(l.AssertScalarLine(condition=condition, message="must not be negative"))

    # --- scopes and control flow ---

    def device(self):
        self.builder.add(l.EnterDeviceLine(device=CUDA, num_streams=2))
        self.scopes.append(l.ExitDeviceLine())

    def stream(self):
        if self.scopes:
            self.builder.add(l.EnterStreamLine(stream=1))
            self.scopes.append(l.ExitStreamLine())

    def close(self):
        if self.scopes:
            self.builder.add(self.scopes.pop())

    def probe(self):
        operand = self.pick()
        self.builder.add(
            l.ProbeLine(
                number=self.draw(st.integers(0, 9)),
                moment=self.draw(st.sampled_from(("before", "after"))),
                subject="aten.neg.out",
                call=0,
                operands=(operand,),
                labels=("operand",),
                written=self.draw(st.sampled_from(((), ("operand",)))),
            )
        )

    def comment(self):
        self.builder.add(l.CommentLine(text=self.draw(st.text(max_size=5))))

    def invoke(self):
        if self.callees:
            callee = self.draw(st.sampled_from(self.callees))
            self.opened(l.InvokeSubgraphLine(result=self.fresh(), function=callee.name, operands=self.operands(callee)))

    def condition(self):
        if self.callees:
            callee = self.draw(st.sampled_from(self.callees))
            predicate = self.draw(st.sampled_from((self.pick(), SymExpr(parse_expr("s0 > 3")))))
            predicate = predicate if ROWS in self.known else self.pick()
            self.opened(
                l.ConditionalLine(
                    result=self.fresh(),
                    predicate=predicate,
                    true_function=callee.name,
                    false_function=callee.name,
                    operands=self.operands(callee),
                )
            )

    def loop(self):
        if self.callees:
            callee = self.draw(st.sampled_from(self.callees))
            carried, additional = self.operands(callee)
            self.opened(
                l.WhileLoopLine(
                    result=self.fresh(),
                    cond_function=callee.name,
                    body_function=callee.name,
                    carried=(carried,),
                    additional=(additional,),
                    stack_outputs=self.draw(st.booleans()),
                )
            )

    def operands(self, callee):
        """Operands of a call; what a function gets may live on in what it returns."""
        operands = tuple(self.pick() for _ in callee.inputs)
        self.own -= {operand.name for operand in operands}
        return operands

    def opened(self, line):
        """Adds a call and takes its result apart."""
        self.builder.add(line)
        name = self.fresh()
        self.builder.add(l.MultiOutputLine(name=name, source=line.result, path=(0,), type=MATRIX))
        self.became(BufferRef(name))

    def function(self):
        for step in self.draw(st.lists(st.sampled_from(STEPS), min_size=3, max_size=25)):
            self.builder.origin = self.draw(st.sampled_from((None, ORIGIN)))
            getattr(self, step)()
        self.builder.origin = None
        while self.scopes:
            self.close()
        return self.builder.build(self.pick(), *map(SymExpr, self.known), *([self.number()] if self.known else []))


@st.composite
def valid_programs(draw) -> Program:
    """A valid program of any line kinds: ``main``, functions it calls, kernels, constants, symbols, a graph."""
    inner = Draft(draw, "inner").function()
    outer = Draft(draw, "outer", (inner,)).function()
    draft = Draft(draw, "main", (inner, outer), ("c0",))
    draft.open_up()
    main = draft.function()
    graph = Graph(
        nodes=(
            GraphNode(name="x", op="placeholder", target="x", type=MATRIX),
            GraphNode(name="mm", op="call_function", target="aten.mm.default", args=(NodeRef("x"), NodeRef("x"))),
        ),
        buffers=tuple((name, "mm") for name in sorted(draft.alive)),
    )
    return Program(
        name="drawn",
        phase=draw(st.sampled_from(("inference", "forward", "backward"))),
        main=main,
        functions=(outer, inner),
        constants=(Constant(name="c0", type=dataclasses.replace(MATRIX, offset=4), storage="key"),),
        storages=(Storage(key="key", nbytes=80, data=bytes(80) if draw(st.booleans()) else None),),
        symbols=(
            SymbolInfo(symbol=ROWS, kind="backed", hint=5, lower=2),
            SymbolInfo(symbol=COLUMNS, kind="backed", hint=3, upper=9),
        ),
        graph=draw(st.sampled_from((None, graph))),
    )
