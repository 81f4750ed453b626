"""Watching compiled programs: every value appears, and nothing about the program changes."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest
import torch

import kernelscope as ks
from kernelscope.errors import KernelFault, OptionError
from kernelscope.probe.records import TensorRecord, Unwritten
from tests.seen import not_as_called
from tests.threads import in_threads

pytestmark = pytest.mark.usefixtures("clean_compiler")
TARGETS = ("python", "interpreter")


def same(expected, found):
    return all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))


def model(x, w):
    a = torch.relu(x @ w)
    values, indices = torch.topk(a.softmax(-1), 2)
    return values + 1, indices, a.sum(0)


def inputs():
    torch.manual_seed(0)
    return torch.randn(4, 4), torch.randn(4, 4)


def compiled(function=model, target="python", **options):
    return torch.compile(function, backend="kernelscope", options={"target": target}, **options)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("level", [None, "names", "stats", "values"])
def test_bits_do_not_change(target, level):
    fn = compiled(target=target)
    expected = fn(*inputs())
    with ks.scope(print=level, out=io.StringIO()):
        assert same(expected, fn(*inputs()))
    assert same(expected, fn(*inputs()))


@pytest.mark.parametrize("target", TARGETS)
def test_every_call_and_value_appears(target):
    fn = compiled(target=target)
    with ks.scope() as scope:
        fn(*inputs())
    assert len(scope.programs) == 1
    assert not_as_called(scope) == []


def test_targets_give_equal_records():
    found = []
    for target in TARGETS:
        torch._dynamo.reset()
        with ks.scope(print="values", out=io.StringIO()) as scope:
            compiled(target=target)(*inputs())
        found.append([(e.order, e.call, e.moment, e.subject, e.label, _value(e.value)) for e in scope.events])
    assert found[0] == found[1]


def _value(value):
    return (value.statistics, value.text) if isinstance(value, TensorRecord) else value


def test_outputs_are_unwritten_before_and_written_after():
    with ks.scope() as scope:
        compiled()(*inputs())
    product = [event for event in scope.events if event.subject == "aten.mm.out" and event.label == "buf0"]
    assert [type(event.value) for event in product] == [Unwritten, TensorRecord]
    assert all(event.written for event in product)
    assert product[1].value.statistics.max == pytest.approx((inputs()[0] @ inputs()[1]).max().item())


def test_training_shows_both_programs():
    layer = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    fn = compiled(layer)
    with ks.scope() as scope:
        fn(inputs()[0]).sum().backward()
    assert {program.phase for program in scope.programs.values()} == {"forward", "backward"}
    labels = {event.label for event in scope.events}
    assert any(label.startswith("primals_") for label in labels)
    assert any(label.startswith("tangents_") for label in labels)


def test_sizes_have_names_and_values():
    with ks.scope() as scope:
        compiled(dynamic=True)(*inputs())
    shown = {event.label: event.value.text for event in scope.events if event.label.startswith("s")}
    assert "4" in shown.values()


def test_statistics_are_those_of_the_moment():
    def changing(x):
        x.add_(1)
        return x.sum()

    with ks.scope() as scope:
        compiled(changing)(torch.zeros(100))
    maxima = [event.value.statistics.max for event in scope.events if event.label == "arg0_1"]
    assert maxima[0] == 0.0
    assert maxima[-1] == 1.0


def test_filters():
    fn = compiled()
    for ends, subjects in ((None, {"aten.mm.out"}), (True, {"aten.mm.out", "main"})):
        with ks.scope(kernels="aten.mm", inputs=ends, returns=ends) as scope:
            fn(*inputs())
        assert {event.subject for event in scope.events} == subjects
    torch._dynamo.reset()
    with ks.scope(buffers="buf0", dtypes="float32", steps="1") as scope:
        fn = compiled()
        for _ in range(3):
            fn(*inputs())
    assert {event.step for event in scope.events} == {1}
    assert {event.label for event in scope.events} == {"", "buf0"}


def test_steps_are_counted_and_threads_kept_apart():
    fn = compiled()
    fn(*inputs())
    with ks.scope() as scope:
        in_threads(4, lambda: [fn(*inputs()) for _ in range(5)])
    assert {event.step for event in scope.events} == set(range(20))
    for step in range(20):
        orders = [event.order for event in scope.events if event.step == step]
        assert orders == list(range(len(orders)))


def test_the_innermost_scope_is_asked():
    fn = compiled()
    with ks.scope() as outer, ks.scope() as inner:
        fn(*inputs())
    assert inner.events
    assert not outer.events


def test_names_print_a_line_before_and_after():
    out = io.StringIO()
    with ks.scope(print="names", out=out):
        compiled()(*inputs())
    lines = out.getvalue().splitlines()
    assert lines[:2] == ["[ before_launch: aten.mm.out ]", "[ after_launch: aten.mm.out ]"]
    assert len(lines) == 8


def test_an_artifact_is_watched_too():
    program = ks.capture(model, *inputs())
    for target in TARGETS:
        call = program.emit(target).load()
        with ks.scope() as scope:
            found = call(list(inputs()))
        assert same(found, model(*inputs()))
        assert len(scope.events) > 10


def test_wrong_options():
    with pytest.raises(OptionError, match="print cannot be"):
        ks.scope(print="everything")
    with pytest.raises(OptionError, match="unknown format"):
        ks.scope(format="xml")


SCRIPT = """
import torch
fn = torch.compile(lambda x, w: torch.relu(x @ w).softmax(-1), backend="kernelscope")
fn(torch.ones(4, 4), torch.ones(4, 4))
"""


def script(text=SCRIPT, **variables):
    environ = {**os.environ, **variables}
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=environ, check=False)


def test_pytorchs_variables_are_obeyed():
    done = script(AOT_INDUCTOR_DEBUG_INTERMEDIATE_VALUE_PRINTER="3")
    assert "[ before_launch: aten.mm.out ]" in done.stdout
    assert "[ after_launch: cpp_fused" in done.stdout
    done = script(
        AOT_INDUCTOR_DEBUG_INTERMEDIATE_VALUE_PRINTER="2", AOT_INDUCTOR_FILTERED_KERNELS_TO_PRINT="aten.mm.out"
    )
    assert "[ after_launch - aten.mm.out - buf0 ]:" in done.stdout
    assert "cpp_fused" not in done.stdout
    assert "Max value: 4" in done.stdout


OPTIONS_SCRIPT = """
import torch
import kernelscope as ks
options = {"print": "names", "kernels": "aten.mm.out"}
watched = torch.compile(lambda x, w: torch.relu(x @ w), backend="kernelscope", options=options)
other = torch.compile(lambda x, w: torch.tanh(x.t() @ w), backend="kernelscope")

def run(label):
    print(label)
    for fn in (watched, other):
        fn(torch.ones(4, 4), torch.ones(4, 4))

with ks.scope(kernels="nothing"):
    run("scope")
run("none")
"""


def test_a_scope_comes_before_options_and_these_before_the_environment():
    line = "[ before_launch: aten.mm.out ]"
    for _ in range(2):  # the second time, programs come from PyTorch's cache
        done = script(OPTIONS_SCRIPT)
        scope, none = done.stdout.removeprefix("scope\n").split("none\n")
        assert (scope, none.count(line), none.count("cpp_fused")) == ("", 1, 0), done.stderr
    done = script(OPTIONS_SCRIPT, AOT_INDUCTOR_DEBUG_INTERMEDIATE_VALUE_PRINTER="3")
    scope, none = done.stdout.removeprefix("scope\n").split("none\n")
    assert scope == ""
    assert none.count(line) == 2
    assert none.count("[ before_launch: cpp_fused") == 1  # of the program that has no options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"check": [len]}, "functions and streams are given to kernelscope.scope"),
        ({"print": "everything"}, "print cannot be"),
        ({"prnit": "stats"}, "unknown option 'prnit'"),
    ],
)
def test_wrong_options_of_compile_are_refused(options, message):
    fn = torch.compile(model, backend="kernelscope", options=options)
    with pytest.raises(Exception, match=message):
        fn(*inputs())


def test_a_wrong_level_is_refused():
    done = script(AOT_INDUCTOR_DEBUG_INTERMEDIATE_VALUE_PRINTER="9")
    assert done.returncode != 0
    assert "it is 0, 1, 2 or 3" in done.stderr


def test_saved_tensors_are_unique_by_step(tmp_path):
    fn = compiled()
    fn(*inputs())
    with ks.scope(save=tmp_path) as scope:
        for _ in range(3):
            fn(*inputs())
    shown = [event for event in scope.events if isinstance(event.value, TensorRecord)]
    files = list(tmp_path.rglob("*.pt"))
    assert len(files) == len(shown)
    assert len((tmp_path / "index.jsonl").read_text().splitlines()) == len(shown)
    assert all(isinstance(torch.load(file, weights_only=True), torch.Tensor) for file in files)


@pytest.mark.parametrize("target", TARGETS)
def test_the_kernel_that_makes_a_nan_is_named(target):
    def broken(x, w):
        return torch.log(torch.relu(x @ w) - 1).sum(0)

    fn = compiled(broken, target)
    with ks.scope(check=("nan",)), pytest.raises(KernelFault, match="are NaN") as caught:
        fn(*inputs())
    assert caught.value.kernel.startswith("cpp_fused")
    assert caught.value.inputs_clean
    assert "test_scope.py" in caught.value.where
    assert fn(*inputs()).isnan().any()


def test_an_attention_mask_of_minus_infinity_is_no_fault():
    def masked(x):
        mask = torch.full((4, 4), -torch.inf).triu(1)
        return (x @ x.t() + mask).softmax(-1)

    with ks.scope(check=("nan", "inf")) as scope:
        compiled(masked)(inputs()[0])
    assert scope.faults == []


def test_level_1_saves(tmp_path):
    environ = {**os.environ, "AOT_INDUCTOR_DEBUG_INTERMEDIATE_VALUE_PRINTER": "1"}
    environ["AOT_INDUCTOR_FILTERED_KERNELS_TO_PRINT"] = "aten.mm"
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, env=environ, cwd=tmp_path)
    files = list((tmp_path / "kernelscope-tensors").rglob("*.pt"))
    assert {file.name.split("-")[2] for file in files if "main" not in file.name} == {"aten.mm.out"}


def test_a_call_that_somebody_wrapped_is_watched():
    call = ks.capture(model, *inputs()).emit("python").load()
    call.__globals__["call"] = lambda args: call(args)
    with ks.scope() as scope:
        call(list(inputs()))
    assert scope.events
