"""Kernels' texts as translation units: few of them, because each pays for PyTorch's vector headers.

Within a unit each kernel has a namespace of its own, so helpers of equal names do not clash; its entry gets a
symbol that is unique in the library. A kernel whose text the preprocessor treats in a way that reaches beyond a
namespace gets a unit of its own. Must not live here: files, compilers (``cpp_build``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelscope.runtime import error_flag

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b.*$", re.MULTILINE)
_PREPROCESSOR = re.compile(
    r"^[ \t]*#[ \t]*(define|undef|if|ifdef|ifndef|pragma[ \t]+(?!omp\b|GCC[ \t]+(ivdep|unroll)\b|unroll\b))",
    re.MULTILINE,
)
_BLOCKS = re.compile(r"^[ \t]*#[ \t]*(?P<kind>include|if|endif).*$", re.MULTILINE)
_ENTRY = r'extern\s+"C"[^;{{}}]*?(?<![\w:.>]){entry}(?=\s*\((?P<params>[^)]*)\))'
# Seconds, measured with g++ 12 -O3 for AVX-512 on kernels of a U-Net: 1.9 + 0.0135 for each thousand characters.
_HEADERS_S = 1.9
_KERNEL_S_PER_CHAR = 0.0135 / 1000


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


def groups(sources: Sequence[CppSource], *, most: int) -> list[list[CppSource]]:
    """The kernels of each translation unit: at most ``most`` units, and one for each kernel that must stand alone."""
    alone = [source for source in sources if _PREPROCESSOR.search(source.text)]
    together = [source for source in sources if not _PREPROCESSOR.search(source.text)]
    total = sum(len(source.text) for source in together)
    count = _count(total * _KERNEL_S_PER_CHAR, most=min(most, len(together)))
    shared: list[list[CppSource]] = [[] for _ in range(count)] if together else []
    sizes = [0] * count
    for source in sorted(together, key=lambda source: (-len(source.text), source.name)):
        smallest = sizes.index(min(sizes))
        shared[smallest].append(source)
        sizes[smallest] += len(source.text)
    return [*shared, *([source] for source in alone)]


def _count(kernels_s: float, *, most: int) -> int:
    """How many units: one more as long as the time it saves is worth parsing the headers once more.

    The headers' time is shared by the machine's cores, half of which are taken to be idle.
    """
    count = 1
    while count < most and kernels_s / (count * (count + 1)) > _HEADERS_S / (2 * most):
        count += 1
    return count


def identity(sources: Sequence[CppSource]) -> Iterator[str]:
    """Everything that goes to the compiler, whatever the grouping: what a build's key is made of."""
    yield from (unit([source]) for source in sources)
    yield binding(sources, "")


def unit(group: Sequence[CppSource]) -> str:
    """The text of one translation unit."""
    if len(group) == 1:
        head, body = _split(group[0].text)
        return f"{head}\n{_namespaced(group[0], body)}"
    includes = dict.fromkeys(line.strip() for source in group for line in _INCLUDE.findall(source.text))
    return "\n".join([*includes, *(_namespaced(source, _INCLUDE.sub("", source.text)) for source in group)])


def _split(text: str) -> tuple[str, str]:
    """A text up to its last include, conditions around it with it, and the rest."""
    depth = end = 0
    inside = False
    for directive in _BLOCKS.finditer(text):
        depth += {"if": 1, "endif": -1}.get(directive["kind"], 0)
        inside = inside or directive["kind"] == "include"
        if inside and depth == 0:
            end, inside = directive.end(), False
    return text[:end], text[end:]


def _namespaced(source: CppSource, body: str) -> str:
    kernel = error_flag.without(_renamed(source, body)).strip()
    return f"namespace kernelscope_{source.name} {{\n{kernel}\n}}  // namespace\n"


def _renamed(source: CppSource, text: str) -> str:
    """``text`` with the library's symbol for the entry; other names that contain the entry's stay."""
    found = _definition(source, text)
    return text if found is None else text[: found.end() - len(source.entry)] + source.symbol + text[found.end() :]


def _definition(source: CppSource, text: str) -> re.Match[str] | None:
    found = list(re.finditer(_ENTRY.format(entry=re.escape(source.entry)), text))
    return found[-1] if found else None


def binding(sources: Sequence[CppSource], module: str) -> str:
    """The text of the file that makes the kernels callable from Python as functions of ``module``."""
    lines = ['#include "kernel_binding.h"', ""]
    for source in sources:
        types = ", ".join(_binding_type(ctype) for ctype in source.ctypes)
        names = "".join(f'"{name}", ' for name in parameter_names(source))
        keeps_lock = str(error_flag.is_used(error_flag.without(source.text))).lower()
        lines.append(f"KERNELSCOPE_KERNEL({source.name}, {source.symbol}, {keeps_lock}, ({names}), ({types}))")
    entries = " ".join(f"KERNELSCOPE_ENTRY({source.name})" for source in sources)
    return "\n".join([*lines, "", f"#define ENTRIES {entries}", f"KERNELSCOPE_MODULE({module}, ENTRIES)", ""])


def parameter_names(source: CppSource) -> tuple[str, ...]:
    """The names of a kernel's parameters as its text states them; their types where it does not."""
    found = _definition(source, source.text)
    params = [part.split()[-1].lstrip("*&") for part in found["params"].split(",") if part.strip()] if found else []
    named = len(params) == len(source.ctypes) and all(name.isidentifier() for name in params)
    return tuple(params) if named else source.ctypes


def _binding_type(ctype: str) -> str:
    """A C type without PyTorch's headers: what a pointer points to does not matter to the binding."""
    return "void*" if ctype.rstrip().endswith("*") else ctype.replace("const ", "").strip()
