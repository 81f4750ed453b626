"""Loads a generated module: unpacks its payload, starts its kernels' build, and runs its text.

What PyTorch caches and loads again is a few lines of Python around a payload: the generated source, the kernels'
text, and the program itself. Nothing else is needed, so a warm start in another process finds everything.
"""

from __future__ import annotations

import base64
import json
import linecache
import textwrap
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kernelscope.errors import ProgramFileError
from kernelscope.runtime.cpp_build import CppSource, PendingLibrary, start_build
from kernelscope.runtime.switch import Loaded, register

_WIDTH = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSet:
    """The C++ kernels of a program and how they are compiled."""

    sources: tuple[CppSource, ...] = ()
    isa: str = ""
    compile_flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()

    def start(self) -> PendingLibrary | None:
        """Starts the build (or finds it in the cache) without waiting; None without kernels."""
        if not self.sources:
            return None
        return start_build(self.sources, isa=self.isa, compile_flags=self.compile_flags, link_flags=self.link_flags)


def pack(kernels: KernelSet, **texts: str) -> str:
    """Kernels and named texts as one printable string."""
    document = {"kernels": asdict(kernels), "texts": texts}
    data = zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 6)
    return "\n".join(textwrap.wrap(base64.b64encode(data).decode(), _WIDTH))


def unpack(payload: str) -> tuple[KernelSet, Mapping[str, str]]:
    """What ``pack`` packed.

    Raises:
        ProgramFileError: the payload is damaged.
    """
    try:
        document = json.loads(zlib.decompress(base64.b64decode(payload)))
        fields = document["kernels"]
        sources = tuple(CppSource(**{**source, "ctypes": tuple(source["ctypes"])}) for source in fields["sources"])
        flags = {name: tuple(fields[name]) for name in ("compile_flags", "link_flags")}
        return KernelSet(sources=sources, isa=fields["isa"], **flags), document["texts"]
    except (ValueError, KeyError, TypeError, zlib.error) as error:
        raise ProgramFileError(
            f"the payload of a generated module is damaged ({error})",
            hint="delete the compiled module from PyTorch's cache directory and compile again",
        ) from error


def boot(namespace: dict[str, Any], payload: str) -> None:
    """Makes a module of the Python target: defines ``call`` and everything it uses in ``namespace``."""
    kernels, texts = unpack(payload)
    namespace["PROGRAM_JSON"] = texts.get("program", "")
    install_kernels(namespace, kernels)
    run_source(namespace, texts["source"], texts["name"])
    register(Loaded(target="python", text=lambda: texts["program"], namespace=namespace, kernels=kernels))


def run_source(namespace: dict[str, Any], source: str, name: str) -> None:
    """Runs generated source in ``namespace``; tracebacks and debuggers find its text under ``name``."""
    filename = f"<kernelscope:{name}:{zlib.crc32(source.encode()):08x}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), namespace)


def install_kernels(namespace: dict[str, Any], kernels: KernelSet) -> None:
    """Puts a callable for each kernel into ``namespace``; the first call waits for the build.

    Until then the names hold stand-ins; the stand-in that is called first replaces all of them by the library's
    own functions, so later calls cost nothing extra.
    """
    pending = kernels.start()
    if pending is None:
        return
    names = tuple(source.name for source in kernels.sources)
    for name in names:
        namespace[name] = _stand_in(name, names, pending, namespace)


def _stand_in(
    name: str, names: Sequence[str], pending: PendingLibrary, namespace: dict[str, Any]
) -> Callable[..., Any]:
    def wait_and_call(*args: Any) -> Any:
        library = pending.load()
        namespace.update((other, getattr(library, other)) for other in names)
        return getattr(library, name)(*args)

    return wait_and_call
