"""Each rule of the verifier has a program that breaks it, and only it."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from kernelscope.errors import VerifyError
from kernelscope.ir import lines as l
from kernelscope.ir.builder import CPU, FunctionBuilder, contiguous
from kernelscope.ir.expr import symbol
from kernelscope.ir.program import Constant, Function, Storage, TensorInput
from kernelscope.ir.values import BufferRef, ConstantRef, Scalar, SymExpr, View
from kernelscope.ir.verify import FUNCTION_RULES, PROGRAM_RULES, verify
from tests.programs import KERNEL, MULTI, chain

F44 = contiguous((4, 4))
X, W = BufferRef("x"), BufferRef("w")


def _with(*lines, values=(X,), **fields):
    builder = chain()
    for line in lines:
        builder.add(line)
    return builder.program(*values, **fields)


def _call(**changes):
    given = {
        "kernel": "cpp_add",
        "args": (X, BufferRef("buf2"), Scalar(1)),
        "reads": ("x",),
        "writes": ("buf2",),
        "device": CPU,
    }
    return l.KernelCallLine(**{**given, **changes})


def _collective(op, **fields):
    return l.CollectiveLine(op=f"_c10d_functional.{op}.default", args=(BufferRef("buf2"),), **fields)


DEFINE = l.KernelDefinitionLine(kernel=KERNEL)
CALLEE = Function(
    name="f", inputs=(TensorInput(name="f_x", type=F44),), lines=(l.ReturnLine(values=(BufferRef("f_x"),)),)
)
PACK = l.ExternKernelAllocLine(op="aten.topk.default", args=(X, Scalar(2)), result="pack")

BROKEN = {
    "defined_before_use": _with(l.CopyLine(dst=X, src=BufferRef("nowhere"))),
    "not_used_after_free": _with(l.FreeLine(name="w"), l.CopyLine(dst=X, src=W)),
    "defined_once": _with(l.AllocateLine(name="buf2", type=F44)),
    "symbols_before_use": _with(l.AllocateLine(name="b", type=contiguous((symbol("s9"), 4)))),
    "returns_once": dataclasses.replace(chain().program(), main=Function(name="main", inputs=(), lines=())),
    "scopes_balance": _with(
        l.EnterDeviceLine(device=CPU), l.EnterStreamLine(stream=1), l.ExitDeviceLine(), l.ExitStreamLine()
    ),
    "kernels_before_call": _with(_call(), DEFINE),
    "kernel_operands": _with(DEFINE, _call(args=(X, BufferRef("buf2"), W), reads=("x",))),
    "kernel_effects": _with(DEFINE, _call(reads=("x", "buf2"))),
    "packs_and_tensors": _with(PACK, l.CopyLine(dst=X, src=BufferRef("pack"))),
    "storage_has_one_owner": _with(l.ReuseLine(old="x", new="b", type=F44), values=(W,)),
    "sizes_fit": _with(l.ReuseLine(old="buf2", new="b", type=contiguous((5, 4)))),
    "calls_match": _with(l.InvokeSubgraphLine(result="p", function="f", operands=(X, W)), functions=(CALLEE,)),
    "calls_do_not_recur": _with(
        functions=(
            dataclasses.replace(
                CALLEE,
                lines=(l.InvokeSubgraphLine(result="p", function="f", operands=(BufferRef("f_x"),)), *CALLEE.lines),
            ),
        ),
    ),
    "collectives_are_awaited": _with(
        _collective("all_reduce_", result=None, mutates=("buf2",)), l.CopyLine(dst=X, src=BufferRef("buf2"))
    ),
    "bindings_name_inputs": _with(l.BindSymbolLine(symbol=symbol("s1"), source="x", attribute="size", dim=7)),
    "names_are_unique": _with(functions=(CALLEE, CALLEE)),
    "references_name_their_kind": _with(l.CopyLine(dst=X, src=ConstantRef("w"))),
    "kernel_choices_exist": _with(l.KernelDefinitionLine(kernel=MULTI)),
    "probes_name_their_operands": _with(
        l.ProbeLine(number=0, moment="before", subject="k", call=0, operands=(X,), labels=("x",), written=("y",))
    ),
    "constants_have_storage": _with(
        constants=(Constant(name="c", type=F44, storage="k"),), storages=(Storage(key="k", nbytes=8),)
    ),
}


def test_good_programs_pass():
    verify(chain().program(X))
    verify(_with(DEFINE, _call()))
    verify(_with(l.InvokeSubgraphLine(result="p", function="f", operands=(X,)), functions=(CALLEE,)))
    verify(
        _with(
            _collective("all_reduce_", result=None, mutates=("buf2",)),
            _collective("wait_tensor", result="w2", mutates=("buf2",), type=F44),
            l.CopyLine(dst=X, src=BufferRef("buf2")),
        )
    )
    verify(_with(PACK, l.MultiOutputLine(name="top", source="pack", path=(0,), type=F44), values=(BufferRef("top"),)))


NONZERO = l.ExternKernelAllocLine(
    op="aten.nonzero.default", args=(X,), result="found", type=contiguous((symbol("u0"), 2), torch.int64)
)
COPY_OF_FOUND = l.AllocateLine(name="copy", type=contiguous((symbol("u0"), 2), torch.int64))


def test_size_of_a_result_is_known_after_the_call():
    size = l.UnbackedSymbolDefsLine(symbol=symbol("u0"), source="found", path=(("size", 0),))
    verify(_with(NONZERO, size, COPY_OF_FOUND))
    with pytest.raises(VerifyError, match="symbol u0 has no value"):
        verify(_with(NONZERO, COPY_OF_FOUND))


@pytest.mark.parametrize("rule", BROKEN)
def test_rule_is_enforced(rule):
    with pytest.raises(VerifyError) as caught:
        verify(BROKEN[rule])
    rules = {line.split("]")[0].lstrip("[") for line in caught.value.where.split("\n") if line.startswith("[")}
    assert rules == {rule}


def test_every_rule_has_a_program_that_breaks_it():
    assert {rule.__name__ for rule in (*PROGRAM_RULES, *FUNCTION_RULES)} <= set(BROKEN)


def test_error_shows_the_lines_around():
    with pytest.raises(VerifyError, match="nowhere is not defined") as caught:
        verify(BROKEN["defined_before_use"])
    assert "copy nowhere to x" in caught.value.where
    assert "aten.mm.out" in caught.value.where


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            (
                l.ReinterpretLine(name="v", value=BufferRef("buf2"), type=F44),
                l.ReuseLine(old="buf2", new="b", type=F44),
            ),
            "still use",
        ),
        ((l.ReuseLine(old="buf2", new="b", type=F44, delete_old=False),), "stays alive"),
        ((l.ReuseLine(old="buf2", new="b", type=contiguous((4, 4), torch.int32)),), "dtype"),
        ((l.CopyLine(dst=X, src=View(base=BufferRef("buf2"), size=(5, 4), stride=(4, 1))),), "80 bytes of 64"),
        ((l.EnterDeviceLine(device=CPU),), "never closed"),
        ((_call(),), "not defined"),
        ((DEFINE, _call(args=(X,))), "takes 3 operands"),
        ((l.InvokeSubgraphLine(result="p", function="g", operands=()),), "there is no function g"),
        ((l.MultiOutputLine(name="v", source="buf2", path=(0,), type=F44),), "taken apart"),
        ((l.BindSymbolLine(symbol=symbol("s1"), source="x", attribute="value"),), "no scalar input"),
    ],
)
def test_breaches_are_worded(lines, message):
    with pytest.raises(VerifyError) as caught:
        verify(_with(*lines))
    assert message in caught.value.where


def test_constant_is_not_taken_over():
    program = _with(
        l.ReuseLine(old="c", new="b", type=F44),
        constants=(Constant(name="c", type=F44, storage="k"),),
        storages=(Storage(key="k", nbytes=64),),
    )
    with pytest.raises(VerifyError) as caught:
        verify(program)
    assert "is a constant" in caught.value.where


def test_donated_input_may_be_taken_over():
    builder = FunctionBuilder()
    x = builder.tensor("x", F44, donated=True)
    verify(builder.program(builder.reuse(x, F44)))


def test_symbols_flow_through_lines():
    builder = FunctionBuilder()
    builder.scalar("n", symbol("s0"))
    builder.add(l.BindSymbolLine(symbol=symbol("s0"), source="n", attribute="value"))
    builder.add(l.SymbolicCallArgLine(symbol=symbol("s1"), expr=symbol("s0") * 2))
    verify(
        builder.program(
            SymExpr(symbol("s1")),
            ConstantRef("c"),
            constants=(Constant(name="c", type=F44, storage="k"),),
            storages=(Storage(key="k", nbytes=64),),
        )
    )
