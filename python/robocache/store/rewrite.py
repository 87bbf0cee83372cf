"""`rewrite_shard`: copies a shard with new `valid` flags; all other data keep their bytes."""

from __future__ import annotations

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
from robocache.store.shard import ShardFile
from robocache.store.shard_header import header_bytes, read_header

_CHUNK_BYTES = 4 << 20


def rewrite_shard(
    folder: Path,
    entry: ShardEntry,
    valid: Mapping[str, NDArray[np.bool_]],
    markings: Sequence[Marking],
) -> ShardFile:
    """Copies a shard to a file with a temporary name, with new flags for some of its streams.

    Existing flags are overwritten in place. Flags of a stream that had none are appended to the
    file: as elements of one byte they leave all others aligned. The copy compares the old file's
    checksum on the way.

    Args:
        folder: The store's folder.
        entry: The shard.
        valid: The new flags by stream: [N] for the N rows of the stream in the shard.
        markings: Appended to the log in the header.

    Raises:
        StoreError: The old file fails its checksum. The new file is removed.
        OSError: A read or write failed, for example because the disk is full. The new file is
            removed.
    """
    path = folder / entry.file
    with naming(path), os.fdopen(open_regular(path), "rb") as old:
        old_header, header = read_header(path, old)
        end = entry.bytes - len(old_header)
        changed: list[tuple[int, bytes]] = []  # (offset in the data, new bytes)
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
        new_header = header_bytes(header, len(old_header))
        checksum = crc32(old_header)
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
    """Applies changes to a chunk of the data that begins at byte `begin`."""
    result: bytes | bytearray = chunk
    for start, data in changed:
        low, high = max(start, begin), min(start + len(data), begin + len(chunk))
        if low < high:
            result = bytearray(result)
            result[low - begin : high - begin] = data[low - start : high - start]
    return result
