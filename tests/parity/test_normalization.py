"""rc.Normalizer's presets beside LeRobot's and robomimic's own code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from lerobot.configs.types import FeatureType, NormalizationMode, PolicyFeature
from lerobot.processor.normalize_processor import (
    NormalizerProcessorStep,
    UnnormalizerProcessorStep,
)
from robomimic.utils import obs_utils
from robomimic.utils.dataset import SequenceDataset

import robocache as rc

# Plain channels, tiny and huge ones, and some without a spread.
ROWS = np.random.default_rng(5).normal(size=(501, 9)).astype(np.float32)
ROWS *= np.float32([1, 1e-2, 3e4, 1, 2e-3, 1e-3, 1, 1, 1])
ROWS += np.float32([0, 10, -2e5, 0, 0, 0, 0, 0, 0])
ROWS[:, 6:] = np.float32([0, 0.7, -123.4])


def statistics(rows: np.ndarray) -> dict[str, Any]:
    """By LeRobot's names, in float64."""
    wide = rows.astype(np.float64)
    ranks = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}
    return {
        "mean": wide.mean(0), "std": wide.std(0), "min": wide.min(0), "max": wide.max(0),
        **{name: np.quantile(wide, rank, axis=0) for name, rank in ranks.items()},
        "count": np.array([len(rows)]),
    }  # fmt: skip


@pytest.mark.parametrize("mode", ["mean_std", "min_max", "quantiles", "quantile10"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_lerobot(mode: Any, dtype: torch.dtype) -> None:
    """There and back, of rows of the statistics and of any answer of a policy."""
    stats = {"action": statistics(ROWS)}
    shape = (ROWS.shape[1],)
    options: Any = {
        "features": {"action": PolicyFeature(FeatureType.ACTION, shape)},
        "norm_map": {FeatureType.ACTION: NormalizationMode(mode.upper())},
        "stats": stats,
    }
    theirs = NormalizerProcessorStep(**options, dtype=dtype)
    undone = UnnormalizerProcessorStep(**options, dtype=dtype)
    ours = rc.Normalizer.from_statistics(stats, {"action": mode}, preset="lerobot")
    x = torch.from_numpy(ROWS).to(dtype)
    got, expected = ours.normalize("action", x), theirs._normalize_action(x, inverse=False)
    # Both round numbers of the size of x, against its range.
    eps, size = torch.finfo(dtype).eps, np.abs(ROWS).max(0)
    allowed = 32 * eps * (1 + size / np.ptp(ROWS, 0).clip(1e-30))
    allowed[6:] = np.inf if mode == "mean_std" else 1e-6  # a rounding error of the mean, by 1e8
    assert ((got - expected).abs() <= torch.from_numpy(allowed)).all()
    answers = torch.randn(50, 9, generator=torch.Generator().manual_seed(0)).to(dtype)
    back = ours.unnormalize("action", answers)
    by_them = undone._normalize_action(answers, inverse=True)
    # They undo a deviation without the 1e-8; constant channels are the nearest float32.
    near = 4 * eps * torch.from_numpy(size) + 1.01e-8 * answers.abs()
    near[:, 6:] += 4 * torch.finfo(torch.float32).eps * torch.from_numpy(size)[6:]
    assert ((back - by_them).abs() <= near).all()


def test_lerobots_images() -> None:
    stats = {"top": {"mean": np.full((3, 1, 1), 0.4), "std": np.full((3, 1, 1), 0.2)}}
    theirs = NormalizerProcessorStep(
        features={"top": PolicyFeature(FeatureType.VISUAL, (3, 8, 8))},
        norm_map={FeatureType.VISUAL: NormalizationMode.MEAN_STD},
        stats=stats,
    )
    pictures = torch.rand(4, 2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    ours = rc.Normalizer.from_statistics(stats, {"top": "mean_std"}, preset="lerobot")
    expected = theirs._normalize_observation({"top": pictures}, inverse=False)["top"]
    torch.testing.assert_close(ours.normalize("top", pictures), expected, rtol=1e-6, atol=1e-6)


def test_robomimic(tmp_path: Path) -> None:
    """Observations, by the statistics that SequenceDataset computes itself and those of a store."""
    lengths = (40, 7, 90)
    random = np.random.default_rng(1)
    rows = {f"demo_{i}": random.choice(ROWS, n) for i, n in enumerate(lengths)}
    with h5py.File(tmp_path / "demos.hdf5", "w") as out:
        for name, values in rows.items():
            demo = out.create_group(f"data/{name}")
            demo.attrs["num_samples"] = len(values)
            demo["actions"], demo["obs/state"] = values, values
            demo["next_obs/state"] = values
    obs_utils.initialize_obs_modality_mapping_from_dict({"low_dim": ["state"]})
    dataset = SequenceDataset(
        str(tmp_path / "demos.hdf5"), ["state"], ["actions"], hdf5_normalize_obs=True
    )
    with rc.StoreWriter(tmp_path / "store") as writer:
        for values in rows.values():
            with writer.episode() as episode:
                episode.add("state", np.arange(len(values)) * 20_000_000, values)
    ours = rc.Normalizer.from_store(
        rc.EpisodeStore(tmp_path / "store"), {"state": "mean_std"}, preset="robomimic"
    )
    expected = np.concatenate([dataset[i]["obs"]["state"] for i in range(len(dataset))])
    got = ours.normalize("state", np.concatenate(list(rows.values())))
    # robomimic adds up in float32, here of numbers as large as 2e5: its own error.
    np.testing.assert_allclose(got[:, :6], expected[:, :6], rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(got[:, 6:], expected[:, 6:], atol=0.02)
