"""What differs between the versions of PyTorch that we support: the only place that asks for the version."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch

from kernelscope.errors import VersionError

OLDEST = (2, 11)
NEWEST = (2, 15)


@functools.cache
def torch_version() -> tuple[int, int]:
    """Major and minor version of the installed PyTorch."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def check_version(version: str | None = None) -> None:
    """Refuses a version of PyTorch that the capture does not know.

    Raises:
        VersionError: the version is outside the supported range.
    """
    text = torch.__version__ if version is None else version
    found = tuple(int(part) for part in text.split(".")[:2])
    if not OLDEST <= found <= NEWEST:
        low, high = ".".join(map(str, OLDEST)), ".".join(map(str, NEWEST))
        raise VersionError(
            f"PyTorch {text} is not supported: this release of Kernelscope knows {low} to {high}",
            hint=f'pip install "torch>={low},<{NEWEST[0]}.{NEWEST[1] + 1}"',
        )


def current_stream(scheduler: Any) -> int | None:
    """The number of the stream that the scheduler generates for; None for the only one (all of 2.11)."""
    return getattr(scheduler, "current_stream_idx", None)


@contextlib.contextmanager
def no_vector_probes() -> Iterator[None]:
    """Within, Inductor takes the CPU's own word for its vector instructions instead of compiling probes.

    The probes (six compilations and as many fresh Python processes) only ask whether the compiler knows the
    flags, which every compiler that PyTorch's headers compile with does.
    """
    from torch._inductor import cpu_vec_isa

    with mock.patch.object(cpu_vec_isa.VecISA, "check_build", return_value=True):
        yield
