"""Defers CUDA calls of finalizers, which may run when CUDA must not be called.

Python's garbage collector runs finalizers in whatever thread it happens to run in: in one that
captures a graph, which such a call would break, or in a worker, which could wait for itself.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

_left: deque[Callable[[], None]] = deque()
_threads = threading.local()
os.register_at_fork(after_in_child=_left.clear)  # a child has neither GPU nor threads


def make_worker() -> None:
    """Makes the current thread one that never calls CUDA, and never waits for another."""
    _threads.is_worker = True


def defer_until_cuda_allowed(work: Callable[[], None]) -> None:
    """Does something at once if CUDA may be called; else when that is so the next time."""
    _left.append(work)
    run_deferred()


def run_deferred() -> None:
    """Does what could not be done before, if CUDA may be called."""
    if not _left or getattr(_threads, "is_worker", False):
        return
    cuda: Any = torch.cuda
    if cuda.is_initialized() and cuda.is_current_stream_capturing():
        return
    while _left:
        try:
            work = _left.popleft()
        except IndexError:  # another thread was faster
            return
        work()
