"""What a probe saw, made by hand."""

from __future__ import annotations

from kernelscope.ir.lines import ProbeLine
from kernelscope.probe.seen import Run, Seen, count_of


def seen(*items, moment="inputs", step=0, order=0):
    """What a probe saw of ``items``: packed records, plain values, or lists of labels and records."""
    labels = tuple(f"arg{index}_1" for index in range(len(items)))
    line = ProbeLine(number=0, moment=moment, subject="k", call=0, operands=(), labels=labels)
    run = Run(program="p", process=2, thread=3, rank=0, step=step)
    return Seen(line, run, 1, order, count_of(line, items), labels, items)
