"""Datasets of HDF5 whose rows are files of images: of variable length, or padded with zeros."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from robocache.core.extras import require
from robocache.readers import hdf5_checks
from robocache.readers.encoded_images import first_file, is_encoded, may_be_files, unpadded
from robocache.readers.rows import rows_per_chunk

_ROWS_AT_ONCE = 64  # of variable length, whose size is not known before they are read


def holds_files(dataset: Any, path: Path, limit: int) -> bool:
    """Whether the rows of a dataset are encoded images, by its first rows.

    Args:
        dataset: The dataset; the function validates it before it reads any of it.
        path: Of the recording.
        limit: `ReadOptions.memory_limit`.

    Raises:
        RecordingError: The dataset is unsafe to read.
    """
    if not may_hold_files(dataset) or 0 in dataset.shape:
        return False
    hdf5_checks.check(dataset, path, limit)
    return is_encoded(first_file(read_files(dataset)))


def may_hold_files(dataset: Any) -> bool:
    """Whether the rows of a dataset may be files, by its type and shape."""
    if dataset.shape is None:
        return False
    return _is_variable(dataset) or may_be_files(dataset.dtype, dataset.shape)


def read_files(dataset: Any) -> Iterator[bytes]:
    """The files in the rows of a dataset, in order."""
    rows, is_variable = len(dataset), _is_variable(dataset)
    step = _ROWS_AT_ONCE
    if not is_variable:
        step = rows_per_chunk(max(1, dataset.nbytes // max(1, rows)))
        if dataset.chunks and step > dataset.chunks[0]:
            step -= step % dataset.chunks[0]  # each chunk of the file is decompressed once
    for a in range(0, rows, step):
        for row in dataset[a : a + step]:
            yield row.tobytes() if is_variable else unpadded(row)


def _is_variable(dataset: Any) -> bool:
    """Whether rows are bytes of variable length."""
    h5py = require("h5py", "HDF5", "hdf5")
    return len(dataset.shape) == 1 and h5py.check_vlen_dtype(dataset.dtype) == np.dtype(np.uint8)
