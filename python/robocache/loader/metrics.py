"""Counts of operations by backend, and of loaders, in this process."""

from __future__ import annotations

from dataclasses import dataclass

from robocache.core.call_counts import calls, fallbacks
from robocache.core.display import ShortRepr
from robocache.loader import stats


@dataclass(frozen=True, repr=False)
class Metrics(ShortRepr):
    """Counters of this process: operator calls, fallbacks and loaders."""

    calls: dict[str, dict[str, int]]
    """How often each operation was called, by the backend that it took."""
    fallbacks: dict[str, int]
    """How often ``"auto"`` took the pytorch backend in place of the library's own, by reason."""
    loaders: dict[str, stats.LoaderStats]
    """Statistics of loaders, by name, summed over loaders of one name. Their counts stay when
    they are gone."""


def metrics() -> Metrics:
    """How often each operation was called since the process started, and on which backend.

    What happened in between is the difference of two. Calls that end in an error count from the
    moment on that they have a backend. What runs without Python does not count: compiled code,
    replays of CUDA graphs. `fuse_multimodal` counts as `fuse`, which it calls.

    Example:
        >>> import torch, robocache as rc
        >>> times = torch.arange(3)
        >>> before = rc.metrics().calls.get("resample_trajectories", {}).get("pytorch", 0)
        >>> out = rc.resample_trajectories(torch.zeros(3, 1), times, times, backend="pytorch")
        >>> rc.metrics().calls["resample_trajectories"]["pytorch"] - before
        1
    """
    by_operation: dict[str, dict[str, int]] = {}
    for (operation, backend), count in sorted(calls.items()):
        by_operation.setdefault(operation, {})[backend] = count
    return Metrics(by_operation, dict(fallbacks), stats.by_name())
