"""Draws of augmentation steps for tests of their distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from robocache.image.augment import parse_augment
from robocache.image.drawn import DrawnAugmentation, draw
from robocache.image.plan import Geometry

Floats = NDArray[np.float64]

DRAWS = 100_000
LEAST_P = 1e-3
"""Draws are the same on every run, so that a test that passes keeps passing."""


def drawn_of(
    augment: Any,
    *,
    camera: str = "front",
    cameras: Sequence[str] = ("front",),
    channels: int = 3,
    size: tuple[int, int] = (224, 224),
    source: tuple[int, int] | None = None,
    seed: int = 1,
    epoch: int = 0,
    count: int = DRAWS,
    frames: int = 1,
) -> DrawnAugmentation:
    """The parameters of `count` samples: arrays [count, frames].

    Args:
        augment: The loader's option.
        camera: The camera.
        cameras: All cameras of the loader.
        channels: Of all cameras.
        size: (height, width) of the output.
        source: (height, width) of the images that are stretched to it; None: as `size`.
        seed: The loader's seed.
        epoch: The epoch.
        count: The number of samples.
        frames: The frames of a sample's window.
    """
    plan = parse_augment(augment, dict.fromkeys(cameras, channels), seed=seed)[camera].plan
    (height, width), (source_height, source_width) = size, source or size
    scale = (source_width / width, 0, 0, 0, source_height / height, 0)
    plan.geometry = Geometry(scale, (0, 0, source_width, source_height), height, width)
    index = np.arange(count)
    return draw(
        plan, epoch=epoch, episode_index=index // 500, frame_index=index % 500, frames=frames
    )


def maps_of(drawn: DrawnAugmentation) -> Floats:
    """The maps [count,2,3] of the first frames."""
    return drawn.map[:, 0].astype(np.float64)


def expect_uniform(values: Any, low: float, high: float) -> None:
    """Fails if values aren't uniform between limits, by a Kolmogorov-Smirnov test."""
    values = np.asarray(values, np.float64).ravel()
    slack = 1e-5 * max(abs(low), abs(high), 1)
    assert values.min() >= low - slack, values.min()
    assert values.max() <= high + slack, values.max()
    assert stats.kstest(values, stats.uniform(low, high - low).cdf).pvalue > LEAST_P


def expect_alike(values: Any, expected: Any) -> None:
    """Fails if two samples differ in distribution, by a two-sample Kolmogorov-Smirnov test."""
    assert stats.ks_2samp(np.ravel(values), np.ravel(expected)).pvalue > LEAST_P


def expect_rate(happened: Any, probability: float) -> None:
    """Fails if an event doesn't happen with a probability, by a binomial test."""
    happened = np.ravel(happened)
    result = stats.binomtest(int(happened.sum()), len(happened), probability)
    assert result.pvalue > LEAST_P, happened.mean()


def expect_frequencies(counts: Any, probabilities: Any) -> None:
    """Fails if counts don't fit probabilities, by a chi-square test."""
    counts, probabilities = np.ravel(counts), np.ravel(probabilities)
    assert stats.chisquare(counts, probabilities * counts.sum()).pvalue > LEAST_P, counts


def expect_independent(one: Any, other: Any) -> None:
    """Fails if the ranks of two samples correlate."""
    assert stats.spearmanr(np.ravel(one), np.ravel(other)).pvalue > LEAST_P
