"""Tensors that a graph holds: layouts over storages, each storage once, with its bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from kernelscope.errors import UnsupportedError
from kernelscope.ir.dataflow import operand_names, reads
from kernelscope.ir.lines import ReturnLine, WrapperLine
from kernelscope.ir.program import Constant, Storage
from kernelscope.ir.values import TensorType


def record(
    tensors: Mapping[str, torch.Tensor], lines: Iterable[WrapperLine]
) -> tuple[tuple[Constant, ...], tuple[Storage, ...]]:
    """The constants that the lines use, and their storages."""
    used = {name for line in lines for name in reads(line)}
    used.update(name for line in lines if isinstance(line, ReturnLine) for name in operand_names(line.values))
    storages: dict[int, Storage] = {}
    constants = []
    for name, tensor in tensors.items():
        if name in used:
            storage = storages.setdefault(tensor.untyped_storage()._cdata, _storage(name, tensor))
            constants.append(Constant(name=name, type=_type(name, tensor), storage=storage.key))
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
    raw: Any = tensor.detach().cpu().untyped_storage()
    data = bytes(raw.tolist()) if raw.nbytes() < 64 else _bytes(raw)
    return Storage(key=hashlib.sha256(data).hexdigest()[:16], nbytes=len(data), data=data)


def _bytes(raw: torch.UntypedStorage) -> bytes:
    view = torch.empty(0, dtype=torch.uint8).set_(raw)  # type: ignore[call-overload]
    return bytes(view.numpy().tobytes())
