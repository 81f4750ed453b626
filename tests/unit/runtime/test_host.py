"""What generated code calls."""

from __future__ import annotations

import pytest
import torch

from kernelscope.errors import CallError, UnsupportedError
from kernelscope.runtime import host
from kernelscope.runtime.native_module import hostcalls, tensor_offset


def test_direct_calls_have_the_bits_and_errors_of_torch():
    assert tensor_offset() is not None
    assert hostcalls() is not None
    a, b, c = torch.randn(3, 4), torch.randn(4, 5), torch.randn(5)
    with torch.no_grad():
        for name, args in (("mm", (a, b)), ("addmm", (c, a, b)), ("bmm", (a[None], b[None]))):
            out = getattr(torch, name)(*args) * 0
            call = host.operator(f"aten.{name}.out")
            assert call(*args, out=out) is out
            assert torch.equal(out, getattr(torch, name)(*args))
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            host.operator("aten.mm.out")(a, a, out=torch.empty(3, 3))
        with pytest.raises(TypeError):
            host.operator("aten.mm.out")(a, "b", out=torch.empty(3, 3))
        assert torch.equal(host.operator("aten.mm.out")(a, b, out=torch.nn.Parameter(torch.empty(3, 5))), a @ b)


def test_unknown_operator():
    with pytest.raises(UnsupportedError, match=r"nowhere\.op"):
        host.operator("nowhere.op.default")


def test_inputs_are_checked_the_same_natively_and_in_python():
    spec = ((0, "x", torch.float32, "cpu", (2, None), (3, 1)),)
    check = host.input_checker(1, spec)
    for good in (torch.zeros(2, 3), torch.zeros(2, 3).as_strided((2, 1), (3, 7)), torch.zeros(2, 0)):
        check([good])
        host.check_inputs([good], spec)
    for bad in (torch.zeros(3, 3), torch.zeros(2, 4), torch.zeros(2, 3).int(), torch.zeros(6), None):
        with pytest.raises(CallError, match=r"input 0 \(x\)"):
            check([bad])
        with pytest.raises(CallError):
            host.check_inputs([bad], spec)


@pytest.mark.parametrize("index", [-3, -1, 0, 2, 5])
def test_select_index(index):
    assert host.select_index(index, 4, clamp=True) == max(0, min(4, index + 4 if index < 0 else index))


@pytest.mark.parametrize("start", [-9, -2, 0, 3, 9])
@pytest.mark.parametrize("end", [-9, -1, 0, 4, 9])
@pytest.mark.parametrize("step", [1, 3])
def test_slice_length(start, end, step):
    assert host.slice_length(start, end, step, 7) == len(range(7)[start:end:step])


def test_while_loop_that_never_runs_clones():
    x = torch.ones(2)
    (result,) = host.while_loop(lambda args: (False,), lambda args: args, [x], [], stack=False)
    assert result is not x
    (stacked,) = host.while_loop(lambda args: (False,), lambda args: args, [x], [], stack=True)
    assert stacked.shape == (1, 2)


def test_divide_exactly():
    assert host.divide_exactly(8, 4) == 2
    with pytest.raises(AssertionError, match="not divisible"):
        host.divide_exactly(9, 4)


def test_misaligned_data_is_cloned():
    x = torch.zeros(5)[1:]
    assert host.align_input(x).data_ptr() % 16 == 0
    assert host.align_input(torch.zeros(4)).numel() == 4
