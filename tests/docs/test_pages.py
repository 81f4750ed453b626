"""The README's code runs; generated pages are current; every line kind and field is documented."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from tools import environment_page, ir_page

from kernelscope.ir.lines import LINE_KINDS

ROOT = Path(__file__).parent.parent.parent


PAGES = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs" / "how-to").glob("*.md")))]


@pytest.mark.parametrize("page", PAGES)
def test_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {})


@pytest.mark.parametrize(("name", "page"), [("environment", environment_page.page), ("ir", ir_page.page)])
def test_generated_page_is_current(name, page):
    assert (ROOT / "docs" / f"{name}.md").read_text() == page(), "run make docs"


def test_every_line_kind_is_documented():
    text = (ROOT / "docs" / "ir.md").read_text()
    for kind in LINE_KINDS:
        assert f"## {kind.__name__}" in text
        assert all(f"| `{field.name}` |" in text for field in dataclasses.fields(kind) if field.name != "origin")


def test_design_names_every_room():
    text = (ROOT / "docs" / "design.md").read_text()
    assert all(
        f"`{room}/" in text for room in ("ir", "capture/inductor", "passes", "probe", "targets", "runtime", "cli")
    )
