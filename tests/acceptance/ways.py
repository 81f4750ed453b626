"""Ways to compile and run a program of ``programs.py``: plain Inductor's two, and ours, one for each target."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LEVEL = "AOT_INDUCTOR_DEBUG_INTERMEDIATE_VALUE_PRINTER"
FILTER = "AOT_INDUCTOR_FILTERED_KERNELS_TO_PRINT"
BUFFER = r"\b(?:buf\d+|(?:arg\d+|primals|tangents)_\d+)\b"
_HEADER = re.compile(r"\b(before|after)_launch( - |: )([\w.:<>]+)(?: - (\S+))?")


@dataclass(frozen=True)
class Shown:
    """A value that was printed: ``text`` is what stands below its header, up to the next one."""

    moment: str
    kernel: str
    label: str
    text: str


@dataclass(frozen=True)
class Outcome:
    """What a run left: its output (a file, as after a crash), its exit status and the tensors saved in its folder."""

    text: str
    code: int
    folder: Path

    @property
    def shown(self) -> list[Shown]:
        found = list(_HEADER.finditer(self.text))
        starts = [match.start() for match in found] + [len(self.text)]
        return [
            Shown(match[1], match[3], match[4] or "", self.text[match.end() : end])
            for match, end in zip(found, starts[1:], strict=True)
        ]

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.glob("**/*.pt"))

    @property
    def error(self) -> str:
        """The exception's text, its last line; a compiler's first complaint where there is one."""
        complaint = re.search(r"error: .*", self.text)
        lines = [line for line in self.text.splitlines() if re.match(r"\S*(Error|Fault|Exception)\b", line)]
        return complaint[0] if complaint else lines[-1] if lines else self.text.strip()[-200:]

    def answer(self, key: str) -> str:
        """What the program printed of itself."""
        found = re.search(rf"^{key}: (.*)$", self.text, re.M)
        return found[1] if found else self.error


@dataclass(frozen=True)
class Way:
    """How a program is compiled. ``nan`` are the options that look for NaN, ``fx`` those that make an FX program."""

    title: str
    compile: dict[str, Any] = field(hash=False)
    nan: dict[str, Any] = field(hash=False)
    fx: dict[str, Any] = field(hash=False)

    def run(self, program: str, *, level: int = 0, only: str = "", options: dict[str, Any] | None = None) -> Outcome:
        """Runs a program in a process and a folder of its own; once for each question."""
        return _run(self.title, program, level, only, json.dumps(self.options(options or {})))

    def options(self, more: dict[str, Any]) -> dict[str, Any]:
        """What ``torch.compile`` is given."""
        return {**self.compile, "options": {**self.compile.get("options", {}), **more}}


@functools.cache
def _run(title: str, program: str, level: int, only: str, options: str) -> Outcome:
    return run_in(Path(tempfile.mkdtemp(dir=_scratch())), _cache(title), program, level, only, options)


def run_in(folder: Path, cache: Path, program: str, level: int, only: str, options: str) -> Outcome:
    """Runs a program in a folder, with the caches of another one."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TORCHINDUCTOR_CACHE_DIR": str(cache),
        LEVEL: str(level),
    } | ({FILTER: only} if only else {})
    log = folder / "output.txt"
    with log.open("w") as stream:
        command = [sys.executable, "-m", "tests.acceptance.programs", program, options]
        code = subprocess.run(
            command, cwd=folder, env=environment, stdout=stream, stderr=stream, timeout=600
        ).returncode
    return Outcome(log.read_text(errors="replace"), code, folder)


@dataclass(frozen=True)
class Written:
    """A call in plain Inductor's host program: what is launched, and the buffers among its arguments."""

    function: str
    buffers: frozenset[str]
    out: str


@functools.cache
def calls_of(program: str) -> tuple[Written, ...]:
    """The launches and ``out=`` calls in the text of plain Inductor's host programs: what there is to be seen."""
    text = _run("source", program, 0, "", "source").text
    found = re.findall(r"^ +(cpp_fused_\w+|extern_kernels\.\w+)\((.*)\)$", text, re.M)
    return tuple(
        Written(function, frozenset(re.findall(BUFFER, arguments)), "".join(re.findall(r"out=(\w+)", arguments)))
        for function, arguments in found
    )


@functools.cache
def _scratch() -> str:
    return tempfile.mkdtemp(prefix="kernelscope-acceptance-")


def _cache(name: str) -> Path:
    return Path(_scratch()) / re.sub(r"\W+", "-", name)  # Inductor's compile command fails on a space


def _ours(target: str) -> Way:
    return Way(
        f"Kernelscope, {target} target",
        {"backend": "kernelscope", "options": {"target": target}},
        {"check": "nan"},
        {"target": "fx"},
    )


_INDUCTOR = {"nan": {"nan_asserts": True}, "fx": {"fx_wrapper": True}}
INDUCTOR = Way("Inductor, Python wrapper", {"backend": "inductor"}, **_INDUCTOR)
INDUCTOR_CPP = Way("Inductor, C++ wrapper", {"backend": "inductor", "options": {"cpp_wrapper": True}}, **_INDUCTOR)
OURS = tuple(map(_ours, ("python", "interpreter")))
WAYS = (INDUCTOR, INDUCTOR_CPP, *OURS)
