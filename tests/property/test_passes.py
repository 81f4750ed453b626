"""Properties of planning: sound by an independent account, within the peak without reuse, and greedy enough."""

from __future__ import annotations

import dataclasses

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernelscope.ir import lines as l
from kernelscope.ir.builder import FunctionBuilder, contiguous
from kernelscope.ir.program import Function, Program, TensorInput
from kernelscope.ir.values import BufferRef, Scalar
from kernelscope.ir.verify import breaches, verify
from kernelscope.passes.memory_report import memory_report
from kernelscope.passes.plan_memory import PlanMemory
from tests.e2e.inductor_peak import inductor_plan

LAYOUTS = (contiguous((8,)), contiguous((2, 4)), contiguous((64,)), contiguous((8, 8)), contiguous((200,)))
quickly = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


class _Draft:
    """A function of allocations, aliases, packs, calls and frees, which no one needs to run."""

    def __init__(self, draw, name="main", callees=()):
        self.draw = draw
        self.prefix = name
        self.callees = callees
        self.builder = FunctionBuilder(name)
        self.alive = {self.builder.tensor(f"{name}_x", LAYOUTS[0], donated=draw(st.booleans())).name: LAYOUTS[0]}
        self.own = set()

    def fresh(self):
        return f"{self.prefix}_{self.builder.fresh()}"

    def pick(self, names=None):
        return self.draw(st.sampled_from(sorted(names or self.alive)))

    def define(self, name, layout):
        self.alive[name] = layout
        self.own.add(name)

    def allocate(self):
        layout, name = self.draw(st.sampled_from(LAYOUTS)), self.fresh()
        self.builder.allocate(layout, name)
        self.define(name, layout)
        self.builder.add(l.CopyLine(dst=BufferRef(name), src=BufferRef(self.pick())))

    def free(self):
        if self.own and len(self.alive) > 1:
            name = self.pick(self.own)
            self.builder.add(l.FreeIfNotReusedLine(name=name))
            self.own.discard(name)
            del self.alive[name]

    free_more = free

    def alias(self):
        source, name = self.pick(), self.fresh()
        self.builder.add(l.ReinterpretLine(name=name, value=BufferRef(source), type=self.alive[source]))
        self.define(name, self.alive[source])

    def operator(self):
        layout, name = self.draw(st.sampled_from(LAYOUTS)), self.fresh()
        args = tuple(BufferRef(self.pick()) for _ in range(2))
        aliases = tuple(dict.fromkeys(arg.name for arg in args)) if self.draw(st.booleans()) else ()
        self.builder.add(
            l.ExternKernelAllocLine(op="lib.op.default", args=args, result=name, type=layout, aliases=aliases)
        )
        self.define(name, layout)

    def pack(self):
        name = self.fresh()
        self.builder.add(
            l.ExternKernelAllocLine(op="lib.pack.default", args=(BufferRef(self.pick()), Scalar(1)), result=name)
        )
        self.take_apart(name)

    def call(self):
        if self.callees:
            name, callee = self.fresh(), self.draw(st.sampled_from(self.callees))
            operands = tuple(BufferRef(self.pick()) for _ in callee.inputs)
            self.builder.add(l.InvokeSubgraphLine(result=name, function=callee.name, operands=operands))
            self.take_apart(name)

    def take_apart(self, pack):
        for path in self.draw(st.lists(st.sampled_from((0, 1)), min_size=1, max_size=3)):
            name, layout = self.fresh(), LAYOUTS[path]
            self.builder.add(l.MultiOutputLine(name=name, source=pack, path=(path,), type=layout))
            self.define(name, layout)
        self.builder.add(l.FreeLine(name=pack))

    def function(self):
        steps = ("allocate", "allocate", "free", "free_more", "alias", "operator", "pack", "call")
        for step in self.draw(st.lists(st.sampled_from(steps), max_size=30)):
            getattr(self, step)()
        returned = self.draw(st.lists(st.sampled_from(sorted(self.alive)), min_size=2, max_size=2))
        return self.builder.build(*(BufferRef(name) for name in returned))


@st.composite
def plannable(draw) -> Program:
    """A valid program whose functions allocate, alias, call and free at will."""
    inner = _Draft(draw, "inner").function()
    outer = _Draft(draw, "outer", (inner,)).function()
    main = _Draft(draw, "main", (inner, outer)).function()
    return Program(name="drawn", phase="inference", main=main, functions=(outer, inner))


@quickly
@given(plannable(), st.sampled_from((0, 64, 4096)))
def test_plans_are_sound_and_no_larger(program, view_bytes):
    verify(program)
    planned = PlanMemory(view_bytes=view_bytes).run(program).program
    verify(planned)
    for before, after in zip(memory_report(program).functions, memory_report(planned).functions, strict=True):
        assert before.violations == after.violations == ()
        assert after.max_live_bytes <= after.peak_bytes <= before.peak_bytes
        assert after.allocations + after.reuses == before.allocations + before.reuses


@quickly
@given(plannable())
def test_plans_need_no_more_than_greedy_reuse(program):
    alone = dataclasses.replace(program, main=_without_calls(program.main), functions=())
    greedy, planned = inductor_plan(alone), PlanMemory(view_bytes=0).run(alone).program
    assert memory_report(planned).main.peak_bytes <= memory_report(greedy).main.peak_bytes


@quickly
@given(plannable())
def test_planning_again_changes_nothing_more(program):
    once = PlanMemory().run(program).program
    assert memory_report(PlanMemory().run(once).program).main.peak_bytes <= memory_report(once).main.peak_bytes


@quickly
@given(plannable(), st.data())
def test_verifier_and_report_agree_on_reuse(program, data):
    """A reuse put in anywhere is refused by both accounts of storage, or by neither."""
    lines = program.main.lines
    at = data.draw(st.integers(0, len(lines) - 1))
    names = sorted({name for line in lines[:at] if (name := getattr(line, "name", None)) and _lives(name, lines[:at])})
    if not names:
        return
    old = data.draw(st.sampled_from(names))
    layout = next(line.type for line in lines if getattr(line, "name", "") == old and hasattr(line, "type"))
    reuse = l.ReuseLine(old=old, new="taken", type=layout)
    wrong = dataclasses.replace(
        program, main=dataclasses.replace(program.main, lines=(*lines[:at], reuse, *lines[at:]))
    )
    refused = [breach for breach in breaches(wrong) if breach.rule in ("storage_has_one_owner", "sizes_fit")]
    assert bool(refused) == bool(memory_report(wrong).main.violations)


def _lives(name, before):
    return not any(isinstance(line, (l.FreeLine, l.FreeIfNotReusedLine)) and line.name == name for line in before)


def _without_calls(function: Function) -> Function:
    """The function with each call replaced by an operator that makes the same pack."""
    lines = [
        l.ExternKernelAllocLine(op="lib.pack.default", args=line.operands, result=line.result)
        if isinstance(line, l.InvokeSubgraphLine)
        else line
        for line in function.lines
    ]
    inputs = tuple(
        dataclasses.replace(entry, donated=False) if isinstance(entry, TensorInput) else entry
        for entry in function.inputs
    )
    return dataclasses.replace(function, inputs=inputs, lines=tuple(lines))
