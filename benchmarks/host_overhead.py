"""Host time per call: eager, Inductor's Python wrapper, and ours, interleaved in one run on one thread.

``function`` is the generated function alone, called with the flat list of its inputs; ``callable`` is what
``torch.compile`` returned, guards included. Times are medians in microseconds.
"""

import argparse
import json
import statistics
import time

import torch

from benchmarks.models import MODELS

ROUNDS = 15


def compiled_with(backend, model, inputs):
    """The compiled callable, the generated function, and the flat inputs of its first call."""
    from torch._inductor.codecache import PyCodeCache

    torch._dynamo.reset()
    flat = []
    original = PyCodeCache.load_by_key_path

    def load(*args, **kwargs):
        module = original(*args, **kwargs)
        call = module.call
        module.call = lambda arguments: (flat.append(list(arguments)), call(arguments))[1]
        module.call.original = call
        loaded.append(call)
        return module

    loaded = []
    PyCodeCache.load_by_key_path = load
    try:
        torch.compile(model, backend=backend, dynamic=False)(*inputs)
    finally:
        PyCodeCache.load_by_key_path = original
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend, dynamic=False)
    compiled(*inputs)
    return compiled, loaded[0], flat[0]


def microseconds(call, seconds=0.05):
    """Time of one call, over as many as fit into a while."""
    call()
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in range(10):
            call()
        count += 10
    return (time.perf_counter() - start) / count * 1e6


def measure(name):
    """Medians for one model."""
    model, inputs = MODELS[name]()
    calls = {"eager": lambda: model(*inputs)}
    for label, backend in (("inductor", "inductor"), ("kernelscope", "kernelscope")):
        compiled, function, flat = compiled_with(backend, model, inputs)
        calls[f"{label} callable"] = lambda compiled=compiled: compiled(*inputs)
        calls[f"{label} function"] = lambda function=function, flat=flat: function(list(flat))
    rounds = {label: [] for label in calls}
    for _ in range(ROUNDS):
        for label, call in calls.items():
            rounds[label].append(microseconds(call))
    result = {label: statistics.median(values) for label, values in rounds.items()}
    for level in ("function", "callable"):
        pairs = zip(rounds[f"kernelscope {level}"], rounds[f"inductor {level}"], strict=True)
        result[f"ratio {level}"] = statistics.median(ours / theirs for ours, theirs in pairs)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--models", nargs="+", default=["chain", "transformer", "mlp"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    with torch.no_grad():
        results = {name: measure(name) for name in options.models}
    if options.json:
        print(json.dumps(results, indent=1))
        return
    columns = list(next(iter(results.values())))
    print(f"{'':12}" + "".join(f"{column:>22}" for column in columns))
    for name, values in results.items():
        print(f"{name:12}" + "".join(f"{values[column]:>22.2f}" for column in columns))


if __name__ == "__main__":
    main()
