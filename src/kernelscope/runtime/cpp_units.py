"""Kernels' texts as translation units: few of them, because each pays for PyTorch's vector headers.

Within a unit each kernel has a namespace of its own, so helpers of equal names do not clash; its entry gets a
symbol that is unique in the library. A kernel with preprocessor definitions of its own gets a unit of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_INCLUDE = re.compile(r"^\s*#\s*include\b.*$", re.MULTILINE)
_DEFINITION = re.compile(r"^\s*#\s*(define|undef|if|ifdef|ifndef|pragma\s+once)\b", re.MULTILINE)
# A header costs about 2 s, a kernel of this many characters about a quarter of a second.
_CHARS_PER_HEADER = 16_000


@dataclass(frozen=True, slots=True)
class CppSource:
    """A kernel to build: its name, its text, the function in it, and the C types of its parameters."""

    name: str
    text: str
    entry: str
    ctypes: tuple[str, ...]

    @property
    def symbol(self) -> str:
        """The kernel's exported symbol."""
        return f"ks_{self.name}"


def units(sources: Sequence[CppSource], *, most: int) -> list[str]:
    """The texts of at most ``most`` translation units (more only for kernels that must stand alone)."""
    alone = [source for source in sources if _DEFINITION.search(source.text)]
    together = [source for source in sources if source not in alone]
    total = sum(len(source.text) for source in together)
    count = max(1, min(most, len(together), 1 + total // _CHARS_PER_HEADER))
    groups: list[list[CppSource]] = [[] for _ in range(count)] if together else []
    sizes = [0] * count
    for source in sorted(together, key=lambda source: (-len(source.text), source.name)):
        smallest = sizes.index(min(sizes))
        groups[smallest].append(source)
        sizes[smallest] += len(source.text)
    return [_unit(group) for group in (*groups, *([source] for source in alone))]


def _unit(group: Sequence[CppSource]) -> str:
    includes = dict.fromkeys(line.strip() for source in group for line in _INCLUDE.findall(source.text))
    return "\n".join([*includes, *(_namespaced(source) for source in group)]) + "\n"


def _namespaced(source: CppSource) -> str:
    body = _INCLUDE.sub("", source.text).strip()
    # Only the definition is renamed: helpers may have names that contain the entry's.
    pattern = re.compile(rf"(?<![\w:.>]){re.escape(source.entry)}(?=\s*\()")
    head, found, tail = body.rpartition('extern "C"')
    renamed = head + found + pattern.sub(source.symbol, tail, count=1)
    return f"namespace kernelscope_{source.name} {{\n{renamed}\n}}  // namespace\n"


def binding(sources: Sequence[CppSource], module: str) -> str:
    """The text of the file that makes the kernels callable from Python as functions of ``module``."""
    lines = ['#include "kernel_binding.h"', ""]
    for source in sources:
        types = "".join(f", {_binding_type(ctype)}" for ctype in source.ctypes)
        lines.append(f"KERNELSCOPE_KERNEL({source.name}, {source.symbol}{types})")
    entries = " ".join(f"KERNELSCOPE_ENTRY({source.name})" for source in sources)
    return "\n".join([*lines, "", f"#define ENTRIES {entries}", f"KERNELSCOPE_MODULE({module}, ENTRIES)", ""])


def _binding_type(ctype: str) -> str:
    """A C type without PyTorch's headers: what a pointer points to does not matter to the binding."""
    return "void*" if ctype.rstrip().endswith("*") else ctype.replace("const ", "").strip()
