"""Random FX graphs: the bits of plain Inductor."""

from __future__ import annotations

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.e2e.harness import differences, fresh, run

_UNARY = (
    torch.relu,
    torch.sin,
    torch.neg,
    lambda x: x.softmax(-1),
    lambda x: x.t(),
    lambda x: x.reshape(-1)[:16].view(4, 4),
)
_BINARY = (
    torch.add,
    torch.mul,
    torch.mm,
    torch.maximum,
    lambda x, y: torch.cat([x, y], 0)[2:6],
    lambda x, y: torch.where(x > y, x, y),
)
_FOLDED = (
    lambda x: x.sum(),
    lambda x: x.amax(0),
    lambda x: x.sort(-1).values,
    lambda x: x[:, ::2].clone(),
    lambda x: x.topk(2).indices,
)


@st.composite
def graphs(draw):
    """A list of steps over 4x4 matrices: which function, on which earlier values."""
    steps = []
    for position in range(draw(st.integers(2, 10))):
        binary = draw(st.booleans())
        function = draw(st.sampled_from(_BINARY if binary else _UNARY))
        operands = [draw(st.integers(0, position + 1)) for _ in range(2 if binary else 1)]
        steps.append((function, operands))
    ends = draw(st.lists(st.sampled_from(_FOLDED), min_size=1, max_size=2))
    return steps, ends, draw(st.booleans())


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(graphs())
def test_random_graphs(graph):
    steps, ends, train = graph

    def function(x, y):
        values = [x, y]
        for step, operands in steps:
            values.append(step(*(values[at] for at in operands)))
        return (values[-1], *(end(values[-1]) for end in ends))

    def make():
        generator = torch.Generator().manual_seed(1)
        x, y = (torch.randn(4, 4, generator=generator) for _ in range(2))
        return function, (x.requires_grad_(train), y), {}

    with fresh():
        expected = run(make, "inductor", train=train)
        found = run(make, "kernelscope", train=train)
    assert differences(expected, found) == []
