"""Text and file forms: every record goes out and comes back equal; bad input is refused with words."""

from __future__ import annotations

import dataclasses
import json
import os
import stat

import pytest

from kernelscope.errors import ProgramFileError, ProgramTextError
from kernelscope.ir import lines as l
from kernelscope.ir.builder import FunctionBuilder, contiguous
from kernelscope.ir.codec import RecordError, decode, encode, field_types
from kernelscope.ir.expr import parse_expr, symbol
from kernelscope.ir.formats import BY_WORD, FORMATS, Field, Flag, Optional, Result
from kernelscope.ir.lines import LINE_KINDS
from kernelscope.ir.parse import parse_line, parse_program
from kernelscope.ir.serialize import from_json, load, save, to_json
from kernelscope.ir.text import print_line, print_program
from kernelscope.ir.values import BufferRef, Scalar, SymExpr, View
from tests.programs import KERNEL, LINES, ORIGIN, chain, rich_program
from tests.work import calls_made


def test_every_line_kind_is_tried_and_has_a_format():
    tried = {type(line) for line in LINES} | {type(line) for line in rich_program().main.lines}
    assert tried == set(LINE_KINDS) == set(FORMATS) == set(BY_WORD.values())


@pytest.mark.parametrize("kind", LINE_KINDS, ids=lambda kind: kind.__name__)
def test_format_spells_every_field_once(kind):
    spelled = [part.name for part in FORMATS[kind] if isinstance(part, (Field, Flag, Optional, Result))]
    assert sorted([*spelled, "origin"]) == sorted(field_types(kind))


@pytest.mark.parametrize("line", LINES, ids=lambda line: type(line).__name__)
def test_line_parses_back(line):
    text = print_line(line)
    assert "\n" not in text
    assert parse_line(text) == line


def test_definition_parses_back_with_its_kernel():
    line = l.KernelDefinitionLine(kernel=KERNEL)
    assert print_line(line) == "define cpp_add"
    assert parse_line("define cpp_add", {"cpp_add": KERNEL}) == line
    with pytest.raises(ProgramTextError, match="a kernel that has a section, not cpp_add"):
        parse_line("define cpp_add")


def test_program_parses_back():
    program = rich_program()
    assert parse_program(print_program(program)) == program


def test_program_reads_back():
    program = rich_program()
    assert from_json(to_json(program)) == program


def test_text_golden(golden):
    golden("rich_program.txt", print_program(rich_program()))


def test_summary_golden(golden):
    """What people read: without kernels' text, graph and origins."""
    text = print_program(rich_program(), origins=False, kernels=False, graph=False)
    assert not any(word in text for word in ("origin #", "; #", "kernel cpp_add {", "storage", "graph"))
    golden("rich_summary.txt", text)


def test_origin_shows_the_line_of_the_model():
    line = dataclasses.replace(l.NullLine(), origin=ORIGIN)
    program = chain().program()
    text = print_program(dataclasses.replace(program, main=dataclasses.replace(program.main, lines=(line,))))
    assert "null" + " " * 68 + '; #0 mo"del.py:12 x @ w # ünïcode\n' in text
    assert text.count("ünïcode") == 1
    assert parse_program(text).main.lines == (line,)


def test_an_origin_is_told_once_in_a_row():
    line = dataclasses.replace(l.NullLine(), origin=ORIGIN)
    other = dataclasses.replace(line, origin=dataclasses.replace(ORIGIN, locations=()))
    program = chain().program()
    lines = (line, line, l.NullLine(), line, other, other)
    program = dataclasses.replace(program, main=dataclasses.replace(program.main, lines=lines))
    text = print_program(program)
    told = [row.partition(";")[2] for row in text.split("\n") if row.startswith("  null")]
    place, ops = ' #0 mo"del.py:12 x @ w # ünïcode', " #1 aten.mm, aten.relu"
    assert told == [place, " #0", "", place, ops, " #1"]
    assert parse_program(text) == program


def test_many_inputs_stand_one_a_line():
    builder = FunctionBuilder()
    for number in range(4):
        builder.tensor(f"input_{number}", contiguous((8, 8)))
    program = builder.program()
    text = print_program(program)
    assert "func main(\n    input_0: f32[8, 8]{8, 1} cpu,\n" in text
    assert "    input_3: f32[8, 8]{8, 1} cpu\n) {\n  return ()\n" in text
    assert parse_program(text) == program
    bare = FunctionBuilder("f" * 200).program()
    assert parse_program(print_program(bare)) == bare


@pytest.mark.parametrize("source", ["", "\n", "\n\n", " x ", "\r\n\t", "a\n  | b\n}", "\x00\x1f", "\u2028"])
def test_kernel_text_survives(source):
    builder = FunctionBuilder()
    builder.define(dataclasses.replace(KERNEL, source=source))
    program = builder.program()
    assert parse_program(print_program(program)) == program


# --- files -----------------------------------------------------------------------------------------------------


def test_file_is_written_whole(tmp_path):
    path = tmp_path / "p.json"
    path.write_text("before")
    save(rich_program(), path)
    assert load(path) == rich_program()
    assert [entry.name for entry in tmp_path.iterdir()] == ["p.json"]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_failed_write_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "p.json"
    path.write_text("before")
    monkeypatch.setattr(os, "replace", _no_space)
    with pytest.raises(ProgramFileError, match="No space left"):
        save(rich_program(), path)
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("p.json", "before")]


def _no_space(*_):
    raise OSError(28, "No space left on device")


def test_write_into_no_folder_is_refused(tmp_path):
    with pytest.raises(ProgramFileError, match="cannot write program file: No such file"):
        save(rich_program(), tmp_path / "none" / "p.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[: len(text) // 2], "not a program file"),
        (lambda text: "", "not a program file"),
        (lambda text: "[]", "its format is not"),
        (lambda text: json.dumps({"format": "onnx"}), "its format is not"),
        (lambda text: text.replace('"version":1', '"version":99'), "version 99"),
        (lambda text: text.replace('"version":1', '"version":true'), "version True"),
        (lambda text: text.replace('"version":1', '"version":"1"'), "version '1'"),
        (lambda text: text.replace('"program":', '"programme":'), "damaged program file: expected Program, found None"),
        (lambda text: text.replace('"Function"', '"Functoin"'), "main: expected Function, found a record 'Functoin'"),
        (lambda text: text.replace('"dtype","v":"float32"', '"dtype","v":"nn"'), "dtype: 'nn' is not a dtype"),
        (lambda text: text.replace('"device","v":"cpu"', '"device","v":"tpu3"'), "device: "),
        (lambda text: text.replace('"phase":', '"phrase":'), "Program has no field 'phrase'"),
        (lambda text: text.replace('"phase":"forward"', '"phase":"sideways"'), "phase: expected Literal"),
        (lambda text: text.replace('"name":"b"', '"name":5'), r"main.lines\[0\].name: expected str, found 5"),
        (lambda text: text.replace('"size":[4]', '"size":["4"]'), r"size\[0\]: expected int or Expr, found '4'"),
        (lambda text: text.replace('"stride":[1]', '"stride":[]'), "differ in rank"),
        (lambda text: text.replace('"symbol":{"$":"expr","v":"s0"}', '"symbol":{"$":"expr","v":"3"}'), "a Symbol"),
        (lambda text: text.replace('["index",0]', '["index","0"]'), r"path\[0\]: expected one of 7 kinds"),
        (lambda text: text.replace('"v":"AAECAwQFBgcICQoLDA0ODw=="', '"v":"AAE"'), r"storages\[0\].data: "),
        (lambda text: text.replace('"old":"a",', ""), "missing 1 required keyword-only argument: 'old'"),
    ],
)
def test_bad_file_is_refused(change, message):
    text = to_json(rich_program())
    assert change(text) != text
    with pytest.raises(ProgramFileError, match=message) as caught:
        from_json(change(text))
    assert caught.value.hint


def test_missing_and_binary_files_are_refused(tmp_path):
    with pytest.raises(ProgramFileError, match="cannot read"):
        load(tmp_path / "none.json")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ProgramFileError, match="cannot read"):
        load(tmp_path / "binary")
    (tmp_path / "other").write_text("{}")
    with pytest.raises(ProgramFileError, match="its format is not") as caught:
        load(tmp_path / "other")
    assert caught.value.where.endswith("other")


def test_only_records_of_the_ir_are_written():
    with pytest.raises(TypeError, match="object has no file form"):
        encode(object())
    with pytest.raises(RecordError, match="expected Scalar"):
        decode({"$": "BufferRef", "name": "a"}, Scalar)


# --- bad text --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message", "place"),
    [
        ("phase=", "phrase=", "expected 'phase='", "line 1, column 17"),
        ("phase=inference", "phase=x", "expected one of inference, forward, backward", "line 1, column 23"),
        ("extern aten.mm.out", "exturn aten.mm.out", "expected a line, found 'exturn", "line 5, column 3"),
        ("buf0 = allocate", "allocate", "expected the name of the line's result", "line 4, column 3"),
        ("buf0 = allocate", "buf0 = extern", "expected the word of a line that has a result", "line 4, column 10"),
        ("f32[4, 4]{4, 1}", "flout32[4, 4]{4, 1}", "expected a dtype", "line 3, column 14"),
        ("f32[4, 4]{4, 1}", "f32[4, 4]{4}", "expected 2 strides", "line 3, column 23"),
        ("f32[4, 4]{4, 1}", "f32[4, (4]{4, 1}", "expected an expression", "line 3"),
        ("f32[4, 4]{4, 1}", "f32[4, u0 > 4]{4, 1}", "expected a number, not a condition", "line 3"),
        ("f32[4, 4]{4, 1} cpu", "f32[4, 4]{4, 1} cpux", "expected a device", "line 3"),
        ("into buf0", "into", "expected a line", "line 6"),
        ("(x, w)", "(x w)", "expected '\\)', found 'w\\) into buf0'", "line 5, column 24"),
        ("func main", "fun main", "expected a section \\(symbol, constant, func", "line 3, column 1"),
        ("func main", "kernel main", "expected a JSON value", "line 3"),
        ("}\n", "", "expected a line, found 'the end'", ""),
        ('"built"', '"bu\\ilt"', "expected a string in quotes, with JSON's escapes", "line 1, column 9"),
        ('"built"', '"bu\nilt"', "expected a string in quotes, with JSON's escapes", "line 1, column 9"),
        ("(x, w)", f"(x, {'9' * 5000})", "expected a number", "line 5"),
        ("(x, w)", f"(x, {'[' * 5000})", "nested less deeply", "line 5"),
    ],
)
def test_bad_text_says_where(old, new, message, place):
    text = print_program(chain().program())
    assert old in text
    with pytest.raises(ProgramTextError, match=message) as caught:
        parse_program(text.replace(old, new, 1))
    assert place in caught.value.where
    assert "docs/ir.md" in caught.value.hint


def test_text_with_a_missing_origin_or_kernel_is_refused():
    text = print_program(rich_program())
    with pytest.raises(ProgramTextError, match="the number of an origin") as caught:
        parse_program("\n".join(line for line in text.split("\n") if not line.startswith("origin")))
    assert "line 7, column 78" in caught.value.where
    with pytest.raises(ProgramTextError, match="a kernel that has a section, not cpp_sub"):
        parse_program(text.replace("define cpp_add", "define cpp_sub"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"role": "in"', '"role": "on"', "a sound record .*role: expected Literal"),
        ('"isa": "avx2"', '"isa": 2', "a sound record .*isa: expected str, found 2"),
        ('data "AAEC', 'data "AAE', "expected base64 data"),
        ("kernel triton_poi {", "kernel cpp_add {", "one section for kernel cpp_add, not two"),
        ("kernel multi {", "kernel multi [", "expected a"),
        ("%x = placeholder", "%x = placemat", "expected one of placeholder"),
        ("s0 = bind size", "s0 = bind sighs", "expected one of size, stride, value"),
        ("[index 0,", '[index "0",', "expected a whole number"),
    ],
)
def test_bad_sections_are_refused(old, new, message):
    text = print_program(rich_program())
    assert old in text
    with pytest.raises(ProgramTextError, match=message):
        parse_program(text.replace(old, new, 1))


def test_line_with_more_behind_it_is_refused():
    with pytest.raises(ProgramTextError, match="expected the end of the line"):
        parse_line("free a free b")


# --- speed -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("write", "read"), [(print_program, parse_program), (to_json, from_json)])
def test_work_grows_with_the_program_and_not_its_square(write, read):
    """Reading is on the way of every warm start."""
    small, large = _large(101), _large(404)
    assert len(large.main.lines) > 2000
    assert read(write(large)) == large
    for work in (write, lambda program: read(write(program))):
        assert calls_made(lambda work=work: work(large)) < 5 * calls_made(lambda work=work: work(small))


def _large(rounds):
    builder = FunctionBuilder()
    rows = symbol("s0")
    x, w = builder.tensor("x", contiguous((rows, 64))), builder.tensor("w", contiguous((64, 64)))
    for number in range(rounds):
        place = l.SourceLocation(file="model.py", line=number, function="forward", text="x = self.relu(x @ w)")
        builder.origin = l.Origin(nodes=(f"mm_{number}",), ops=("aten.mm",), locations=(place,))
        builder.define(dataclasses.replace(KERNEL, name=f"cpp_{number}", source=KERNEL.source * 4))
        y = builder.allocate(contiguous((rows, 64)))
        builder.out("aten.mm.out", (x, w), y)
        half = View(base=BufferRef(y.name), size=(rows, 32), stride=(64, 1), offset=number)
        builder.call(f"cpp_{number}", x, half, SymExpr(parse_expr(f"s0*{number + 2}")))
        if number:
            builder.free(x)
        x = y
    return builder.program(x)
