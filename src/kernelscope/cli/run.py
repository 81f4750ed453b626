"""Run an unmodified script whose torch.compile goes through Kernelscope.

The script sees its own arguments and runs as __main__. Calls of torch.compile (and Module.compile) that use the
default backend use Kernelscope instead; mode, options, dynamic and fullgraph stay as they are. Other backends are left
alone, and so are Python processes that the script starts. The exit code is the script's own.

Examples:
  kernelscope run train.py --epochs 1
  kernelscope run --target interpreter infer.py
  kernelscope run --on-unsupported inductor train.py
  kernelscope run --print names infer.py
  kernelscope run --print stats --kernels 'cpp_fused_*' --steps 0 infer.py
  kernelscope run --check nan,inf train.py
  kernelscope run --flight run/ train.py ; kernelscope crash run/
  kernelscope run --save tensors/ --kernels aten.mm --save-limit 2GiB infer.py
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelscope.cli import watching
from kernelscope.cli.failures import (
    EXIT_FAULT,
    EXIT_INTERRUPTED,
    error_of_ours,
    is_our_bug,
    last_place,
    users_frames,
)
from kernelscope.cli.output import plural, progress
from kernelscope.errors import KernelscopeError

if TYPE_CHECKING:
    from kernelscope.backend import Compiled


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("--target", default=None, help="the target of compiled graphs (python, interpreter)")
    parser.add_argument(
        "--on-unsupported",
        choices=("error", "inductor"),
        default=None,
        help="what a graph does that Kernelscope cannot express: fail (default), or go through plain Inductor",
    )
    watching.arguments(parser)
    parser.add_argument("--quiet", action="store_true", help="no summary at the end")
    parser.add_argument("script", metavar="SCRIPT", help="the Python script")
    parser.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS", help="its arguments")


def execute(options: argparse.Namespace) -> int:
    """Runs the script; its exit code is ours.

    Raises:
        KernelscopeError: there is no script, or an error of ours went through it.
    """
    if not Path(options.script).is_file():
        raise KernelscopeError(f"there is no script {options.script}", hint="give the path of a Python script")
    changes = {
        name: value
        for name, value in (("target", options.target), ("on_unsupported", options.on_unsupported))
        if value is not None
    }
    with progress("loading PyTorch"):
        through = _ThroughUs(changes)
    try:
        with (
            _arguments_of(options.script, options.args),
            through.patched(),
            watching.stack_written(options),
            watching.scope_of(options),
        ):
            runpy.run_path(options.script, run_name="__main__")
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # whatever the script raised is shown as it is
        return _failed(error, options.script)
    finally:
        if not options.quiet:
            print(through.summary(), file=sys.stderr)
    return 0


def _failed(error: BaseException, script: str) -> int:
    """What Python does about an exception that nothing caught; errors and bugs of ours go on to the command line."""
    if is_our_bug(error):
        raise error
    ours = error_of_ours(error)
    if ours is None:
        shown = users_frames(error, script)
        sys.excepthook(type(error), error.with_traceback(shown), shown)
        return EXIT_INTERRUPTED if isinstance(error, KeyboardInterrupt) else EXIT_FAULT
    print(f"kernelscope: the script ended at {last_place(error, script)}", file=sys.stderr)
    raise ours from error


@contextlib.contextmanager
def _arguments_of(script: str, args: list[str]) -> Iterator[None]:
    """Within, ``sys.argv`` and ``sys.path`` are what Python would give the script."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [script, *args]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[:1] = [str(Path(script).resolve().parent)]
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path


class _ThroughUs:
    """A backend of ours with settings of its own, which counts what it compiles.

    Settings and observers hold in a context, and a script's threads start with a fresh one; so each call of the
    backend enters them anew.
    """

    def __init__(self, changes: dict[str, Any]) -> None:
        from kernelscope import backend, config

        with config.override(**changes):
            self.target = config.current().target
        self.graphs = 0
        self.done: list[Compiled] = []

        @functools.wraps(backend.kernelscope_backend)
        def compile_here(graph: Any, example_inputs: Any, **kwargs: Any) -> Callable[..., Any]:
            self.graphs += 1
            with config.override(**changes), backend.observing(self.done.append):
                return backend.kernelscope_backend(graph, example_inputs, **kwargs)

        self.backend = compile_here

    @contextlib.contextmanager
    def patched(self) -> Iterator[None]:
        """Within, ``torch.compile`` with the default backend means this one."""
        import torch

        original = torch.compile

        @functools.wraps(original)
        def compile_through_us(model: Any = None, **kwargs: Any) -> Any:
            if _is_inductor(kwargs.get("backend")):
                kwargs["backend"] = self.backend
            return original(model, **kwargs)

        torch.compile = compile_through_us
        try:
            yield
        finally:
            torch.compile = original

    def summary(self) -> str:
        """One line about what was compiled."""
        if not self.graphs:
            return "kernelscope: nothing was compiled"
        graphs = f"kernelscope: {plural(self.graphs, 'graph')} through target {self.target}"
        if not self.done:
            return f"{graphs}; no program compiled anew: they came from PyTorch's cache or plain Inductor"
        kernels = sum(len(compiled.program.kernels()) for compiled in self.done)
        ours_ms = sum(compiled.passes_ns + compiled.emit_ns for compiled in self.done) / 1e6
        return (
            f"{graphs}; {plural(len(self.done), 'program')} compiled ({plural(kernels, 'kernel')}), "
            f"passes and emission took {ours_ms:.0f} ms"
        )


def _is_inductor(backend: Any) -> bool:
    """Whether that argument of ``torch.compile`` means Inductor, given or by default."""
    import torch

    if backend is None:
        # Newer versions let the user set the default.
        backend = getattr(torch.compiler, "get_default_backend", lambda: "inductor")()
    return isinstance(backend, str) and backend == "inductor"
