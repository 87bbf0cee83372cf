"""examples/train_pusht.py trains on the same samples with every loader, and to the same loss."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

import train_pusht  # noqa: E402
from pusht import loaders, task  # noqa: E402

OTHERS = ["lerobot", "robomimic"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> loaders.Data:
    folder = tmp_path_factory.mktemp("train")
    store = task.write_store(folder / "store", episodes=20, seed=0)
    device = torch.device("cpu")
    return loaders.Data(store, task.RATE, *loaders.split(store), folder, device)


@pytest.mark.parametrize("name", OTHERS)
def test_batches(data: loaders.Data, name: str) -> None:
    """They equal the plain torch loader's to the bit, which draws in the same order."""
    ours, theirs = (loaders.LOADERS[loader](data, 16, 7, 0) for loader in ("torch", name))
    for a, b in itertools.islice(zip(ours, theirs, strict=True), 30):
        assert list(a) == list(b)
        for key, values in a.items():
            assert torch.equal(values, b[key]), key


@pytest.mark.parametrize("name", OTHERS)
def test_losses(data: loaders.Data, name: str) -> None:
    """Within the noise of another order."""
    options = train_pusht.Options(steps=300, batch_size=64, width=32, seed=0, workers=0)
    ours, theirs = (train_pusht.train(loader, data, options) for loader in ("robocache", name))
    assert theirs.losses[-1] == pytest.approx(ours.losses[-1], rel=0.1)
    assert theirs.losses[-1] < 0.7 * theirs.losses[0]
