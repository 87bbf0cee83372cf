"""A shard written anew with other flags of validity; all other bytes stay as they are."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robocache.store.errors import StoreError
from robocache.store.files import NewFile, naming, open_regular
from robocache.store.history import Marking, with_markings
from robocache.store.library import crc32
from robocache.store.manifest import ShardEntry
from robocache.store.shard import ShardFile, header_bytes

_CHUNK_BYTES = 4 << 20


def rewrite_shard(
    folder: Path,
    entry: ShardEntry,
    valid: Mapping[str, NDArray[np.bool_]],
    markings: Sequence[Marking],
) -> ShardFile:
    """Copies a shard under a temporary name, with new flags for some of its streams.

    Flags that the shard has are replaced in their place; those that it lacks come last in the file,
    where elements of one byte leave all others aligned. The checksum of the old file is compared
    while it is copied.

    Args:
        folder: The store's.
        entry: The shard.
        valid: [N] for each row of a stream in the shard, by stream.
        markings: Added to the note in the header.

    Raises:
        StoreError: The old file is not what was written. Nothing is left behind.
        OSError: The disk is full, or the like; the same.
    """
    path = folder / entry.file
    with naming(path), os.fdopen(open_regular(path), "rb") as old:
        head = old.read(8)
        text = old.read(int.from_bytes(head, "little"))
        header = json.loads(text)
        end = entry.bytes - len(head) - len(text)
        changed: list[tuple[int, bytes]] = []  # where in the data, and what is there now
        added: list[bytes] = []
        for stream, flags in valid.items():
            name, data = f"{stream}/valid", flags.tobytes()
            if name in header:
                changed.append((header[name]["data_offsets"][0], data))
                continue
            offsets = [end, end + len(data)]
            header[name] = {"dtype": "BOOL", "shape": [len(flags)], "data_offsets": offsets}
            added.append(data)
            end = offsets[1]
        header["__metadata__"] = with_markings(header.get("__metadata__", {}), markings)
        new_header = header_bytes(header, len(head) + len(text))
        checksum = crc32(text, crc32(head))
        file = NewFile(folder)
        try:
            file.write(new_header)
            position = 0
            while chunk := old.read(_CHUNK_BYTES):
                checksum = crc32(chunk, checksum)
                file.write(_with(chunk, position, changed))
                position += len(chunk)
            if f"{checksum:08x}" != entry.crc32:
                raise StoreError(f"{path}: expected checksum {entry.crc32}, got {checksum:08x}")
            for data in added:
                file.write(data)
            file.finish()
        except BaseException:
            file.discard()
            raise
    return ShardFile(file.path.name, file.bytes, zlib.crc32(new_header), file.crc32)


def _with(chunk: bytes, begin: int, changed: Sequence[tuple[int, bytes]]) -> bytes | bytearray:
    """A part of the data, which begins at a byte, with what changed in it."""
    result: bytes | bytearray = chunk
    for start, data in changed:
        low, high = max(start, begin), min(start + len(data), begin + len(chunk))
        if low < high:
            result = bytearray(result)
            result[low - begin : high - begin] = data[low - start : high - start]
    return result
