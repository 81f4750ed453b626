"""Compile a small transformer and look at its host program, its kernels and its memory plan.

Examples:
  kernelscope demo
  kernelscope demo --lines 40
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernelscope.cli.failures import EXIT_FAULT
from kernelscope.cli.output import plural, progress

if TYPE_CHECKING:
    from kernelscope.api import Program

_SHOWN_LINES = 16
_WIDTH = 110
_TOLERANCE = 1e-4
_CALLS = 50


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("--lines", type=int, default=_SHOWN_LINES, help="how many lines of the program to show")


def execute(options: argparse.Namespace) -> int:
    """Runs the tour; a compiled model that differs from eager is a fault."""
    with progress("loading PyTorch"):
        import torch

        from kernelscope import api
        from kernelscope.cli import demo_model as demo
    model, (x,) = demo.make()
    print(f"A transformer of {demo.LAYERS} layers, width {demo.WIDTH}, on a batch of {demo.BATCH} x {demo.LENGTH}:\n")
    with torch.no_grad():
        compiled = torch.compile(model, backend="kernelscope", dynamic=False)
        start = time.perf_counter()
        with progress("compiling, and building the kernels"):
            result = compiled(x)
        print(f"compiled and run in {time.perf_counter() - start:.1f} s")
        error = (result - model(x)).abs().max().item()
        print(f"largest difference from eager: {error:.1e}{'' if error < _TOLERANCE else ' -- that is too much'}")
        print(f"one call: eager {_call_us(model, x):.0f} us, compiled {_call_us(compiled, x):.0f} us\n")
        with progress("capturing"):
            program = api.capture(model, x)
    _show_lines(program, options.lines)
    _show_kernels(program)
    _show_memory(program)
    print("\nNext:\n  kernelscope show MODEL.py --target python\n  kernelscope run SCRIPT.py\n  kernelscope doctor")
    return 0 if error < _TOLERANCE else EXIT_FAULT


def _call_us(function: Callable[[Any], Any], x: Any) -> float:
    """Microseconds that a call takes: the median of many, after some that do not count."""
    times = []
    for _ in range(_CALLS):
        start = time.perf_counter_ns()
        function(x)
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times[_CALLS // 5 :]) / 1e3


def _show_lines(program: Program, shown: int) -> None:
    from kernelscope.ir.lines import KernelDefinitionLine
    from kernelscope.ir.text import print_line

    main = program.main
    print(f"Its host program has {plural(len(main.inputs), 'input')} and {plural(len(main.lines), 'line')}; in part:\n")
    steps = [line for line in main.lines if not isinstance(line, KernelDefinitionLine)]
    for line in steps[:shown]:
        text = print_line(line)
        print(f"  {text if len(text) <= _WIDTH else f'{text[: _WIDTH - 3]}...'}")
    if len(steps) > shown:
        print(f"  ... and {len(steps) - shown} more (kernelscope demo --lines {len(steps)})")


def _show_kernels(program: Program) -> None:
    print("\nIts kernels, and what is fused in each:\n")
    for kernel in program.kernels():
        fused = ", ".join(name.removeprefix("aten.") for name in getattr(kernel, "fused_ops", ()))
        print(f"  {kernel.name[:60]:<60} {fused[:60]}")


def _show_memory(program: Program) -> None:
    from kernelscope.api import memory_report

    report = memory_report(program).main
    print(
        f"\nIts memory plan: {plural(report.allocations, 'allocation')} and {plural(report.reuses, 'reuse')} of a "
        f"freed storage.\nPeak {report.peak_bytes:,} bytes; {report.max_live_bytes:,} bytes are live at a time, which "
        "no plan can go below.\nHeld at the peak:\n"
    )
    for name, nbytes in report.peak_names[:5]:
        print(f"  {name:<12} {nbytes:>10,} bytes")
