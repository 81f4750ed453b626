"""Where probes stand, and what they say of their operands."""

from __future__ import annotations

import torch

from kernelscope.ir import lines as l
from kernelscope.ir.builder import CPU, FunctionBuilder, contiguous
from kernelscope.ir.calls import calls
from kernelscope.ir.program import Function, TensorInput
from kernelscope.ir.values import BufferRef, Scalar, View
from kernelscope.ir.verify import verify
from kernelscope.passes.insert_probes import InsertProbes
from tests.programs import KERNEL, chain

F44 = contiguous((4, 4))
X = BufferRef("x")


def probes(program):
    return [line for function in program.all_functions() for line in function.lines if isinstance(line, l.ProbeLine)]


def shown(program, **options):
    result = InsertProbes(**options).run(program)
    verify(result.program)
    return probes(result.program)


def test_every_call_is_shown_before_and_after():
    program = chain().program(X)
    found = [(probe.moment, probe.call) for probe in shown(program)]
    around = [(moment, call.number) for call in calls(program) for moment in ("before", "after")]
    assert found == [("inputs", 0), *around, ("returns", 0)]


def test_numbers_are_positions_in_the_program():
    assert [probe.number for probe in shown(chain().program(X))] == list(range(len(shown(chain().program(X)))))


def test_nothing_wanted_changes_nothing():
    program = chain().program(X)
    result = InsertProbes(wanted=lambda call: False, inputs=False, returns=False).run(program)
    assert not result.changed
    assert result.program == program


def test_an_output_is_unwritten_until_its_first_writer():
    builder = FunctionBuilder()
    x = builder.tensor("x", F44)
    out = builder.allocate(F44)
    for _ in range(2):
        builder.out("aten.neg.out", (x,), out)
    first, after, second, _ = [p for p in shown(builder.program(out)) if p.moment in ("before", "after")]
    assert first.unwritten == (out.name,)
    assert after.unwritten == second.unwritten == ()
    assert first.written == after.written == (out.name,)


def test_a_buffer_changed_in_place_is_read_even_where_it_is_new():
    builder = chain()
    builder.add(l.KernelDefinitionLine(kernel=KERNEL))
    builder.add(l.ReuseLine(old="buf2", new="b", type=F44))
    builder.add(
        l.KernelCallLine(kernel="cpp_add", args=(X, BufferRef("b"), Scalar(1)), reads=("x",), writes=("b",), device=CPU)
    )
    before = [p for p in shown(builder.program(X)) if p.moment == "before"][-1]
    assert before.unwritten == ("b",)
    assert before.labels[:2] == ("x", "b")


def test_writing_a_view_writes_its_base():
    builder = FunctionBuilder()
    x = builder.tensor("x", F44)
    out = builder.allocate(F44)
    builder.add(l.ReinterpretLine(name="v", value=out, type=F44))
    builder.out("aten.neg.out", (x,), BufferRef("v"))
    builder.out("aten.neg.out", (out,), x)
    probes_ = [p for p in shown(builder.program(x)) if p.moment == "before"]
    assert [probe.unwritten for probe in probes_] == [("v",), ()]


def test_one_buffer_passed_twice_has_two_labels():
    builder = FunctionBuilder()
    x = builder.tensor("x", F44)
    row = View(base=x, size=(4,), stride=(1,))
    builder.add(l.ExternKernelAllocLine(op="aten.add.Tensor", args=(x, row), result="sum", type=F44))
    before, after = [p for p in shown(builder.program(BufferRef("sum"))) if p.moment in ("before", "after")]
    assert before.labels == ("x:arg0", "x:arg1")
    assert after.labels == (*before.labels, "sum")
    assert after.written == ("sum",)


def test_calls_within_functions_have_numbers_of_their_own():
    callee = Function(
        name="f",
        inputs=(TensorInput(name="f_x", type=F44),),
        lines=(
            l.ExternKernelAllocLine(op="aten.neg.default", args=(BufferRef("f_x"),), result="n", type=F44),
            l.ReturnLine(values=(BufferRef("n"),)),
        ),
    )
    builder = chain()
    builder.add(l.InvokeSubgraphLine(result="p", function="f", operands=(X,)))
    program = builder.program(X, functions=(callee,))
    numbers = [call.number for call in calls(program)]
    assert numbers == list(range(len(numbers)))
    assert {(call.kind, call.subject) for call in calls(program)} >= {
        ("operator", "aten.neg.default"),
        ("function", "f"),
    }
    assert len({probe.number for probe in shown(program)}) == len(shown(program))


def test_symbols_are_inputs_too():
    from kernelscope.ir.expr import symbol

    builder = FunctionBuilder()
    rows = symbol("s0")
    x = builder.tensor("x", contiguous((rows, 4)))
    builder.add(l.BindSymbolLine(symbol=rows, source="x", attribute="size", dim=0))
    builder.add(
        l.ExternKernelAllocLine(op="aten.neg.default", args=(x,), result="n", type=contiguous((rows, 4), torch.float32))
    )
    first = shown(builder.program(BufferRef("n")))[0]
    assert first.labels == ("x", "s0")
