"""What generated code calls."""

from __future__ import annotations

import ctypes
import sys

import pytest
import torch

from kernelscope import config
from kernelscope.errors import CallError, UnsupportedError
from kernelscope.runtime import host, native_module
from kernelscope.runtime.native_module import hostcalls, tensor_offset
from tests.threads import in_threads


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


DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "sizes", [(1, 64, 64), (7, 5, 3), (16, 64, 192), (2, 1, 1), (0, 3, 4), (3, 0, 4), (64, 64, 64)]
)
def test_bits_of_products(dtype, sizes):
    rows, inner, columns = sizes
    torch.manual_seed(0)
    a, weight = torch.randn(rows, inner, dtype=dtype), torch.randn(columns, inner, dtype=dtype)
    bias, full = torch.randn(columns, dtype=dtype), torch.randn(rows, columns, dtype=dtype)
    spaced = torch.randn(columns, 2, dtype=dtype)[:, 0]
    with torch.no_grad():
        for b in (weight.t(), weight.t().contiguous()):
            expected = torch.mm(a, b, out=torch.empty(rows, columns, dtype=dtype))
            assert same(host.operator("aten.mm.out")(a, b, out=full.clone()), expected)
            for added in (bias, full, spaced, bias[:1], torch.nn.Parameter(bias), bias[None], torch._neg_view(bias)):
                expected = torch.addmm(added, a, b, out=torch.empty(rows, columns, dtype=dtype))
                assert same(host.operator("aten.addmm.out")(added, a, b, out=full.clone()), expected)
                strided = [torch.empty(columns, rows, dtype=dtype).t() for _ in range(2)]
                expected = torch.addmm(added, a, b, out=strided[0])
                assert same(host.operator("aten.addmm.out")(added, a, b, out=strided[1]), expected)
            batched = torch.baddbmm(full[None], a[None], b[None], out=torch.empty(1, rows, columns, dtype=dtype))
            assert same(
                host.operator("aten.baddbmm.out")(full[None], a[None], b[None], out=full[None].clone()), batched
            )


def same(found, expected):
    return found.shape == expected.shape and torch.equal(bits(found), bits(expected))


def bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def test_bits_of_a_large_product():
    a, b, c = torch.randn(300, 200), torch.randn(200, 100), torch.randn(100)
    with torch.no_grad():
        assert same(host.operator("aten.addmm.out")(c, a, b, out=torch.empty(300, 100)), torch.addmm(c, a, b))
        assert same(host.operator("aten.mm.out")(a, b, out=torch.empty(300, 100)), torch.mm(a, b))


def test_a_bias_that_shares_memory_with_the_result():
    a, b, memory = torch.randn(3, 4), torch.randn(4, 3), torch.randn(9)
    results = []
    with torch.no_grad():
        for call in (torch.addmm, host.operator("aten.addmm.out")):
            own = memory.clone()
            try:
                results.append(call(own[3:6], a, b, out=own.view(3, 3)).tolist())
            except RuntimeError as error:
                results.append(str(error))
    assert results[0] == results[1]


def test_other_arguments_go_to_torch():
    a, b, c = torch.randn(2, 2), torch.randn(2, 2), torch.randn(2)
    with torch.no_grad():
        addmm = host.operator("aten.addmm.out")
        assert same(addmm(c, a, b, alpha=2, beta=3, out=torch.empty(2, 2)), torch.addmm(c, a, b, alpha=2, beta=3))
        assert same(
            addmm(c.int(), a.int(), b.int(), out=torch.empty(2, 2).int()), torch.addmm(c.int(), a.int(), b.int())
        )
        with pytest.raises(RuntimeError, match="dtype"):
            addmm(c.double(), a, b, out=torch.empty(2, 2))
        sparse = torch.eye(2).to_sparse()
        assert torch.equal(host.operator("aten.mm.out")(sparse, a, out=torch.empty(2, 2)), a)


def test_nothing_is_recorded_for_autograd():
    weight = torch.nn.Parameter(torch.randn(2, 2))
    for name, args in (("mm", (weight, weight)), ("addmm", (weight[0], weight, weight)), ("addmm", (weight,) * 3)):
        out = host.operator(f"aten.{name}.out")(*args, out=torch.empty(2, 2))
        assert not out.requires_grad
        assert torch.is_grad_enabled()


def test_threads_share_the_calls():
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    expected, failures = a @ b, []

    def work():
        out = torch.empty(64, 64)
        with torch.no_grad():
            for _ in range(200):
                if not torch.equal(host.operator("aten.mm.out")(a, b, out=out), expected):
                    failures.append(1)

    in_threads(4, work)
    assert not failures


def test_without_the_native_module_torch_does_the_work(monkeypatch):
    monkeypatch.setattr(host, "hostcalls", lambda: None)
    assert host.operator("aten.mm.out") is torch.mm
    check = host.input_checker(1, ((0, "x", torch.float32, "cpu", (2,), (1,)),))
    check([torch.zeros(2)])
    with pytest.raises(CallError, match=r"input 0 \(x\)"):
        check([torch.zeros(3)])


def test_a_native_module_that_cannot_be_built_is_done_without(tmp_path, caplog):
    calls = native_module.NativeModule(native_module._build_hostcalls, "host calls stay in Python")
    with config.override(cache_dir=tmp_path, cxx="no-such-compiler"):
        assert calls.wait() is None
        assert calls.wait() is None
    assert caplog.text.count("host calls stay in Python") == 1


def test_a_tensors_place_is_found():
    offset = native_module.tensor_offset()
    tensor = torch.zeros(3)
    assert ctypes.c_void_p.from_address(id(tensor) + offset).value == tensor._cdata


def test_the_number_of_inputs_is_checked():
    check = host.input_checker(2, ())
    check([1, 2])
    with pytest.raises(CallError, match="takes 2 inputs, got 3"):
        check([1, 2, 3])


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.complex64, torch.bool])
def test_views(dtype):
    plain = torch._C._dynamo.guards._reinterpret_tensor
    base = torch.arange(24).to(dtype).view(4, 6)[1:]
    for arguments in (((3, 2), (2, 1), 0), ((2,), (3,), 7), ((), (), 5), ((0, 3), (3, 1), 0)):
        expected, found = plain(base, *arguments), host.reinterpret_tensor(base, *arguments)
        assert torch.equal(found, expected)
        assert found.stride() == expected.stride()
        assert found.storage_offset() == expected.storage_offset()
        assert found.data_ptr() == expected.data_ptr()
        assert found.dtype is dtype
    parameter = torch.nn.Parameter(torch.zeros(4))
    assert host.reinterpret_tensor(parameter, (2, 2), (2, 1), 0).requires_grad is False
    assert type(host.reinterpret_tensor(parameter, (2, 2), (2, 1), 0)) is torch.Tensor


def test_views_keep_their_memory_and_let_it_go():
    base = torch.arange(1000.0)
    cdata = base.untyped_storage()._cdata
    before = sys.getrefcount(base), torch._C._storage_Use_Count(cdata)
    for _ in range(100):
        host.reinterpret_tensor(base, (10,), (1,), 0)
    assert (sys.getrefcount(base), torch._C._storage_Use_Count(cdata)) == before
    view = host.reinterpret_tensor(base, (10,), (1,), 5)
    del base
    assert view.tolist() == list(range(5, 15))


@pytest.mark.parametrize("arguments", [(None, (1,), (1,), 0), ("x",), (torch.zeros(1), (1,), (1,), "x")])
def test_views_of_what_is_no_tensor(arguments):
    with pytest.raises((TypeError, RuntimeError)):  # the words are PyTorch's, and so is the kind
        host.reinterpret_tensor(*arguments)
    with pytest.raises(RuntimeError, match=r"dimensionality|mismatch in length"):
        host.reinterpret_tensor(torch.zeros(4), (2, 2), (1,), 0)


def test_the_module_has_no_other_lazy_names():
    with pytest.raises(AttributeError, match="nothing_here"):
        host.nothing_here  # noqa: B018
