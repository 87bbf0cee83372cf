"""Size of a conversion's decoded images, compared with the free space of the disk."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from robocache.conversion.worker import Listing, source_of
from robocache.core.display import byte_count

log = logging.getLogger(__name__)

HINT = (
    "resize makes images smaller, jpeg:95 compresses them, and a conversion without images leaves "
    "them out"
)


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


def announce(destination: Path, sizes: Mapping[str, int], chosen: str) -> None:
    """Logs the size of images in each form, and the free space, before a conversion with images.

    Args:
        destination: The store.
        sizes: Bytes of all images by form: "raw" for decoded images; the others are estimates.
        chosen: The form of the conversion.
    """
    if not sizes.get("raw"):
        return
    free = free_bytes(destination)
    others = [
        f"{form} about {byte_count(size)}{' (chosen)' if form == chosen else ''}"
        for form, size in sizes.items()
        if form != "raw"
    ]
    fits = sizes.get(chosen, sizes["raw"]) < free
    log.log(
        logging.INFO if fits else logging.WARNING,
        "%s: decoded images take %s%s, the disk has %s left%s",
        destination,
        byte_count(sizes["raw"]),
        f" ({', '.join(others)})" if others else "",
        byte_count(free),
        "" if fits else f" ({HINT})",
    )


def free_bytes(path: Path) -> int:
    """Free bytes on the disk of a path, which need not exist yet."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free
