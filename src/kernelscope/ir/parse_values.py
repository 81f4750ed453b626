"""Reads operands, types and the other fields of lines from program text; the inverse of ``text_values``.

Must not live here: the order of a line's fields (see ``formats``), and a program's sections (see ``parse``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy
import torch

from kernelscope.ir.expr import as_dim, symbol
from kernelscope.ir.lines import SourceLocation
from kernelscope.ir.scan import Scanner
from kernelscope.ir.text_values import dtypes
from kernelscope.ir.values import (
    BufferRef,
    ConstantRef,
    DeviceValue,
    Dim,
    DTypeValue,
    LayoutValue,
    ListValue,
    MemoryFormatValue,
    NodeRef,
    NoneValue,
    ObjectRef,
    OperatorRef,
    Scalar,
    SymExpr,
    TensorType,
    TupleValue,
    Value,
    View,
)

_COUNTED_STEPS = ("index", "size", "stride", "storage_offset", "floordiv")
_NAMED_STEPS = ("key", "call")


class ValueReader(Scanner):
    """Reads one field after another."""

    def symbol(self) -> sympy.Symbol:
        """A symbol."""
        return symbol(self.name())

    def listed(self, opener: str, closer: str, read: Callable[[], Any]) -> tuple[Any, ...]:
        """Items between brackets, separated by commas."""
        self.expect(opener)
        if self.take(closer):
            return ()
        items = [read()]
        while self.take(","):
            items.append(read())
        self.expect(closer)
        return tuple(items)

    def braced(self) -> sympy.Basic:
        """An expression in braces."""
        self.expect("{")
        found = self.expr("}")
        self.expect("}")
        return found

    def dim(self) -> Dim:
        """A size, stride or offset in braces."""
        start = self.at
        return self._as_dim(self.braced(), start)

    def dims(self) -> tuple[Dim, ...]:
        """Sizes in brackets."""
        return self.listed("[", "]", lambda: self._listed_dim(",]"))

    def strides(self) -> tuple[Dim, ...]:
        """Strides in braces."""
        return self.listed("{", "}", lambda: self._listed_dim(",}"))

    def _listed_dim(self, closers: str) -> Dim:
        start = self.at
        return self._as_dim(self.expr(closers), start)

    def _as_dim(self, found: sympy.Basic, start: int) -> Dim:
        if not isinstance(found, sympy.Expr):
            raise self.fail("a number, not a condition", start)
        return as_dim(found)

    def dtype(self) -> torch.dtype:
        """A dtype."""
        self.skip()
        start = self.at
        found = dtypes().get(self.word() and self.name())
        if found is None:
            raise self.fail("a dtype", start)
        return found

    def torch_device(self) -> torch.device:
        """A device."""
        self.skip()
        start = self.at
        try:
            return torch.device(self.device())
        except RuntimeError as error:
            raise self.fail("a device", start) from error

    def tensor_type(self) -> TensorType:
        """A layout."""
        dtype = self.dtype()
        size, stride = self.shape()
        device = self.torch_device()
        return TensorType(dtype=dtype, device=device, size=size, stride=stride, offset=self.offset())

    def shape(self) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
        """A size and as many strides."""
        size = self.dims()
        start = self.at
        stride = self.strides()
        if len(size) != len(stride):
            raise self.fail(f"{len(size)} strides", start)
        return size, stride

    def offset(self) -> Dim:
        """An offset, if there is one."""
        return self.dim() if self.take("+") else 0

    def value(self) -> Value:
        """An operand."""
        self.skip()
        head = self.text[self.at : self.at + 1]
        read = _BY_FIRST_CHAR.get(head)
        if read is not None:
            return read(self)
        if head.isdigit() or head == "-":
            return Scalar(self.number())
        word = self.word()
        worded = _BY_WORD.get(word)
        if worded is None:
            return BufferRef(self.name())
        self.at += len(word)
        return worded(self)

    def enclosed(self, read: Callable[[], Any]) -> Any:
        """Something in parentheses."""
        self.expect("(")
        found = read()
        self.expect(")")
        return found

    def view(self) -> View:
        """A reinterpretation, after its word."""
        self.expect("(")
        start = self.at
        base = self.value()
        if not isinstance(base, (BufferRef, ConstantRef)):
            raise self.fail("a buffer or constant", start)
        self.expect(",")
        size, stride = self.shape()
        offset = self.offset()
        dtype = self.dtype() if self.take("as") else None
        self.expect(")")
        return View(base=base, size=size, stride=stride, offset=offset, dtype=dtype)

    def complex(self) -> Scalar:
        """A complex number, after its word."""
        self.expect("(")
        real = float(self.number())
        self.expect(",")
        imag = float(self.number())
        self.expect(")")
        return Scalar(complex(real, imag))

    def keyword(self) -> tuple[str, Value]:
        """A keyword operand."""
        key = self.name()
        self.expect("=")
        return key, self.value()

    def key(self) -> int | str:
        """An index or a key into a pack."""
        return self.string() if self.punctuation('"') else self.integer()

    def step(self) -> tuple[str, int | str]:
        """A step to a number inside an operator's result."""
        kind = self.choice(*_COUNTED_STEPS, *_NAMED_STEPS)
        return kind, self.integer() if kind in _COUNTED_STEPS else self.string()

    def location(self) -> SourceLocation:
        """A line of the model."""
        file, line = self.string(), self.integer()
        return SourceLocation(file=file, line=line, function=self.string(), text=self.string())


def _node(reader: ValueReader) -> NodeRef:
    reader.expect("%")
    return NodeRef(reader.name())


_BY_FIRST_CHAR: dict[str, Callable[[ValueReader], Value]] = {
    "[": lambda reader: ListValue(reader.listed("[", "]", reader.value)),
    "(": lambda reader: TupleValue(reader.listed("(", ")", reader.value)),
    "{": lambda reader: SymExpr(reader.braced()),
    '"': lambda reader: Scalar(reader.string()),
    "%": _node,
}

_BY_WORD: dict[str, Callable[[ValueReader], Value]] = {
    "none": lambda reader: NoneValue(),
    "true": lambda reader: Scalar(True),
    "false": lambda reader: Scalar(False),
    "inf": lambda reader: Scalar(float("inf")),
    "nan": lambda reader: Scalar(float("nan")),
    "const": lambda reader: ConstantRef(reader.name()),
    "view": ValueReader.view,
    "complex": ValueReader.complex,
    "dtype": lambda reader: DTypeValue(reader.enclosed(reader.dtype)),
    "device": lambda reader: DeviceValue(reader.enclosed(reader.torch_device)),
    "layout": lambda reader: LayoutValue(reader.enclosed(reader.name)),
    "memory_format": lambda reader: MemoryFormatValue(reader.enclosed(reader.name)),
    "op": lambda reader: OperatorRef(reader.enclosed(reader.name)),
    "object": lambda reader: ObjectRef(reader.enclosed(reader.name)),
}

KINDS: dict[str, Callable[[ValueReader], Any]] = {
    "attribute": lambda reader: reader.choice("size", "stride", "value"),
    "convert": lambda reader: reader.choice("none", "bool", "divide"),
    "moment": lambda reader: reader.choice("inputs", "before", "after", "returns"),
    "device": ValueReader.torch_device,
    "dim": ValueReader.dim,
    "dims": ValueReader.dims,
    "expr": ValueReader.braced,
    "int": ValueReader.integer,
    "kernel": ValueReader.name,
    "kwargs": lambda reader: reader.listed("(", ")", reader.keyword),
    "name": ValueReader.name,
    "names": lambda reader: reader.listed("(", ")", reader.name),
    "operands": lambda reader: reader.listed("(", ")", reader.value),
    "path": lambda reader: reader.listed("[", "]", reader.key),
    "steps": lambda reader: reader.listed("[", "]", reader.step),
    "strides": ValueReader.strides,
    "string": ValueReader.string,
    "symbol": ValueReader.symbol,
    "type": ValueReader.tensor_type,
    "value": ValueReader.value,
}
"""How each kind of field is read."""
