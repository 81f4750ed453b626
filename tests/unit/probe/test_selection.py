"""Which calls a selection wants."""

from __future__ import annotations

import pytest

from kernelscope.errors import OptionError
from kernelscope.ir import lines as l
from kernelscope.ir.calls import Call, Operand
from kernelscope.ir.values import BufferRef
from kernelscope.probe.selection import Selection, matches, patterns

PLACE = l.SourceLocation(file="/home/me/model.py", line=12, function="forward", text="x.softmax(-1)")


def call(subject="cpp_fused_softmax_0", kind="kernel", labels=("buf0", "arg0_1")):
    line = l.KernelCallLine(
        kernel=subject,
        args=(),
        reads=(),
        writes=(),
        device=None,
        origin=l.Origin(ops=("aten.softmax", "aten.add"), locations=(PLACE,)),
    )
    operands = tuple(Operand(label, BufferRef(label)) for label in labels)
    return Call(
        number=0,
        function="main",
        index=0,
        kind=kind,
        subject=subject,
        operands=operands,
        results=(),
        reads=(),
        written=(),
        line=line,
    )


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, True),
        ({"kernels": "cpp_fused_softmax_0"}, True),
        ({"kernels": "CPP_fused_Softmax_0"}, True),
        ({"kernels": "other, cpp_fused_softmax_0"}, True),
        ({"kernels": "cpp_fused_softmax"}, False),
        ({"kernels": "cpp_*"}, True),
        ({"kernels": "/soft|norm/"}, True),
        ({"kernels": "/^soft/"}, False),
        ({"kernels": "cpp_*", "exclude": "*softmax*"}, False),
        ({"operators": "aten.softmax"}, True),
        ({"operators": "aten.mul"}, False),
        ({"sources": "model.py"}, True),
        ({"sources": "model.py:12"}, True),
        ({"sources": "me/model.py:10-20"}, True),
        ({"sources": "model.py:13"}, False),
        ({"sources": "del.py"}, False),
        ({"buffers": "buf*"}, True),
        ({"buffers": "buf7"}, False),
    ],
)
def test_calls(wanted, expected):
    assert Selection(**{name: patterns(text) for name, text in wanted.items()}).wants_call(call()) is expected


def test_an_operator_is_known_without_its_overload():
    for name in ("aten.mm", "aten.mm.out"):
        assert Selection(kernels=(name,)).wants_call(call("aten.mm.out", "operator"))


def test_tensors_and_steps():
    assert Selection(dtypes=("float32",)).wants_tensor("float32", "cpu")
    assert not Selection(dtypes=("float*",)).wants_tensor("int64", "cpu")
    assert Selection(devices=("cuda",)).wants_tensor("float32", "cuda:1")
    assert [step for step in range(9) if Selection(steps=("2", "5-7")).wants_step(step)] == [2, 5, 6, 7]


def test_bad_patterns_are_refused():
    with pytest.raises(OptionError, match="no regular expression"):
        patterns("/(/")
    with pytest.raises(OptionError, match="no number"):
        Selection(steps=("x",)).wants_step(0)


def test_texts_and_sequences():
    assert patterns(" a, b,,") == ("a", "b")
    assert patterns(["a,b"]) == ("a,b",)
    assert patterns("/a{1,2}/") == ("/a{1,2}/",)
    assert not matches("anything", ())
