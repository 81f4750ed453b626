"""Ours does what each item needs, on every target; ``tools/coverage_page.py`` asks plain Inductor too."""

from __future__ import annotations

import pytest

from tests.acceptance.items import ITEMS
from tests.acceptance.ways import OURS

LATER = {"10"}  # made by later work; docs/coverage.md says so


@pytest.mark.parametrize("way", OURS, ids=lambda way: way.title)
@pytest.mark.parametrize("item", [item for item in ITEMS if item.number not in LATER], ids=lambda item: item.need)
def test_item(item, way):
    assert item.check(way)
