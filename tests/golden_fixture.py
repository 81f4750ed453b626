"""Golden files: expected text beside the tests, updated by ``--update-golden`` (refused in CI); unused ones fail.

Whether a golden file is used is known only when every test that uses one ran, so that is checked at the end of a run
over the whole of ``tests`` that left none of them out, and in which none failed. Under xdist each worker reports what
it used and what it left out. The option itself is in ``conftest``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent / "golden"
_USED = pytest.StashKey[set]()
_LEFT_OUT = pytest.StashKey[set]()


def pytest_configure(config):
    config.stash[_USED] = set()
    config.stash[_LEFT_OUT] = set()
    if config.getoption("--update-golden") and in_ci():
        raise pytest.UsageError("golden files are not updated in CI")


def in_ci() -> bool:
    """Whether this is a run of continuous integration."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false", "no")


@pytest.fixture
def golden(request):
    """``golden(name, text)`` compares text with ``tests/golden/<name>.golden``."""
    update = request.config.getoption("--update-golden")

    def check(name: str, text: str) -> None:
        path = ROOT / f"{name}.golden"
        request.config.stash[_USED].add(path.name)
        if update:
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"no golden file {path.name}: run make golden"
        assert text == path.read_text(encoding="utf-8")

    return check


def pytest_deselected(items):
    for item in items:
        if "golden" in getattr(item, "fixturenames", ()):
            item.config.stash[_LEFT_OUT].add(item.nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    output = getattr(node, "workeroutput", {})
    node.config.stash[_USED].update(output.get("golden_used", ()))
    node.config.stash[_LEFT_OUT].update(output.get("golden_left_out", ()))


def pytest_sessionfinish(session, exitstatus):
    config = session.config
    used, left_out = config.stash[_USED], config.stash[_LEFT_OUT]
    if hasattr(config, "workeroutput"):
        config.workeroutput.update(golden_used=sorted(used), golden_left_out=sorted(left_out))
    elif exitstatus == pytest.ExitCode.OK and not left_out and _covers_all_tests(config):
        unused = sorted({path.name for path in ROOT.glob("*.golden")} - used)
        if unused:
            print(f"\nunused golden files, to be deleted: {', '.join(unused)}")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _covers_all_tests(config) -> bool:
    """Whether the run was asked for all tests: pytest's own selections then show as deselected tests."""
    roots = {str(config.rootpath), str(config.rootpath / "tests")}
    chosen = {str((config.invocation_params.dir / arg).resolve()) for arg in config.args}
    return chosen <= roots and not config.option.collectonly and not config.getoption("lf", default=False)
