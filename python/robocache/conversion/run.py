"""`convert`: recordings to an episode store."""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from robocache.conversion.disk_space import announce, image_bytes
from robocache.conversion.image_sizes import form_of, image_sizes
from robocache.conversion.one_episode import propose_one_episode
from robocache.conversion.pools import Inline, Pool, Processes, RayTasks, run_in_order
from robocache.conversion.sources import Found, PathLike, check_sources, find_each, find_takes
from robocache.conversion.worker import (
    Listing,
    Made,
    Span,
    close_recording,
    list_recording,
    make_shards,
    source_of,
    state_of_parts,
)
from robocache.core.display import ShortRepr, byte_count, counted
from robocache.core.paths import check_path
from robocache.core.progress import Update, progress_bar
from robocache.readers import ReadOptions, RecordingError
from robocache.readers.image_encoding import encoding_of
from robocache.readers.limits import MEMORY_LIMIT
from robocache.readers.recording import note_lines
from robocache.store.episode_store import EpisodeStore
from robocache.store.errors import StoreError
from robocache.store.files import TEMPORARY
from robocache.store.manifest import is_store
from robocache.store.shard import Shard
from robocache.store.source_state import RecordingState, read_states
from robocache.store.writer import SHARD_BYTES, StoreWriter

# A group of episodes is converted by one worker into shards of its own. Its size is that of the
# recordings: small enough to keep many workers busy, large enough that a store has few shards.
GROUPS = 16
LEAST_GROUP_BYTES, MOST_GROUP_BYTES = 32 << 20, 256 << 20
COMMIT_SECONDS = 2.0  # shards that finish within this time are committed together
log = logging.getLogger(__name__)

VIDEO = (".mp4", ".mkv", ".webm", ".avi", ".mov")
VIDEO_FACTOR = 32  # approximate size of decoded video over its size on disk

DIED = "its worker died twice (out of memory? a script that does not guard its start?)"


@dataclass(frozen=True, repr=False)
class Skipped(ShortRepr):
    """A recording or an episode that was not converted, with the reason."""

    source: str
    """A recording, or an episode of one: ``demo.hdf5#demo_3``."""
    reason: str


@dataclass(repr=False)
class Conversion(ShortRepr):
    """The report of :func:`convert`."""

    destination: Path
    recordings: int = 0
    episodes: int = 0
    """Number of added episodes."""
    rows: dict[str, int] = field(default_factory=dict)
    """Number of added rows, by stream."""
    bytes: int = 0
    """Size of the added shards."""
    already_there: int = 0
    """Number of episodes that an earlier conversion added to the store."""
    skipped: list[Skipped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Readers' notes on data that they left out or changed, with counts."""
    proposals: list[str] = field(default_factory=list)
    """Files that overlap in time and may be one take, each with the command that joins them."""
    formats: dict[str, int] = field(default_factory=dict)
    """Number of recordings, by format."""
    image_bytes: int = 0
    """Bytes of the decoded images, as far as readers knew them before the conversion."""
    image_sizes: dict[str, int] = field(default_factory=dict)
    """Bytes of the images by form, before the conversion: "raw" for decoded images, and estimates
    from a few frames of "keep" and "jpeg:95"."""
    image_form: str = "raw"
    """The form that was stored."""

    def as_json(self) -> dict[str, Any]:
        """The values that `robocache convert --json` prints."""
        skipped = [vars(one) for one in self.skipped]
        return {**vars(self), "destination": str(self.destination), "skipped": skipped}


def convert(
    sources: PathLike | Iterable[PathLike],
    destination: PathLike,
    *,
    append: bool = False,
    strict: bool = False,
    workers: int = 1,
    ray: str | None = None,
    shard_bytes: int = SHARD_BYTES,
    one_episode: bool = False,
    progress: bool | Update = True,
    rate: float | None = None,
    images: bool | str = True,
    resize: tuple[int, int] | None = None,
    fit: Literal["pad", "crop", "stretch"] = "pad",
    topics: Sequence[str] | None = None,
    stamp: Literal["header", "received"] = "header",
    time_column: str | None = None,
    time_unit: Literal["ns", "us", "ms", "s"] | None = None,
    memory_limit: int = MEMORY_LIMIT,
) -> Conversion:
    """Converts recordings of any known format to an episode store.

    Streams keep their times and rates. The result does not depend on the number of workers. A
    conversion that is killed leaves a valid store, and the same call resumes it: an episode whose
    source is in the store is not converted again.

    A recording or an episode that can't be read, or whose streams differ from those of earlier
    episodes, is skipped and reported. If no episode can be converted, no store is created.

    Args:
        sources: A file or folder, or several. A folder that is not a recording itself is searched.
        destination: The store's folder. An existing store is resumed if all its episodes come from
            `sources`.
        append: Add to a store that also has episodes of other sources.
        strict: Stop at the first recording or episode that can't be converted. Earlier episodes
            stay in the store.
        workers: Number of worker processes, each with up to some 310 MB of memory. With more than
            one, a script must guard its start: ``if __name__ == "__main__":``.
        ray: Address of a Ray cluster that runs the workers, such as ``"auto"``; ``"local"`` starts
            one on this machine. Its machines must share the recordings and the destination.
        shard_bytes: Maximum size of a file of the store; a larger episode gets a separate file.
        one_episode: The recordings are of one take and become one episode: all files of `sources`
            together, and the recordings of each folder together. Streams of equal names are
            prefixed by the names of their files.
        progress: Whether to show a progress bar in a terminal or notebook; or a function that is
            called with the number of finished episodes and the total.
        rate: Rows per second of recordings that have no times.
        images: Whether to convert images and video; or how to store them. ``"auto"``, as True,
            keeps JPEG of the recording byte for byte if that changes no pixel, and stores others as
            pixels; ``"raw"`` stores all as pixels; ``"keep"`` is as ``"auto"``, but encodes JPEG
            again that cannot be kept; ``"jpeg:95"`` or ``"jpeg:95:444"`` encodes all as JPEG of
            this quality, with color at half or full resolution.
        resize: Width and height of images.
        fit: How an image of another aspect fits `resize`: ``"pad"``, ``"crop"`` or ``"stretch"``.
        topics: Names of the streams to convert; ``*`` and ``?`` match as in a shell.
        stamp: The time of a message: the stamp in its ``"header"``, or the time at which it was
            ``"received"``.
        time_column: The column of times in a table.
        time_unit: The unit of the time column.
        memory_limit: Memory that a part of a recording (a row, a chunk) may take beyond its size on
            disk, in bytes.

    Returns:
        The report: added episodes, skipped sources, and readers' notes.

    Raises:
        RecordingError: `sources` has no recording; with `strict`, a recording can't be converted;
            with `one_episode` and a single take, its recordings do not overlap in time, or one has
            several episodes.
        StoreError: The destination is damaged, has episodes of other sources (without `append`),
            or has another writer.
        MissingLibrary: `ray` is set, and Ray is not installed.
        ValueError: An option is out of its range.
        OSError: The store can't be written. Episodes that were committed stay.

    Example:
        >>> report = rc.convert("recordings/", "recordings.store", workers=2)
        >>> report.episodes, report.skipped
    """
    if workers < 1:
        raise ValueError(f"workers: expected 1 or more, got {workers}")
    options = ReadOptions(
        rate=rate, images=images is not False, encoding=encoding_of(images), resize=resize, fit=fit,
        topics=None if topics is None else tuple(topics), stamp=stamp,
        time_column=time_column, time_unit=time_unit, memory_limit=memory_limit,
    )  # fmt: skip
    given = check_sources(sources)
    check_path("destination", destination, "the folder of the store")
    found = find_takes(given) if one_episode else [(path, ()) for path in find_each(given)]
    strict = strict or (one_episode and len(found) == 1)
    report = Conversion(Path(destination), recordings=sum(len(parts) or 1 for _, parts in found))
    is_there = is_store(destination)
    with StoreWriter(destination, append=is_there, shard_bytes=shard_bytes) as writer:
        pool: Pool
        if ray is not None:
            pool = RayTasks(ray)
        else:
            pool = Inline() if workers == 1 else Processes(workers)
        try:
            run = _Run(writer, pool, options, shard_bytes, strict, report, progress)
            listings = run.list_recordings(found)
            there = _sources_in(destination) if is_there else {}
            if not append:
                _refuse_others(Path(destination), set(there), listings)
            run.report_changes(listings, there)
            report.image_bytes = image_bytes(listings, set(there))
            report.image_sizes = image_sizes(_each_path(listings), options, report.image_bytes)
            report.image_form = form_of(options, report.image_sizes)
            announce(report.destination, report.image_sizes, report.image_form)
            run.convert(_groups(listings), there)
        finally:
            pool.close()
            close_recording()
            for left in Path(destination).glob(f"{TEMPORARY}*"):  # of workers that died
                left.unlink(missing_ok=True)
        if not is_there and not report.episodes:
            writer.abandon()  # removes the folder: no store without episodes
    report.notes = note_lines(run.notes)
    report.proposals = propose_one_episode(Path(destination), [path for path, _ in found], options)
    for note in report.notes:
        log.info("%s: %s", destination, note)
    added = counted(report.episodes, "episode")
    log.info("%s: %s added, %d skipped", destination, added, len(report.skipped))
    return report


def _sources_in(destination: PathLike) -> dict[str, RecordingState | None]:
    """The source of each episode, with its recording's state at the conversion if known."""
    sources = (episode.source for episode in EpisodeStore(destination))
    return dict(zip(sources, read_states(Path(destination)), strict=True))


def _refuse_others(
    destination: Path, there: set[str], listings: Sequence[tuple[str, Listing]]
) -> None:
    ours = {source_of(path, key) for path, listing in listings for key in listing.keys}
    # The listing of a recording that can't be read any more has no keys; recognize its episodes
    # by its path.
    unread = tuple(source_of(path, "") for path, listing in listings if listing.problem)
    others = sorted(source for source in there - ours if not source.startswith(unread))
    if others:
        raise StoreError(
            f"{destination}: expected no store there, or one of these recordings, got one with "
            f"{len(others):,} other episode{'s' * (len(others) > 1)}, such as {others[0]!r} "
            "(append adds to it)"
        )


def _each_path(listings: Sequence[tuple[str, Listing]]) -> Iterator[str]:
    """The recordings that have images."""
    for path, listing in listings:
        if listing.image_bytes:
            yield from listing.parts or (path,)


def _groups(listings: Sequence[tuple[str, Listing]]) -> list[list[Span]]:
    """All episodes in order, in groups of about equal size that depend on the recordings only."""
    sizes = {path: _size(path, listing.parts) for path, listing in listings if listing.keys}
    limit = min(max(sum(sizes.values()) // GROUPS, LEAST_GROUP_BYTES), MOST_GROUP_BYTES)
    groups: list[list[Span]] = [[]]
    room = float(limit)
    for path, listing in listings:
        keys, each = listing.keys, sizes.get(path, 0) / max(1, len(listing.keys))
        while keys:
            fits = len(keys) if each * len(keys) <= max(room, 0) else int(max(room, 0) / each)
            if fits == 0 and not groups[-1]:
                fits = 1  # larger than a group
            if fits:
                groups[-1].append(Span(path, keys[:fits], listing.parts))
                keys, room = keys[fits:], room - fits * each
            if keys:
                groups.append([])
                room = float(limit)
    return [group for group in groups if group]


def _size(path: str, parts: Sequence[str]) -> int:
    """Estimated size of a recording's rows, in bytes."""
    if parts:
        return sum(_size(part, ()) for part in parts)
    try:
        files = [path]
        if Path(path).is_dir():  # os.walk: a folder may have a file per step
            files = [f"{folder}/{name}" for folder, _, names in os.walk(path) for name in names]
        return sum(
            Path(file).stat().st_size * (VIDEO_FACTOR if file.endswith(VIDEO) else 1)
            for file in files
        )
    except OSError:  # the conversion will skip the recording and report the reason
        return 0


class _Run:
    """One conversion: lists recordings, converts groups, commits in order, and fills the report."""

    def __init__(
        self,
        writer: StoreWriter,
        pool: Pool,
        options: ReadOptions,
        shard_bytes: int,
        strict: bool,
        report: Conversion,
        progress: bool | Update,
    ) -> None:
        self.notes: Counter[str] = Counter()
        self._job = uuid.uuid4().hex  # workers may outlive a conversion: tells their caches apart
        self._writer = writer
        self._pool = pool
        self._options = options
        self._shard_bytes = shard_bytes
        self._strict = strict
        self._report = report
        self._progress = progress
        self._waiting: list[tuple[Made, list[Span]]] = []  # for the next commit
        self._committed = time.monotonic()

    def list_recordings(self, found: Sequence[Found]) -> list[tuple[str, Listing]]:
        """Lists the episodes of each recording."""
        listings = []
        tasks = [(self._job, path, self._options, parts) for path, parts in found]
        for (_, path, *_), listing in run_in_order(self._pool, list_recording, tasks):
            if listing is None:
                listing = Listing(problem=DIED)
            if listing.problem is not None:
                self._skip(path, listing.problem)
            else:
                formats = self._report.formats
                for name in listing.format.split(" + "):  # of recordings that are one episode
                    formats[name] = formats.get(name, 0) + 1
                self.notes.update(listing.notes)
            listings.append((path, listing))
        return listings

    def report_changes(
        self,
        listings: Sequence[tuple[str, Listing]],
        there: Mapping[str, RecordingState | None],
    ) -> None:
        """Reports recordings that changed since the store's episodes were converted from them."""
        for path, listing in listings:
            sources = [source_of(path, key) for key in listing.keys]
            known = [there[source] for source in sources if source in there]
            states = [state for state in known if state is not None]
            if not states:
                continue
            try:
                now = state_of_parts(path, listing.parts)
            except OSError:
                continue  # removed since it was listed; the store has its episodes
            if now in states:  # unchanged
                continue
            if now.bytes in {state.bytes for state in states}:  # probably copied or touched
                self.notes["recordings with another date than when they were converted"] += 1
                continue
            if len(known) < len(sources):
                note = f"{path} has changed and has more episodes; those that were there stay"
                self.notes[note] += len(known)
                continue
            self._skip(
                path,
                f"expected it as it was when it was converted, {states[-1]}, got {now}: the store "
                "keeps the episodes of then (converting to another store takes those of now)",
            )

    def convert(self, groups: Sequence[Sequence[Span]], there: Collection[str]) -> None:
        """Converts the episodes that the store does not have."""
        total = sum(len(span.keys) for group in groups for span in group)
        tasks = [self._task(todo) for group in groups if (todo := _without(group, there))]
        left = sum(len(span.keys) for task in tasks for span in task[2])
        done = self._report.already_there = total - left
        what = "converting episodes"
        if sizes := self._report.image_sizes:
            size = sizes.get(self._report.image_form, sizes["raw"])
            what += f", {byte_count(size)} of images"
        with progress_bar(what, self._progress) as update:
            update(done, total)
            try:
                for task, made in run_in_order(self._pool, make_shards, tasks):
                    died = Made(skipped=[(span.path, DIED) for span in task[2]])
                    self._take(made or died, task[2])
                    done += sum(len(span.keys) for span in task[2])
                    update(done, total)
            finally:
                self._commit_waiting()

    def _take(self, made: Made, spans: list[Span]) -> None:
        self._waiting.append((made, spans))
        is_time = time.monotonic() - self._committed >= COMMIT_SECONDS
        if is_time or (self._strict and made.skipped):
            self._commit_waiting()

    def _commit_waiting(self) -> None:
        """Commits the waiting shards, in one step if all fit the store's streams."""
        waiting, self._waiting = self._waiting, []
        if len(waiting) > 1:
            try:
                self._writer.commit_shards([shard for made, _ in waiting for shard in made.shards])
            except StoreError:
                pass  # commit one at a time, to find the shard that does not fit
            else:
                for made, _ in waiting:
                    self._count(made.shards, made)
                    self._finish(made)
                waiting = []
        for made, spans in waiting:
            self._commit(made, spans)
        self._committed = time.monotonic()

    def _task(self, spans: list[Span]) -> tuple[str, Path, list[Span], ReadOptions, int, bool]:
        return (self._job, self._writer.path, spans, self._options, self._shard_bytes, self._strict)

    def _commit(self, made: Made, spans: list[Span]) -> None:
        for i, shard in enumerate(made.shards):
            try:
                self._writer.commit_shard(shard)
            except StoreError:
                # Streams differ from the store's: convert again with the store's streams, which
                # leaves out only the episodes that do not fit.
                for rest in made.shards[i:]:
                    (self._writer.path / rest.file).unlink(missing_ok=True)
                self._commit_fitting(spans, {s for done in made.shards[:i] for s in done.sources})
                return
            self._count([shard], made)
        self._finish(made)

    def _commit_fitting(self, spans: list[Span], there: set[str]) -> None:
        made = make_shards(*self._task(_without(spans, there)), self._writer.streams)
        for shard in made.shards:
            self._writer.commit_shard(shard)
            self._count([shard], made)
        self._finish(made)

    def _count(self, shards: Iterable[Shard], made: Made) -> None:
        for shard in shards:
            self._report.episodes += shard.episodes
            self._report.bytes += shard.bytes
            rows = self._report.rows
            for source in shard.sources:
                for stream, count in made.rows[source].items():
                    rows[stream] = rows.get(stream, 0) + count

    def _finish(self, made: Made) -> None:
        self.notes.update(made.notes)
        for source, reason in made.skipped:
            self._skip(source, reason)

    def _skip(self, source: str, reason: str) -> None:
        if self._strict:
            raise RecordingError(f"{source}: {reason}")
        log.warning("skipped %s: %s", source, reason)
        self._report.skipped.append(Skipped(source, reason))


def _without(group: Sequence[Span], there: Collection[str]) -> list[Span]:
    left = []
    for span in group:
        keys = tuple(key for key in span.keys if source_of(span.path, key) not in there)
        if keys:
            left.append(Span(span.path, keys, span.parts))
    return left
