"""Compile a small transformer and look at its host program, its kernels and its memory plan.

Examples:
  kernelscope demo
"""

from __future__ import annotations

import argparse
import time

from kernelscope.cli.output import progress

_SHOWN_LINES = 14


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("--lines", type=int, default=_SHOWN_LINES, help="how many lines of the program to show")


def execute(options: argparse.Namespace) -> int:
    """Runs the tour."""
    import torch

    from kernelscope import api

    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, activation="gelu")
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    inputs = torch.randn(2, 16, 64)
    print("A transformer of two layers, width 64, on a batch of 2 x 16:\n")
    start = time.perf_counter()
    with progress("compiling"), torch.no_grad():
        compiled = torch.compile(model, backend="kernelscope", dynamic=False)
        error = (compiled(inputs) - model(inputs)).abs().max().item()
        program = api.capture(model, inputs)
    print(f"compiled in {time.perf_counter() - start:.1f} s; largest difference from eager: {error:.2e}\n")
    _show_program(str(program), options.lines)
    _show_kernels(program)
    _show_memory(program)
    print("\nNext:\n  kernelscope show MODEL.py --target python\n  kernelscope run SCRIPT.py\n  kernelscope doctor")
    return 0 if error < 1e-4 else 1


def _show_program(text: str, shown: int) -> None:
    lines = text.split("\n")
    first = next(index for index, line in enumerate(lines) if line.startswith("func "))
    print("Its host program (the first lines):\n")
    print(f"  {lines[first][:96]}...")
    for line in lines[first + 1 : first + 1 + shown]:
        print(f"  {line[:110]}")


def _show_kernels(program: object) -> None:
    from kernelscope.api import Program

    assert isinstance(program, Program)
    print("\nIts kernels:\n")
    for kernel in program.kernels():
        fused = ", ".join(getattr(kernel, "fused_ops", ()))
        print(f"  {kernel.name:<58} {fused[:60]}")


def _show_memory(program: object) -> None:
    from kernelscope.api import Program, memory_report

    assert isinstance(program, Program)
    report = memory_report(program).main
    print(
        f"\nIts memory plan: {report.allocations} allocations and {reuses(report.reuses)} of a freed storage; peak "
        f"{report.peak_bytes:,} bytes, at least {report.max_live_bytes:,} are needed.\nHeld at the peak:\n"
    )
    for name, nbytes in report.peak_names[:5]:
        print(f"  {name:<12} {nbytes:>10,} bytes")


def reuses(count: int) -> str:
    """``count`` reuses, in words."""
    return f"{count} reuse{'' if count == 1 else 's'}"
