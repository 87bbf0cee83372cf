"""Reader of the metadata in a shard's header.

    | 8 bytes: n | JSON of n bytes: tensors, and "__metadata__": texts by name | data

The C++ library reads and validates the tensors.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

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
        length = int.from_bytes(file.read(8), "little")
        if length > min(MOST_BYTES, os.fstat(file.fileno()).st_size):
            raise StoreError(f"{path}: header: expected at most {MOST_BYTES} bytes, got {length}")
        text = file.read(length)
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise StoreError(f"{path}: header: expected JSON, got something else") from None
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    if not isinstance(metadata, dict):
        return {}
    return {name: text for name, text in metadata.items() if isinstance(text, str)}
