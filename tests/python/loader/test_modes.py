"""Loaders under what torch sets for a whole program: inference mode, another default device."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from loader_options import keyed_loader
from loader_stores import write_store
from support import assert_same_batch

import robocache as rc
from robocache.loader.memory.file_rows import FileRows, find_rows
from robocache.store.rows import StreamRows

OFFSETS = {"joints": [-0.05, 0.0], "camera": [0.0], "gripper": None}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("modes") / "store", episodes=3)


def make(store: rc.EpisodeStore, device: str, **options: Any) -> rc.Loader:
    return keyed_loader(store, 16, OFFSETS, timeline="time", seed=3, device=device, **options)


@pytest.mark.parametrize("reuse", [False, True])
def test_inference_mode_leaves_nothing_behind(
    store: rc.EpisodeStore, device: str, reuse: bool
) -> None:
    expected = make(store, device)
    with torch.inference_mode():
        loader = make(store, device, reuse_buffers=reuse)
        assert_same_batch(loader.next(), expected.next())
    loader.set_epoch(2)
    expected.set_epoch(2)
    batch = loader.next()
    assert_same_batch(batch, expected.next())
    assert not any(value.is_inference() for value in batch.values())
    batch["joints"].clone().requires_grad_().sum().backward()


@pytest.mark.parametrize("default", ["meta", "cuda"])
def test_a_default_device_changes_nothing(
    store: rc.EpisodeStore, device: str, default: str, request: pytest.FixtureRequest
) -> None:
    if default == "cuda":
        request.getfixturevalue("cuda_is_tested")
    expected = make(store, device)
    others = make(store, device, episodes=[1])
    mixture = rc.Loader.mixture([expected, others], [1, 2], 40, 8)
    drawn = mixture.next()
    batches = [expected.next() for _ in range(3)]
    gathered = expected.gather([5, 1])
    torch.set_default_device(default)
    try:
        loader = make(store, device, reuse_buffers=True)
        for batch in batches:
            assert_same_batch(loader.next(), batch)
        assert_same_batch(loader.gather([5, 1]), gathered)
        near = "gpu" if device == "cuda" else "ram"
        assert_same_batch(make(store, device, budget={near: "1GB"}).next(), batches[0])
        loader.set_epoch(1)
        loader.load_state_dict(loader.state_dict())
        again = rc.Loader.mixture([loader, make(store, device, episodes=[1])], [1, 2], 40, 8)
        assert_same_batch(again.next(), drawn)
    finally:
        torch.set_default_device(None)


def test_values_between_elements_are_refused(store: rc.EpisodeStore) -> None:
    rows = find_rows(store, "joints", np.arange(len(store)))
    assert rows.begins()[0] == 0
    piece = rows.pieces[0]
    moved = np.zeros(piece.values.nbytes + 1, np.uint8)[1:].view(piece.values.dtype)
    torn = StreamRows(moved.reshape(piece.values.shape), piece.times, piece.received, piece.valid)
    rows = FileRows(rows.info, rows.offsets, [torn])
    with pytest.raises(
        rc.StoreError, match=r"^joints: expected values at multiples of 4 bytes in the store's"
    ):
        rows.begins()


def test_buffers_of_the_full_size_and_of_one_other_are_kept(store: rc.EpisodeStore) -> None:
    loader = make(store, "cpu", reuse_buffers=True)
    full = loader.next()["joints"]
    for size in (3, 5, 3, 7):
        state = loader.state_dict() | {"position": len(loader.dataset) - size}
        loader.load_state_dict(state)
        assert len(loader.next()["index"]) == size
        loader.gather(range(size + 1))
        assert loader.next()["joints"].data_ptr() == full.data_ptr()
        kept = loader._outputs._kept_full, loader._outputs._kept_other
        assert [one and one[0] for one in kept] == [16, size + 1]


def test_a_batch_that_does_not_fit_on_the_cpu(
    store: rc.EpisodeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = make(store, "cpu")

    def refuse(*_: Any) -> Any:
        return torch.empty(2**60, dtype=torch.uint8)  # torch's own error

    size = loader._outputs.sample_bytes
    monkeypatch.setattr(loader._outputs, "_empty", refuse)
    message = f"batch: expected memory for 3 samples of {size} bytes on the CPU, got none (a "
    message += "smaller batch_size or shorter windows need less)"
    with pytest.raises(torch.OutOfMemoryError, match=f"^{re.escape(message)}$"):
        loader.gather([0, 1, 2])


def test_the_layouts_of_few_sizes_are_cached(store: rc.EpisodeStore) -> None:
    loader = make(store, "cpu")
    for size in range(200):
        loader.gather([0] * size)
    assert len(loader._outputs._blanks) <= 64
