"""Small awkward programs: bit for bit as plain Inductor, on the Python target and in the interpreter."""

from __future__ import annotations

import pytest
import torch

from tests.e2e.harness import case_files, differences, fresh, load_module, run

FAILS_IN_INDUCTOR = {"26_index_out_of_range": "index out of bounds"}


def _run(case, backend, options=None):
    def make():
        model, inputs = case.make()
        return model, inputs, {}

    settings = getattr(case, "CONFIG", {})
    with fresh(), torch._dynamo.config.patch(settings):
        return run(
            make,
            backend,
            options=options,
            train=getattr(case, "TRAIN", False) or getattr(case, "GRAD", False),
            grad=not getattr(case, "NO_GRAD", False),
            dynamic=getattr(case, "DYNAMIC", False),
            seed=getattr(case, "SEED", 0),
            more=getattr(case, "more", None),
        )


@pytest.mark.parametrize("path", case_files(), ids=lambda path: path.stem)
def test_bits_equal_plain_inductor(path):
    case = load_module(path)
    if path.stem in FAILS_IN_INDUCTOR:
        for backend in ("inductor", "kernelscope"):
            with pytest.raises(RuntimeError, match=FAILS_IN_INDUCTOR[path.stem]):
                _run(case, backend)
        return
    expected = _run(case, "inductor")
    for target in ("python", "interpreter"):
        found = _run(case, "kernelscope", {"target": target})
        assert found.programs
        assert differences(expected, found) == [], target
