"""Numbers for symbolic sizes: what a planner and a report reckon with when a size is known at run time only."""

from __future__ import annotations

from dataclasses import dataclass

import sympy

from kernelscope.ir.dataflow import defined_symbol
from kernelscope.ir.expr import free_symbols, substitute
from kernelscope.ir.lines import SymbolicCallArgLine
from kernelscope.ir.program import Program
from kernelscope.ir.values import Dim

_UNKNOWN = 64


@dataclass(frozen=True, slots=True)
class Sizes:
    """Example values of a program's symbols; 64 for a symbol without one."""

    hints: dict[sympy.Symbol, int | float]

    @classmethod
    def of(cls, program: Program) -> Sizes:
        """The example values that a program's capture saw, and of the sizes computed from them."""
        hints: dict[sympy.Symbol, int | float] = {
            info.symbol: info.hint for info in program.symbols if info.hint is not None
        }
        sizes = cls(hints)
        for function in program.all_functions():
            for line in function.lines:
                symbol = defined_symbol(line)
                if symbol is not None and symbol not in hints and isinstance(line, SymbolicCallArgLine):
                    hints[symbol] = sizes.number(line.expr)
        return sizes

    def number(self, expr: Dim | sympy.Basic) -> int:
        """An expression with example values for its symbols."""
        if isinstance(expr, int):
            return expr
        values = {symbol: self.hints.get(symbol, _UNKNOWN) for symbol in free_symbols(expr)}
        result = substitute(expr, values)
        return int(result) if result.is_number else _UNKNOWN

    def nbytes(self, nbytes: Dim) -> int:
        """A size in bytes, never negative."""
        return max(0, self.number(nbytes))
