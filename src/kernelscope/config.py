"""Settings: one frozen record, read from the environment and overridden in a scope.

Everything that depends on a setting gets it passed; only the outermost layer asks ``current()``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import os
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from kernelscope.errors import OptionError

PREFIX = "KERNELSCOPE_"
_ELSEWHERE = frozenset({"KERNELSCOPE_CASES", "KERNELSCOPE_TEST_ROOT"})
"""Variables with our prefix that other programs read (the test suite)."""


def _setting(
    variable: str, doc: str, *, choices: tuple[str, ...] = (), values: str = "", default_text: str = "", **kwargs: Any
) -> Any:
    metadata = {"variable": variable, "doc": doc, "choices": choices, "values": values, "default_text": default_text}
    return dataclasses.field(metadata=metadata, **kwargs)


def _cache_home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernelscope"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings of Kernelscope."""

    target: str = _setting(
        "KERNELSCOPE_TARGET",
        "Target of torch.compile.",
        values="the name of a target: `python`, `interpreter`, or a registered one",
        default="python",
    )
    on_unsupported: str = _setting(
        "KERNELSCOPE_ON_UNSUPPORTED",
        "What a graph does that has no form in the IR: fail, or be compiled by plain Inductor with a warning.",
        choices=("error", "inductor"),
        default="error",
    )
    verify: int = _setting(
        "KERNELSCOPE_VERIFY",
        "How much programs are checked: 0 nothing, 1 after capture and each pass, 2 the memory plan too, "
        "3 text and file round trips too.",
        choices=("0", "1", "2", "3"),
        default=1,
    )
    cache_dir: Path = _setting(
        "KERNELSCOPE_CACHE_DIR",
        "Where built kernels are kept.",
        values="a directory",
        default_text="`$XDG_CACHE_HOME/kernelscope`, else `~/.cache/kernelscope`",
        default_factory=_cache_home,
    )
    compile_jobs: int = _setting(
        "KERNELSCOPE_COMPILE_JOBS",
        "Compilers that run at a time in one process.",
        values="a whole number, at least 1",
        default_text="the number of processors",
        default_factory=lambda: os.cpu_count() or 1,
    )
    cxx: str = _setting(
        "KERNELSCOPE_CXX",
        "The C++ compiler.",
        values="a command or a path",
        default_text="`$CXX`, else `g++`, else `clang++`",
        default="",
    )
    flight: Path | None = _setting(
        "KERNELSCOPE_FLIGHT",
        "Where the flight recorder writes, for `kernelscope crash`; for the whole process, when it first compiles.",
        values="a directory",
        default_text="none: it is off",
        default=None,
    )
    progress: str = _setting(
        "KERNELSCOPE_PROGRESS",
        "Progress lines on standard error: `auto` shows them on a terminal.",
        choices=("auto", "on", "off"),
        default="auto",
    )

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Config:
        """The settings that the environment gives.

        Raises:
            OptionError: a variable with our prefix is unknown, or a value cannot be read.
        """
        fields = {field.metadata["variable"]: field for field in dataclasses.fields(cls)}
        values = {}
        for variable in sorted(name for name in environ if name.startswith(PREFIX)):
            if variable in fields:
                field = fields[variable]
                values[field.name] = _read(variable, str(field.type), environ[variable], field.metadata["choices"])
            elif variable not in _ELSEWHERE:
                raise _unknown(variable, list(fields))
        return cls(**values)


def _read(variable: str, kind: str, text: str, choices: tuple[str, ...]) -> Any:
    if choices and text not in choices:
        raise OptionError(
            f"{variable} is {text!r}", where="environment", hint=f"it must be one of {', '.join(choices)}"
        )
    if kind.startswith("Path"):
        if not text:
            raise OptionError(f"{variable} is empty", where="environment", hint="name a directory, or unset it")
        return Path(text).expanduser()
    if kind == "int":
        if not (text.isascii() and text.isdecimal()) or (not choices and int(text) < 1):
            raise OptionError(
                f"{variable} is {text!r}", where="environment", hint="it must be a whole number, at least 1"
            )
        return int(text)
    return text


def _unknown(variable: str, known: list[str]) -> OptionError:
    near = difflib.get_close_matches(variable, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known variables: {', '.join(sorted(known))}"
    return OptionError(f"unknown setting {variable}", where="environment", hint=hint)


_override: ContextVar[Config | None] = ContextVar("kernelscope_config", default=None)


def current() -> Config:
    """The settings in force here: the innermost override, else the environment's."""
    return _override.get() or Config.from_env(os.environ)


@contextlib.contextmanager
def override(**changes: Any) -> Iterator[Config]:
    """Within, the named settings have other values.

    Raises:
        OptionError: there is no setting of that name, or it cannot have that value.
    """
    known = {field.name: field.metadata["choices"] for field in dataclasses.fields(Config)}
    for name, value in changes.items():
        if name not in known:
            raise OptionError(f"unknown setting {name!r}", hint=f"settings are {', '.join(sorted(known))}")
        if known[name] and str(value) not in known[name]:
            raise OptionError(f"setting {name} cannot be {value!r}", hint=f"it must be one of {', '.join(known[name])}")
    token = _override.set(dataclasses.replace(current(), **changes))
    try:
        yield current()
    finally:
        _override.reset(token)
