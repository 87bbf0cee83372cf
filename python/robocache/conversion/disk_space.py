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


def image_bytes(listings: Sequence[tuple[str, Listing]], there: set[str]) -> int:
    """Bytes of all episodes' decoded images, as far as readers know them beforehand.

    Args:
        listings: The episodes of each recording.
        there: Sources of the episodes that are not converted again.
    """
    total = 0.0
    for path, listing in listings:
        missing = sum(source_of(path, key) not in there for key in listing.keys)
        if missing:
            total += (listing.image_bytes or 0) * missing / len(listing.keys)
    return round(total)


def announce(destination: Path, size: int) -> None:
    """Logs the size of decoded images before a conversion begins, if it has any."""
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
    """Free bytes of the disk that holds a path, which need not exist yet."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free
