"""Prints docs/coverage.md: what plain Inductor and Kernelscope do about what users hit, each of them run.

It takes some minutes; progress goes to standard error.
"""

from __future__ import annotations

import html
import os
import re

import torch
from rich.console import Console
from rich.progress import track
from tests.acceptance.items import ITEMS, Item
from tests.acceptance.ways import WAYS, Way

LONGEST = 150
HEAD = f"""# What the debugging tools see

Made by `make coverage`: each line is a program that was compiled and run in four ways, with PyTorch {{version}} on a
CPU, and what was seen. Plain Inductor was given its own printer, saver and asserts; Kernelscope obeys the same
environment variables. The programs and the questions are in `tests/acceptance/`, and the tests hold ours to them.
Comparing with eager is not there yet in ours, nor is the FX program.

| item | what a user needs | {" | ".join(way.title for way in WAYS)} |
|---|---|{"---|" * len(WAYS)}
"""


def answer(item: Item, way: Way) -> str:
    """What was seen, on one line, for a cell of the table."""
    try:
        seen, mark = item.check(way), "yes"
    except AssertionError as failure:
        seen, mark = str(failure).splitlines()[0], "**no**"
    text = seen if len(seen) <= LONGEST else f"{seen[:LONGEST]}…"
    return f"{mark}: {html.escape(_nowhere(text), quote=False)}".replace("|", "\\|").replace("*_", "\\*_")


def _nowhere(text: str) -> str:
    """A text without the folders and addresses of this run."""
    return re.sub(r"0x[0-9a-f]+|/\S*/", "…", text)


def page() -> str:
    """The page's text."""
    asked = track(ITEMS, "asking", console=Console(stderr=True))
    rows = [f"| {item.number} | {item.need} | {' | '.join(answer(item, way) for way in WAYS)} |" for item in asked]
    return HEAD.format(version=torch.__version__.partition("+")[0]) + "\n".join(rows) + "\n"


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    print(page(), end="")
