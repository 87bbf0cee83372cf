"""Augmentations of published training codes, by name."""

from __future__ import annotations

from robocache.image.steps import (
    AugmentStep,
    CameraDropout,
    ColorJitter,
    PresetName,
    RandomAffine,
    RandomBrightness,
    RandomCrop,
    RandomResizedCrop,
    RandomRotation,
    RandomSharpness,
    RandomSubset,
)

_WRIST = "wrist"
"""Cameras with this in their name have no geometric steps in openpi and octo."""


def preset_steps(name: PresetName, camera: str) -> tuple[AugmentStep, ...]:
    """The steps of a preset for a camera. docs/augmentation.md compares them with their sources."""
    is_wrist = _WRIST in camera
    if name == "openpi":
        return _openpi(is_wrist)
    if name == "octo":
        return _octo(is_wrist)
    return _lerobot() if name == "lerobot" else _diffusion_policy()


def _openpi(is_wrist: bool) -> tuple[AugmentStep, ...]:
    """openpi, src/openpi/models_pytorch/preprocessing_pytorch.py, of 224 x 224 pixels."""
    geometry = (
        # int(224 * 0.95) pixels; without augmentation, the whole image.
        RandomCrop(212 / 224, centered=False),
        RandomRotation(5),
    )
    colors = (ColorJitter(brightness=0.3), ColorJitter(contrast=0.4), ColorJitter(saturation=0.5))
    return colors if is_wrist else (*geometry, *colors)


def _octo(is_wrist: bool) -> tuple[AugmentStep, ...]:
    """octo, scripts/configs/octo_pretrain_config.py, and dlimp/augmentations.py."""
    colors = (
        RandomBrightness(0.1),
        ColorJitter(contrast=(0.9, 1.1)),
        ColorJitter(saturation=(0.9, 1.1)),
        ColorJitter(hue=0.05),
        CameraDropout(0.5),
    )
    return colors if is_wrist else (RandomResizedCrop((0.8, 1.0), (0.9, 1.1)), *colors)


def _lerobot() -> tuple[AugmentStep, ...]:
    """LeRobot, src/lerobot/datasets/transforms.py: the defaults of ImageTransformsConfig."""
    steps = (
        ColorJitter(brightness=(0.8, 1.2)),
        ColorJitter(contrast=(0.8, 1.2)),
        ColorJitter(saturation=(0.5, 1.5)),
        ColorJitter(hue=(-0.05, 0.05)),
        RandomSharpness((0.5, 1.5)),
        RandomAffine((-5.0, 5.0), translate=(0.05, 0.05)),
    )
    return (RandomSubset(steps, n=3),)


def _diffusion_policy() -> tuple[AugmentStep, ...]:
    """diffusion_policy, model/vision/crop_randomizer.py: 76 of 84 pixels, centered in evaluation.

    The configuration is config/train_diffusion_unet_hybrid_workspace.yaml.
    """
    return (RandomCrop(76 / 84),)
