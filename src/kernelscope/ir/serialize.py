"""The file form of a program: JSON with a format name and a version.

Must not live here: how a record becomes data (see ``codec``).
"""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
from os import PathLike
from pathlib import Path
from typing import Any

from kernelscope.errors import ProgramFileError
from kernelscope.ir.codec import RecordError, decode, encode
from kernelscope.ir.program import Program

FORMAT = "kernelscope-program"
VERSION = 1


def to_json(source: Program) -> str:
    """The program as the text of its file."""
    document = {"format": FORMAT, "version": VERSION, "program": encode(source)}
    return json.dumps(document, separators=(",", ":"), allow_nan=False)


def without_constants(source: Program) -> str:
    """The text of the program's file without the bytes of its constants, which whoever runs it keeps elsewhere."""
    bare = tuple(dataclasses.replace(storage, data=None) for storage in source.storages)
    return to_json(dataclasses.replace(source, storages=bare))


def from_json(text: str) -> Program:
    """Reads a program from the text of its file.

    Raises:
        ProgramFileError: the text is no program, is damaged, or is of a version that this release does not read.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProgramFileError(
            f"not a program file: {error}", hint="the file is truncated or not a Kernelscope program"
        ) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ProgramFileError(
            f"not a program file: its format is not {FORMAT!r}",
            hint="give a file that Program.save wrote",
        )
    _check_version(document.get("version"))
    return _program(document)


def _check_version(version: Any) -> None:
    if type(version) is int and version == VERSION:
        return
    newer = type(version) is int and version > VERSION
    raise ProgramFileError(
        f"program file of version {version!r}; this release reads version {VERSION}",
        hint="update Kernelscope, or capture the program again" if newer else "capture the program again",
    )


def _program(document: dict[str, Any]) -> Program:
    try:
        program: Program = decode(document.get("program"), Program)
    except (RecordError, RecursionError) as error:
        raise ProgramFileError(f"damaged program file: {error}", hint="capture the program again") from error
    return program


def save(source: Program, path: str | PathLike[str]) -> None:
    """Writes a program to a file; an existing file is replaced whole or stays as it was.

    Raises:
        ProgramFileError: the file cannot be written.
    """
    target = Path(path)
    text = to_json(source)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with temporary.open("x", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ProgramFileError(
            f"cannot write program file: {error.strerror or error}",
            where=os.fspath(path),
            hint="give a path in a folder that exists and may be written",
        ) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
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
