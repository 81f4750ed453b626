"""Statistics against float64 and against PyTorch's operators, on every dtype and layout."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelscope.probe import statistics as module
from kernelscope.probe.statistics import Statistics, statistics

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
BYTES = [
    dtype
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu")
    if (dtype := getattr(torch, name, None))
]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
OTHERS = [torch.bool, torch.uint16, torch.uint32, torch.uint64, torch.complex64, torch.complex128]


def of(dtype, *size):
    values = torch.randn(size) * 3
    if dtype in (torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool) or "e8m0" in str(dtype):
        values = values.abs()
    return values.to(dtype)


def near(found: Statistics, expected: Statistics, tolerance=2e-5):
    for field in ("count", "nan", "positive_inf", "negative_inf", "zero", "min", "max", "first_nan"):
        assert getattr(found, field) == getattr(expected, field), field
    for field in ("argmin", "argmax"):
        assert (getattr(found, field) is None) == (getattr(expected, field) is None)
    for field in ("mean", "std"):
        a, b = getattr(found, field), getattr(expected, field)
        assert (a is None) == (b is None)
        if a is not None:
            assert math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance * (1 + abs(expected.max)))


@pytest.mark.parametrize("dtype", [*FLOATS, *BYTES, *INTEGERS, *OTHERS])
@pytest.mark.parametrize("size", [(), (0,), (1,), (7,), (3, 5), (100, 131)])
def test_agrees_with_operators(dtype, size):
    tensor = of(dtype, *size)
    near(statistics(tensor), module._by_operators(tensor))


VIEWS = [
    lambda t: t.t(),
    lambda t: t[::2, 1::3],
    lambda t: t[:, :1].expand(-1, 50),
    lambda t: t[:1].expand(50, -1),
    lambda t: t.as_strided((90, 70), (1, 1)),
    lambda t: t[5:5],
    lambda t: t[3],
    lambda t: t.view(97, 13, 10).permute(2, 0, 1),
    lambda t: t.view(97, 13, 10)[:, 2:7].permute(1, 2, 0),
    lambda t: t.view(97, 1, 130, 1).transpose(0, 2),
]


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32])
@pytest.mark.parametrize("view", VIEWS)
def test_views_need_no_copy(dtype, view):
    tensor = view(of(dtype, 97, 130))
    found, copy = statistics(tensor), tensor.contiguous()
    near(found, statistics(copy))
    if tensor.numel():
        flat = copy.flatten()
        assert (flat[found.argmin].item(), flat[found.argmax].item()) == (found.min, found.max)


@pytest.mark.parametrize("view", VIEWS)
def test_the_first_nan_is_the_first_in_row_major_order(view):
    tensor = view(torch.zeros(97, 130).masked_fill(torch.rand(97, 130) < 0.01, math.nan))
    expected = tensor.isnan().flatten().nonzero()
    assert statistics(tensor).first_nan == (int(expected[0]) if len(expected) else None)


def test_the_hash_is_of_the_memory():
    tensor = torch.randn(50, 60)
    assert statistics(tensor).hash == statistics(tensor.t()).hash == statistics(tensor.view(-1)).hash
    assert statistics(tensor).hash != statistics(tensor.t().contiguous()).hash
    assert statistics(tensor[:, 3:9]).hash == statistics(tensor[:, 3:9].contiguous()).hash


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values_are_counted_and_spoil_nothing(dtype):
    tiny = torch.finfo(dtype).smallest_normal / 4
    tensor = torch.tensor([1.0, math.nan, math.inf, -math.inf, 0.0, -0.0, tiny, -2.0, math.nan], dtype=dtype)
    found = statistics(tensor)
    assert (found.nan, found.positive_inf, found.negative_inf) == (2, 1, 1)
    assert (found.zero, found.subnormal, found.first_nan) == (2, 1, 1)
    assert (found.min, found.max, found.argmin, found.argmax) == (-2.0, 1.0, 7, 0)
    assert found.mean == pytest.approx(-0.2, abs=1e-5)


def test_nothing_finite_has_no_moments():
    found = statistics(torch.full((5000,), math.nan))
    assert (found.nan, found.min, found.max, found.mean, found.std) == (5000, None, None, None, None)
    assert statistics(torch.tensor([3.0])).std is None


def test_mean_and_deviation_far_from_zero():
    tensor = torch.randn(200_000) + 10_000
    exact = tensor.double()
    found = statistics(tensor)
    assert found.mean == pytest.approx(exact.mean().item(), rel=2**-16)
    assert found.std == pytest.approx(exact.std().item(), rel=1e-3)


def test_deviation_when_blocks_differ():
    tensor = torch.cat((torch.zeros(4096) + 1e4, torch.randn(4096), torch.randn(9000) - 1e4))
    assert statistics(tensor).std == pytest.approx(tensor.double().std().item(), rel=1e-4)


@given(st.lists(st.floats(width=32), max_size=40))
def test_counts_of_any_floats(values):
    tensor = torch.tensor(values, dtype=torch.float32)
    found, expected = statistics(tensor), module._by_operators(tensor)
    assert [found.nan, found.positive_inf, found.negative_inf, found.zero, found.min, found.max] == [
        *(expected.nan, expected.positive_inf, expected.negative_inf, expected.zero, expected.min, expected.max)
    ]


def test_integers_are_exact():
    big = 2**62 + 1
    found = statistics(torch.tensor([big, -big, 5]))
    assert (found.min, found.max) == (-big, big)


@given(st.integers(0, 9999), st.integers(0, 31))
def test_every_bit_counts_in_the_hash(position, bit):
    tensor = torch.arange(10_000, dtype=torch.float32)
    changed = tensor.clone()
    changed.view(torch.int32)[position] ^= torch.tensor(1 << bit if bit < 31 else -(1 << 31)).to(torch.int32)
    assert statistics(tensor).hash != statistics(changed).hash


def test_order_counts_in_the_hash():
    tensor = torch.randn(20_000)
    hashes = {statistics(tensor.roll(shift)).hash for shift in (0, 1, 16, 32, 4096)}
    assert len(hashes) == 5
    assert statistics(torch.zeros(8)).hash != statistics(torch.zeros(9)).hash


def test_threads_give_the_same_hash_and_counts(monkeypatch):
    tensor = torch.randn(300_001)
    found = []
    for threads in (1, 2, 7):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        found.append(statistics(tensor))
    assert len({(one.hash, one.min, one.max, one.argmin, one.argmax) for one in found}) == 1
    assert found[0].mean == pytest.approx(found[2].mean, abs=1e-7)


@pytest.mark.filterwarnings("ignore:.*quantize.*deprecated")
def test_quantised_and_conjugate():
    quantised = torch.quantize_per_tensor(torch.tensor([0.5, -1.0]), 0.5, 0, torch.qint8)
    assert statistics(quantised).min == -1.0
    assert statistics(torch.tensor([3 + 4j]).conj()).max == 5.0
    assert statistics(torch.tensor([3 + 4j]).conj().imag).min == -4.0


def test_without_the_native_module_operators_do_the_work(monkeypatch):
    monkeypatch.setattr(module, "observe", lambda: None)
    found = statistics(torch.tensor([1.0, math.nan]))
    assert (found.nan, found.max, found.hash) == (1, 1.0, None)
