"""Builds a program's C++ kernels into one extension module, in the background and through the cache.

All kernels of a program go into one library, compiled as few translation units in parallel. The result is found
again by the content of everything that went into it.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kernelscope import config
from kernelscope.runtime import cache, compiler, precompiled
from kernelscope.runtime.cpp_units import CppSource, binding, units
from kernelscope.runtime.native_module import NATIVE, load_extension

__all__ = ["CppSource", "KernelLibrary", "PendingLibrary", "start_build"]

KernelLibrary = ModuleType
"""A loaded library: one function per kernel, by its name, with one argument per C parameter."""

_BINDING_HEADER = NATIVE / "kernel_binding.h"
_SHOW_PROGRESS_AFTER_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recipe:
    """Everything that one build depends on."""

    sources: tuple[CppSource, ...]
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]
    settings: config.Config
    compiler: str
    key: str

    @property
    def module(self) -> str:
        return f"kernelscope_{self.key}"

    @property
    def file_name(self) -> str:
        return f"{self.module}{importlib.machinery.EXTENSION_SUFFIXES[0]}"


class PendingLibrary:
    """A library that is being built, or was."""

    def __init__(self, recipe: _Recipe) -> None:
        self._recipe = recipe
        self._lock = threading.Lock()
        self._loaded: KernelLibrary | None = None
        self._path: Future[Path] = Future()

    def load(self) -> KernelLibrary:
        """The library; waits for its build.

        Raises:
            BuildError: the build failed.
        """
        if self._loaded is None:
            path = self._wait()
            with self._lock:
                if self._loaded is None:
                    self._loaded = _load(self._recipe.module, path)
        return self._loaded

    def _wait(self) -> Path:
        try:
            return self._path.result(timeout=_SHOW_PROGRESS_AFTER_S)
        except FutureTimeoutError:
            with _progress(self._recipe):
                return self._path.result()

    def _run(self) -> None:
        try:
            self._path.set_result(_build(self._recipe))
        except BaseException as error:
            self._path.set_exception(error)


_pending: dict[tuple[str, Path], PendingLibrary] = {}
_pending_lock = threading.Lock()


def start_build(
    sources: Sequence[CppSource], *, isa: str, compile_flags: Sequence[str], link_flags: Sequence[str]
) -> PendingLibrary:
    """Starts building kernels, or finds them in the cache; does not wait.

    Args:
        sources: The kernels.
        isa: The vector instruction set that their text was written for.
        compile_flags: The compiler's flags, without paths.
        link_flags: The linker's flags, without paths.

    Raises:
        BuildError: there is no compiler.
    """
    settings = config.current()
    found = compiler.find_compiler(settings.cxx)
    parts = [
        *(text for source in sources for text in (source.name, source.text, source.entry, *source.ctypes)),
        *(isa, *compile_flags, "--", *link_flags),
        *(compiler.identity(found), torch.__version__, sys.implementation.cache_tag or "", sys.platform),
        _BINDING_HEADER.read_text(),
    ]
    recipe = _Recipe(
        sources=tuple(sources),
        compile_flags=tuple(flag for flag in compile_flags if flag != "-shared"),
        link_flags=tuple(link_flags),
        settings=settings,
        compiler=found,
        key=cache.digest(parts),
    )
    with _pending_lock:
        pending = _pending.get((recipe.key, settings.cache_dir))
        if pending is None:
            pending = _pending[recipe.key, settings.cache_dir] = PendingLibrary(recipe)
            threading.Thread(target=pending._run, name="kernelscope-build", daemon=True).start()
    return pending


def _build(recipe: _Recipe) -> Path:
    root = cache.directory(recipe.settings.cache_dir) / "kernels" / recipe.key[:2]
    root.mkdir(parents=True, exist_ok=True)
    library = root / recipe.file_name
    if library.exists():
        return library
    with cache.lock(root / f"{recipe.key}.lock"):
        if not library.exists():
            _compile(recipe, library)
    return library


def _compile(recipe: _Recipe, library: Path) -> None:
    """Compiles and links; a failed build keeps its sources, a finished one does not."""
    work = Path(tempfile.mkdtemp(prefix=f"{recipe.key[:8]}-", dir=library.parent))
    header = precompiled.usable(recipe.compiler, recipe.compile_flags, recipe.settings)
    flags = (*recipe.compile_flags, "-w", f"-ffile-prefix-map={work}/=", *header, *compiler.include_flags())
    commands: list[tuple[list[str], Path, Path]] = []
    for index, text in enumerate(units(recipe.sources, most=recipe.settings.compile_jobs)):
        source, target = work / f"kernels_{index}.cpp", work / f"kernels_{index}.o"
        source.write_text(text)
        commands.append(([recipe.compiler, *flags, "-c", str(source), "-o", str(target)], source, target))
    source, target = work / "binding.cpp", work / "binding.o"
    source.write_text(binding(recipe.sources, recipe.module))
    light = ("-std=c++17", "-O1", "-fPIC", f"-I{NATIVE}", compiler.python_include())
    commands.append(([recipe.compiler, *light, "-c", str(source), "-o", str(target)], source, target))
    with ThreadPoolExecutor(max_workers=max(1, recipe.settings.compile_jobs)) as pool:
        list(pool.map(lambda job: compiler.run(job[0], kept=job[1]), commands))
    objects = [str(target) for _, _, target in commands]
    finished = work / recipe.file_name
    link = [recipe.compiler, "-shared", *objects, "-o", str(finished), *compiler.library_flags()]
    openmp = [flag for flag in recipe.compile_flags if flag == "-fopenmp"]
    compiler.run([*link, *openmp, *recipe.link_flags], kept=source)
    os.replace(finished, library)
    for leftover in work.iterdir():
        leftover.unlink()
    work.rmdir()


def _load(name: str, path: Path) -> KernelLibrary:
    module = load_extension(name, path)
    set_pointer: Callable[[int], None] = module._set_data_pointer
    set_pointer(int(torch._C._dynamo.guards._torchinductor_pyobject_tensor_data_ptr))  # type: ignore[attr-defined]
    return module


def _progress(recipe: _Recipe) -> Any:
    from rich.console import Console

    wanted = recipe.settings.progress
    console = Console(stderr=True, quiet=wanted == "off" or (wanted == "auto" and not sys.stderr.isatty()))
    return console.status(f"building {len(recipe.sources)} kernels")
