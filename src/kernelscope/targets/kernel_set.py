"""A program's kernels and constants in the form the runtime takes."""

from __future__ import annotations

import torch

from kernelscope.errors import ProgramFileError
from kernelscope.ir.kernels import CppKernel
from kernelscope.ir.program import Constant, Program
from kernelscope.runtime.boot import KernelSet
from kernelscope.runtime.cpp_build import CppSource


def cpp_kernels(program: Program) -> KernelSet:
    """The C++ kernels of a program."""
    kernels = [kernel for kernel in program.kernels() if isinstance(kernel, CppKernel)]
    build = program.cpp_build
    if not kernels or build is None:
        return KernelSet()
    return KernelSet(
        sources=tuple(
            CppSource(
                name=kernel.name,
                text=kernel.source,
                entry=kernel.entry,
                ctypes=tuple(param.ctype for param in kernel.params),
            )
            for kernel in kernels
        ),
        isa=build.isa,
        compile_flags=build.compile_flags,
        link_flags=build.link_flags,
    )


def constant_tensors(program: Program) -> dict[str, torch.Tensor]:
    """The constants of a program as tensors; constants over one storage share it.

    Raises:
        ProgramFileError: the program was saved without its constants' bytes.
    """
    storages: dict[str, torch.UntypedStorage] = {}
    for storage in program.storages:
        if storage.data is None:
            raise ProgramFileError(f"storage {storage.key} of program {program.name} was kept without its bytes")
        buffer = torch.frombuffer(bytearray(storage.data or b"\0"), dtype=torch.uint8)
        storages[storage.key] = buffer.untyped_storage()
    return {constant.name: _tensor(constant, storages[constant.storage]) for constant in program.constants}


def _tensor(constant: Constant, storage: torch.UntypedStorage) -> torch.Tensor:
    layout = constant.type
    tensor = torch.empty(0, dtype=layout.dtype)
    tensor.set_(storage, layout.offset, layout.size, layout.stride)  # type: ignore[call-overload]
    return tensor.to(layout.device)
