"""What watching costs: a 4-layer transformer (d=256, batch 8 x 128, two threads) with and without a scope.

Each round runs every way once, in turn: a call to warm up, then ``CALLS`` timed ones. A ratio is the median over rounds
of that way's time to the unwatched one's in the same round; for Inductor's own printer and saver, to plain Inductor's.
Also the native statistics' rate against the rate at which the data can be summed.
"""

import argparse
import contextlib
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import torch

import kernelscope as ks
from benchmarks.models import MODELS
from kernelscope.probe.statistics import statistics as of

ROUNDS = 15
CALLS = 3
THREADS = 2
RATE_ROUNDS = 31
BYTES = 1 << 28
PLAIN, INDUCTOR = "no scope", "Inductor"
INTERMEDIATES = "aot_inductor.debug_intermediate_value_printer"


def scopes(folder):
    """Our ways by name: what opens a scope."""
    return {
        PLAIN: contextlib.nullcontext,
        "flight recorder": lambda: ks.scope(flight=folder / "flight"),
        "names": lambda: ks.scope(print="names", out=folder / "names.txt"),
        "statistics": lambda: ks.scope(),
        "statistics, printed": lambda: ks.scope(print="stats", out=folder / "stats.txt"),
        "trace": lambda: ks.scope(trace=folder / "trace"),
    }


def inductor_options():
    """Inductor's ways by name: options of ``torch.compile``; 1 saves and 2 prints."""
    ways = {INDUCTOR: {}, "Inductor's printer": {INTERMEDIATES: "2"}, "Inductor's saver": {INTERMEDIATES: "1"}}
    in_cpp = {f"{name}, C++": {**options, "cpp_wrapper": True} for name, options in ways.items()}
    return {**ways, **in_cpp}


def callables(model, inputs, folder):
    """The compiled callable and the scope's opener of every way, by name."""
    ours = torch.compile(model, backend="kernelscope", dynamic=False)
    ours(*inputs)
    found = {name: (ours, scope) for name, scope in scopes(folder).items()}
    for name, options in inductor_options().items():
        compiled = torch.compile(model, options=options, dynamic=False)
        with silent():
            compiled(*inputs)
        found[name] = (compiled, silent)
    return found


@contextlib.contextmanager
def silent():
    """Sends the process's standard output, that of C++ too, nowhere; and stays in the folder where savers write."""
    kept = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def seconds(call, scope):
    """Time of a call in a scope that is open and has seen one."""
    with scope():
        call()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        return (time.perf_counter() - start) / CALLS


def rates():
    """Bytes a second of the statistics, and of a sum over the same memory as 64-bit integers, by dtype."""
    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        data = torch.randn(BYTES // dtype.itemsize).to(dtype)
        words = data.view(torch.int64)
        taken = {"statistics": [], "sum": []}
        for _ in range(RATE_ROUNDS):
            for name, call in (("statistics", lambda data=data: of(data)), ("sum", lambda words=words: words.sum())):
                start = time.perf_counter()
                call()
                taken[name].append(time.perf_counter() - start)
        ratio = statistics.median(b / a for a, b in zip(taken["statistics"], taken["sum"], strict=True))
        rate = BYTES / statistics.median(taken["statistics"]) / 1e9
        found[str(dtype).removeprefix("torch.")] = {"GB/s": rate, "to a sum": ratio}
    return found


def baseline(name):
    """The way that another one's time is divided by."""
    if not name.startswith(INDUCTOR):
        return PLAIN
    return f"{INDUCTOR}, C++" if name.endswith("C++") else INDUCTOR


def measure():
    """Milliseconds and ratios of every way, and the rates."""
    torch.set_num_threads(THREADS)
    model, inputs = MODELS["large"]()
    with torch.no_grad(), tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        ways = callables(model, inputs, Path(name))
        taken = {label: [] for label in ways}
        for _ in range(ROUNDS):
            for label, (compiled, scope) in ways.items():
                taken[label].append(seconds(lambda compiled=compiled: compiled(*inputs), scope))
    return {
        "ms": {label: statistics.median(values) * 1e3 for label, values in taken.items()},
        "ratio": {
            label: statistics.median(a / b for a, b in zip(values, taken[baseline(label)], strict=True))
            for label, values in taken.items()
        },
        "rates": rates(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure()
    if options.json:
        print(json.dumps(found))
        return
    for label, ratio in found["ratio"].items():
        print(f"{label:<24}{found['ms'][label]:>10.2f} ms{ratio:>8.3f}")
    for dtype, rate in found["rates"].items():
        print(f"statistics of {dtype:<10}{rate['GB/s']:>10.1f} GB/s{rate['to a sum']:>8.2f} of a sum")


if __name__ == "__main__":
    main()
