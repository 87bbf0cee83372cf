"""Random augmentation steps: ``Loader(augment=[rc.RandomCrop(0.95), ...])``.

The names and the meaning of arguments are those of torchvision's transforms v2 where it has such a
step. docs/augmentation.md defines each step and its order in the pass over an image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, get_args

from robocache.core.checks import check_bool, check_integer
from robocache.core.display import ShortRepr, short
from robocache.image.ranges import (
    Range,
    check_number,
    check_probability,
    check_range,
    frozen,
    is_pair,
    range_around,
)

PresetName: TypeAlias = Literal["openpi", "octo", "lerobot", "diffusion_policy"]
PRESETS: tuple[PresetName, ...] = get_args(PresetName)
"""The names of published augmentations, which presets.py has."""

MAX_DEGREES = 180.0
MAX_SHEAR = 89.0
MAX_FACTOR = 1e4
"""The largest factor of a color step, scale, ratio, exponent or weight."""
MIN_FACTOR = 1e-4
"""The smallest ratio, exponent or weight."""
MIN_SCALE = 1e-3
"""The smallest share of a side or area, and the smallest scale."""


class AugmentStep:
    """The base of all steps, which are frozen dataclasses."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            object.__setattr__(self, field.name, frozen(getattr(self, field.name)))
        self._check()

    def _check(self) -> None:
        """Raises TypeError or ValueError, `<option>: expected ..., got ...`, for a bad option."""
        raise NotImplementedError


# ---- geometry ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RandomCrop(AugmentStep):
    """Crops a part of the image at a random place, and enlarges it to the output's size.

    Example:
        >>> rc.RandomCrop(0.95)
        RandomCrop(scale=0.95, centered=True)
    """

    scale: float | tuple[float, float]
    """The crop's height and width over those of the image, 0.001 to 1; a pair (low, high) draws
    it."""
    centered: bool = True
    """Whether batches without augmentation (`gather`, data sets, policy specs) have the centered
    crop, of the mean scale; False: the whole image."""

    def _check(self) -> None:
        _ = self.scale_range
        check_bool("centered", self.centered)

    @property
    def scale_range(self) -> Range:
        """The lowest and the highest scale."""
        if is_pair(self.scale):
            return check_range("scale", self.scale, MIN_SCALE, 1)
        share = check_number("scale", self.scale, MIN_SCALE, 1)
        return share, share


@dataclass(frozen=True)
class RandomResizedCrop(AugmentStep):
    """Crops a part of random area and aspect ratio, and resizes it to the output's size.

    Example:
        >>> rc.RandomResizedCrop((0.8, 1.0), (0.9, 1.1))
        RandomResizedCrop(scale=(0.8, 1.0), ratio=(0.9, 1.1))
    """

    scale: tuple[float, float] = (0.08, 1.0)
    """The lowest and the highest share of the image's area, 0.001 to 1."""
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    """The lowest and the highest width over height of the crop, in pixels of the output; its
    logarithm is uniform. A side longer than the image's is cut off."""

    def _check(self) -> None:
        check_range("scale", self.scale, MIN_SCALE, 1)
        check_range("ratio", self.ratio, MIN_FACTOR, MAX_FACTOR)


@dataclass(frozen=True)
class RandomRotation(AugmentStep):
    """Rotates the image about its center; corners without source pixels are black.

    Example:
        >>> rc.RandomRotation(5)
        RandomRotation(degrees=5)
    """

    degrees: float | tuple[float, float]
    """The range in degrees, counterclockwise: a pair (low, high), or d for -d to d."""

    def _check(self) -> None:
        _degree_range(self.degrees)


@dataclass(frozen=True)
class RandomAffine(AugmentStep):
    """Rotates, shears, scales and translates the image about its center.

    Example:
        >>> rc.RandomAffine(5, translate=(0.05, 0.05))
        RandomAffine(degrees=5, translate=(0.05, 0.05), scale=None, shear=None)
    """

    degrees: float | tuple[float, float]
    """The range in degrees, clockwise: a pair (low, high), or d for -d to d."""
    translate: tuple[float, float] | None = None
    """The largest translation along x and y over the width and the height, 0 to 1, in either
    direction. None: none."""
    scale: tuple[float, float] | None = None
    """The lowest and the highest scale; above 1 enlarges. None: 1."""
    shear: float | tuple[float, float] | tuple[float, float, float, float] | None = None
    """The range of the shear along x in degrees: a pair (low, high), or s for -s to s; four
    numbers have the range along y too. None: none."""

    def _check(self) -> None:
        _degree_range(self.degrees)
        if self.translate is not None:
            if not is_pair(self.translate):
                raise TypeError(f"translate: expected a pair (x, y), got {short(self.translate)}")
            for i, each in enumerate(self.translate):
                check_number(f"translate[{i}]", each, 0, 1)
        if self.scale is not None:
            check_range("scale", self.scale, MIN_SCALE, MAX_FACTOR)
        _ = self.shear_ranges

    @property
    def shear_ranges(self) -> tuple[Range, Range]:
        """The ranges along x and y, in degrees."""
        none = (0.0, 0.0)
        if self.shear is None:
            return none, none
        if isinstance(self.shear, tuple) and len(self.shear) == 4:
            x, y = self.shear[:2], self.shear[2:]
            limits = -MAX_SHEAR, MAX_SHEAR
            return check_range("shear[:2]", x, *limits), check_range("shear[2:]", y, *limits)
        return range_around("shear", self.shear, 0.0, -MAX_SHEAR, MAX_SHEAR, MAX_SHEAR), none


@dataclass(frozen=True)
class RandomHorizontalFlip(AugmentStep):
    """Exchanges left and right.

    Actions and states are not mirrored: a policy that sees left as right needs a symmetric task.
    """

    p: float = 0.5
    """The probability."""

    def _check(self) -> None:
        check_probability(self.p)


# ---- color ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColorJitter(AugmentStep):
    """Changes brightness, contrast, saturation and hue, in random order.

    A number d draws a factor from max(0, 1 - d) to 1 + d, or a hue from -d to d; a pair (low, high)
    is the range itself. An option at its default changes nothing.

    Example:
        >>> rc.ColorJitter(brightness=0.3, contrast=(0.6, 1.4))
        ColorJitter(brightness=0.3, contrast=(0.6, 1.4), saturation=0.0, hue=0.0)
    """

    brightness: float | tuple[float, float] = 0.0
    """The factor of all values."""
    contrast: float | tuple[float, float] = 0.0
    """The factor of differences from the mean luma of the image."""
    saturation: float | tuple[float, float] = 0.0
    """The factor of differences from the luma of the pixel; 0 is gray."""
    hue: float | tuple[float, float] = 0.0
    """The rotation of the hue in turns, -0.5 to 0.5."""

    def _check(self) -> None:
        _ = self.ranges

    @property
    def ranges(self) -> tuple[Range | None, Range | None, Range | None, Range | None]:
        """The ranges of the four options in their order; None for those that change nothing."""
        brightness, contrast, saturation = (
            _unless(range_around(name, getattr(self, name), 1.0, 0.0, MAX_FACTOR), (1.0, 1.0))
            for name in ("brightness", "contrast", "saturation")
        )
        hue = _unless(range_around("hue", self.hue, 0.0, -0.5, 0.5, 0.5), (0.0, 0.0))
        return brightness, contrast, saturation, hue


@dataclass(frozen=True)
class RandomBrightness(AugmentStep):
    """Adds one number to all values of the image, as ``tf.image.random_brightness``.

    The brightness of :class:`ColorJitter` is a factor instead.
    """

    max_delta: float
    """The largest number that is added or subtracted, 0 to 1, where values are 0 to 1."""

    def _check(self) -> None:
        check_number("max_delta", self.max_delta, 0, 1)


@dataclass(frozen=True)
class RandomGamma(AugmentStep):
    """Raises all values, 0 to 1, to a random power; a power above 1 darkens."""

    gamma: tuple[float, float] = (0.75, 1.33)
    """The lowest and the highest exponent; its logarithm is uniform."""
    p: float = 0.5
    """The probability."""

    def _check(self) -> None:
        check_range("gamma", self.gamma, MIN_FACTOR, MAX_FACTOR)
        check_probability(self.p)


@dataclass(frozen=True)
class RandomGrayscale(AugmentStep):
    """Gives all channels the luma of the pixel."""

    p: float = 0.1
    """The probability."""

    def _check(self) -> None:
        check_probability(self.p)


# ---- other steps, in a fixed place of the pass ---------------------------------------------------


@dataclass(frozen=True)
class RandomSharpness(AugmentStep):
    """Smooths or sharpens the image, before all color steps, as LeRobot's ``SharpnessJitter``.

    At most one of a camera's steps is of this type.
    """

    sharpness: float | tuple[float, float]
    """The factor of torchvision's ``adjust_sharpness``: 0 smooths, 1 changes nothing, 2 sharpens. A
    number d draws it from max(0, 1 - d) to 1 + d; a pair (low, high) is the range itself."""

    def _check(self) -> None:
        _ = self.sharpness_range

    @property
    def sharpness_range(self) -> Range:
        """The lowest and the highest factor."""
        return range_around("sharpness", self.sharpness, 1.0, 0.0, MAX_FACTOR)


@dataclass(frozen=True)
class GaussianNoise(AugmentStep):
    """Adds Gaussian noise to each value of each frame, after all color steps.

    At most one of a camera's steps is of this type.
    """

    std: float | tuple[float, float] = 0.1
    """The standard deviation, where values are 0 to 1; a pair (low, high) draws it."""

    def _check(self) -> None:
        _ = self.std_range

    @property
    def std_range(self) -> Range:
        """The lowest and the highest standard deviation."""
        if is_pair(self.std):
            return check_range("std", self.std, 0, MAX_FACTOR)
        std = check_number("std", self.std, 0, MAX_FACTOR)
        return std, std


@dataclass(frozen=True)
class RandomErasing(AugmentStep):
    """Fills a random rectangle of the output with a color, after all other steps.

    A rectangle that does not fit is drawn again, up to ten times. At most one of a camera's steps
    is of this type.
    """

    p: float = 0.5
    """The probability."""
    scale: tuple[float, float] = (0.02, 0.33)
    """The lowest and the highest share of the image's area."""
    ratio: tuple[float, float] = (0.3, 3.3)
    """The lowest and the highest height over width; its logarithm is uniform."""
    value: float | tuple[float, float, float] = 0.0
    """The color, 0 to 1: a number, or one for each channel."""

    def _check(self) -> None:
        check_probability(self.p)
        check_range("scale", self.scale, 0, 1)
        check_range("ratio", self.ratio, MIN_FACTOR, MAX_FACTOR)
        _ = self.color

    @property
    def color(self) -> tuple[float, float, float]:
        """The values of three channels."""
        if not isinstance(self.value, tuple):
            gray = check_number("value", self.value, 0, 1)
            return gray, gray, gray
        if len(self.value) != 3:
            raise ValueError(f"value: expected a number or 3 of them, got {short(self.value)}")
        red, green, blue = (
            check_number(f"value[{i}]", each, 0, 1) for i, each in enumerate(self.value)
        )
        return red, green, blue


@dataclass(frozen=True)
class CameraDropout(AugmentStep):
    """Makes all pixels of a camera black; of the cameras that have this step, one is always kept.

    The kept camera is drawn with equal probability; each other one is dropped with probability
    `p`, as in octo. All frames of a window are dropped together.
    """

    p: float
    """The probability."""

    def _check(self) -> None:
        check_probability(self.p)


@dataclass(frozen=True, repr=False)
class RandomSubset(ShortRepr, AugmentStep):
    """Applies `n` of some steps, drawn without replacement, as LeRobot's ``RandomSubsetApply``.

    Example:
        >>> rc.RandomSubset([rc.ColorJitter(brightness=0.2), rc.RandomRotation(5)], n=1).n
        1
    """

    steps: Sequence[AugmentStep]
    """The steps; none is a RandomSubset or a CameraDropout."""
    n: int
    """The number of steps that are applied to an image."""
    weights: Sequence[float] | None = None
    """The weight of each step in a draw. None: equal ones."""
    random_order: bool = False
    """False: the steps are applied in their order; True: in the order in which they are drawn."""

    def _check(self) -> None:
        check_steps("steps", self.steps)
        for i, step in enumerate(self.steps):
            if isinstance(step, (RandomSubset, CameraDropout)):
                raise ValueError(
                    f"steps[{i}]: expected a step other than RandomSubset and CameraDropout, got "
                    f"{type(step).__name__}"
                )
        if not self.steps:
            raise ValueError("steps: expected 1 or more, got 0")
        check_integer("n", self.n, 1, len(self.steps))
        check_bool("random_order", self.random_order)
        if self.weights is None:
            return
        if not isinstance(self.weights, (list, tuple)):
            raise TypeError(f"weights: expected a list of numbers, got {short(self.weights)}")
        if len(self.weights) != len(self.steps):
            raise ValueError(
                f"weights: expected {len(self.steps)}, one for each step, got {len(self.weights)}"
            )
        for i, weight in enumerate(self.weights):
            check_number(f"weights[{i}]", weight, MIN_FACTOR, MAX_FACTOR)


@dataclass(frozen=True, repr=False)
class Augment(ShortRepr):
    """A camera's steps, or a preset's, with options for all of them.

    Example:
        >>> augment = {"front": rc.Augment("octo", per_frame=True)}
    """

    steps: Sequence[AugmentStep] | PresetName
    """The steps in their order, or the name of a preset."""
    per_frame: bool = False
    """Whether each frame of a window has draws of its own. False: all have the same, except for the
    noise of :class:`GaussianNoise`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", frozen(self.steps))
        if not isinstance(self.steps, str):
            check_steps("steps", self.steps)
        check_bool("per_frame", self.per_frame)


def check_steps(name: str, value: Any) -> None:
    """Raises TypeError for a value that is not a list or tuple of steps."""
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{name}: expected a list of augmentation steps, got {short(value)}")
    for i, step in enumerate(value):
        if not isinstance(step, AugmentStep):
            raise TypeError(
                f"{name}[{i}]: expected an augmentation step such as rc.RandomCrop(0.95), got "
                f"{short(step)}"
            )


def _degree_range(value: Any) -> Range:
    return range_around("degrees", value, 0.0, -MAX_DEGREES, MAX_DEGREES, MAX_DEGREES)


def _unless(given: Range, neutral: Range) -> Range | None:
    return None if given == neutral else given
