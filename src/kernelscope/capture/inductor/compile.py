"""Compiles an FX graph through Inductor with the recorder in place of its wrapper."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch._functorch.config
from torch._inductor import config
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.custom_graph_pass import CustomGraphPass

from kernelscope.capture.inductor import session
from kernelscope.capture.inductor.versions import check_version, no_vector_probes
from kernelscope.errors import OptionError, UnsupportedError
from kernelscope.ir.program import Program


class _CacheKey(CustomGraphPass):  # type: ignore[misc]
    """A graph pass that puts our version and options into PyTorch's cache keys, and runs the user's own passes."""

    def __init__(self, key: str, passes: Any) -> None:
        self.key = key
        self.passes = passes if isinstance(passes, (list, tuple)) else () if passes is None else (passes,)

    def __call__(self, graph: torch.fx.Graph) -> None:
        """Runs the user's passes; leaves the graph as it is otherwise."""
        for step in self.passes:
            step(graph)

    def uuid(self) -> str | None:
        """What distinguishes our compiled artifacts; None, so that nothing is cached, if a user's pass has no name."""
        names = [step.uuid() if hasattr(step, "uuid") else None for step in self.passes]
        if not all(names):
            return None
        return hashlib.sha256("/".join([self.key, *map(str, names)]).encode()).hexdigest()


def inductor_settings(options: Mapping[str, Any], mode: str | None, dynamic: bool | None) -> dict[str, Any]:
    """Inductor's settings for the user's mode and options.

    Raises:
        OptionError: Inductor has no setting of that name.
    """
    known = config.get_config_copy() if hasattr(config, "get_config_copy") else config.shallow_copy_dict()
    settings = dict(torch._inductor.list_mode_options(mode, dynamic)) if mode and mode != "default" else {}
    for name, value in options.items():
        if name.replace("-", "_") not in known:
            raise OptionError(
                f"unknown option {name!r}",
                hint="options are Kernelscope's own (target, on_unsupported), those of kernelscope.scope (print, "
                "check, kernels...), and Inductor's settings (torch._inductor.list_options())",
            )
        settings[name.replace("-", "_")] = value
    return settings


def compile_graph(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    *,
    settings: Mapping[str, Any],
    key: str,
    finish: Callable[[Program, int], str],
    on_unsupported: Callable[[UnsupportedError], bool],
) -> Callable[..., Any]:
    """Compiles ``graph``, each resulting inner graph through ``finish``.

    Args:
        graph: A graph from Dynamo.
        inputs: Its example inputs.
        settings: Inductor settings for this compile.
        key: What else the result depends on (version, target, options).
        finish: Gives the text of a Python module for a captured program and the nanoseconds its capture took.
        on_unsupported: Asked when the capture meets something it cannot express; True compiles that graph by
            plain Inductor instead.

    Raises:
        UnsupportedError: the capture met something the IR cannot express.
    """
    check_version()
    state = session.Session(finish=finish)

    @functools.wraps(compile_fx_inner)
    def inner(*args: Any, **kwargs: Any) -> Any:
        try:
            with no_vector_probes(), config.patch(_patches(key)), session.recording(state):
                return compile_fx_inner(*args, **kwargs)
        except Exception as error:
            cause = _unsupported(error)
            if cause is None:
                raise
            if not on_unsupported(cause):
                raise cause from error
            return compile_fx_inner(*args, **kwargs)

    with no_vector_probes(), config.patch(_patches(key)):
        compiled: Callable[..., Any] = compile_fx(graph, inputs, inner_compile=inner, config_patches=dict(settings))
    return compiled


@contextlib.contextmanager
def uncached() -> Iterator[None]:
    """Within, nothing is taken from PyTorch's caches, and forward and backward are compiled together."""
    functorch = {"enable_autograd_cache": False, "force_non_lazy_backward_lowering": True}
    with (
        config.patch({"fx_graph_cache": False, "fx_graph_remote_cache": False}),
        torch._functorch.config.patch(functorch),
    ):
        yield


def _patches(key: str) -> dict[str, Any]:
    given = config.post_grad_custom_post_pass
    ours = given if isinstance(given, _CacheKey) and given.key == key else _CacheKey(key, given)
    return {
        "post_grad_custom_post_pass": ours,
        "graph_partition": False,
        "cpp_wrapper": False,
        "memory_planning": False,
    }


def _unsupported(error: BaseException | None) -> UnsupportedError | None:
    while error is not None:
        if isinstance(error, UnsupportedError):
            return error
        error = error.__cause__ or error.__context__
    return None
