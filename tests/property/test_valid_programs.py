"""Properties of valid programs of all line kinds: they verify, go through both forms, and can be planned."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from kernelscope.ir.lines import LINE_KINDS
from kernelscope.ir.parse import parse_program
from kernelscope.ir.serialize import from_json, to_json
from kernelscope.ir.text import print_program
from kernelscope.ir.verify import verify
from kernelscope.passes.pipeline import run_passes
from tests.valid_strategies import valid_programs

quickly = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
_seen: set[type] = set()


@quickly
@given(valid_programs())
def test_valid_programs_verify_and_come_back_equal(program):
    verify(program)
    assert parse_program(print_program(program)) == program
    assert from_json(to_json(program)) == program


@quickly
@given(valid_programs())
def test_valid_programs_stay_valid_under_the_passes(program):
    verify(run_passes(program, verify_level=3))


def test_every_line_kind_is_drawn():
    @settings(quickly, max_examples=100, derandomize=True, database=None)
    @given(valid_programs())
    def gather(program):
        _seen.update(type(line) for function in program.all_functions() for line in function.lines)

    gather()
    assert _seen == set(LINE_KINDS)
