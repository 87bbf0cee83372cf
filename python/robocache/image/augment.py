"""The value of ``Loader(augment=...)`` as plans of the cameras."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from robocache.core.display import short
from robocache.image.plan import AugmentPlan, make_plan
from robocache.image.presets import preset_steps
from robocache.image.steps import (
    PRESETS,
    Augment,
    AugmentStep,
    CameraDropout,
    ColorJitter,
    PresetName,
    RandomCrop,
    RandomGrayscale,
    RandomSubset,
    check_steps,
)

CameraSteps: TypeAlias = Sequence[AugmentStep] | PresetName | Augment
Augmentations: TypeAlias = CameraSteps | Mapping[str, CameraSteps | None]
"""The steps of all cameras, or of each; a name is a preset. None: a camera's images stay."""


@dataclass(frozen=True)
class CameraAugment:
    """The random steps of a camera."""

    steps: tuple[AugmentStep, ...]
    per_frame: bool
    plan: AugmentPlan
    """The steps as the library reads them."""

    @property
    def center(self) -> float:
        """`ImageSpec.center`, which batches without augmentation have in place of the crops."""
        center = 1.0
        for step in self.steps:
            if isinstance(step, RandomCrop) and step.centered:
                low, high = step.scale_range
                center *= (low + high) / 2
        return center


def parse_augment(
    augment: Augmentations | None, cameras: Mapping[str, int], *, seed: int
) -> dict[str, CameraAugment]:
    """The random steps of each camera that has some.

    Args:
        augment: The loader's option.
        cameras: The channels, 1 or 3, of the streams whose windows are uint8 images, by name.
            Of one channel, steps that change no gray image are left out: saturation, hue and
            grayscale.
        seed: The loader's seed.

    Raises:
        TypeError, ValueError: `augment: expected ..., got ...`, or `augment[camera]: ...`.
    """
    if augment is None:
        return {}
    names = sorted(cameras)
    if not isinstance(augment, Mapping):
        if not names:
            raise ValueError(
                "augment: expected a window of color images, got none (augmentation is for uint8 "
                "images of 1 or 3 channels)"
            )
        wanted: dict[str, Any] = dict.fromkeys(names, augment)
    else:
        wanted = dict(augment)
        for name in wanted:
            if name not in cameras:
                known = ", ".join(map(repr, names)) or "none"
                raise ValueError(
                    f"augment: expected cameras among {known}, got {short(name)} (augmentation is "
                    "for uint8 images of 1 or 3 channels)"
                )
    parsed = {}
    for name in names:
        given = wanted.get(name)
        if given is not None:
            option = f"augment[{name!r}]" if isinstance(augment, Mapping) else "augment"
            steps, per_frame = _steps_of(option, given, name)
            if steps:
                parsed[name] = option, steps, per_frame
    dropout = [
        name
        for name, (_, steps, _) in parsed.items()
        if any(isinstance(step, CameraDropout) for step in steps)
    ]
    return {
        name: CameraAugment(
            steps,
            per_frame,
            make_plan(
                option,
                steps if cameras[name] > 1 else [_of_gray(step) for step in steps],
                seed=seed,
                camera=name,
                dropout_cameras=dropout,
                per_frame=per_frame,
            ),
        )
        for name, (option, steps, per_frame) in parsed.items()
    }


def _of_gray(step: AugmentStep) -> AugmentStep:
    """A step of images of one channel: without what changes no gray image, as in torchvision."""
    if isinstance(step, RandomSubset):
        return replace(step, steps=tuple(map(_of_gray, step.steps)))
    if isinstance(step, ColorJitter):
        return replace(step, saturation=0.0, hue=0.0)
    return ColorJitter() if isinstance(step, RandomGrayscale) else step


def _steps_of(option: str, given: Any, camera: str) -> tuple[tuple[AugmentStep, ...], bool]:
    """A camera's steps, and whether they are drawn for each frame."""
    per_frame = False
    if isinstance(given, Augment):
        given, per_frame = given.steps, given.per_frame
    if isinstance(given, str):
        if given not in PRESETS:
            raise ValueError(
                f"{option}: expected one of the presets {', '.join(map(repr, PRESETS))}, or a list "
                f"of steps, got {given!r}"
            )
        return preset_steps(given, camera), per_frame
    if isinstance(given, AugmentStep):
        raise TypeError(f"{option}: expected a list of augmentation steps, got {given!r}")
    check_steps(option, given)
    return tuple(given), per_frame
