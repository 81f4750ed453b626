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
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType

import torch

from kernelscope import config
from kernelscope.errors import BuildError
from kernelscope.runtime import cache, compiler

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


class _HostCalls:
    """The host-call module of this process: not started, being built, there, or not to be had."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._future: Future[ModuleType] | None = None
        self._answer: tuple[ModuleType | None] | None = None

    def start(self) -> Future[ModuleType]:
        with self._lock:
            if self._future is None:
                self._future = Future()
                arguments = (config.current(), self._future)
                threading.Thread(target=_run, args=arguments, name="kernelscope-hostcalls", daemon=True).start()
            return self._future

    def wait(self) -> ModuleType | None:
        if self._answer is None:
            try:
                self._answer = (self.start().result(),)
            except BuildError as error:
                log.warning("host calls stay in Python: %s", error)
                self._answer = (None,)
        return self._answer[0]

    def after_fork(self) -> None:
        """In a forked child: forgets a thread that exists in the parent only."""
        self._lock = threading.Lock()
        if self._future is not None and not self._future.done():
            self._future = None


_host_calls = _HostCalls()
os.register_at_fork(after_in_child=_host_calls.after_fork)


def start_hostcalls() -> Future[ModuleType]:
    """Starts building the host-call module, once per process; does not wait."""
    return _host_calls.start()


def hostcalls() -> ModuleType | None:
    """The host-call module; None where it cannot be built, and the Python functions do its work."""
    return _host_calls.wait()


def _run(settings: config.Config, future: Future[ModuleType]) -> None:
    try:
        future.set_result(_build(settings))
    except BaseException as error:
        future.set_exception(error)


def _build(settings: config.Config) -> ModuleType:
    offset = tensor_offset()
    if offset is None:
        raise BuildError("this version of PyTorch keeps tensors where the native calls do not look")
    found = compiler.find_compiler(settings.cxx)
    source = NATIVE / "hostcalls.cpp"
    flags = ("-std=c++17", "-O2", "-fPIC", "-shared", "-w", f"-DKERNELSCOPE_TENSOR_OFFSET={offset}")
    parts = (
        source.read_text(),
        *flags,
        compiler.identity(found),
        torch.__version__,
        sys.implementation.cache_tag or "",
    )
    place = f"native/hostcalls_{cache.digest(parts)}{importlib.machinery.EXTENSION_SUFFIXES[0]}"

    def make(library: Path) -> None:
        libraries = (*compiler.library_flags(), "-ltorch_cpu", "-ltorch_python")
        paths = (*compiler.include_flags(), compiler.python_include(), *libraries)
        with compiler.turn(settings.compile_jobs):
            compiler.run([found, *flags, str(source), "-o", str(library), *paths], kept=source)

    return load_extension("kernelscope_hostcalls", cache.built(settings.cache_dir, place, make))


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
