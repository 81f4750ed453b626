"""Show which call a process was in when it died, hung or raised.

DIR is the folder of a flight recorder, which "kernelscope run --flight DIR" or "--trace DIR" fills, or a program with
KERNELSCOPE_FLIGHT=DIR in its environment. The process may be dead, or alive and stuck.

Examples:
  kernelscope run --flight run/ train.py ; kernelscope crash run/
  KERNELSCOPE_FLIGHT=run/ torchrun train.py ; kernelscope crash run/
  kernelscope crash run/ --json | jq '.processes[0].threads[0].running[-1].subject'

The exit code is 1 where a process died, or a call is running or raised; 0 where all is well.
"""

from __future__ import annotations

import argparse
import dataclasses

from kernelscope.cli.failures import EXIT_FAULT
from kernelscope.cli.output import output_arguments, progress, write, write_json


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("folder", metavar="DIR", help="the folder of a flight recorder, or a trace")
    output_arguments(parser)


def execute(options: argparse.Namespace) -> int:
    """Shows the report.

    Raises:
        TraceError: the folder has no flight recorder's file, or it cannot be read.
    """
    with progress("reading the flight recorder"):
        from kernelscope.api import crash_report

        report = crash_report(options.folder)
    if options.json:
        facts = {**dataclasses.asdict(report), "folder": str(report.folder), "found": report.found}
        write_json(facts, options)
    else:
        write(str(report), options)
    return EXIT_FAULT if report.found else 0
