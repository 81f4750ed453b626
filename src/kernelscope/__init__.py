"""Kernelscope: a back end and a microscope for compiled PyTorch programs.

>>> import torch, kernelscope as ks
>>> fn = torch.compile(model, backend="kernelscope")
>>> program = ks.capture(model, *inputs)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelscope.version import __version__

if TYPE_CHECKING:
    from kernelscope.api import Artifact, Program, Scope, capture, capture_training, crash_report, scope

__all__ = ["Artifact", "Program", "Scope", "__version__", "capture", "capture_training", "crash_report", "scope"]


def __getattr__(name: str) -> Any:
    """Loads the public face on first use, so that ``import kernelscope`` does not import PyTorch."""
    if name not in __all__:
        raise AttributeError(f"module 'kernelscope' has no attribute {name!r}")
    from kernelscope import api

    return getattr(api, name)
