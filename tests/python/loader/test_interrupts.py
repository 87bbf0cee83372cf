"""Interrupted calls of `next`: the state and the next batch agree."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest
from loader_stores import write_store
from support import assert_same_batch

import robocache as rc

WINDOWS = {"joints": [-0.02, 0.0], "force": [0.0]}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("interrupts") / "store", episodes=3)


def make(store: rc.EpisodeStore, **options: Any) -> rc.Loader:
    return rc.Loader(store, 16, WINDOWS, device="cpu", seed=5, **options)


def check_next(loader: rc.Loader, store: rc.EpisodeStore) -> None:
    """Checks that a loader of its state gives the same two batches next."""
    other = make(store)
    other.load_state_dict(loader.state_dict())
    for _ in range(2):
        assert_same_batch(loader.next(), other.next())


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("stage", ["take", "next", "give_back", "after"])
def test_an_interrupt_in_a_stage_of_next(
    store: rc.EpisodeStore, monkeypatch: pytest.MonkeyPatch, stage: str, is_after: bool
) -> None:
    loader, again = make(store), make(store)
    assert_same_batch(loader.next(), again.next())
    owner: Any = {"next": loader._plan, "after": type(loader._order)}.get(stage, loader._outputs)
    call = getattr(owner, stage)

    def interrupted(*arguments: Any) -> Any:
        if is_after:
            call(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, stage, interrupted)
        with pytest.raises(KeyboardInterrupt):
            loader.next()
    assert loader.state_dict() == again.state_dict()
    assert_same_batch(loader.next(), again.next())
    check_next(loader, store)


def test_a_transform_that_raises(store: rc.EpisodeStore) -> None:
    def fail(batch: Any, generator: Any) -> Any:
        if fails:
            raise KeyboardInterrupt
        return batch

    fails = True
    loader, again = make(store, transforms=[fail]), make(store)
    with pytest.raises(KeyboardInterrupt):
        loader.next()
    assert loader.state_dict() == again.state_dict()
    fails = False
    assert_same_batch(loader.next(), again.next())


def test_ctrl_c_at_any_time(store: rc.EpisodeStore) -> None:
    """Signals of a timer, which fall into all stages."""
    loader = make(store)
    hits = 0
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    end = time.monotonic() + 1.0
    try:
        while time.monotonic() < end:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + hits % 7 * 1e-4)
                while True:
                    loader.next()
            except KeyboardInterrupt:
                hits += 1
                check_next(loader, store)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert hits > 3
