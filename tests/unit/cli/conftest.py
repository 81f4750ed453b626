"""Running scripts through the command line."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest


@pytest.fixture
def run(tmp_path):
    """Runs a script's text; gives the finished process and the script's path."""

    def run(text, *options, args=()):
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(text))
        command = [sys.executable, "-m", "kernelscope.cli.main", "run", *options, str(path), *args]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    return run
