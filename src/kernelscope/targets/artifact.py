"""What a target makes of a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

SourceMap = tuple[tuple[int, str, int], ...]
"""``(line of code, function of the program, index of its line)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Generated code.

    Attributes:
        target: Name of the target.
        source: The host program's text.
        files: Other texts by relative path (kernels).
        source_map: From lines of ``source`` to lines of the program.
    """

    target: str
    source: str
    files: Mapping[str, str] = field(default_factory=dict)
    source_map: SourceMap = ()
    loader: Callable[[], Callable[[list[Any]], Any]] | None = field(default=None, repr=False, compare=False)

    def load(self) -> Callable[[list[Any]], Any]:
        """The program as a function of the flat list of its inputs (the list is emptied); gives a tuple."""
        if self.loader is None:
            raise TypeError(f"an artifact of target {self.target!r} is text only")
        return self.loader()
