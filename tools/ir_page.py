"""Prints docs/ir.md: every line kind with its fields, its meaning and an example in the text form."""

import dataclasses
import inspect

from tests.programs import LINES, rich_program

from kernelscope.ir.lines import LINE_KINDS
from kernelscope.ir.text import print_line

HEAD = """# The wrapper IR

Made by `make docs` from the classes in `kernelscope/ir/lines.py`; examples are lines of the tests.

A program has a `main` function and the functions it calls. A function has typed inputs and a list of lines, and ends
in its `return`. Lines are immutable records; operands are typed (`kernelscope/ir/values.py`): a buffer `buf0`, a
constant `const c0`, a view `view(buf0, [4, 4], [1, 4], {0})`, a literal, an expression over symbols `{s0 + 1}`, `none`,
a list `[...]`, a tuple `(...)`, a dtype, a device. A type is written `float32[8, 4]{4, 1} cpu`: dtype, size, stride
(in elements), device, and `+{offset}` if the storage offset is not zero.

What holds across lines is checked by `kernelscope.ir.verify`: each name is defined once, before its use, and not used
after it ended; a storage has one owner; sizes fit; kernels are defined before they are called, with operands that match
their parameters; symbols have values before they are used; scopes balance; what is returned is alive.

"""


def page() -> str:
    """The page's text."""
    lines = (*LINES, *rich_program().main.lines)
    parts = [HEAD]
    for kind in LINE_KINDS:
        example = next(line for line in lines if type(line) is kind)
        parts.append(
            f"## {kind.__name__}\n\n{inspect.cleandoc(kind.__doc__ or '')}\n\n```\n{print_line(example)}\n```\n"
        )
        fields = [field for field in dataclasses.fields(kind) if field.name != "origin"]
        if fields:
            parts.append("| field | type | default |\n|---|---|---|")
            parts += [f"| `{field.name}` | `{_type(field)}` | {_default(field)} |" for field in fields]
            parts.append("")
    return "\n".join(parts)


def _type(field) -> str:
    return str(field.type).replace("|", "\\|")


def _default(field) -> str:
    return "" if field.default is dataclasses.MISSING else f"`{field.default!r}`"


if __name__ == "__main__":
    print(page(), end="")
