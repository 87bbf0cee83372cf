"""`AugmentPlan`: steps as the library reads them (include/robocache/augment.h), by ctypes."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from ctypes import c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_uint64, c_void_p
from enum import IntEnum
from typing import Any

from robocache.core import library as _library
from robocache.image.ranges import Range, range_around
from robocache.image.spec import RESIZE_MODES, ImageSpec
from robocache.image.steps import (
    MAX_DEGREES,
    AugmentStep,
    CameraDropout,
    ColorJitter,
    GaussianNoise,
    RandomAffine,
    RandomBrightness,
    RandomCrop,
    RandomErasing,
    RandomGamma,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    RandomSharpness,
    RandomSubset,
)

MAX_STEPS = 16
"""kMaxAugmentSteps."""
MAX_COLOR_STEPS = 8
"""kMaxColorSteps."""
_MAX_RANGES = 6


class Kind(IntEnum):
    """robocache::AugmentKind."""

    NONE = 0
    CROP = 1
    RESIZED_CROP = 2
    FLIP = 3
    ROTATION = 4
    AFFINE = 5
    JITTER = 6
    SHIFT = 7
    GAMMA = 8
    GRAYSCALE = 9
    SHARPNESS = 10
    NOISE = 11
    ERASE = 12
    DROPOUT = 13
    SUBSET = 14


class PlanStep(ctypes.Structure):
    """robocache::AugmentStep."""

    _fields_ = [
        ("kind", c_int32),
        ("mask", c_int32),
        ("count", c_int32),
        ("size", c_int32),
        ("random_order", c_int32),
        ("weight", c_float),
        ("probability", c_float),
        ("low", c_float * _MAX_RANGES),
        ("high", c_float * _MAX_RANGES),
    ]


class Geometry(ctypes.Structure):
    """robocache::AugmentGeometry."""

    _fields_ = [
        ("map", c_double * 6),
        ("bounds", c_float * 4),
        ("height", c_int32),
        ("width", c_int32),
    ]


class AugmentPlan(ctypes.Structure):
    """robocache::AugmentPlan."""

    _fields_ = [
        ("geometry", Geometry),
        ("seed", c_uint64),
        ("camera", c_uint64),
        ("camera_index", c_int32),
        ("cameras", c_int32),
        ("per_frame", c_int32),
        ("step_count", c_int32),
        ("steps", PlanStep * MAX_STEPS),
    ]


class Parameters(ctypes.Structure):
    """robocache::ImageParameters."""

    _fields_ = [
        ("map", c_float * 6),
        ("bounds", c_float * 4),
        ("colors", ctypes.c_uint8 * MAX_COLOR_STEPS),
        ("factors", c_float * MAX_COLOR_STEPS),
        ("means", c_float * MAX_COLOR_STEPS),
        ("sharpness", c_float),
        ("noise", c_float),
        ("noise_key", c_uint64),
        ("erase", c_int32 * 4),
        ("erase_value", c_float * 3),
        ("is_black", ctypes.c_uint32),
    ]


@functools.cache
def load() -> ctypes.CDLL:
    """The library, with the functions of bindings/torch/augment.cpp declared.

    Raises:
        ImportError: The library is missing, or of another version.
    """
    library = _library.load()
    structures: dict[str, type[ctypes.Structure]] = {
        "AugmentGeometry": Geometry,
        "AugmentStep": PlanStep,
        "AugmentPlan": AugmentPlan,
        "ImageParameters": Parameters,
    }
    _library.check_layout(library, "robocache_augment_layout", structures)
    library.robocache_check_augment.argtypes = [c_void_p, c_char_p]
    library.robocache_check_augment.restype = c_int
    library.robocache_set_augment_geometry.argtypes = [
        c_void_p, c_int32 * 2, c_int32, c_int32 * 4, c_int64, c_int64,
    ]  # fmt: skip
    library.robocache_set_augment_geometry.restype = c_int
    library.robocache_draw_augmentation.argtypes = [
        c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_void_p, c_int64, c_void_p,
    ]  # fmt: skip
    library.robocache_draw_augmentation.restype = c_int
    return library


def check_status(status: int) -> None:
    """Raises the exception of a status that is not 0."""
    if status:
        _library.raise_failure(status, load().robocache_error())


def set_geometry(plan: AugmentPlan, spec: ImageSpec, height: int, width: int) -> None:
    """Sets a plan's geometry to that of a window's spec.

    Args:
        plan: The plan.
        spec: The geometry of the window's images.
        height: Of the source images.
        width: Of the source images.

    Raises:
        ValueError: The spec does not fit the images.
    """
    check_status(
        load().robocache_set_augment_geometry(
            ctypes.byref(plan),
            (c_int32 * 2)(*(spec.size or (0, 0))),
            RESIZE_MODES.index(spec.mode),
            (c_int32 * 4)(*(spec.crop or (0, 0, 0, 0))),
            height,
            width,
        )
    )


def camera_hash(name: str) -> int:
    """The number of a camera, by which its draws differ from another's: FNV-1a of 64 bits."""
    number = 0xCBF29CE484222325
    for byte in name.encode(errors="surrogateescape"):
        number = (number ^ byte) * 0x100000001B3 % 2**64
    return number


def make_plan(
    name: str,
    steps: Sequence[AugmentStep],
    *,
    seed: int,
    camera: str,
    dropout_cameras: Sequence[str],
    per_frame: bool,
) -> AugmentPlan:
    """The plan of a camera's steps.

    Args:
        name: The option, for messages.
        steps: The steps in their order.
        seed: The loader's seed.
        camera: The camera's name.
        dropout_cameras: The names of the cameras that have a CameraDropout; one of them is kept.
        per_frame: Whether each frame of a window has draws of its own.

    Raises:
        ValueError: `<name>: expected ..., got ...`: there are too many steps.
    """
    encoded = [each for step in steps for each in _encode(step)]
    if len(encoded) > MAX_STEPS:
        raise ValueError(
            f"{name}: expected at most {MAX_STEPS} steps, where a RandomSubset counts as one more "
            f"than it has, got {len(encoded)}"
        )
    for kind in (RandomSharpness, GaussianNoise, RandomErasing, CameraDropout):
        count = sum(isinstance(step, kind) for step in _flat(steps))
        if count > 1:
            raise ValueError(f"{name}: expected at most one {kind.__name__}, got {count}")
    plan = AugmentPlan()
    plan.geometry = Geometry((1, 0, 0, 0, 1, 0), (0, 0, 0, 0), 0, 0)
    plan.seed = seed % 2**64
    plan.camera = camera_hash(camera)
    plan.cameras = 1
    if camera in dropout_cameras:
        plan.camera_index = list(dropout_cameras).index(camera)
        plan.cameras = len(dropout_cameras)
    plan.per_frame = per_frame
    plan.step_count = len(encoded)
    for i, each in enumerate(encoded):
        plan.steps[i] = each
    check_status(load().robocache_check_augment(ctypes.byref(plan), name.encode(errors="replace")))
    return plan


def _flat(steps: Sequence[AugmentStep]) -> list[AugmentStep]:
    flat: list[AugmentStep] = []
    for step in steps:
        flat += _flat(step.steps) if isinstance(step, RandomSubset) else [step]
    return flat


def _encode(step: AugmentStep) -> list[PlanStep]:
    encode = _ENCODERS.get(type(step))
    if encode is None:
        raise TypeError(f"expected a step of rc, got {type(step).__name__}")
    return encode(step)


def _step(kind: Kind, *ranges: Range, p: float = 1.0, mask: int = 0) -> list[PlanStep]:
    step = PlanStep(kind=kind, mask=mask, weight=1.0, probability=p)
    for i, (low, high) in enumerate(ranges):
        step.low[i], step.high[i] = low, high
    return [step]


def _logarithms(values: Range) -> Range:
    return math.log(values[0]), math.log(values[1])


def _radians(values: Range) -> Range:
    return math.radians(values[0]), math.radians(values[1])


def _rotation(degrees: Any) -> Range:
    return _radians(range_around("degrees", degrees, 0.0, -MAX_DEGREES, MAX_DEGREES, MAX_DEGREES))


def _affine(step: RandomAffine) -> list[PlanStep]:
    x, y = step.translate or (0.0, 0.0)
    shear_x, shear_y = step.shear_ranges
    return _step(
        Kind.AFFINE,
        _rotation(step.degrees),
        (-x, x),
        (-y, y),
        step.scale or (1.0, 1.0),
        _radians(shear_x),
        _radians(shear_y),
    )


def _jitter(step: ColorJitter) -> list[PlanStep]:
    mask = sum(1 << i for i, each in enumerate(step.ranges) if each is not None)
    return _step(Kind.JITTER, *(each or (0.0, 0.0) for each in step.ranges), mask=mask)


def _erase(step: RandomErasing) -> list[PlanStep]:
    colors = [(each, each) for each in step.color]
    return _step(Kind.ERASE, step.scale, _logarithms(step.ratio), *colors, p=step.p)


def _subset(step: RandomSubset) -> list[PlanStep]:
    inner = [_encode(each)[0] for each in step.steps]
    for i, weight in enumerate(step.weights or ()):
        inner[i].weight = weight
    (head,) = _step(Kind.SUBSET)
    head.count, head.size, head.random_order = step.n, len(inner), step.random_order
    return [head, *inner]


_ENCODERS: dict[type[AugmentStep], Callable[[Any], list[PlanStep]]] = {
    RandomCrop: lambda step: _step(Kind.CROP, step.scale_range),
    RandomResizedCrop: lambda step: _step(Kind.RESIZED_CROP, step.scale, _logarithms(step.ratio)),
    RandomRotation: lambda step: _step(Kind.ROTATION, _rotation(step.degrees)),
    RandomAffine: _affine,
    RandomHorizontalFlip: lambda step: _step(Kind.FLIP, p=step.p),
    ColorJitter: _jitter,
    RandomBrightness: lambda step: _step(Kind.SHIFT, (-step.max_delta, step.max_delta)),
    RandomGamma: lambda step: _step(Kind.GAMMA, _logarithms(step.gamma), p=step.p),
    RandomGrayscale: lambda step: _step(Kind.GRAYSCALE, p=step.p),
    RandomSharpness: lambda step: _step(Kind.SHARPNESS, step.sharpness_range),
    GaussianNoise: lambda step: _step(Kind.NOISE, step.std_range),
    RandomErasing: _erase,
    CameraDropout: lambda step: _step(Kind.DROPOUT, p=step.p),
    RandomSubset: _subset,
}
