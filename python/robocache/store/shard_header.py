"""Encodes and reads the header of a shard.

    | 8 bytes: n | JSON of n bytes: tensors, and "__metadata__": texts by name | data

The C++ library reads and validates the tensors.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from robocache.store.errors import StoreError
from robocache.store.files import naming, open_regular

MOST_BYTES = 100_000_000
"""Maximum length of a header; the limit of safetensors."""


def read_metadata(path: Path) -> dict[str, str]:
    """Reads the texts under `__metadata__` in a shard's header; empty if the header has none.

    Raises:
        StoreError: The file is no shard.
        OSError: The file can't be read; the error names it.
    """
    with naming(path), os.fdopen(open_regular(path), "rb") as file:
        _, header = read_header(path, file)
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    if not isinstance(metadata, dict):
        return {}
    return {name: text for name, text in metadata.items() if isinstance(text, str)}


def read_header(path: Path, file: BinaryIO) -> tuple[bytes, Any]:
    """Reads a shard's header from an open file: the bytes with the length before it, and the JSON.

    Raises:
        StoreError: The header is too long, or no JSON.
    """
    head = file.read(8)
    length = int.from_bytes(head, "little")
    if length > min(MOST_BYTES, os.fstat(file.fileno()).st_size):
        raise StoreError(f"{path}: header: expected at most {MOST_BYTES} bytes, got {length}")
    text = file.read(length)
    try:
        return head + text, json.loads(text)
    except (ValueError, RecursionError):
        raise StoreError(f"{path}: header: expected JSON, got something else") from None


def header_bytes(entries: Mapping[str, object], begin: int = 0) -> bytes:
    """Encodes a shard's header, preceded by its length.

    Args:
        entries: The header's JSON: tensors by name.
        begin: Padding places the data at a byte that differs from `begin` by a multiple of 64.
    """
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * ((begin - 8 - len(text)) % 64)
    return struct.pack("<Q", len(text)) + text
