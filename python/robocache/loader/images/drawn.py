"""The random parameters of samples' images, as a loader draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robocache.image.drawn import DrawnAugmentation, draw
from robocache.image.plan import AugmentPlan, set_geometry
from robocache.loader.images.stage import EVERY_DATA_SET, ImageStage, ImageWindow
from robocache.loader.plan import BatchPlan


def draw_parameters(
    images: ImageStage | None, plan: BatchPlan, indices: Tensor, epoch: int
) -> dict[str, DrawnAugmentation]:
    """The parameters of images that are augmented: [N,K] by key.

    Args:
        images: The stage of the batches; None: no images are augmented.
        plan: Has the anchors and episodes.
        indices: [N] int64, of samples.
        epoch: The epoch.
    """
    windows = () if images is None else images.windows
    augmented = [window for window in windows if window.augment is not None]
    samples = _samples_of(plan, indices)
    found: dict[str, DrawnAugmentation] = {}
    for key in dict.fromkeys(window.key for window in augmented):
        own = [window for window in augmented if window.key == key]
        found[key] = _joined(len(indices), [_draw(window, samples, epoch) for window in own])
    return found


def _samples_of(plan: BatchPlan, indices: Tensor) -> NDArray[np.int64]:
    """[N,3]: data set, episode in the store and frame of samples."""
    anchors = plan.anchors[indices.to(plan.anchors.device)]
    episode, frame = anchors[:, :1].contiguous().view(torch.int32).unbind(1)
    rows = plan.episodes[episode.long()]
    found: NDArray[np.int64] = torch.stack([rows[:, 3], rows[:, 0], frame.long()], 1).cpu().numpy()
    return found


def _draw(
    window: ImageWindow, samples: NDArray[np.int64], epoch: int
) -> tuple[NDArray[np.int64], DrawnAugmentation]:
    """The samples of a window's data set, and their parameters."""
    rows = np.arange(len(samples))
    if window.dataset_index != EVERY_DATA_SET:
        rows = rows[samples[:, 0] == window.dataset_index]
    spec = window.spec
    assert spec.image is not None and window.augment is not None
    plan = AugmentPlan.from_buffer_copy(window.augment)
    set_geometry(plan, spec.image, *spec.shape[:2])
    drawn = draw(
        plan,
        epoch=epoch,
        dataset_index=samples[rows, 0],
        episode_index=samples[rows, 1],
        frame_index=samples[rows, 2],
        frames=len(spec.offsets),
    )
    return rows, drawn


def _joined(
    count: int, parts: Sequence[tuple[NDArray[np.int64], DrawnAugmentation]]
) -> DrawnAugmentation:
    """The parameters of all samples; zeros of those whose data set has no augmented images."""
    made: dict[str, Any] = {}
    for field in fields(DrawnAugmentation):
        arrays = [(rows, getattr(drawn, field.name)) for rows, drawn in parts]
        first = arrays[0][1]
        made[field.name] = whole = np.zeros((count, *first.shape[1:]), first.dtype)
        for rows, array in arrays:
            whole[rows] = array
    return DrawnAugmentation(**made)
