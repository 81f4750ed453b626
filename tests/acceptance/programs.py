"""Programs compiled in a process of their own: ``python -m tests.acceptance.programs NAME OPTIONS``.

OPTIONS is the JSON of what ``torch.compile`` is given, or ``source``: print plain Inductor's host programs. Each
program shows one thing that a debugger of compiled models has to get right, on any back end; what it has to say itself
it prints on a line of its own, ``KEY: value``.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys

import torch
from torch import nn

import kernelscope as ks

NAN_AT = (3, 5)
CALLS = 3


@torch.library.custom_op("acceptance::dies", mutates_args=())
def dies(x: torch.Tensor) -> torch.Tensor:
    os.kill(os.getpid(), signal.SIGSEGV)
    return x.clone()


@dies.register_fake
def _(x):
    return torch.empty_like(x)


class Layer(nn.Module):
    """A transformer's layer of small operators, so that there are kernels between the products of matrices."""

    def __init__(self, width=32, heads=2):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)
        weights = torch.softmax(query @ key.transpose(-1, -2) * 0.25, -1)
        x = x + self.out((weights @ value).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(torch.relu(self.up(self.second(x))))


def transformer(compiled):
    model = nn.Sequential(*(Layer() for _ in range(4))).eval()
    with torch.no_grad():
        compiled(model)(torch.randn(2, 8, 32))


def crash(compiled):
    def function(x, w):
        y = torch.relu(x @ w)
        return torch.ops.acceptance.dies(y).sum(0)

    compiled(function)(torch.randn(4, 4), torch.randn(4, 4))


def fallback(compiled):
    def function(x):
        values, indices = torch.topk(torch.sin(x), 3)
        return values * 2, indices

    compiled(function)(torch.randn(4, 8))


def training(compiled):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    compiled(model)(torch.randn(4, 8)).sum().backward()


def chain(x, w):
    """Three kernels with a product of matrices between each two."""
    y = torch.sin(x) @ w
    z = torch.cos(y) @ w
    return torch.exp(z)


def chain_inputs(call):
    return torch.full((4, 4), 0.1 * (call + 1)), torch.eye(4)


def three_calls(compiled):
    function = compiled(chain)
    for call in range(CALLS):
        function(*chain_inputs(call))


def symbolic(compiled):
    function = compiled(chain, dynamic=True)
    for size in (3, 5):
        function(torch.randn(size, 4), torch.eye(4))


def empty(compiled):
    compiled(lambda bias, x, w: torch.addmm(bias, x, w))(torch.ones(4), torch.randn(4, 0), torch.randn(0, 4))


def one_element(compiled):
    compiled(lambda bias, x, w: torch.addmm(bias, x, w))(torch.ones(1), torch.randn(4, 4), torch.randn(4, 4))


def complex_numbers(compiled):
    compiled(lambda x, w: x @ w)(torch.full((4, 4), 2 + 7j), torch.eye(4, dtype=torch.complex64))


def one_nan(compiled):
    x = torch.arange(64.0).view(8, 8)
    x[NAN_AT] = torch.nan
    compiled(lambda x, w: x @ w)(x, torch.eye(8))


def makes_nan(compiled):
    def function(x, w):
        y = torch.log(x)  # makes the NaN
        return y @ w

    x = torch.ones(8, 8)
    x[NAN_AT] = -1
    compiled(function)(x, torch.eye(8))


def attention_mask(compiled):
    def function(scores, mask, value):
        masked = torch.where(mask, scores, -torch.inf)
        return torch.softmax(masked, -1) @ value, masked @ value

    compiled(function)(torch.randn(4, 4), torch.tril(torch.ones(4, 4, dtype=torch.bool)), torch.eye(4).abs() + 1)


def lines(compiled):
    """Saves the lines of a host program, reads them again and compares."""
    if compiled.options.get("backend") == "kernelscope":
        program = ks.capture(chain, *chain_inputs(0))
        program.save("program.json")
        same = ks.Program.load("program.json").plain() == program.plain()
    else:
        same = _inductor_lines(compiled)
    print(f"same: {same}")


def _inductor_lines(compiled):
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen

    kept = []
    generate = PythonWrapperCodegen.generate

    def keeping(self, *args):
        kept.append(list(self.lines))
        return generate(self, *args)

    PythonWrapperCodegen.generate = keeping
    compiled(chain)(*chain_inputs(0))
    return pickle.loads(pickle.dumps(kept[0])) == kept[0]


def plain_inductor(program):
    """The host programs that plain Inductor makes of a program here, as text."""
    from torch._inductor.utils import run_and_get_code

    _, codes = run_and_get_code(lambda: main(program, {}))
    print("\n".join(codes))


def main(name, options):
    """Runs the program of that name."""
    torch.manual_seed(0)

    def compiled(function, dynamic=False):
        return torch.compile(function, dynamic=dynamic, **options)

    compiled.options = options
    globals()[name](compiled)


if __name__ == "__main__":
    _, program, given = sys.argv
    plain_inductor(program) if given == "source" else main(program, json.loads(given))
