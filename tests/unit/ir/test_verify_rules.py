"""The verifier on what is easily missed: aliases through calls and packs, collectives, kernels' kinds, its report."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from kernelscope.errors import VerifyError
from kernelscope.ir import lines as l
from kernelscope.ir.builder import CPU, FunctionBuilder, contiguous
from kernelscope.ir.kernels import MultiKernel
from kernelscope.ir.program import Constant, Function, ObjectInput, Storage, TensorInput
from kernelscope.ir.values import BufferRef, ConstantRef, NodeRef, ObjectRef, Scalar, View
from kernelscope.ir.verify import breaches, verify
from tests.programs import KERNEL, MULTI, ORIGIN, TRITON
from tests.work import calls_made

F4 = contiguous((4,))
A, B, X = BufferRef("a"), BufferRef("b"), BufferRef("x")
WAIT = "_c10d_functional.wait_tensor.default"
GATHER = "_c10d_functional.all_gather_into_tensor.default"
SAME = Function(
    name="same", inputs=(TensorInput(name="given", type=F4),), lines=(l.ReturnLine(values=(BufferRef("given"),)),)
)


def _program(*lines, values=(X,), **fields):
    """A function of ``x`` with buffers ``a`` and ``b``, and these lines."""
    builder = FunctionBuilder()
    builder.tensor("x", F4)
    builder.allocate(F4, "a")
    builder.allocate(F4, "b")
    for line in lines:
        builder.add(line)
    return builder.program(*values, **fields)


def _found(*lines, **fields):
    return [(breach.rule, breach.message) for breach in breaches(_program(*lines, **fields))]


def _reuse(old, new="n"):
    return l.ReuseLine(old=old, new=new, type=F4)


def _element(name, source="p", path=(0,), **fields):
    return l.MultiOutputLine(name=name, source=source, path=path, type=F4, **fields)


# --- storages ------------------------------------------------------------------------------------------------


def test_a_result_that_may_alias_two_buffers_holds_both():
    either = l.ExternKernelAllocLine(op="lib.either.default", args=(A, B), result="e", type=F4, aliases=("a", "b"))
    for old in ("a", "b"):
        assert _found(either, _reuse(old), values=(BufferRef("e"),)) == [
            ("storage_has_one_owner", f"e still use(s) {old}'s storage")
        ]
    ended = (either, l.FreeLine(name="e"), _reuse("a"), _reuse("b", "m"))
    assert _found(*ended) == []


def test_an_undefined_alias_is_found():
    line = l.ExternKernelAllocLine(op="lib.alias.default", args=(), result="e", type=F4, aliases=("nowhere",))
    assert _found(line) == [("defined_before_use", "nowhere is not defined")]


def test_what_a_callee_passes_through_shares_the_operands_storage():
    call = l.InvokeSubgraphLine(result="p", function="same", operands=(A,))
    outer = Function(
        name="outer",
        inputs=(TensorInput(name="outer_x", type=F4),),
        lines=(
            l.InvokeSubgraphLine(result="outer_p", function="same", operands=(BufferRef("outer_x"),)),
            _element("outer_q", "outer_p"),
            l.ReturnLine(values=(BufferRef("outer_q"),)),
        ),
    )
    for name in ("same", "outer"):
        lines = (dataclasses.replace(call, function=name), _element("q"), l.FreeLine(name="p"), _reuse("a"))
        found = _found(*lines, values=(BufferRef("q"),), functions=(outer, SAME))
        assert found == [("storage_has_one_owner", "q still use(s) a's storage")]


def test_a_callees_own_result_does_not():
    builder = FunctionBuilder("fresh")
    builder.tensor("fresh_x", F4)
    fresh = builder.build(builder.allocate(F4, "fresh_a"))
    call = l.InvokeSubgraphLine(result="p", function="fresh", operands=(A,))
    assert _found(call, _element("q"), _reuse("a"), values=(BufferRef("q"),), functions=(fresh,)) == []


def test_a_pack_and_its_elements_lie_where_the_pack_may():
    pack = l.ExternKernelAllocLine(op="lib.split.default", args=(A,), result="p", aliases=("a",))
    lines = (pack, _element("q"), l.FreeLine(name="p"), _reuse("a"))
    assert _found(*lines, values=(BufferRef("q"),)) == [("storage_has_one_owner", "q still use(s) a's storage")]


def test_the_same_element_twice_is_one_tensor():
    pack = l.ExternKernelAllocLine(op="aten.sort.default", args=(A,), result="p")
    lines = (pack, _element("q"), _element("again"), _element("r", path=(1,)))
    assert _found(*lines, _reuse("r"), values=(BufferRef("q"),)) == []
    assert _found(*lines, _reuse("q"), values=(X,)) == [("storage_has_one_owner", "again still use(s) q's storage")]


def test_a_view_of_a_constant_is_not_taken_over():
    found = _found(
        l.ReinterpretLine(name="v", value=ConstantRef("c"), type=F4),
        _reuse("v"),
        constants=(Constant(name="c", type=F4, storage="k"),),
        storages=(Storage(key="k", nbytes=16),),
    )
    assert ("storage_has_one_owner", "v is on constant c") in found


def test_an_output_is_alive_at_the_return():
    assert _found(_reuse("a"), values=(A,)) == [("not_used_after_free", "a ended at line 2")]
    alias = l.ReinterpretLine(name="v", value=A, type=F4)
    assert _found(alias, _reuse("a"), values=(BufferRef("v"),)) == [
        ("storage_has_one_owner", "v still use(s) a's storage")
    ]


@pytest.mark.parametrize(
    ("value", "layout", "message"),
    [
        (A, contiguous((5,)), "v needs 20 bytes, a has 16"),
        (View(base=A, size=(4,), stride=(1,), offset=1), F4, "a view of a needs 20 bytes of 16"),
        (View(base=A, size=(2, 2), stride=(1, 3)), contiguous((2, 2)), "a view of a needs 20 bytes of 16"),
    ],
)
def test_aliases_fit_their_base(value, layout, message):
    assert _found(l.ReinterpretLine(name="v", value=value, type=layout)) == [("sizes_fit", message)]


def test_padding_gives_room():
    padded = l.AllocateLine(name="c", type=F4, allocation_size=(8,))
    assert _found(padded, l.ReuseLine(old="c", new="n", type=contiguous((8,)))) == []


# --- collectives ---------------------------------------------------------------------------------------------


def _gather(source=A, **fields):
    return l.CollectiveLine(op=GATHER, args=(source, Scalar(2)), result="g", type=contiguous((8,)), **fields)


def _wait(name):
    return l.CollectiveLine(op=WAIT, args=(BufferRef(name),), result=None, mutates=(name,))


def test_what_a_collective_reads_may_be_read_but_not_written():
    read, write = l.CopyLine(dst=B, src=A), l.CopyLine(dst=A, src=B)
    assert _found(_gather(), read, _wait("g")) == []
    assert _found(_gather(), _wait("g"), write) == []
    assert _found(_gather(), write, _wait("g")) == [("collectives_are_awaited", "a is in a collective since line 2")]
    message = "a is in a collective since line 2"
    assert ("collectives_are_awaited", message) not in _found(_gather(), l.FreeLine(name="a"), _wait("g"))


def test_a_collectives_result_is_neither_read_nor_written():
    read = l.CopyLine(dst=A, src=View(base=BufferRef("g"), size=(4,), stride=(1,)))
    message = "g is in a collective since line 2"
    assert ("collectives_are_awaited", message) in _found(_gather(), read, _wait("g"))
    assert _found(_gather(), _wait("g"), read) == []


def test_aliases_of_a_running_buffer_are_followed():
    alias = l.ReinterpretLine(name="v", value=A, type=F4)
    reduce = l.CollectiveLine(op="_c10d_functional.all_reduce_.default", args=(A,), result=None, mutates=("a",))
    read = l.CopyLine(dst=B, src=BufferRef("v"))
    assert _found(reduce, alias, read) == [("collectives_are_awaited", "v is in a collective since line 2")]
    assert _found(reduce, alias, _wait("v"), read) == []


def test_elements_of_a_coalesced_collective_are_awaited_one_by_one():
    start = l.CollectiveLine(op="_c10d_functional.all_gather_into_tensor_coalesced.default", args=(A, B), result="p")
    lines = (start, _element("q"), _element("r", path=(1,)), _wait("q"))
    assert _found(*lines, l.CopyLine(dst=X, src=BufferRef("q"))) == []
    assert _found(*lines, l.CopyLine(dst=X, src=BufferRef("r"))) == [
        ("collectives_are_awaited", "r is in a collective since line 2")
    ]


# --- kernels and functions -----------------------------------------------------------------------------------


def _call(kernel="cpp_add", args=(A, B, Scalar(1)), reads=("a",), writes=("b",)):
    return l.KernelCallLine(kernel=kernel, args=args, reads=reads, writes=writes, device=CPU)


def test_operands_have_their_parameters_dtypes():
    define = l.KernelDefinitionLine(kernel=KERNEL)
    whole = l.AllocateLine(name="i", type=contiguous((4,), torch.int32))
    message = "operand 0 of kernel cpp_add is of torch.int32, its parameter of torch.float32"
    wrong = _call(args=(BufferRef("i"), B, Scalar(1)), reads=("i",))
    assert _found(define, whole, wrong) == [("kernel_operands", message)]
    bits = View(base=BufferRef("i"), size=(4,), stride=(1,), dtype=torch.float32)
    assert _found(define, whole, _call(args=(bits, B, Scalar(1)), reads=("i",))) == []


def test_multi_kernels_are_called_like_their_choices():
    defined = (l.KernelDefinitionLine(kernel=TRITON), l.KernelDefinitionLine(kernel=MULTI))
    good = _call("multi", (A, Scalar(4)), ("a",), ("a",))
    assert _found(*defined, good) == []
    assert _found(*defined, _call("multi", (A,), ("a",), ("a",))) == [
        ("kernel_operands", "kernel multi takes 2 operands, got 1")
    ]


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ((), "the choices of kernel m are none"),
        (("m",), "choice m of kernel m is no single kernel"),
        (("nowhere",), "choice nowhere of kernel m is no single kernel"),
        (("cpp_add", "triton_poi"), "the choices of kernel m take different operands"),
    ],
)
def test_a_multi_kernel_needs_sound_choices(choices, message):
    kernels = (KERNEL, TRITON, MultiKernel(name="m", choices=choices))
    lines = [l.KernelDefinitionLine(kernel=kernel) for kernel in kernels]
    assert ("kernel_choices_exist", message) in _found(*lines, _call("m"))


def test_functions_get_tensors_for_tensors():
    call = l.InvokeSubgraphLine(result="p", function="same", operands=(Scalar(1),))
    message = "input given of function same is given the wrong kind of operand"
    assert _found(call, functions=(SAME,)) == [("calls_match", message)]


def test_a_loop_gives_carried_and_additional_operands():
    loop = l.WhileLoopLine(
        result="p", cond_function="same", body_function="same", carried=(A,), additional=(B,), stack_outputs=False
    )
    assert [rule for rule, _ in _found(loop, functions=(SAME,))] == ["calls_match", "calls_match"]


def test_recursion_through_others_is_found_and_ends():
    def calls(name, *callees):
        lines = [l.InvokeSubgraphLine(result=f"{name}_{callee}", function=callee, operands=()) for callee in callees]
        return Function(name=name, inputs=(), lines=(*lines, l.ReturnLine(values=())))

    functions = (calls("f", "g", "h"), calls("g", "h"), calls("h", "f"), calls("apart"))
    found = _found(functions=functions)
    assert found == [("calls_do_not_recur", f"function {name} calls itself") for name in "fgh"]


# --- kinds ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "kind"), [(ObjectRef("a"), "ObjectRef"), (NodeRef("a"), "NodeRef"), (ConstantRef("a"), "ConstantRef")]
)
def test_operands_name_their_kind(value, kind):
    line = l.ExternKernelAllocLine(op="lib.op.default", args=(value,), result=None)
    assert (f"a is mentioned as {kind}, which it is not") in [message for _, message in _found(line)]


def test_objects_are_mentioned_as_objects():
    program = _program(l.ExternKernelAllocLine(op="lib.op.default", args=(ObjectRef("g"),), result=None))
    main = dataclasses.replace(program.main, inputs=(*program.main.inputs, ObjectInput(name="g", kind="Generator")))
    verify(dataclasses.replace(program, main=main))


# --- the report ----------------------------------------------------------------------------------------------


def _error(*lines):
    with pytest.raises(VerifyError) as caught:
        verify(_program(*lines))
    return caught.value


def test_every_breach_is_listed():
    error = _error(*(l.FreeLine(name=f"n{number}") for number in range(14)))
    assert "breaks 14 rules" in error.what
    assert all(f"n{number} is not defined (function main, line {number + 2})" in error.where for number in range(14))


def test_lines_around_and_origin_are_shown():
    comments = [l.CommentLine(text=f"remark {number}") for number in range(9)]
    error = _error(*comments[:5], l.FreeLine(name="nowhere", origin=ORIGIN), *comments[5:])
    shown = [number for number in range(9) if f"remark {number}" in error.where]
    assert shown == [2, 3, 4, 5, 6, 7]
    assert ">    7  free nowhere" in error.where
    assert 'made by aten.mm, aten.relu at mo"del.py:12' in error.where


def test_work_grows_with_lines_and_not_their_square():
    small, large = _chain(500), _chain(2000)
    verify(large)
    assert calls_made(lambda: verify(large)) < 5 * calls_made(lambda: verify(small))


def _chain(lines):
    builder = FunctionBuilder()
    builder.add(l.KernelDefinitionLine(kernel=KERNEL))
    source = builder.tensor("x", F4)
    while len(builder.lines) < lines:
        target = builder.allocate(F4)
        names = {"reads": (source.name,), "writes": (target.name,)}
        builder.add(l.KernelCallLine(kernel="cpp_add", args=(source, target, Scalar(4)), device=CPU, **names))
        if source.name != "x":
            builder.free(source)
        source = target
    return builder.program(source)
