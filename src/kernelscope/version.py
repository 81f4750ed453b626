"""The version of Kernelscope: one place, read by the packaging too."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

__version__ = "0.1.0"


@functools.cache
def fingerprint() -> str:
    """The version and a digest of the package's own text: what a compiled artifact depends on.

    An edited checkout must not find artifacts that its former text made.
    """
    state = hashlib.sha256(__version__.encode())
    for file in sorted(Path(__file__).parent.rglob("*")):
        if file.suffix in (".py", ".h", ".cpp"):
            state.update(file.read_bytes())
    return f"{__version__}+{state.hexdigest()[:16]}"
