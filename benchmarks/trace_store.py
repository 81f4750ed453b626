"""Whether the trace's writer keeps up: a program gives ten million records under ``kernelscope.scope(trace=...)``.

First as fast as it can, then with a pause after each call. Says what was written and what was dropped (the two have to
add up to what the program gave), how far the process's memory grew after the first tenth, and what SQLite says of the
file.
"""

import argparse
import contextlib
import json
import resource
import sqlite3
import tempfile
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track

import kernelscope as ks
from benchmarks.models import MODELS

RECORDS = 10_000_000
MIB = 1 << 20


def resident_bytes():
    """The process's memory now, in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@torch.no_grad()
def measured(records, folder, pause_s):
    """What came of a run that gives at least ``records`` records, with a pause after each call of the program."""
    model, inputs = MODELS["chain"]()
    compiled = torch.compile(model, backend="kernelscope", dynamic=False)
    compiled(*inputs)
    with ks.scope() as scope:
        compiled(*inputs)
    calls = -(-records // len(scope.events))
    start, after_a_tenth = time.perf_counter(), 0
    with ks.scope(trace=folder):
        for call in track(range(calls), f"{records:,} records", console=Console(stderr=True)):
            compiled(*inputs)
            time.sleep(pause_s)
            if call == calls // 10:
                after_a_tenth = resident_bytes()
        ran_s = time.perf_counter() - start
        grown = resident_bytes() - after_a_tenth
    closed_s = time.perf_counter() - start
    return {
        "given": calls * len(scope.events),
        **contents(next(Path(folder).glob("trace-*.sqlite"))),
        "pause_ms": pause_s * 1e3,
        "ran_s": ran_s,
        "until_closed_s": closed_s,
        "memory_grown_mib": grown / MIB,
    }


def contents(path):
    """What SQLite finds in a trace."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        (written,) = database.execute("SELECT count(*) FROM events").fetchone()
        dropped = database.execute("SELECT value FROM meta WHERE key = 'dropped'").fetchone()
        (sound,) = database.execute("PRAGMA quick_check").fetchone()
    size = path.stat().st_size / MIB
    return {"written": written, "dropped": int(dropped[0]) if dropped else 0, "check": sound, "file_mib": size}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--pause-ms", type=float, nargs="+", default=[0.0, 5.0])
    arguments = parser.parse_args()
    for pause_ms in arguments.pause_ms:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measured(arguments.records, folder, pause_ms / 1e3)), flush=True)


if __name__ == "__main__":
    main()
