"""Models of many architectures: the bits of plain Inductor, alone from a file, within Inductor's memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kernelscope.ir.parse import parse_program
from kernelscope.ir.serialize import save
from kernelscope.ir.text import print_program
from kernelscope.passes.memory_report import memory_report
from tests.e2e.harness import bits, differences, fresh, recorded_calls, run
from tests.e2e.inductor_peak import inductor_plan
from tests.e2e.zoo import ZOO

RUNNER = Path(__file__).parent / "run_program.py"


def _models(*, trains: bool, quick: bool):
    return [model for model in ZOO if model.quick == quick and (model.trains or not trains)]


def _check(model, *, train):
    with fresh():
        expected = run(model.make, "inductor", train=train, grad=train)
        with recorded_calls() as calls:
            found = run(model.make, "kernelscope", train=train, grad=train)
        found.calls = calls
    assert found.programs
    assert differences(expected, found) == []
    for captured, program in zip(found.captured, found.programs, strict=True):
        assert parse_program(print_program(program)) == program
        _check_memory(captured, program)
    return found


def _check_memory(captured, program):
    """No plan of separate storages needs less than the captured program does without any reuse."""
    report = memory_report(program)
    assert all(function.violations == () for function in report.functions)
    assert report.main.peak_bytes <= memory_report(captured).main.peak_bytes
    assert report.main.peak_bytes <= memory_report(inductor_plan(captured)).main.peak_bytes
    assert report.main.max_live_bytes <= report.main.peak_bytes


def _check_alone(found, folder):
    """Each program runs with the same bits in a process that never loads PyTorch's compiler."""
    for index, (program, call) in enumerate(zip(found.programs, found.calls, strict=True)):
        save(program, folder / f"{index}.json")
        torch.save(call, folder / f"{index}.pt")
    done = subprocess.run(
        [sys.executable, str(RUNNER), str(folder)], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("model", _models(trains=False, quick=True), ids=lambda model: model.name)
def test_inference(model, tmp_path):
    _check_alone(_check(model, train=False), tmp_path)


@pytest.mark.training
@pytest.mark.parametrize("model", _models(trains=True, quick=True)[:3], ids=lambda model: model.name)
def test_training(model):
    _check(model, train=True)


@pytest.mark.zoo
@pytest.mark.parametrize("model", _models(trains=False, quick=False), ids=lambda model: model.name)
def test_zoo_inference(model, tmp_path):
    _check_alone(_check(model, train=False), tmp_path)


@pytest.mark.zoo
@pytest.mark.training
@pytest.mark.parametrize("model", [model for model in ZOO if model.trains][3:], ids=lambda model: model.name)
def test_zoo_training(model, tmp_path):
    _check_alone(_check(model, train=True), tmp_path)


def test_bits_tell_nans_apart():
    assert bits(torch.tensor([float("nan")])) != bits(torch.tensor([-float("nan")]))
