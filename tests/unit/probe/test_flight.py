"""The flight recorder's file: what is stored is what is read, in threads, in forked children, and when it is full."""

from __future__ import annotations

import os
import struct
import threading

import pytest
import torch

from kernelscope.errors import TraceError
from kernelscope.ir.values import BufferRef
from kernelscope.passes.insert_probes import InsertProbes
from kernelscope.probe import flight
from kernelscope.probe.flight_file import DTYPES, read
from kernelscope.probe.look import dtype_name
from tests.programs import chain
from tests.threads import in_threads


@pytest.fixture
def recorder(tmp_path):
    opened = flight.opened(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def probe(recorder):
    program = chain().program(BufferRef("x"))
    return recorder.probe(program, InsertProbes().run(program).program)


def log_of(recorder):
    return read(recorder.folder / f"flight-rank0-{os.getpid()}.bin")


def numbers(moment):
    probed = InsertProbes().run(chain().program(BufferRef("x"))).program
    return [line.number for line in probed.main.lines if getattr(line, "moment", None) == moment]


BEFORE, AFTER = numbers("before"), numbers("after")


def test_arguments(recorder, probe):
    tensor = torch.arange(6, dtype=torch.int16).view(2, 3)
    sparse = torch.eye(2).to_sparse()
    probe(BEFORE[0], (tensor, 7, -2.5, True, None, "text", [tensor.t(), 1 << 70], sparse))
    (thread,) = log_of(recorder).threads
    (call,) = thread.running
    seen = [(each.operand, each.part, each.kind, each.value, each.dtype, each.size) for each in call.arguments]
    assert seen == [
        (0, None, "tensor", tensor.data_ptr(), "int16", (2, 3)),
        (1, None, "int", 7, "", ()),
        (2, None, "float", -2.5, "", ()),
        (3, None, "bool", True, "", ()),
        (4, None, "None", None, "", ()),
        (5, None, "other", None, "", ()),
        (6, 0, "tensor", tensor.data_ptr(), "int16", (3, 2)),
        (6, 1, "other", None, "", ()),
        (7, None, "other", None, "", ()),
    ]
    assert (call.state, call.call, call.left_out) == ("running", 0, 0)
    probe(AFTER[0], ())
    (thread,) = log_of(recorder).threads
    assert (thread.running, thread.last.state) == ((), "done")


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental", "ignore:torch.quantize_per_tensor")
def test_every_dtype_has_its_name(recorder, probe):
    dtypes = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    checked = 0
    for dtype in dtypes:
        try:
            tensor = torch.empty(0, dtype=dtype)
        except (RuntimeError, TypeError):
            continue  # this PyTorch makes no plain tensor of it
        probe(BEFORE[0], (tensor,))
        (argument,) = log_of(recorder).threads[0].running[0].arguments
        assert argument.dtype == dtype_name(dtype)
        probe(AFTER[0], ())
        checked += 1
    assert checked > 20
    assert len(set(DTYPES)) == len(DTYPES)


def test_more_arguments_and_calls_than_there_is_room_for(recorder, probe):
    for _ in range(10):  # each within the one before
        probe(BEFORE[0], tuple(range(30)))
    (thread,) = log_of(recorder).threads
    assert len(thread.running) == 6
    assert {(len(call.arguments), call.left_out) for call in thread.running} == {(24, 6)}
    for _ in range(10):
        probe(AFTER[0], ())
    (thread,) = log_of(recorder).threads
    assert not thread.running


def test_the_ring_keeps_the_last(recorder, probe):
    for _ in range(5000):
        probe(BEFORE[0], ())
        probe(AFTER[0], ())
    moments = log_of(recorder).moments
    assert len(moments) == 4096
    assert [each.state for each in moments[-2:]] == ["running", "done"]
    assert [each.time_ns for each in moments] == sorted(each.time_ns for each in moments)


def test_threads_that_ended_leave_their_slots(recorder, probe):
    for _ in range(5):
        in_threads(30, lambda: (probe(BEFORE[0], ()), probe(AFTER[0], ())))
    log = log_of(recorder)
    assert (log.without, len(log.threads)) == (0, 64)


def test_more_threads_than_slots(recorder, probe):
    release, begun = threading.Event(), threading.Semaphore(0)

    def stay():
        probe(BEFORE[0], ())
        begun.release()
        release.wait()
        probe(AFTER[0], ())

    threads = [threading.Thread(target=stay) for _ in range(70)]
    for thread in threads:
        thread.start()
    for _ in threads:
        begun.acquire()
    assert log_of(recorder).without == 6
    release.set()
    for thread in threads:
        thread.join()


def test_a_guard_tells_of_exceptions(recorder, probe):
    def fails(args):
        probe(BEFORE[0], ())
        probe(BEFORE[1], ())
        raise ValueError(args)

    with pytest.raises(ValueError, match="given"):
        recorder.guard(fails)("given")
    (thread,) = log_of(recorder).threads
    assert (thread.running, thread.inside, thread.last.state) == ((), 0, "raised")
    assert recorder.guard(lambda args: [args])("result") == ["result"]


def test_a_forked_child_has_a_file_of_its_own(recorder, probe):
    child = os.fork()
    if child == 0:
        probe(BEFORE[1], ())
        os._exit(0)
    os.waitpid(child, 0)
    assert not log_of(recorder).threads
    log = read(recorder.folder / f"flight-rank0-{child}.bin")
    assert (log.process, log.alive, log.ended) == (child, False, False)
    assert log.threads[0].running[0].call == 1
    assert log.threads[0].running[0].program == f"programs/{chain().program(BufferRef('x')).name}-{os.getpid()}.json"


def test_files_that_are_none(tmp_path, recorder):
    whole = (recorder.folder / f"flight-rank0-{os.getpid()}.bin").read_bytes()
    path = tmp_path / "x.bin"
    for data, said in (
        (b"", "no flight recorder's file"),
        (b"x" * len(whole), "no flight recorder's file"),
        (whole[:-1], "truncated"),
        (whole[:8] + struct.pack("<I", 9) + whole[12:], "version 9"),
    ):
        path.write_bytes(data)
        with pytest.raises(TraceError, match=said):
            read(path)
    with pytest.raises(TraceError, match="cannot read"):
        read(tmp_path / "none.bin")


def test_no_room_on_the_disk_is_one_warning(tmp_path, monkeypatch, caplog):
    class Full:
        def Recorder(self, *place):
            raise OSError(28, "No space left on device", place[0])

    monkeypatch.setattr(flight, "flight", Full)
    assert flight.opened(tmp_path) is None
    assert "No space left" in caplog.text


def test_probes_are_called_with_what_they_take(probe):
    with pytest.raises(TypeError, match="number and a tuple"):
        probe(1)
    with pytest.raises(IndexError, match="no such probe"):
        probe(999, ())
