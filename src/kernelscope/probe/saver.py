"""Saves tensors to files that ``torch.load(..., weights_only=True)`` reads, with an index of what each one is."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import warnings
from pathlib import Path
from typing import IO, Any

import torch

from kernelscope.probe.formats import fields_of
from kernelscope.probe.records import Event, TensorRecord

INDEX = "index.jsonl"
_LONGEST_NAME = 80
DEFAULT_LIMIT_BYTES = 16 << 30
DEFAULT_LIMIT_TENSORS = 100_000


class Saver:
    """Saves each tensor that it is told of; once a limit is reached or the disk fails, it says so and saves no more.

    A file's name holds rank, process, program, step, order, moment, kernel and label, so that no two tensors share
    one. ``index.jsonl`` has a line of JSON for each file.

    Args:
        folder: Where files go; made with the first of them.
        limit_bytes: How many bytes of tensors are saved at most.
        limit_tensors: How many tensors are saved at most.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
        limit_tensors: int = DEFAULT_LIMIT_TENSORS,
    ) -> None:
        self.folder = Path(folder).absolute()
        self.limit_bytes = limit_bytes
        self.limit_tensors = limit_tensors
        self.saved_bytes = 0
        self.saved_tensors = 0
        self.stopped = ""
        self._index: IO[str] | None = None
        self._lock = threading.Lock()

    def __call__(self, event: Event, value: Any) -> None:
        """Saves the value of an event, if it is a tensor whose values were looked at."""
        if self.stopped or not isinstance(event.value, TensorRecord) or event.value.note:
            return
        with self._lock:
            nbytes = value.numel() * value.element_size()
            if self.saved_tensors >= self.limit_tensors:
                self._stop(f"the limit of {self.limit_tensors} tensors is reached")
            elif self.saved_bytes + nbytes > self.limit_bytes:
                self._stop(f"the limit of {self.limit_bytes} bytes is reached")
            else:
                try:
                    self._save(event, value)
                except (OSError, RuntimeError) as error:  # torch.save reports a full disk as a RuntimeError
                    self._stop(f"a file cannot be written ({str(error).splitlines()[0]})")
                else:
                    self.saved_bytes += nbytes
                    self.saved_tensors += 1

    def close(self) -> None:
        """Closes the index."""
        if self._index is not None:
            self._index.close()
            self._index = None

    def _save(self, event: Event, value: torch.Tensor) -> None:
        name = file_name(event)
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".part")
        try:
            torch.save(_alone(value), temporary)
            os.replace(temporary, path)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        if self._index is None:
            self._index = (self.folder / INDEX).open("a", encoding="utf-8")
        self._index.write(json.dumps({"file": str(name), **fields_of(event)}, separators=(",", ":")) + "\n")
        self._index.flush()

    def _stop(self, why: str) -> None:
        self.stopped = why
        warnings.warn(
            f"no more tensors are saved in {self.folder}: {why}; {self.saved_tensors} tensors "
            f"({self.saved_bytes} bytes) are there, and the program goes on",
            stacklevel=2,
        )


def file_name(event: Event) -> Path:
    """The path of an event's file, below the saver's folder."""
    run = f"rank{event.rank}-pid{event.process}"
    parts = (f"{event.order:05d}", event.moment, event.subject, event.label)
    return Path(run) / _safe(event.program) / f"step{event.step:06d}" / f"{'-'.join(map(_safe, parts))}.pt"


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", "_", text)[:_LONGEST_NAME]


def _alone(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with a storage of its own: ``torch.save`` writes the whole storage of a view."""
    return tensor.detach().resolve_conj().resolve_neg().clone()
