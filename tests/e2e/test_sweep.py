"""A quick part of the operator sweep; ``make sweep`` runs all of it."""

from __future__ import annotations

import pytest

from tests.e2e.sweep import check, operators

QUICK = (
    "addmm", "amax", "argmax", "as_strided", "bernoulli", "bmm", "cat", "clamp", "complex", "cumsum", "diag_embed",
    "einsum", "expand", "flip", "fmod", "gather", "index_add", "index_put", "linalg.inv", "linalg.qr", "log_softmax",
    "masked_fill", "max.reduction_with_dim", "nn.functional.conv2d", "nn.functional.embedding",
    "nn.functional.gelu", "nn.functional.interpolate.bilinear", "nn.functional.layer_norm",
    "nn.functional.max_pool2d", "nonzero", "roll", "scatter_reduce.amax", "sort", "split", "std", "topk", "unique",
    "view", "where",
)  # fmt: skip


@pytest.mark.parametrize("name", QUICK)
def test_operator(name):
    verdict, detail = check(operators()[name])
    assert verdict in ("equal", "inductor fails", "inductor varies"), detail
