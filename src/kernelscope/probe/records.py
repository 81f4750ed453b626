"""What an observer is told: one record for each value seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from kernelscope.ir.lines import Moment, Origin
from kernelscope.probe.statistics import Statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRecord:
    """A tensor as it was.

    Attributes:
        type: Its class, ``Tensor`` for a plain one.
        dtype: PyTorch's name of its dtype, such as ``float32``.
        device: Its device.
        size: Its shape, in elements; empty for subclasses that have none.
        stride: Its strides in elements; None where its layout has none.
        offset: Its storage offset in elements.
        layout: Its layout, such as ``strided``.
        requires_grad: Whether autograd records it.
        contiguous: Whether it is contiguous.
        pointer: The address of its data; 0 where it has none.
        statistics: Statistics of its values; None where they were not asked for or cannot be had.
        text: Its values as PyTorch prints them, where it is small.
        note: Why there are no values, where there are none.
    """

    type: str
    dtype: str
    device: str
    size: tuple[int, ...]
    stride: tuple[int, ...] | None
    offset: int
    layout: str
    requires_grad: bool
    contiguous: bool
    pointer: int
    statistics: Statistics | None = None
    text: str = ""
    note: str = ""

    @property
    def numel(self) -> int:
        """Number of elements."""
        product = 1
        for extent in self.size:
            product *= extent
        return product


@dataclass(frozen=True, slots=True)
class ValueRecord:
    """A value that is no tensor: its class and its text."""

    type: str
    text: str


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A tensor that nothing has written yet; it was not read."""

    size: tuple[int, ...]
    dtype: str


Observed: TypeAlias = "TensorRecord | ValueRecord | Unwritten"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One value at one moment, or (without a label) a call itself.

    Attributes:
        time_ns: Nanoseconds since 1970.
        process: Process id.
        thread: Thread id.
        rank: Rank in the process group; 0 without one.
        program: The program's name.
        step: How many calls of this program began before, in this process.
        order: Position among the events of this step.
        call: The call's number in the program; None at inputs and returns.
        moment: When.
        subject: The kernel, operator or function called.
        label: The value's label; empty where the event is the call itself.
        value: What was seen.
        written: Whether the call changes it.
        origin: Where the call comes from.
    """

    time_ns: int
    process: int
    thread: int
    rank: int
    program: str
    step: int
    order: int
    call: int | None
    moment: Moment
    subject: str
    label: str = ""
    value: Observed | None = None
    written: bool = False
    origin: Origin | None = None


Level: TypeAlias = Literal["off", "names", "stats", "values"]
