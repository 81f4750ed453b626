"""Texts of records; PyTorch's own printers are the oracle of theirs."""

from __future__ import annotations

import inspect
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kernelscope.errors import OptionError
from kernelscope.probe.formats import as_json, format_of, ours, torch_aoti, torch_jit, unravelled
from kernelscope.probe.look import SMALL, describe, plain_value, statistics_of, text_of
from kernelscope.probe.records import Event, Unwritten

TENSORS = {
    "vector": torch.tensor([1.5, -2.0, 0.25]),
    "integers": torch.arange(6).view(2, 3),
    "large": torch.linspace(-3, 7, 1000),
    "empty": torch.zeros(0, 3),
    "scalar": torch.tensor(3.0),
    "bool": torch.tensor([True, False]),
    "nan": torch.tensor([1.0, math.nan]),
    "infinite": torch.tensor([1.0, -math.inf]),
    "bfloat16": torch.linspace(0, 1, 8).bfloat16(),
    "transposed": torch.linspace(-1, 1, 12).view(3, 4).t(),
    "parameter": torch.nn.Parameter(torch.ones(2)),
    "uint8": torch.arange(5, dtype=torch.uint8),
    "double": torch.tensor([1 / 3], dtype=torch.float64),
}


def event(value, **fields):
    given = {"label": "arg0_1", "moment": "before", "subject": "k", "call": 0, **fields}
    plain = {"time_ns": 1, "process": 2, "thread": 3, "rank": 0, "program": "p", "step": 0, "order": 0}
    return Event(value=value, **plain, **given)


def record(tensor):
    import dataclasses

    found, why = statistics_of(tensor)
    base = describe(tensor)
    return dataclasses.replace(base, statistics=found, text=text_of(tensor), note=base.note or why)


PRINT = """
import ctypes, os, sys, torch
from tests.unit.probe.test_formats import TENSORS
library = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so"))
tensor = TENSORS[sys.argv[1]]
library.aoti_torch_print_tensor_handle(ctypes.byref(ctypes.c_void_p(tensor._cdata)), b"before_launch - k - arg0_1")
"""


def nan_without_sign(text):
    return text.replace("-nan", "nan")


@pytest.mark.parametrize("name", TENSORS)
def test_aoti_text_is_pytorchs(name):
    done = subprocess.run(
        [sys.executable, "-c", PRINT, name], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    tensor = TENSORS[name]
    assert nan_without_sign(f"{torch_aoti(event(record(tensor)), tensor)}\n") == nan_without_sign(done.stdout)


@pytest.mark.filterwarnings("ignore:std_mean")
@pytest.mark.parametrize("name", [name for name in TENSORS if name != "empty"])
def test_jit_text_is_pytorchs(name, capsys):
    from torch._inductor.codegen.debug_utils import _print_debugging_tensor_value_info

    if "std_mean" not in inspect.getsource(_print_debugging_tensor_value_info):
        pytest.skip("this version of PyTorch prints the mean as the dtype")
    tensor = TENSORS[name]
    _print_debugging_tensor_value_info("inductor: before_launch - k - arg0_1", tensor)
    assert f"{torch_jit(event(record(tensor)), tensor)}\n" == capsys.readouterr().out


def test_ours_shows_counts_and_finite_statistics():
    tensor = torch.tensor([1.0, math.nan, -3.0, math.inf])
    text = ours(event(record(tensor), moment="after"))
    assert text.startswith("[ after_launch - k - arg0_1 ]:\n")
    assert "[ CPUFloatType{4} ]" in text
    for line in ("Min value: -3", "Max value: 1", "Mean: -1", "NaN count: 1", "Inf count: 1", "Dtype: float32"):
        assert line in text.splitlines()


def test_large_tensors_show_where_extremes_are():
    tensor = torch.zeros(10, 100)
    tensor[3, 7], tensor[9, 99], tensor[2, 1] = 5, -4, math.nan
    lines = ours(event(record(tensor))).splitlines()
    assert "Max value: 5 (at [3, 7])" in lines
    assert "Min value: -4 (at [9, 99])" in lines
    assert "NaN count: 1 (first at [2, 1])" in lines


def test_complex_numbers_keep_their_imaginary_parts():
    assert "1.+2.j" in text_of(torch.tensor([1 + 2j]))


@pytest.mark.parametrize("value", [3, 2.5, True, None, "text", torch.float32, [1, None], torch.device("cpu")])
def test_values_that_are_no_tensors(value):
    assert repr(value) in ours(event(plain_value(value)))


def test_an_unwritten_output_is_not_read():
    text = ours(event(Unwritten((2, 3), "float32")))
    assert "(not yet written)" in text
    assert "Min" not in text


@pytest.mark.parametrize(
    "tensor",
    [
        torch.eye(3).to_sparse(),
        torch.empty(3, device="meta"),
        torch.nn.Buffer(torch.zeros(2)) if hasattr(torch.nn, "Buffer") else torch.zeros(2),
    ],
)
def test_tensors_without_values_are_described(tensor):
    assert ours(event(describe(tensor))).startswith("[ before_launch - k - arg0_1 ]:")


def test_subclasses_are_described():
    class Own(torch.Tensor):
        pass

    found = describe(torch.zeros(3).as_subclass(Own))
    assert found.type == "Own"
    assert "Own" in found.note


def test_json_is_one_line_and_reads_back():
    text = as_json(event(record(torch.tensor([1.0, 2.0]))))
    assert "\n" not in text
    read = json.loads(text)
    assert read["value"]["statistics"]["max"] == 2.0
    assert read["kind"] == "TensorRecord"


def test_positions():
    assert unravelled(107, (10, 100)) == (1, 7)
    assert unravelled(0, ()) == ()


def test_unknown_format():
    with pytest.raises(OptionError, match="unknown format"):
        format_of("xml")


def test_only_small_tensors_have_a_text():
    assert text_of(torch.zeros(SMALL))
    assert not text_of(torch.zeros(SMALL + 1))
