"""Several callers of one loader at once: threads, signal handlers, transforms."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from loader_stores import write_store
from support import assert_same_batch

import robocache as rc

WINDOWS = {"joints": [-0.02, 0.0], "force": [0.0], "action": [0.0, 0.02]}
BUSY = "Loader: expected one call at a time, got {} during another call of next (a lock around the "
BUSY += "calls, or one loader for each thread; gather and dataset take any number of callers)"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("threads") / "store", episodes=3)


def make(store: rc.EpisodeStore, **options: Any) -> rc.Loader:
    return rc.Loader(store, 16, WINDOWS, anchor="action", device="cpu", **options)


def together(calls: list[Callable[[], None]]) -> None:
    """Runs functions in threads that start at once; an error of any fails the test."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], None]) -> None:
        start.wait()
        call()

    with ThreadPoolExecutor(len(calls)) as pool:
        for job in [pool.submit(run, call) for call in calls]:
            job.result()


def test_gather_and_dataset_in_threads(store: rc.EpisodeStore) -> None:
    """Each batch has the bits of a sequential call, though `next` runs beside them."""
    loader, again = make(store, seed=3), make(store, seed=3)
    rng = np.random.default_rng(0)
    count = len(loader.dataset)
    choices = [rng.integers(0, count, size) for size in (1, 3, 3, 8, 40) * 4]
    batches = [again.gather(choice) for choice in choices]
    singles = [again.dataset[i] for i in range(20)]
    drawn = [again.next() for _ in range(60)]

    def gather() -> None:
        for _ in range(12):
            for choice, expected in zip(choices, batches, strict=True):
                assert_same_batch(loader.gather(choice), expected)

    def single() -> None:
        for _ in range(12):
            for i, expected in enumerate(singles):
                assert_same_batch(loader.dataset[i], expected)

    def draw() -> None:
        for expected in drawn:
            assert_same_batch(loader.next(), expected)

    together([gather, single, draw, gather])


def test_samples_of_a_loader_that_reuses_buffers_in_threads(store: rc.EpisodeStore) -> None:
    loader = make(store, reuse_buffers=True)
    singles = [make(store).dataset[i] for i in range(40)]

    def single() -> None:
        for _ in range(20):
            for i, expected in enumerate(singles):
                assert_same_batch(loader.dataset[i], expected)

    together([single, single, single])


def test_next_in_two_threads_raises(store: rc.EpisodeStore) -> None:
    """The other thread's batch is not disturbed."""
    inside, leave = threading.Event(), threading.Event()

    def wait(batch: Any, generator: torch.Generator) -> Any:
        inside.set()
        leave.wait(30)
        return batch

    loader = make(store, seed=3, transforms=[wait])
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(loader.next)
        assert inside.wait(30)
        for name, call in {
            "next": loader.next,
            "load_state_dict": lambda: loader.load_state_dict(loader.state_dict()),
            "set_epoch": lambda: loader.set_epoch(1),
        }.items():
            with pytest.raises(RuntimeError, match=f"^{re.escape(BUSY.format(name))}$"):
                call()
        loader.gather([0, 1])  # which goes on
        leave.set()
        assert_same_batch(job.result(), make(store, seed=3).next())
    loader.next()


def test_next_in_threads_gives_each_batch_once(store: rc.EpisodeStore) -> None:
    """Where the calls overlap, one raises and the others' batches are whole."""
    loader, again = (make(store, seed=3, drop_last=True) for _ in range(2))
    drawn: list[Any] = []
    messages: list[str] = []

    def draw() -> None:
        for _ in range(200):
            try:
                drawn.append(loader.next())
            except RuntimeError as error:
                messages.append(str(error))

    together([draw, draw, draw])
    assert set(messages) <= {BUSY.format("next")}
    got = {tuple(batch["index"].tolist()): batch for batch in drawn}
    expected = [again.next() for _ in drawn]
    assert len(got) == len(drawn)
    for batch in expected:
        assert_same_batch(got[tuple(batch["index"].tolist())], batch)
    assert loader.state_dict() == again.state_dict()


def test_calls_of_a_signal_handler_during_next(store: rc.EpisodeStore) -> None:
    """`gather` works, `next` raises; the interrupted batch is whole."""
    loader, again = make(store, seed=3), make(store, seed=3)
    expected = again.gather([5, 2])
    messages: list[str] = []

    def handle(*_: object) -> None:
        assert_same_batch(loader.gather([5, 2]), expected)
        with pytest.raises(RuntimeError) as error:
            loader.next()
        messages.append(str(error.value))

    take = loader._outputs.take

    def interrupted(size: int) -> Any:
        loader._outputs.take = take  # type: ignore[method-assign]
        taken = take(size)
        signal.raise_signal(signal.SIGUSR1)
        return taken

    before = signal.signal(signal.SIGUSR1, handle)
    try:
        loader._outputs.take = interrupted  # type: ignore[method-assign]
        assert_same_batch(loader.next(), again.next())
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert messages == [BUSY.format("next")]


def test_a_fork_during_next_leaves_a_loader_that_works(store: rc.EpisodeStore) -> None:
    """The child lacks the thread that held the parent's lock."""
    loader = make(store)
    with loader._lock:
        loader._forks -= 1  # as in the child of a fork
        loader.next()
