"""Helpers for tests of readers: reading whole recordings, and the folder of real ones."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

from robocache.readers import (
    EpisodeReader,
    ReadOptions,
    Recording,
    RecordingError,
    Rows,
    open_recording,
)
from robocache.readers.rows import CHUNK_BYTES

DATA = Path(__file__).parents[3] / ".." / "shared" / "data"


def needs(path: Path) -> pytest.MarkDecorator:
    """Skips where a real recording is absent, saying so."""
    why = f"../shared/data/{path.relative_to(DATA)}, a real recording, is absent"
    return pytest.mark.skipif(not path.exists(), reason=why)


def checksum(array: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(array))


def collect(
    episode: EpisodeReader, kept: list[tuple[np.ndarray, int]] | None = None
) -> dict[str, Rows]:
    """An episode's streams, put together; what the protocol promises of chunks is checked.

    The arrays and their checksums go to `kept`: nobody may change them afterward.
    """
    found: dict[str, list[Rows]] = {}
    for rows in episode.read():
        assert rows.times.dtype == np.int64 and rows.times.ndim == 1 and len(rows.times) > 0
        assert rows.values.shape[0] == len(rows.times)
        assert rows.values.dtype.isnative and rows.values.dtype.kind in "biuf"
        assert len(rows.times) == 1 or rows.values.nbytes <= CHUNK_BYTES
        found.setdefault(rows.stream, []).append(rows)
        if kept is not None:
            kept += [(array, checksum(array)) for array in (rows.times, rows.values)]
    streams = {}
    for name, parts in found.items():
        assert len({(part.values.dtype, part.values.shape[1:]) for part in parts}) == 1
        times = np.concatenate([part.times for part in parts])
        assert (np.diff(times) >= 0).all()
        validity = [
            np.ones(len(part.times), np.bool_) if part.valid is None else part.valid
            for part in parts
        ]
        received = [part.received for part in parts if part.received is not None]
        assert len(received) in (0, len(parts))
        streams[name] = Rows(
            name,
            times,
            np.concatenate([part.values for part in parts]),
            np.concatenate(received) if received else None,
            np.concatenate(validity) if any(p.valid is not None for p in parts) else None,
        )
    return streams


def read_all(
    path: Path, options: ReadOptions | None = None
) -> tuple[dict[str, dict[str, Rows]], Recording]:
    """Every episode of a recording by its key, and the recording, which is closed."""
    with open_recording(path, options) as recording:
        episodes = recording.episodes()
        keys = [episode.key for episode in episodes]
        assert len(set(keys)) == len(keys)
        kept: list[tuple[np.ndarray, int]] = []
        read = {episode.key: collect(episode, kept) for episode in episodes}
        assert all(checksum(array) == before for array, before in kept), "changed since"
    for streams in read.values():
        assert set(streams) <= set(recording.streams)
    return read, recording


def message_of(path: Path, options: ReadOptions | None = None) -> str:
    """The message of the error that a refused recording raises."""
    with pytest.raises(RecordingError) as error:
        read_all(path, options)
    return str(error.value)
