"""Writing a store: one writer, its lock, and commits that are whole or not there.

    .tmp-... (shard)  .tmp-... (statistics)  .tmp-... (manifest)      written and synced
    shard-00007       statistics-00007                                renamed, folder synced
    manifest.json                                                     renamed, folder synced

Killed before the last rename, the store is as it was, and the files that its manifest does not name
are removed by the next writer; after it, the store is the new one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from robocache.store.episode import MAX_SUBSETS, EpisodeWriter
from robocache.store.errors import StoreError
from robocache.store.files import (
    SHARD,
    STATISTICS,
    TEMPORARY,
    expect_regular,
    new_file,
    sync_folder,
    sync_parents,
)
from robocache.store.lock import StoreLock
from robocache.store.manifest import (
    MOST_BYTES,
    NAME,
    Manifest,
    ShardEntry,
    StatisticsEntry,
    read_manifest,
)
from robocache.store.shard import Shard, ShardFile, ShardWriter
from robocache.store.statistics import StreamStatistics, read_state, state_bytes
from robocache.store.streams import (
    Method,
    StreamEntry,
    Streams,
    Timeline,
    check_name,
    declared,
    joined,
    make_metadata,
)

SHARD_BYTES = 128 << 20


class StoreWriter:
    """Writes an episode store, or adds to one.

    Episodes gather in a shard, which becomes part of the store when the next episode does not fit,
    at :meth:`commit` and at the end: only then do readers see them. Those who read at that moment
    see the store before or the store after. Whenever the process ends, also by a kill or a full
    disk, the store has every episode that was committed. An exception that ends the block before
    anything was committed leaves no store behind where there was none.

    Args:
        path: The store's folder; it is made where there is none.
        append: Add to the store that is there, if there is one. Otherwise a store that is there is
            an error, and so is a folder with other files.
        shard_bytes: How large a shard gets; an episode larger than that has one of its own.

    Raises:
        StoreError: There is a store already, the manifest is damaged, or another writer has it.
        OSError: The folder can't be written.

    Example:
        >>> with rc.StoreWriter("recordings.store") as writer:
        ...     writer.declare("action", units="rad", rate=50)
        ...     with writer.episode(task="pick up the cup", source="demo_3") as episode:
        ...         episode.add("action", times_ns, actions)
        ...         episode.add("image", frame_times_ns, frames)
    """

    def __init__(
        self, path: str | os.PathLike[str], append: bool = False, shard_bytes: int = SHARD_BYTES
    ) -> None:
        if shard_bytes < 1:
            raise ValueError(f"shard_bytes: expected 1 or more, got {shard_bytes}")
        self.path = Path(path)
        self._shard_bytes = shard_bytes
        if self.path.exists() and not self.path.is_dir():
            raise StoreError(f"{self.path}: expected a folder, got a file")
        self._made = [each for each in (self.path, *self.path.parents) if not each.exists()]
        self._is_new = False  # whether this writer made a store of the folder
        self._lock: StoreLock | None = None
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = StoreLock(self.path)
            self._manifest = self._open(append)
            self._statistics = read_state(self.path, self._manifest)
        except BaseException:
            self._undo()
            raise
        self._known = Streams()
        for stream in self._manifest.streams:
            self._known.keep(stream)
        self._shard: ShardWriter | None = None
        self._pending: Shard | None = None  # written, but its commit failed

    def _open(self, append: bool) -> Manifest:
        if (self.path / NAME).exists():
            if not append:
                raise StoreError(
                    f"{self.path}: expected no store there, got one (append=True adds to it)"
                )
            manifest = read_manifest(self.path)
            self._clean(manifest)
            return manifest
        others = [
            entry.name
            for entry in self.path.iterdir()
            if entry.name != ".lock" and not entry.name.startswith(TEMPORARY)
        ]
        if others:
            raise StoreError(
                f"{self.path}: expected a store or an empty folder, got one with {min(others)!r}"
            )
        manifest = Manifest()
        self._clean(manifest)
        # From here on this is a store, and what looks like a shard in it was made by its writers.
        self._is_new = True
        self._write(manifest, {}, {})
        sync_parents(self._made or [self.path])
        return manifest

    def _clean(self, manifest: Manifest) -> None:
        """Removes what writers that were killed left behind."""
        named = {shard.file for shard in manifest.shards}
        if manifest.statistics is not None:
            named.add(manifest.statistics.file)
        for entry in self.path.iterdir():
            name = entry.name
            is_ours = SHARD.fullmatch(name) or STATISTICS.fullmatch(name)
            if entry.is_dir():
                continue  # no writer made it
            if name.startswith(TEMPORARY) or (is_ours and name not in named):
                entry.unlink(missing_ok=True)

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
            return
        # Finished episodes are kept, whatever came after them. What ended the block is what the
        # caller has to know, also where that can't be done.
        try:
            with contextlib.suppress(OSError, ValueError):
                self.commit()
        finally:
            self.abandon()

    @property
    def episodes(self) -> int:
        """How many there are: the store's, and those that were finished since the last commit."""
        committed = sum(shard.episodes for shard in self._manifest.shards)
        pending = self._pending.episodes if self._pending else 0
        return committed + pending + (self._shard.episodes if self._shard else 0)

    @property
    def streams(self) -> tuple[StreamEntry, ...]:
        """Streams of the store and of finished episodes."""
        return tuple(self._known.entries.values())

    # ---- episodes ------------------------------------------------------------------------------

    def episode(
        self, task: str | None = None, source: str = "", subsets: Iterable[str] = ()
    ) -> EpisodeWriter:
        """A new episode, to be used as a context manager.

        It is kept when the block ends, and discarded when it ends by an exception; the store goes
        on either way. It needs at least one row.

        Args:
            task: What was to be done, in words.
            source: Where it comes from, such as `demo.hdf5#demo_3`.
            subsets: Names of subsets that it belongs to, such as "train"; at most 64.
        """
        self._check_open()
        return self._open_shard().new_episode(self._keep, task, source, subsets)

    def declare(
        self,
        stream: str,
        *,
        method: Method | None = None,
        units: str | None = None,
        channels: Sequence[str] | None = None,
        rate: float | None = None,
        timeline: Timeline | None = None,
        source: str | None = None,
    ) -> None:
        """Says what is known of a stream; it takes the place of what the store said before.

        Args:
            stream: Its name; rows may come later.
            method: How alignment combines rows by default: a name, or a layout as
                `[("linear", 7), ("slerp_xyzw", 4)]`. Where nobody says, "linear" for floats and
                "previous" for anything else.
            units: Of the values, such as "rad".
            channels: A name for each element of a row.
            rate: Nominal, in Hz.
            timeline: "rows" where the times were made from the rate; "time" where nobody says.
            source: Where the stream comes from, such as "topic /imu".

        Raises:
            TypeError, ValueError: `<stream>.<fact>: expected ..., got ...`.
        """
        self._check_open()
        metadata = make_metadata(
            check_name(stream),
            method=method,
            units=units,
            channels=channels,
            rate=rate,
            timeline=timeline,
            source=source,
        )
        self._known.declare(stream, metadata)

    def _open_shard(self) -> ShardWriter:
        if self._shard is None:
            self._shard = ShardWriter(self.path, streams=self._known)
        return self._shard

    def _keep(self, episode: EpisodeWriter) -> None:
        self._check_open()
        shard = self._open_shard()
        is_full = shard.bytes + episode.bytes > self._shard_bytes
        if shard.episodes and (is_full or not shard.has_room_for(episode.subsets)):
            self.commit()
            shard = self._open_shard()
        # A full shard waits for the next episode: an error of its commit must not look as if this
        # episode had been refused.
        shard.keep(episode)

    # ---- commits -------------------------------------------------------------------------------

    def commit(self) -> None:
        """Makes finished episodes and declarations part of the store.

        Raises:
            StoreError: Streams differ from what the store got meanwhile by :meth:`commit_shard`.
            OSError: The disk is full, or the like. The store is as it was, and the episodes wait:
                with room made, `commit` may be called again.
        """
        self._check_open()
        self._commit_pending()
        if self._shard is not None and self._shard.episodes:
            self._pending = self._shard.close()
            self._shard = None
            self._commit_pending()
        manifest = replace(self._manifest, streams=self._declared(self._manifest.streams))
        if manifest != self._manifest:
            self._write(manifest, {}, self._statistics)

    def _commit_pending(self) -> None:
        if self._pending is None:
            return
        try:
            self.commit_shard(self._pending)
        finally:
            if not (self.path / self._pending.file).exists():  # it has its name in the store
                self._pending = None

    def commit_shard(self, shard: Shard) -> None:
        """Makes a shard that a :class:`ShardWriter` wrote in this folder part of the store.

        Raises:
            StoreError: Its streams differ from the store's, or its file is not there as it was
                written. The store is as it was, and so is the shard.
            OSError: The disk is full, or the like; the same.
        """
        self.commit_shards([shard])

    def commit_shards(self, shards: Sequence[Shard]) -> None:
        """Commits several shards in one step: all become part of the store, or none."""
        self._check_open()
        if not shards:
            return
        manifest = self._manifest
        statistics = dict(self._statistics)
        files: dict[Path, str] = {}
        for shard in shards:
            path = self._check_file(shard)
            manifest = self._with(manifest, shard)
            files[path] = manifest.shards[-1].file
            for name, new in shard.statistics.items():
                known = statistics.get(name)
                statistics[name] = new if known is None else known.merged(new)
        self._replace(
            manifest, files, statistics, {n for shard in shards for n in shard.statistics}
        )

    def replace_shards(
        self, shards: Mapping[str, ShardFile], statistics: Mapping[str, StreamStatistics]
    ) -> None:
        """Puts shards in the place of others with the same episodes, in one step: all or none.

        Args:
            shards: The new files, in this folder, by the names of those that they replace.
            statistics: Of the streams whose statistics change with them.

        Raises:
            StoreError: A file is not there as it was written. The store is as it was.
            OSError: The disk is full, or the like; the same.
        """
        self._check_open()
        if not shards:
            return
        number = _next_number(entry.file for entry in self._manifest.shards)
        files: dict[Path, str] = {}
        entries = []
        for entry in self._manifest.shards:
            shard = shards.get(entry.file)
            if shard is not None:
                path = self._check_file(shard)
                files[path] = f"shard-{number + len(files):05d}.safetensors"
                entry = replace(entry, file=files[path], **shard.manifest_fields)
            entries.append(entry)
        manifest = replace(self._manifest, shards=tuple(entries))
        self._replace(manifest, files, {**self._statistics, **statistics}, statistics)
        for name in shards:
            (self.path / name).unlink(missing_ok=True)

    def _replace(
        self,
        manifest: Manifest,
        files: dict[Path, str],
        statistics: dict[str, StreamStatistics],
        changed: Collection[str],
    ) -> None:
        """Puts a manifest, its new files and its statistics, of which some changed, in place."""
        old = manifest.statistics
        summaries = dict(old.streams) if old else {}
        summaries.update(
            (name, statistics[name].summary()) for name in statistics if name in changed
        )
        state = new_file(self.path, state_bytes(statistics))
        # As the newest shard, so that a store does not tell in how many commits it was made.
        name = f"statistics-{_next_number(e.file for e in manifest.shards) - 1:05d}.safetensors"
        entry = StatisticsEntry(name, state.bytes, f"{state.crc32:08x}", summaries)
        manifest = replace(manifest, statistics=entry)
        try:
            self._write(manifest, {**files, state.path: name}, statistics)
        finally:
            state.discard()  # where it was not renamed
        if old is not None:
            (self.path / old.file).unlink(missing_ok=True)

    def _check_file(self, shard: ShardFile) -> Path:
        path = self.path / shard.file
        if not shard.file.startswith(TEMPORARY) or path.name != shard.file:
            raise StoreError(f"shard: expected a file of {self.path}, got {shard.file!r}")
        try:
            expect_regular(path, shard.bytes)
        except FileNotFoundError:
            raise StoreError(
                f"{path}: expected the shard's file, got none (a StoreWriter removes what others "
                "left in the folder when it opens: open it before any ShardWriter)"
            ) from None
        return path

    def _with(self, manifest: Manifest, shard: Shard) -> Manifest:
        """The manifest with a shard more."""
        streams = {stream.name: stream for stream in self._declared(manifest.streams)}
        where = f"{self.path / shard.file}"
        for stream in shard.streams:
            known = streams.get(stream.name)
            streams[stream.name] = stream if known is None else joined(known, stream, where)
        tasks = _numbered((*manifest.tasks, *shard.tasks))
        subsets = _numbered((*manifest.subsets, *shard.subsets))
        if len(shard.subsets) > MAX_SUBSETS:
            raise StoreError(f"{where}: expected at most {MAX_SUBSETS} subsets in a shard")
        number = _next_number([entry.file for entry in manifest.shards])
        entry = ShardEntry(
            file=f"shard-{number:05d}.safetensors",
            **shard.manifest_fields,
            episodes=shard.episodes,
            tasks=tuple(tasks[task] for task in shard.tasks),
            subsets=tuple(subsets[subset] for subset in shard.subsets),
        )
        return replace(
            manifest,
            streams=self._declared(streams.values()),
            tasks=tuple(tasks),
            subsets=tuple(subsets),
            shards=(*manifest.shards, entry),
        )

    def _declared(self, streams: Iterable[StreamEntry]) -> tuple[StreamEntry, ...]:
        said = self._known.declared
        return tuple(declared(s, said[s.name]) if s.name in said else s for s in streams)

    def _write(
        self,
        manifest: Manifest,
        files: Mapping[Path, str],
        statistics: dict[str, StreamStatistics],
    ) -> None:
        """Puts a manifest in place, and before it the files that are new in it, by their names."""
        text = manifest.to_bytes()
        if len(text) > MOST_BYTES:
            raise StoreError(
                f"{self.path / NAME}: expected at most {MOST_BYTES} bytes, got {len(text)} (a "
                "second store takes further episodes)"
            )
        file = new_file(self.path, text)
        renamed: list[tuple[Path, Path]] = []
        try:
            for temporary, name in files.items():
                renamed.append((self.path / name, temporary))
                temporary.rename(self.path / name)
            if files:
                sync_folder(self.path)
            file.path.rename(self.path / NAME)
        finally:
            # Whatever came in between, Ctrl-C too: this is the moment that decides.
            if file.path.exists():
                for path, temporary in renamed:
                    if not temporary.exists():
                        path.rename(temporary)
                file.discard()
            else:
                self._manifest = manifest
                self._statistics = statistics
        sync_folder(self.path)
        for stream in manifest.streams:
            self._known.keep(stream)

    # ---- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Commits, and gives the store back. A second call does nothing.

        Raises:
            As :meth:`commit` does; the store is given back then too, and what was not committed is
            gone.
        """
        if self._lock is None:
            return
        try:
            self.commit()
        finally:
            self._give_back()

    def abandon(self) -> None:
        """Gives the store back without a commit: episodes that were not committed are gone.

        A store that this writer made, and that nothing was committed to, goes too.
        """
        if self._lock is not None and self._manifest == Manifest():
            self._discard_shards()
            self._undo()
        self._give_back()

    def _give_back(self) -> None:
        if self._lock is None:
            return
        self._discard_shards()
        self._lock.release()
        self._lock = None

    def _discard_shards(self) -> None:
        if self._shard is not None:
            self._shard.discard()
        if self._pending is not None:
            (self.path / self._pending.file).unlink(missing_ok=True)

    def _undo(self) -> None:
        """Gives back a folder without episodes as it was found: what failed leaves nothing."""
        if self._lock is not None:
            if self._is_new:
                (self.path / NAME).unlink(missing_ok=True)
            self._lock.release(remove=not (self.path / NAME).exists())
            self._lock = None
        with contextlib.suppress(OSError):  # somebody may have put something there
            for folder in self._made:
                folder.rmdir()

    def _check_open(self) -> None:
        if self._lock is None:
            raise ValueError("writer: expected one that is open, got one that was closed")


def _numbered(names: Iterable[str]) -> dict[str, int]:
    """Each name once, with its number."""
    return {name: i for i, name in enumerate(dict.fromkeys(names))}


def _next_number(files: Iterable[str]) -> int:
    """The number after that of any file: `shard-00007.safetensors` has 7."""
    return max((int(file.split("-")[1].split(".")[0]) for file in files), default=-1) + 1
