"""PyTorch's operator database against plain Inductor: bit for bit, operator by operator.

Run as ``python -m tests.e2e.sweep [--jobs N] [--only GLOB] [-o results.json]``. Operators go in chunks to processes
of their own, so that one that ends its process costs only itself. Prints a table of how many passed, how many plain
Inductor fails on or gives different results for from run to run, and every operator that differs or fails here.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import torch

CHUNK = 8
SAMPLES = 2
_TIMEOUT_S = 1200
# Results of these are made of uninitialised memory or of time: nothing to compare.
NOT_COMPARABLE = frozenset({"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"})


def operators(only: str = "*"):
    """The database's operators, by their full names, that are compared."""
    from torch.testing._internal.common_methods_invocations import op_db

    named = {f"{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''}": op for op in op_db}
    return {name: op for name, op in named.items() if op.name not in NOT_COMPARABLE and fnmatch.fnmatch(name, only)}


def dtype_of(op):
    """The first dtype of float32, int64 and bool that an operator takes on the CPU."""
    supported = op.supported_dtypes("cpu")
    return next((dtype for dtype in (torch.float32, torch.int64, torch.bool) if dtype in supported), None)


def check(op) -> tuple[str, str]:
    """Compares one operator; gives a verdict and what it rests on."""
    from tests.e2e.harness import differences, fresh, run

    dtype = dtype_of(op)
    if dtype is None:
        return "no dtype", ""
    torch.manual_seed(0)
    with torch.no_grad():
        samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))[:SAMPLES]
    for sample in samples:

        def make(sample=sample):
            function = lambda *args: op(*args, **sample.kwargs)  # noqa: E731
            return function, (sample.input, *sample.args), {}

        with fresh():
            try:
                expected, again = (run(make, "inductor", grad=False) for _ in range(2))
            except Exception as error:
                return "inductor fails", f"{type(error).__name__}: {str(error)[:160]}"
            if differences(expected, again):
                return "inductor varies", ""
            try:
                found = run(make, "kernelscope", grad=False)
            except Exception as error:
                return "FAILS", f"{type(error).__name__}: {str(error)[:400]}"
            differing = differences(expected, found)
        if differing:
            return "DIFFERS", differing[0]
    return "equal", ""


def _chunk(names):
    """Runs operators in a process of their own; when it dies, each of them alone."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.e2e.sweep", "--worker", *names]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
        verdicts = json.loads(done.stdout.strip().split("\n")[-1])
    except (ValueError, subprocess.TimeoutExpired):
        if len(names) == 1:
            return {names[0]: ("DIED", "the process ended, plain Inductor's run included")}
        return {name: verdict for single in names for name, verdict in _chunk([single]).items()}
    return {name: tuple(verdict) for name, verdict in verdicts.items()}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="*")
    parser.add_argument("-o", "--output")
    parser.add_argument("--worker", nargs="+")
    options = parser.parse_args(argv)
    if options.worker:
        known = operators()
        print(json.dumps({name: check(known[name]) for name in options.worker}))
        return 0
    names = sorted(operators(options.only))
    chunks = [names[start : start + CHUNK] for start in range(0, len(names), CHUNK)]
    verdicts = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        for done in pool.map(_chunk, chunks):
            verdicts.update(done)
            print(f"\r{len(verdicts)}/{len(names)}", end="", file=sys.stderr, flush=True)
            if options.output:  # after each chunk, so that a sweep that is cut short leaves what it found
                with open(options.output, "w") as file:
                    json.dump(verdicts, file, indent=1)
    print()
    for verdict, count in Counter(verdict for verdict, _ in verdicts.values()).most_common():
        print(f"{verdict:<16} {count}")
    bad = {name: verdict for name, verdict in verdicts.items() if verdict[0].isupper()}
    for name, (verdict, detail) in {**bad, **{n: v for n, v in verdicts.items() if v[0] == "inductor fails"}}.items():
        print(f"  {verdict:<16} {name}: {detail}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
