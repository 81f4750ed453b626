"""The trace's database: complete, readable while it is written, and after its writer was killed."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kernelscope.cli.main import main
from kernelscope.ir.serialize import from_json
from kernelscope.ir.values import BufferRef
from kernelscope.probe import trace as module
from kernelscope.probe.look import describe
from kernelscope.probe.records import Unwritten
from kernelscope.probe.statistics import statistics
from kernelscope.probe.trace import Trace
from tests.programs import chain
from tests.seen import seen

ROOT = Path(__file__).parents[3]


def rows(folder, query="SELECT * FROM events ORDER BY id"):
    database = sqlite3.connect(folder / "trace-rank0.sqlite")
    database.row_factory = sqlite3.Row
    try:
        return database.execute(query).fetchall()
    finally:
        database.close()


def test_every_kind_of_record(tmp_path):
    tensor = torch.tensor([1.0, math.nan, -3.0])
    record = dataclasses.replace(describe(tensor), statistics=statistics(tensor))
    trace = Trace(tmp_path)
    unwritten = Unwritten((2,), "float32")
    trace(seen([("x", record)], 7, [("y", unwritten)]))
    trace(seen(moment="before"))
    trace.close()
    found = rows(tmp_path)
    assert [row["kind"] for row in found] == ["TensorRecord", "ValueRecord", "Unwritten", "call"]
    assert (found[0]["min"], found[0]["nan"], json.loads(found[0]["size"])) == (-3.0, 1, [3])
    assert found[0]["hash"] % 2**64 == record.statistics.hash
    assert found[1]["text"] == "7"


def test_programs_and_calls(tmp_path):
    program = chain().program(BufferRef("x"))
    trace = Trace(tmp_path)
    trace.add_program(program)
    trace.close()
    (entry,) = rows(tmp_path, "SELECT * FROM programs")
    assert from_json((tmp_path / entry["file"]).read_text()).main == program.main
    assert next(row["subject"] for row in rows(tmp_path, "SELECT * FROM calls ORDER BY number")) == "aten.mm.out"


def test_it_is_read_while_it_is_written(tmp_path):
    trace = Trace(tmp_path)
    trace(seen(1))
    trace.flush()
    assert len(rows(tmp_path)) == 1
    trace(seen(1))
    trace.close()
    assert len(rows(tmp_path)) == 2


def test_a_second_run_continues_the_trace(tmp_path):
    for _ in range(2):
        trace = Trace(tmp_path)
        trace(seen(1))
        trace.close()
    assert len(rows(tmp_path)) == 2


def test_what_is_dropped_is_counted_over_all_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    dropped = 0
    for _ in range(2):
        trace = Trace(tmp_path)
        with trace._writing:
            for _ in range(10):
                trace(seen(1))
        with pytest.warns(UserWarning, match="records are not in the trace"):
            trace.close()
        dropped += trace.dropped
    assert dropped
    assert len(rows(tmp_path)) + dropped == 20
    assert rows(tmp_path, "SELECT value FROM meta WHERE key = 'dropped'")[0]["value"] == str(dropped)
    main(["show", str(tmp_path), "--limit", "2"])
    told = capsys.readouterr().err
    assert f"{dropped} records are not in" in told
    assert "only the first 2 rows" in told


KILLED = """
import os, signal, sys, time
from kernelscope.probe.trace import Trace
from tests.seen import seen
trace = Trace(sys.argv[1])
for _ in range(5000):
    trace(seen(1))
time.sleep(1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_writer_leaves_a_good_file(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False, cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    assert len(rows(tmp_path)) == 5000
    assert rows(tmp_path, "PRAGMA integrity_check")[0][0] == "ok"


WRITER = """
import sys
from kernelscope.probe.trace import Trace
from tests.seen import seen
trace = Trace(sys.argv[1])
for _ in range(3000):
    trace(seen(1))
trace.close()
"""


def test_processes_share_a_trace(tmp_path):
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    processes = [subprocess.Popen(command, cwd=ROOT) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert len(rows(tmp_path)) == 6000


def test_the_page_names_every_table_and_column():
    page = (ROOT / "docs" / "trace.md").read_text()
    for table, columns in re.findall(r"CREATE TABLE (\w+) \((.*?)\);", module.SCHEMA, re.DOTALL):
        assert f"`{table}" in page
        for column in re.sub(r", PRIMARY KEY.*", "", columns, flags=re.DOTALL).split(","):
            assert re.search(rf"\b{column.split()[0]}\b", page), column
    assert f"version {module.VERSION}" in page
