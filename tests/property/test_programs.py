"""Properties of programs at large: forms round-trip, passes keep results, targets agree bit for bit."""

from __future__ import annotations

import torch
from hypothesis import HealthCheck, given, settings

from kernelscope.ir.parse import parse_program
from kernelscope.ir.serialize import from_json, to_json
from kernelscope.ir.text import print_program
from kernelscope.ir.verify import verify
from kernelscope.passes.memory_report import memory_report
from kernelscope.passes.pipeline import run_passes
from kernelscope.passes.plan_memory import PlanMemory
from kernelscope.targets.registry import target
from tests.e2e.harness import same
from tests.e2e.inductor_peak import inductor_plan
from tests.strategies import inputs_of, programs

quickly = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def _run(program, name):
    with torch.no_grad():
        return target(name).emit(program).load()(inputs_of(program))


@quickly
@given(programs())
def test_forms_round_trip(program):
    verify(program)
    assert parse_program(print_program(program)) == program
    assert from_json(to_json(program)) == program


@quickly
@given(programs())
def test_planning_keeps_results_and_peak(program):
    planned = run_passes(program, verify_level=3)
    before, after = memory_report(program).main, memory_report(planned).main
    assert after.violations == ()
    assert after.peak_bytes <= before.peak_bytes
    assert after.peak_bytes <= memory_report(inductor_plan(program)).main.peak_bytes
    assert after.allocations + after.reuses == before.allocations + before.reuses
    assert all(same(a, b) for a, b in zip(_run(program, "interpreter"), _run(planned, "interpreter"), strict=True))


@quickly
@given(programs())
def test_targets_agree(program):
    planned = PlanMemory(view_bytes=0).run(program).program
    assert all(same(a, b) for a, b in zip(_run(planned, "python"), _run(planned, "interpreter"), strict=True))


@quickly
@given(programs())
def test_emission_depends_on_the_program_alone(program):
    emitter = target("python")
    assert emitter.emit(program).source == emitter.emit(from_json(to_json(program))).source
