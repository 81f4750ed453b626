"""What a probe saw, made by hand; and what a scope ought to have seen."""

from __future__ import annotations

from collections import defaultdict

from kernelscope.ir.calls import calls
from kernelscope.ir.lines import ProbeLine
from kernelscope.probe.records import TensorRecord
from kernelscope.probe.seen import Run, Seen, count_of


def seen(*items, moment="inputs", step=0, order=0):
    """What a probe saw of ``items``: packed records, plain values, or lists of labels and records."""
    labels = tuple(f"arg{index}_1" for index in range(len(items)))
    line = ProbeLine(number=0, moment=moment, subject="k", call=0, operands=(), labels=labels)
    run = Run(program="p", process=2, thread=3, rank=0, step=step)
    return Seen(line, run, 1, order, count_of(line, items), labels, items)


def not_as_called(scope):
    """Where the events of a scope are not exactly the values its programs pass and make, with statistics."""
    shown = defaultdict(set)
    for event in scope.events:
        shown[event.program, event.call, event.moment].add(event.label.split("[")[0])
    wrong = []
    for key, program in scope.programs.items():
        for call in calls(program):
            for moment in ("before", "after"):
                wanted = {operand.label for operand in (*call.operands, *(call.results if moment == "after" else ()))}
                labels = shown[key, call.number, moment] - {""}  # a call's own line has no label
                wrong += [(call.subject, moment, label) for label in wanted ^ labels]
    tensors = [event for event in scope.events if isinstance(event.value, TensorRecord)]
    return wrong + [(event.subject, event.moment, event.label) for event in tensors if not event.value.statistics]
