"""What a loader says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class LoaderStats:
    """What a loader has made so far, and what it holds."""

    batches: int
    """Batches of :meth:`Loader.next` and of iterating."""
    samples: int
    """Samples in them."""
    gathered: int
    """Samples of :meth:`Loader.gather`."""
    bytes: int
    """Bytes of all batches, masks and facts included."""
    resident_bytes: Mapping[str, int]
    """Bytes of streams and anchors, by where they live: "cuda" or "cpu"."""
