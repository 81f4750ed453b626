"""Collectives: a program of a process group of one, bit for bit against plain Inductor, on both targets."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

from kernelscope.ir.lines import CollectiveLine
from tests.e2e.harness import differences, fresh, run


@pytest.fixture(autouse=True)
def _group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with fresh():
            yield
    finally:
        dist.destroy_process_group()


def _all_reduce(x):
    return functional.all_reduce(x.sin(), "sum", dist.group.WORLD) + 1


def _all_gather(x):
    return functional.all_gather_tensor(x + 1, 0, dist.group.WORLD) * 2


def _reduce_scatter(x):
    return functional.reduce_scatter_tensor(x + 1, "sum", 0, dist.group.WORLD) * 2


@pytest.mark.parametrize("target", ["python", "interpreter"])
@pytest.mark.parametrize("model", [_all_reduce, _all_gather, _reduce_scatter])
def test_bits_of_collectives(model, target):
    def make():
        return model, (torch.randn(4, 3),), {}

    expected = run(make, "inductor", grad=False)
    found = run(make, "kernelscope", options={"target": target}, grad=False)
    assert differences(expected, found) == []
    lines = [line for program in found.programs for line in program.main.lines]
    assert any(isinstance(line, CollectiveLine) for line in lines)
