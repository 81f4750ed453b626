"""The programs of a run, kept beside what was recorded of it."""

from __future__ import annotations

import os
from pathlib import Path

from kernelscope.ir.program import Program
from kernelscope.ir.serialize import without_constants
from kernelscope.runtime.cache import replacing

FOLDER = "programs"


def keep(folder: Path, program: Program) -> str:
    """Writes a program, without its constants' bytes, to ``folder``; the file's path below it.

    Raises:
        OSError: it cannot be written.
    """
    name = f"{FOLDER}/{program.name}-{os.getpid()}.json"
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    with replacing(folder / name) as path:
        path.write_text(without_constants(program), encoding="utf-8")
    return name
