"""Kernel records: everything needed to build and launch a kernel, and nothing of the compiler that wrote it.

The text of a kernel comes from PyTorch; what it reads and writes is in its parameters' roles. Must not live
here: launching, building, grids' arithmetic (see ``launch`` and ``runtime``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import sympy
import torch

ParamRole: TypeAlias = Literal["in", "out", "inout", "scalar"]
"""``out``: written without being read first, unless an earlier line wrote it (an accumulating store)."""

READ_ROLES: tuple[ParamRole, ...] = ("in", "inout")
WRITE_ROLES: tuple[ParamRole, ...] = ("out", "inout")

GridKind: TypeAlias = Literal[
    "grid_1d",
    "grid_2d",
    "grid_3d",
    "grid_2d_yz_overflow",
    "split_scan",
    "cooperative",
    "mix_order",
    "combo",
    "template",
    "user",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CppParam:
    """One parameter of a C++ kernel: its name and C type as in the kernel's text; ``dtype`` for pointers only."""

    name: str
    ctype: str
    role: ParamRole
    dtype: torch.dtype | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CppKernel:
    """A CPU kernel: one translation unit's text that defines ``extern "C" void <entry>(params...)``."""

    name: str
    source: str
    entry: str
    params: tuple[CppParam, ...]
    fused_ops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CppBuild:
    """How the program's C++ kernels are compiled: vector instruction set and the compiler's flags, without paths.

    The kernels' text depends on ``isa``; the flags are those PyTorch uses for the same text, so that bits agree.
    """

    isa: str
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonParam:
    """One parameter of a Triton kernel; ``type`` as Triton spells it (``*fp32``, ``i32``, ``constexpr``)."""

    name: str
    type: str
    role: ParamRole


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonConfig:
    """One launch configuration: values of the meta-parameters, warps, pipeline stages."""

    meta: tuple[tuple[str, int | float | bool | str | None], ...]
    num_warps: int
    num_stages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A launch grid: ``dims[i]`` are the x, y, z expressions under configuration ``i``.

    Expressions range over the kernel's scalar parameters (``xnumel``) and the configuration's meta-parameters
    (``XBLOCK``). One entry of ``dims`` serves all configurations.
    """

    kind: GridKind
    dims: tuple[tuple[sympy.Basic, ...], ...]
    extra: tuple[tuple[str, int | float | bool | str | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonKernel:
    """A Triton kernel: text, entry function, signature, constants, all configurations and the grid.

    ``restore_value`` and ``reset_to_zero`` name parameters whose buffers autotuning must restore or zero between
    trials; ``autotune_key`` names those whose change asks for a new choice. A parameter of type ``grid`` is for
    the launcher only: it carries a host size that the grid needs, and is not passed to the device.
    """

    name: str
    source: str
    entry: str
    params: tuple[TritonParam, ...]
    constants: tuple[tuple[str, int | float | bool | str | None], ...]
    configs: tuple[TritonConfig, ...]
    grid: Grid
    category: Literal["pointwise", "reduction", "persistent_reduction", "template", "foreach", "user", "other"] = (
        "other"
    )
    fused_ops: tuple[str, ...] = ()
    mutated: tuple[str, ...] = ()
    restore_value: tuple[str, ...] = ()
    reset_to_zero: tuple[str, ...] = ()
    autotune_key: tuple[str, ...] = ()
    options: tuple[tuple[str, int | float | bool | str | None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiKernel:
    """Several kernels with one meaning, of which the fastest is chosen on first use."""

    name: str
    choices: tuple[str, ...]


Kernel: TypeAlias = "CppKernel | TritonKernel | MultiKernel"
