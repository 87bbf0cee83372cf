"""Thread pools: one per topic and process."""

from __future__ import annotations

import os
import threading

from forks import fork

from robocache.core.threads import thread_pool


def test_a_pool_per_topic() -> None:
    pool = thread_pool("test")
    assert pool is thread_pool("test") is not thread_pool("other")
    assert pool.submit(lambda: threading.current_thread().name).result() == "robocache-test_0"


def test_a_forked_child_has_its_own_pool() -> None:
    """The parent's threads are not in the child, which would wait for them forever."""
    assert thread_pool("test").submit(abs, -1).result() == 1

    def child() -> None:
        assert thread_pool("test").submit(abs, -2).result(timeout=10) == 2

    _, status = os.waitpid(fork(child), 0)
    assert os.waitstatus_to_exitcode(status) == 0
