"""The text and the exit codes of crash reports that need no dead process."""

from __future__ import annotations

import json

import pytest
import torch

import kernelscope as ks
from kernelscope.cli.main import main
from kernelscope.diagnose.crash import crash_report
from kernelscope.errors import TraceError
from kernelscope.ir.values import BufferRef
from kernelscope.passes.insert_probes import InsertProbes
from kernelscope.probe import flight
from tests.programs import chain


@pytest.fixture
def in_a_call(tmp_path):
    """A recorder that says that this thread is in the first call of a program."""
    recorder = flight.opened(tmp_path)
    program = chain().program(BufferRef("x"))
    probed = InsertProbes().run(program).program
    probe = recorder.probe(program, probed)
    first = next(line for line in probed.main.lines if getattr(line, "moment", None) == "before")
    probe(first.number, tuple(torch.zeros(2, 3) for _ in first.operands))
    yield tmp_path
    recorder.close()


def test_a_folder_without_recorders(tmp_path, capsys):
    with pytest.raises(TraceError, match="no flight recorder's file"):
        crash_report(tmp_path)
    assert main(["crash", str(tmp_path)]) == 2
    assert "--flight" in capsys.readouterr().err


def test_a_running_call(in_a_call, capsys):
    assert main(["crash", str(in_a_call)]) == 1
    text = capsys.readouterr().out
    assert "is alive" in text
    assert "float32[2, 3] at 0x" in text
    assert main(["crash", str(in_a_call), "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["processes"][0]["threads"][0]["running"][0]["state"] == "running"


def test_a_program_whose_file_is_gone(in_a_call):
    for path in (in_a_call / "programs").iterdir():
        path.unlink()
    text = str(crash_report(in_a_call))
    assert "what it is, is not known" in text
    assert "call 0 of programs/" in text


def test_it_is_in_the_public_face():
    from kernelscope import api

    assert api.crash_report is crash_report
    assert ks.scope
