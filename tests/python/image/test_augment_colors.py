"""Distributions of the other steps: 100,000 draws against their definitions."""

from __future__ import annotations

import itertools
import math
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
)

import robocache as rc
from robocache.image.drawn import COLOR_STEPS

HEIGHT, WIDTH = 240, 320


@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation"])
@pytest.mark.parametrize(
    ("value", "low", "high"), [(0.3, 0.7, 1.3), (1.5, 0.0, 2.5), ((0.8, 0.9), 0.8, 0.9)]
)
def test_factors(name: str, value: Any, low: float, high: float) -> None:
    drawn = drawn_of([rc.ColorJitter(**{name: value})])
    expect_uniform(drawn.factor(name), low, high)
    assert np.all(drawn.color_steps[..., 1:] == 0)


@pytest.mark.parametrize(("value", "low", "high"), [(0.1, -0.1, 0.1), ((0.2, 0.5), 0.2, 0.5)])
def test_hues(value: Any, low: float, high: float) -> None:
    expect_uniform(drawn_of([rc.ColorJitter(hue=value)]).factor("hue"), low, high)


def test_a_jitters_order_and_factors_are_independent() -> None:
    drawn = drawn_of([rc.ColorJitter(0.3, 0.4, 0.5, 0.1)])
    names = ("brightness", "contrast", "saturation", "hue")
    orders = [tuple(order) for order in drawn.color_steps[:, 0, :4]]
    indices = [COLOR_STEPS.index(name) for name in names]
    counts = [orders.count(order) for order in itertools.permutations(indices)]
    expect_frequencies(counts, np.full(24, 1 / 24))
    for name, (low, high) in zip(
        names, [(0.7, 1.3), (0.6, 1.4), (0.5, 1.5), (-0.1, 0.1)], strict=True
    ):
        expect_uniform(drawn.factor(name), low, high)
    for one, other in itertools.combinations(names, 2):
        expect_independent(drawn.factor(one), drawn.factor(other))
    expect_independent(drawn.factor("hue"), drawn.color_steps[:, 0, 0])


def test_a_jitter_leaves_out_what_changes_nothing() -> None:
    drawn = drawn_of([rc.ColorJitter(contrast=0.5, hue=0.1)], count=1000)
    assert set(np.unique(drawn.color_steps)) == {0, 2, 4}
    assert drawn_of([rc.ColorJitter()], count=1).colors(0, 0) == []


def test_added_brightness() -> None:
    expect_uniform(drawn_of([rc.RandomBrightness(0.1)]).factor("shift"), -0.1, 0.1)


def test_exponents() -> None:
    factors = drawn_of([rc.RandomGamma((0.5, 4.0), p=0.25)]).factor("gamma")
    is_applied = np.isfinite(factors)
    expect_rate(is_applied, 0.25)
    expect_uniform(np.log(factors[is_applied]), math.log(0.5), math.log(4.0))


def test_grayscale() -> None:
    drawn = drawn_of([rc.RandomGrayscale(0.1)])
    expect_rate(drawn.color_steps[..., 0] == COLOR_STEPS.index("grayscale"), 0.1)


def test_gray_images_have_no_steps_without_effect() -> None:
    steps = [
        rc.ColorJitter(0.3, 0.3, 0.3, 0.1),
        rc.RandomGrayscale(1.0),
        rc.RandomSubset([rc.RandomGrayscale(1.0), rc.RandomGamma(p=1.0)], 1),
        rc.RandomRotation(5),
    ]
    gray, color = drawn_of(steps, channels=1), drawn_of(steps)
    for name in ("saturation", "hue", "grayscale"):
        assert np.isnan(gray.factor(name)).all()
        assert np.isfinite(color.factor(name)).any()
    for name in ("brightness", "contrast", "gamma"):
        assert np.array_equal(gray.factor(name), color.factor(name), equal_nan=True)
    assert np.array_equal(gray.map, color.map)


@pytest.mark.parametrize(
    ("sharpness", "low", "high"), [(0.5, 0.5, 1.5), ((0.2, 3.0), 0.2, 3.0), (2, 0.0, 3.0)]
)
def test_sharpness(sharpness: Any, low: float, high: float) -> None:
    expect_uniform(drawn_of([rc.RandomSharpness(sharpness)]).sharpness, low, high)


def test_noise() -> None:
    drawn = drawn_of([rc.GaussianNoise(0.05)], frames=2, count=1000)
    assert np.all(drawn.noise == np.float32(0.05))
    assert len(np.unique(drawn.noise_key)) == 2000, "frames share noise"
    expect_uniform(drawn_of([rc.GaussianNoise((0.01, 0.1))]).noise, 0.01, 0.1)


def torchvision_rectangles(
    scale: tuple[float, float], ratio: tuple[float, float], count: int
) -> Any:
    """(top, left, height, width) of `count` draws by the method of torchvision's RandomErasing."""
    random = np.random.default_rng(5)
    made = []
    for _ in range(count):
        rectangle = (0, 0, 0, 0)
        for _ in range(10):
            area = HEIGHT * WIDTH * random.uniform(*scale)
            aspect = math.exp(random.uniform(math.log(ratio[0]), math.log(ratio[1])))
            height, width = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if height < HEIGHT and width < WIDTH:
                top = random.integers(0, HEIGHT - height + 1)
                left = random.integers(0, WIDTH - width + 1)
                rectangle = (top, left, height, width)
                break
        made.append(rectangle)
    return np.array(made)


@pytest.mark.parametrize(("scale", "ratio"), [((0.02, 0.33), (0.3, 3.3)), ((0.5, 1.0), (0.5, 6.0))])
def test_erased_rectangles(scale: tuple[float, float], ratio: tuple[float, float]) -> None:
    step = rc.RandomErasing(1.0, scale, ratio, value=(0.1, 0.2, 0.3))
    drawn = drawn_of([step], size=(HEIGHT, WIDTH))
    expected = torchvision_rectangles(scale, ratio, DRAWS // 4)
    for i in range(4):
        expect_alike(drawn.erase[:, 0, i], expected[:, i])
    top, left, height, width = drawn.erase[:, 0].T
    assert top.min() >= 0
    assert left.min() >= 0
    assert (top + height).max() <= HEIGHT
    assert (left + width).max() <= WIDTH
    is_erased = height > 0
    assert np.all(drawn.erase_value[is_erased, 0] == np.float32([0.1, 0.2, 0.3]))


def test_the_probability_of_erasing() -> None:
    drawn = drawn_of([rc.RandomErasing(0.5)])
    expect_rate(drawn.erase[..., 2] > 0, 0.5)


# ---- subsets -------------------------------------------------------------------------------------

FACTORS = [0.1, 0.2, 0.3, 0.4]


def subset_draws(**options: Any) -> list[tuple[int, ...]]:
    """The indices of the applied steps of each draw, in their order."""
    steps = [rc.ColorJitter(brightness=(each, each)) for each in FACTORS]
    drawn = drawn_of([rc.RandomSubset(steps, **options)])
    n = options["n"]
    assert np.all(drawn.color_steps[:, 0, :n] == 1)
    assert np.all(drawn.color_steps[:, 0, n:] == 0)
    factors = drawn.color_factors[:, 0, :n]
    return [tuple(row) for row in np.rint(factors * 10).astype(int) - 1]


def probability(order: tuple[int, ...], weights: list[float]) -> float:
    """The probability of a sequence of draws without replacement, as torch.multinomial's."""
    left, product = sum(weights), 1.0
    for i in order:
        product *= weights[i] / left
        left -= weights[i]
    return product


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 0.5, 4.0]])
def test_subsets(n: int, weights: list[float] | None) -> None:
    drawn = subset_draws(n=n, weights=weights)
    sets = list(itertools.combinations(range(4), n))
    assert set(drawn) <= set(sets), "not in the order of the list"
    expected = [
        sum(probability(order, weights or [1.0] * 4) for order in itertools.permutations(each))
        for each in sets
    ]
    expect_frequencies([drawn.count(each) for each in sets], expected)


def test_a_subset_of_all_steps() -> None:
    assert set(subset_draws(n=4, weights=[1.0, 2.0, 0.5, 4.0])) == {(0, 1, 2, 3)}


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 0.5, 4.0]])
def test_subsets_in_the_order_of_their_draws(weights: list[float] | None) -> None:
    drawn = subset_draws(n=3, weights=weights, random_order=True)
    orders = list(itertools.permutations(range(4), 3))
    expected = [probability(each, weights or [1.0] * 4) for each in orders]
    expect_frequencies([drawn.count(each) for each in orders], expected)


def test_steps_of_a_subset_keep_their_probability() -> None:
    steps = [rc.RandomGrayscale(0.5), rc.RandomHorizontalFlip(0.2)]
    drawn = drawn_of([rc.RandomSubset(steps, n=1)])
    expect_rate(drawn.color_steps[..., 0] > 0, 0.25)
    expect_rate(drawn.map[..., 0, 0] < 0, 0.1)


# ---- camera dropout ------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("p", [0.5, 1.0])
def test_camera_dropout_keeps_one(count: int, p: float) -> None:
    cameras = [f"camera_{i}" for i in range(count)]
    dropped = np.stack(
        [
            drawn_of([rc.CameraDropout(p)], camera=each, cameras=cameras, frames=2).dropped
            for each in cameras
        ]
    )
    assert np.array_equal(dropped[..., 0], dropped[..., 1]), "frames of a window differ"
    kept = ~dropped[..., 0]
    assert kept.any(0).all()
    # One camera is drawn to be kept; each other one is dropped with probability p.
    for i in range(count):
        expect_rate(~kept[i], p * (count - 1) / count)
    if p == 1:
        assert np.all(kept.sum(0) == 1)
    elif count == 3:
        counts = np.bincount(kept.sum(0), minlength=4)[1:]
        expect_frequencies(counts, [0.25, 0.5, 0.25])


def test_camera_dropout_is_among_the_cameras_that_have_it() -> None:
    steps = {"a": [rc.CameraDropout(1.0)], "b": [rc.CameraDropout(1.0)], "c": [rc.RandomCrop(0.9)]}
    dropped = [
        drawn_of(steps, camera=each, cameras=list(steps), count=1000).dropped for each in steps
    ]
    assert np.array_equal(dropped[0], ~dropped[1])
    assert not dropped[2].any()
