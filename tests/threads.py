"""Running a piece of work in several threads at once."""

from __future__ import annotations

import threading


def in_threads(count, work):
    """Runs ``work`` in ``count`` threads, and waits for all of them."""
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
