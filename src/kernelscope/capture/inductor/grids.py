"""Launch grids as expressions over a kernel's own arguments, one per configuration (C1, C2).

Inductor's heuristics describe a grid as Python text for each configuration; it is read here into expressions with
the block sizes filled in, so that a division by a block size is a ceiling division by a constant.
"""

from __future__ import annotations

import ast
from typing import Any

import sympy
from torch.utils._sympy import functions

from kernelscope.errors import UnsupportedError
from kernelscope.ir.expr import canonical, symbol
from kernelscope.ir.kernels import Grid, GridKind

_f: Any = functions

_KINDS: dict[str, GridKind] = {
    "Grid1D": "grid_1d",
    "Grid2D": "grid_2d",
    "Grid3D": "grid_3d",
    "BatchMatmulGrid3D": "grid_3d",
    "Grid2DWithYZOverflow": "grid_2d_yz_overflow",
    "MixOrderReductionGrid": "mix_order",
    "CooperativeReductionGrid": "cooperative",
    "SplitScanGrid": "split_scan",
    "FixedGrid": "template",
    "PrecomputedGrid": "user",
    "SequentialComboKernelGrid": "combo",
    "RoundRobinComboKernelGrid": "combo",
    "SequentialFlattenComboKernelGrid": "combo",
}


def grid_of(inductor_meta: dict[str, Any], configs: list[Any]) -> Grid:
    """The grid that a generated kernel's metadata describes, for each of its configurations.

    Raises:
        UnsupportedError: the grid is of a kind that this version does not know.
    """
    from torch._inductor.runtime.triton_heuristics import GridExpr

    kind = _KINDS.get(inductor_meta.get("grid_type", ""))
    if kind is None:
        raise UnsupportedError(f"launch grid of kind {inductor_meta.get('grid_type')!r}")
    dims = tuple(_dims(GridExpr.from_meta(inductor_meta, config)) for config in configs)
    return Grid(kind=kind, dims=dims[:1] if len(set(dims)) == 1 else dims)


def _dims(grid: Any) -> tuple[sympy.Basic, ...]:
    temporaries: dict[str, sympy.Basic] = {}
    for assignment in grid.prefix:
        name, _, text = assignment.partition("=")
        temporaries[name.strip()] = grid_expr(text, temporaries)
    return tuple(grid_expr(str(dim), temporaries) for dim in (grid.x_grid, grid.y_grid, grid.z_grid))


def grid_expr(text: str, names: dict[str, sympy.Basic] | None = None) -> sympy.Basic:
    """Reads a grid dimension from Python text; ``-(a // -b)`` is a ceiling division."""
    return canonical(_read(ast.parse(text.strip(), mode="eval").body, names or {}))


def _read(node: ast.expr, names: dict[str, sympy.Basic]) -> Any:
    def read(child: ast.expr) -> Any:
        return _read(child, names)

    match node:
        case ast.Constant(value=int() as value):
            return sympy.Integer(value)
        case ast.Name(id=name):
            return names.get(name, symbol(name))
        case ast.UnaryOp(
            op=ast.USub(),
            operand=ast.BinOp(left=left, op=ast.FloorDiv(), right=ast.UnaryOp(op=ast.USub(), operand=right)),
        ):
            return _f.CeilDiv(read(left), read(right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -read(operand)
        case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
            return _f.FloorDiv(read(left), read(right))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return read(left) + read(right)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return read(left) - read(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return read(left) * read(right)
        case ast.IfExp(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]), body=body, orelse=orelse):
            return _f.Where(sympy.Eq(read(left), read(right)), read(body), read(orelse))
        case ast.Call(func=ast.Name(id="max"), args=args):
            return _f.Max(*(read(arg) for arg in args))
        case ast.Call(func=ast.Name(id="min"), args=args):
            return _f.Min(*(read(arg) for arg in args))
        case _:
            raise UnsupportedError(f"launch grid of an unknown form: {ast.unparse(node)}")
