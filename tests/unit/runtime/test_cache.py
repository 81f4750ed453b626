"""The cache of built files where it cannot be written, and its locks."""

from __future__ import annotations

import errno
import multiprocessing
import os
import tempfile
import time
import warnings
from pathlib import Path

import pytest

from kernelscope.errors import BuildError
from kernelscope.runtime import cache


@pytest.fixture(autouse=True)
def no_fallbacks(monkeypatch):
    monkeypatch.setattr(cache, "_fallbacks", {})


def write(path: Path) -> None:
    path.write_text("made")


def no_space(path: Path) -> None:
    if "kernelscope-" not in str(path):
        raise OSError(errno.ENOSPC, "No space left on device")
    write(path)


def test_a_key_depends_on_where_texts_begin_and_end():
    assert cache.digest(["ab", "c"]) != cache.digest(["a", "bc"])
    assert cache.digest(["ab", "c"]) == cache.digest(iter(["ab", "c"]))


def test_a_file_is_made_once(tmp_path):
    calls = []

    def make(path):
        calls.append(path)
        write(path)

    for _ in range(2):
        assert cache.built(tmp_path, "a/b", make).read_text() == "made"
    (temporary,) = calls
    assert temporary.parent == tmp_path / "a"
    assert not temporary.exists()


def test_what_a_killed_process_left_is_removed(tmp_path):
    (tmp_path / "a-123.part").write_text("half")
    cache.built(tmp_path, "a", write)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "a.lock"}


def test_an_unwritable_cache_is_replaced_with_one_warning(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.warns(UserWarning, match="is not writable"):
        found = cache.built(blocked / "cache", "a", write)
    assert found.read_text() == "made"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.built(blocked / "cache", "a", write) == found
        assert cache.directory(blocked / "cache") == found.parent


def test_a_full_cache_is_replaced_with_a_warning(tmp_path):
    with pytest.warns(UserWarning, match="No space left on device"):
        assert cache.built(tmp_path, "a", no_space).read_text() == "made"


def test_nowhere_to_write(tmp_path, monkeypatch):
    def nowhere(**kwargs):
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory")

    monkeypatch.setattr(tempfile, "mkdtemp", nowhere)
    with pytest.raises(BuildError, match="nor is a temporary one") as caught:
        cache.built(tmp_path, "a", no_space)
    assert "TMPDIR" in caught.value.hint


def test_nowhere_with_space(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")

    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.warns(UserWarning, match="is not writable"), pytest.raises(BuildError, match="No space left"):
        cache.built(blocked / "cache", "a", full)


def _hold(path, ready):
    with cache.lock(path):
        ready.set()
        time.sleep(60)


def test_the_lock_of_a_dead_process_is_free(tmp_path):
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    holder = context.Process(target=_hold, args=(tmp_path / "lock", ready))
    holder.start()
    assert ready.wait(60)
    holder.kill()
    holder.join()
    with cache.lock(tmp_path / "lock"):
        pass


def test_a_forked_child_does_not_keep_its_parents_lock(tmp_path):
    reading, writing = os.pipe()
    with cache.lock(tmp_path / "lock"):
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)  # until the parent closes the pipe
            os._exit(0)
    os.close(reading)
    with cache.lock(tmp_path / "lock"):  # a child that kept it would hold it until the pipe is closed
        os.close(writing)
    os.waitpid(child, 0)
