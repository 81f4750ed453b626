"""Checks of values while a program runs: the first value that breaks one is named, with where it was made."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch

from kernelscope.errors import KernelFault, OptionError
from kernelscope.probe.formats import unravelled
from kernelscope.probe.records import Event, TensorRecord
from kernelscope.probe.statistics import Statistics

Action: TypeAlias = Literal["raise", "warn", "record"]
ACTIONS: tuple[Action, ...] = ("raise", "warn", "record")
UserCheck: TypeAlias = Callable[[torch.Tensor], "str | None"]
"""Gets a tensor that was just written; says what is wrong with it, or None."""


@dataclass(frozen=True, slots=True)
class Breach:
    """What is wrong with a value: in words, and the position of an element that shows it."""

    text: str
    position: int | None = None


Rule: TypeAlias = Callable[[Statistics, torch.Tensor, Event], "Breach | None"]
"""Gets a value's statistics, the value, and the event that shows it."""
GROWTH = 1000.0
"""How many times larger than at first a value may become, where nobody said otherwise."""


def _nan(found: Statistics, tensor: torch.Tensor, event: Event) -> Breach | None:
    if not found.nan:
        return None
    return Breach(f"{found.nan} of {found.count} elements are NaN", found.first_nan)


def _positive_inf(found: Statistics, tensor: torch.Tensor, event: Event) -> Breach | None:
    if not found.positive_inf:
        return None
    return Breach(f"{found.positive_inf} of {found.count} elements are +Inf", _first(tensor == float("inf")))


def _negative_inf(found: Statistics, tensor: torch.Tensor, event: Event) -> Breach | None:
    if not found.negative_inf:
        return None
    return Breach(f"{found.negative_inf} of {found.count} elements are -Inf", _first(tensor == -float("inf")))


def _first(mask: torch.Tensor) -> int | None:
    found = mask.reshape(-1).nonzero()
    return int(found[0]) if found.numel() else None


def _range(low: float, high: float) -> Rule:
    def check(found: Statistics, tensor: torch.Tensor, event: Event) -> Breach | None:
        if found.min is not None and found.min < low:
            return Breach(f"the least value {found.min:.6g} is below {low:g}", found.argmin)
        if found.max is not None and found.max > high:
            return Breach(f"the greatest value {found.max:.6g} is above {high:g}", found.argmax)
        return None

    return check


def _finite_growth(factor: float = GROWTH) -> Rule:
    """Values that are still finite, but have grown since their program first ran: how runs diverge before a NaN."""
    first: dict[tuple[object, ...], float] = {}

    def check(found: Statistics, tensor: torch.Tensor, event: Event) -> Breach | None:
        if found.min is None or found.max is None:
            return None
        low, high = abs(found.min), abs(found.max)
        greatest = max(low, high)
        key = (event.program, event.rank, event.call, event.moment, event.label)
        before = first.setdefault(key, greatest) if greatest else None
        if before is None or greatest <= factor * before:
            return None
        times = f"{greatest / before:.3g} times what it was at first ({before:.6g})"
        return Breach(f"the greatest magnitude {greatest:.6g} is {times}", found.argmin if low > high else found.argmax)

    return check


def _user(function: UserCheck) -> Rule:
    def check(found: Statistics, tensor: torch.Tensor, event: Event) -> Breach | None:
        text = function(tensor)
        return None if text is None else Breach(text)

    return check


_NAMED: dict[str, Rule] = {"nan": _nan, "inf": _positive_inf, "-inf": _negative_inf}
_WITH_NUMBERS: dict[str, tuple[Callable[..., Rule], str]] = {
    "range": (_range, "LOW:HIGH"),
    "finite_growth": (_finite_growth, "FACTOR"),
}
"""Checks that take numbers after colons, and what the numbers are."""


@dataclass(frozen=True, slots=True)
class Check:
    """One rule for values that a call has written, and what happens when one breaks it."""

    name: str
    rule: Rule
    action: Action


def checks(given: str | Sequence[str | UserCheck] | Mapping[str | UserCheck, str] | None) -> tuple[Check, ...]:
    """Checks from names and functions; a mapping gives each an action, otherwise they raise.

    Names are ``nan``, ``inf`` (+Inf), ``-inf`` (apart, because attention masks hold it on purpose), ``range:LOW:HIGH``,
    and ``finite_growth`` or ``finite_growth:FACTOR``: the greatest finite magnitude of a value is more than FACTOR
    times (1000, unless given) what it was the first time that the same call of the same program wrote it.

    Raises:
        OptionError: there is no such check or action.
    """
    if given is None:
        return ()
    if isinstance(given, str):
        given = [part.strip() for part in given.split(",") if part.strip()]
    pairs = list(given.items()) if isinstance(given, Mapping) else [(name, "raise") for name in given]
    return tuple(_check(name, action) for name, action in pairs)


def _check(given: str | UserCheck, action: str) -> Check:
    if action not in ACTIONS:
        raise OptionError(f"a check cannot {action!r}", hint=f"actions are {', '.join(ACTIONS)}")
    if not isinstance(given, str):
        return Check(getattr(given, "__name__", "check"), _user(given), action)
    if given in _NAMED:
        return Check(given, _NAMED[given], action)
    kind, _, numbers = given.partition(":")
    if kind not in _WITH_NUMBERS:
        known = (*_NAMED, *(f"{name}:{text}" for name, (_, text) in _WITH_NUMBERS.items()))
        raise OptionError(f"unknown check {given!r}", hint=f"checks are {', '.join(known)}, or a function")
    make, text = _WITH_NUMBERS[kind]
    try:
        return Check(given, make(*(float(number) for number in numbers.split(":") if numbers)), action)
    except (TypeError, ValueError) as error:
        raise OptionError(f"check {given!r} has not the numbers it needs", hint=f"write {kind}:{text}") from error


class Checker:
    """Applies checks to every value that a call has written.

    Attributes:
        faults: All breaches so far, the first one first.
    """

    def __init__(self, wanted: Sequence[Check]) -> None:
        self.checks = tuple(wanted)
        self.faults: list[KernelFault] = []
        self._local = threading.local()

    def __call__(self, event: Event, value: Any) -> None:
        """Checks an event's value.

        Raises:
            KernelFault: it breaks a check whose action is to raise.
        """
        record = event.value
        if not isinstance(record, TensorRecord) or record.statistics is None:
            if event.moment == "before" and not event.label:
                self._local.unclean = {}
            return
        if event.moment == "before":
            for check in self.checks:
                if check.rule(record.statistics, value, event) is not None:
                    self._local.unclean.setdefault(check.name, event.label)
        elif event.moment == "after" and event.written:
            for check in self.checks:
                breach = check.rule(record.statistics, value, event)
                if breach is not None:
                    self._fault(event, record, value, check, breach)

    def _fault(self, event: Event, record: TensorRecord, value: torch.Tensor, check: Check, breach: Breach) -> None:
        unclean = getattr(self._local, "unclean", {}).get(check.name)
        index = None if breach.position is None else unravelled(breach.position, record.size)
        element = None if index is None else value.detach()[index].item()
        place = event.origin.locations[-1] if event.origin and event.origin.locations else None
        inputs = f"operand {unclean} broke the check before" if unclean else "the call's operands passed the check"
        fault = KernelFault(
            f"{event.subject} wrote {event.label}: {breach.text} (check {check.name})",
            where="; ".join(
                [
                    f"program {event.program}, call {event.call}, step {event.step}",
                    *([f"element {list(index)} is {element}"] if index is not None else []),
                    inputs,
                    *([f"{place.file}:{place.line}  {place.text}"] if place else []),
                ]
            ),
            hint=f'save this call\'s values with kernelscope.scope(save="DIR", kernels="{event.subject}")',
            kernel=event.subject,
            argument=event.label,
            index=index,
            value=element,
            check=check.name,
            inputs_clean=unclean is None,
        )
        self.faults.append(fault)
        if check.action == "raise":
            raise fault
        if check.action == "warn":
            warnings.warn(str(fault), stacklevel=2)
