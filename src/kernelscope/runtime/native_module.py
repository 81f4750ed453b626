"""The native parts of the runtime: shipped as source, built on first use into the cache, in the background."""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import logging
import os
import re
import sys
import tempfile
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from types import ModuleType

import torch

from kernelscope import config
from kernelscope.errors import BuildError
from kernelscope.runtime import cache, compiler

log = logging.getLogger("kernelscope.build")

NATIVE = Path(__file__).parent / "native"
_TENSOR_MEMBER = re.compile(
    r"struct THPVariable \{\s*PyObject_HEAD;?\s*(?://[^\n]*\s*)*(?P<kind>at::Tensor|c10::MaybeOwned<at::Tensor>) cdata;"
)


@functools.cache
def tensor_offset() -> int | None:
    """Bytes from a tensor's Python object to its ``at::Tensor``, as PyTorch's own header states it.

    None when the header says something that this version does not know.
    """
    header = Path(torch.__file__).parent / "include/torch/csrc/autograd/python_variable.h"
    found = _TENSOR_MEMBER.search(header.read_text()) if header.exists() else None
    if found is None:
        return None
    # c10::MaybeOwned holds a flag before the tensor, padded to the tensor's alignment.
    padding = 8 if found["kind"].startswith("c10::MaybeOwned") else 0
    return int(object.__basicsize__) + padding


@functools.cache
def start_hostcalls() -> Future[ModuleType]:
    """Starts building the host-call module, once per process; does not wait."""
    settings = config.current()
    future: Future[ModuleType] = Future()

    def run() -> None:
        try:
            future.set_result(_hostcalls(settings))
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, name="kernelscope-hostcalls", daemon=True).start()
    return future


@functools.cache
def hostcalls() -> ModuleType | None:
    """The host-call module; None where it cannot be built, and the Python functions do its work."""
    try:
        return start_hostcalls().result()
    except BuildError as error:
        log.warning("host calls stay in Python: %s", error)
        return None


def _hostcalls(settings: config.Config) -> ModuleType:
    offset = tensor_offset()
    if offset is None:
        raise BuildError("PyTorch's header states a tensor layout that this version does not know")
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
    root = cache.directory(settings.cache_dir) / "native"
    root.mkdir(parents=True, exist_ok=True)
    key = cache.digest(parts)
    library = root / f"hostcalls_{key}{importlib.machinery.EXTENSION_SUFFIXES[0]}"
    if not library.exists():
        with cache.lock(root / f"{key}.lock"):
            if not library.exists():
                _compile(found, flags, source, library)
    return load_extension("kernelscope_hostcalls", library)


def _compile(cxx: str, flags: tuple[str, ...], source: Path, library: Path) -> None:
    handle, temporary = tempfile.mkstemp(dir=library.parent, suffix=".so")
    os.close(handle)
    paths = (*compiler.include_flags(), compiler.python_include(), *compiler.library_flags(), "-ltorch_cpu")
    compiler.run([cxx, *flags, str(source), "-o", temporary, *paths], kept=source)
    os.replace(temporary, library)


def load_extension(name: str, path: Path) -> ModuleType:
    """Loads an extension module from a file."""
    loader = importlib.machinery.ExtensionFileLoader(name, str(path))
    spec = importlib.util.spec_from_loader(name, loader)
    if spec is None:
        raise BuildError(f"{path} is not an extension module")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module
