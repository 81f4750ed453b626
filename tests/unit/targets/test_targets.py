"""Every line kind in every target; the generated text is what it was."""

from __future__ import annotations

import ast

import pytest
import torch

from kernelscope.errors import OptionError
from kernelscope.ir import lines as l
from kernelscope.ir.builder import FunctionBuilder, contiguous
from kernelscope.ir.expr import parse_expr, symbol
from kernelscope.ir.lines import LINE_KINDS
from kernelscope.ir.values import BufferRef, NoneValue, Scalar, SymExpr
from kernelscope.targets import registry
from kernelscope.targets.interpreter.machine import Machine
from kernelscope.targets.python.emitter import PythonEmitter
from tests.programs import LINES, chain, rich_program


@pytest.mark.parametrize("line", [*LINES, *rich_program().main.lines[-3:]], ids=lambda line: type(line).__name__)
def test_python_spells_every_line(line):
    emitter = PythonEmitter(rich_program())
    with emitter.out.indent():
        emitter.line(line)
    ast.parse("def f():\n    pass\n" + emitter.out.text())


def tour():
    """A program that runs every line kind that runs on the CPU without kernels."""
    builder = FunctionBuilder()
    x = builder.tensor("x", contiguous((4, 4)))
    builder.scalar("n", symbol("s0"))
    add = builder.add
    add(l.CommentLine(text="a tour"))
    add(l.BindSymbolLine(symbol=symbol("s0"), source="n", attribute="value"))
    add(l.SymbolicCallArgLine(symbol=symbol("s1"), expr=parse_expr("s0*2")))
    add(l.AssertScalarLine(condition=parse_expr("s1 >= 2"), message="too small"))
    add(l.AlignInputLine(name="x"))
    add(l.AssertAlignmentLine(name="x", alignment_bytes=16, label="x"))
    a = builder.allocate(contiguous((4, 4)))
    builder.out("aten.mm.out", (x, x), a)
    add(l.AssertSizeStrideLine(name=a.name, size=(4, 4), stride=(4, 1), label="mm"))
    b = builder.reuse(a, contiguous((2, 8)))
    add(l.ReinterpretLine(name="flat", value=b, type=contiguous((2, 8))))
    add(l.ExternKernelAllocLine(op="aten.sort.default", args=(x, Scalar(0)), result="pack"))
    add(l.MultiOutputLine(name="values", source="pack", path=(0,), type=contiguous((4, 4))))
    add(l.MultiOutputLine(name="order", source="pack", path=(1,), type=contiguous((4, 4), torch.int64)))
    add(l.UnbackedSymbolDefsLine(symbol=symbol("u0"), source="pack", path=(("index", 0), ("size", 1), ("floordiv", 2))))
    add(l.FreeLine(name="pack"))
    add(
        l.ScatterFallbackLine(
            op="aten.scatter_.value", target=BufferRef("values"), dim=0, index=BufferRef("order"), src=Scalar(2.0)
        )
    )
    add(
        l.ExternKernelAllocLine(
            op="aten.select.int",
            args=(BufferRef("order"), Scalar(0), Scalar(0)),
            result="row",
            type=contiguous((4,), torch.int64),
            aliases=("order",),
        )
    )
    c = builder.allocate(contiguous((4, 4)))
    add(l.CopyLine(dst=c, src=x))
    add(
        l.IndexPutFallbackLine(
            op="aten.index_put_.default", target=c, indices=(NoneValue(), BufferRef("row")), values=x, accumulate=True
        )
    )
    d, e = builder.allocate(contiguous((4,))), builder.allocate(contiguous((4,), torch.int64))
    add(l.ExternKernelMultiOutLine(op="aten.max.dim_max", args=(x, Scalar(1)), outs=(("max", d), ("max_values", e))))
    add(
        l.DynamicSelectLine(
            symbol=symbol("u2"), index=parse_expr("-s0"), base_offset=1, base_stride=4, size=4, clamp=True
        )
    )
    add(l.DynamicSliceLine(symbol=symbol("u3"), start=1, end=symbol("s1"), step=2, size=9))
    add(l.InvokeSubgraphLine(result="called", function="double", operands=(x,)))
    add(
        l.ConditionalLine(
            result="chosen",
            predicate=SymExpr(parse_expr("s0 > 1")),
            true_function="double",
            false_function="same",
            operands=(x,),
        )
    )
    add(l.WhileLoopLine(result="looped", cond_function="small", body_function="double", carried=(x,), additional=()))
    for name in ("called", "chosen", "looped"):
        add(l.MultiOutputLine(name=f"{name}_0", source=name, path=(0,), type=contiguous((4, 4))))
    builder.free(b)
    add(l.NullLine())
    names = ("values", "called_0", "chosen_0", "looped_0")
    symbols = [SymExpr(symbol(name)) for name in ("s1", "u0", "u2", "u3")]
    return builder.program(
        *map(BufferRef, names), c, d, e, *symbols, Scalar(float("inf")), functions=(_double(), _same(), _small())
    )


def _double():
    builder = FunctionBuilder("double")
    x = builder.tensor("double_x", contiguous((4, 4)))
    return builder.build(builder.alloc_call("aten.add.Tensor", (x, x), contiguous((4, 4))))


def _same():
    builder = FunctionBuilder("same")
    return builder.build(builder.tensor("same_x", contiguous((4, 4))))


def _small():
    builder = FunctionBuilder("small")
    x = builder.tensor("small_x", contiguous((4, 4)))
    total = builder.alloc_call("aten.sum.default", (x,), contiguous(()))
    return builder.build(builder.alloc_call("aten.lt.Scalar", (total, Scalar(100)), contiguous((), torch.bool)))


def test_targets_agree_on_a_tour():
    program = tour()
    x = torch.arange(16.0).reshape(4, 4)
    with torch.no_grad():
        results = [registry.target(name).emit(program).load()([x.clone(), 3]) for name in ("python", "interpreter")]
    for left, right in zip(*results, strict=True):
        assert torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right
    assert results[0][3].sum() == 120
    assert results[0][-5:] == (6, 2, 5, 3, float("inf"))


def test_python_golden(golden):
    artifact = registry.target("python").emit(tour())
    golden("tour.py", artifact.source)
    assert artifact.source.startswith("# kernelscope ")
    assert {index for _, function, index in artifact.source_map if function == "main"}


def test_the_machine_stops_before_each_line():
    program = chain().program(BufferRef("buf2"))
    machine = Machine(program, {}, {})
    stops = [type(line).__name__ for _, line, _ in machine.steps([torch.eye(4), torch.eye(4)])]
    assert stops == [type(line).__name__ for line in program.main.lines]


def test_every_line_kind_is_tried_here():
    tried = {type(line) for line in LINES} | {type(line) for line in rich_program().main.lines}
    assert tried == set(LINE_KINDS)


def test_a_target_can_be_added_once():
    registry.register("test_target", lambda: registry.target("python"))
    assert "test_target" in registry.names()
    with pytest.raises(OptionError, match="already"):
        registry.register("python", lambda: registry.target("python"))
    registry._targets.pop("test_target")
