"""What ``kernelscope show`` makes of a trace: a table of its records, filtered, or the answer to a query."""

from __future__ import annotations

import argparse
import contextlib
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelscope.cli.output import write, write_json
from kernelscope.errors import KernelscopeError, OptionError

_COLUMNS = (
    *("step", "call", "moment", "subject", "label", "dtype", "size"),
    *("min", "max", "mean", "nan", "positive_inf", "negative_inf", "text", "note"),
)
_MOST_ROWS = 1_000


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options that only a trace has."""
    group = parser.add_argument_group("of a trace")
    group.add_argument("--kernels", metavar="GLOBS", help="kernels and operators, with commas between them")
    group.add_argument("--buffers", metavar="GLOBS", help="values by their label")
    group.add_argument("--step", type=int, default=None, help="one call of each program, from 0")
    group.add_argument("--faults", action="store_true", help="only values with NaN or Inf")
    group.add_argument("--limit", type=int, default=_MOST_ROWS, help=f"at most that many rows ({_MOST_ROWS})")
    group.add_argument("--sql", metavar="QUERY", help="the answer to a query of your own; tables in docs/trace.md")


def execute(options: argparse.Namespace) -> int:
    """Shows a trace.

    Raises:
        KernelscopeError: the folder is no trace.
        OptionError: the query cannot be answered.
    """
    files = sorted(Path(options.program).glob("trace-rank*.sqlite"))
    if not files:
        raise KernelscopeError(
            f"{options.program} is no trace: it has no trace-rank*.sqlite", hint="make one with kernelscope run --trace"
        )
    tables = [_table(file, options) for file in files]
    for file, (_, found) in zip(files, tables, strict=True):
        _notes(file, found, options)
    if options.json:
        names = [file.stem.removeprefix("trace-") for file in files]
        rows = [
            {"rank": name, **dict(zip(columns, row, strict=True))}
            for name, (columns, found) in zip(names, tables, strict=True)
            for row in found
        ]
        write_json(rows, options)
    else:
        write("\n\n".join(_text(columns, rows) for columns, rows in tables), options)
    return 0


def _notes(file: Path, rows: Sequence[Sequence[Any]], options: argparse.Namespace) -> None:
    """Tells on standard error what is not shown."""
    if not options.sql and len(rows) == options.limit:
        print(f"only the first {options.limit} rows are shown; --limit N shows more", file=sys.stderr)
    _, dropped = _answer(file, "SELECT value FROM meta WHERE key = 'dropped'", [])
    for (count,) in dropped:
        print(f"{count} records are not in {file}: they came faster than they were written", file=sys.stderr)


def _table(file: Path, options: argparse.Namespace) -> tuple[list[str], list[Sequence[Any]]]:
    return _answer(file, *((options.sql, []) if options.sql else _query(options)))


def _answer(file: Path, query: str, values: Sequence[Any]) -> tuple[list[str], list[Sequence[Any]]]:
    """The columns and rows that a query gives.

    Raises:
        OptionError: the query cannot be answered.
    """
    try:
        with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
            answer = database.execute(query, values)
            return [column[0] for column in answer.description or ()], answer.fetchall()
    except sqlite3.DatabaseError as error:
        raise OptionError(f"{file} does not answer the query: {error}", hint="docs/trace.md has the tables") from error


def _query(options: argparse.Namespace) -> tuple[str, list[Any]]:
    conditions, values = ["label <> ''"], []
    for column, given in (("subject", options.kernels), ("label", options.buffers)):
        globs = [part.strip() for part in (given or "").split(",") if part.strip()]
        if globs:
            conditions.append("(" + " OR ".join(f"{column} GLOB ?" for _ in globs) + ")")
            values += globs
    if options.step is not None:
        conditions.append("step = ?")
        values.append(options.step)
    if options.faults:
        conditions.append("(nan > 0 OR positive_inf > 0 OR negative_inf > 0)")
    where = " AND ".join(conditions)
    return f"SELECT {', '.join(_COLUMNS)} FROM events WHERE {where} ORDER BY id LIMIT ?", [*values, options.limit]


def _text(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    cells = [list(columns), *([_cell(value) for value in row] for row in rows)]
    used = [index for index in range(len(columns)) if any(row[index] for row in cells[1:])]
    widths = [max(len(row[index]) for row in cells) for index in used]
    lines = [
        "  ".join(row[index].ljust(width) for index, width in zip(used, widths, strict=True)).rstrip() for row in cells
    ]
    return "\n".join(lines) if rows else "no records"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value).replace("\n", " ")
