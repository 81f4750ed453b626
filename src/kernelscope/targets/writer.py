"""A small writer of indented source text with a map from lines of code back to lines of the program."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

INDENT = "    "


class Writer:
    """Collects lines of code at the current indentation."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0
        self._map: list[tuple[int, str, int]] = []

    def line(self, text: str = "") -> None:
        """Adds one line (or several, split at newlines)."""
        for part in text.split("\n"):
            self._lines.append(f"{INDENT * self._depth}{part}" if part else "")

    def comment(self, text: str) -> None:
        """Adds a Python comment; line breaks and control characters in the text cannot end it."""
        clean = "".join(char if char.isprintable() else " " for char in text)
        self.line(f"# {clean}".rstrip())

    def mark(self, function: str, index: int) -> None:
        """Says that the next line of code comes from line ``index`` of a function of the program."""
        self._map.append((len(self._lines) + 1, function, index))

    @contextlib.contextmanager
    def indent(self) -> Iterator[None]:
        """Indents what is added within."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    @property
    def source_map(self) -> tuple[tuple[int, str, int], ...]:
        """``(line of code, function, index of the program's line)``, in the order of the code."""
        return tuple(self._map)

    def text(self) -> str:
        """The whole source text."""
        return "\n".join(self._lines) + "\n"
