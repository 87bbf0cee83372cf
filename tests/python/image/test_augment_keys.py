"""Draws depend on the seed, the epoch, the sample and the camera, and on nothing else."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from augmentations import drawn_of, expect_independent, expect_uniform
from loader_reference import GOLDEN, MASK64, mix64

import robocache as rc
from robocache.image.augment import parse_augment
from robocache.image.drawn import DrawnAugmentation, draw
from robocache.image.plan import AugmentPlan, Geometry, camera_hash, set_geometry
from robocache.image.spec import ImageSpec

STEPS = [
    rc.RandomCrop((0.8, 1.0)),
    rc.ColorJitter(0.3, 0.4, 0.5, 0.1),
    rc.RandomErasing(0.7),
    rc.GaussianNoise((0.0, 0.1)),
    rc.CameraDropout(0.5),
]
CAMERAS = ("front", "top", "wrist")


def plan_of(camera: str = "front", seed: int = 3, augment: Any = STEPS) -> AugmentPlan:
    plan = parse_augment(augment, dict.fromkeys(CAMERAS, 3), seed=seed)[camera].plan
    plan.geometry = Geometry((1, 0, 0, 0, 1, 0), (0, 0, 224, 224), 224, 224)
    return plan


def same(one: DrawnAugmentation, other: DrawnAugmentation) -> bool:
    return all(np.array_equal(vars(one)[name], vars(other)[name]) for name in vars(one))


def extended(key: int, number: int) -> int:
    return mix64((key + (number + 1) * GOLDEN) & MASK64)


def test_a_draw_is_the_documented_function() -> None:
    seed, epoch, dataset, episode, frame, camera = 5, 2, 1, 17, 1234, "observation.images.top"
    plan = parse_augment(
        [rc.RandomHorizontalFlip(0.0), rc.RandomRotation(30)], {camera: 3}, seed=seed
    )
    plan[camera].plan.geometry = Geometry((1, 0, 0, 0, 1, 0), (0, 0, 9, 9), 9, 9)
    drawn = draw(
        plan[camera].plan,
        epoch=epoch,
        dataset_index=dataset,
        episode_index=episode,
        frame_index=frame,
    )
    key = mix64(seed + GOLDEN)
    for number in (epoch, dataset, episode, frame, camera_hash(camera)):
        key = extended(key, number)
    u = (extended(key, 1 * 32 + 0) >> 11) / 2**53
    angle = math.radians(-30) + u * math.radians(60)
    assert math.isclose(drawn.map[0, 1, 0], math.sin(angle), abs_tol=1e-7)


def test_the_hash_of_a_camera_is_that_of_fnv() -> None:
    assert camera_hash("") == 0xCBF29CE484222325
    assert camera_hash("foobar") == 0x85944171F73967E8


def test_draws_do_not_depend_on_the_batch() -> None:
    random = np.random.default_rng(0)
    episode, frame = random.integers(0, 100, (2, 500))
    dataset = random.integers(0, 3, 500)
    plan = plan_of()

    def draw_some(order: Any) -> DrawnAugmentation:
        return draw(
            plan,
            epoch=4,
            dataset_index=dataset[order],
            episode_index=episode[order],
            frame_index=frame[order],
            frames=2,
        )

    together = draw_some(np.arange(500))
    order = random.permutation(500)
    shuffled = draw_some(order)
    assert same(shuffled, DrawnAugmentation(**{k: v[order] for k, v in vars(together).items()}))
    # As three ranks with batches of 7 take them.
    for rank in range(3):
        mine = np.arange(rank, 500, 3)
        for begin in range(0, len(mine), 7):
            batch = mine[begin : begin + 7]
            expected = {k: v[batch] for k, v in vars(together).items()}
            assert same(draw_some(batch), DrawnAugmentation(**expected))


def test_draws_do_not_depend_on_other_cameras() -> None:
    steps = STEPS[:-1]  # camera dropout does, by its purpose
    alone = drawn_of(steps, camera="top", cameras=["top"], count=100)
    among = drawn_of({"front": "octo", "top": steps}, camera="top", cameras=CAMERAS, count=100)
    assert same(alone, among)


def test_draws_of_a_step_do_not_depend_on_those_before() -> None:
    one = drawn_of([rc.RandomRotation(5), rc.ColorJitter(0.3)], count=100)
    other = drawn_of([rc.RandomErasing(0.5), rc.ColorJitter(0.3)], count=100)
    assert np.array_equal(one.color_factors, other.color_factors)


def rotations(**options: Any) -> Any:
    drawn = drawn_of([rc.RandomRotation(5)], frames=1, **options)
    return drawn.map[:, 0, 1, 0]


@pytest.mark.parametrize(
    "other",
    [{"seed": 2}, {"epoch": 1}, {"camera": "top"}, {"camera": "frons"}],
    ids=str,
)
def test_draws_of_another_key_are_independent(other: Any) -> None:
    options = {"cameras": ("front", "top", "frons")}
    expect_independent(rotations(**options), rotations(**options, **other))


def test_neighbors_are_independent() -> None:
    values = rotations()  # episodes of 500 frames
    expect_independent(values[:-1], values[1:])
    expect_independent(values[:-500], values[500:])


def test_data_sets_are_independent() -> None:
    plan = plan_of(augment=[rc.RandomRotation(5)])
    index = np.arange(10_000)
    one, other = (
        draw(plan, epoch=0, dataset_index=each, episode_index=0, frame_index=index).map
        for each in (0, 1)
    )
    expect_independent(one[:, 0, 1, 0], other[:, 0, 1, 0])


def test_frames_of_a_window_share_their_draws_unless_asked() -> None:
    drawn = drawn_of(STEPS, count=1000, frames=3)
    for name, values in vars(drawn).items():
        assert np.array_equal(values[:, 0], values[:, 2]) != (name == "noise_key"), name
    own = drawn_of(rc.Augment(STEPS, per_frame=True), count=1000, frames=3)
    assert not np.array_equal(own.map[:, 0], own.map[:, 2])
    assert np.array_equal(own.dropped[:, 0], own.dropped[:, 2])
    rotation = [rc.RandomRotation(5)]
    angles = drawn_of(rc.Augment(rotation, per_frame=True), frames=2).map[:, :, 1, 0]
    expect_independent(angles[:, 0], angles[:, 1])
    expect_uniform(np.degrees(np.arcsin(angles.astype(np.float64))), -5, 5)


@pytest.mark.parametrize(
    ("spec", "size", "expected"),
    [
        (ImageSpec(), (240, 320), [[1, 0, 0], [0, 1, 0]]),
        (ImageSpec((120, 80)), (120, 80), [[4, 0, 0], [0, 2, 0]]),
        (ImageSpec((224, 224), "pad"), (224, 224), [[320 / 224, 0, 0], [0, 240 / 168, -40]]),
        (ImageSpec((120, 120), "crop"), (120, 120), [[2, 0, 40], [0, 2, 0]]),
        (ImageSpec(crop=(10, 20, 100, 200)), (100, 200), [[1, 0, 20], [0, 1, 10]]),
        # Random steps take the place of the centered counterpart.
        (ImageSpec(center=0.5), (240, 320), [[1, 0, 0], [0, 1, 0]]),
    ],
)
def test_the_geometry_of_a_window(spec: ImageSpec, size: Any, expected: Any) -> None:
    plan = plan_of(augment=[rc.ColorJitter(0.1)])
    set_geometry(plan, spec, 240, 320)
    assert (plan.geometry.height, plan.geometry.width) == size
    drawn = draw(plan, epoch=0, episode_index=0, frame_index=0)
    assert np.allclose(drawn.map[0], expected, atol=1e-4)


def test_a_geometry_that_does_not_fit() -> None:
    with pytest.raises(ValueError, match=r"^spec\.crop: expected "):
        set_geometry(plan_of(), ImageSpec(crop=(0, 0, 300, 100)), 240, 320)


def test_indices_broadcast() -> None:
    drawn = draw(
        plan_of(), epoch=0, episode_index=np.arange(2)[:, None], frame_index=[[1, 2, 3]], frames=4
    )
    assert drawn.map.shape == (2, 3, 4, 2, 3)
    assert drawn.color_steps.shape == (2, 3, 4, 8)
    assert drawn.erase.shape == (2, 3, 4, 4)
    assert drawn.dropped.shape == (2, 3, 4)
    one = draw(plan_of(), epoch=0, episode_index=1, frame_index=2, frames=4)
    assert np.array_equal(one.map, drawn.map[1, 1])
    empty = draw(plan_of(), epoch=0, episode_index=[], frame_index=[])
    assert empty.map.shape == (0, 1, 2, 3)


def test_colors_are_listed_by_name() -> None:
    steps = [rc.ColorJitter(contrast=(0.5, 0.5)), rc.RandomGrayscale(1.0)]
    drawn = drawn_of(steps, count=2)
    assert drawn.colors(1, 0) == [("contrast", 0.5), ("grayscale", 1.0)]
    assert np.isnan(drawn.factor("hue")).all()
    known = "'brightness', 'contrast', 'saturation', 'hue', 'gamma', 'grayscale', 'shift'"
    message = f"name: expected one of {known}, got 'none'"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        drawn.factor("none")
