"""Wall time from a fresh process to the first result: plain Inductor and ours, cold and warm, alternating.

Cold: empty caches and an empty temporary directory. Warm: a second process over the caches of the first. ``ours
alone`` is the part of the cold time that capture's assembly, passes and code generation took.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent

WORKER = """
import sys, time, torch
sys.path.insert(0, {root!r})
from benchmarks.models import MODELS
model, inputs = MODELS[{model!r}]()
done = []
start = time.perf_counter()
if {backend!r} == "kernelscope":
    from kernelscope.backend import observing
    scope = observing(done.append)
    scope.__enter__()
with torch.no_grad():
    torch.compile(model, backend={backend!r}, dynamic=False)(*inputs)
print(time.perf_counter() - start, sum(item.capture_ns + item.passes_ns + item.emit_ns for item in done) / 1e9)
"""


def run(model, backend, folder):
    """Seconds of compilation and first call in a fresh process, and of our own part."""
    caches = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "KERNELSCOPE_CACHE_DIR": "kernels", "TMPDIR": "tmp"}
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    env = {**os.environ, **{name: str(folder / part) for name, part in caches.items()}}
    code = WORKER.format(root=str(ROOT), model=model, backend=backend)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, env=env, check=True
    )
    return tuple(float(word) for word in done.stdout.split()[-2:])


def measure(model, repeats):
    """Medians for one model."""
    times = {key: [] for key in ("inductor cold", "inductor warm", "kernelscope cold", "kernelscope warm", "share")}
    for repeat in range(repeats):
        backends = ("inductor", "kernelscope")
        for backend in backends if repeat % 2 == 0 else reversed(backends):
            with tempfile.TemporaryDirectory() as folder:
                cold, ours = run(model, backend, Path(folder))
                warm, _ = run(model, backend, Path(folder))
            times[f"{backend} cold"].append(cold)
            times[f"{backend} warm"].append(warm)
            if backend == "kernelscope":
                times["share"].append(ours / cold)
    result = {key: statistics.median(values) for key, values in times.items()}
    for state in ("cold", "warm"):
        result[f"ratio {state}"] = result[f"kernelscope {state}"] / result[f"inductor {state}"]
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=["chain", "mlp", "transformer", "unet"])
    options = parser.parse_args()
    results = {}
    for name in options.models:
        start = time.perf_counter()
        results[name] = measure(name, options.repeats)
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    if options.json:
        print(json.dumps(results, indent=1))
        return
    columns = list(next(iter(results.values())))
    print(f"{'':12}" + "".join(f"{column:>19}" for column in columns))
    for name, values in results.items():
        print(f"{name:12}" + "".join(f"{values[column]:>19.3f}" for column in columns))


if __name__ == "__main__":
    main()
