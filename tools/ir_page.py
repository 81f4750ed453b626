"""Prints docs/ir.md: every line kind with its fields, its meaning and an example in the text form."""

import dataclasses
import inspect
import re

from tests.programs import LINES, rich_program

from kernelscope.ir import lines as l
from kernelscope.ir.builder import FunctionBuilder, contiguous
from kernelscope.ir.expr import parse_expr, symbol
from kernelscope.ir.program import Constant, Program, Storage, SymbolInfo
from kernelscope.ir.text import print_line, print_program
from kernelscope.ir.values import ConstantRef, SymExpr, View
from tools.ir_notes import NOTES, SECTIONS

HEAD = """# The wrapper IR

Made by `make docs` from the classes in `kernelscope/ir/lines.py` and from `tools/ir_notes.py`; examples are lines of
the tests.

A program has a `main` function and the functions it calls. A function has typed inputs and a list of lines, and ends
in its `return`. Lines are immutable records; nothing in a program points back to a compiler, so a program read from its
file can be printed, checked, changed and run in a process that never saw the model.

## What holds across lines

Checked by `kernelscope.ir.verify` after capture and after every pass; each rule is a named function there.

- A name is defined once in its function, before its use, and is not used after it ended.
- A storage has one owner; only its owner may be reused, and only when nothing alive shares it.
- Views and reusing tensors fit the storage they are laid over (where sizes are static).
- A kernel is defined before it is called, with operands that match its parameters.
- A symbol has a value before it is used: bound from an input, read from a result, or computed.
- Device and stream scopes balance.
- What is returned is alive; the return is the last line.

## Text form

`print(program)`, or `kernelscope.ir.text.print_program`; `kernelscope.ir.parse.parse_program` reads it back to an equal
program. White space separates words and means nothing else. First the header, symbols and constants, then the
functions, then the long parts: origins, kernels' text, storages, the graph before fusion.

```text
{sample}```

| written | is |
|---|---|
| `f32[8, s0]{s0, 1} cuda:0 +{4}` | a `TensorType`: dtype, size, stride and storage offset in elements, device |
| `buf0`, `$"any text"` | a name; in quotes where it would read as something else |
| `const c0` | a constant |
| `view(buf0, [4]{1} +{2} as i32)` | a view: size, stride, offset in elements of the base's dtype, then its own dtype |
| `3`, `-0.0`, `inf`, `nan`, `true`, `"text"`, `complex(1.0, -2.0)` | a `Scalar`; a whole number is an int |
| `{FloorDiv(s0, 2) + 1}` | a `SymExpr`: an expression over symbols |
| `none`, `[...]`, `(...)` | `NoneValue`, a list, a tuple |
| `dtype(bf16)`, `device(cpu)`, `layout(strided)`, `memory_format(preserve_format)`, `op(aten.mul.out)` | as they say |
| `object(gen)` | an input that is neither tensor nor number |
| `; #3 model.py:12 ...` | the line's origin is number 3; the rest is for the reader only |

Dtypes are PyTorch's names with short prefixes: `f32`, `bf16`, `i64`, `u8`, `c64`, `bool`, `f8_e4m3fn`.

## File form

`Program.save` and `Program.load`: JSON with `"format": "kernelscope-program"` and a version. Each record is an object
whose `"$"` names its class; fields at their defaults are left out. Reading checks every field against its type. A file
that is cut off, foreign, damaged or of another version is refused with a `ProgramFileError`.

## Origin

Besides the fields below every line may carry an `origin`: `nodes`, the names of FX nodes; `ops`, the operators fused
into it; `locations`, lines of the model's source, innermost last.
"""


def sample() -> Program:
    """A small program that shows the sections of the text form."""
    rows = symbol("s0")
    place = l.SourceLocation(file="model.py", line=12, function="forward", text="return x @ self.w")
    builder = FunctionBuilder()
    x = builder.tensor("x", contiguous((rows, 2)))
    builder.scalar("n", rows)
    builder.add(l.BindSymbolLine(symbol=rows, source="n", attribute="value"))
    builder.origin = l.Origin(nodes=("mm",), ops=("aten.mm",), locations=(place,))
    result = builder.allocate(contiguous((rows, 2)))
    builder.out("aten.mm.out", (x, ConstantRef("c0")), result)
    builder.origin = None
    column = View(base=result, size=(rows,), stride=(2,), offset=1)
    return builder.program(
        *(result, column, SymExpr(parse_expr("s0 + 1"))),
        name="main",
        constants=(Constant(name="c0", type=contiguous((2, 2)), storage="weights"),),
        storages=(Storage(key="weights", nbytes=16, data=bytes(16)),),
        symbols=(SymbolInfo(symbol=rows, kind="backed", hint=8, lower=2),),
        passes=("plan_memory",),
        torch_version="2.13.0",
    )


def page() -> str:
    """The page's text."""
    parts = [HEAD.replace("{sample}", print_program(sample()))]
    for section, notes in SECTIONS.items():
        parts.append(f"## {section}\n")
        parts += [_kind(getattr(l, name)) for name in notes]
    return "\n".join(parts)


def _kind(kind: type[l.Line]) -> str:
    note = NOTES[kind.__name__]
    text = re.sub(r"``(.*?)``", r"`\1`", inspect.cleandoc(kind.__doc__ or ""))
    examples = "\n".join(print_line(line) for line in (*LINES, *rich_program().main.lines[-3:-2]) if type(line) is kind)
    parts = [f"### {kind.__name__}", "", text, "", "```", examples, "```", ""]
    fields = [field for field in dataclasses.fields(kind) if field.name != "origin"]
    if fields:
        parts += ["| field | type | default | meaning |", "|---|---|---|---|"]
        parts += [
            f"| `{field.name}` | {_type(field)} | {_default(field)} | {note.fields[field.name]} |" for field in fields
        ]
        parts.append("")
    if note.rules:
        parts += [*(f"- {rule}" for rule in note.rules), ""]
    return "\n".join(parts)


def _type(field: dataclasses.Field) -> str:
    return f"`{field.type}`".replace("|", "\\|")


def _default(field: dataclasses.Field) -> str:
    return "" if field.default is dataclasses.MISSING else f"`{field.default!r}`"


if __name__ == "__main__":
    print(page(), end="")
