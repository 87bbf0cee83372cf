"""rc.Normalizer from the files and statistics of other libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loader_stores import write_store
from normalizing import make
from support import assert_near

import robocache as rc

LEROBOT = {
    "action": {"min": [-1.0, 0.0], "max": [1.0, 4.0], "mean": [0.25, 2.0], "std": [0.5, 1.0],
               "q01": [-0.9, 0.1], "q99": [0.9, 3.9], "q25": [0.0, 1.0], "count": [100]},
    "observation.images.top": {"mean": [[[0.5]], [[0.4]], [[0.3]]],
                               "std": [[[0.2]], [[0.2]], [[0.1]]], "count": [100]},
    "timestamp": {"min": [0.0], "max": [9.9], "mean": [5.0], "std": [2.9], "count": [100]},
}  # fmt: skip
OPENPI = {
    "norm_stats": {
        "state": {"mean": [0.0, 1.0], "std": [1.0, 2.0], "q01": None, "q99": None},
        "actions": {"mean": [0.5], "std": [0.25], "q01": [0.0], "q99": [1.0]},
    }
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("normalizer") / "store")


def test_a_lerobot_file(tmp_path: Path) -> None:
    (tmp_path / "meta").mkdir()
    file = tmp_path / "meta" / "stats.json"
    file.write_text(json.dumps(LEROBOT))
    modes: Any = {"action": "quantiles", "observation.images.top": "mean_std"}
    modes["timestamp"] = "min_max"
    for path in (file, tmp_path, str(tmp_path / "meta")):
        normalizer = rc.Normalizer.from_file(path, modes)
        pictures = normalizer.normalize("observation.images.top", np.ones((2, 3, 4, 4), np.float32))
        np.testing.assert_allclose(pictures[0, :, 0, 0], [2.5, 3, 7], rtol=1e-6)
        action = normalizer.normalize("action", torch.tensor([[-0.9, 3.9]]))
        np.testing.assert_allclose(action, [[-1, 1]], atol=1e-6)
        assert normalizer.normalize("timestamp", torch.tensor([9.9])).item() == pytest.approx(1)
    openpi = rc.Normalizer.from_file(file, {"action": "mean_std"}, preset="openpi")
    assert openpi.normalization["action"].multiply[0] == 1 / (0.5 + 1e-6)


def test_an_openpi_file(tmp_path: Path) -> None:
    (tmp_path / "norm_stats.json").write_text(json.dumps(OPENPI))
    normalizer = rc.Normalizer.from_file(tmp_path, {"state": "mean_std", "actions": "quantiles"})
    assert normalizer.normalization["state"].multiply.tolist() == [1 / (1 + 1e-6), 1 / (2 + 1e-6)]
    np.testing.assert_allclose(
        normalizer.normalize("actions", np.array([0.0, 1.0])), [-1, 1], atol=2.1e-6
    )


def test_the_episodes_of_a_lerobot_file(tmp_path: Path) -> None:
    """v2.1 has statistics of each episode: together those of all rows."""
    random = np.random.default_rng(0)
    parts = [random.normal(e, 1 + e, (10 + 7 * e, 3)) for e in range(4)]
    lines = [
        {"episode_index": e, "stats": {"action": {
            "min": rows.min(0).tolist(), "max": rows.max(0).tolist(),
            "mean": rows.mean(0).tolist(), "std": rows.std(0).tolist(), "count": [len(rows)]}}}
        for e, rows in enumerate(parts)
    ]  # fmt: skip
    file = tmp_path / "episodes_stats.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    rows = np.concatenate(parts)
    scale = rc.Normalizer.from_file(file, {"action": "mean_std"}).normalization["action"]
    np.testing.assert_allclose(scale.subtract, rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(scale.multiply, 1 / (rows.std(0) + 1e-8), rtol=1e-12)
    scale = rc.Normalizer.from_file(file, {"action": "min_max"}).normalization["action"]
    np.testing.assert_allclose(scale.subtract, (rows.min(0) + rows.max(0)) / 2, rtol=1e-12)
    with pytest.raises(ValueError, match="expected q01 and q99 for mode quantiles, got mean, std"):
        rc.Normalizer.from_file(file, {"action": "quantiles"})


def test_a_real_lerobot_data_set() -> None:
    root = Path(__file__).parents[4] / "shared" / "data" / "lerobot_v21_g1"
    if not root.is_dir():
        pytest.skip(f"{root} is not there")
    normalizer = rc.Normalizer.from_file(root, {"action": "min_max"})
    assert normalizer.normalization["action"].subtract.shape == (26,)


def test_statistics_of_lerobot_for_a_store_of_it(store: rc.EpisodeStore) -> None:
    """By LeRobot's own words a loader of a store gets LeRobot's picture: from 0 to 1."""
    statistics: Any = {"camera": LEROBOT["observation.images.top"]}
    normalizer = rc.Normalizer.from_statistics(statistics, {"camera": "mean_std"}, preset="lerobot")
    options: Any = {
        "delta_timestamps": {"camera": [0.0]},
        "anchor": "joints",
        "channels_first": True,
    }
    plain = make(store, **options).gather(range(40))["camera"]
    fused = make(store, normalize=normalizer, **options).gather(range(40))["camera"]
    assert_near(normalizer.normalize("camera", plain), fused, 1e-5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "expected JSON, got "),
        ("[1]", "expected statistics of LeRobot (of each feature mean, std, min, max) or openpi "
                "(norm_stats), got list of another form"),
        ('{"a": {"scale": [1]}}', "expected one of mean, std, min, max, q01, q10, q50, q90, q99 of "
                                  "a feature, got none"),
    ],
)  # fmt: skip
def test_foreign_files(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "stats.json"
    file.write_text(content)
    with pytest.raises(ValueError, match=r".") as error:
        rc.Normalizer.from_file(file, {})
    assert str(error.value).startswith(f"{file}: {message}")


def test_files_of_episodes_that_lack_something(tmp_path: Path) -> None:
    file = tmp_path / "episodes_stats.jsonl"
    for line, message in (
        ('{"episode_index": 0}', "line 1: expected the stats of an episode"),
        ('{"stats": {"a": {"mean": [0]}}}', "line 1: a: expected mean, std, min, max, count, got "
                                            "no std"),
        ("", "expected the statistics of at least 1 episode, got none"),
    ):  # fmt: skip
        file.write_text(line)
        with pytest.raises(ValueError, match=r".") as error:
            rc.Normalizer.from_file(tmp_path, {})
        assert str(error.value).startswith(f"{file}: {message}")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(FileNotFoundError, match=r"expected one of meta/stats\.json"):
        rc.Normalizer.from_file(empty, {})
