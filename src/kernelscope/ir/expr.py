"""Symbolic expressions: canonical symbols, a text form that parses back, printers for Python and C++.

Expressions are sympy's, over the integer functions that PyTorch defines (``torch.utils._sympy.functions``:
floor division and friends, whose meaning plain sympy does not have). A canonical symbol assumes only that it is
an integer (or a real, for float scalars), so that two programs with the same names compare equal and a runtime
assertion is never simplified away by an assumption about the very thing it checks.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from typing import Any, ClassVar

import sympy
from sympy.printing.str import StrPrinter
from torch.utils._sympy import functions as torch_functions
from torch.utils._sympy.printers import CppPrinter, PythonPrinter

from kernelscope.errors import ProgramTextError
from kernelscope.ir.values import Dim

_FLOAT_PREFIXES = ("zf", "zuf")


def symbol(name: str) -> sympy.Symbol:
    """The canonical symbol of this name: real for ``zf*`` and ``zuf*`` (float scalars), else integer."""
    if name.startswith(_FLOAT_PREFIXES):
        return sympy.Symbol(name, real=True)
    return sympy.Symbol(name, integer=True)


def canonical(expr: sympy.Basic | int | float | bool) -> sympy.Basic:
    """``expr`` rebuilt over canonical symbols."""
    return parse_expr(to_text(sympy.sympify(expr)))


def canonical_dim(dim: sympy.Basic | int) -> Dim:
    """A size, stride or offset: a plain ``int`` when it is a number, else canonical."""
    if isinstance(dim, int):
        return int(dim)
    if isinstance(dim, sympy.Integer):
        return int(dim)
    return canonical(dim)


def as_dim(expr: Dim) -> Dim:
    """``expr`` as a plain ``int`` when it is a number."""
    return int(expr) if isinstance(expr, (int, sympy.Integer)) else expr


def free_symbols(expr: object) -> frozenset[sympy.Symbol]:
    """The symbols in an expression; none in a plain number."""
    return frozenset(expr.free_symbols) if isinstance(expr, sympy.Basic) else frozenset()


def substitute(expr: Dim | sympy.Basic, values: dict[sympy.Symbol, int | float]) -> Any:
    """``expr`` with numbers for its symbols, as a sympy number (or boolean)."""
    if not isinstance(expr, sympy.Basic):
        return sympy.sympify(expr)
    return expr.xreplace({name: sympy.sympify(value) for name, value in values.items()}).doit()


class _TextPrinter(StrPrinter):  # type: ignore[misc]
    """Prints every function by its name and arguments, so that the text parses back to the same expression."""

    printmethod: ClassVar[str] = "_no_printer_of_its_own"

    def _print_Float(self, expr: sympy.Float) -> str:
        return repr(float(expr))

    def _print_Rational(self, expr: sympy.Rational) -> str:
        return f"Rational({expr.p}, {expr.q})"

    def _print_Pow(self, expr: sympy.Pow, rational: bool = False) -> str:
        return f"Pow({self._print(expr.base)}, {self._print(expr.exp)})"

    def _print_Relational(self, expr: sympy.core.relational.Relational) -> str:
        sides = (f"({self._print(side)})" if side.is_Relational else self._print(side) for side in expr.args)
        return f" {expr.rel_op} ".join(sides)

    def _print_BooleanFunction(self, expr: Any) -> str:
        return f"{type(expr).__name__}({', '.join(self._print(arg) for arg in expr.args)})"

    _print_And = _print_Or = _print_Not = _print_BooleanFunction

    def _print_LatticeOp(self, expr: Any) -> str:
        args = sorted(self._print(arg) for arg in expr.args)
        return f"{type(expr).__name__}({', '.join(args)})"

    _print_Max = _print_Min = _print_LatticeOp

    def _print_Piecewise(self, expr: sympy.Piecewise) -> str:
        pairs = ", ".join(f"({self._print(value)}, {self._print(cond)})" for value, cond in expr.args)
        return f"Piecewise({pairs})"

    def _print_Identity(self, expr: torch_functions.Identity) -> str:
        return f"Identity({self._print(expr.args[0])})"  # sympy prints the identity matrix, whose class has this name

    def _print_Infinity(self, expr: Any) -> str:
        return "inf"

    def _print_NegativeInfinity(self, expr: Any) -> str:
        return "-inf"


_text_printer = _TextPrinter({"order": "lex"})


def to_text(expr: Dim | sympy.Basic) -> str:
    """``expr`` as text that ``parse_expr`` reads back."""
    return str(expr) if isinstance(expr, int) else str(_text_printer.doprint(expr))


@functools.cache
def _functions() -> dict[str, Callable[..., Any]]:
    """The functions that may occur in expression text, by name."""
    table: dict[str, Callable[..., Any]] = {
        name: function
        for name, function in vars(torch_functions).items()
        if isinstance(function, type) and issubclass(function, sympy.Basic)
    }
    relations = ("Eq", "Ne", "Lt", "Le", "Gt", "Ge")
    for name in ("Pow", "Rational", "Piecewise", "Not", "And", "Or", *relations):
        table[name] = getattr(sympy, name)
    for name in ("Equality", "Unequality", "StrictLessThan", "LessThan", "StrictGreaterThan", "GreaterThan"):
        table[name] = getattr(sympy, name)
    for name in ("Abs", "floor", "ceiling", "log", "exp", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh"):
        table.setdefault(name, getattr(sympy, name))
    return table


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
    ast.FloorDiv: lambda a, b: torch_functions.FloorDiv(a, b),
    ast.Mod: lambda a, b: torch_functions.PythonMod(a, b),
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: sympy.Eq,
    ast.NotEq: sympy.Ne,
    ast.Lt: sympy.Lt,
    ast.LtE: sympy.Le,
    ast.Gt: sympy.Gt,
    ast.GtE: sympy.Ge,
}


_NOT_AN_EXPRESSION = (
    *(SyntaxError, RecursionError, ValueError, TypeError, KeyError, ZeroDivisionError, MemoryError),
    *(AssertionError, AttributeError, NotImplementedError),  # what PyTorch's functions raise on operands of no sense
)


@functools.lru_cache(maxsize=4096)
def parse_expr(text: str) -> sympy.Basic:
    """Reads an expression from text; numbers, symbols and PyTorch's integer functions only.

    Raises:
        ProgramTextError: the text is not such an expression.
    """
    try:
        return _build(ast.parse(text.strip(), mode="eval").body)
    except _NOT_AN_EXPRESSION as error:
        raise ProgramTextError(f"not a symbolic expression: {text[:200]!r} ({error})") from error


def _build(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=bool() as value):
            return sympy.true if value else sympy.false
        case ast.Constant(value=int() as value):
            return sympy.Integer(value)
        case ast.Constant(value=float() as value):
            return sympy.Float(value)
        case ast.Name(id="inf"):
            return sympy.oo
        case ast.Name(id="nan"):
            return sympy.nan
        case ast.Name(id=("I" | "pi" | "E") as name):
            return getattr(sympy, name)
        case ast.Name(id=name):
            return symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_build(operand)
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_build(left), _build(right))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _COMPARE[type(op)](_build(left), _build(right))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return _functions()[name](*(_build(arg) for arg in args))
        case ast.Tuple(elts=elements):
            return sympy.Tuple(*(_build(element) for element in elements))
        case _:
            raise ValueError(f"unexpected {type(node).__name__}")


_python_printer = PythonPrinter()
_cpp_printer = CppPrinter()


def python_expr(expr: Dim | sympy.Basic) -> str:
    """``expr`` as Python source; ``math`` must be in scope."""
    return str(expr) if isinstance(expr, int) else str(_python_printer.doprint(expr))


def cpp_expr(expr: Dim | sympy.Basic) -> str:
    """``expr`` as C++ source over ``int64_t`` and ``double``."""
    return f"{expr}L" if isinstance(expr, int) else str(_cpp_printer.doprint(expr))
