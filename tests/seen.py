"""What a probe saw, made by hand."""

from __future__ import annotations

from kernelscope.ir.lines import ProbeLine
from kernelscope.probe.seen import Seen


def seen(*items, moment="inputs", step=0, order=0):
    """What a probe saw of ``items``: packed records, plain values, or lists of labels and records."""
    labels = tuple(f"arg{index}_1" for index in range(len(items)))
    line = ProbeLine(number=0, moment=moment, subject="k", call=0, operands=(), labels=labels)
    facts = {"time_ns": 1, "process": 2, "thread": 3, "rank": 0, "program": "p"}
    return Seen(line=line, step=step, first=order, labels=labels, items=items, **facts)
