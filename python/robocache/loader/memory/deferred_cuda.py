"""CUDA calls of finalizers, deferred until CUDA may be called.

Python's garbage collector runs finalizers in any thread: in one that captures a graph, which a
CUDA call would break, or in a worker thread, which could wait for itself.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

_deferred: deque[Callable[[], None]] = deque()
_threads = threading.local()
os.register_at_fork(after_in_child=_deferred.clear)  # a child has neither GPU nor threads


def make_worker() -> None:
    """Marks the current thread as a worker, which never runs deferred calls."""
    _threads.is_worker = True


def defer_until_cuda_allowed(work: Callable[[], None]) -> None:
    """Runs a function now if CUDA may be called, else in the next :func:`run_deferred`."""
    _deferred.append(work)
    run_deferred()


def may_call_cuda() -> bool:
    """Whether this thread may call CUDA: it is no worker, and captures no graph."""
    if getattr(_threads, "is_worker", False):
        return False
    cuda: Any = torch.cuda
    return not (cuda.is_initialized() and cuda.is_current_stream_capturing())


def run_deferred() -> None:
    """Runs the deferred functions if CUDA may be called."""
    if not _deferred or not may_call_cuda():
        return
    while _deferred:
        try:
            work = _deferred.popleft()
        except IndexError:  # another thread was faster
            return
        work()
