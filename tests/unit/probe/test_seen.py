"""Events are made of what was taken between launches when they are read; the log keeps the last of them."""

from __future__ import annotations

import gc
import math

import pytest
import torch

from kernelscope.probe.look import describe
from kernelscope.probe.raw import looker, unpacked
from kernelscope.probe.records import TensorRecord, Unwritten
from kernelscope.probe.seen import EventLog
from kernelscope.probe.statistics import statistics
from tests.seen import seen
from tests.unit.probe.test_statistics import BYTES, FLOATS, INTEGERS

WANTED, WRITTEN, UNWRITTEN = 1, 2, 4


def step(whole=-1):
    native, _ = looker()
    return native.Step(2, whole)


def refuse(index, value):
    raise AssertionError((index, value))


def raw(tensor, held=None):
    (item,) = (held or step()).look((tensor,), bytes([WANTED]), False, refuse)
    return item


@pytest.mark.parametrize("dtype", [*FLOATS, *BYTES, *INTEGERS, torch.bool])
@pytest.mark.parametrize("view", [lambda t: t, lambda t: t.t(), lambda t: t[1:, ::2], lambda t: t[:0]])
def test_a_packed_record_is_the_record(dtype, view):
    tensor = view((torch.randn(20, 33).abs() * 3).to(dtype))
    expected = describe(tensor)
    found = unpacked(raw(tensor))
    for field in TensorRecord.__slots__:
        wanted = statistics(tensor) if field == "statistics" else getattr(expected, field)
        assert getattr(found, field) == wanted, field


def test_parameters_are_told_apart():
    found = unpacked(raw(torch.nn.Parameter(torch.ones(2))))
    assert (found.type, found.requires_grad) == ("Parameter", True)


def test_what_is_no_plain_tensor_of_the_cpu_is_left_to_python():
    others = [
        torch.ones(2).to_sparse(),
        torch.ones(2, device="meta"),
        torch.ones(2, dtype=torch.complex64),
        torch.imag(torch.ones(2, dtype=torch.complex64).conj()),
        [torch.ones(1), torch.float32],
        [[torch.ones(1)]],
        [2, 3],
        torch.float32,
    ]
    asked = []
    found = step().look(tuple(others), bytes([WANTED] * len(others)), False, lambda i, value: asked.append(i) or [])
    assert asked == list(range(len(others)))
    assert found == ([],) * len(others)
    assert step().look((1, 2.5, True, None, "x"), bytes([WANTED] * 5), False, refuse) == (1, 2.5, True, None, "x")


def test_small_tensors_can_be_left_to_python():
    asked = []
    step(whole=4).look((torch.ones(4), torch.ones(5)), bytes([WANTED] * 2), False, lambda i, value: asked.append(i))
    assert asked == [0]


def test_unwritten_tensors_are_not_read():
    held, tensor = step(), torch.ones(4, 2)
    (item,) = held.look((tensor,), bytes([WANTED | UNWRITTEN]), False, refuse)
    assert unpacked(item) == Unwritten((4, 2), "float32")
    tensor.fill_(3)
    assert unpacked(raw(tensor, held)).statistics.max == 3


@pytest.mark.parametrize("kind", [list, tuple])
def test_lists_of_tensors_are_taken_apart(kind):
    values = kind((torch.ones(2), None, torch.zeros(3), 7))
    (item,) = step().look((values,), bytes([WANTED]), False, refuse)
    (log := EventLog(99)).append(seen(item))
    assert [event.label for event in log] == [f"arg0_1[{index}]" for index in range(4)]
    assert [event.value.type for event in log] == ["Tensor", "NoneType", "Tensor", "int"]
    assert log[0].value.statistics.max == 1


def test_views_in_another_order_share_what_is_found():
    held, tensor = step(), torch.arange(600.0).reshape(20, 30)
    whole = unpacked(raw(tensor, held)).statistics
    tensor[3, 4] = 1000  # nobody said that it was written
    turned = unpacked(raw(tensor.t(), held)).statistics
    assert (whole.argmax, turned.argmax, turned.max) == (599, 599, 599)
    held.clear()
    assert unpacked(raw(tensor.t(), held)).statistics.argmax == 4 * 20 + 3


def test_a_record_holds_until_its_storage_is_written():
    held, tensor = step(), torch.zeros(100)
    assert unpacked(raw(tensor, held)).statistics.max == 0
    tensor.fill_(1)
    assert unpacked(raw(tensor.view(10, 10), held)).statistics.max == 0  # nobody said that it was written
    (item,) = held.look((tensor[5:],), bytes([WANTED | WRITTEN]), True, refuse)
    assert unpacked(item).statistics.max == 1
    assert unpacked(raw(tensor, held)).statistics.max == 1
    tensor.fill_(2)
    held.look(([tensor],), bytes([WRITTEN]), True, refuse)  # in a list, and not wanted
    assert unpacked(raw(tensor, held)).statistics.max == 2
    tensor.fill_(3)
    held.clear()
    assert unpacked(raw(tensor, held)).statistics.max == 3


def test_views_of_one_storage_are_told_apart():
    held, tensor = step(), torch.arange(100.0)
    assert unpacked(raw(tensor, held)).statistics.max == 99
    assert unpacked(raw(tensor[:50], held)).statistics.max == 49
    assert unpacked(raw(tensor[50:], held)).statistics.min == 50
    assert unpacked(raw(tensor.view(10, 10).t(), held)).statistics.argmax == 99
    assert unpacked(raw(tensor.view(torch.int32), held)).dtype == "int32"


def test_bad_arguments_are_refused():
    with pytest.raises(TypeError, match="a byte for each value"):
        step().look((1, 2), b"\1", False, refuse)
    with pytest.raises(ZeroDivisionError):
        step().look((object(),), b"\1", False, lambda index, value: 1 / 0)


def test_the_log_keeps_the_last():
    log = EventLog(10)
    for number in range(30):
        log.append(seen(number, moment="before", step=number))  # the call itself, and its value
    assert (len(log), log.dropped) == (10, 50)
    assert [event.step for event in log] == [step for step in range(25, 30) for _ in range(2)]
    assert log[-1].value.text == "29"
    assert [event.label for event in log[:2]] == ["", "arg0_1"]
    assert log[0] is log[0]
    log.clear()
    assert not log
    assert log.dropped == 50


def test_an_event_larger_than_the_log_stays():
    log = EventLog(2)
    log.append(seen(1, 2, 3, 4))
    assert len(log) == 4


def test_records_cost_the_garbage_collector_nothing():
    item = raw(torch.tensor([1.0, math.nan]))
    kept = (item, 7, "s0")
    gc.collect()
    assert not gc.is_tracked(kept)
