"""Runs saved programs alone: by the interpreter and by generated Python, which must agree bit for bit.

Usage: ``python run_program.py FOLDER``; FOLDER has ``N.json`` and ``N.inputs``. It must never load PyTorch's
compiler.
"""

import pickle
import sys
from pathlib import Path

import torch

from kernelscope.api import Program


def expand(spec):
    dtype, size, stride, seed = getattr(torch, spec[0].removeprefix("torch.")), *spec[1:]
    generator = torch.Generator().manual_seed(seed)
    span = 1 + sum((extent - 1) * step for extent, step in zip(size, stride, strict=True)) if 0 not in size else 0
    if dtype.is_floating_point:
        storage = torch.rand(span, generator=generator).to(dtype)
    else:
        storage = torch.randint(0, 2, (span,), generator=generator).to(dtype)
    return storage.as_strided(size, stride)


def main(folder):
    for path in sorted(folder.glob("*.json")):
        program = Program.load(path)
        specs = pickle.loads(path.with_suffix(".inputs").read_bytes())
        results = []
        for target in ("python", "interpreter"):
            torch.manual_seed(0)
            with torch.no_grad():
                results.append(program.emit(target).load()([expand(spec) for spec in specs]))
        for left, right in zip(*results, strict=True):
            if isinstance(left, torch.Tensor):
                assert left.stride() == right.stride()
                equal = (
                    torch.equal(
                        left.contiguous().view(-1).view(torch.uint8), right.contiguous().view(-1).view(torch.uint8)
                    )
                    if left.numel()
                    else True
                )
                assert equal, path
            else:
                assert left == right
    loaded = [name for name in sys.modules if name.startswith("torch._inductor.") and "graph" in name]
    assert not loaded, loaded


if __name__ == "__main__":
    main(Path(sys.argv[1]))
