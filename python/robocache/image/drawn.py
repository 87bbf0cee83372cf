"""`DrawnAugmentation`: the random parameters of images, as a loader draws them."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robocache.core.display import ShortRepr
from robocache.image.plan import AugmentPlan, Parameters, check_status, load

COLOR_STEPS = (
    "none", "brightness", "contrast", "saturation", "hue", "gamma", "grayscale", "shift",
)  # fmt: skip
"""The names of color steps in the order of robocache::ColorStep."""
_NONE = COLOR_STEPS.index("none")


@dataclass(frozen=True, repr=False)
class DrawnAugmentation(ShortRepr):
    """The parameters of N images, in arrays whose first axes are those of the request.

    Example:
        >>> drawn = loader.augmentation([0, 1, 2])["front"]
        >>> drawn.map[0]  # 2 x 3: the position in the source of output position (x, y, 1)
    """

    map: NDArray[np.float32]
    """[...,2,3]: output positions to source positions, in pixels from the top left corner; the
    center of a pixel is at 0.5."""
    color_steps: NDArray[np.uint8]
    """[...,8]: the color steps in their order, as indices of :data:`COLOR_STEPS`; 0 ends them."""
    color_factors: NDArray[np.float32]
    """[...,8]: the factor, number or exponent of each color step."""
    sharpness: NDArray[np.float32]
    """[...]: 1 where the image is not changed."""
    noise: NDArray[np.float32]
    """[...]: the standard deviation, 0 without noise."""
    noise_key: NDArray[np.uint64]
    """[...]: the key of each frame's noise."""
    erase: NDArray[np.int32]
    """[...,4]: top, left, height and width of the erased rectangle of the output; 0 x 0: none."""
    erase_value: NDArray[np.float32]
    """[...,3]: its color, 0 to 1."""
    dropped: NDArray[np.bool_]
    """[...]: whether all pixels are black."""

    def colors(self, *index: int) -> list[tuple[str, float]]:
        """The color steps of one image with their factors: ``[("brightness", 1.1)]``.

        Args:
            index: The position of the image in the axes of the request.
        """
        steps, factors = self.color_steps[index], self.color_factors[index]
        return [
            (COLOR_STEPS[step], float(factor))
            for step, factor in zip(steps, factors, strict=True)
            if step != _NONE
        ]

    def factor(self, name: str) -> NDArray[np.float32]:
        """[...]: the factor of the first color step of a name; NaN where there is none.

        Raises:
            ValueError: `name: expected ..., got ...`.
        """
        if name not in COLOR_STEPS[1:]:
            known = ", ".join(map(repr, COLOR_STEPS[1:]))
            raise ValueError(f"name: expected one of {known}, got {name!r}")
        is_step = self.color_steps == COLOR_STEPS.index(name)
        first = is_step.argmax(-1)[..., None]
        factors = np.take_along_axis(self.color_factors, first, -1)[..., 0]
        return np.where(is_step.any(-1), factors, np.float32(np.nan))


def draw(
    plan: AugmentPlan,
    *,
    epoch: int,
    episode_index: ArrayLike,
    frame_index: ArrayLike,
    dataset_index: ArrayLike = 0,
    frames: int = 1,
) -> DrawnAugmentation:
    """Draws the parameters of samples on the CPU, to the bits of any other device.

    Args:
        plan: The camera's steps, with the geometry of its window.
        epoch: The epoch.
        episode_index: The index of each sample's episode in the store.
        frame_index: The frame of each sample's anchor.
        dataset_index: The data set of each sample, in a mixture.
        frames: K, the frames of a sample's window.

    Returns:
        Arrays of shape [..., K]: the axes of the indices, which broadcast, and K.
    """
    indices = np.broadcast_arrays(dataset_index, episode_index, frame_index)
    shape = indices[0].shape
    dataset, episode, frame = (np.ascontiguousarray(each, np.int64).ravel() for each in indices)
    records = np.zeros((*shape, frames), np.dtype(Parameters))
    check_status(
        load().robocache_draw_augmentation(
            ctypes.byref(plan), len(episode), frames, dataset.ctypes.data, episode.ctypes.data,
            frame.ctypes.data, epoch, records.ctypes.data,
        )
    )  # fmt: skip
    return DrawnAugmentation(
        map=records["map"].reshape(*shape, frames, 2, 3),
        color_steps=records["colors"],
        color_factors=records["factors"],
        sharpness=records["sharpness"],
        noise=records["noise"],
        noise_key=records["noise_key"],
        erase=records["erase"],
        erase_value=records["erase_value"],
        dropped=records["is_black"] != 0,
    )
