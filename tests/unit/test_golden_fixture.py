"""The golden fixture: compares, updates, refuses to update in CI, and finds files that no test uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import golden_fixture

pytest_plugins = ["pytester"]
_TEST = """
    import pytest

    def test_one(golden):
        golden("one.txt", "text")

    @pytest.mark.other
    def test_other():
        pass
"""
_CONFTEST = """
    pytest_plugins = ["golden_fixture"]

    def pytest_addoption(parser):
        parser.addoption("--update-golden", action="store_true")
"""


@pytest.fixture
def project(pytester, monkeypatch):
    """A project with one test that uses a golden file, and one that does not."""
    monkeypatch.delenv("CI", raising=False)
    tests = pytester.mkdir("tests")
    (tests / "golden").mkdir()
    pytester.makeini("[pytest]\npythonpath = tests\nmarkers = other")
    (tests / "golden_fixture.py").write_text(Path(golden_fixture.__file__).read_text())
    (tests / "conftest.py").write_text(_dedented(_CONFTEST))
    (tests / "test_it.py").write_text(_dedented(_TEST))
    return pytester


def _dedented(text):
    return "\n".join(line[4:] for line in text.split("\n"))


def _run(project, *args):
    return project.runpytest_subprocess("-p", "no:randomly", "-p", "no:cacheprovider", *args)


def test_golden_is_missing_then_written_then_compared(project):
    assert _run(project, "tests").ret == pytest.ExitCode.TESTS_FAILED
    assert _run(project, "tests", "--update-golden").ret == pytest.ExitCode.OK
    golden = project.path / "tests" / "golden" / "one.txt.golden"
    assert golden.read_text() == "text"
    assert _run(project, "tests").ret == pytest.ExitCode.OK
    golden.write_text("other")
    assert _run(project, "tests").ret == pytest.ExitCode.TESTS_FAILED


def test_update_is_refused_in_ci(project, monkeypatch):
    monkeypatch.setenv("CI", "true")
    result = _run(project, "tests", "--update-golden")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines("*not updated in CI*")


@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_unused_golden_fails_a_whole_run(project, workers):
    folder = project.path / "tests" / "golden"
    (folder / "one.txt.golden").write_text("text")
    (folder / "two.txt.golden").write_text("text")
    result = _run(project, *workers, "tests")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "two.txt.golden" in result.stdout.str()
    assert _run(project, *workers, "-m", "other", "tests").ret == pytest.ExitCode.OK


def test_used_goldens_and_part_of_a_run_pass(project):
    (project.path / "tests" / "golden" / "one.txt.golden").write_text("text")
    assert _run(project, "tests").ret == pytest.ExitCode.OK
    (project.path / "tests" / "golden" / "two.txt.golden").write_text("text")
    assert _run(project, "tests/test_it.py").ret == pytest.ExitCode.OK
