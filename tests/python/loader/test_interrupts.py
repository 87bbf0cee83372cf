"""Interrupted calls of `next`: the state and the next batch agree."""

from __future__ import annotations

import re
import signal
import sys
from types import FrameType
from typing import Any
from unittest.mock import Mock

import pytest
from loader_stores import write_store
from support import assert_same_batch

import robocache as rc
from robocache.loader.batch_source import BatchSource

WINDOWS = {"joints": [-0.02, 0.0], "force": [0.0]}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("interrupts") / "store", episodes=3)


def make(store: rc.EpisodeStore, **options: Any) -> rc.Loader:
    return rc.Loader(store, 16, WINDOWS, device="cpu", seed=5, **options)


def check_next(loader: rc.Loader, other: rc.Loader) -> None:
    """Checks that another loader with its state gives the same two batches next."""
    other.load_state_dict(loader.state_dict())
    for _ in range(2):
        assert_same_batch(loader.next(), other.next())


class LineInterrupt:
    """A trace function that raises KeyboardInterrupt at the n-th line of the code of a batch.

    Lines of `BatchSource.next` do not count: an exception between the body of its `with` and the
    release of the lock leaves the lock held, and Python delivers no signal there.
    """

    def __init__(self, line: int) -> None:
        self.line = line
        self.lines = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        is_own = "/robocache/" in frame.f_code.co_filename
        if not is_own or frame.f_code is BatchSource.next.__code__:
            return self if frame.f_code is BatchSource.next.__code__ else None
        if event == "line":
            self.lines += 1
            if self.lines == self.line:
                raise KeyboardInterrupt
        return self


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
    check_next(loader, make(store))


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


def test_a_capture_after_an_interrupt(
    store: rc.EpisodeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = make(store, drop_last=True)
    state = loader._sampler_state
    state.check_capture()
    with monkeypatch.context() as patch:
        patch.setattr(loader._outputs, "give_back", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            loader.next()
    message = "Loader: expected a call of next or load_state_dict between an interrupted call of "
    message += "next and the capture of a CUDA graph, got none"
    with pytest.raises(RuntimeError, match=f"^{re.escape(message)}$"):
        state.check_capture()
    loader.next()
    state.check_capture()


@pytest.mark.parametrize("options", [{}, {"reuse_buffers": True}, {"drop_last": True}])
def test_an_interrupt_at_each_line(store: rc.EpisodeStore, options: dict[str, Any]) -> None:
    loader, other = make(store, **options), make(store)
    before = sys.gettrace()
    is_done, line = False, 0
    while not is_done:
        line += 1
        state, interrupt = loader.state_dict(), LineInterrupt(line)
        sys.settrace(interrupt)
        try:
            loader.next()
            is_done = True  # it has fewer lines
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        other.load_state_dict(state)
        other.next()
        advanced = other.state_dict()
        assert loader.state_dict() in ([advanced] if is_done else [state, advanced])
        check_next(loader, other)
    assert line > 40


def test_ctrl_c(store: rc.EpisodeStore) -> None:
    """Signals of a timer. A slow machine changes the stages that they fall into, nothing else."""
    loader, other = make(store), make(store)
    is_fired = False

    def interrupt(*_: object) -> None:
        nonlocal is_fired
        is_fired = True  # Python swallows the exception where it runs a finalizer
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for i in range(100):
            is_fired = False
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + i % 7 * 1e-4)
                while not is_fired:
                    loader.next()
            except KeyboardInterrupt:
                pass
            check_next(loader, other)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
