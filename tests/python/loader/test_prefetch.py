"""Batches made ahead of need, on streams of a GPU that are not there: order, errors, memory."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loader_options import keyed_loader
from loader_stores import write_store
from support import assert_same_batch

import robocache as rc
from robocache.loader.memory import deferred_cuda as finalizers
from robocache.loader.memory import disk_windows
from robocache.loader.memory.tiers import PREFETCH_DEPTH

OFFSETS = {
    "joints": [-0.05, 0.0],
    "camera": [-0.05, 0.0],
    "pose": [0.0, 0.02],
    "gripper": None,
    "action": [0.0, 0.02, 0.04],
}
FAR = ("camera", "gripper", "action")
Make = Callable[..., rc.Loader]


class Stream:
    """A stream on which everything has happened by the time that somebody waits."""

    cuda_stream = 0

    def __init__(self, device: object = None) -> None:
        pass

    def wait_stream(self, other: Stream) -> None:
        pass

    def wait_event(self, event: Stream) -> None:
        pass

    def record_event(self) -> Stream:
        return self

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("ahead") / "store", episodes=3)


def options(**others: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"batch_size": 32, "seed": 4, "timeline": "time", "device": "cpu"}
    return given | {"delta_timestamps": OFFSETS, "with_age": True} | others


@pytest.fixture
def make(store: rc.EpisodeStore, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Loaders whose batches are made ahead, with streams of FAR on disk or all in memory."""
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    user = Stream()
    monkeypatch.setattr(torch.cuda, "current_stream", lambda index: user)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    plain = torch.empty
    monkeypatch.setattr(disk_windows, "pinned_empty", lambda count: plain(count, dtype=torch.uint8))

    def make(
        far: tuple[str, ...] = FAR, source: rc.EpisodeStore = store, **others: Any
    ) -> rc.Loader:
        def place(wanted: Any, *rest: Any) -> dict[str, str]:
            return {w.name: "disk" if w.name in far else "ram" for w in wanted.windows}

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("robocache.loader.engine.place", place)
            patch.setattr("robocache.loader.engine._is_gpu", lambda device: True)
            return keyed_loader(source, **options(**others))

    return make


@pytest.mark.parametrize("far", [(), FAR, tuple(OFFSETS)], ids=["memory", "some", "disk"])
@pytest.mark.parametrize("reuse", [False, True])
def test_the_batches_of_a_loader_without(
    store: rc.EpisodeStore, make: Make, far: tuple[str, ...], reuse: bool
) -> None:
    expected, loader = keyed_loader(store, **options()), make(far, reuse_buffers=reuse)
    whole = []
    for _ in range(2):
        for batch, other in zip(loader, expected, strict=True):
            assert_same_batch(batch, other)
            if len(batch["index"]) == 32:
                whole.append(batch["joints"])
    places = {values.data_ptr() for values in whole}
    assert len(places) == (1 if reuse else len(whole))
    indices = [5, 1, 5]
    assert_same_batch(loader.gather(indices), expected.gather(indices))
    stats = loader.stats()
    assert stats.queue_depth == PREFETCH_DEPTH
    assert stats.batches == 2 * len(loader)


def test_going_elsewhere_with_batches_under_way(store: rc.EpisodeStore, make: Make) -> None:
    expected, loader = keyed_loader(store, **options()), make()
    loader.next()
    state = loader.state_dict()
    assert state == {**expected.state_dict(), "position": 32}
    loader.next()
    loader.load_state_dict(state)
    expected.load_state_dict(state)
    for _ in range(4):
        assert_same_batch(loader.next(), expected.next())
    for epoch in (5, 5, 0):
        loader.set_epoch(epoch)
        expected.set_epoch(epoch)
        assert_same_batch(loader.next(), expected.next())
        assert loader.state_dict() == expected.state_dict()


def test_transforms_come_when_a_batch_is_handed_out(store: rc.EpisodeStore, make: Make) -> None:
    calls = []

    def transform(batch: Any, generator: torch.Generator) -> Any:
        calls.append(generator.initial_seed())
        return {**batch, "noise": torch.rand(3, generator=generator)}

    expected, loader = (
        keyed_loader(store, **options(transforms=[transform])),
        make(transforms=[transform]),
    )
    for _ in range(3):
        assert_same_batch(loader.next(), expected.next())
    assert len(calls) == 6


def test_what_fails_in_the_worker_reaches_the_user_and_is_tried_anew(
    store: rc.EpisodeStore, make: Make
) -> None:
    expected, loader = keyed_loader(store, **options()), make()
    assert_same_batch(loader.next(), expected.next())
    assert loader._disk is not None
    plan, real = loader._disk._plan, loader._disk._plan.next
    fails = threading.Event()

    def fail(*arguments: Any) -> None:
        if fails.is_set():
            raise OSError("the disk is gone")
        real(*arguments)

    plan.next = fail  # type: ignore[method-assign]
    assert loader._ahead is not None
    for coming in loader._ahead._in_flight:
        assert coming.on_cpu is None or coming.on_cpu.result() is None
    fails.set()
    for _ in range(PREFETCH_DEPTH):  # those that were begun before are whole
        assert_same_batch(loader.next(), expected.next())
        assert loader.state_dict() == expected.state_dict()
    for _ in range(2):
        with pytest.raises(OSError, match=r"^the disk is gone$"):
            loader.next()
    fails.clear()
    for _ in range(PREFETCH_DEPTH + 2):
        assert_same_batch(loader.next(), expected.next())


def test_waits_for_the_disk_are_counted(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = make()
    assert loader._disk is not None
    plan, real = loader._disk._plan, loader._disk._plan.next
    is_waited_for = threading.Event()

    def make_late(*arguments: Any) -> None:
        is_waited_for.wait(60)
        real(*arguments)

    def note(jobs: Any) -> Any:
        if jobs:
            is_waited_for.set()
        return wait(jobs)

    plan.next = make_late  # type: ignore[method-assign]
    monkeypatch.setattr("robocache.loader.memory.prefetch.wait", note)
    loader.next()
    first = loader.stats()
    assert first.waits == 1
    assert 0 < first.waited_s < 60
    assert loader._ahead is not None
    for coming in loader._ahead._in_flight:
        if coming.on_cpu is not None:
            coming.on_cpu.result()
    loader.next()
    assert loader.stats().waits == 1


def test_waits_for_the_gpu_are_counted(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = make()
    for _ in range(PREFETCH_DEPTH):
        loader.next()
    before = loader.stats().waits  # for the thread
    monkeypatch.setattr(Stream, "query", lambda event: False)
    loader.next()
    assert loader.stats().waits == before + 1


def test_a_gpu_that_fails_leaves_all_memory_in_use(
    store: rc.EpisodeStore, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, loader = keyed_loader(store, **options()), make()
    for _ in range(PREFETCH_DEPTH):
        assert_same_batch(loader.next(), expected.next())

    def fail(event: Stream) -> bool:
        raise RuntimeError("a launch failed")

    for _ in range(PREFETCH_DEPTH + 2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Stream, "query", fail)
            for _ in range(PREFETCH_DEPTH + 2):
                with contextlib.suppress(RuntimeError):
                    assert_same_batch(loader.next(), expected.next())
    for _ in range(PREFETCH_DEPTH + 2):
        assert_same_batch(loader.next(), expected.next())


def test_a_loader_that_is_collected_in_its_own_thread(make: Make) -> None:
    loader = make()
    loader.next()
    assert loader._disk is not None and loader._ahead is not None
    plan, real = loader._disk._plan, loader._disk._plan.next
    is_gone = threading.Event()

    def collect(*arguments: Any) -> None:
        is_gone.wait(60)
        gc.collect()
        real(*arguments)

    for coming in loader._ahead._in_flight:
        assert coming.on_cpu is None or coming.on_cpu.result() is None
    plan.next = collect  # type: ignore[method-assign]
    batch = weakref.ref(loader.next()["pose"])
    ahead, own = weakref.ref(loader._ahead), loader._disk._worker._threads
    threads = list(own)
    held = weakref.ref(loader._ahead._in_flight[-1].batch["pose"])
    gc.disable()
    try:
        loader.itself = loader  # type: ignore[attr-defined]
        del loader, coming, own
        assert ahead() is not None
        is_gone.set()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
    finally:
        gc.enable()
    assert ahead() is batch() is None
    assert held() is not None  # till somebody may call CUDA
    finalizers.run_deferred()
    assert held() is None


def test_memory_and_threads_go_with_the_loader(make: Make) -> None:
    loader = make()
    batch = loader.next()
    disk, ahead = loader._disk, loader._ahead
    assert disk is not None and ahead is not None
    coming = ahead._in_flight[0].batch["pose"]
    held = [weakref.ref(x) for x in (loader, ahead, disk, disk._plan, coming)]
    threads = list(disk._worker._threads)
    gc.disable()  # nothing may hang on a cycle
    try:
        del loader, disk, ahead, coming
        for thread in threads:
            thread.join(60)
        assert [ref() for ref in held] == [None] * len(held)
    finally:
        gc.enable()
    assert not any(thread.is_alive() for thread in threads)
    assert len(batch["joints"]) == 32


def test_a_graph_is_refused(make: Make) -> None:
    with pytest.raises(RuntimeError, match=r"^budget: expected all rows on the GPU of a loader in"):
        make()._engine.check_capture(())


def test_indices_are_looked_at(make: Make) -> None:
    with pytest.raises(ValueError, match=r"^indices\[1\]: expected 0 to "):
        make().gather(torch.tensor([0, 10**6]))


def test_scratch_of_frames_is_freed_after_the_side_stream(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Numbers and workspace come from the stream of an earlier call, which does not wait."""
    with rc.StoreWriter(tmp_path / "store") as writer, writer.episode() as episode:
        frames = rc.JpegFrames.encode(np.zeros((80, 8, 8, 3), np.uint8))
        times = np.arange(80) * 20_000_000
        episode.add("camera", times, frames)
        episode.add("joints", times, np.ones((80, 7), np.float32))
    loader = make(
        ("joints",),
        rc.EpisodeStore(tmp_path / "store"),
        delta_timestamps={"camera": [0.0], "joints": [0.0]},
        anchor="joints",
        method={"camera": "previous"},
        batch_size=8,
    )
    loader.next()
    assert loader._ahead is not None
    (head, *_) = loader._ahead._in_flight
    scratch = {tensor.data_ptr() for tensor in head.scratch if tensor.nbytes}
    other = Stream()
    recorded = []
    monkeypatch.setattr(torch.cuda, "current_stream", lambda index: other)
    monkeypatch.setattr(
        torch.Tensor,
        "record_stream",
        lambda tensor, stream: recorded.append((tensor.data_ptr(), stream)),
    )
    batch = loader.next()
    assert scratch
    assert {stream for _, stream in recorded} == {other}
    assert scratch | {batch["camera"].data_ptr()} <= {address for address, _ in recorded}
