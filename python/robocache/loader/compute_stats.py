"""`compute_stats`: statistics of a loader's batches, in one pass."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from robocache.core import dtypes
from robocache.core.checks import check_integer
from robocache.core.progress import Update, progress_bar
from robocache.loader.batch_source import BatchSource
from robocache.loader.loader import Loader
from robocache.loader.outputs import AGE, DATASET, DIM_PAD, METADATA, PAD, Batch
from robocache.loader.stream_normalization import batch_scales
from robocache.loader.window_spec import WindowSpec
from robocache.normalization.window_statistics import WindowStatistics
from robocache.store.dtypes import stored
from robocache.store.statistics import StreamStatistics
from robocache.store.stream_info import MAX_COLORS, StatisticsSummary, summary_of
from robocache.transform.transforms import Transform


def compute_stats(
    loader: Loader, *, batches: int | None = None, progress: bool | Update = True
) -> WindowStatistics:
    """Statistics of the values of a loader's batches, over its windows and after its transforms.

    Actions that are relative to a state have others than those that the store knows of the
    absolute ones; so have windows that are drawn from some episodes, or resampled. A row counts as
    often as it is in a window. Padded steps are left out, and so is what is not finite.

    Count, mean, deviation (of the population) and extremes are exact, and quantiles up to 65,536
    rows; beyond that their rank is off by less than 0.003 in 99 of 100 cases. The loader is left
    where it was.

    Args:
        loader: One of one store that does not normalize, and draws from all samples: of several
            ranks each would find its own numbers.
        batches: At most this many, from the start of its epoch on; an epoch has each sample once.
            None: the whole epoch.
        progress: Whether a terminal or a notebook shows a bar; or a function, called with the
            number of batches done, and of all.

    Returns:
        A summary by key of each stream of floats or bytes, also of those that stand side by side in
        the batch, unless a transform changed what is made of them: then of that key, padded where
        one of its streams is; and of each key of such that transforms added, padded as
        ``<key>_is_pad`` says where there is one. Of C channels: those of a row, or the colors of
        images, which are from 0 to 1.

    Raises:
        TypeError: It is no loader.
        ValueError: It normalizes, is a mixture, draws from a share, or has batches that are nested;
            or a function gave streams that stand side by side another width.

    Example:
        >>> stats = rc.compute_stats(rc.Loader(store, 256, windows))
        >>> loader = rc.Loader(
        ...     store, 256, windows, normalize={"action": "min_max"}, statistics=stats
        ... )
    """
    if not isinstance(loader, BatchSource):
        raise TypeError(f"loader: expected a rc.Loader, got {type(loader).__name__}")
    contents = loader._contents
    if contents is None:
        raise ValueError(
            "loader: expected a loader of one store, got a mixture (each of its loaders has "
            "statistics)"
        )
    if normalized := batch_scales(contents.windows, contents.concat, contents.modes):
        raise ValueError(
            "loader: expected one without normalize (statistics describe values before it), got "
            f"one that normalizes {', '.join(normalized)}"
        )
    order = contents.order
    if order.ranks > 1 or order.shares > 1:
        raise ValueError(
            "loader: expected one of all samples (rank=0, world_size=1), got one of "
            f"{order.ranks * order.shares} ranks"
        )
    count = len(loader)
    if batches is not None:
        count = min(count, check_integer("batches", batches, 1))
    windows = {window.name: window for window in contents.windows}
    groups = contents.concat
    changed = {
        key for made in contents.transforms if isinstance(made, Transform) for key in made.keys
    }
    found: dict[str, _Key] = {}
    before = loader.state_dict()
    loader.load_state_dict({**before, "position": 0})
    try:
        with progress_bar("computing statistics", progress) as update:
            for done in range(count):
                batch = _split(loader.next(), groups, windows, changed)
                for key in _keys(batch, windows):
                    window = windows.get(key)
                    if key not in found:
                        found[key] = _Key(batch[key], batch.get(key + PAD), window)
                    found[key].update(batch[key], batch.get(key + PAD))
                update(done + 1, count)
    finally:
        loader.load_state_dict(before)
    return WindowStatistics(
        {key: one.summary() for key, one in found.items()},
        {key: one.shape for key, one in found.items()},
    )


class _Key:
    """Statistics of one key, batch by batch.

    Attributes:
        shape: The shape of its channels, broadcast against the last axes of its values.
    """

    def __init__(self, values: Tensor, is_pad: Tensor | None, window: WindowSpec | None) -> None:
        is_first = window is not None and window.channels_first
        leading = 1 if is_pad is None else is_pad.dim()
        if is_first:  # LeRobot's films have a mask of steps where they have no axis of them
            leading = values.dim() - 3
        self._leading = leading
        row = tuple(values.shape[leading:])
        is_last = (
            window is not None
            and values.dtype == torch.uint8
            and len(row) == 3
            and row[2] <= MAX_COLORS
        )
        self._colors_first = is_first
        self._is_bytes = is_last
        name = dtypes.STORED_NAMES[values.dtype]
        if is_first or is_last:  # of colors, over all pixels
            self._row: tuple[int, ...] = (row[0 if is_first else 2],)
            self.shape: tuple[int, ...] = (*self._row, 1, 1)
        else:
            self._row = row
            channels = StreamStatistics(name, row).channels
            self.shape = row if channels == math.prod(row) else (channels,)
        if math.prod(self.shape) == 1 and len(self.shape) == 1:
            self.shape = ()
        self._statistics = StreamStatistics(name, self._row)

    def update(self, values: Tensor, is_pad: Tensor | None) -> None:
        """Adds the values of a batch, except padded steps."""
        values = values.detach()
        if is_pad is not None:
            values = values[~is_pad.reshape(values.shape[: self._leading])]
        if self._colors_first:
            values = values.movedim(-3, -1)
        _, rows = stored("values", values.reshape(-1, *self._row).cpu())
        self._statistics.update(rows)

    def summary(self) -> StatisticsSummary:
        """The statistics so far; of images from 0 to 1."""
        found = summary_of(self._statistics.summary())
        if not self._is_bytes:
            return found
        return StatisticsSummary(
            count=found.count,
            mean=found.mean / 255,
            std=found.std / 255,
            min=found.min / 255,
            max=found.max / 255,
            quantiles={rank: numbers / 255 for rank, numbers in found.quantiles.items()},
            exact_quantiles=found.exact_quantiles,
        )


def _split(
    batch: Any, groups: Any, windows: dict[str, WindowSpec], changed: set[str]
) -> dict[str, Any]:
    """The batch with concatenated keys split into their streams.

    A group that a transform changed stays whole, and is padded where one of its streams is.
    """
    found = dict(batch)
    for group, keys in groups.items():
        if group not in batch:  # a transform took it away
            continue
        if group in changed:
            masks = [batch[key + PAD] for key in keys if key + PAD in batch]
            if masks and group + PAD not in batch:
                found[group + PAD] = torch.stack(masks).any(0)
            continue
        widths = [windows[key].elements for key in keys]
        if batch[group].size(-1) != sum(widths):
            raise ValueError(
                f"loader: expected {group} of {sum(widths)} columns, those of {', '.join(keys)}, "
                f"got {batch[group].size(-1)} (a transform that is not one of rc.transforms "
                "gives what it changes another key)"
            )
        for key, columns in zip(keys, batch[group].split(widths, -1), strict=True):
            found[key] = columns.reshape(*columns.shape[:-1], *windows[key].shape)
        del found[group]
    return found


def _keys(batch: Batch, windows: dict[str, WindowSpec]) -> list[str]:
    """Keys of streams and of values that transforms added, without metadata and masks."""
    keys = []
    for key, values in batch.items():
        if isinstance(values, dict):
            raise ValueError(
                f"loader: expected batches of tensors, got a dict of {key!r} (rc.Loader(loader."
                "store, ...) makes a loader of the same data set)"
            )
        if not isinstance(values, Tensor) or values.dtype not in _COUNTED:
            continue
        if key in windows or not (key in (*METADATA, DATASET) or key.endswith((PAD, AGE, DIM_PAD))):
            keys.append(key)
    return keys


_COUNTED = (torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64)
