"""Presets against the published code: 100,000 draws of each, and of a model of that code.

Each model draws what the published code draws, with NumPy; docs/augmentation.md names the
differences in the formulas that apply the parameters.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from augmentations import (
    DRAWS,
    drawn_of,
    expect_alike,
    expect_frequencies,
    expect_independent,
    expect_rate,
    expect_uniform,
    maps_of,
)

from robocache.image.augment import parse_augment
from robocache.image.drawn import COLOR_STEPS
from robocache.image.steps import PRESETS

SIDE = 224


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(11)


def order_of(drawn: Any) -> list[str]:
    """The color steps, which are the same of each draw."""
    assert np.all(drawn.color_steps == drawn.color_steps[0, 0])
    return [name for name, _ in drawn.colors(0, 0)]


def test_openpi(random: np.random.Generator) -> None:
    """preprocess_observation_pytorch: randint and rand in its order."""
    drawn = drawn_of("openpi")
    crop = int(SIDE * 0.95)
    angle = np.radians(random.random(DRAWS) * 10 - 5)
    maps = maps_of(drawn)
    sine, cosine = maps[:, 1, 0], maps[:, 0, 0]
    expect_alike(np.arctan2(sine, cosine), angle)
    assert np.allclose(np.hypot(sine, cosine), crop / SIDE, atol=1e-6)
    # The published start is a whole number, 0 to 12; here it is any number between.
    center = maps @ np.array([SIDE / 2, SIDE / 2, 1.0])
    expect_uniform(center[:, 0] - crop / 2, 0, SIDE - crop)
    expect_uniform(center[:, 1] - crop / 2, 0, SIDE - crop)
    expect_independent(center[:, 0], center[:, 1])
    assert order_of(drawn) == ["brightness", "contrast", "saturation"]
    expect_alike(drawn.factor("brightness"), 0.7 + random.random(DRAWS) * 0.6)
    expect_alike(drawn.factor("contrast"), 0.6 + random.random(DRAWS) * 0.8)
    expect_alike(drawn.factor("saturation"), 0.5 + random.random(DRAWS) * 1.0)
    expect_independent(drawn.factor("brightness"), drawn.factor("contrast"))
    assert np.all(drawn.sharpness == 1)
    assert not drawn.dropped.any()


def test_openpi_leaves_the_geometry_of_wrist_cameras() -> None:
    camera = "left_wrist_0_rgb"
    drawn = drawn_of("openpi", camera=camera, cameras=[camera, "base_0_rgb"])
    assert np.all(drawn.map == [[1, 0, 0], [0, 1, 0]])
    assert order_of(drawn) == ["brightness", "contrast", "saturation"]


def test_octo(random: np.random.Generator) -> None:
    """dlimp's random_resized_crop, and tf.image's random_..., with the values of the config."""
    drawn = drawn_of("octo", cameras=["front", "wrist"], size=(256, 256))
    scale = random.uniform(0.8, 1.0, DRAWS)
    ratio = np.exp(random.uniform(np.log(0.9), np.log(1.1), DRAWS))
    heights = np.clip(np.sqrt(scale / ratio), 0, 1)
    widths = np.clip(np.sqrt(scale * ratio), 0, 1)
    maps = maps_of(drawn)
    # Sides that were cut off are equal to 1: a test of samples with ties.
    expect_alike(maps[:, 0, 0], widths)
    expect_alike(maps[:, 1, 1], heights)
    expect_alike(maps[:, 0, 0] * maps[:, 1, 1], widths * heights)
    expect_alike(maps[:, 0, 2] / 256, random.uniform(0, 1 - widths))
    expect_alike(maps[:, 1, 2] / 256, random.uniform(0, 1 - heights))
    assert order_of(drawn) == ["shift", "contrast", "saturation", "hue"]
    expect_alike(drawn.factor("shift"), random.uniform(-0.1, 0.1, DRAWS))
    expect_alike(drawn.factor("contrast"), random.uniform(0.9, 1.1, DRAWS))
    expect_alike(drawn.factor("saturation"), random.uniform(0.9, 1.1, DRAWS))
    expect_alike(drawn.factor("hue"), random.uniform(-0.05, 0.05, DRAWS))


def test_octo_drops_cameras(random: np.random.Generator) -> None:
    """image_dropout: one camera is kept, each other one dropped where rand <= 0.5."""
    cameras = ["primary", "secondary", "wrist"]
    dropped = np.stack(
        [drawn_of("octo", camera=each, cameras=cameras).dropped[:, 0] for each in cameras], 1
    )
    always = random.integers(0, 3, DRAWS)[:, None] == np.arange(3)
    expected = ~(always | (random.random((DRAWS, 3)) > 0.5))
    numbers = np.array([1, 2, 4])
    counts = np.bincount(dropped @ numbers, minlength=8)
    probabilities = np.array([1 / 4, 1 / 6, 1 / 6, 1 / 12, 1 / 6, 1 / 12, 1 / 12, 0])
    assert counts[7] == 0
    expect_frequencies(counts[:7], probabilities[:7])
    expect_frequencies(np.bincount(expected @ numbers, minlength=8)[:7], probabilities[:7])


def test_octo_leaves_the_geometry_of_wrist_cameras() -> None:
    drawn = drawn_of("octo", camera="image_wrist", cameras=["image_wrist"])
    assert np.all(drawn.map == [[1, 0, 0], [0, 1, 0]])
    assert not drawn.dropped.any(), "the only camera was dropped"


def test_lerobot(random: np.random.Generator) -> None:
    """ImageTransformsConfig: 3 of 6 steps in their order, with uniform parameters."""
    drawn = drawn_of("lerobot")
    factors = {name: drawn.factor(name) for name in ("brightness", "contrast", "saturation", "hue")}
    applied = [np.isfinite(each)[:, 0] for each in factors.values()]
    applied.append(drawn.sharpness[:, 0] != 1)
    maps = maps_of(drawn)
    applied.append(~np.all(maps == [[1, 0, 0], [0, 1, 0]], axis=(1, 2)))
    chosen = np.stack(applied, 1)
    assert np.all(chosen.sum(1) == 3)
    sets = list(itertools.combinations(range(6), 3))
    counts = [np.all(chosen[:, list(each)], 1).sum() for each in sets]
    expect_frequencies(counts, np.full(20, 1 / 20))
    for name, low, high in (
        ("brightness", 0.8, 1.2),
        ("contrast", 0.8, 1.2),
        ("saturation", 0.5, 1.5),
        ("hue", -0.05, 0.05),
    ):
        values = factors[name][np.isfinite(factors[name])]
        expect_alike(values, random.uniform(low, high, DRAWS))
    expect_alike(drawn.sharpness[chosen[:, 4]], random.uniform(0.5, 1.5, DRAWS))
    moved = maps[chosen[:, 5]]
    angles = np.degrees(np.arctan2(moved[:, 0, 1], moved[:, 0, 0]))
    expect_alike(angles, random.uniform(-5, 5, DRAWS))
    # torchvision rounds translations to whole pixels; here they are any number between.
    linear = moved[:, :, :2]
    center = np.array([SIDE / 2, SIDE / 2])
    shifts = center - np.linalg.solve(linear, (center - moved[:, :, 2])[:, :, None])[:, :, 0]
    for axis in (0, 1):
        expect_uniform(shifts[:, axis], -0.05 * SIDE, 0.05 * SIDE)
    # The color steps keep their order.
    steps = drawn.color_steps.astype(int)
    steps[steps == 0] = len(COLOR_STEPS)
    assert np.all(np.diff(steps, axis=-1) >= 0)


def test_diffusion_policy() -> None:
    """CropRandomizer: 76 of 84 pixels.

    It never takes the last place, 8, since it draws `(8 * rand).long()`; torchvision does.
    """
    maps = maps_of(drawn_of("diffusion_policy", size=(76, 76), source=(84, 84)))
    assert np.all(maps[:, :, :2] == np.eye(2))
    counts = np.zeros((9, 9), int)
    np.add.at(counts, (maps[:, 0, 2].astype(int), maps[:, 1, 2].astype(int)), 1)
    expect_frequencies(counts, np.full(81, 1 / 81))


@pytest.mark.parametrize(
    ("preset", "center"),
    [("openpi", 1.0), ("octo", 1.0), ("lerobot", 1.0), ("diffusion_policy", 76 / 84)],
)
def test_evaluation_is_as_published(preset: str, center: float) -> None:
    assert parse_augment(preset, {"front": 3}, seed=0)["front"].center == center


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_have_docstrings_with_their_source(preset: str) -> None:
    from robocache.image import presets

    text = getattr(presets, f"_{preset}").__doc__
    assert ".py" in text


def test_expect_rate_can_fail() -> None:
    with pytest.raises(AssertionError):
        expect_rate(np.arange(DRAWS) % 10 < 4, 0.41)
