"""Which process a number means: numbers are given again when a process has ended."""

from __future__ import annotations

from pathlib import Path


def start_of(process: int) -> int | None:
    """When a process started, in the system's ticks since it came up; None where there is none, or it has ended.

    The fields of ``/proc/PID/stat`` are in proc(5): the third is the state, the twenty-second the start.
    """
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    # The command in parentheses may hold anything, closing parentheses too.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])
