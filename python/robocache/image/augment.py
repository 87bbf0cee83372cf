"""The value of ``Loader(augment=...)`` as plans of the cameras."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from robocache.core.display import short
from robocache.image.plan import AugmentPlan, make_plan
from robocache.image.presets import preset_steps
from robocache.image.steps import (
    PRESETS,
    Augment,
    AugmentStep,
    CameraDropout,
    PresetName,
    RandomCrop,
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
    augment: Augmentations | None, cameras: Sequence[str], *, seed: int
) -> dict[str, CameraAugment]:
    """The random steps of each camera that has some.

    Args:
        augment: The loader's option.
        cameras: The names of the streams whose windows are color images.
        seed: The loader's seed.

    Raises:
        TypeError, ValueError: `augment: expected ..., got ...`, or `augment[camera]: ...`.
    """
    if augment is None:
        return {}
    cameras = sorted(set(cameras))
    if not isinstance(augment, Mapping):
        if not cameras:
            raise ValueError(
                "augment: expected a window of color images, got none (augmentation is for uint8 "
                "images of 1 or 3 channels)"
            )
        wanted: dict[str, Any] = dict.fromkeys(cameras, augment)
    else:
        wanted = dict(augment)
        for name in wanted:
            if name not in cameras:
                known = ", ".join(map(repr, cameras)) or "none"
                raise ValueError(
                    f"augment: expected cameras among {known}, got {short(name)} (augmentation is "
                    "for uint8 images of 1 or 3 channels)"
                )
    parsed = {}
    for name in cameras:
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
                steps,
                seed=seed,
                camera=name,
                dropout_cameras=dropout,
                per_frame=per_frame,
            ),
        )
        for name, (option, steps, per_frame) in parsed.items()
    }


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
