"""The contact sheet of an augmentation: the same frames, as several epochs draw them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from robocache.image.image import Image
from robocache.loader.loader import Loader
from robocache.loader.window import Window
from robocache.store.episode_store import EpisodeStore
from robocache.store.stream_info import is_image
from robocache.view.figures import save_figure, style

EPOCHS = 6
"""Columns of a sheet beside that of the unaugmented frames."""
PLACES = (0.25, 0.75)
"""The frames of a sheet, as shares of the episode."""

_CELL = 1.5  # inches


class _Column(NamedTuple):
    title: str
    images: list[dict[str, NDArray[Any]]]  # of each sample, by camera


def draw_augmentation(store: EpisodeStore, episode: int, augment: Any, path: Path) -> None:
    """Draws two frames of each camera of an episode: unaugmented, and as six epochs draw them.

    The images are those of ``Loader(store, augment=augment, seed=0)``.

    Args:
        store: A store with cameras.
        episode: The index of an episode.
        augment: An option of :class:`robocache.Loader`.
        path: Where the picture goes; its suffix says of which kind.

    Raises:
        ValueError: The store has no camera, or the augmentation does not fit one.
    """
    cameras = [info.name for info in store.streams.values() if is_image(info)]
    if not cameras:
        raise ValueError(
            f"--augment: expected a store with images, got streams {', '.join(store.streams)}"
        )
    windows = {
        camera: Window(None, method="previous", image=Image(channels_first=False))
        for camera in cameras
    }
    loader = Loader(
        store,
        1,
        windows,
        anchor=cameras[0],
        episodes=[episode],
        shuffle=False,
        device="cpu",
        augment=augment,
    )
    samples = [int(place * (len(loader.dataset) - 1)) for place in PLACES]
    columns = [_Column("unaugmented", [_images(loader.gather([i]), cameras) for i in samples])]
    for epoch in range(EPOCHS):
        column = _Column(f"epoch {epoch}", [])
        for sample in samples:
            loader.load_state_dict(loader.state_dict() | {"epoch": epoch, "position": sample})
            column.images.append(_images(loader.next(), cameras))
        columns.append(column)
    title = f"{store.path}, episode {episode}: augment={augment!r}"
    with style():
        save_figure(_sheet(cameras, samples, columns, title), path)


def _images(batch: dict[str, Any], cameras: list[str]) -> dict[str, NDArray[Any]]:
    return {camera: np.asarray(batch[camera][0]) for camera in cameras}


def _sheet(cameras: list[str], samples: list[int], columns: list[_Column], title: str) -> Figure:
    rows = [(camera, i) for camera in cameras for i in range(len(samples))]
    figure = Figure(figsize=(_CELL * len(columns) + 0.8, _CELL * len(rows) + 0.6), dpi=110)
    axes = figure.subplots(len(rows), len(columns), squeeze=False)
    for row, (camera, i) in zip(axes, rows, strict=True):
        for axis, column in zip(row, columns, strict=True):
            axis.imshow(column.images[i][camera], cmap="gray", vmin=0, vmax=255)
            axis.set_xticks([])
            axis.set_yticks([])
            axis.spines[:].set_visible(False)
        row[0].set_ylabel(f"{camera}\nsample {samples[i]}", fontsize=7)
    for axis, column in zip(axes[0], columns, strict=True):
        axis.set_title(column.title, fontsize=8)
    figure.suptitle(title, fontsize=9)
    figure.tight_layout()
    return figure
