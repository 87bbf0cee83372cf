"""Distributions of the geometric steps: 100,000 draws against their definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from augmentations import (
    DRAWS,
    Floats,
    drawn_of,
    expect_alike,
    expect_frequencies,
    expect_independent,
    expect_rate,
    expect_uniform,
    maps_of,
)

import robocache as rc

WIDTH, HEIGHT = 320, 240


def map_of(step: Any, **options: Any) -> Floats:
    return maps_of(drawn_of([step], size=(HEIGHT, WIDTH), **options))


def places(maps: Floats, x: float, y: float) -> Floats:
    """The positions [count,2] in the source of an output position."""
    return maps @ np.array([x, y, 1.0])


def test_a_crop_lies_anywhere() -> None:
    maps = map_of(rc.RandomCrop(0.9))
    assert np.allclose(maps[:, :, :2], 0.9 * np.eye(2))
    x, y = maps[:, 0, 2], maps[:, 1, 2]
    expect_uniform(x, 0, 0.1 * WIDTH)
    expect_uniform(y, 0, 0.1 * HEIGHT)
    expect_independent(x, y)


def test_a_crops_scale_is_uniform() -> None:
    maps = map_of(rc.RandomCrop((0.5, 0.8)))
    expect_uniform(maps[:, 0, 0], 0.5, 0.8)
    assert np.array_equal(maps[:, 0, 0], maps[:, 1, 1])
    room = 1 - maps[:, 0, 0]
    expect_uniform(maps[:, 0, 2] / (room * WIDTH), 0, 1)
    expect_independent(maps[:, 0, 0], maps[:, 1, 2] / room)


def test_a_crop_in_the_sources_resolution_takes_whole_pixels() -> None:
    maps = maps_of(drawn_of([rc.RandomCrop(76 / 84)], size=(76, 76), source=(84, 84)))
    assert np.array_equal(maps[:, :, :2], np.broadcast_to(np.eye(2), (DRAWS, 2, 2)))
    for axis in (0, 1):
        expect_frequencies(np.bincount(maps[:, axis, 2].astype(int)), np.full(9, 1 / 9))
        assert np.array_equal(maps[:, axis, 2], np.floor(maps[:, axis, 2]))


def test_a_crop_in_another_resolution_begins_between_pixels() -> None:
    maps = maps_of(drawn_of([rc.RandomCrop(76 / 84)], size=(76, 76), source=(84, 90)))
    expect_uniform(maps[:, 0, 2], 0, 90 * 8 / 84)
    expect_uniform(maps[:, 1, 2], 0, 8)


def test_resized_crops() -> None:
    maps = map_of(rc.RandomResizedCrop((0.1, 0.4), (0.8, 1.5)))
    width, height = WIDTH * maps[:, 0, 0], HEIGHT * maps[:, 1, 1]
    expect_uniform(width * height / (WIDTH * HEIGHT), 0.1, 0.4)
    expect_uniform(np.log(width / height), math.log(0.8), math.log(1.5))
    expect_independent(width * height, width / height)
    expect_uniform(maps[:, 0, 2] / (WIDTH - width), 0, 1)
    expect_uniform(maps[:, 1, 2] / (HEIGHT - height), 0, 1)


def test_resized_crops_that_do_not_fit_are_cut_off() -> None:
    maps = map_of(rc.RandomResizedCrop((1.0, 1.0), (4.0, 4.0)))
    assert np.all(maps[:, 0, 0] == 1)
    assert np.allclose(maps[:, 1, 1], math.sqrt(WIDTH * HEIGHT / 4) / HEIGHT)
    assert np.all(maps[:, 0, 2] == 0)


@pytest.mark.parametrize(("degrees", "low", "high"), [(30, -30, 30), ((-180, 180), -180, 180)])
def test_rotations(degrees: Any, low: float, high: float) -> None:
    maps = map_of(rc.RandomRotation(degrees))
    expect_uniform(np.degrees(np.arctan2(maps[:, 1, 0], maps[:, 0, 0])), low, high)
    center = places(maps, WIDTH / 2, HEIGHT / 2)
    assert np.allclose(center, [WIDTH / 2, HEIGHT / 2], atol=1e-3)
    lengths = np.linalg.norm(maps[:, :, :2], axis=1)
    assert np.allclose(lengths, 1, atol=1e-6)


def test_a_rotation_by_a_positive_angle_is_counterclockwise() -> None:
    maps = map_of(rc.RandomRotation((90, 90)), count=1)
    # The top of the output is the right of the source.
    top = places(maps, WIDTH / 2, HEIGHT / 2 - 10)[0]
    assert np.allclose(top, [WIDTH / 2 + 10, HEIGHT / 2], atol=1e-3)


def torchvision_affine(degrees: Floats, translate: Floats, scale: Floats, shear: Floats) -> Floats:
    """Maps [count,2,3] of output to source: the inverse of T C L C^-1.

    T is the translation and C that to the center; torchvision's _get_inverse_affine_matrix has L,
    the rotation, scale and shear, as the matrix [[a, b], [c, d]].
    """
    count = len(degrees)

    def matrices(rows: Any) -> Floats:
        return np.stack([np.stack(np.broadcast_arrays(*row, np.zeros(count))[:3], -1)
                         for row in rows], 1)  # fmt: skip

    angle, shear_x, shear_y = np.radians(degrees), np.radians(shear[:, 0]), np.radians(shear[:, 1])
    cosine, sine = np.cos(angle), np.sin(angle)
    scaling = matrices([(scale, 0, 0), (0, scale, 0), (0, 0, 1)])
    a = np.cos(angle - shear_y) / np.cos(shear_y)
    b = -np.cos(angle - shear_y) * np.tan(shear_x) / np.cos(shear_y) - sine
    c = np.sin(angle - shear_y) / np.cos(shear_y)
    d = -np.sin(angle - shear_y) * np.tan(shear_x) / np.cos(shear_y) + cosine
    linear = matrices([(a, b, 0), (c, d, 0), (0, 0, 1)]) @ scaling
    center = matrices([(1, 0, WIDTH / 2), (0, 1, HEIGHT / 2), (0, 0, 1)])
    moved = matrices([(1, 0, translate[:, 0]), (0, 1, translate[:, 1]), (0, 0, 1)])
    forward = moved @ center @ linear @ np.linalg.inv(center)
    return np.asarray(np.linalg.inv(forward)[:, :2])


def test_affine_maps() -> None:
    step = rc.RandomAffine(20, translate=(0.1, 0.2), scale=(0.8, 1.25), shear=(-5, 10, -3, 8))
    maps = map_of(step)
    random = np.random.default_rng(0)
    expected = torchvision_affine(
        random.uniform(-20, 20, DRAWS),
        random.uniform((-0.1 * WIDTH, -0.2 * HEIGHT), (0.1 * WIDTH, 0.2 * HEIGHT), (DRAWS, 2)),
        random.uniform(0.8, 1.25, DRAWS),
        random.uniform((-5, -3), (10, 8), (DRAWS, 2)),
    )
    for row in range(2):
        for column in range(3):
            expect_alike(maps[:, row, column], expected[:, row, column])
    for x, y in ((0, 0), (WIDTH, 0), (30, HEIGHT)):
        expect_alike(places(maps, x, y)[:, 0], places(expected, x, y)[:, 0])
        expect_alike(places(maps, x, y)[:, 1], places(expected, x, y)[:, 1])


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({"degrees": (25, 25)}, (25, 0, 0, 1, 0, 0)),
        ({"degrees": 0, "translate": (0.1, 0.2)}, None),
        ({"degrees": 0, "scale": (1.3, 1.3)}, (0, 0, 0, 1.3, 0, 0)),
        ({"degrees": 0, "shear": (12, 12)}, (0, 0, 0, 1, 12, 0)),
        ({"degrees": (10, 10), "scale": (2, 2), "shear": (7, 7, -4, -4)}, (10, 0, 0, 2, 7, -4)),
    ],
)
def test_affine_maps_are_those_of_torchvision(options: Any, values: Any) -> None:
    maps = map_of(rc.RandomAffine(**options))
    if values is None:
        expect_uniform(maps[:, 0, 2], -0.1 * WIDTH, 0.1 * WIDTH)
        expect_uniform(maps[:, 1, 2], -0.2 * HEIGHT, 0.2 * HEIGHT)
        return
    degrees, x, y, scale, shear_x, shear_y = (np.array([float(each)]) for each in values)
    expected = torchvision_affine(
        degrees, np.stack([x, y], 1), scale, np.stack([shear_x, shear_y], 1)
    )
    assert np.allclose(maps[0], expected[0], rtol=1e-5, atol=1e-3)


def test_flips() -> None:
    maps = map_of(rc.RandomHorizontalFlip(0.3))
    flipped = maps[:, 0, 0] == -1
    expect_rate(flipped, 0.3)
    assert np.all(maps[flipped, 0, 2] == WIDTH)
    assert np.all(maps[~flipped] == [[1, 0, 0], [0, 1, 0]])
    assert map_of(rc.RandomHorizontalFlip(1.0))[:, 0, 0].max() == -1
    assert map_of(rc.RandomHorizontalFlip(0.0))[:, 0, 0].min() == 1


def test_steps_apply_to_the_result_of_those_before_them() -> None:
    crop = rc.RandomCrop((0.5, 0.5))
    maps = maps_of(drawn_of([crop, rc.RandomRotation((90, 90))], size=(HEIGHT, WIDTH)))
    cropped = map_of(crop)
    # The rotation turns the crop about its center.
    middle = (WIDTH / 2, HEIGHT / 2)
    assert np.allclose(places(maps, *middle), places(cropped, *middle), atol=1e-3)
    assert np.allclose(maps[:, :, :2], [[0, -0.5], [0.5, 0]], atol=1e-6)


def test_maps_begin_with_the_deterministic_geometry() -> None:
    drawn = drawn_of([rc.RandomHorizontalFlip(1.0)], size=(100, 200), source=(300, 400), count=1)
    assert np.allclose(drawn.map[0, 0], [[-2, 0, 400], [0, 3, 0]])
