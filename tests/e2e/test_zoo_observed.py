"""Models watched at every level: every call and value of every program appears, and no bit changes."""

from __future__ import annotations

import io
from collections import defaultdict

import pytest

import kernelscope as ks
from kernelscope.ir.calls import calls
from kernelscope.probe.records import TensorRecord
from tests.e2e.harness import differences, fresh, run
from tests.e2e.zoo import ZOO

TARGETS = ("python", "interpreter")
MODELS = {model.name: model for model in ZOO}
RUNS = [pytest.param(False, id="inference"), pytest.param(True, id="training", marks=pytest.mark.training)]


def _run(model, target, *, train):
    return run(model.make, "kernelscope", options={"target": target}, train=train, grad=train)


def _not_observed(scope):
    """What the programs of a scope pass or make that no event shows, and tensors without statistics."""
    shown = defaultdict(set)
    for event in scope.events:
        shown[event.program, event.call, event.moment].add(event.label.split("[")[0])
    missing = []
    for key, program in scope.programs.items():
        for call in calls(program):
            for moment in ("before", "after"):
                wanted = {operand.label for operand in (*call.operands, *(call.results if moment == "after" else ()))}
                missing += [(call.subject, moment, label) for label in wanted - shown[key, call.number, moment]]
    tensors = [event for event in scope.events if isinstance(event.value, TensorRecord)]
    return missing + [(event.subject, event.moment, event.label) for event in tensors if not event.value.statistics]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("train", RUNS)
def test_every_call_and_value_of_a_transformer_appears(target, train):
    with fresh(), ks.scope() as scope:
        _run(MODELS["bert"], target, train=train)
    phases = {program.phase for program in scope.programs.values()}
    assert phases == ({"forward", "backward"} if train else {"inference"})
    assert sum(len(calls(program)) for program in scope.programs.values()) > 20
    assert _not_observed(scope) == []


def _check_bits(model, target, folder, *, train):
    with fresh():
        expected = _run(model, target, train=train)
        levels = {"print": "values", "out": io.StringIO(), "save": folder / "saved", "trace": folder / "trace"}
        with ks.scope(**levels):
            found = _run(model, target, train=train)
    assert differences(expected, found) == []


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("train", RUNS)
def test_bits_do_not_change(target, train, tmp_path):
    _check_bits(MODELS["bert"], target, tmp_path, train=train)


@pytest.mark.zoo
@pytest.mark.parametrize("model", ZOO, ids=lambda model: model.name)
def test_zoo_bits_do_not_change(model, tmp_path):
    _check_bits(model, "python", tmp_path, train=model.trains)
