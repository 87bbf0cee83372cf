"""Size of a conversion's decoded images, compared with the free space of the disk."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path

from robocache.conversion.worker import Listing, source_of
from robocache.core.display import byte_count

log = logging.getLogger(__name__)

HINT = "resize makes images smaller, and a conversion without images leaves them out"


def image_bytes(listings: Sequence[tuple[str, Listing]], converted: set[str]) -> int:
    """Total bytes of the decoded images, as far as readers can compute it before reading.

    Args:
        listings: The episodes of each recording.
        converted: Sources of the episodes that the store has already.
    """
    total = 0.0
    for path, listing in listings:
        missing = sum(source_of(path, key) not in converted for key in listing.keys)
        if missing:
            total += (listing.image_bytes or 0) * missing / len(listing.keys)
    return round(total)


def announce(destination: Path, size: int) -> None:
    """Logs the size of the decoded images and the free space before a conversion with images."""
    if not size:
        return
    free = free_bytes(destination)
    log.log(
        logging.INFO if size < free else logging.WARNING,
        "%s: decoded images take %s, the disk has %s left%s",
        destination,
        byte_count(size),
        byte_count(free),
        "" if size < free else f" ({HINT})",
    )


def free_bytes(path: Path) -> int:
    """Free bytes on the disk of a path, which need not exist yet."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free
