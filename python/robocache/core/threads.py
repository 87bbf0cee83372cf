"""Thread pools for work that runs without the interpreter: one thread per core."""

from __future__ import annotations

import functools
import os
from concurrent.futures import ThreadPoolExecutor


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


@functools.cache
def thread_pool(topic: str) -> ThreadPoolExecutor:
    """The thread pool of a topic, which names its threads.

    A topic whose tasks wait for tasks of another one needs a pool that the other one does not use.
    """
    return ThreadPoolExecutor(cores(), thread_name_prefix=f"robocache-{topic}")


# The threads of a parent are not in a forked child, where waiting for them would never end.
os.register_at_fork(after_in_child=thread_pool.cache_clear)
