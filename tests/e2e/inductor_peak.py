"""Inductor's reuse policy over our lines, for comparing peaks: the same captured program, planned its way.

It takes the storage freed last among those of equal device, dtype and size.
"""

from __future__ import annotations

import dataclasses

from kernelscope.ir import lines as l
from kernelscope.ir.expr import to_text
from kernelscope.ir.program import Program
from kernelscope.ir.storage import Storages


def inductor_plan(program: Program) -> Program:
    """A captured program with greedy reuse of the storage freed last, as Inductor's default plan."""
    return dataclasses.replace(program, main=_greedy(program.main))


def _greedy(function):
    pool, lines, storages = {}, [], Storages.of(function)
    for line in function.lines:
        if isinstance(line, l.AllocateLine):
            waiting = pool.get(_key(line.type), [])
            if waiting and line.allocation_size is None:
                old = waiting.pop()
                position = next(at for at, kept in enumerate(lines) if kept == l.FreeIfNotReusedLine(name=old))
                del lines[position]
                line = l.ReuseLine(old=old, new=line.name, type=line.type)
        elif isinstance(line, l.FreeIfNotReusedLine):
            layout, root = storages.types.get(line.name), storages.root(line.name)
            if layout is not None and root not in storages.borrowed and storages.alive_on(root) == {line.name}:
                pool.setdefault(_key(layout), []).append(line.name)
            line = l.FreeIfNotReusedLine(name=line.name)
        storages.step(line)
        lines.append(line)
    return dataclasses.replace(function, lines=tuple(lines))


def _key(layout):
    return layout.device, layout.dtype, to_text(layout.nbytes())
