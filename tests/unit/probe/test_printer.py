"""Records are written whole, whoever shares the terminal, the pipe or the file."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelscope.probe.printer import Printer

WRITERS, RECORDS, LENGTH = 3, 40, 9000  # longer than what a pipe takes whole
PROGRAM = f"""
import sys, threading
from kernelscope.probe.printer import Printer

printer = Printer(sys.argv[2] if len(sys.argv) > 2 else None)

def write(letter):
    for _ in range({RECORDS}):
        printer.write(letter * {LENGTH})

threads = [threading.Thread(target=write, args=(sys.argv[1] + each,)) for each in "xy"]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def start(writer: int, *more: str, **options) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, "abc"[writer], *more], **options)


def is_whole(line: str) -> bool:
    return line == line[:2] * LENGTH


def assert_all_there(text: str) -> None:
    lines = text.splitlines()
    assert all(map(is_whole, lines))
    assert len(lines) == WRITERS * 2 * RECORDS


def test_processes_and_threads_share_a_pipe():
    reading, writing = os.pipe()
    writers = [start(writer, stdout=writing) for writer in range(WRITERS)]
    os.close(writing)
    with open(reading) as pipe:
        assert_all_there(pipe.read())
    assert [writer.wait() for writer in writers] == [0] * WRITERS


def test_processes_and_threads_share_a_file(tmp_path: Path):
    writers = [start(writer, str(tmp_path / "out.txt")) for writer in range(WRITERS)]
    assert [writer.wait() for writer in writers] == [0] * WRITERS
    assert_all_there((tmp_path / "out.txt").read_text())


def test_a_stream_in_memory():
    stream = io.StringIO()
    Printer(stream).write("one")
    assert stream.getvalue() == "one\n"


def test_what_was_printed_before_stays_before(capfd: pytest.CaptureFixture[str]):
    print("first")
    Printer().write("second")
    print("third")
    assert capfd.readouterr().out == "first\nsecond\nthird\n"


def test_a_file_is_appended_to(tmp_path: Path):
    path = tmp_path / "out.txt"
    path.write_text("kept\n")
    printer = Printer(path)
    printer.write("ü")
    printer.close()
    assert path.read_text(encoding="utf-8") == "kept\nü\n"


def test_a_named_pipe_is_no_file(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    printer = Printer(tmp_path / "fifo")
    printer.write("x")
    assert os.read(reader, 10) == b"x\n"
    printer.close()
    os.close(reader)
