"""Runs saved programs alone: by generated Python and by the interpreter, with the bits of the recorded call.

Usage: ``python run_program.py FOLDER``; FOLDER has ``N.json`` (a program) and ``N.pt`` (its inputs and results). It
must never load PyTorch's compiler.
"""

import sys
from pathlib import Path

import torch

from kernelscope.api import Program


def bits(value):
    if not isinstance(value, torch.Tensor):
        return repr(value)
    flat = value.detach().contiguous().reshape(-1)
    return (value.dtype, value.shape, value.stride(), flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")


def register_operators(names):
    """Loads the libraries whose operators the programs call."""
    if any(name.startswith("transformers.") for name in names):
        import transformers.integrations.moe  # noqa: F401


def main(folder):
    for path in sorted(folder.glob("*.json")):
        program = Program.load(path)
        register_operators(
            {line.op for function in program.all_functions() for line in function.lines if hasattr(line, "op")}
        )
        for target in ("python", "interpreter"):
            call = torch.load(path.with_suffix(".pt"), weights_only=True)
            if not call:
                continue
            with torch.no_grad():
                results = program.emit(target).load()(call["inputs"])
            assert [bits(value) for value in results] == [bits(value) for value in call["results"]], (path, target)
    loaded = [name for name in sys.modules if name.startswith(("torch._inductor.graph", "torch._inductor.codegen"))]
    assert not loaded, loaded


if __name__ == "__main__":
    main(Path(sys.argv[1]))
