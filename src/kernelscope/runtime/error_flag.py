"""PyTorch's flag for integer division by zero: one variable of the process, which two threads cannot use at once.

A kernel of recent versions points the flag at a local variable, runs, and asks whether a division set it. Where
nothing in a kernel divides integers, those statements do nothing but keep the kernel from running in two threads;
they are taken out. A kernel that keeps them must hold the interpreter lock.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import torch

_MARK = "integer_div_error"
_NOTE = "inductor_cpu_note_integer_div_by_zero"
_FUNCTION = re.compile(r"^inline\b[^\n(]*?\b(\w+)\(", re.MULTILINE)


def without(text: str) -> str:
    """A kernel's text without the flag, if nothing in it can set the flag; else the same text."""
    if _MARK not in text or any(name in text and re.search(rf"\b{name}\b", text) for name in _setters()):
        return text
    lines = text.splitlines(keepends=True)
    statements = [line.strip() for line in lines if _MARK in line]
    if not all(line.endswith(";") for line in statements):
        return text  # of a form that this version does not know
    return "".join(line for line in lines if _MARK not in line)


def is_used(text: str) -> bool:
    """Whether a kernel of this text uses the flag."""
    return _MARK in text


@functools.cache
def _setters() -> tuple[str, ...]:
    """The names of the functions of PyTorch's kernel header that can set the flag."""
    path = Path(torch.__file__).parent / "include/torch/csrc/inductor/cpp_prefix.h"
    header = path.read_text() if path.exists() else ""
    names = {_NOTE}
    for note in re.finditer(_NOTE, header):
        names.update(_FUNCTION.findall(header, 0, note.end() + 1)[-1:])
    return tuple(sorted(names))
