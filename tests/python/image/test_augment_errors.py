"""Bad steps and bad values of ``Loader(augment=...)``: whole messages."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

import robocache as rc
from robocache.image.augment import parse_augment

NUMBER_OR_PAIR = "expected a number or a pair (low, high), got"


def check(make: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as error:
        make()
    assert type(error.value) is kind
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rc.RandomCrop(0), "scale: expected 0.001 to 1, got 0"),
        (lambda: rc.RandomCrop(1.5), "scale: expected 0.001 to 1, got 1.5"),
        (lambda: rc.RandomCrop(float("nan")), "scale: expected 0.001 to 1, got nan"),
        (lambda: rc.RandomCrop((0.9, 0.8)), "scale: expected low <= high, got (0.9, 0.8)"),
        (lambda: rc.RandomCrop((0.5, 2)), "scale[1]: expected 0.001 to 1, got 2"),
        (lambda: rc.RandomResizedCrop((0, 1)), "scale[0]: expected 0.001 to 1, got 0"),
        (
            lambda: rc.RandomResizedCrop((0.5, 1), (0, 1)),
            "ratio[0]: expected 0.0001 to 10000, got 0",
        ),
        (lambda: rc.RandomRotation(200), "degrees: expected 0 to 180, got 200"),
        (lambda: rc.RandomRotation(-5), "degrees: expected 0 to 180, got -5"),
        (lambda: rc.RandomRotation((5, -5)), "degrees: expected low <= high, got (5, -5)"),
        (lambda: rc.RandomRotation((-200, 5)), "degrees[0]: expected -180 to 180, got -200"),
        (lambda: rc.RandomAffine(5, translate=(0, 2)), "translate[1]: expected 0 to 1, got 2"),
        (lambda: rc.RandomAffine(5, scale=(0, 1)), "scale[0]: expected 0.001 to 10000, got 0"),
        (lambda: rc.RandomAffine(5, shear=90), "shear: expected 0 to 89, got 90"),
        (
            lambda: rc.RandomAffine(5, shear=(0, 1, -90, 0)),
            "shear[2:][0]: expected -89 to 89, got -90",
        ),
        (lambda: rc.RandomHorizontalFlip(1.1), "p: expected 0 to 1, got 1.1"),
        (lambda: rc.ColorJitter(brightness=-0.1), "brightness: expected 0 or more, got -0.1"),
        (lambda: rc.ColorJitter(contrast=(-1, 1)), "contrast[0]: expected 0 to 10000, got -1"),
        (lambda: rc.ColorJitter(hue=0.6), "hue: expected 0 to 0.5, got 0.6"),
        (lambda: rc.ColorJitter(hue=(-0.6, 0)), "hue[0]: expected -0.5 to 0.5, got -0.6"),
        (
            lambda: rc.ColorJitter(saturation=float("inf")),
            "saturation: expected 0 or more, got inf",
        ),
        (lambda: rc.RandomBrightness(2), "max_delta: expected 0 to 1, got 2"),
        (lambda: rc.RandomGamma((0, 1)), "gamma[0]: expected 0.0001 to 10000, got 0"),
        (lambda: rc.RandomGamma(p=-1), "p: expected 0 to 1, got -1"),
        (lambda: rc.RandomGrayscale(2), "p: expected 0 to 1, got 2"),
        (lambda: rc.RandomSharpness(-1), "sharpness: expected 0 or more, got -1"),
        (lambda: rc.GaussianNoise(-0.1), "std: expected 0 to 10000, got -0.1"),
        (lambda: rc.GaussianNoise((0.2, 0.1)), "std: expected low <= high, got (0.2, 0.1)"),
        (lambda: rc.RandomErasing(scale=(0, 2)), "scale[1]: expected 0 to 1, got 2"),
        (lambda: rc.RandomErasing(value=2), "value: expected 0 to 1, got 2"),
        (
            lambda: rc.RandomErasing(value=(0.1, 0.2)),  # type: ignore[arg-type]
            "value: expected a number or 3 of them, got (0.1, 0.2)",
        ),
        (lambda: rc.RandomErasing(value=(0, 0, -1)), "value[2]: expected 0 to 1, got -1"),
        (lambda: rc.CameraDropout(1.5), "p: expected 0 to 1, got 1.5"),
        (lambda: rc.RandomSubset([], 1), "steps: expected 1 or more, got 0"),
        (lambda: rc.RandomSubset([rc.RandomGrayscale()], 2), "n: expected 1 to 1, got 2"),
        (lambda: rc.RandomSubset([rc.RandomGrayscale()], 0), "n: expected 1 to 1, got 0"),
        (
            lambda: rc.RandomSubset([rc.RandomGrayscale()], 1, weights=[1, 2]),
            "weights: expected 1, one for each step, got 2",
        ),
        (
            lambda: rc.RandomSubset([rc.RandomGrayscale()], 1, weights=[0]),
            "weights[0]: expected 0.0001 to 10000, got 0",
        ),
        (
            lambda: rc.RandomSubset([rc.CameraDropout(0.5)], 1),
            "steps[0]: expected a step other than RandomSubset and CameraDropout, got "
            "CameraDropout",
        ),
    ],
)
def test_values(make: Callable[[], Any], message: str) -> None:
    check(make, ValueError, message)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rc.RandomCrop("0.9"), "scale: expected a number, got '0.9'"),
        (lambda: rc.RandomCrop(True), "scale: expected a number, got True"),
        (lambda: rc.RandomCrop((0.9, None)), "scale[1]: expected a number, got None"),
        (lambda: rc.RandomCrop(0.9, 1), "centered: expected a bool, got int"),
        (lambda: rc.RandomResizedCrop(0.9), "scale: expected a pair (low, high), got 0.9"),
        (lambda: rc.RandomRotation("x"), f"degrees: {NUMBER_OR_PAIR} 'x'"),
        (lambda: rc.RandomRotation((1, 2, 3)), "degrees: expected a pair (low, high), got "
         "(1, 2, 3)"),
        (lambda: rc.RandomAffine(5, translate=0.1), "translate: expected a pair (x, y), got 0.1"),
        (lambda: rc.RandomAffine(5, scale=1.1), "scale: expected a pair (low, high), got 1.1"),
        (lambda: rc.RandomAffine(5, shear="x"), f"shear: {NUMBER_OR_PAIR} 'x'"),
        (lambda: rc.ColorJitter(hue=None), f"hue: {NUMBER_OR_PAIR} None"),
        (lambda: rc.RandomGamma(1.5), "gamma: expected a pair (low, high), got 1.5"),
        (lambda: rc.RandomGrayscale("x"), "p: expected a number, got 'x'"),
        (lambda: rc.RandomErasing(value="random"), "value: expected a number, got 'random'"),
        (
            lambda: rc.RandomSubset(rc.RandomGrayscale(), 1),
            "steps: expected a list of augmentation steps, got RandomGrayscale(p=0.1)",
        ),
        (
            lambda: rc.RandomSubset([0.5], 1),
            "steps[0]: expected an augmentation step such as rc.RandomCrop(0.95), got 0.5",
        ),
        (
            lambda: rc.RandomSubset([rc.RandomGrayscale()], 1.0),
            "n: expected an int, got float",
        ),
        (
            lambda: rc.RandomSubset([rc.RandomGrayscale()], 1, weights=1.0),
            "weights: expected a list of numbers, got 1.0",
        ),
        (
            lambda: rc.Augment([rc.RandomGrayscale()], per_frame=1),
            "per_frame: expected a bool, got int",
        ),
        (lambda: rc.Augment(None), "steps: expected a list of augmentation steps, got None"),
    ],
)  # fmt: skip
def test_types(make: Callable[[], Any], message: str) -> None:
    check(make, TypeError, message)


GRAY = rc.RandomGrayscale()
FOR_IMAGES = "(augmentation is for uint8 images of 1 or 3 channels)"


@pytest.mark.parametrize(
    ("augment", "kind", "message"),
    [
        (
            "openvla",
            ValueError,
            "augment: expected one of the presets 'openpi', 'octo', 'lerobot', "
            "'diffusion_policy', or a list of steps, got 'openvla'",
        ),
        (
            {"front": rc.Augment("x")},  # type: ignore[arg-type]
            ValueError,
            "augment['front']: expected one of the presets 'openpi', 'octo', 'lerobot', "
            "'diffusion_policy', or a list of steps, got 'x'",
        ),
        (
            rc.RandomCrop(0.9),
            TypeError,
            "augment: expected a list of augmentation steps, got RandomCrop(scale=0.9, "
            "centered=True)",
        ),
        (
            {"front": [0.9]},
            TypeError,
            "augment['front'][0]: expected an augmentation step such as rc.RandomCrop(0.95), got "
            "0.9",
        ),
        (
            {"state": [GRAY]},
            ValueError,
            f"augment: expected cameras among 'front', 'wrist', got 'state' {FOR_IMAGES}",
        ),
        (0.5, TypeError, "augment: expected a list of augmentation steps, got 0.5"),
        (
            [GRAY] * 17,
            ValueError,
            "augment: expected at most 16 steps, where a RandomSubset counts as one more than it "
            "has, got 17",
        ),
        ([GRAY] * 9, ValueError, "augment: expected at most 8 color steps, got 9"),
        (
            {"wrist": [rc.GaussianNoise(), rc.RandomSubset([rc.GaussianNoise()], 1)]},
            ValueError,
            "augment['wrist']: expected at most one GaussianNoise, got 2",
        ),
        (
            [rc.CameraDropout(0.5), rc.CameraDropout(0.5)],
            ValueError,
            "augment: expected at most one CameraDropout, got 2",
        ),
    ],
)
def test_options(augment: Any, kind: type[Exception], message: str) -> None:
    check(lambda: parse_augment(augment, {"front": 3, "wrist": 3}, seed=0), kind, message)


def test_without_images() -> None:
    message = f"augment: expected a window of color images, got none {FOR_IMAGES}"
    check(lambda: parse_augment("octo", {}, seed=0), ValueError, message)
    message = f"augment: expected cameras among none, got 'front' {FOR_IMAGES}"
    check(lambda: parse_augment({"front": [GRAY]}, {}, seed=0), ValueError, message)
    assert parse_augment(None, {}, seed=0) == {}
    assert parse_augment({}, {}, seed=0) == {}


def test_cameras_without_steps() -> None:
    parsed = parse_augment(
        {"front": [GRAY], "wrist": None}, {"front": 3, "top": 3, "wrist": 3}, seed=0
    )
    assert list(parsed) == ["front"]
    assert parse_augment([], {"front": 3}, seed=0) == {}


def test_the_centered_counterpart() -> None:
    def center(*steps: Any) -> float:
        parsed = parse_augment([*steps, GRAY], {"front": 3}, seed=0)
        return parsed["front"].center

    assert center() == 1
    assert center(rc.RandomCrop(0.9)) == 0.9
    assert center(rc.RandomCrop((0.8, 1.0))) == 0.9
    assert center(rc.RandomCrop(0.5), rc.RandomRotation(5), rc.RandomCrop(0.5)) == 0.25
    assert center(rc.RandomCrop(0.9, centered=False)) == 1
    assert center(rc.RandomResizedCrop()) == 1
    # It is not always applied.
    assert center(rc.RandomSubset([rc.RandomCrop(0.9)], 1)) == 1


def test_steps_are_values() -> None:
    weights = [1.0, 2.0]
    subset = rc.RandomSubset([rc.RandomCrop(0.9), rc.RandomRotation([-1, 2])], 1, weights)
    weights[0] = 5.0
    assert subset.weights == (1.0, 2.0)
    assert subset == pickle.loads(pickle.dumps(subset))
    assert hash(subset) == hash(pickle.loads(pickle.dumps(subset)))
    assert repr(subset.steps[1]) == "RandomRotation(degrees=(-1, 2))"
