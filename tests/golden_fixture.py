"""Golden files: expected text beside the tests, updated by ``--update-golden`` (refused in CI)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent / "golden"


@pytest.fixture
def golden(request):
    """``golden(name, text)`` compares text with ``tests/golden/<name>.golden``."""
    update = request.config.getoption("--update-golden")
    if update and os.environ.get("CI"):
        pytest.fail("golden files are not updated in CI")

    def check(name: str, text: str) -> None:
        path = ROOT / f"{name}.golden"
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"no golden file {path.name}: run pytest --update-golden"
        assert text == path.read_text()

    return check
