"""Hugging Face accelerate keeps a loader's position, as docs/loader.md says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from loader_stores import write_store
from support import assert_same_batch

import robocache as rc

accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("accelerate") / "store", episodes=2)


def start(store: rc.EpisodeStore) -> tuple[Any, rc.Loader]:
    """A run as docs/loader.md starts it."""
    accelerator = accelerate.Accelerator(cpu=True)
    loader = rc.Loader(store, 8, {"joints": [-0.05, 0.0]}, seed=3, device=accelerator.device)
    model = torch.nn.Linear(7, 1)
    model, _ = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    accelerator.register_for_checkpointing(loader)
    return accelerator, loader


def test_prepare_leaves_a_loader_as_it_is(store: rc.EpisodeStore) -> None:
    accelerator, loader = start(store)
    assert accelerator.prepare(loader) is loader


@pytest.mark.parametrize("batches", [3, 17])
def test_a_resumed_run_goes_on_with_the_next_batch(
    store: rc.EpisodeStore, tmp_path: Path, batches: int
) -> None:
    accelerator, loader = start(store)
    assert 3 < len(loader) < 17, "the second position is in another epoch"
    for _ in range(batches):
        loader.next()
    accelerator.save_state(str(tmp_path / "checkpoint"))
    state, expected = loader.state_dict(), loader.next()
    accelerator, resumed = start(store)
    accelerator.load_state(str(tmp_path / "checkpoint"))
    assert resumed.state_dict() == state
    assert_same_batch(resumed.next(), expected)


def test_another_run_is_refused(store: rc.EpisodeStore, tmp_path: Path) -> None:
    accelerator, _ = start(store)
    accelerator.save_state(str(tmp_path / "checkpoint"))
    accelerator = accelerate.Accelerator(cpu=True)
    other = rc.Loader(store, 8, {"joints": [-0.05, 0.0]}, seed=4, device="cpu")
    accelerator.register_for_checkpointing(other)
    with pytest.raises(ValueError, match=r"^state\['seed'\]: expected 4, got 3"):
        accelerator.load_state(str(tmp_path / "checkpoint"))
