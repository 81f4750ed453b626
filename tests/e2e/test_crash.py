"""The flight recorder names the call that a process died in, whatever ended it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import kernelscope as ks
from kernelscope.diagnose.crash import crash_report
from tests.e2e import dying
from tests.threads import in_threads

ROOT = Path(__file__).parents[2]
SIGNALS = {"segv": signal.SIGSEGV, "abort": signal.SIGABRT, "kill": signal.SIGKILL, "write": signal.SIGSEGV}


def started(how, target, folder):
    command = [sys.executable, "-m", "tests.e2e.dying", how, target, str(folder)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def the_call(report):
    (process,) = report.processes
    (thread,) = (thread for thread in process.threads if thread.running)
    (call,) = thread.running
    return call


def check_names_the_culprit(call, how):
    assert [place for place in call.places if dying.MARK in place.text]
    (own,) = (text for own, text in call.lines if own)
    assert call.subject in own
    if how in dying.IN_KERNEL:
        assert call.kind == "kernel"
    else:
        assert call.subject == "dying.op.default"
        assert call.arguments[0][1].startswith("float32[4, 4] at 0x")


@pytest.mark.parametrize(
    ("how", "target"),
    [(how, "python") for how in SIGNALS] + [("segv", "interpreter"), ("write", "interpreter")],
)
def test_a_process_that_dies(tmp_path, how, target):
    with started(how, target, tmp_path) as process:
        assert process.wait(120) == -SIGNALS[how], process.stderr.read()
    report = crash_report(tmp_path)
    assert [each.end for each in report.processes] == ["died"]
    assert report.found
    check_names_the_culprit(the_call(report), how)


def test_a_process_that_hangs(tmp_path):
    with started("endless", "python", tmp_path) as process:
        try:
            report = _once_it_runs(process, tmp_path)
        finally:
            process.kill()
    assert [each.end for each in report.processes] == ["alive"]
    check_names_the_culprit(the_call(report), "endless")
    assert ", for " in str(report)
    assert crash_report(tmp_path).processes[0].end == "died"


def _once_it_runs(process, folder):
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        time.sleep(0.2)
        files = list(folder.glob("flight-*.bin"))
        report = crash_report(folder) if files and files[0].stat().st_size else None
        if report and any(thread.running and thread.running[-1].kind == "kernel" for thread in _threads(report)):
            return report
    raise AssertionError(process.stderr.read())


def _threads(report):
    return report.processes[0].threads


@pytest.fixture
def chain(clean_compiler):
    return torch.compile(dying.with_kernel, backend="kernelscope"), (torch.randn(4, 4), torch.randn(4, 4))


def test_a_run_that_ends_well(tmp_path, chain):
    compiled, inputs = chain
    with ks.scope(flight=tmp_path) as scope:
        compiled(*inputs)
    report = crash_report(tmp_path)
    assert (report.found, report.processes[0].end) == (False, "ended")
    assert not scope.events
    assert [number for _, _, number in report.processes[0].finished] == [2, 1, 0]


def test_a_scope_within_keeps_the_recorder(tmp_path, chain):
    compiled, inputs = chain
    with ks.scope(flight=tmp_path):
        with ks.scope(kernels="aten.mm") as scope:
            compiled(*inputs)
        subjects = {event.subject for event in scope.events if event.label and event.call is not None}
        assert subjects == {"aten.mm.out"}
        assert len(crash_report(tmp_path).processes[0].finished) == 3
        compiled(*inputs)
    assert len(crash_report(tmp_path).processes[0].finished) == 5


def test_a_trace_has_the_recorder_too(tmp_path, chain):
    compiled, inputs = chain
    with ks.scope(trace=tmp_path):
        compiled(*inputs)
    assert crash_report(tmp_path).processes[0].finished


def test_an_exception_is_told_apart(tmp_path, clean_compiler, monkeypatch):
    def fail():
        raise ValueError("on purpose")

    monkeypatch.setattr(dying, "END", fail)
    compiled = torch.compile(dying.with_operator, backend="kernelscope")
    with ks.scope(flight=tmp_path), pytest.raises(ValueError, match="on purpose"):
        compiled(torch.randn(4, 4), torch.randn(4, 4))
    report = crash_report(tmp_path)
    (call,) = report.processes[0].culprits
    assert (call.state, call.subject) == ("raised", "dying.op.default")
    assert "an exception left" in str(report)


def test_threads_have_slots_of_their_own(tmp_path, chain):
    compiled, inputs = chain
    compiled(*inputs)
    with ks.scope(flight=tmp_path):
        in_threads(4, lambda: [compiled(*inputs) for _ in range(20)])
    threads = crash_report(tmp_path).processes[0].threads
    assert len(threads) == 4
    assert all(thread.last and thread.last.state == "done" and not thread.running for thread in threads)


def test_a_read_only_folder_does_not_stop_the_program(tmp_path, chain, caplog):
    compiled, inputs = chain
    (tmp_path / "file").write_text("not a folder")
    with ks.scope(flight=tmp_path / "file" / "run"):
        compiled(*inputs)
    assert "there is no flight recorder" in caplog.text
