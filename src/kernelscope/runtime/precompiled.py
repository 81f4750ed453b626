"""A precompiled form of PyTorch's vector headers, made in the background once it pays.

Making it costs about as much as three builds without it, so a process starts it (at low priority, for later
builds and later processes) only after it has built several libraries with the same flags. A build never waits, so
this compiler is not counted among those that run at a time.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections import Counter
from pathlib import Path

import torch

from kernelscope import config
from kernelscope.errors import BuildError
from kernelscope.runtime import cache, compiler

log = logging.getLogger("kernelscope.build")

HEADER = "torch/csrc/inductor/cpp_prefix.h"
_BUILDS_BEFORE = 3
_LOW_PRIORITY = ("nice",) if shutil.which("nice") else ()
_counts: Counter[str] = Counter()
_guard = threading.Lock()


def usable(cxx: str, compile_flags: tuple[str, ...], settings: config.Config) -> tuple[str, ...]:
    """Flags that use the precompiled header, when there is one for exactly these flags; counts the build."""
    key = cache.digest((cxx, compiler.identity(cxx), torch.__version__, *compiler.include_flags(), *compile_flags))
    root = cache.directory(settings.cache_dir) / "headers"
    root.mkdir(parents=True, exist_ok=True)
    header = root / f"{key}.h"
    if header.with_suffix(".h.gch").exists():
        return ("-include", str(header))
    with _guard:
        _counts[key] += 1
        start = _counts[key] == _BUILDS_BEFORE
    if start:
        threading.Thread(target=_make, args=(cxx, compile_flags, header), daemon=True).start()
    return ()


def _make(cxx: str, compile_flags: tuple[str, ...], header: Path) -> None:
    try:
        with cache.lock(header.with_suffix(".lock")):
            if not header.with_suffix(".h.gch").exists():
                _compile(cxx, compile_flags, header)
    except (BuildError, OSError) as error:
        # Only builds' speed depends on it, and a build that fails says so itself.
        log.info("PyTorch's headers are not precompiled: %s", error)


def _compile(cxx: str, compile_flags: tuple[str, ...], header: Path) -> None:
    header.write_text(f"#include <{HEADER}>\n")
    command = [cxx, *compile_flags, "-w", *compiler.include_flags(), "-x", "c++-header", str(header)]
    with cache.replacing(header.with_suffix(".h.gch")) as temporary:
        compiler.run([*_LOW_PRIORITY, *command, "-o", str(temporary)], kept=header)
