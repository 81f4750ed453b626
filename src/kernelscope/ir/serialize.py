"""The file form of a program: JSON with a format name and a version.

A generic codec over the IR's closed set of classes; there is nothing executable in a file. Expressions are kept
as text (see ``expr``), bytes as base64.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import os
import tempfile
from os import PathLike
from pathlib import Path
from typing import Any

import sympy
import torch

from kernelscope.errors import ProgramFileError, ProgramTextError
from kernelscope.ir import kernels, lines, program, values
from kernelscope.ir.expr import parse_expr, to_text
from kernelscope.ir.lines import LINE_KINDS
from kernelscope.ir.program import Program

FORMAT = "kernelscope-program"
VERSION = 1

_CLASSES: dict[str, type[Any]] = {
    kind.__name__: kind
    for module in (values, kernels, lines, program)
    for kind in vars(module).values()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind is not lines.Line
}
_FIELDS = {name: tuple(field.name for field in dataclasses.fields(kind)) for name, kind in _CLASSES.items()}
_DEFAULTS = {
    name: {field.name: field.default for field in dataclasses.fields(kind) if field.default is not dataclasses.MISSING}
    for name, kind in _CLASSES.items()
}


def to_json(source: Program) -> str:
    """The program as the text of its file."""
    document = {"format": FORMAT, "version": VERSION, "program": encode(source)}
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def from_json(text: str) -> Program:
    """Reads a program from the text of its file.

    Raises:
        ProgramFileError: the text is no program, is damaged, or is of a newer version.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProgramFileError(
            f"not a program file: {error}", hint="the file is truncated or not a Kernelscope program"
        ) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ProgramFileError(f"not a program file: its format is not {FORMAT!r}")
    if document.get("version") != VERSION:
        raise ProgramFileError(
            f"program file of version {document.get('version')!r}; this release reads version {VERSION}",
            hint="read it with the release that wrote it, or capture the program again",
        )
    return _program(document)


def _program(document: dict[str, Any]) -> Program:
    try:
        decoded = decode(document["program"])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, ProgramTextError) as error:
        raise ProgramFileError(f"damaged program file: {type(error).__name__}: {error}") from error
    if not isinstance(decoded, Program):
        raise ProgramFileError(f"program file that holds a {type(decoded).__name__}")
    return decoded


def save(source: Program, path: str | PathLike[str]) -> None:
    """Writes a program to a file; an existing file is replaced whole or stays as it was."""
    target = Path(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(to_json(source))
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def load(path: str | PathLike[str]) -> Program:
    """Reads a program from a file.

    Raises:
        ProgramFileError: there is no such file, or it is no program.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProgramFileError(f"cannot read program file {os.fspath(path)}: {error}") from error
    try:
        return from_json(text)
    except ProgramFileError as error:
        raise ProgramFileError(error.what, where=os.fspath(path), hint=error.hint) from error


# --- codec -----------------------------------------------------------------------------------------------------


def encode(value: Any) -> Any:
    """A record or value as data for JSON."""
    """A record or value as JSON-ready data."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    name = type(value).__name__
    if name in _CLASSES and type(value) is _CLASSES[name]:
        return _encode_record(name, value)
    if isinstance(value, Program):
        return _encode_record("Program", value)
    return _encode_leaf(value)


def _encode_record(name: str, value: Any) -> Any:
    record: dict[str, Any] = {"$": name}
    defaults = _DEFAULTS[name]
    for field in _FIELDS[name]:
        item = getattr(value, field)
        if field not in defaults or type(item) is not type(defaults[field]) or item != defaults[field]:
            record[field] = encode(item)
    return record


def _encode_leaf(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else {"$": "float", "v": repr(value)}
        case complex():
            return {"$": "complex", "v": [repr(value.real), repr(value.imag)]}
        case torch.dtype():
            return {"$": "dtype", "v": str(value).removeprefix("torch.")}
        case torch.device():
            return {"$": "device", "v": str(value)}
        case sympy.Basic():
            return {"$": "expr", "v": to_text(value)}
        case bytes():
            return {"$": "bytes", "v": base64.b64encode(value).decode("ascii")}
        case _:
            raise TypeError(f"{type(value).__name__} has no file form")


def _dtype(name: str) -> torch.dtype:
    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{name} is not a dtype")
    return dtype


_LEAVES: dict[str, Any] = {
    "float": float,
    "complex": lambda parts: complex(float(parts[0]), float(parts[1])),
    "dtype": _dtype,
    "device": torch.device,
    "expr": parse_expr,
    "bytes": lambda text: base64.b64decode(text, validate=True),
}


def decode(value: Any) -> Any:
    """The record or value that ``encode`` gave the data of."""
    if isinstance(value, list):
        return tuple([decode(item) for item in value])
    if not isinstance(value, dict):
        return value
    name = value["$"]
    leaf = _LEAVES.get(name)
    if leaf is not None:
        return leaf(value["v"])
    kind = _CLASSES[name]
    return kind(**{field: decode(item) for field, item in value.items() if field != "$"})


assert all(kind.__name__ in _CLASSES for kind in LINE_KINDS)
