"""Checks of values: what they find, and what they say."""

from __future__ import annotations

import dataclasses
import math
import pickle

import pytest
import torch

from kernelscope.errors import KernelFault, OptionError
from kernelscope.ir import lines as l
from kernelscope.probe.checks import Checker, checks
from kernelscope.probe.look import describe
from kernelscope.probe.statistics import statistics
from tests.unit.probe.test_formats import event

ORIGIN = l.Origin(locations=(l.SourceLocation(file="model.py", line=7, function="f", text="y = x / 0"),))


def written(tensor, **fields):
    record = dataclasses.replace(describe(tensor), statistics=statistics(tensor))
    return event(record, **{"moment": "after", "written": True, "origin": ORIGIN, **fields}), tensor


@pytest.mark.parametrize(
    ("check", "tensor", "message"),
    [
        ("nan", torch.tensor([[1.0, 2.0], [3.0, math.nan]]), "1 of 4 elements are NaN"),
        ("inf", torch.tensor([math.inf, 1.0]), r"1 of 2 elements are \+Inf"),
        ("-inf", torch.tensor([1.0, -math.inf]), "1 of 2 elements are -Inf"),
        ("range:-1:1", torch.tensor([0.5, 2.0]), "greatest value 2 is above 1"),
        ("range:-1:1", torch.tensor([-7.0, 0.0]), "least value -7 is below -1"),
    ],
)
def test_a_breach_is_named(check, tensor, message):
    with pytest.raises(KernelFault, match=message) as caught:
        Checker(checks(check))(*written(tensor))
    fault = caught.value
    assert (fault.kernel, fault.argument, fault.inputs_clean) == ("k", "arg0_1", True)
    assert "model.py:7  y = x / 0" in str(fault)
    assert str(float(tensor[fault.index])) == str(fault.value)


@pytest.mark.parametrize(
    ("check", "tensor"),
    [("nan,inf", torch.tensor([1.0, -math.inf])), ("range:-1:1", torch.zeros(3)), ("nan", torch.zeros(0))],
)
def test_good_values_pass(check, tensor):
    Checker(checks(check))(*written(tensor))


def test_only_what_a_call_wrote_is_checked():
    checker = Checker(checks("nan"))
    bad = torch.tensor([math.nan])
    checker(*written(bad, written=False))
    checker(*written(bad, moment="inputs"))


def test_operands_that_were_bad_before_are_told():
    checker = Checker(checks("nan"))
    bad = torch.tensor([math.nan])
    checker(event(None, moment="before", label=""), None)
    checker(*written(bad, moment="before", label="arg7", written=False))
    with pytest.raises(KernelFault, match="operand arg7 broke the check before") as caught:
        checker(*written(bad))
    assert not caught.value.inputs_clean


def test_actions():
    recording = Checker(checks({"nan": "record"}))
    recording(*written(torch.tensor([math.nan])))
    assert [fault.check for fault in recording.faults] == ["nan"]
    with pytest.warns(UserWarning, match="elements are NaN"):
        Checker(checks({"nan": "warn"}))(*written(torch.tensor([math.nan])))


def test_functions():
    def no_negatives(tensor):
        return "a negative" if bool((tensor < 0).any()) else None

    checker = Checker(checks([no_negatives]))
    checker(*written(torch.ones(2)))
    with pytest.raises(KernelFault, match=r"a negative \(check no_negatives\)"):
        checker(*written(-torch.ones(2)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("nam", "unknown check"),
        ({"nan": "stop"}, "cannot"),
    ],
)
def test_wrong_checks_are_refused(given, message):
    with pytest.raises(OptionError, match=message):
        checks(given)


def test_a_fault_is_pickled():
    with pytest.raises(KernelFault) as caught:
        Checker(checks("nan"))(*written(torch.tensor([math.nan])))
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.index == (0,)


def test_growth_is_against_the_first_time():
    checker = Checker(checks("finite_growth:10"))
    for factor in (0.0, 1.0, 5.0, -9.0, 0.1):
        checker(*written(torch.tensor([factor, 0.5 * factor])))
    checker(*written(torch.tensor([1e6]), label="another"))
    said = r"the greatest magnitude 11 is 11 times what it was at first \(1\)"
    with pytest.raises(KernelFault, match=said) as caught:
        checker(*written(torch.tensor([3.0, -11.0])))
    assert (caught.value.index, caught.value.value) == ((1,), -11.0)


@pytest.mark.parametrize(
    "check", ["range", "range:1", "range:a:b", "range:1:2:3", "finite_growth:x", "finite_growth:1:2"]
)
def test_numbers_that_do_not_fit_are_refused(check):
    with pytest.raises(OptionError, match="not the numbers it needs"):
        checks(check)


def test_growth_has_a_factor_of_its_own():
    checker = Checker(checks("finite_growth"))
    checker(*written(torch.ones(1)))
    checker(*written(torch.full((1,), 1000.0)))
    with pytest.raises(KernelFault):
        checker(*written(torch.full((1,), 1001.0)))
