"""Text and file forms: every record goes out and comes back equal; bad input is refused with words."""

from __future__ import annotations

import json

import pytest

from kernelscope.errors import ProgramFileError, ProgramTextError
from kernelscope.ir.formats import FORMATS
from kernelscope.ir.lines import LINE_KINDS
from kernelscope.ir.parse import parse_line, parse_program
from kernelscope.ir.serialize import from_json, load, save, to_json
from kernelscope.ir.text import print_line, print_program
from tests.programs import LINES, chain, rich_program


def test_every_line_kind_is_tried_and_has_a_format():
    tried = {type(line) for line in LINES} | {type(line) for line in rich_program().main.lines}
    assert tried == set(LINE_KINDS) == set(FORMATS)


@pytest.mark.parametrize("line", LINES, ids=lambda line: type(line).__name__)
def test_line_parses_back(line):
    text = print_line(line)
    assert "\n" not in text
    assert parse_line(text) == line


def test_program_parses_back():
    program = rich_program()
    assert parse_program(print_program(program)) == program


def test_program_reads_back():
    program = rich_program()
    assert from_json(to_json(program)) == program


def test_text_golden(golden):
    golden("rich_program.txt", print_program(rich_program()))


def test_file_is_written_whole(tmp_path):
    path = tmp_path / "p.json"
    save(rich_program(), path)
    assert load(path) == rich_program()
    assert [entry.name for entry in tmp_path.iterdir()] == ["p.json"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[: len(text) // 2], "not a program file"),
        (lambda text: "", "not a program file"),
        (lambda text: "[]", "its format is not"),
        (lambda text: json.dumps({"format": "onnx"}), "its format is not"),
        (lambda text: text.replace('"version":1', '"version":99'), "version 99"),
        (lambda text: text.replace('"Function"', '"Functoin"'), "damaged"),
        (lambda text: text.replace('"dtype","v":"float32"', '"dtype","v":"nn"'), "damaged"),
        (lambda text: text.replace('"phase":', '"phrase":'), "damaged"),
    ],
)
def test_bad_file_is_refused(change, message):
    with pytest.raises(ProgramFileError, match=message):
        from_json(change(to_json(rich_program())))


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(ProgramFileError, match="cannot read"):
        load(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("phase=", "phrase=", "expected 'phase='"),
        ("extern aten.mm.out", "exturn aten.mm.out", "expected a line"),
        ("float32[4, 4]{4, 1}", "flout32[4, 4]{4, 1}", "expected a dtype"),
        ("float32[4, 4]{4, 1}", "float32[4, 4]{4}", "strides"),
        ("float32[4, 4]{4, 1}", "float32[4, (4]{4, 1}", "expected"),
        ("into buf0", "into", "expected"),
    ],
)
def test_bad_text_says_where(old, new, message):
    text = print_program(chain().program())
    assert old in text
    with pytest.raises(ProgramTextError, match=message) as caught:
        parse_program(text.replace(old, new, 1))
    assert "line " in caught.value.where


def test_text_with_a_missing_origin_or_kernel_is_refused():
    text = print_program(rich_program())
    with pytest.raises(ProgramTextError, match="origin"):
        parse_program("\n".join(line for line in text.split("\n") if not line.startswith("origin")))
    with pytest.raises(ProgramTextError, match="kernel"):
        parse_program(text.replace("define cpp_add", "define cpp_sub"))
