"""A host program as data: functions of wrapper lines, constants, symbols, and the graph they came from.

A program holds no pointer to a compiler (A3). Everything is immutable; passes make new programs with
``dataclasses.replace``. Must not live here: reading and writing files (``serialize``), text (``text``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import sympy

from kernelscope.ir.kernels import CppBuild, Kernel
from kernelscope.ir.lines import KernelDefinitionLine, Kwargs, SourceLocation, WrapperLine
from kernelscope.ir.values import Dim, TensorType, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInput:
    """A tensor argument of a function; ``donated`` when its storage may be reused."""

    name: str
    type: TensorType
    donated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarInput:
    """A number argument of a function: equal to ``expr``, a symbol that it binds or an expression it repeats."""

    name: str
    expr: Dim


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInput:
    """An argument that is neither tensor nor number: random generator, script object, process group."""

    name: str
    kind: str


Input: TypeAlias = "TensorInput | ScalarInput | ObjectInput"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A list of lines with named inputs; the last line is its ``ReturnLine``."""

    name: str
    inputs: tuple[Input, ...]
    lines: tuple[WrapperLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The bytes behind one or more constants, little-endian as in memory; ``data`` is None when kept elsewhere."""

    key: str
    nbytes: int
    data: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A tensor stored with the program: a layout over one of the program's storages."""

    name: str
    type: TensorType
    storage: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolInfo:
    """A size or scalar symbol: what it is, an example value, and its range (None: unbounded)."""

    symbol: sympy.Symbol
    kind: Literal["backed", "unbacked"]
    hint: int | float | None = None
    lower: int | None = None
    upper: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """A node of the FX graph before fusion; operands name other nodes by ``NodeRef``."""

    name: str
    op: Literal["placeholder", "get_attr", "call_function", "output", "opaque"]
    target: str
    args: tuple[Value, ...] = ()
    kwargs: Kwargs = ()
    type: TensorType | None = None
    location: SourceLocation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The FX graph before fusion, and which buffer each node became (``(buffer, node)`` pairs)."""

    nodes: tuple[GraphNode, ...]
    buffers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A host program: ``main`` and the functions it calls, with everything needed to generate and run it."""

    name: str
    phase: Literal["inference", "forward", "backward"]
    main: Function
    functions: tuple[Function, ...] = ()
    constants: tuple[Constant, ...] = ()
    storages: tuple[Storage, ...] = ()
    symbols: tuple[SymbolInfo, ...] = ()
    cpp_build: CppBuild | None = None
    graph: Graph | None = None
    passes: tuple[str, ...] = ()
    torch_version: str = ""

    def all_functions(self) -> tuple[Function, ...]:
        """``main`` first, then the functions it calls."""
        return (self.main, *self.functions)

    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels defined in any function, in the order of their definition."""
        return tuple(
            line.kernel
            for function in self.all_functions()
            for line in function.lines
            if isinstance(line, KernelDefinitionLine)
        )
