"""What a sink tells, and how long it holds the record of a tensor."""

from __future__ import annotations

import pytest
import torch

from kernelscope.ir import lines as l
from kernelscope.ir.values import BufferRef
from kernelscope.passes.insert_probes import InsertProbes
from kernelscope.probe.selection import Selection
from kernelscope.probe.sink import Sink
from tests.programs import chain


def probed():
    return InsertProbes().run(chain().program(BufferRef("x"))).program


def run(sink, program, tensor, changing):
    """Calls every probe of the program with ``tensor`` for each value, to which ``changing`` is added in between."""
    for line in program.main.lines:
        if isinstance(line, l.ProbeLine):
            sink(line.number, (tensor,) * len(line.operands))
            tensor += changing


@pytest.mark.parametrize("level", ["stats", "values"])
@pytest.mark.parametrize("selection", [Selection(), Selection(dtypes=("float32",))])
@pytest.mark.parametrize("elements", [4, 100])
def test_where_some_calls_have_no_probes_nothing_is_held(level, selection, elements):
    program, seen = probed(), []
    for sees_all in (True, False):
        kept = []
        sink = Sink(program, selection, level, [kept.append], [], sees_all=sees_all)
        run(sink, program, torch.zeros(elements), 1)
        events = [event for each in kept for event in each.events() if event.moment == "before" and event.label]
        seen.append([getattr(event.value, "statistics", None) for event in events])
    held, anew = ([each.max for each in found if each] for found in seen)
    assert held[0] == 0  # nobody said that it was written after the inputs were shown
    assert anew == sorted(anew)
    assert anew[0] == 1


@pytest.mark.parametrize("level", ["names", "stats", "values"])
def test_receivers_get_every_event_with_its_value(level):
    program, kept, got = probed(), [], []
    sink = Sink(
        program, Selection(), level, [kept.append], [lambda event, value: got.append((event, value))], sees_all=True
    )
    tensor = torch.zeros(4)
    run(sink, program, tensor, 0)
    assert [event for event, _ in got] == [event for seen in kept for event in seen.events()]
    assert [event.order for event, _ in got] == list(range(len(got)))
    assert all((value is tensor) == bool(event.label) for event, value in got)
    assert any(event.label for event, _ in got) == (level != "names")
