"""Which calls and which of their values somebody wants to see.

A pattern is a name (matched whole, case ignored), a glob (``triton_poi_*``) or a regular expression between slashes
(``/softmax|norm/``, found anywhere). Patterns are given as a sequence, or as one text with commas between them.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

from kernelscope.errors import OptionError
from kernelscope.ir.calls import Call
from kernelscope.ir.lines import SourceLocation

Patterns = tuple[str, ...]


def patterns(given: str | Iterable[str] | None) -> Patterns:
    """Patterns from a text with commas, or a sequence of patterns.

    Raises:
        OptionError: a regular expression cannot be read.
    """
    if given is None:
        return ()
    if not isinstance(given, str):
        found = tuple(given)
    elif given.startswith("/") and given.endswith("/"):
        found = (given,)  # a comma may be part of it
    else:
        found = tuple(part for part in (part.strip() for part in given.split(",")) if part)
    for pattern in found:
        if _is_regular(pattern):
            try:
                re.compile(pattern[1:-1])
            except re.error as error:
                raise OptionError(f"pattern {pattern!r} is no regular expression: {error}") from error
    return found


def matches(name: str, wanted: Patterns) -> bool:
    """Whether a name matches one of the patterns."""
    return any(_matches(name, pattern) for pattern in wanted)


def _matches(name: str, pattern: str) -> bool:
    if _is_regular(pattern):
        return re.search(pattern[1:-1], name) is not None
    return fnmatch.fnmatchcase(name.lower(), pattern.lower())


def _is_regular(pattern: str) -> bool:
    return len(pattern) > 2 and pattern.startswith("/") and pattern.endswith("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is wanted; an empty field wants everything.

    Attributes:
        kernels: Kernels and operators by name. An operator is known by its full name (``aten.mm.out``), and without
            its overload (``aten.mm``).
        operators: Operators that a kernel was fused of, or that is called: ``aten.softmax``.
        sources: Places in the model's source: ``model.py``, ``model.py:12``, ``model.py:10-20``.
        buffers: Values by their label; only these are shown.
        exclude: Kernels and operators that are not wanted, whatever else says they are.
        dtypes: Dtypes of tensors, such as ``float32``.
        devices: Devices of tensors, such as ``cpu`` or ``cuda:1``.
        steps: Numbers of calls of a program (from 0), such as ``3`` or ``10-20``.
        inputs: Whether the program's inputs are shown.
        returns: Whether what it returns is shown.
    """

    kernels: Patterns = ()
    operators: Patterns = ()
    sources: Patterns = ()
    buffers: Patterns = ()
    exclude: Patterns = ()
    dtypes: Patterns = ()
    devices: Patterns = ()
    steps: Patterns = ()
    inputs: bool = True
    returns: bool = True

    def wants_call(self, call: Call) -> bool:
        """Whether a call is shown."""
        names = _names(call)
        if any(matches(name, self.exclude) for name in names):
            return False
        if self.kernels and not any(matches(name, self.kernels) for name in names):
            return False
        origin = call.line.origin
        fused = (*(origin.ops if origin else ()), *names)
        if self.operators and not any(matches(name, self.operators) for name in fused):
            return False
        if self.sources and not any(_lies_in(place, self.sources) for place in (origin.locations if origin else ())):
            return False
        labels = [operand.label for operand in (*call.operands, *call.results)]
        return not self.buffers or any(matches(label, self.buffers) for label in labels)

    def wants_label(self, label: str) -> bool:
        """Whether a value of that label is shown."""
        return not self.buffers or matches(label, self.buffers)

    def wants_tensor(self, dtype: str, device: str) -> bool:
        """Whether a tensor of that dtype (``float32``) on that device (``cuda:0``) is shown."""
        kinds = (device, device.split(":")[0])
        fits = not self.dtypes or matches(dtype, self.dtypes)
        return fits and (not self.devices or any(matches(kind, self.devices) for kind in kinds))

    def wants_step(self, step: int) -> bool:
        """Whether the values of a program's call number ``step`` are shown."""
        return not self.steps or any(first <= step <= last for first, last in map(_range, self.steps))


def _names(call: Call) -> tuple[str, ...]:
    if call.kind == "operator" and call.subject.count(".") > 1:
        return (call.subject, call.subject.rsplit(".", 1)[0])
    return (call.subject,)


def _lies_in(place: SourceLocation, wanted: Patterns) -> bool:
    for pattern in wanted:
        file, _, lines = pattern.partition(":")
        same_file = place.file == file or PurePath(place.file).match(file)
        first, last = _range(lines) if lines else (0, place.line)
        if same_file and first <= place.line <= last:
            return True
    return False


def _range(text: str) -> tuple[int, int]:
    """The first and the last of ``12`` or ``10-20``.

    Raises:
        OptionError: it is neither.
    """
    first, dash, last = text.partition("-")
    if not first.strip().isdecimal() or (dash and not last.strip().isdecimal()):
        raise OptionError(f"{text!r} is no number and no range of numbers", hint="write 12 or 10-20")
    return int(first), int(last) if dash else int(first)
