"""The demo's model: a small transformer of plain PyTorch modules.

``torch.nn.TransformerEncoderLayer`` would be one single operator in inference, with no kernel and no memory plan to
look at. PyTorch is imported here, so commands import this module inside functions only.
"""

from __future__ import annotations

import torch
from torch import nn

WIDTH, HEADS, LAYERS, BATCH, LENGTH = 64, 4, 2, 2, 16


class Attention(nn.Module):
    """Self-attention over ``[batch, length, WIDTH]``."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Gives a tensor of the shape of ``x``."""
        batch, length, _ = x.shape
        parts = self.inputs(x).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        result: torch.Tensor = self.output(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return result


class Layer(nn.Module):
    """Attention and a perceptron, each after a layer norm and around a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(WIDTH), Attention())
        self.perceptron = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Gives a tensor of the shape of ``x``."""
        x = x + self.attention(x)
        result: torch.Tensor = x + self.perceptron(x)
        return result


def make() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The model, and inputs of shape ``[BATCH, LENGTH, WIDTH]``; the same weights and values each time."""
    torch.manual_seed(0)
    model = nn.Sequential(*(Layer() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)).eval()
    return model, (torch.randn(BATCH, LENGTH, WIDTH),)
