"""Runs a model through plain Inductor and through Kernelscope, and compares every bit."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from kernelscope.backend import Compiled, observing
from kernelscope.ir.program import Program


@dataclass
class Run:
    """What one run gave: results (outputs, gradients, changed inputs and buffers) and the programs compiled."""

    results: list[Any]
    programs: list[Program] = field(default_factory=list)
    captured: list[Program] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)


def clone_inputs(inputs: Any) -> Any:
    """Copies of inputs with their strides, aliasing and gradients' wishes."""
    memo: dict[int, torch.UntypedStorage] = {}

    def clone(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        storage = value.untyped_storage()
        copied = memo.setdefault(storage._cdata, storage.clone())
        new = torch.empty(0, dtype=value.dtype)
        new.set_(copied, value.storage_offset(), value.size(), value.stride())
        return new.requires_grad_(value.requires_grad)

    return pytree.tree_map(clone, inputs)


def run(
    make: Callable[[], tuple[Any, tuple[Any, ...], dict[str, Any]]],
    backend: str,
    *,
    options: dict[str, Any] | None = None,
    train: bool = False,
    grad: bool = True,
    dynamic: bool | None = False,
    seed: int = 0,
    more: Callable[[], list[tuple[Any, ...]]] | None = None,
) -> Run:
    """Compiles a model with a backend and runs it; twice where it changes nothing."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, args, kwargs = make()
    args, kwargs = clone_inputs((args, kwargs))
    done: list[Compiled] = []
    compiled = torch.compile(model, backend=backend, dynamic=dynamic, options=options)
    mode = torch.enable_grad() if grad else torch.no_grad()
    with mode, observing(done.append):
        torch.manual_seed(seed)
        outputs = compiled(*args, **kwargs)
        results = list(pytree.tree_leaves(outputs))
        if train:
            loss = sum(leaf.float().mean() for leaf in results if _trains(leaf))
            if isinstance(loss, torch.Tensor):
                loss.backward()
            results += [leaf.grad for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        for extra in more() if more else ():
            results += pytree.tree_leaves(compiled(*clone_inputs(extra)))
    if isinstance(model, torch.nn.Module):
        if train:
            results += [parameter.grad for parameter in model.parameters()]
        results += list(model.buffers())
    results += pytree.tree_leaves((args, kwargs))
    return Run(
        results=results,
        programs=[compiled.program for compiled in done],
        captured=[compiled.captured for compiled in done],
    )


def _trains(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point() and leaf.requires_grad


def same(left: Any, right: Any) -> bool:
    """Whether two results are equal in type, layout and bits."""
    if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
        return type(left) is type(right) and (left == right or repr(left) == repr(right))
    if (left.dtype, left.shape, left.stride()) != (right.dtype, right.shape, right.stride()):
        return False
    return bits(left) == bits(right)


def bits(tensor: torch.Tensor) -> bytes:
    """A tensor's values, bit by bit, in the order of its indices."""
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def differences(expected: Run, found: Run) -> list[str]:
    """What differs between two runs; empty if nothing."""
    if len(expected.results) != len(found.results):
        return [f"{len(expected.results)} results against {len(found.results)}"]
    pairs = enumerate(zip(expected.results, found.results, strict=True))
    return [f"result {index}: {_describe(a)} against {_describe(b)}" for index, (a, b) in pairs if not same(a, b)]


def _describe(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{tuple(value.shape)}{value.stride()} {value.detach().flatten()[:4].tolist()}"
    return repr(value)[:80]


@contextlib.contextmanager
def fresh():
    """Nothing is taken from PyTorch's caches, and settings that a program needs are put back."""
    import torch._functorch.config

    inductor = torch._inductor.config.patch({"fx_graph_cache": False})
    functorch = torch._functorch.config.patch({"enable_autograd_cache": False})
    with inductor, functorch:
        yield


def load_module(path: Path) -> Any:
    """The Python file at ``path`` as a module."""
    spec = importlib.util.spec_from_file_location(f"case_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def case_files() -> list[Path]:
    """The programs of ``tests/cases``, and those of the folder that KERNELSCOPE_CASES names, without repeats."""
    own = sorted((Path(__file__).parent.parent / "cases").glob("*.py"))
    extra = os.environ.get("KERNELSCOPE_CASES")
    known = {path.read_bytes() for path in own}
    return own + [path for path in sorted(Path(extra or ".").glob("[0-9]*.py")) if path.read_bytes() not in known]


@contextlib.contextmanager
def recorded_calls():
    """Gives a list that gets one entry per compiled program: the inputs and results of its first call."""
    from torch._inductor.codecache import PyCodeCache

    calls: list[dict[str, Any]] = []
    original = PyCodeCache.load_by_key_path

    def load(*args: Any, **kwargs: Any) -> Any:
        module = original(*args, **kwargs)
        entry: dict[str, Any] = {}
        calls.append(entry)
        module.call = _recording(module.call, entry)
        return module

    PyCodeCache.load_by_key_path = load
    try:
        yield calls
    finally:
        PyCodeCache.load_by_key_path = original


def _recording(call: Any, entry: dict[str, Any]) -> Any:
    def recorded(args: list[Any]) -> Any:
        first = not entry
        if first:
            entry["inputs"] = [_detached(value) for value in clone_inputs(list(args))]
        results = call(args)
        if first:
            entry["results"] = [_detached(value) for value in clone_inputs(list(results))]
        return results

    return recorded


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value
