"""What a fork must not cut in two.

A child that is forked while another thread opens a file and notes it, or starts a program, inherits descriptors that
nobody knows of: it would keep its parent's locks, or the end of a pipe whose reader waits for its last writer. Must
not live here: what each module forgets in a child (that stands beside the state).
"""

from __future__ import annotations

import os
import threading

undivided = threading.Lock()
"""Held by a thread for steps that no fork may fall between; short ones, as forks wait for it."""

os.register_at_fork(before=undivided.acquire, after_in_parent=undivided.release, after_in_child=undivided.release)
