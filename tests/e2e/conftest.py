"""What end-to-end tests share."""

from __future__ import annotations

import pytest
import torch

from tests.e2e.harness import fresh


@pytest.fixture
def clean_compiler():
    """Nothing compiled before, and empty caches; nothing compiled is left afterwards."""
    torch._dynamo.reset()
    with fresh():
        yield
    torch._dynamo.reset()
