"""Builds a program's C++ kernels into one extension module, in the background and through the cache.

All kernels of a program go into one library, compiled as few translation units in parallel. The result is found
again by the content of everything that went into it.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import logging
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import torch

from kernelscope import config
from kernelscope.errors import BuildError
from kernelscope.runtime import cache, compiler, cpp_units, precompiled
from kernelscope.runtime import isa as vectors
from kernelscope.runtime.cpp_units import CppSource
from kernelscope.runtime.native_module import NATIVE, load_extension

log = logging.getLogger("kernelscope.build")

__all__ = ["CppSource", "KernelLibrary", "PendingLibrary", "start_build"]

KernelLibrary = ModuleType
"""A loaded library: one function per kernel, by its name, with one argument per C parameter."""

_BINDING_HEADER = NATIVE / "kernel_binding.h"
_LIGHT_FLAGS = ("-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden")
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
    def place(self) -> str:
        return f"kernels/{self.key[:2]}/{self.module}{importlib.machinery.EXTENSION_SUFFIXES[0]}"


class PendingLibrary:
    """A library that is being built, or was."""

    def __init__(self, recipe: _Recipe) -> None:
        self._recipe = recipe
        self._lock = threading.Lock()
        self._loaded: KernelLibrary | None = None
        self._path: Future[Path] | None = None

    def load(self) -> KernelLibrary:
        """The library; waits for its build.

        Raises:
            BuildError: the build failed.
        """
        if self._loaded is None:
            path = self._wait(self.start())
            with self._lock:
                if self._loaded is None:
                    self._loaded = _load(self._recipe.module, path)
        return self._loaded

    def start(self) -> Future[Path]:
        """Starts the build in a thread, if it was not started or failed; the future file."""
        with self._lock:
            if self._path is None or (self._path.done() and self._path.exception() is not None):
                self._path = Future()
                threading.Thread(
                    target=_run, args=(self._recipe, self._path), name="kernelscope-build", daemon=True
                ).start()
            return self._path

    def after_fork(self) -> None:
        """In a forked child: forgets a thread that exists in the parent only."""
        self._lock = threading.Lock()
        if self._path is not None and not self._path.done():
            self._path = None

    def _wait(self, path: Future[Path]) -> Path:
        try:
            return path.result(timeout=_SHOW_PROGRESS_AFTER_S)
        except FutureTimeoutError:
            with _progress(self._recipe):
                return path.result()


def _run(recipe: _Recipe, path: Future[Path]) -> None:
    try:
        path.set_result(cache.built(recipe.settings.cache_dir, recipe.place, lambda target: _compile(recipe, target)))
    except BaseException as error:
        path.set_exception(error)


_pending: dict[tuple[str, Path], PendingLibrary] = {}
_pending_lock = threading.Lock()


def _after_fork() -> None:
    global _pending_lock
    _pending_lock = threading.Lock()
    for pending in _pending.values():
        pending.after_fork()


os.register_at_fork(after_in_child=_after_fork)


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
        BuildError: there is no compiler, or this CPU cannot run the kernels.
    """
    vectors.require(isa, compile_flags)
    settings = config.current()
    found = compiler.find_compiler(settings.cxx)
    parts = [
        *cpp_units.identity(sources),
        *(isa, *compile_flags, "--", *link_flags, "--", *_LIGHT_FLAGS),
        *(compiler.identity(found), torch.__version__, sys.implementation.cache_tag or "", sys.platform),
        *((vectors.fingerprint(),) if "-march=native" in compile_flags else ()),
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
        pending = _pending.setdefault((recipe.key, settings.cache_dir), PendingLibrary(recipe))
    pending.start()
    return pending


def _compile(recipe: _Recipe, library: Path) -> None:
    """Compiles and links; a failed build keeps its sources until the next one, a finished one does not."""
    for leftover in library.parent.glob(f"{recipe.key[:8]}-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=f"{recipe.key[:8]}-", dir=library.parent))
    flags = (*recipe.compile_flags, "-w", f"-ffile-prefix-map={work}/=", *compiler.include_flags())
    if all(precompiled.HEADER in source.text for source in recipe.sources):
        flags += precompiled.usable(recipe.compiler, recipe.compile_flags, recipe.settings)
    groups = cpp_units.groups(recipe.sources, most=recipe.settings.compile_jobs)
    with ThreadPoolExecutor(max_workers=max(1, recipe.settings.compile_jobs)) as pool:
        units = [
            pool.submit(_compile_group, recipe, work / f"kernels_{index}.cpp", group, flags)
            for index, group in enumerate(groups)
        ]
        light = (*_LIGHT_FLAGS, f"-I{NATIVE}", compiler.python_include())
        binding = cpp_units.binding(recipe.sources, recipe.module)
        objects = [_compile_text(recipe, work / "binding.cpp", binding, light)]
        objects += [path for unit in units for path in unit.result()]
    link = [recipe.compiler, "-shared", *map(str, objects), "-o", str(library), *compiler.library_flags()]
    openmp = [flag for flag in recipe.compile_flags if flag == "-fopenmp"]
    with compiler.turn(recipe.settings.compile_jobs):
        compiler.run([*link, *openmp, *recipe.link_flags], kept=work)
    shutil.rmtree(work, ignore_errors=True)


def _compile_group(recipe: _Recipe, source: Path, group: Sequence[CppSource], flags: Sequence[str]) -> list[Path]:
    """Compiles kernels as one unit, or each alone if together they fail; the object files."""
    try:
        return [_compile_text(recipe, source, cpp_units.unit(group), flags)]
    except BuildError:
        if len(group) == 1:
            raise
    log.info("%d kernels do not compile together; each is compiled alone", len(group))
    alone = [(source.with_name(f"{source.stem}_{index}.cpp"), kernel) for index, kernel in enumerate(group)]
    return [_compile_text(recipe, path, cpp_units.unit([kernel]), flags) for path, kernel in alone]


def _compile_text(recipe: _Recipe, source: Path, text: str, flags: Sequence[str]) -> Path:
    target = source.with_suffix(".o")
    source.write_text(text)
    with compiler.turn(recipe.settings.compile_jobs):
        compiler.run([recipe.compiler, *flags, "-c", str(source), "-o", str(target)], kept=source)
    return target


def _load(name: str, path: Path) -> KernelLibrary:
    module = load_extension(name, path)
    set_pointer: Callable[[int], None] = module._set_data_pointer
    set_pointer(int(torch._C._dynamo.guards._torchinductor_pyobject_tensor_data_ptr))  # type: ignore[attr-defined]
    return module


@contextlib.contextmanager
def _progress(recipe: _Recipe) -> Iterator[None]:
    """Shows on standard error that a build goes on: a line that goes away on a terminal, else one that stays."""
    from rich.console import Console

    console = Console(stderr=True)
    message = f"kernelscope: building {len(recipe.sources)} kernels"
    if recipe.settings.progress == "off" or (recipe.settings.progress == "auto" and not console.is_terminal):
        yield
    elif console.is_terminal:
        with console.status(message):
            yield
    else:
        console.print(message)
        yield
