"""The models that benchmarks measure."""

import torch


class Chain(torch.nn.Module):
    """Fifty small products with pointwise work between them."""

    def __init__(self):
        super().__init__()
        self.weights = torch.nn.ParameterList([torch.nn.Parameter(torch.randn(8, 8) / 3) for _ in range(50)])

    def forward(self, x):
        """Applies the chain."""
        for weight in self.weights:
            x = torch.relu(x @ weight) + 1.0
        return x


def chain():
    torch.manual_seed(0)
    return Chain().eval(), (torch.randn(8, 8),)


def transformer():
    torch.backends.mha.set_fastpath_enabled(False)  # else a layer is a single operator
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, activation="gelu")
    return torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval(), (torch.randn(1, 16, 64),)


def large_transformer():
    torch.backends.mha.set_fastpath_enabled(False)
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, activation="gelu")
    return torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).eval(), (torch.randn(8, 128, 256),)


def mlp():
    torch.manual_seed(0)
    layers = [module for _ in range(4) for module in (torch.nn.Linear(64, 64), torch.nn.GELU())]
    return torch.nn.Sequential(*layers).eval(), (torch.randn(1, 64),)


def unet():
    from tests.e2e.zoo import ZOO

    model, inputs, _ = next(entry for entry in ZOO if entry.name == "unet").make()
    return model, inputs


MODELS = {"chain": chain, "transformer": transformer, "mlp": mlp, "unet": unet, "large": large_transformer}
