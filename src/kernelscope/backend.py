"""The ``torch.compile`` backend: captures each graph, runs the passes, emits the target, hands it to PyTorch."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch

from kernelscope import config, watch_options
from kernelscope.errors import OptionError, UnsupportedError
from kernelscope.ir.program import Program
from kernelscope.ir.serialize import without_constants
from kernelscope.passes.pipeline import run_passes
from kernelscope.runtime.native_module import start_hostcalls
from kernelscope.targets import registry
from kernelscope.version import fingerprint
from kernelscope.watch import open_from_environment

log = logging.getLogger("kernelscope.compile")

_OWN_OPTIONS = ("target", "on_unsupported")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A program that was just compiled, and how long our part took (nanoseconds of wall time).

    ``captured`` is the program before the passes, ``program`` after them.
    """

    captured: Program
    program: Program
    target: str
    module: str
    capture_ns: int
    passes_ns: int
    emit_ns: int


Observer = Callable[[Compiled], None]
_observers: ContextVar[tuple[Observer, ...]] = ContextVar("kernelscope_observers", default=())


@contextlib.contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Within, ``observer`` is told of each program compiled for a model whose compilation starts here."""
    token = _observers.set((*_observers.get(), observer))
    try:
        yield
    finally:
        _observers.reset(token)


def kernelscope_backend(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compiles a graph from Dynamo; what ``torch.compile(model, backend="kernelscope")`` calls.

    Args:
        graph: The graph.
        example_inputs: Its inputs (fake or real tensors, symbolic integers).
        options: ``target`` and ``on_unsupported``; those of ``kernelscope.scope``, which watch this program wherever
            no scope is open; and any setting of Inductor's.
        mode: A mode of ``torch.compile``.

    Raises:
        OptionError: an option is unknown or has a value it cannot have.
        UnsupportedError: the host program has no form in the IR, and ``on_unsupported`` is ``"error"``.
        VersionError: this version of PyTorch is not supported.
    """
    from kernelscope.capture.inductor.compile import compile_graph, inductor_settings

    start_hostcalls()
    open_from_environment(os.environ)
    given = dict(options or {})
    settings = _settings({name: given.pop(name) for name in _OWN_OPTIONS if name in given})
    target = registry.target(settings.target)
    observers = _observers.get()
    watched = watch_options.text_of({name: given.pop(name) for name in watch_options.NAMES if name in given})
    watch_options.watch(watched)

    def finish(program: Program, capture_ns: int) -> str:
        return _finish(program, capture_ns, target, settings, observers) + watch_options.mark(watched)

    return compile_graph(
        graph,
        example_inputs,
        settings=inductor_settings(given, mode, None),
        key=json.dumps([fingerprint(), settings.target, settings.verify, watched]),
        finish=finish,
        on_unsupported=lambda error: _fall_back(error, settings.on_unsupported),
    )


def _settings(own: Mapping[str, Any]) -> config.Config:
    settings = dataclasses.replace(config.current(), **own)
    if settings.on_unsupported not in ("error", "inductor"):
        raise OptionError(
            f"option on_unsupported cannot be {settings.on_unsupported!r}", hint='it is "error" or "inductor"'
        )
    return settings


def _finish(
    program: Program,
    capture_ns: int,
    target: registry.Target,
    settings: config.Config,
    observers: Sequence[Observer],
) -> str:
    start = time.perf_counter_ns()
    planned = run_passes(program, verify_level=settings.verify)
    middle = time.perf_counter_ns()
    # PyTorch keeps the constants of a cached graph itself, so their bytes stay out of the module.
    module = target.module(planned, without_constants(planned))
    end = time.perf_counter_ns()
    log.info(
        "program %s: %d lines, %d kernels, passes %.1f ms, emission %.1f ms",
        planned.name,
        sum(len(function.lines) for function in planned.all_functions()),
        len(planned.kernels()),
        (middle - start) / 1e6,
        (end - middle) / 1e6,
    )
    compiled = Compiled(
        captured=program,
        program=planned,
        target=settings.target,
        capture_ns=capture_ns,
        module=module,
        passes_ns=middle - start,
        emit_ns=end - middle,
    )
    for observer in observers:
        observer(compiled)
    return module


def _fall_back(error: UnsupportedError, on_unsupported: str) -> bool:
    if on_unsupported != "inductor":
        return False
    warnings.warn(f"this graph is compiled by plain Inductor, without Kernelscope: {error}", stacklevel=2)
    return True
