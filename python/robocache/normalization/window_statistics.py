"""Statistics of what batches have."""

from __future__ import annotations

from collections.abc import Mapping

from robocache.core.display import listed
from robocache.store.stream_info import StatisticsSummary, StreamInfo, is_image


class WindowSummary(StatisticsSummary):
    """Statistics of one key of a batch, which know that they are: images are from 0 to 1."""


class WindowStatistics(dict[str, StatisticsSummary]):
    """Statistics by key of the values that a loader gives, as :func:`compute_stats` finds them.

    Images are from 0 to 1. ``Loader(statistics=)`` and :meth:`Normalizer.from_statistics` take
    them.

    Args:
        summaries: Of C channels each.
        shapes: By key, how those channels lie against the last axes of a value: [C], [C,1,1] of
            images with colors first, [] of a number, and so on.
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
    """How statistics of so many channels lie against the last axes of a stream's values."""
    if is_image(info):
        return (channels, 1, 1)
    if channels == 1:
        return ()
    rows = 1
    for size in info.shape:
        rows *= size
    return info.shape if channels == rows else (channels,)
