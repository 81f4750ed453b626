"""Every test session has caches of its own and checks programs at the highest level."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import hypothesis

_OWN = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "KERNELSCOPE_CACHE_DIR": "kernels"}


def pytest_configure(config):
    root = os.environ.get("KERNELSCOPE_TEST_ROOT")
    if root is None:
        root = os.environ["KERNELSCOPE_TEST_ROOT"] = tempfile.mkdtemp(prefix="kernelscope-tests-")
    for variable, folder in _OWN.items():
        os.environ[variable] = str(Path(root) / folder)
    if os.environ.get("CI"):
        # A change is judged by the same examples each time; new ones are searched for outside CI.
        hypothesis.settings.register_profile("ci", derandomize=True)
        hypothesis.settings.load_profile("ci")
    os.environ.setdefault("KERNELSCOPE_VERIFY", "3")
    os.environ.setdefault("KERNELSCOPE_COMPILE_JOBS", "1")


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing them")


pytest_plugins = ["tests.golden_fixture"]
