"""Reads words, names, numbers, strings and expressions off program text; says where it is when it cannot."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

import sympy

from kernelscope.errors import ProgramTextError
from kernelscope.ir.expr import parse_expr
from kernelscope.ir.text_values import NAME

_BLANK = " \t\n"
_SPACE = re.compile(r"[ \t\n]*")
_WORD = re.compile(r"[A-Za-z_][\w.]*(?:::[\w.]+)*\??")
_INT = re.compile(r"-?\d+(?![\w.])")
_NUMBER = re.compile(r"-?(?:inf|nan|\d+(?:\.\d+)?(?:e[+-]?\d+)?)")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_DEVICE = re.compile(r"[a-z][a-z_0-9]*(?::\d+)?")
_Number = TypeVar("_Number", int, "int | float")
_CLOSERS = {"[": "]", "{": "}", "(": ")"}


class Scanner:
    """A position in program text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, expected: str, at: int | None = None) -> ProgramTextError:
        """The error that ``expected`` is not here, or not at position ``at``."""
        self.at = self.at if at is None else at
        line = self.text.count("\n", 0, self.at) + 1
        column = self.at - (self.text.rfind("\n", 0, self.at) + 1) + 1
        found = self.text[self.at : self.at + 24].split("\n")[0] or "the end"
        whole = self.text.split("\n")[line - 1] if self.text else ""
        return ProgramTextError(
            f"expected {expected}, found {found!r}",
            where=f"line {line}, column {column}: {whole.strip()[:160]}",
            hint="the text of a program is made by print_program; see docs/ir.md for its grammar",
        )

    def skip(self) -> None:
        """Goes past white space."""
        if self.text[self.at : self.at + 1] not in _BLANK:
            return
        match = _SPACE.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def done(self) -> bool:
        """Whether only white space is left."""
        self.skip()
        return self.at == len(self.text)

    def take(self, literal: str) -> bool:
        """Goes past ``literal`` if it comes next (as a whole word, if it is one)."""
        found = self.word() == literal if literal[0].isalpha() and literal[-1] != "=" else self.punctuation(literal)
        if found:
            self.at += len(literal)
            return True
        return False

    def punctuation(self, mark: str) -> bool:
        """Whether ``mark`` comes next, not gone past."""
        self.skip()
        return self.text.startswith(mark, self.at)

    def expect(self, literal: str) -> None:
        """Goes past ``literal``.

        Raises:
            ProgramTextError: something else comes next.
        """
        if not self.take(literal):
            raise self.fail(repr(literal))

    def pattern(self, pattern: re.Pattern[str], expected: str) -> str:
        """What a pattern matches here."""
        self.skip()
        match = pattern.match(self.text, self.at)
        if match is None:
            raise self.fail(expected)
        self.at = match.end()
        return match[0]

    def name(self) -> str:
        """A name, plain or quoted."""
        if self.take("$"):
            return self.string()
        return self.pattern(NAME, "a name")

    def choice(self, *choices: str) -> str:
        """One of a few words."""
        word = self.word()
        if word not in choices:
            raise self.fail(f"one of {', '.join(choices)}")
        self.at += len(word)
        return word

    def word(self) -> str:
        """The word that comes next, not gone past; empty if something else comes next."""
        self.skip()
        match = _WORD.match(self.text, self.at)
        return match[0] if match else ""

    def integer(self) -> int:
        """A whole number."""
        return self._converted(_INT, "a whole number", int)

    def number(self) -> int | float:
        """A number: whole if it is spelled so."""
        return self._converted(_NUMBER, "a number", lambda text: int(text) if _INT.fullmatch(text) else float(text))

    def _converted(self, pattern: re.Pattern[str], expected: str, convert: Callable[[str], _Number]) -> _Number:
        self.skip()
        start = self.at
        try:
            return convert(self.pattern(pattern, expected))
        except ValueError as error:  # more digits than Python converts
            raise self.fail(expected, start) from error

    def string(self) -> str:
        """A quoted string."""
        self.skip()
        start = self.at
        try:
            return str(json.loads(self.pattern(_STRING, "a string in quotes")))
        except ValueError as error:
            raise self.fail("a string in quotes, with JSON's escapes", start) from error

    def device(self) -> str:
        """A device."""
        return self.pattern(_DEVICE, "a device")

    def json(self) -> Any:
        """A JSON value."""
        self.skip()
        try:
            value, self.at = json.JSONDecoder().raw_decode(self.text, self.at)
        except ValueError as error:
            raise self.fail("a JSON value") from error
        return value

    def rest_of_line(self) -> str:
        """Everything up to the end of the line, which is gone past."""
        end = self.text.find("\n", self.at)
        end = len(self.text) if end < 0 else end
        text, self.at = self.text[self.at : end], min(end + 1, len(self.text))
        return text

    def expr(self, closers: str) -> sympy.Basic:
        """An expression up to one of ``closers`` at its own level, which is not gone past."""
        self.skip()
        start = self.at
        depth: list[str] = []
        while self.at < len(self.text) and self.text[self.at] != "\n":
            char = self.text[self.at]
            if not depth and char in closers:
                break
            if char in _CLOSERS:
                depth.append(_CLOSERS[char])
            elif depth and char == depth[-1]:
                depth.pop()
            self.at += 1
        text, end = self.text[start : self.at].strip(), self.at
        if not text:
            raise self.fail("an expression")
        try:
            parsed = parse_expr(text)
        except ProgramTextError as error:
            raise self.fail("an expression", start) from error
        self.at = end
        return parsed
