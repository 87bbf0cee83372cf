"""Statistics of the values in batches."""

from __future__ import annotations

from collections.abc import Mapping

from robocache.core.display import listed
from robocache.store.stream_info import StatisticsSummary, StreamInfo, is_image


class WindowSummary(StatisticsSummary):
    """Statistics of one key of a batch; the type tells that images are from 0 to 1."""


class WindowStatistics(dict[str, StatisticsSummary]):
    """Statistics by key of a loader's values, as :func:`compute_stats` computes them.

    Images are from 0 to 1. Arguments of ``Loader(statistics=)`` and
    :meth:`Normalizer.from_statistics`.

    Args:
        summaries: The statistics of each key's C channels.
        shapes: The shape by which the channels of each key broadcast to the last axes of a value:
            [C], [C,1,1] for images with channels first, [] for a number, and so on.
    """

    def __init__(
        self,
        summaries: Mapping[str, StatisticsSummary],
        shapes: Mapping[str, tuple[int, ...]],
    ) -> None:
        super().__init__({key: WindowSummary(**vars(of)) for key, of in summaries.items()})
        self.shapes = dict(shapes)

    def __repr__(self) -> str:
        return f"WindowStatistics({listed(self)})"


def shape_of(info: StreamInfo, channels: int) -> tuple[int, ...]:
    """The shape by which statistics of C channels broadcast to the last axes of a value."""
    if is_image(info):
        return (channels, 1, 1)
    if channels == 1:
        return ()
    rows = 1
    for size in info.shape:
        rows *= size
    return info.shape if channels == rows else (channels,)
