"""The wrapper lines: every step a host program can take, each an immutable typed record (A1).

A line says everything a target needs to write it out. The kinds form one closed union, ``WrapperLine``; code
that tells them apart uses ``match`` with ``assert_never``. What a line defines, reads, writes and ends is in
``dataflow``; what makes a list of lines a good program is in ``verify``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import sympy
import torch

from kernelscope.ir.kernels import Kernel
from kernelscope.ir.values import BufferRef, ConstantRef, Dim, NoneValue, SymExpr, TensorType, TensorValue, Value, View

Kwargs: TypeAlias = "tuple[tuple[str, Value], ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLocation:
    """A line of the model's Python source."""

    file: str
    line: int
    function: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a line comes from: FX nodes, the operators fused into it, lines of the model (A7)."""

    nodes: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    locations: tuple[SourceLocation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What all lines have in common."""

    origin: Origin | None = None


# --- memory ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateLine(Line):
    """``name`` becomes a new, uninitialised tensor of ``type``.

    ``allocation_size``, when set, is the size actually allocated (padding); ``name`` is its view of ``type``.
    """

    name: str
    type: TensorType
    allocation_size: tuple[Dim, ...] | None = None
    pinned: bool = False
    workspace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeIfNotReusedLine(Line):
    """``name`` is not used any more: its storage may serve a later allocation, else it is freed here."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseLine(Line):
    """``new`` takes over the storage of ``old`` with its own ``type``; with ``delete_old`` the old name ends."""

    old: str
    new: str
    type: TensorType
    delete_old: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NullLine(Line):
    """Nothing: what planning leaves of a line it made superfluous."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReinterpretLine(Line):
    """``name`` becomes an alias of ``value`` and does not own storage."""

    name: str
    value: TensorValue
    type: TensorType


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeLine(Line):
    """``name`` (an input, a pack, an object) ends; its storage is never reused."""

    name: str


# --- kernels -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelDefinitionLine(Line):
    """The kernel can be called from here on."""

    kernel: Kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCallLine(Line):
    """Launches ``kernel`` with one operand per parameter; no grid (C1).

    ``reads`` and ``writes`` name the buffers touched, views resolved; they follow from the parameters' roles.
    """

    kernel: str
    args: tuple[Value, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    device: torch.device
    stream: int | None = None


# --- operators ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternKernelLine(Line):
    """Calls an out-variant operator, which writes all of ``out``. ``op`` is a qualified overload name."""

    op: str
    args: tuple[Value, ...]
    kwargs: Kwargs = ()
    out: TensorValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternKernelAllocLine(Line):
    """Calls an operator that makes its own results (or none), fallbacks and custom operators included.

    ``result`` names what it returns: a tensor when ``type`` is set, else a pack that ``MultiOutputLine`` and
    ``UnbackedSymbolDefsLine`` take apart. ``type`` may name symbols that are read off the result only after the call
    (``nonzero``). ``mutates`` are buffers it writes in place, ``aliases`` buffers whose storage its results may share.
    """

    op: str
    args: tuple[Value, ...]
    kwargs: Kwargs = ()
    result: str | None
    type: TensorType | None = None
    mutates: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternKernelMultiOutLine(Line):
    """Calls an out-variant operator with several out arguments, given by keyword."""

    op: str
    args: tuple[Value, ...]
    kwargs: Kwargs = ()
    outs: tuple[tuple[str, TensorValue], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiOutputLine(Line):
    """``name`` becomes the element of the pack ``source`` that ``path`` leads to (indices and keys)."""

    name: str
    source: str
    path: tuple[int | str, ...]
    type: TensorType | None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterFallbackLine(Line):
    """``op`` (``aten.scatter_*``, ``aten.scatter_reduce_*``) writes into ``target`` in place."""

    op: str
    target: TensorValue
    dim: int
    index: TensorValue
    src: Value
    kwargs: Kwargs = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPutFallbackLine(Line):
    """``op`` (``aten.index_put_``) writes ``values`` into ``target`` at ``indices`` (None for a full dimension)."""

    op: str
    target: TensorValue
    indices: tuple[TensorValue | NoneValue, ...]
    values: TensorValue
    accumulate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyLine(Line):
    """``dst`` takes the values of ``src``, across dtypes and devices."""

    dst: TensorValue
    src: TensorValue
    non_blocking: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveLine(Line):
    """Starts a collective or waits for one. Until the wait its buffers must be neither read nor written."""

    op: str
    args: tuple[Value, ...]
    kwargs: Kwargs = ()
    result: str | None
    type: TensorType | None = None
    mutates: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


# --- symbols -----------------------------------------------------------------------------------------------

PathStep: TypeAlias = "tuple[Literal['index'], int] | tuple[Literal['key'], str] | tuple[Literal['size'], int] | tuple[Literal['stride'], int] | tuple[Literal['storage_offset'], int] | tuple[Literal['floordiv'], int] | tuple[Literal['call'], str]"  # noqa: E501
"""One step from an operator's result to a number: ``("index", 0)``, ``("size", 1)``, ``("floordiv", 8)``..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BindSymbolLine(Line):
    """``symbol`` is read off an input: its size or stride along ``dim``, or the input's own value."""

    symbol: sympy.Symbol
    source: str
    attribute: Literal["size", "stride", "value"]
    dim: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolicCallArgLine(Line):
    """``symbol`` is ``expr``, computed on the host."""

    symbol: sympy.Symbol
    expr: sympy.Basic


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicScalarLine(Line):
    """``symbol`` is the single element of a tensor (``Tensor.item()``).

    ``convert``: ``bool`` maps true to 1; ``divide`` divides exactly by ``divisor`` and fails on a remainder.
    """

    symbol: sympy.Symbol
    source: TensorValue
    convert: Literal["none", "bool", "divide"] = "none"
    divisor: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicSelectLine(Line):
    """``symbol`` is a storage offset: ``base_offset + base_stride * index``, a negative index counted from ``size``.

    With ``clamp`` the index is brought into ``[0, size]`` first.
    """

    symbol: sympy.Symbol
    index: sympy.Basic
    base_offset: Dim
    base_stride: Dim
    size: Dim
    clamp: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicSliceLine(Line):
    """``symbol`` is the length of the Python slice ``start:end:step`` of a dimension of ``size``."""

    symbol: sympy.Symbol
    start: Dim
    end: Dim
    step: Dim
    size: Dim


@dataclass(frozen=True, slots=True, kw_only=True)
class UnbackedSymbolDefsLine(Line):
    """``symbol`` is a number found in an operator's result by following ``path``."""

    symbol: sympy.Symbol
    source: str
    path: tuple[PathStep, ...]


# --- assertions --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertSizeStrideLine(Line):
    """``name`` has this size and stride (in elements); ``label`` says what made it."""

    name: str
    size: tuple[Dim, ...]
    stride: tuple[Dim, ...]
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertAlignmentLine(Line):
    """The data of ``name`` starts at a multiple of ``alignment_bytes``."""

    name: str
    alignment_bytes: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertScalarLine(Line):
    """``condition`` holds, else the program raises ``RuntimeError(message)``."""

    condition: sympy.Basic
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignInputLine(Line):
    """``name`` is replaced by a clone when its data is not aligned as its kernels expect."""

    name: str


# --- scopes and control flow -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterDeviceLine(Line):
    """Launches until the matching ``ExitDeviceLine`` go to ``device``."""

    device: torch.device
    num_streams: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitDeviceLine(Line):
    """Ends the innermost device scope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterStreamLine(Line):
    """Launches until the matching ``ExitStreamLine`` go to the device scope's stream number ``stream``."""

    stream: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitStreamLine(Line):
    """Ends the innermost stream scope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvokeSubgraphLine(Line):
    """``result`` becomes the pack of what function ``function`` returns for ``operands``.

    ``mutates`` are operands that the function writes in place.
    """

    result: str
    function: str
    operands: tuple[Value, ...]
    mutates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionalLine(Line):
    """``result`` becomes the pack that one of two functions returns: the truth of ``predicate`` decides."""

    result: str
    predicate: TensorValue | SymExpr
    true_function: str
    false_function: str
    operands: tuple[Value, ...]
    mutates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WhileLoopLine(Line):
    """``result`` becomes the pack of carried values after the loop.

    ``cond_function(carried, additional)`` returns one truth value, ``body_function`` the next carried values. A
    loop that never runs gives clones of its initial values. With ``stack_outputs`` each result is the stack of
    the carried values of all iterations (of the initial one, if there was none).
    """

    result: str
    cond_function: str
    body_function: str
    carried: tuple[Value, ...]
    additional: tuple[Value, ...]
    stack_outputs: bool = False
    mutates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommentLine(Line):
    """A remark for the reader of generated code; one line of text."""

    text: str


# --- observation -------------------------------------------------------------------------------------------

Moment: TypeAlias = Literal["inputs", "before", "after", "returns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeLine(Line):
    """Shows values to the program's observer, and changes nothing; without an observer there are no such lines.

    It stands at the start of a function (``inputs``), around a call, or ahead of the return. ``number`` is its own in
    the program. ``subject`` is the kernel or operator called, or the function's name; ``call`` numbers the program's
    calls from 0, and the two probes around a call have its number. ``labels`` name the operands, one each.
    ``written`` are labels of operands whose contents the call changes, or has changed; ``unwritten`` those that
    nothing has written yet, which must not be read.
    """

    number: int
    moment: Moment
    subject: str
    call: int
    operands: tuple[Value, ...]
    labels: tuple[str, ...]
    written: tuple[str, ...] = ()
    unwritten: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnLine(Line):
    """The last line of a function: what it returns, reinterpreted views and host scalars included."""

    values: tuple[Value, ...]


WrapperLine: TypeAlias = (
    "AllocateLine | FreeIfNotReusedLine | ReuseLine | NullLine | ReinterpretLine | FreeLine"
    " | KernelDefinitionLine | KernelCallLine"
    " | ExternKernelLine | ExternKernelAllocLine | ExternKernelMultiOutLine | MultiOutputLine"
    " | ScatterFallbackLine | IndexPutFallbackLine | CopyLine | CollectiveLine"
    " | BindSymbolLine | SymbolicCallArgLine | DynamicScalarLine | DynamicSelectLine | DynamicSliceLine"
    " | UnbackedSymbolDefsLine"
    " | AssertSizeStrideLine | AssertAlignmentLine | AssertScalarLine | AlignInputLine"
    " | EnterDeviceLine | ExitDeviceLine | EnterStreamLine | ExitStreamLine"
    " | InvokeSubgraphLine | ConditionalLine | WhileLoopLine"
    " | CommentLine | ProbeLine | ReturnLine"
)

LINE_KINDS: tuple[type[Line], ...] = (
    AllocateLine,
    FreeIfNotReusedLine,
    ReuseLine,
    NullLine,
    ReinterpretLine,
    FreeLine,
    KernelDefinitionLine,
    KernelCallLine,
    ExternKernelLine,
    ExternKernelAllocLine,
    ExternKernelMultiOutLine,
    MultiOutputLine,
    ScatterFallbackLine,
    IndexPutFallbackLine,
    CopyLine,
    CollectiveLine,
    BindSymbolLine,
    SymbolicCallArgLine,
    DynamicScalarLine,
    DynamicSelectLine,
    DynamicSliceLine,
    UnbackedSymbolDefsLine,
    AssertSizeStrideLine,
    AssertAlignmentLine,
    AssertScalarLine,
    AlignInputLine,
    EnterDeviceLine,
    ExitDeviceLine,
    EnterStreamLine,
    ExitStreamLine,
    InvokeSubgraphLine,
    ConditionalLine,
    WhileLoopLine,
    CommentLine,
    ProbeLine,
    ReturnLine,
)

__all__ = ["LINE_KINDS", "BufferRef", "ConstantRef", "Line", "Origin", "SourceLocation", "View", "WrapperLine"]
