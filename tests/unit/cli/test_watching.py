"""``kernelscope run`` with flags that watch values."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from kernelscope.cli.watching import size
from kernelscope.errors import OptionError

SCRIPT = """
import torch
fn = torch.compile(lambda x, w: torch.log(torch.relu(x @ w) - 1).sum(0))
fn(torch.ones(4, 4), torch.ones(4, 4) / 8)
print("done")
"""


def test_names_go_to_standard_output_in_order(run):
    done = run(SCRIPT, "--print", "names", "--quiet")
    lines = done.stdout.splitlines()
    assert lines[0] == "[ before_launch: aten.mm.out ]"
    assert lines[-1] == "done"
    assert done.returncode == 0


def test_records_are_json_lines(run, tmp_path):
    done = run(SCRIPT, "--json", "--out", "records.jsonl", "--kernels", "aten.mm", "--quiet")
    assert done.stdout == "done\n"
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert {record["subject"] for record in records} == {"aten.mm.out"}
    after = next(r for r in records if (r.get("moment"), r.get("label")) == ("after", "buf0"))
    assert after["value"]["statistics"]["max"] == 0.5


def test_a_fault_ends_the_script_and_is_named(run):
    done = run(SCRIPT, "--check", "nan")
    assert done.returncode == 1
    assert "are NaN (check nan)" in done.stderr
    assert "script.py:3" in done.stderr
    assert "Traceback" not in done.stderr


def test_tensors_are_saved(run, tmp_path):
    run(SCRIPT, "--save", "tensors", "--save-limit", "1MB", "--kernels", "aten.mm", "--quiet")
    files = list((tmp_path / "tensors").rglob("*after-aten.mm.out-buf0.pt"))
    assert [torch.load(file, weights_only=True).max().item() for file in files] == [0.5]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--kernels", "x"), "--kernels has nothing to apply to"),
        (("--print", "names", "--steps", "x"), "is no number"),
        (("--check", "nam"), "unknown check"),
        (("--save", "d", "--save-limit", "much"), "is no size"),
    ],
)
def test_wrong_flags_are_refused(run, flags, message):
    done = run("print('ran')", *flags)
    assert done.returncode != 0
    assert message in done.stderr
    assert "ran" not in done.stdout


@pytest.mark.parametrize(("text", "expected"), [("10", 10), ("2GiB", 2 << 30), ("1.5 kb", 1500)])
def test_sizes(text, expected):
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "GiB", "-1", "3 parsec"])
def test_no_sizes(text):
    with pytest.raises(OptionError, match="no size"):
        size(text)


def test_a_trace_is_shown(run, tmp_path):
    run(SCRIPT, "--trace", "trace", "--quiet")
    command = [sys.executable, "-m", "kernelscope.cli.main", "show", "trace"]

    def show(*options):
        return subprocess.run([*command, *options], capture_output=True, text=True, check=False, cwd=tmp_path)

    assert "aten.mm.out" in show().stdout
    assert "cpp_fused" not in show("--kernels", "aten.*").stdout
    assert {row["label"] for row in json.loads(show("--faults", "--json").stdout)} == {"buf1", "output0"}
    assert show("--sql", "SELECT count(*) AS n FROM programs").stdout.split() == ["n", "1"]
    wrong = show("--sql", "SELECT nothing")
    assert wrong.returncode == 2
    assert "docs/trace.md has the tables" in wrong.stderr


def test_a_folder_that_is_no_trace_is_refused(tmp_path):
    command = [sys.executable, "-m", "kernelscope.cli.main", "show", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "is no trace" in done.stderr
