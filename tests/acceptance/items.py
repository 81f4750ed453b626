"""What users of PyTorch's printer, saver and asserts hit, as questions to any way of compiling.

A check says in a few words what it saw; where that is not what a user needs, it raises AssertionError with it.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from tests.acceptance import programs
from tests.acceptance.ways import BUFFER, Outcome, Way, calls_of, run_in


@dataclass(frozen=True)
class Item:
    """A question: its number (a letter behind it where an item asks more than one thing) and what a user needs."""

    number: str
    need: str
    check: Callable[[Way], str]


ITEMS: list[Item] = []


def item(number: str, need: str) -> Callable[[Callable[[Way], str]], Callable[[Way], str]]:
    """Puts a check on the list."""

    def put(check: Callable[[Way], str]) -> Callable[[Way], str]:
        ITEMS.append(Item(number, need, check))
        return check

    return put


def ran(outcome: Outcome) -> Outcome:
    """The outcome of a run that has to end well."""
    assert outcome.code == 0, outcome.error
    return outcome


def _is_kernel(name: str) -> bool:
    return name.startswith("cpp_fused")


def _in_all_ways(name: str) -> str:
    """A kernel's name; each way has a name of its own for an operator."""
    return name if _is_kernel(name) else "extern"


@item("1", "level 2 prints every kernel's and every `out=` call's tensors, before and after")
def every_tensor(way: Way) -> str:
    seen = {
        (shown.moment, _in_all_ways(shown.kernel), name)
        for shown in ran(way.run("transformer", level=2)).shown
        for name in re.findall(BUFFER, shown.label)
    }
    calls = calls_of("transformer")
    assert len(calls) > 20
    wanted = {
        (moment, _in_all_ways(call.function), name)
        for call in calls
        for moment in ("before", "after")
        for name in call.buffers
    }
    missing = wanted - seen
    what = f"{len(wanted) - len(missing)} of the {len(wanted)} values of {len(calls)} calls"
    example = next((f", as {name} {moment} {kernel}" for moment, kernel, name in sorted(missing)), "")
    assert not missing, f"{what}; not there: {len(missing)}{example}"
    return what


@item("2", "level 3 names every call, and the names are in the file after a crash")
def names_after_a_crash(way: Way) -> str:
    outcome = way.run("crash", level=3)
    assert outcome.code == -11, outcome.error
    names = [shown.kernel for shown in outcome.shown]
    assert any(map(_is_kernel, names)), "no name"
    assert any("mm" in name for name in names), f"no product of matrices among {names}"
    return f"{len(names)} lines"


@item("3", "the last name is that of the custom operator that crashed")
def custom_operator(way: Way) -> str:
    names = [shown.kernel for shown in way.run("crash", level=3).shown]
    assert names, "no name"
    assert names[-1] == "acceptance.dies.default", f"the last name is {names[-1]}"
    return names[-1]


@item("3", "level 2 prints what a fallback operator returns")
def fallback(way: Way) -> str:
    outcome = ran(way.run("fallback", level=2))
    after = [shown for shown in outcome.shown if shown.moment == "after" and "topk" in shown.kernel]
    assert after, "nothing after it"
    results = [shown.label for shown in after if "[4, 3]" in shown.text]
    assert len(results) == 2, f"only its operands: {', '.join(shown.label for shown in after)}"
    return ", ".join(results)


@item("4", "training: `primals_*` and `tangents_*` are printed")
def training_inputs(way: Way) -> str:
    shown = ran(way.run("training", level=2)).shown
    seen = {name for each in shown for name in re.findall(BUFFER, each.label)}
    wanted = {name for call in calls_of("training") for name in call.buffers if name.startswith(("prim", "tang"))}
    assert {name[:4] for name in wanted} == {"prim", "tang"}
    missing = sorted(wanted - seen)
    assert not missing, f"{len(missing)} of {len(wanted)} are not: {', '.join(missing)}"
    return ", ".join(sorted(wanted))


@item("5", "an output is not printed before anything has written it")
def unwritten(way: Way) -> str:
    shown = ran(way.run("three_calls", level=2)).shown
    outs = {call.out for call in calls_of("three_calls")} - {""}
    assert outs
    at_products = [each for each in shown if each.label in outs and "mm" in each.kernel]
    own = [each for each in at_products if each.moment == "before" and not _read_before(each.label, shown)]
    printed = [each.label for each in own if "Number of elements" in each.text and "not yet written" not in each.text]
    assert not printed, f"{printed[0]} has values before {own[0].kernel} wrote it"
    assert {each.label for each in at_products if each.moment == "after"} == outs, "the outputs are not shown at all"
    assert own, "it is not told that there is an output"
    return own[0].text.split("\n")[1]


def _read_before(label: str, shown: list) -> bool:
    """Whether the buffer has been shown behind an earlier call."""
    first = next(index for index, each in enumerate(shown) if each.label == label)
    return shown[first].moment == "after"


@item("6", "level 1 saves each call's tensors: no file is written over")
def every_call_is_saved(way: Way) -> str:
    outcome = ran(way.run("three_calls", level=1))
    saved = [_loaded(path) for path in outcome.files]
    wanted = []
    for call in range(programs.CALLS):
        x, w = programs.chain_inputs(call)
        sines = torch.sin(x)
        wanted += [x, sines, sines @ w, torch.cos(sines @ w), torch.exp(torch.cos(sines @ w) @ w)]
    found = [any(value.shape == each.shape and torch.allclose(value, each) for value in saved) for each in wanted]
    what = f"{sum(found)} of {len(wanted)} values in {len(saved)} files"
    assert all(found), what
    return what


def _loaded(path: Path) -> torch.Tensor:
    value = torch.load(path, weights_only=False)  # PyTorch's C++ saver writes a script module
    return value if isinstance(value, torch.Tensor) else next(iter(value.parameters()))


def _value_of(way: Way, program: str, label: str = "arg0_1") -> str:
    shown = ran(way.run(program, level=2)).shown
    texts = [each.text for each in shown if each.label == label and each.moment == "before"]
    assert texts, "not printed"
    return texts[0]


@item("7", "an empty tensor is printed")
def empty_tensor(way: Way) -> str:
    text = _value_of(way, "empty", "arg1_1")
    assert re.search(r"Number of elements: +0", text)
    return "0 elements"


@item("7", "one element has no standard deviation of nan")
def one_element(way: Way) -> str:
    text = _value_of(way, "one_element")
    found = re.search(r"Std.*", text)
    assert found, "no standard deviation"
    assert "nan" not in found[0], found[0]
    return found[0]


@item("7", "a complex tensor has its imaginary parts")
def complex_tensor(way: Way) -> str:
    text = _value_of(way, "complex_numbers")
    assert re.search(r"7\.?j", text), "real parts only"
    return "2.+7.j"


@item("7", "one NaN is counted, and the statistics are those of the other elements")
def one_nan(way: Way) -> str:
    text = _value_of(way, "one_nan")
    largest = re.search(r"Max.*", text)
    assert largest
    assert "nan" not in largest[0], largest[0]
    assert "NaN count: 1" in text, "not counted"
    return f"{largest[0]}, NaN count: 1"


@item("8", "a check for NaN names the kernel, the element and the line of the model")
def nan_check(way: Way) -> str:
    outcome = way.run("makes_nan", options=way.nan)
    assert outcome.code, "nothing is said"
    fault = outcome.text[outcome.text.rindex(outcome.error) :]
    for what, text in (("kernel", "cpp_fused"), ("element", str(list(programs.NAN_AT))), ("line", "makes the NaN")):
        assert text in fault, f"no {what} in: {fault.strip()}"
    return outcome.error


@item("8", "a check for NaN takes no offence at an attention mask of -inf")
def mask_passes(way: Way) -> str:
    ran(way.run("attention_mask", options=way.nan))
    nan_check(way)
    return "no fault"


@item("10", "an FX program of a model with C++ kernels")
def fx_program(way: Way) -> str:
    ran(way.run("three_calls", options=way.fx))
    return "runs"


@item("11", "the lines of a host program are saved, read again and equal")
def lines(way: Way) -> str:
    answer = way.run("lines").answer("same")
    assert answer == "True", answer
    return "equal"


@item("12", "the filter of kernels holds for saving too")
def filter_saves(way: Way) -> str:
    everything = ran(way.run("three_calls", level=1)).files
    kernel = "cpp_fused_exp_2"
    assert any(kernel in str(path) for path in everything), f"nothing of {kernel} is saved, filter or not"
    outcome = ran(way.run("three_calls", level=1, only=kernel))
    wrong = [path.name for path in outcome.files if kernel not in str(path.relative_to(outcome.folder))]
    assert outcome.files
    assert not wrong, f"{len(wrong)} files of others, as {wrong[0]}"
    return f"{len(outcome.files)} of {len(everything)} files"


@item("+", "level 2 with symbolic sizes")
def symbolic_sizes(way: Way) -> str:
    outcome = ran(way.run("symbolic", level=2))
    found = re.search(r"\bs\d+ \]: (\d+)", outcome.text)
    assert found, "no size is printed"
    return found[0].replace(" ]", "")


@item("+", "what is saved goes to the folder of this run, not to that of the run that compiled")
def folder_of_the_run(way: Way) -> str:
    with tempfile.TemporaryDirectory() as name:
        first, second, cache = (Path(name) / part for part in ("first", "second", "cache"))
        for folder in (first, second):
            folder.mkdir()
            outcome = ran(run_in(folder, cache, "three_calls", 1, "", json.dumps(way.options({}))))
        assert outcome.files, "nothing is there"
        return f"{len(outcome.files)} files"
