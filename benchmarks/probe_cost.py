"""What watching costs: a 4-layer transformer (d=256, batch 8 x 128, two threads) with and without a scope.

Each round runs every way once, in turn; a ratio is the median over rounds of that way's time to the unwatched one's in
the same round. Also the native statistics' rate against the rate at which the data can be summed.
"""

import argparse
import contextlib
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch

import kernelscope as ks
from benchmarks.models import MODELS
from kernelscope.probe.statistics import statistics as of

ROUNDS = 15
THREADS = 2
BYTES = 1 << 28


def ways(folder):
    """Scopes by name; None watches nothing."""
    return {
        "no scope": None,
        "flight recorder": lambda: ks.scope(flight=folder / "flight"),
        "names": lambda: ks.scope(print="names", out=folder / "names.txt"),
        "statistics": lambda: ks.scope(),
        "statistics, printed": lambda: ks.scope(print="stats", out=folder / "stats.txt"),
        "trace": lambda: ks.scope(trace=folder / "trace"),
    }


def seconds(call, scope):
    """Time of one call; the scope opens and warms up before."""
    with scope() if scope else contextlib.nullcontext():
        call()
        start = time.perf_counter()
        call()
        return time.perf_counter() - start


def rates():
    """Bytes a second of the statistics, and of a sum over the same memory as 64-bit integers, by dtype."""
    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        data = torch.randn(BYTES // dtype.itemsize).to(dtype)
        words = data.view(torch.int64)
        taken = {"statistics": [], "sum": []}
        for _ in range(5):
            for name, call in (("statistics", lambda data=data: of(data)), ("sum", lambda words=words: words.sum())):
                start = time.perf_counter()
                call()
                taken[name].append(time.perf_counter() - start)
        ratio = statistics.median(b / a for a, b in zip(taken["statistics"], taken["sum"], strict=True))
        rate = BYTES / statistics.median(taken["statistics"]) / 1e9
        found[str(dtype).removeprefix("torch.")] = {"GB/s": rate, "to a sum": ratio}
    return found


def measure():
    """Milliseconds and ratios of every way, and the rates."""
    torch.set_num_threads(THREADS)
    model, inputs = MODELS["large"]()
    with torch.no_grad(), tempfile.TemporaryDirectory() as name:
        compiled = torch.compile(model, backend="kernelscope", dynamic=False)
        compiled(*inputs)
        scopes = ways(Path(name))
        taken = {label: [] for label in scopes}
        for _ in range(ROUNDS):
            for label, scope in scopes.items():
                taken[label].append(seconds(lambda: compiled(*inputs), scope))
    plain = taken["no scope"]
    return {
        "ms": {label: statistics.median(values) * 1e3 for label, values in taken.items()},
        "ratio": {
            label: statistics.median(a / b for a, b in zip(values, plain, strict=True))
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
