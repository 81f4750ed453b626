"""Tensors that a graph holds: layouts over storages, each storage once, with its bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import torch

from kernelscope.errors import UnsupportedError
from kernelscope.ir.dataflow import reads
from kernelscope.ir.lines import WrapperLine
from kernelscope.ir.program import Constant, Storage
from kernelscope.ir.values import TensorType


def record(
    tensors: Mapping[str, torch.Tensor], lines: Iterable[WrapperLine]
) -> tuple[tuple[Constant, ...], tuple[Storage, ...]]:
    """The constants that the lines use, and their storages."""
    used = {name for line in lines for name in reads(line)}
    storages: dict[int, Storage] = {}
    constants = []
    for name, tensor in tensors.items():
        if name in used:
            identity = tensor.untyped_storage()._cdata
            if identity not in storages:
                storages[identity] = _storage(name, tensor)
            constants.append(Constant(name=name, type=_type(name, tensor), storage=storages[identity].key))
    unique = {storage.key: storage for storage in storages.values()}
    return tuple(constants), tuple(unique.values())


def _type(name: str, tensor: torch.Tensor) -> TensorType:
    if tensor.layout is not torch.strided:
        raise UnsupportedError(f"constant {name} has layout {tensor.layout}, which has no form in the wrapper IR")
    return TensorType(
        dtype=tensor.dtype,
        device=tensor.device,
        size=tuple(tensor.shape),
        stride=tuple(tensor.stride()),
        offset=tensor.storage_offset(),
    )


def _storage(name: str, tensor: torch.Tensor) -> Storage:
    if isinstance(tensor, torch._subclasses.FakeTensor):
        raise UnsupportedError(f"constant {name} has no data")
    raw = tensor.detach().cpu().untyped_storage()
    view = torch.empty(0, dtype=torch.uint8).set_(raw)  # type: ignore[call-overload]
    data = bytes(view.numpy().tobytes())
    return Storage(key=hashlib.sha256(data).hexdigest()[:16], nbytes=len(data), data=data)
