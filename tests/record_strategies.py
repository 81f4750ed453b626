"""Hypothesis strategies for any record of the IR, sound or not, made from the types of its fields."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing

import sympy
import torch
from hypothesis import strategies as st

from kernelscope.ir import values as v
from kernelscope.ir.codec import field_types
from kernelscope.ir.expr import as_dim, parse_expr, symbol
from kernelscope.ir.lines import LINE_KINDS, KernelDefinitionLine

SYMBOLS = tuple(symbol(name) for name in ("s0", "s17", "u0", "zuf1"))
DEVICES = tuple(torch.device(name) for name in ("cpu", "cuda", "cuda:1", "meta", "mps"))
DTYPES = tuple(sorted({kind for kind in vars(torch).values() if isinstance(kind, torch.dtype)}, key=str))
ODD_NAMES = (
    *(
        "",
        "free?",
        "free",
        "as",
        "mutates",
        "with",
        "view",
        "none",
        "inf",
        "nan",
        "op",
        "f32",
        "cpu",
        "x.y",
        "a::b",
        "$",
    ),
    *("func", "origin", "a b", "ünï", "\n", '"', "\\", "#0", "; #0", "}", "donated", "object", "1", "-", "a.", "a:b"),
)
EXPRS = tuple(
    parse_expr(text)
    for text in (
        *("0", "-7", "s0", "u0", "s0 + s17", "s0*s17 - 3*u0", "-s0", "s0**2", "2*s0*(s17 + 1)", "FloorDiv(s0, 2)"),
        *("FloorDiv(s0 + 1, s17)*s0", "Max(1, s0, u0)", "Min(7, s0 + u0)", "Mod(s0, 5)", "PythonMod(u0 - 3, 4)"),
        *("CeilToInt(zuf1*2.5)", "ToFloat(s0)*0.1", "zuf1 - 1e-30", "IntTrueDiv(s0, 3)", "CleanDiv(s0, 2)"),
        *("Where(Eq(s0, 1), 1, s0)", "ModularIndexing(s0, 2, 8)", "TruncToInt(zuf1)", "PowByNatural(s0, 3)"),
        *("BitwiseFn_bitwise_and(s0, 6)", "RoundDecimal(zuf1, 2)", "Abs(s0 - 2)", "Identity(s0 + 1)"),
    )
)
CONDITIONS = tuple(
    parse_expr(text)
    for text in (
        *("Eq(s0, 3)", "s0 < 9", "u0 >= s0 + 1", "Ne(u0, s17)", "Or(Eq(s0, 0), s17 > 3)", "Not(Eq(s0, 1))", "True"),
        "And(u0 >= 0, u0 <= 7, Eq(Mod(s0, 2), 0))",
    )
)

names = st.one_of(st.from_regex(r"[a-z_]\w{0,8}", fullmatch=True), st.sampled_from(ODD_NAMES), st.text(max_size=6))
texts = st.one_of(st.text(max_size=20), st.text(alphabet=st.characters(), max_size=5), names)
floats = st.floats(allow_nan=False, allow_infinity=True)


exprs = st.sampled_from(EXPRS)
conditions = st.sampled_from(CONDITIONS)
dims = st.one_of(st.integers(0, 2**40), exprs.map(as_dim))
scalars = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(allow_nan=True),
    texts,
    st.sampled_from((-0.0, complex(-0.0, float("nan")), complex("inf"), 1e400, 2**70)),
).map(v.Scalar)


@st.composite
def tensor_types(draw):
    """A layout."""
    size = draw(st.lists(dims, max_size=3))
    stride = draw(st.lists(dims, min_size=len(size), max_size=len(size)))
    return v.TensorType(
        dtype=draw(st.sampled_from(DTYPES)),
        device=draw(st.sampled_from(DEVICES)),
        size=tuple(size),
        stride=tuple(stride),
        offset=draw(dims),
    )


@st.composite
def views(draw):
    """A view."""
    layout = draw(tensor_types())
    base = draw(st.one_of(names.map(v.BufferRef), names.map(v.ConstantRef)))
    dtype = draw(st.sampled_from((None, layout.dtype)))
    return v.View(base=base, size=layout.size, stride=layout.stride, offset=layout.offset, dtype=dtype)


@functools.cache
def values():
    """An operand of any kind."""
    leaves = st.one_of(scalars, views(), *(records(kind) for kind in _LEAVES))
    lists = st.lists(st.deferred(lambda: values()), max_size=3).map(tuple)
    return st.one_of(leaves, lists.map(v.ListValue), lists.map(v.TupleValue))


_LEAVES = (
    *(v.BufferRef, v.ConstantRef, v.SymExpr, v.NoneValue, v.DTypeValue, v.DeviceValue, v.LayoutValue),
    *(v.MemoryFormatValue, v.OperatorRef, v.ObjectRef, v.NodeRef),
)
_SPECIAL = {v.TensorType: tensor_types(), v.View: views(), v.Scalar: scalars}


@functools.cache
def records(kind):
    """A record of a class."""
    if kind in _SPECIAL:
        return _SPECIAL[kind]
    hints = field_types(kind)
    return st.builds(kind, **{field.name: of(hints[field.name]) for field in dataclasses.fields(kind)})


_PLAIN = {
    str: names,
    bool: st.booleans(),
    int: st.integers(),
    float: floats,
    complex: st.complex_numbers(allow_nan=False),
    bytes: st.binary(max_size=12),
    types.NoneType: st.none(),
    torch.dtype: st.sampled_from(DTYPES),
    torch.device: st.sampled_from(DEVICES),
    sympy.Symbol: st.sampled_from(SYMBOLS),
    sympy.Expr: exprs.filter(lambda expr: not isinstance(expr, sympy.Integer)),
    sympy.Basic: st.one_of(exprs, conditions),
}


def of(hint):
    """Anything that a type hint allows."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        members = typing.get_args(hint)
        if v.ListValue in members:
            return st.deferred(lambda: values())
        return st.one_of(*map(of, members))
    if typing.get_origin(hint) is typing.Literal:
        return st.sampled_from(typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        items = typing.get_args(hint)
        if items[-1] is Ellipsis:
            return st.lists(of(items[0]), max_size=3).map(tuple)
        return st.tuples(*map(of, items))
    return _PLAIN[hint] if hint in _PLAIN else records(hint)


@functools.cache
def lines():
    """A line of any kind but a kernel's definition, without an origin."""
    return st.one_of(*(records(kind) for kind in LINE_KINDS if kind is not KernelDefinitionLine)).map(
        lambda line: dataclasses.replace(line, origin=None)
    )
