"""The pipeline: order, names, checks between steps, and the one callback."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import pytest

from kernelscope.errors import InternalError, VerifyError
from kernelscope.ir import lines as l
from kernelscope.ir.builder import FunctionBuilder, contiguous
from kernelscope.ir.values import BufferRef
from kernelscope.passes.base import PassResult
from kernelscope.passes.pipeline import DEFAULT_PASSES, run_passes
from tests.programs import chain

F44 = contiguous((4, 4))


def program():
    return chain().program(BufferRef("buf2"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """A pass that adds a line before the return."""

    line: l.WrapperLine
    name: str = "append"

    def run(self, program):
        *before, returned = program.main.lines
        main = dataclasses.replace(program.main, lines=(*before, self.line, returned))
        return PassResult(program=dataclasses.replace(program, main=main), changed=True)


BREAKS = Append(line=l.FreeLine(name="nowhere"))


def test_passes_are_named_in_the_program():
    planned = run_passes(program())
    assert planned.passes == tuple(step.name for step in DEFAULT_PASSES)


def test_callback_sees_every_step():
    seen = []
    remark = Append(line=l.CommentLine(text="hello"), name="remark")
    result = run_passes(program(), (remark, *DEFAULT_PASSES), on_pass=lambda step, now: seen.append((step, now)))
    assert [step for step, _ in seen] == ["capture", "remark", "plan_memory"]
    assert seen[0][1] == program()
    assert seen[-1][1] == result


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_pass_that_breaks_a_rule_is_caught(level):
    with pytest.raises(VerifyError, match="nowhere is not defined"):
        run_passes(program(), (BREAKS,), verify_level=level)


def test_a_wrong_capture_is_caught_before_any_pass():
    wrong = BREAKS.run(program()).program
    with pytest.raises(VerifyError):
        run_passes(wrong, ())


def test_level_zero_checks_nothing():
    assert run_passes(program(), (BREAKS,), verify_level=0).passes == ("append",)


def test_the_memory_report_is_an_oracle_of_its_own(monkeypatch):
    monkeypatch.setattr("kernelscope.passes.pipeline.verify", lambda program: None)
    builder = FunctionBuilder()
    x = builder.tensor("x", F44)
    wrong = builder.program(builder.reuse(x, F44))
    assert run_passes(wrong, (), verify_level=1) == wrong
    with pytest.raises(InternalError, match="takes the caller's storage"):
        run_passes(wrong, (), verify_level=2)


@pytest.mark.parametrize(
    ("function", "message"), [("parse_program", "does not parse back"), ("from_json", "does not read back")]
)
def test_level_three_goes_through_text_and_file(monkeypatch, function, message):
    monkeypatch.setattr(f"kernelscope.passes.pipeline.{function}", lambda text: None)
    run_passes(program(), (), verify_level=2)
    with pytest.raises(InternalError, match=message):
        run_passes(program(), (), verify_level=3)
