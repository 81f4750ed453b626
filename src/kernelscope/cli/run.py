"""Run an unmodified script whose torch.compile goes through Kernelscope.

The script sees its own arguments and runs as __main__. Calls of torch.compile that use the default backend use
Kernelscope instead; mode, options, dynamic and fullgraph stay as they are. Other backends are left alone.

Examples:
  kernelscope run train.py --epochs 1
  kernelscope run --target interpreter infer.py
  kernelscope run --on-unsupported inductor train.py
"""

from __future__ import annotations

import argparse
import functools
import runpy
import sys
from pathlib import Path
from typing import Any

from kernelscope.errors import KernelscopeError


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("--target", default=None, help="the target of compiled graphs (python, interpreter)")
    parser.add_argument(
        "--on-unsupported",
        choices=("error", "inductor"),
        default=None,
        help="what a graph does that Kernelscope cannot express: fail (default), or go through plain Inductor",
    )
    parser.add_argument("--quiet", action="store_true", help="no summary at the end")
    parser.add_argument("script", metavar="SCRIPT", help="the Python script")
    parser.add_argument("args", nargs=argparse.REMAINDER, metavar="ARGS", help="its arguments")


def execute(options: argparse.Namespace) -> int:
    """Runs the script; its exit code is ours."""
    from kernelscope import backend, config

    if not Path(options.script).is_file():
        raise KernelscopeError(f"there is no script {options.script}", hint="give the path of a Python script")
    changes = {
        name: value
        for name, value in (("target", options.target), ("on_unsupported", options.on_unsupported))
        if value is not None
    }
    done: list[backend.Compiled] = []
    sys.argv = [options.script, *options.args]
    sys.path.insert(0, str(Path(options.script).resolve().parent))
    with config.override(**changes), backend.observing(done.append), _CompilingThroughUs():
        try:
            runpy.run_path(options.script, run_name="__main__")
        finally:
            if not options.quiet:
                print(_summary(done), file=sys.stderr)
    return 0


def _summary(done: list[Any]) -> str:
    if not done:
        return "kernelscope: nothing was compiled"
    kernels = sum(len(compiled.program.kernels()) for compiled in done)
    ours_ms = sum(compiled.passes_ns + compiled.emit_ns for compiled in done) / 1e6
    return (
        f"kernelscope: {len(done)} programs ({kernels} kernels) through target {done[-1].target}; "
        f"passes and emission took {ours_ms:.0f} ms"
    )


class _CompilingThroughUs:
    """Within, ``torch.compile`` with the default backend means ours."""

    def __enter__(self) -> None:
        import torch

        self.original = original = torch.compile

        @functools.wraps(original)
        def compile_through_us(model: Any = None, **kwargs: Any) -> Any:
            if kwargs.get("backend", "inductor") == "inductor":
                kwargs["backend"] = "kernelscope"
            return original(model, **kwargs)

        torch.compile = compile_through_us

    def __exit__(self, *error: object) -> None:
        import torch

        torch.compile = self.original
