"""The report's numbers, by hand, and the breaches it sees without the planner's or the verifier's help."""

from __future__ import annotations

import dataclasses

from kernelscope.ir import lines as l
from kernelscope.ir.builder import FunctionBuilder, contiguous
from kernelscope.ir.expr import symbol
from kernelscope.ir.program import Constant, Function, Storage, SymbolInfo, TensorInput
from kernelscope.ir.values import BufferRef, ConstantRef, Scalar
from kernelscope.passes.memory_report import memory_report
from tests.programs import chain

KIB = contiguous((256,))


def report(builder, *values, **fields):
    return memory_report(builder.program(*values, **fields)).main


def started(**fields):
    builder = FunctionBuilder()
    return builder, builder.tensor("x", KIB, **fields)


def violations(*lines):
    builder, _ = started()
    builder.allocate(KIB, "a")
    for line in lines:
        builder.add(line)
    return report(builder).violations


def test_peak_bound_and_holders():
    found = memory_report(chain().program(BufferRef("buf2"))).main
    assert found.function == "main"
    assert (found.peak_bytes, found.max_live_bytes) == (128, 128)
    assert (found.allocations, found.reuses) == (3, 0)
    assert found.peak_index == 2
    assert found.peak_names == (("buf0", 64), ("buf1", 64))


def test_late_free_shows_above_the_bound():
    builder, x = started()
    a = builder.allocate(KIB)
    builder.add(l.CopyLine(dst=a, src=x))
    b = builder.allocate(KIB)
    builder.add(l.CopyLine(dst=b, src=x))
    builder.free(a)
    found = report(builder, b)
    assert (found.peak_bytes, found.max_live_bytes) == (2048, 1024)


def test_alias_keeps_its_base_alive():
    builder, x = started()
    a = builder.allocate(KIB)
    builder.add(l.ReinterpretLine(name="v", value=a, type=KIB))
    builder.free(a)
    b = builder.allocate(KIB)
    builder.add(l.CopyLine(dst=b, src=BufferRef("v")))
    found = report(builder, b)
    assert (found.peak_bytes, found.max_live_bytes) == (2048, 2048)
    assert report(builder, x).violations == ()


def test_aliases_of_several_tensors_count_once():
    builder, _ = started()
    a, b = builder.allocate(KIB), builder.allocate(KIB)
    builder.add(
        l.ExternKernelAllocLine(op="lib.either.default", args=(a, b), result="e", type=KIB, aliases=(a.name, b.name))
    )
    found = report(builder, a, b, BufferRef("e"))
    assert (found.peak_bytes, found.max_live_bytes) == (2048, 2048)


def test_views_of_constants_cost_nothing():
    builder = FunctionBuilder()
    builder.add(l.ReinterpretLine(name="v", value=ConstantRef("c"), type=KIB))
    constants = (Constant(name="c", type=KIB, storage="k"),)
    found = report(builder, BufferRef("v"), constants=constants, storages=(Storage(key="k", nbytes=1024),))
    assert found.peak_bytes == 0


def test_packs_count_by_their_elements():
    builder, x = started()
    builder.add(l.ExternKernelAllocLine(op="aten.sort.default", args=(x, Scalar(0)), result="p"))
    for name, index in (("q", 0), ("again", 0), ("r", 1)):
        builder.add(l.MultiOutputLine(name=name, source="p", path=(index,), type=KIB))
    assert report(builder, BufferRef("q")).peak_bytes == 2048


def test_padding_counts():
    builder, _ = started()
    builder.add(l.AllocateLine(name="a", type=KIB, allocation_size=(512,)))
    assert report(builder, BufferRef("a")).peak_bytes == 2048


def test_symbols_are_valued_by_their_examples():
    builder = FunctionBuilder()
    builder.allocate(contiguous((symbol("s0"), 4)), "a")
    builder.allocate(contiguous((symbol("u0"),)), "b")
    hints = (SymbolInfo(symbol=symbol("s0"), kind="backed", hint=3),)
    assert report(builder, symbols=hints).peak_bytes == 3 * 4 * 4 + 64 * 4


def test_a_call_adds_its_functions_peak():
    helper = FunctionBuilder("helper")
    helper.tensor("given", KIB)
    own = helper.allocate(contiguous((1024,)), "own")
    builder, x = started()
    a = builder.allocate(KIB)
    builder.add(l.InvokeSubgraphLine(result="p", function="helper", operands=(x,)))
    found = report(builder, a, functions=(helper.build(own),))
    assert (found.peak_bytes, found.max_live_bytes) == (5120, 5120)
    assert found.peak_names == (("helper()", 4096), ("buf0", 1024))


def test_a_function_that_calls_itself_is_still_reported():
    builder = FunctionBuilder("loop")
    builder.allocate(KIB)
    builder.add(l.InvokeSubgraphLine(result="p", function="loop", operands=()))
    program = FunctionBuilder().program(functions=(builder.build(),))
    assert memory_report(program).functions[1].peak_bytes == 1024


def test_taking_over_what_an_alias_holds_is_a_violation():
    alias = l.ReinterpretLine(name="v", value=BufferRef("a"), type=KIB)
    (found,) = violations(alias, l.ReuseLine(old="a", new="b", type=KIB))
    assert "b takes storage that v still holds" in found


def test_taking_over_the_callers_storage_is_a_violation():
    (found,) = violations(l.ReuseLine(old="x", new="b", type=KIB))
    assert "caller's storage" in found


def test_taking_over_too_little_is_a_violation():
    (found,) = violations(l.ReuseLine(old="a", new="b", type=contiguous((257,))))
    assert "needs 1028 bytes, a has 1024" in found


def test_taking_over_what_a_callee_passed_through_is_a_violation():
    same = Function(
        name="same",
        inputs=(TensorInput(name="given", type=KIB),),
        lines=(l.ReturnLine(values=(BufferRef("given"),)),),
    )
    builder, _ = started()
    a = builder.allocate(KIB, "a")
    builder.add(l.InvokeSubgraphLine(result="p", function="same", operands=(a,)))
    builder.add(l.MultiOutputLine(name="q", source="p", path=(0,), type=KIB))
    builder.add(l.FreeLine(name="p"))
    builder.add(l.ReuseLine(old="a", new="b", type=KIB))
    (found,) = report(builder, BufferRef("q"), functions=(same,)).violations
    assert "q still holds" in found


def test_a_donated_input_may_be_taken_over():
    builder, x = started(donated=True)
    assert report(builder, builder.reuse(x, KIB)).violations == ()


def test_report_is_a_plain_record():
    found = memory_report(chain().program(BufferRef("buf2")))
    assert found.main is found.functions[0]
    assert dataclasses.asdict(found.main)["peak_bytes"] == 128
