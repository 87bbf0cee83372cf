"""Counters of loaders, and the statistics computed from them."""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from robocache.loader.memory.deferred_cuda import may_call_cuda

_LATEST = 1000  # waits that quantiles are of


@dataclass(frozen=True)
class LoaderStats:
    """Counts of a loader's batches, bytes and waits, and its resident bytes; or sums of several.

    Tiers are ``"gpu"``, ``"pinned"`` (host memory that a GPU reads), ``"ram"`` and ``"disk"``.
    """

    batches: int = 0
    """Batches of :meth:`Loader.next` and of iteration."""
    samples: int = 0
    """Samples in them."""
    gathered: int = 0
    """Samples of :meth:`Loader.gather`."""
    bytes: int = 0
    """Bytes of all batches, masks and metadata included."""
    read_bytes: Mapping[str, int] = field(default_factory=dict)
    """Bytes of rows that batches were made of, by the tier that the rows were read from; each step
    of a window counts as one row, and a JPEG frame as its stream's mean of compressed bytes."""
    resident_bytes: Mapping[str, int] = field(default_factory=dict)
    """Bytes of streams, anchors and tables that the loader holds, by tier."""
    waits: int = 0
    """Batches for which the host waited, because they were not ready or because the host was at
    the prefetch depth; 0 without a budget."""
    waited_s: float = 0.0
    """The sum of these waits in seconds."""
    wait_p50_s: float = 0.0
    """The median wait for a batch in seconds, over the latest 1000; a ready batch counts as 0."""
    wait_p99_s: float = 0.0
    """The 99th percentile of these waits in seconds."""
    queue_depth: int = 0
    """Prefetched batches that the user has not taken."""
    frames: int = 0
    """JPEG frames that were decoded."""
    damaged_frames: int = 0
    """Frames without an image among them, which are zeros and padding; those of prefetched batches
    are counted before their batches are taken. In the child of a fork, and while this thread
    captures a CUDA graph, the number of GPU loaders is that of the last reading."""

    @property
    def hit_shares(self) -> dict[str, float]:
        """The fraction of :attr:`read_bytes` that each tier served; they sum to 1."""
        total = sum(self.read_bytes.values())
        return {tier: count / total for tier, count in self.read_bytes.items()} if total else {}


class Counters:
    """Counters of a loader, which the code that returns batches increments."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.batches = self.samples = self.gathered = 0
        self.sample_bytes = 0
        """Bytes of a batch per sample."""
        self.sample_reads: Mapping[str, float] = {}
        """Bytes of rows read per sample, by tier."""
        self.frames = 0.0
        """JPEG frames per sample; of a mixture the mean."""
        self.damaged: list[Any] = []
        """Tensors [1] that decoders count damaged frames in."""
        self._damaged_frames = 0  # when they were last read
        self._process = os.getpid()
        self.resident: Mapping[str, int] = {}
        """Resident bytes, by tier."""
        self.waits = 0
        self.waited_s = 0.0
        self.latest_waits: deque[float] = deque(maxlen=_LATEST)
        self.queue_depth = 0

    def handed_out(self, waited_s: float) -> None:
        """Counts a prefetched batch that the user takes, and the host's wait for it in seconds."""
        self.latest_waits.append(waited_s)
        if waited_s > 0:
            self.waits += 1
            self.waited_s += waited_s

    def stats(self) -> LoaderStats:
        """The statistics at this moment."""
        made = self.samples + self.gathered
        p50, p99 = _quantiles(list(self.latest_waits))
        return LoaderStats(
            batches=self.batches,
            samples=self.samples,
            gathered=self.gathered,
            bytes=made * self.sample_bytes,
            read_bytes={tier: round(made * count) for tier, count in self.sample_reads.items()},
            resident_bytes=dict(self.resident),
            waits=self.waits,
            waited_s=self.waited_s,
            wait_p50_s=p50,
            wait_p99_s=p99,
            queue_depth=self.queue_depth,
            frames=round(made * self.frames),
            damaged_frames=self._read_damaged(),
        )

    def _read_damaged(self) -> int:
        """The number of damaged frames; where CUDA may not be called, that of the last reading."""
        is_gpu = any(count.is_cuda for count in self.damaged)
        if not is_gpu or (os.getpid() == self._process and may_call_cuda()):
            self._damaged_frames = sum(int(count) for count in self.damaged)
        return self._damaged_frames


def _quantiles(waits: Sequence[float]) -> tuple[float, float]:
    """The median and the 99th percentile, each one of the waits; 0 without any."""
    if not waits:
        return 0.0, 0.0
    ordered = sorted(waits)
    return ordered[(len(ordered) - 1) // 2], ordered[(99 * (len(ordered) - 1) + 99) // 100]


# ---- all loaders of the process ------------------------------------------------------------------

_lock = threading.Lock()
_loaders: list[tuple[weakref.ref[Any], Counters]] = []
_gone: dict[str, LoaderStats] = {}  # counts of loaders that were deleted, by name


def _unlock() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_unlock)  # a thread of the parent may have held it


def register(loader: object, counters: Counters) -> None:
    """Includes a loader's counters in :func:`by_name`, also after the loader is deleted."""
    with _lock:
        _sweep()
        _loaders.append((weakref.ref(loader), counters))


def by_name() -> dict[str, LoaderStats]:
    """Sums over loaders of one name: counts of all, resident bytes of those that exist."""
    with _lock:
        _sweep()
        alive = [counters for _, counters in _loaders]
        # Callers own the result: a sum with nothing is a copy.
        found = {name: _sum(LoaderStats(), counted) for name, counted in _gone.items()}
    for counters in alive:
        name = counters.name
        found[name] = _sum(found.get(name, LoaderStats()), counters.stats())
    for name in {counters.name for counters in alive}:
        waits = [wait for c in alive if c.name == name for wait in list(c.latest_waits)]
        p50, p99 = _quantiles(waits)
        found[name] = replace(found[name], wait_p50_s=p50, wait_p99_s=p99)
    return dict(sorted(found.items()))


def _sweep() -> None:
    """Replaces deleted loaders by the sum of their counts."""
    alive = []
    for entry in _loaders:
        loader, counters = entry
        if loader() is not None:
            alive.append(entry)
            continue
        counted = replace(
            counters.stats(), resident_bytes={}, wait_p50_s=0.0, wait_p99_s=0.0, queue_depth=0
        )
        _gone[counters.name] = _sum(_gone.get(counters.name, LoaderStats()), counted)
    _loaders[:] = alive


def _sum(a: LoaderStats, b: LoaderStats) -> LoaderStats:
    """The sum of all counts; quantiles are left out."""
    return LoaderStats(
        batches=a.batches + b.batches,
        samples=a.samples + b.samples,
        gathered=a.gathered + b.gathered,
        bytes=a.bytes + b.bytes,
        read_bytes=dict(Counter(a.read_bytes) + Counter(b.read_bytes)),
        resident_bytes=dict(Counter(a.resident_bytes) + Counter(b.resident_bytes)),
        waits=a.waits + b.waits,
        waited_s=a.waited_s + b.waited_s,
        queue_depth=a.queue_depth + b.queue_depth,
        frames=a.frames + b.frames,
        damaged_frames=a.damaged_frames + b.damaged_frames,
    )
