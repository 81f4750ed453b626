"""Kernel text as kernel records: C++ taken out of its Python shell, parameters with their roles."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Sequence
from typing import Any

import torch

from kernelscope.errors import UnsupportedError
from kernelscope.ir.kernels import CppBuild, CppKernel, CppParam, ParamRole

_SIGNATURE = re.compile(r'extern\s+"C"\s+(?:__attribute__\s*\(\(.*?\)\)\s*)?void\s+(?:[A-Z0-9_]+\s+)?(\w+)\s*\(')
_PARAM = re.compile(r"^(?P<ctype>.*?[\s*&])(?P<name>\w+)$", re.DOTALL)


def shell_call(body: str) -> tuple[str, list[ast.expr]]:
    """Takes ``async_compile.kind(args...)`` apart: the kind and its positional arguments.

    Raises:
        UnsupportedError: the text is no such call.
    """
    call = ast.parse(body.strip(), mode="eval").body
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="async_compile"), attr=kind), args=args):
            return kind, args
        case _:
            raise UnsupportedError(f"kernel definition of an unknown form: {body[:120]!r}")


def cpp_kernel(name: str, text: str) -> CppKernel:
    """The record of a C++ kernel from its text.

    Raises:
        UnsupportedError: the text defines no ``extern "C"`` function.
    """
    found = list(_SIGNATURE.finditer(text))
    if not found:
        raise UnsupportedError(f'kernel {name} defines no extern "C" function')
    entry, start = found[-1][1], found[-1].end()
    signature = text[start : text.index(")", start)]
    params = tuple(_cpp_param(part) for part in signature.split(",") if part.strip())
    return CppKernel(name=name, source=text.strip() + "\n", entry=entry, params=params)


def _cpp_param(text: str) -> CppParam:
    match = _PARAM.match(" ".join(text.split()))
    if match is None:
        raise UnsupportedError(f"kernel parameter of an unknown form: {text!r}")
    ctype, name = match["ctype"].strip(), match["name"]
    if not ctype.endswith("*"):
        return CppParam(name=name, ctype=ctype, role="scalar")
    return CppParam(name=name, ctype=ctype, role=_pointer_role(name, ctype), dtype=_pointee(ctype))


def _pointer_role(name: str, ctype: str) -> ParamRole:
    # Inductor names a parameter after its use, and makes pointers that are only read const.
    if ctype.startswith("const "):
        return "in"
    return "inout" if name.startswith("in_out_ptr") else "out"


@functools.cache
def _dtypes_by_ctype() -> dict[str, torch.dtype]:
    from torch._inductor.codegen.cpp_utils import DTYPE_TO_CPP

    return {ctype: dtype for dtype, ctype in DTYPE_TO_CPP.items()}


def _pointee(ctype: str) -> torch.dtype | None:
    return _dtypes_by_ctype().get(ctype.removeprefix("const ").rstrip("*").strip())


@functools.cache
def cpp_build() -> CppBuild:
    """How Inductor compiles CPU kernels on this machine, as flags without paths."""
    from torch._inductor.cpp_builder import CppTorchOptions
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    isa = pick_vec_isa()
    options = CppTorchOptions(vec_isa=isa, include_pytorch=False, shared=True)
    return CppBuild(
        isa=str(isa),
        compile_flags=_flags(
            *(f"-D{definition}" for definition in options.get_definitions()),
            *(f"-{flag}" for flag in options.get_cflags()),
            *options.get_passthrough_args(),
        ),
        link_flags=_flags(
            *(f"-{flag}" for flag in options.get_ldflags()),
            *(f"-l{library}" for library in options.get_libraries()),
        ),
    )


def _flags(*texts: str) -> tuple[str, ...]:
    words = [word for text in texts for word in text.split()]
    dropped = ("-DTORCH_INDUCTOR_PRECOMPILE_HEADERS",)
    return tuple(word for word in words if not word.startswith(("-I", "-L", "/")) and word not in dropped)


def string_constants(args: Sequence[ast.expr]) -> list[Any]:
    """The values of literal arguments."""
    return [ast.literal_eval(arg) for arg in args]
