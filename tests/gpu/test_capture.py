"""Programs of CUDA graphs: captured, verified, printed and parsed, saved and loaded."""

from __future__ import annotations

import pytest
import torch

import kernelscope as ks
from kernelscope.ir.kernels import TritonKernel
from kernelscope.ir.parse import parse_program
from kernelscope.ir.verify import verify

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU on this machine"),
]

BLOCK = 128
_CONFIGS = [triton.Config({"BLOCK": 128}, num_warps=4), triton.Config({"BLOCK": 256}, num_warps=8)]


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < n
    tl.store(out_ptr + index, tl.load(x_ptr + index, mask=mask) + tl.load(y_ptr + index, mask=mask), mask=mask)


@triton.autotune(configs=_CONFIGS, key=["n"], restore_value=["x_ptr"])
@triton.jit
def double_kernel(x_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = index < n
    tl.store(x_ptr + index, 2 * tl.load(x_ptr + index, mask=mask), mask=mask)


def softmax(x):
    return torch.softmax(x * 2 + 1, dim=-1).sum(0)


def user_add(x, y):
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, out, x.numel(), BLOCK=BLOCK)
    return out * 2


def user_autotuned(x):
    y = x + 1
    double_kernel[lambda meta: (triton.cdiv(y.numel(), meta["BLOCK"]),)](y, y.numel())
    return y.cos()


def kernels_of(program):
    return {kernel.category: kernel for kernel in program.kernels() if isinstance(kernel, TritonKernel)}


def cuda(*size):
    return torch.randn(*size, device="cuda")


PROGRAMS = {
    "reduction": (softmax, lambda: (cuda(33, 1000),), False),
    "reduction, any size": (softmax, lambda: (cuda(33, 1000),), True),
    "product": (lambda x, w: torch.relu(x @ w), lambda: (cuda(64, 32), cuda(32, 16)), False),
    "user kernel": (user_add, lambda: (cuda(1000), cuda(1000)), False),
    "user kernel, any size": (user_add, lambda: (cuda(1000), cuda(1000)), True),
    "user kernel, autotuned": (user_autotuned, lambda: (cuda(1000),), False),
    "user kernel, autotuned, any size": (user_autotuned, lambda: (cuda(1000),), True),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_survives_its_forms(name, tmp_path):
    function, inputs, dynamic = PROGRAMS[name]
    program = ks.capture(function, *inputs(), dynamic=dynamic)
    verify(program.plain())
    assert parse_program(str(program)) == program.plain()
    program.save(tmp_path / "program.json")
    assert ks.Program.load(tmp_path / "program.json") == program


def test_user_kernel_keeps_all_its_configurations():
    kernel = kernels_of(ks.capture(user_autotuned, cuda(1000)))["user"]
    assert [(dict(config.meta), config.num_warps) for config in kernel.configs] == [
        ({"BLOCK": 128}, 4),
        ({"BLOCK": 256}, 8),
    ]
    assert kernel.restore_value == ("x_ptr",)
    assert kernel.autotune_key == ("n",)
    assert kernel.mutated == ("x_ptr",)
    assert len(kernel.grid.dims) == 2


def test_training_gives_two_programs():
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32)).cuda()
    programs = ks.capture_training(model, cuda(8, 16))
    assert [program.phase for program in programs] == ["forward", "backward"]
    for program in programs:
        verify(program.plain())
        assert parse_program(str(program)) == program.plain()
        assert kernels_of(program)
