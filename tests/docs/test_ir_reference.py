"""The IR's reference says what is true: its examples parse, its notes cover every field, its sample is valid."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from tools.ir_notes import NOTES
from tools.ir_page import sample

from kernelscope.ir.lines import LINE_KINDS
from kernelscope.ir.parse import parse_line, parse_program
from kernelscope.ir.text import print_line, print_program
from kernelscope.ir.verify import verify
from tests.programs import KERNEL

PAGE = (Path(__file__).parent.parent.parent / "docs" / "ir.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE))


def test_every_line_kind_has_a_section_and_notes():
    assert set(SECTIONS) == set(NOTES) == {kind.__name__ for kind in LINE_KINDS}


@pytest.mark.parametrize("kind", LINE_KINDS, ids=lambda kind: kind.__name__)
def test_every_field_is_explained(kind):
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| (.+) \|$", SECTIONS[kind.__name__], re.MULTILINE))
    fields = {field.name for field in dataclasses.fields(kind)} - {"origin"}
    assert set(rows) == fields == set(NOTES[kind.__name__].fields)
    assert all(rows.values())


@pytest.mark.parametrize("kind", LINE_KINDS, ids=lambda kind: kind.__name__)
def test_examples_parse(kind):
    examples = re.search(r"^```\n(.*?)```$", SECTIONS[kind.__name__], re.DOTALL | re.MULTILINE)[1].splitlines()
    assert examples
    for example in examples:
        line = parse_line(example, {KERNEL.name: KERNEL})
        assert type(line) is kind
        assert print_line(line) == example


def test_sample_is_a_valid_program():
    text = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)[1]
    program = parse_program(text)
    verify(program)
    assert program == sample()
    assert print_program(program) == text
