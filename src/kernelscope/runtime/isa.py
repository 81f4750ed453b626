"""The vector instruction set of this machine's CPU, found without compiling probes.

Kernel text is written for one instruction set and is wrong for others, and a library that was built with
``-march=native`` runs only on such a CPU. Names are those that PyTorch's compiler prints for its own choice.
Must not live here: compiler flags (they come with a program).
"""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Sequence
from pathlib import Path

import torch

from kernelscope.errors import BuildError

NONE = "INVALID_VEC_ISA"
"""The name where kernels are not vectorised."""

# From the best to the least, as PyTorch tries them: the name, and the CPU flags that it needs.
_X86: tuple[tuple[str, frozenset[str]], ...] = (
    ("avx512 avx512_vnni amx_tile", frozenset({"avx512", "avx512_vnni", "amx_tile"})),
    ("avx512 avx512_vnni", frozenset({"avx512", "avx512_vnni"})),
    ("avx512", frozenset({"avx512"})),
    ("avx2", frozenset({"avx2"})),
)
_AVX512 = frozenset({"avx512f", "avx512vl", "avx512bw", "avx512dq", "fma"})
_AVX2 = frozenset({"avx2", "fma"})
_ARM = "asimd"
_FIXED = {"ppc64le": "vsx", "s390x": "zvector"}


@functools.cache
def cpu_flags() -> frozenset[str]:
    """What the first CPU of the machine says it can do, in the kernel's words; empty where that is not known."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip().lower() in ("flags", "features"):
            return frozenset(value.split())
    return frozenset()


def supported() -> tuple[str, ...]:
    """The names of the instruction sets that this CPU has, the best first; without ``NONE``."""
    machine = platform.machine()
    if machine in ("x86_64", "AMD64"):
        return x86_names(cpu_flags())
    if machine in ("aarch64", "arm64"):
        return (_ARM,)
    return (_FIXED[machine],) if machine in _FIXED else ()


def x86_names(flags: frozenset[str]) -> tuple[str, ...]:
    """The names of the instruction sets that an x86-64 CPU with these flags has, the best first."""
    groups: set[str] = {name for name in ("avx512_vnni", "amx_tile") if name in flags}
    groups |= {"avx512"} if flags >= _AVX512 else set()
    groups |= {"avx2"} if flags >= _AVX2 else set()
    return tuple(name for name, needed in _X86 if needed <= groups)


def best() -> str:
    """The instruction set that PyTorch's compiler would write kernels for; ``NONE`` where it writes plain loops.

    ``ATEN_CPU_CAPABILITY`` limits it, as it limits PyTorch's.
    """
    names = supported()
    wanted = os.environ.get("ATEN_CPU_CAPABILITY")
    if not names or wanted == "default":
        return NONE
    matching = [name for name in names if wanted and wanted in name]
    return matching[0] if matching else names[0]


def require(isa: str, compile_flags: Sequence[str]) -> None:
    """Checks that kernels written for ``isa`` and compiled with these flags can run here.

    Raises:
        BuildError: this CPU lacks an instruction set that they use.
    """
    known = {word for name, _ in _X86 for word in name.split()} | {_ARM, *_FIXED.values()}
    have = {word for name in supported() for word in name.split()}
    missing = [word for word in isa.split() if word in known and word not in have]
    if platform.machine() in ("x86_64", "AMD64") and cpu_flags():
        # The compiler writes -mavx512vnni and -mamx-tile where the kernel says avx512_vnni and amx_tile.
        plain = {flag.replace("_", "") for flag in cpu_flags()}
        used = [flag[2:] for flag in compile_flags if flag.startswith(("-mavx", "-mamx", "-mfma", "-mf16c"))]
        missing += [name for name in used if name.replace("-", "") not in plain]
    if missing:
        raise BuildError(
            f"the program's kernels are written for {isa}; this CPU lacks {', '.join(dict.fromkeys(missing))}",
            hint="capture the program on a machine like this one, or with ATEN_CPU_CAPABILITY set to what this CPU has",
        )


@functools.cache
def fingerprint() -> str:
    """A text that differs between CPUs for which ``-march=native`` means different things."""
    return " ".join((platform.machine(), torch.backends.cpu.get_cpu_capability(), *sorted(cpu_flags())))
