"""The compile in progress, and how the recorder comes to stand where Inductor expects its own wrapper.

The choice is made per compile through a ``ContextVar``: plain Inductor in another thread, or afterwards, is not
touched.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch._inductor.codegen import common
from torch._inductor.codegen.wrapper import PythonWrapperCodegen

from kernelscope.errors import InternalError
from kernelscope.ir.program import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What one compile needs.

    ``finish`` turns a captured program, and the nanoseconds its capture took, into the text of a Python module.
    """

    finish: Callable[[Program, int], str]


_session: ContextVar[Session | None] = ContextVar("kernelscope_capture_session", default=None)


def current() -> Session:
    """The session of the compile in progress."""
    session = _session.get()
    if session is None:
        raise InternalError("the recorder was used outside a Kernelscope compile")
    return session


def torch_release() -> str:
    """The version of PyTorch without its build suffix."""
    return torch.__version__.split("+")[0]


@contextlib.contextmanager
def recording(session: Session) -> Iterator[None]:
    """Within, graphs that Inductor compiles in this context are recorded."""
    install()
    token = _session.set(session)
    try:
        yield
    finally:
        _session.reset(token)


@functools.cache
def install() -> None:
    """Puts the switch between Inductor's wrapper and the recorder in front of each device's registration."""
    from kernelscope.capture.inductor import typed_nodes

    typed_nodes.install()
    common.init_backend_registration()
    for codegen in common.device_codegens.values():
        original = codegen.wrapper_codegen
        if original is PythonWrapperCodegen:
            codegen.wrapper_codegen = _switch(original)


def _switch(original: type[Any]) -> type[Any]:
    class WrapperSwitch(original):  # type: ignore[misc, valid-type]
        """Makes the recorder within a Kernelscope compile, Inductor's own wrapper otherwise."""

        @staticmethod
        def create(*args: Any, **kwargs: Any) -> Any:
            if _session.get() is None:
                return original.create(*args, **kwargs)
            from kernelscope.capture.inductor.recorder import Recorder

            return Recorder.create(*args, **kwargs)

    return WrapperSwitch
