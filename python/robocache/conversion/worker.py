"""Tasks of a conversion's workers: listing a recording, and writing shards of its episodes.

Both functions run in other processes, possibly on other machines: their arguments and results are
small and picklable. They write only files with temporary names in the store's folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from robocache.jpeg.frames import JpegFrames
from robocache.readers import (
    EpisodeReader,
    ReadOptions,
    Recording,
    RecordingError,
    Rows,
    StreamMetadata,
    open_recording,
)
from robocache.readers.encoded_images import AGAIN_QUALITY
from robocache.readers.image_encoding import ImageEncoding
from robocache.readers.merged_recording import merged_name, open_merged
from robocache.store.episode import EpisodeWriter
from robocache.store.shard import Shard, ShardWriter
from robocache.store.source_state import RecordingState, state_of
from robocache.store.streams import StreamEntry, Streams, joined, make_metadata
from robocache.store.value_columns import entry_of


@dataclass(frozen=True)
class Listing:
    """The episodes of a recording."""

    keys: tuple[str, ...] = ()
    format: str = ""
    notes: Counter[str] = field(default_factory=Counter)
    """Notes of the reader on opening the recording."""
    image_bytes: int | None = None
    """Size of the decoded images; None: the reader can't compute it before reading."""
    problem: str | None = None
    """Why the recording can't be read (`keys` is empty then); None if it can."""
    parts: tuple[str, ...] = ()
    """The recordings that form one episode; empty for a single recording."""


@dataclass(frozen=True)
class Span:
    """Consecutive episodes of a recording, to be converted."""

    path: str
    keys: tuple[str, ...]
    parts: tuple[str, ...] = ()
    """The recordings that form one episode, as in :class:`Listing`."""


@dataclass
class Made:
    """The result of converting a group of spans."""

    shards: list[Shard] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """Source and reason."""
    notes: Counter[str] = field(default_factory=Counter)
    rows: dict[str, dict[str, int]] = field(default_factory=dict)
    """The number of rows of each stream of each source."""


def source_of(path: str, key: str) -> str:
    """The source of an episode in the form that a store records: `path#key`."""
    return f"{path}#{key}"


def list_recording(
    job: str, path: str, options: ReadOptions, parts: tuple[str, ...] = ()
) -> Listing:
    """Lists the episodes of a recording, or the one episode of `parts`, without reading rows."""
    together = [merged_name(parts)] if parts else []
    try:
        opened = _open(job, path, options, parts)
        keys = tuple(opened.episodes)
        size = opened.recording.image_bytes()
        return Listing(keys, opened.recording.format, opened.notes, size, parts=parts)
    except Exception as error:  # a reader's library may raise any exception
        return Listing(problem=_reason(error, path, *together), parts=parts)


def state_of_parts(path: str, parts: Sequence[str]) -> RecordingState:
    """The current state of a recording, or of all `parts` of one episode together.

    Raises:
        OSError: A recording is gone or not accessible.
    """
    states = [state_of(part) for part in parts or [path]]
    return RecordingState(
        sum(state.bytes for state in states), max(state.changed_ns for state in states)
    )


def make_shards(
    job: str,
    folder: Path,
    spans: Sequence[Span],
    options: ReadOptions,
    shard_bytes: int,
    strict: bool,
    known: Sequence[StreamEntry] = (),
) -> Made:
    """Converts episodes to shards with temporary names in the store's folder.

    An episode that can't be read, or does not fit the streams of earlier ones, is skipped. If
    memory runs out while a shard is written, all episodes of `spans` are.

    Args:
        job: Identifies the conversion.
        folder: The store's folder.
        spans: The episodes to convert, in this order.
        options: Options of the readers.
        shard_bytes: Maximum size of a shard; a larger episode gets a separate shard.
        strict: Stop at the first episode that can't be converted.
        known: The streams that the episodes must fit.

    Raises:
        OSError: A shard can't be written, for example because the disk is full.
    """
    maker = _Maker(folder, shard_bytes, known)
    try:
        for span in spans:
            _convert_span(maker, job, span, options, strict)
            if strict and maker.made.skipped:
                break
        maker.close_shard()
    except MemoryError as error:
        maker.discard()
        return Made(skipped=[(span.path, _reason(error)) for span in spans])
    except BaseException:
        maker.discard()
        raise
    return maker.made


def _convert_span(maker: _Maker, job: str, span: Span, options: ReadOptions, strict: bool) -> None:
    skipped = maker.made.skipped
    try:
        opened = _open(job, span.path, options, span.parts)
    except Exception as error:
        skipped.append((span.path, _reason(error, span.path)))
        return
    before = Counter(opened.recording.notes)
    for key in span.keys:
        source = source_of(span.path, key)
        try:
            if key not in opened.episodes:
                raise RecordingError("expected an episode that was there a moment ago, got none")
            maker.add(opened, opened.episodes[key], source)
        except (ValueError, TypeError, ImportError, MemoryError) as error:
            # The episode can't be read, or does not fit the earlier streams or the memory.
            if not maker.is_whole:
                raise
            skipped.append((source, _reason(error, source, span.path)))
            if strict:
                break
    maker.made.notes.update(opened.recording.notes - before)


# ---- open recordings -----------------------------------------------------------------------------


@dataclass
class _Opened:
    recording: Recording
    state: RecordingState
    episodes: dict[str, EpisodeReader]
    notes: Counter[str]
    """Notes of the reader on opening the recording."""


_opened: dict[tuple[str, str], _Opened] = {}
"""The process's last recording, kept open: listing one with many episodes can take long."""


def _open(job: str, path: str, options: ReadOptions, parts: Sequence[str]) -> _Opened:
    if (job, path) not in _opened:
        close_recording()
        # Read the state before the data, so that a change during the conversion shows later.
        state = state_of_parts(path, parts)
        recording = open_merged(parts, options) if parts else open_recording(path, options)
        try:
            episodes = {episode.key: episode for episode in recording.episodes()}
        except BaseException:
            recording.close()
            raise
        _opened[job, path] = _Opened(recording, state, episodes, Counter(recording.notes))
    return _opened[job, path]


def close_recording() -> None:
    """Closes the recording that is open in this process."""
    while _opened:
        _opened.popitem()[1].recording.close()


# ---- shards --------------------------------------------------------------------------------------


class _Maker:
    """Writes episodes into shards, one after the other."""

    def __init__(self, folder: Path, shard_bytes: int, known: Sequence[StreamEntry]) -> None:
        self.made = Made()
        self._folder = folder
        self._shard_bytes = shard_bytes
        self._known = Streams()
        for entry in known:
            self._known.keep(entry)
        self._shard = ShardWriter(folder, streams=self._known)
        self._fitting: dict[str, tuple[object, ...]] = {}  # last arguments that changed no stream

    def add(self, opened: _Opened, reader: EpisodeReader, source: str) -> None:
        """Converts an episode; any exception but OSError leaves the shard unchanged."""
        recording = opened.recording
        entries: dict[str, StreamEntry] = {}
        counts: dict[str, int] = {}
        with self._shard.new_episode(
            self._keep, reader.task, source, reader.subsets, opened.state
        ) as episode:
            for rows in reader.read():
                if 0 in rows.values.shape[1:]:
                    self.made.notes.setdefault(f"{rows.stream}: left out, rows of no elements", 1)
                    continue
                rows.values = self._fitted(rows, recording.options.encoding)
                if rows.stream not in entries:
                    entries[rows.stream] = self._entry(recording, rows, source)
                episode.take(rows.stream, rows.times, rows.values, rows.received, rows.valid)
                counts[rows.stream] = counts.get(rows.stream, 0) + len(rows.times)
        # An episode that was skipped must not define streams.
        for entry in entries.values():
            if entry.name in self._known.entries:
                self._known.keep(entry)
        self.made.rows[source] = counts

    def _fitted(self, rows: Rows, encoding: ImageEncoding) -> Any:
        """The values of rows, as the options and the images of earlier episodes ask for them."""
        values = encoding.encoded(rows.values)
        known = self._known.entries.get(rows.stream)
        if known is None or encoding.kind not in ("auto", "keep"):
            return values
        if isinstance(values, JpegFrames):
            is_pixels = encoding.kind == "auto" and known.encoding is None
            return np.asarray(values) if is_pixels else values
        if known.encoding is not None and values.shape[1:] == known.encoding.shape:
            self.made.notes[
                f"images of {rows.stream} encoded as JPEG of quality {AGAIN_QUALITY}, as those of "
                "other episodes are JPEG"
            ] += len(values)
            return JpegFrames.encode(values, AGAIN_QUALITY, full_chroma=True)
        return values

    @property
    def is_whole(self) -> bool:
        """Whether the shard has whole episodes only."""
        return self._shard.is_whole

    def _entry(self, recording: Recording, rows: Rows, source: str) -> StreamEntry:
        """The store's entry of a stream: its known entry joined with the recording's metadata."""
        stated = recording.streams.get(rows.stream, StreamMetadata())
        known = self._known.entries.get(rows.stream)
        entry = entry_of(rows.stream, rows.values)
        asked = (stated, entry.layout, known)
        if self._fitting.get(rows.stream) == asked:  # as in an earlier episode
            assert known is not None
            return known
        entry = entry.with_metadata(make_metadata(rows.stream, **vars(stated)))
        if known is not None:
            entry = joined(known, entry, source)
            if entry == known:
                self._fitting[rows.stream] = asked
        return entry

    def _keep(self, episode: EpisodeWriter) -> None:
        if not self._shard.fits(episode, self._shard_bytes):
            self.close_shard()
        self._shard.keep(episode)

    def close_shard(self) -> None:
        if self._shard.episodes:
            self.made.shards.append(self._shard.close())
        self._shard.discard()
        self._shard = ShardWriter(self._folder, streams=self._known)

    def discard(self) -> None:
        """Discards the open shard and removes the finished ones."""
        self._shard.discard()
        for shard in self.made.shards:
            with suppress(OSError):
                (self._folder / shard.file).unlink(missing_ok=True)


def _reason(error: Exception, *names: str) -> str:
    """The text of an error, without the recording's name, which reports print before it."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, MemoryError):
        return "out of memory" + f": {text}" * (text != type(error).__name__)
    if not isinstance(error, (ValueError, TypeError, OSError, ImportError)):
        text = f"{type(error).__name__}: {text}"
    for name in names:
        text = text.removeprefix(f"{name}: ")
    return text
