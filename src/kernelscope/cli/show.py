"""Show the host program of a model or of a saved program, or the records of a trace.

PROGRAM is a saved program (.json), or a Python file that defines make() -> (model, example inputs). A folder is a
trace, which "kernelscope run --trace" makes.

Examples:
  kernelscope show model.py                      the text form
  kernelscope show model.py --target python      the generated Python
  kernelscope show model.py --summary            lines, kernels, memory
  kernelscope show program.json --memory         the memory plan and who makes its peak
  kernelscope show model.py --summary --json | jq .peak_bytes
  kernelscope show run/ --kernels 'cpp_*'        what those kernels were given and wrote
  kernelscope show run/ --faults                 values with NaN or Inf
  kernelscope show run/ --sql 'SELECT subject, max(max) FROM events GROUP BY subject'
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelscope.cli import trace
from kernelscope.cli.models import load_program
from kernelscope.cli.output import output_arguments, write, write_json

if TYPE_CHECKING:
    from kernelscope.api import Program


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("program", metavar="PROGRAM", help="a saved program, or a file that defines make()")
    parser.add_argument("--target", default="text", help="text (default), or a target: python, interpreter")
    parser.add_argument("--summary", action="store_true", help="a table of what the program has")
    parser.add_argument("--memory", action="store_true", help="the memory plan")
    parser.add_argument("--save", metavar="FILE", help="save the program to a file too")
    trace.arguments(parser)
    output_arguments(parser)


def execute(options: argparse.Namespace) -> int:
    """Shows the program or the trace."""
    if Path(options.program).is_dir():
        return trace.execute(options)
    program = load_program(options.program)
    if options.save:
        program.save(options.save)
    if options.summary or options.memory:
        facts = memory(program) if options.memory else summary(program)
        write_json(facts, options) if options.json else write(_table(facts), options)
        return 0
    text = str(program) if options.target == "text" else program.emit(options.target).source
    write_json({"program": program.name, "target": options.target, "text": text}, options) if options.json else write(
        text, options
    )
    return 0


def summary(program: Program) -> dict[str, Any]:
    """What a program has, in numbers."""
    from kernelscope.api import memory_report

    lines = [line for function in program.all_functions() for line in function.lines]
    kinds = Counter(type(line).__name__ for line in lines)
    report = memory_report(program).main
    return {
        "program": program.name,
        "phase": program.phase,
        "lines": len(lines),
        "functions": len(program.all_functions()),
        "kernels": len(program.kernels()),
        "kernel_calls": kinds["KernelCallLine"],
        "extern_calls": sum(count for kind, count in kinds.items() if kind.startswith("ExternKernel")),
        "allocations": report.allocations,
        "reuses": report.reuses,
        "peak_bytes": report.peak_bytes,
        "max_live_bytes": report.max_live_bytes,
        "line_kinds": dict(sorted(kinds.items())),
    }


def memory(program: Program) -> dict[str, Any]:
    """The memory plan of a program, in numbers."""
    from kernelscope.api import memory_report

    report = memory_report(program).main
    return {
        "program": program.name,
        "peak_bytes": report.peak_bytes,
        "max_live_bytes": report.max_live_bytes,
        "peak_line": report.peak_index,
        "allocations": report.allocations,
        "reuses": report.reuses,
        "held_at_peak": dict(report.peak_names),
    }


def _table(facts: dict[str, Any]) -> str:
    rows = []
    for name, value in facts.items():
        if isinstance(value, dict):
            rows.append(f"{name.replace('_', ' ')}:")
            rows += [f"  {key:<28} {count:>12,}" for key, count in value.items()]
        else:
            rows.append(
                f"{name.replace('_', ' '):<30} {value:>12,}" if isinstance(value, int) else f"{name:<30} {value:>12}"
            )
    return "\n".join(rows)
