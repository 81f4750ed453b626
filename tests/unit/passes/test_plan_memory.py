"""What planning reuses, what it leaves alone, and what it never makes worse."""

from __future__ import annotations

import pytest
import torch

from kernelscope.ir import lines as l
from kernelscope.ir.builder import FunctionBuilder, contiguous
from kernelscope.ir.expr import symbol
from kernelscope.ir.program import Function, SymbolInfo, TensorInput
from kernelscope.ir.values import BufferRef, Scalar, View
from kernelscope.ir.verify import verify
from kernelscope.passes.memory_report import memory_report
from kernelscope.passes.plan_memory import PlanMemory

KIB = contiguous((256,))
WIDE = contiguous((16, 16))
S0, S1 = symbol("s0"), symbol("s1")


def plan(program, **options):
    """The planned lines of ``main``, after the checks that hold for every plan."""
    verify(program)
    result = PlanMemory(**options).run(program)
    verify(result.program)
    for before, after in zip(memory_report(program).functions, memory_report(result.program).functions, strict=True):
        assert after.violations == ()
        assert after.max_live_bytes <= after.peak_bytes <= before.peak_bytes
    assert result.changed == (result.program != program)
    return result.program.main.lines


def reuses(program, **options):
    return [(line.old, line.new) for line in plan(program, **options) if isinstance(line, l.ReuseLine)]


def started(layout=KIB, **fields):
    builder = FunctionBuilder()
    return builder, builder.tensor("x", layout, **fields)


def written(builder, source, layout=KIB, name=None):
    """A new buffer, written from ``source``."""
    buffer = builder.allocate(layout, name)
    builder.add(l.CopyLine(dst=buffer, src=source))
    return buffer


def test_freed_storage_serves_the_next_allocation():
    builder, x = started()
    a = written(builder, x, name="a")
    b = written(builder, a, name="b")
    builder.free(a)
    c = written(builder, b, name="c")
    program = builder.program(c)
    assert reuses(program) == [("a", "c")]
    assert l.FreeIfNotReusedLine(name="a") not in plan(program)


def test_storage_freed_last_comes_first():
    builder, x = started()
    a, b, c = (written(builder, x, name=name) for name in "abc")
    builder.add(l.CopyLine(dst=c, src=a))
    builder.free(a)
    builder.free(b)
    d = written(builder, c, name="d")
    assert reuses(builder.program(d)) == [("b", "d")]


def test_same_layout_comes_before_freed_last():
    builder, x = started()
    a, b = written(builder, x, name="a"), written(builder, x, WIDE, name="b")
    builder.free(a)
    builder.free(b)
    c = written(builder, x, name="c")
    assert reuses(builder.program(c), view_bytes=0) == [("a", "c")]


@pytest.mark.parametrize(("view_bytes", "expected"), [(1025, []), (1024, [("a", "b")])])
def test_another_layout_is_worth_it_for_large_storages_only(view_bytes, expected):
    builder, x = started()
    a = written(builder, x, name="a")
    builder.free(a)
    b = written(builder, x, WIDE, name="b")
    assert reuses(builder.program(b), view_bytes=view_bytes) == expected


@pytest.mark.parametrize(
    "other",
    [
        contiguous((256,), torch.int32),
        contiguous((512,), torch.float16),
        contiguous((128,)),
        contiguous((256,), device=torch.device("cuda:0")),
    ],
)
def test_dtype_size_and_device_must_agree(other):
    builder, x = started()
    builder.free(written(builder, x, name="a"))
    assert reuses(builder.program(written(builder, x, other, name="b")), view_bytes=0) == []


def test_equal_examples_do_not_make_symbols_equal():
    builder = FunctionBuilder()
    x, y = builder.tensor("x", contiguous((S0,))), builder.tensor("y", contiguous((S1,)))
    for sym, source in ((S0, x), (S1, y)):
        builder.add(l.BindSymbolLine(symbol=sym, source=source.name, attribute="size", dim=0))
    builder.free(written(builder, x, contiguous((S0,)), name="a"))
    written(builder, y, contiguous((S1,)), name="b")
    c = written(builder, x, contiguous((S0,)), name="c")
    hints = tuple(SymbolInfo(symbol=sym, kind="backed", hint=9) for sym in (S0, S1))
    assert reuses(builder.program(c, symbols=hints)) == [("a", "c")]


def test_equal_symbolic_sizes_in_another_layout():
    builder = FunctionBuilder()
    x = builder.tensor("x", contiguous((S0, 8)))
    builder.add(l.BindSymbolLine(symbol=S0, source="x", attribute="size", dim=0))
    builder.free(written(builder, x, contiguous((S0, 8)), name="a"))
    b = written(builder, x, contiguous((8, S0)), name="b")
    hints = (SymbolInfo(symbol=S0, kind="backed", hint=1000),)
    assert reuses(builder.program(b, symbols=hints)) == [("a", "b")]


def test_waiting_storage_never_raises_the_peak():
    builder, x = started()
    builder.free(written(builder, x, name="a"))
    large = written(builder, x, contiguous((4096,)), name="large")
    builder.free(large)
    b = written(builder, x, name="b")
    assert reuses(builder.program(b)) == []


def test_operators_results_count_for_the_peak():
    builder, x = started()
    a, b = written(builder, x, name="a"), written(builder, x, name="b")
    builder.free(a)
    builder.free(b)
    made = builder.alloc_call("aten.cat.default", (x,), contiguous((512,)))
    builder.add(l.FreeLine(name=made.name))
    c = written(builder, x, name="c")
    assert reuses(builder.program(c)) == []


def test_a_callees_peak_counts_at_its_call():
    helper = FunctionBuilder("helper")
    given = helper.tensor("given", KIB)
    own = helper.allocate(KIB, "own")
    helper.add(l.CopyLine(dst=own, src=given))
    builder, x = started()
    builder.free(written(builder, x, name="a"))
    builder.add(l.InvokeSubgraphLine(result="p", function="helper", operands=(x,)))
    builder.add(l.MultiOutputLine(name="q", source="p", path=(0,), type=KIB))
    builder.add(l.FreeLine(name="p"))
    builder.add(l.FreeLine(name="q"))
    b = written(builder, x, name="b")
    program = builder.program(b, functions=(helper.build(own),))
    assert reuses(program) == []
    assert memory_report(program).main.peak_bytes == 1024


def test_functions_are_planned_too():
    helper = FunctionBuilder("helper")
    given = helper.tensor("given", KIB)
    a = written(helper, given, name="a")
    helper.free(a)
    program = FunctionBuilder().program(functions=(helper.build(written(helper, given, name="b")),))
    planned = PlanMemory().run(program).program
    assert l.ReuseLine(old="a", new="b", type=KIB) in planned.functions[0].lines


def test_a_live_alias_keeps_its_storage():
    builder, x = started()
    a = written(builder, x, name="a")
    builder.add(l.ReinterpretLine(name="v", value=a, type=KIB))
    builder.free(a)
    b = written(builder, BufferRef("v"), name="b")
    assert reuses(builder.program(b, BufferRef("v"))) == []


def test_an_alias_that_ends_last_hands_nothing_on():
    builder, x = started()
    a = written(builder, x, name="a")
    half = View(base=a, size=(128,), stride=(1,), offset=128)
    builder.add(l.ReinterpretLine(name="v", value=half, type=contiguous((128,))))
    builder.free(a)
    builder.add(l.FreeIfNotReusedLine(name="v"))
    b = written(builder, x, name="b")
    assert reuses(builder.program(b), view_bytes=0) == []


def test_a_result_that_may_alias_keeps_every_storage_it_may_lie_in():
    builder, x = started()
    a, b = written(builder, x, name="a"), written(builder, x, name="b")
    builder.add(l.ExternKernelAllocLine(op="lib.either.default", args=(a, b), result="e", type=KIB, aliases=("a", "b")))
    builder.free(a)
    builder.free(b)
    c = written(builder, BufferRef("e"), name="c")
    assert reuses(builder.program(c, BufferRef("e"))) == []


def test_a_callees_result_that_is_its_input_keeps_the_operand():
    same = Function(
        name="same",
        inputs=(TensorInput(name="given", type=KIB),),
        lines=(l.ReturnLine(values=(BufferRef("given"),)),),
    )
    builder, x = started()
    a = written(builder, x, name="a")
    builder.add(l.InvokeSubgraphLine(result="p", function="same", operands=(a,)))
    builder.add(l.MultiOutputLine(name="q", source="p", path=(0,), type=KIB))
    builder.free(a)
    builder.add(l.FreeLine(name="p"))
    b = written(builder, x, name="b")
    assert reuses(builder.program(b, BufferRef("q"), functions=(same,))) == []


@pytest.mark.parametrize(("donated", "expected"), [(True, [("x", "a")]), (False, [])])
def test_only_donated_inputs_serve(donated, expected):
    builder, x = started(donated=donated)
    other = builder.tensor("y", KIB)
    b = written(builder, x, name="b")
    builder.free(x)
    a = written(builder, other, name="a")
    assert reuses(builder.program(a, b)) == expected


def test_an_operators_own_result_serves():
    builder, x = started()
    made = builder.alloc_call("aten.relu.default", (x,), KIB)
    builder.free(made)
    a = written(builder, x, name="a")
    assert reuses(builder.program(a)) == [(made.name, "a")]


def test_elements_of_a_pack_serve_once_each():
    builder, x = started()
    builder.add(l.ExternKernelAllocLine(op="aten.sort.default", args=(x, Scalar(0)), result="p"))
    for name in ("q", "again"):
        builder.add(l.MultiOutputLine(name=name, source="p", path=(0,), type=KIB))
    builder.add(l.FreeLine(name="p"))
    builder.add(l.FreeIfNotReusedLine(name="q"))
    a = written(builder, x, name="a")
    builder.add(l.FreeIfNotReusedLine(name="again"))
    b = written(builder, x, name="b")
    assert reuses(builder.program(a, b)) == [("again", "b")]


@pytest.mark.parametrize("fields", [{"pinned": True}, {"workspace": True}, {"allocation_size": (512,)}])
def test_special_allocations_stay(fields):
    builder, x = started()
    special = l.AllocateLine(name="a", type=KIB, **fields)
    builder.add(special)
    builder.free(BufferRef("a"))
    builder.free(written(builder, x, name="b"))
    builder.add(l.AllocateLine(name="c", type=KIB, **fields))
    assert reuses(builder.program(BufferRef("c"))) == []


def test_what_a_collective_works_on_does_not_serve():
    builder, x = started()
    a = written(builder, x, name="a")
    gather = "_c10d_functional.all_gather_into_tensor.default"
    builder.add(l.CollectiveLine(op=gather, args=(a, Scalar(2)), result="g", type=contiguous((512,))))
    builder.free(a)
    b = written(builder, x, name="b")
    wait = "_c10d_functional.wait_tensor.default"
    builder.add(l.CollectiveLine(op=wait, args=(BufferRef("g"),), result=None, mutates=("g",)))
    assert reuses(builder.program(b, BufferRef("g"))) == []


def test_streams_do_not_share_storages():
    builder, x = started()
    builder.add(l.EnterDeviceLine(device=torch.device("cuda:0"), num_streams=2))
    builder.add(l.EnterStreamLine(stream=1))
    builder.free(written(builder, x, name="a"))
    builder.add(l.ExitStreamLine())
    b = written(builder, x, name="b")
    builder.add(l.ExitDeviceLine())
    assert reuses(builder.program(b)) == []


def test_reuse_in_place_by_the_compiler_stays():
    builder, x = started()
    a = written(builder, x, name="a")
    b = builder.reuse(a, KIB)
    builder.add(l.CopyLine(dst=b, src=x))
    builder.free(b)
    c = written(builder, x, name="c")
    assert reuses(builder.program(c)) == [("a", b.name), (b.name, "c")]


def test_frees_before_the_return_are_dropped():
    builder, x = started()
    a, b = written(builder, x, name="a"), written(builder, x, name="b")
    builder.free(a)
    builder.add(l.FreeLine(name="x"))
    assert not any(isinstance(line, (l.FreeLine, l.FreeIfNotReusedLine)) for line in plan(builder.program(b)))


def test_nothing_to_plan_changes_nothing():
    builder, x = started()
    assert not PlanMemory().run(builder.program(x)).changed
