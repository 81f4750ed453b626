"""The native parts of the runtime: shipped as source, built on first use into the cache, in the background."""

from __future__ import annotations

import ctypes
import functools
import importlib.machinery
import importlib.util
import logging
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType

import torch

from kernelscope import config
from kernelscope.errors import BuildError
from kernelscope.runtime import cache, compiler, isa

log = logging.getLogger("kernelscope.build")

NATIVE = Path(__file__).parent / "native"
_WORD_BYTES = ctypes.sizeof(ctypes.c_void_p)
_PROBED_WORDS = 6


@functools.cache
def tensor_offset() -> int | None:
    """Bytes from a tensor's Python object to its ``at::Tensor``.

    An ``at::Tensor`` is one pointer, which PyTorch also tells as ``_cdata``: the place where several tensors have
    theirs. None when there is no such place, as when a version of PyTorch keeps tensors elsewhere.
    """
    tensors = [torch.empty(index) for index in range(3)]
    for offset in range(object.__basicsize__, object.__basicsize__ + _PROBED_WORDS * _WORD_BYTES, _WORD_BYTES):
        if offset + _WORD_BYTES > torch._C.TensorBase.__basicsize__:
            return None
        words = [ctypes.c_void_p.from_address(id(tensor) + offset).value for tensor in tensors]
        if words == [tensor._cdata for tensor in tensors]:
            return offset
    return None


class NativeModule:
    """An extension module of this process: not started, being built, there, or not to be had."""

    def __init__(self, build: Callable[[config.Config], ModuleType], without: str) -> None:
        """``build`` makes it; ``without`` says what happens where it cannot be had."""
        self._build = build
        self._without = without
        self._lock = threading.Lock()
        self._future: Future[ModuleType] | None = None
        self._answer: tuple[ModuleType | None] | None = None
        os.register_at_fork(after_in_child=self._after_fork)

    def start(self) -> Future[ModuleType]:
        """Starts building it, once per process; does not wait."""
        with self._lock:
            if self._future is None:
                self._future = Future()
                arguments = (config.current(), self._future)
                threading.Thread(target=self._run, args=arguments, name="kernelscope-native", daemon=True).start()
            return self._future

    def wait(self) -> ModuleType | None:
        """The module; None where it cannot be built, which is logged once."""
        if self._answer is None:
            try:
                self._answer = (self.start().result(),)
            except BuildError as error:
                log.warning("%s: %s", self._without, error)
                self._answer = (None,)
        return self._answer[0]

    def _run(self, settings: config.Config, future: Future[ModuleType]) -> None:
        try:
            future.set_result(self._build(settings))
        except BaseException as error:
            future.set_exception(error)

    def _after_fork(self) -> None:
        # In a forked child: forgets a thread that exists in the parent only.
        self._lock = threading.Lock()
        if self._future is not None and not self._future.done():
            self._future = None


def _build_hostcalls(settings: config.Config) -> ModuleType:
    return _build("hostcalls", ("-O2", *_tensor_flags()), ("-ltorch_cpu", "-ltorch_python"), settings)


def _build_flight(settings: config.Config) -> ModuleType:
    return _build("flight", ("-O2", *_tensor_flags()), ("-ltorch_cpu",), settings)


def _tensor_flags() -> tuple[str, ...]:
    """Flags of a module that takes a tensor's handle from its Python object."""
    offset = tensor_offset()
    if offset is None:
        raise BuildError("this version of PyTorch keeps tensors where native code does not look")
    return ("-std=c++17", f"-DKERNELSCOPE_TENSOR_OFFSET={offset}")


def _build_observe(settings: config.Config) -> ModuleType:
    # Vector code of this CPU; the moments need no exact order of additions, but NaN and Inf as they are.
    vectors = ("-O3", "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math")
    flags = (*_tensor_flags(), *vectors)
    return _build("observe", flags, ("-ltorch_cpu",), settings, cpu=isa.fingerprint())


def _build(
    name: str, flags: tuple[str, ...], libraries: tuple[str, ...], settings: config.Config, cpu: str = ""
) -> ModuleType:
    """Builds ``native/NAME.cpp``, or finds it in the cache.

    Args:
        name: The source's name.
        flags: The compiler's flags, without paths.
        libraries: What it is linked with.
        settings: The settings in force.
        cpu: What the module is for where it runs on one kind of CPU only.

    Raises:
        BuildError: it cannot be built or loaded.
    """
    found = compiler.find_compiler(settings.cxx)
    source = NATIVE / f"{name}.cpp"
    texts = (path.read_text() for path in sorted((source, *NATIVE.glob("*.h"))))
    parts = (*texts, *flags, cpu, compiler.identity(found), torch.__version__, sys.implementation.cache_tag or "")
    place = f"native/{name}_{cache.digest(parts)}{importlib.machinery.EXTENSION_SUFFIXES[0]}"

    def make(library: Path) -> None:
        paths = (*compiler.include_flags(), compiler.python_include(), *compiler.library_flags(), *libraries)
        command = [found, *flags, "-fPIC", "-shared", "-w", str(source), "-o", str(library), *paths]
        with compiler.turn(settings.compile_jobs):
            compiler.run(command, kept=source)

    return load_extension(f"kernelscope_{name}", cache.built(settings.cache_dir, place, make))


_host_calls = NativeModule(_build_hostcalls, "host calls stay in Python")
_flight = NativeModule(_build_flight, "there is no flight recorder")
_observe = NativeModule(_build_observe, "values are looked at by PyTorch's operators, which is slow")


def start_hostcalls() -> Future[ModuleType]:
    """Starts building the host-call module, once per process; does not wait."""
    return _host_calls.start()


def hostcalls() -> ModuleType | None:
    """The host-call module; None where it cannot be built, and the Python functions do its work."""
    return _host_calls.wait()


def start_observe() -> Future[ModuleType]:
    """Starts building the module that looks at values, once per process; does not wait."""
    return _observe.start()


def observe() -> ModuleType | None:
    """The module that looks at values; None where it cannot be built, and PyTorch's operators do its work."""
    return _observe.wait()


def flight() -> ModuleType | None:
    """The flight recorder's module; None where it cannot be built."""
    return _flight.wait()


def load_extension(name: str, path: Path) -> ModuleType:
    """Loads an extension module from a file.

    Raises:
        BuildError: the file cannot be loaded.
    """
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_loader(name, loader)
    if spec is None:
        raise BuildError(f"{path} is not an extension module")
    try:
        module = importlib.util.module_from_spec(spec)
    except ImportError as error:
        raise BuildError(
            f"cannot load {path}: {error}",
            where=str(path),
            hint="if its file system forbids execution, set KERNELSCOPE_CACHE_DIR elsewhere; else delete the file",
        ) from error
    loader.exec_module(module)
    return module
