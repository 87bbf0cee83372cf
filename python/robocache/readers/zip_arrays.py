"""Zip files and NumPy's arrays in them."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from pathlib import Path

from robocache.readers.recording import head

ARRAY_ERRORS = (
    EOFError,
    KeyError,
    MemoryError,  # of a header that promises too much
    NotImplementedError,
    OverflowError,
    RuntimeError,  # encrypted
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What zipfile and NumPy raise for damaged arrays, besides OSError."""


def names_in(path: Path) -> list[str] | None:
    """The names of the files in a zip file; None if it is none, or damaged."""
    if head(path, 2) != b"PK":
        return None
    try:
        with zipfile.ZipFile(path) as file:
            return file.namelist()
    except ARRAY_ERRORS:
        return None
