"""Files of saved tensors: one for each, readable, limited, and no reason for a program to stop."""

from __future__ import annotations

import json
import warnings

import pytest
import torch

from kernelscope.probe.look import describe
from kernelscope.probe.saver import INDEX, Saver
from tests.unit.probe.test_formats import event


def seen(tensor, **fields):
    return event(describe(tensor), **fields), tensor


def files(folder):
    return sorted(folder.rglob("*.pt"))


def save(saver, count):
    for number in range(count):
        saver(*seen(torch.zeros(1), label=f"b{number}"))


def test_a_file_is_read_back_with_its_strides(tmp_path):
    saver = Saver(tmp_path / "out")
    tensor = torch.arange(12.0).view(3, 4).t()
    saver(*seen(tensor))
    saver.close()
    (path,) = files(tmp_path)
    found = torch.load(path, weights_only=True)
    assert torch.equal(found, tensor)
    assert found.stride() == tensor.stride()
    (line,) = (tmp_path / "out" / INDEX).read_text().splitlines()
    entry = json.loads(line)
    assert tmp_path / "out" / entry["file"] == path
    assert (entry["label"], entry["moment"], entry["subject"]) == ("arg0_1", "before", "k")


def test_only_the_view_is_saved(tmp_path):
    saver = Saver(tmp_path)
    saver(*seen(torch.zeros(1_000_000)[:3]))
    assert files(tmp_path)[0].stat().st_size < 10_000


def test_names_differ_in_every_part(tmp_path):
    saver = Saver(tmp_path)
    for fields in ({}, {"label": "b"}, {"moment": "after"}, {"subject": "l"}):
        saver(*seen(torch.zeros(1), **fields))
    assert len(files(tmp_path)) == 4


@pytest.mark.parametrize("limit", [{"limit_tensors": 2}, {"limit_bytes": 8}])
def test_a_limit_is_told_once(tmp_path, limit):
    saver = Saver(tmp_path, **limit)
    with pytest.warns(UserWarning, match="limit of .* is reached") as caught:
        save(saver, 5)
    assert len(caught) == 1
    assert len(files(tmp_path)) == 2


def test_a_folder_that_cannot_be_written_is_told_once(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    saver = Saver(blocked / "out")
    with pytest.warns(UserWarning, match="the program goes on") as caught:
        save(saver, 3)
    assert len(caught) == 1


def test_a_full_disk_leaves_no_half_file(tmp_path, monkeypatch):
    def full(tensor, path):
        path.write_bytes(b"half")
        raise RuntimeError("[enforce fail at inline_container.cc:603] . unexpected pos 64 vs 0: No space left")

    monkeypatch.setattr(torch, "save", full)
    with pytest.warns(UserWarning, match="No space left"):
        save(Saver(tmp_path), 1)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_what_has_no_values_is_not_saved(tmp_path):
    saver = Saver(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        saver(*seen(torch.eye(2).to_sparse()))
        saver(event(None), None)
    assert files(tmp_path) == []
