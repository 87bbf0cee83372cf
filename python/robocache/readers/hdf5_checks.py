"""Raises for HDF5 files that refer to foreign files, or state sizes without stored bytes.

HDF5 follows external links, external storage and virtual sources to any file of the machine; its
deflate filter lets a chunk grow to any size. Filters that are plugins are loaded from the folders
that HDF5 is configured with, never from a recording.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from robocache.core.extras import require
from robocache.readers.decompress import inflated_parts
from robocache.readers.errors import RecordingError
from robocache.readers.limits import MAX_EXPANSION, check_resident, check_rows

_DEFLATE = 1  # H5Z_FILTER_DEFLATE


def child(group: Any, name: str, path: Path) -> Any:
    """The object of a name in a group; None if there is none.

    Raises:
        RecordingError: If its link leads out of the folder of the recording's file.
    """
    h5py = require("h5py", "HDF5", "hdf5")
    link = group.get(name, getlink=True)
    if isinstance(link, h5py.ExternalLink):
        _inside(path, link.filename, f"external link {name} of {group.name}")
    return group.get(name)


def check(dataset: Any, path: Path, limit: int) -> None:
    """Raises for a dataset that is unsafe to read.

    Args:
        dataset: The dataset, before any of it is read.
        path: Of the recording.
        limit: `ReadOptions.memory_limit`.

    Raises:
        RecordingError: If it is stored in a file outside the recording's folder, or takes more
            memory than `limits` allow for its stored bytes.
    """
    where = f"{path}, dataset {dataset.name}"
    stored = _stored_bytes(dataset, path)
    rows = dataset.shape[0] if dataset.shape else 1
    check_rows(where, dataset.shape, dataset.nbytes, stored, limit)
    check_resident(where, dataset.nbytes // max(1, rows), stored, limit)
    if dataset.chunks:
        chunk = math.prod(dataset.chunks) * dataset.dtype.itemsize
        check_resident(f"{where}, a chunk", chunk, stored, limit)
        _check_deflate(dataset, where, chunk, limit)


def _inside(path: Path, name: str, what: str) -> Path:
    """Another file that a recording names, if it is in the recording's folder or below it."""
    folder = path.parent.resolve()
    found = (folder / name).resolve()
    if not found.is_relative_to(folder):
        raise RecordingError(f"{path}: expected files of {folder}, got {name!r} in {what}")
    return found


def _stored_bytes(dataset: Any, path: Path) -> int:
    """Bytes on disk of a dataset."""
    what = f"dataset {dataset.name}"
    names: list[str] = []
    if dataset.is_virtual:
        names = [source.file_name for source in dataset.virtual_sources()]
    elif dataset.external:
        names = [name for name, _, _ in dataset.external]
    if not names:
        return int(min(dataset.id.get_storage_size(), Path(dataset.file.filename).stat().st_size))
    files = {path if name == "." else _inside(path, name, what) for name in names}
    return sum(file.stat().st_size for file in files if file.is_file())


def _check_deflate(dataset: Any, where: str, chunk: int, limit: int) -> None:
    """Refuses chunks that deflate to more than `chunk` bytes, as far as they could exceed a limit.

    Raises:
        RecordingError: If there is such a chunk, or deflate is applied twice.
    """
    filters = dataset.id.get_create_plist()
    kinds = [filters.get_filter(i)[0] for i in range(filters.get_nfilters())]
    if _DEFLATE not in kinds:
        return
    if kinds.count(_DEFLATE) > 1:
        raise RecordingError(f"{where}: expected deflate once among its filters, got it twice")
    for info in _chunks(dataset):
        if info.size * MAX_EXPANSION <= limit or info.filter_mask:
            continue
        data = dataset.id.read_direct_chunk(info.chunk_offset)[1]
        most = chunk + len(data) // 64 + 65536
        grown = 0
        for part in inflated_parts(data):
            grown += len(part)
            if grown > most:
                raise RecordingError(
                    f"{where}: expected chunks of {chunk:,} bytes, got one at "
                    f"{list(info.chunk_offset)} that decompresses to more"
                )


def _chunks(dataset: Any) -> list[Any]:
    """The offset, size and filter mask (filters that were not applied) of each stored chunk."""
    if not hasattr(dataset.id, "chunk_iter"):  # h5py with an HDF5 before 1.12.3: in quadratic time
        return [dataset.id.get_chunk_info(n) for n in range(dataset.id.get_num_chunks())]
    found: list[Any] = []
    dataset.id.chunk_iter(found.append)
    return found
