"""rc.Loader.from_diffusion_policy beside SequenceSampler, item by item.

Its behavior is written down anew in diffusion_policy_reference.py, since it is in no package
index; with a checkout of diffusion-policy on PYTHONPATH that is compared with the real one.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import diffusion_policy_reference as reference
import numpy as np
import pytest
import zarr
from comparing import compare

import robocache as rc

ENDS = (6, 7, 7, 19, 24, 26)  # the third episode has no rows
REAL = importlib.util.find_spec("diffusion_policy") is not None
LIBRARY = "diffusion-policy (its rules, reimplemented)"


@pytest.fixture(scope="session")
def buffer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("diffusion_policy") / "set.zarr"
    random = np.random.default_rng(0)
    group = zarr.open_group(str(path), mode="w")
    rows = ENDS[-1]
    arrays = {
        "action": random.normal(size=(rows, 2)).astype(np.float32),
        "keypoint": random.normal(size=(rows, 9, 2)),
        "img": random.integers(0, 256, (rows, 16, 12, 3)).astype(np.float32),
        "pixels": random.integers(0, 256, (rows, 16, 12, 3), np.uint8),
        "n_contacts": random.integers(0, 9, (rows, 1)),
    }
    for name, values in arrays.items():
        group[f"data/{name}"] = values
    group["meta/episode_ends"] = np.array(ENDS)
    return path


def arrays_of(path: Path) -> dict[str, Any]:
    return {
        name: array[...] for name, array in zarr.open_group(str(path), mode="r")["data"].arrays()
    }


def check(path: Path, horizon: int, before: int, after: int, mask: Any, **options: Any) -> None:
    arrays = arrays_of(path)
    rows = reference.windows(ENDS, horizon, before, after, mask)
    loader = rc.Loader.from_diffusion_policy(
        path, horizon, pad_before=before, pad_after=after, batch_size=1, device="cpu", **options
    )
    assert len(loader.dataset) == len(rows)
    batch = loader.gather(range(len(rows)))
    windows = {key: batch[key] for key in arrays}
    expected = reference.items(arrays, rows)
    compare(LIBRARY, "zarr", windows, expected)
    # Padded is what is not itself: a row that another step of the window has too.
    pad = batch["action_is_pad"]
    for window, is_pad in zip(rows, pad.tolist(), strict=True):
        assert len(set(window)) == is_pad.count(False)
    if REAL:
        for item, real in zip(
            expected, real_items(arrays, horizon, before, after, mask), strict=True
        ):
            for key in arrays:
                np.testing.assert_array_equal(item[key], real[key])


def real_items(arrays: Any, horizon: int, before: int, after: int, mask: Any) -> list[Any]:
    from diffusion_policy.common.sampler import SequenceSampler

    class Buffer(dict):
        episode_ends = np.array(ENDS)

    has_rows = np.diff(ENDS, prepend=0) > 0
    sampler = SequenceSampler(Buffer(arrays), horizon, before, after, episode_mask=mask & has_rows)
    return [sampler.sample_sequence(i) for i in range(len(sampler))]


ALL = np.ones(len(ENDS), bool)


@pytest.mark.parametrize(
    ("horizon", "before", "after"),
    [
        (1, 0, 0),
        (4, 0, 0),
        (4, 1, 2),
        (4, 3, 3),
        (5, 4, 1),
        (5, 9, 9),
        (4, -2, 1),
        (16, 1, 7),
        (16, 15, 15),
    ],
)
def test_windows(buffer: Path, horizon: int, before: int, after: int) -> None:
    check(buffer, horizon, before, after, ALL)


@pytest.mark.parametrize("seed", [0, 42])
@pytest.mark.parametrize("ratio", [0.0, 0.02, 0.5, 1.0])
def test_the_split(buffer: Path, ratio: float, seed: int) -> None:
    held_out = reference.validation_mask(len(ENDS), ratio, seed)
    if REAL:
        from diffusion_policy.common.sampler import get_val_mask

        np.testing.assert_array_equal(held_out, get_val_mask(len(ENDS), ratio, seed))
    options = {"val_ratio": ratio, "val_seed": seed}
    for most in (None, 2, 9):
        kept = reference.at_most(~held_out, most, seed)
        if REAL:
            from diffusion_policy.common.sampler import downsample_mask

            np.testing.assert_array_equal(kept, downsample_mask(~held_out, most, seed))
        if reference.windows(ENDS, 4, 1, 2, kept):
            check(buffer, 4, 1, 2, kept, max_train_episodes=most, **options)
    if reference.windows(ENDS, 4, 1, 2, held_out):
        check(buffer, 4, 1, 2, held_out, validation=True, **options)
