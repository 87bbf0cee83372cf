"""The presets' formulas beside each library's own, written down anew in plain NumPy.

tests/parity compares with LeRobot and robomimic themselves. openpi and diffusion_policy are in no
package index; their sources are named where their formulas are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import robocache as rc
from robocache.store.statistics import StreamStatistics
from robocache.store.stream_info import StatisticsSummary, summary_of

Formula = Callable[[np.ndarray, np.ndarray], np.ndarray]

# Rows that statistics are of: plain ones, tiny and huge ones, some without a spread.
ROWS = np.random.default_rng(5).normal(size=(501, 9)).astype(np.float32)
ROWS *= np.float32([1, 1e-2, 3e4, 1, 2e-5, 1e-3, 1, 1, 1])
ROWS += np.float32([0, 10, -2e5, 0, 0, 0, 0, 0, 0])
ROWS[:, 6:] = np.float32([0, 0.7, -123.4])
SPREAD = slice(0, 6)  # the others are constant


def lerobot(mode: str) -> Formula:
    """huggingface/lerobot 0.4, lerobot/processor/normalize_processor.py, _apply_transform."""

    def normalize(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        if mode == "mean_std":
            return (x - rows.mean(0)) / (rows.std(0) + 1e-8)
        ranks = {"min_max": (0, 1), "quantiles": (0.01, 0.99), "quantile10": (0.1, 0.9)}[mode]
        low, high = np.quantile(rows, ranks, axis=0)
        width = np.where(high == low, 1e-8, high - low)
        return 2 * (x - low) / width - 1

    return normalize


def openpi(mode: str) -> Formula:
    """Physical-Intelligence/openpi, src/openpi/transforms.py, Normalize."""

    def normalize(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        if mode == "mean_std":
            return (x - rows.mean(0)) / (rows.std(0) + 1e-6)
        low, high = np.quantile(rows, (0.01, 0.99), axis=0)
        return (x - low) / (high - low + 1e-6) * 2 - 1

    return normalize


def robomimic(mode: str) -> Formula:
    """ARISE-Initiative/robomimic, robomimic/utils/dataset.py: SequenceDataset.normalize_obs of
    0.3 for mean_std, action_stats_to_normalization_stats of master for min_max."""

    def normalize(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        if mode == "mean_std":
            return (x - rows.mean(0)) / (rows.std(0) + 1e-3)
        low, width = rows.min(0), np.ptp(rows, 0)
        is_narrow = width < 1e-4
        width = np.where(is_narrow, 2 * 0.999999, width)
        scale = width / (2 * 0.999999)
        offset = np.where(is_narrow, low, low + scale * 0.999999)
        return (x - offset) / scale

    return normalize


def diffusion_policy(mode: str) -> Formula:
    """real-stanford/diffusion_policy, diffusion_policy/model/common/normalizer.py, _fit."""

    def normalize(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        if mode == "mean_std":
            std = rows.std(0, ddof=1)
            scale = 1 / np.where(std < 1e-4, 1, std)
            return x * scale - rows.mean(0) * scale
        low, width = rows.min(0), np.ptp(rows, 0)
        is_narrow = width < 1e-4
        scale = np.where(is_narrow, 1, 2 / np.where(is_narrow, 1, width))
        return x * scale + np.where(is_narrow, -low, -1 - scale * low)

    return normalize


ORIGINALS: list[tuple[str, str, Formula]] = [
    *(("lerobot", m, lerobot(m)) for m in ("mean_std", "min_max", "quantiles", "quantile10")),
    *(("openpi", m, openpi(m)) for m in ("mean_std", "quantiles")),
    *(("robomimic", m, robomimic(m)) for m in ("mean_std", "min_max")),
    *(("diffusion_policy", m, diffusion_policy(m)) for m in ("mean_std", "min_max")),
]


def summary(rows: np.ndarray) -> StatisticsSummary:
    statistics = StreamStatistics("F32" if rows.dtype == np.float32 else "F64", rows.shape[1:])
    statistics.update(rows)
    return summary_of(statistics.summary())


@pytest.mark.parametrize(("preset", "mode", "original"), ORIGINALS)
def test_as_the_original(preset: Any, mode: Any, original: Formula) -> None:
    """To float64's precision, of rows that statistics are of and of others."""
    rows = ROWS.astype(np.float64)
    subtract, multiply = rc.normalization(summary(rows), mode, preset)
    x = np.concatenate([rows, rows[::-1] * 1.3 + 0.1])[:, SPREAD]
    got = (x - subtract[SPREAD]) * multiply[SPREAD]
    expected = original(x, rows[:, SPREAD])
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("preset", "mode", "original"), ORIGINALS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_constant_channels_as_the_original(
    preset: Any, mode: Any, original: Formula, dtype: Any
) -> None:
    """Their value becomes the same number, in float32 too, and near that number their value."""
    rows = ROWS.astype(np.float64)
    scale = rc.normalization(summary(rows), mode, preset)
    normalizer = rc.Normalizer({"x": scale})
    x = rows.astype(dtype)
    got = normalizer.normalize("x", x)[:, 6:]
    assert got.dtype == dtype
    if mode != "mean_std":  # whose mean of equal values may be a rounding error off
        expected = original(rows, rows)[:, 6:]
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)
    guess = normalizer.normalize("x", x) + dtype(1e-3)
    back = normalizer.unnormalize("x", guess)[:, 6:]
    wide = 1.1e-3 if (preset, mode) != ("lerobot", "mean_std") else 1e-4
    np.testing.assert_allclose(back, rows[:, 6:], rtol=2e-7, atol=wide)


def test_lerobots_constant_channels_stay_put() -> None:
    """Constant channels keep their value for any output of the policy, as in LeRobot."""
    normalizer = rc.Normalizer({"x": rc.normalization(summary(ROWS), "min_max", "lerobot")})
    guess = np.random.default_rng(0).uniform(-1, 1, (50, 9)).astype(np.float32)
    back = normalizer.unnormalize("x", guess)[:, 6:]
    np.testing.assert_allclose(back, np.broadcast_to(ROWS[0, 6:], back.shape), rtol=3e-7, atol=1e-8)


def test_torchs_deviation_is_a_samples() -> None:
    """diffusion_policy divides by torch.std, whose divisor is one less than the count."""
    rows = ROWS[:5, :1].astype(np.float64)
    _, multiply = rc.normalization(summary(rows), "mean_std", "diffusion_policy")
    assert multiply[0] == pytest.approx(1 / float(torch.from_numpy(rows).std()), rel=1e-12)


@pytest.mark.parametrize("preset", ["robocache", "lerobot", "openpi", "robomimic"])
def test_identity(preset: Any) -> None:
    subtract, multiply = rc.normalization(summary(ROWS), "identity", preset)
    assert not subtract.any() and (multiply == 1).all()


def test_channels_without_values_stay_as_they_are() -> None:
    rows = np.full((4, 2), np.nan)
    rows[:, 0] = [1, 2, 3, 4]
    for preset, mode, _ in ORIGINALS:
        subtract, multiply = rc.normalization(summary(rows), mode, preset)  # type: ignore[arg-type]
        assert (subtract[1], multiply[1]) == (0, 1)
        assert multiply[0] != 1


@pytest.mark.parametrize(
    ("mode", "preset", "message"),
    [
        ("min_max", "LeRobot", "preset: expected robocache, lerobot, openpi, robomimic or "
         "diffusion_policy, got 'LeRobot'"),
        ("min_max", None, "preset: expected robocache, lerobot, openpi, robomimic or "
         "diffusion_policy, got None"),
        ("min_max", "openpi",
         "mode: expected mean_std, quantiles or identity of preset openpi, got 'min_max'"),
        ("quantiles", "robomimic",
         "mode: expected mean_std, min_max or identity of preset robomimic, got 'quantiles'"),
        ("max", "lerobot",
         "mode: expected mean_std, min_max, quantiles, quantile10 or identity, got 'max'"),
    ],
)  # fmt: skip
def test_errors(mode: Any, preset: Any, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        rc.normalization(summary(ROWS), mode, preset)
    assert str(error.value) == message
