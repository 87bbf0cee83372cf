"""Detects a torch DataLoader that would take the batches of a loader for samples."""

from __future__ import annotations

import sys
from types import FrameType

from torch.utils.data._utils.fetch import _IterableDatasetFetcher

# The first calls `iter` of a data set, the second starts its generator.
_FETCHER_CODE = (_IterableDatasetFetcher.__init__.__code__, _IterableDatasetFetcher.fetch.__code__)


def refuse_data_loader() -> None:
    """Refuses to be iterated over by a torch DataLoader that puts batches together.

    Such a DataLoader would take batches for samples and give `[8, 8, ...]`. The
    only call that it makes of a data set is `iter`, so this searches the callers for its fetcher.

    Raises:
        ValueError: A caller is such a DataLoader.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        # The locals of other frames stay untouched: a look at them keeps what they hold alive.
        if frame.f_code in _FETCHER_CODE and frame.f_locals["self"].auto_collation:
            raise ValueError(
                "batch_size: expected None of a DataLoader around a Loader, whose items are whole "
                "batches, got a size (DataLoader(loader, batch_size=None), or iterate over the "
                "loader itself; rc.Loader(batch_size=) is how many samples a batch has)"
            )
        frame = frame.f_back
