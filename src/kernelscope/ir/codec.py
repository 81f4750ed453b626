"""Records of the IR as data for JSON, and back, checked against the fields' types.

One generic codec over a closed set of classes, driven by their type hints: a field of a wrong type is refused where
it stands, and nothing in the data is ever executed. Expressions are kept as text (see ``expr``), bytes as base64.
Must not live here: files and their versions (see ``serialize``).
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable
from typing import Any, TypeAlias

import sympy
import torch

from kernelscope.errors import ProgramTextError
from kernelscope.ir import kernels, lines, program, values
from kernelscope.ir.expr import parse_expr, to_text

Reader: TypeAlias = Callable[[Any], Any]

_MODULES = (values, kernels, lines, program)
_CLASSES: dict[str, type[Any]] = {
    kind.__name__: kind
    for module in _MODULES
    for kind in vars(module).values()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind is not lines.Line
}
_FIELDS: dict[type[Any], tuple[tuple[str, Any], ...]] = {
    kind: tuple((field.name, field.default) for field in dataclasses.fields(kind)) for kind in _CLASSES.values()
}


class RecordError(ValueError):
    """Data that is no record of the IR; ``path`` leads to the place, innermost step first."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path: list[str] = []

    def __str__(self) -> str:
        place = "".join(reversed(self.path)).lstrip(".")
        return f"{place}: {self.problem}" if place else self.problem


# --- records to data -------------------------------------------------------------------------------------------


def encode(value: Any) -> Any:
    """A record or value as data for JSON; a field that has its default is left out."""
    kind = type(value)
    if value is None or kind is str or kind is bool or kind is int:
        return value
    if kind is tuple:
        return [encode(item) for item in value]
    fields = _FIELDS.get(kind)
    if fields is None:
        return _encode_leaf(value)
    record: dict[str, Any] = {"$": kind.__name__}
    for name, default in fields:
        item = getattr(value, name)
        if type(item) is not type(default) or item != default:
            record[name] = encode(item)
    return record


def _encode_leaf(value: Any) -> Any:
    match value:
        case int():
            return int(value)
        case float():
            return float(value) if math.isfinite(value) else {"$": "float", "v": repr(float(value))}
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


# --- data to records -------------------------------------------------------------------------------------------


def decode(data: Any, kind: Any) -> Any:
    """The record or value that ``encode`` gave the data of.

    Args:
        data: What JSON gave.
        kind: The class or type hint that the result must have.

    Raises:
        RecordError: the data is of another type, or of none.
    """
    return _reader(kind)(data)


def field_types(kind: type[Any]) -> dict[str, Any]:
    """The types of a record's fields by name, with all aliases resolved."""
    hints = typing.get_type_hints(kind, globalns=_namespace())
    return {name: hints[name] for name, _ in _FIELDS[kind]}


@functools.cache
def _namespace() -> dict[str, Any]:
    """All names that the IR's type hints use, with aliases written as text resolved."""
    names: dict[str, Any] = {}
    for module in _MODULES:
        names.update(vars(module))
    for module in _MODULES:
        # In the order of their definition, each over those before it: Python 3.10 leaves text inside ``tuple[...]``.
        for name, kind in module.__annotations__.items():
            if kind == "TypeAlias" and isinstance(names[name], str):
                holder = type("Alias", (), {"__annotations__": {name: names[name]}})
                names[name] = typing.get_type_hints(holder, globalns=names)[name]
    return names


@functools.cache
def _reader(hint: Any) -> Reader:
    """Reads what a type hint allows; dispatches on the JSON type, and for records on their name."""
    plain: set[type] = set()
    literals: set[Any] = set()
    named: dict[str, Reader] = {}
    tuples: list[Reader] = []
    for choice in _choices(hint):
        if typing.get_origin(choice) is typing.Literal:
            literals.update(typing.get_args(choice))
        elif typing.get_origin(choice) is tuple:
            tuples.append(_tuple_reader(typing.get_args(choice)))
        elif choice in (str, bool, int, types.NoneType):
            plain.add(choice)
        elif isinstance(choice, type) and choice in _FIELDS:
            named[choice.__name__] = functools.partial(_read_record, choice)
        else:
            named.update(_leaf_reader(choice))
            if choice is float:
                plain.add(float)
    return functools.partial(_read, _spelled(hint), frozenset(plain), frozenset(literals), named, tuple(tuples))


def _read(
    expected: str,
    plain: frozenset[type],
    literals: frozenset[Any],
    named: dict[str, Reader],
    tuples: tuple[Reader, ...],
    data: Any,
) -> Any:
    kind = type(data)
    if kind is dict:
        name = data.get("$")
        reader = named.get(name) if type(name) is str else None
        if reader is not None:
            return reader(data)
    elif kind is list:
        if len(tuples) == 1:
            return tuples[0](data)
        if tuples:
            return _first_that_fits(tuples, data, expected)
    elif kind in plain or (literals and data in literals):
        return data
    raise RecordError(f"expected {expected}, found {_shown(data)}")


def _first_that_fits(tuples: tuple[Reader, ...], data: Any, expected: str) -> Any:
    for reader in tuples:
        with contextlib.suppress(RecordError):  # the next kind of tuple may fit
            return reader(data)
    raise RecordError(f"expected {expected}, found {_shown(data)}")


def _choices(hint: Any) -> tuple[Any, ...]:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return tuple(choice for member in typing.get_args(hint) for choice in _choices(member))
    return (hint,)


def _spelled(hint: Any) -> str:
    """A type hint for an error message."""
    choices = _choices(hint)
    if len(choices) > 4:
        return f"one of {len(choices)} kinds ({_spelled(choices[0])}, {_spelled(choices[1])}...)"
    return " or ".join(
        "None" if choice is types.NoneType else choice.__name__ if isinstance(choice, type) else str(choice)
        for choice in choices
    ).replace("typing.", "")


def _shown(data: Any) -> str:
    if isinstance(data, dict):
        return f"a record {data['$']!r}" if "$" in data else "an object without a class"
    return repr(data)[:80]


def _tuple_reader(items: tuple[Any, ...]) -> Reader:
    if len(items) == 2 and items[1] is Ellipsis:
        return functools.partial(_read_all, _reader(items[0]))
    return functools.partial(_read_each, tuple(_reader(item) for item in items))


def _read_all(read: Reader, data: list[Any]) -> tuple[Any, ...]:
    found: list[Any] = []
    try:
        for item in data:
            found.append(read(item))  # noqa: PERF401  # how many were read tells which one was wrong
    except RecordError as error:
        error.path.append(f"[{len(found)}]")
        raise
    return tuple(found)


def _read_each(readers: tuple[Reader, ...], data: list[Any]) -> tuple[Any, ...]:
    if len(readers) != len(data):
        raise RecordError(f"expected {len(readers)} items, found {len(data)}")
    return tuple([read(item) for read, item in zip(readers, data, strict=True)])


@functools.cache
def _field_readers(name: str) -> dict[str, Reader]:
    # Found at the first record of a kind, not before: the kinds of values contain each other.
    return {field: _reader(hint) for field, hint in field_types(_CLASSES[name]).items()}


def _read_record(kind: type[Any], data: dict[str, Any]) -> Any:
    readers = _field_readers(kind.__name__)
    found: dict[str, Any] = {}
    name = "$"
    try:
        for name, item in data.items():
            if name != "$":
                found[name] = readers[name](item)
        name = ""
        return kind(**found)
    except RecordError as error:
        error.path.append(f".{name}")
        raise
    except KeyError as error:
        raise RecordError(f"{kind.__name__} has no field {name!r}") from error
    except (TypeError, ValueError) as error:
        raise RecordError(f"no {kind.__name__}: {error}") from error


# --- leaves ----------------------------------------------------------------------------------------------------


def _leaf_reader(kind: Any) -> dict[str, Reader]:
    if kind is float:
        return {"float": functools.partial(_read_leaf, lambda text: float(_string(text)))}
    if kind is complex:
        return {"complex": functools.partial(_read_leaf, _complex)}
    if kind is bytes:
        return {"bytes": functools.partial(_read_leaf, lambda text: base64.b64decode(_string(text), validate=True))}
    if kind is torch.dtype:
        return {"dtype": functools.partial(_read_leaf, _dtype)}
    if kind is torch.device:
        return {"device": functools.partial(_read_leaf, lambda text: torch.device(_string(text)))}
    if isinstance(kind, type) and issubclass(kind, sympy.Basic):
        return {"expr": functools.partial(_read_leaf, functools.partial(_expr, kind))}
    raise TypeError(f"{kind} has no file form")


def _read_leaf(make: Reader, data: dict[str, Any]) -> Any:
    try:
        return make(data["v"])
    except KeyError as error:
        raise RecordError("a leaf without its value 'v'") from error
    except (ValueError, RuntimeError, ProgramTextError) as error:
        raise RecordError(f"{error}") from error


def _string(data: Any) -> str:
    if type(data) is not str:
        raise RecordError(f"expected str, found {_shown(data)}")
    return data


def _complex(data: Any) -> complex:
    if type(data) is not list or len(data) != 2:
        raise RecordError(f"expected real and imaginary part, found {_shown(data)}")
    return complex(float(_string(data[0])), float(_string(data[1])))


@functools.cache
def _dtype_named(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise RecordError(f"{name!r} is not a dtype")
    return dtype


def _dtype(data: Any) -> torch.dtype:
    return _dtype_named(_string(data))


def _expr(kind: type[sympy.Basic], data: Any) -> sympy.Basic:
    expr = parse_expr(_string(data))
    if not isinstance(expr, kind):
        raise RecordError(f"expected a {kind.__name__}, found {_shown(data)}")
    return expr
