"""Models watched at every level: every call and value of every program appears, and no bit changes."""

from __future__ import annotations

import io

import pytest

import kernelscope as ks
from kernelscope.ir.calls import calls
from tests.e2e.harness import differences, fresh, run
from tests.e2e.zoo import ZOO
from tests.seen import not_as_called

TARGETS = ("python", "interpreter")
(BERT,) = (model for model in ZOO if model.name == "bert")
OTHERS = [model for model in ZOO if model is not BERT]
RUNS = [pytest.param(False, id="inference"), pytest.param(True, id="training", marks=pytest.mark.training)]


def _run(model, target, *, train):
    return run(model.make, "kernelscope", options={"target": target}, train=train, grad=train)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("train", RUNS)
def test_every_call_and_value_of_a_transformer_appears(target, train):
    with fresh(), ks.scope() as scope:
        _run(BERT, target, train=train)
    phases = {program.phase for program in scope.programs.values()}
    assert phases == ({"forward", "backward"} if train else {"inference"})
    assert sum(len(calls(program)) for program in scope.programs.values()) > 20
    assert not_as_called(scope) == []


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
    _check_bits(BERT, target, tmp_path, train=train)


@pytest.mark.zoo
@pytest.mark.parametrize("model", OTHERS, ids=lambda model: model.name)
def test_zoo_inference_bits_do_not_change(model, tmp_path):
    _check_bits(model, "python", tmp_path, train=False)


@pytest.mark.zoo
@pytest.mark.training
@pytest.mark.parametrize("model", [model for model in OTHERS if model.trains], ids=lambda model: model.name)
def test_zoo_training_bits_do_not_change(model, tmp_path):
    _check_bits(model, "python", tmp_path, train=True)
