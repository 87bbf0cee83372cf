"""`StoreWriter`: writes a store under a lock, in atomic commits.

    .tmp-... (shard)  .tmp-... (statistics)  .tmp-... (manifest)      written and synced
    shard-00007       statistics-00007                                renamed, folder synced
    manifest.json                                                     renamed, folder synced

A process killed before the last rename leaves the old store; the next writer removes files that the
manifest does not name. After the last rename the store is the new one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from robocache.core.paths import absolute_path, check_path
from robocache.store.episode import EpisodeWriter
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
from robocache.store.manifest import MOST_BYTES, NAME, Manifest, StatisticsEntry, read_manifest
from robocache.store.manifest_update import next_number, with_declarations, with_shard
from robocache.store.shard import Shard, ShardFile, ShardWriter
from robocache.store.statistics import StreamStatistics, read_state, state_bytes
from robocache.store.streams import (
    Method,
    StreamEntry,
    Streams,
    Timeline,
    check_name,
    make_metadata,
)

SHARD_BYTES = 128 << 20


class StoreWriter:
    """Writes an episode store, or adds to one.

    Finished episodes wait in a shard, which the writer commits when the next episode does not fit,
    at :meth:`commit` and at :meth:`close`. Readers see episodes once they are committed; a commit
    is atomic. Committed episodes survive however the process ends, also by a kill or a full disk.
    If an exception ends the block before the first commit, a new store is removed.

    Args:
        path: The store's folder; it is created if missing.
        append: Add to an existing store, if there is one. Without it an existing store is an error,
            as is a folder with other files.
        shard_bytes: Maximum size of a shard; a larger episode gets a separate shard.

    Raises:
        StoreError: The store exists (without `append`), its manifest is damaged, or another writer
            holds its lock.
        OSError: The folder is not writable.

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
        check_path("path", path, "the folder of an episode store")
        # Absolute: the program may change its working directory before the next commit.
        self.path = Path(absolute_path(path))
        self._shard_bytes = shard_bytes
        if self.path.exists() and not self.path.is_dir():
            raise StoreError(f"{self.path}: expected a folder, got a file")
        self._created = [each for each in (self.path, *self.path.parents) if not each.exists()]
        self._is_new = False  # whether this writer created the store
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
        # From here on the folder is a store: files with names of shards are those of its writers.
        self._is_new = True
        self._write(manifest, {}, {})
        sync_parents(self._created or [self.path])
        return manifest

    def _clean(self, manifest: Manifest) -> None:
        """Removes files of writers that were killed."""
        named = {shard.file for shard in manifest.shards}
        if manifest.statistics is not None:
            named.add(manifest.statistics.file)
        for entry in self.path.iterdir():
            name = entry.name
            is_ours = SHARD.fullmatch(name) or STATISTICS.fullmatch(name)
            if entry.is_dir():
                continue  # writers create no folders
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
        # Commit the finished episodes after any exception. If that fails too, the caller sees the
        # exception that ended the block.
        try:
            with contextlib.suppress(OSError, ValueError):
                self.commit()
        finally:
            self.abandon()

    @property
    def episodes(self) -> int:
        """Number of episodes: committed ones, and those finished since the last commit."""
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
        """Creates the writer of a new episode, a context manager.

        The episode is finished when the block ends, and discarded when an exception ends the block;
        the store accepts further episodes either way. An episode needs at least one row.

        Args:
            task: The robot's task, in words.
            source: Origin of the episode, such as `demo.hdf5#demo_3`.
            subsets: Names of the episode's subsets, such as "train"; at most 64.
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
        """Declares metadata of a stream; a stated field replaces the store's.

        Args:
            stream: Name of the stream, which may have no rows yet.
            method: How alignment combines rows by default: a name, or a layout such as
                `[("linear", 7), ("slerp_xyzw", 4)]`. If no method is declared: "linear" for floats
                and "previous" for other types.
            units: Units of the values, such as "rad".
            channels: A name for each element of a row.
            rate: Nominal rate in Hz.
            timeline: "time" for recorded times, the default; "rows" for times computed from the
                rate.
            source: Location of the stream in the recording, such as "topic /imu".

        Raises:
            TypeError, ValueError: `<stream>.<field>: expected ..., got ...`.
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
        if not shard.fits(episode, self._shard_bytes):
            self.commit()
            shard = self._open_shard()
        # Do not commit a full shard here: an error of the commit would look as if this episode
        # had been refused.
        shard.keep(episode)

    # ---- commits -------------------------------------------------------------------------------

    def commit(self) -> None:
        """Commits finished episodes and declarations.

        Raises:
            StoreError: Streams differ from those that :meth:`commit_shard` added in the meantime.
            OSError: A write failed, for example because the disk is full. The store is unchanged
                and the episodes are kept: call `commit` again once the disk has space.
        """
        self._check_open()
        self._commit_pending()
        if self._shard is not None and self._shard.episodes:
            self._pending = self._shard.close()
            self._shard = None
            self._commit_pending()
        streams = with_declarations(self._manifest.streams, self._known.declared)
        manifest = replace(self._manifest, streams=streams)
        if manifest != self._manifest:
            self._write(manifest, {}, self._statistics)

    def _commit_pending(self) -> None:
        if self._pending is None:
            return
        try:
            self.commit_shard(self._pending)
        finally:
            if not (self.path / self._pending.file).exists():  # renamed: it is committed
                self._pending = None

    def commit_shard(self, shard: Shard) -> None:
        """Commits a shard that a :class:`ShardWriter` wrote in this folder.

        Raises:
            StoreError: The shard's streams differ from the store's, or its file is missing or has
                another size. Store and shard are unchanged.
            OSError: A write failed, for example because the disk is full. Store and shard are
                unchanged.
        """
        self.commit_shards([shard])

    def commit_shards(self, shards: Sequence[Shard]) -> None:
        """Commits several shards atomically; see :meth:`commit_shard`."""
        self._check_open()
        if not shards:
            return
        manifest = self._manifest
        statistics = dict(self._statistics)
        files: dict[Path, str] = {}
        for shard in shards:
            path = self._check_file(shard)
            manifest = with_shard(manifest, shard, self._known.declared, self.path)
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
        """Replaces shards by others with the same episodes, in one atomic commit.

        Args:
            shards: The new files, in this folder, by the names of the files that they replace.
            statistics: The new statistics of the streams that change.

        Raises:
            StoreError: A new file is missing or has another size. The store is unchanged.
            OSError: A write failed, for example because the disk is full. The store is unchanged.
        """
        self._check_open()
        if not shards:
            return
        number = next_number(entry.file for entry in self._manifest.shards)
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
        """Commits a manifest, new files by their final names, and the `changed` statistics."""
        old = manifest.statistics
        summaries = dict(old.streams) if old else {}
        summaries.update(
            (name, statistics[name].summary()) for name in statistics if name in changed
        )
        state = new_file(self.path, state_bytes(statistics))
        # Numbered as the newest shard: the files do not depend on the number of commits.
        name = f"statistics-{next_number(e.file for e in manifest.shards) - 1:05d}.safetensors"
        entry = StatisticsEntry(name, state.bytes, f"{state.crc32:08x}", summaries)
        manifest = replace(manifest, statistics=entry)
        try:
            self._write(manifest, {**files, state.path: name}, statistics)
        finally:
            state.discard()  # still present if the commit failed
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

    def _write(
        self,
        manifest: Manifest,
        files: Mapping[Path, str],
        statistics: dict[str, StreamStatistics],
    ) -> None:
        """Renames new files to their final names and then replaces the manifest."""
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
            # After any exception, Ctrl-C too: the commit happened if the manifest was renamed.
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
        """Commits, and releases the store. A second call does nothing.

        Raises:
            As :meth:`commit` does; the writer releases the store then too, and episodes that were
            not committed are lost.
        """
        if self._lock is None:
            return
        try:
            self.commit()
        finally:
            self._release()

    def abandon(self) -> None:
        """Releases the store without a commit: episodes that were not committed are lost.

        A store that this writer created and that has no commit is removed.
        """
        if self._lock is not None and self._manifest == Manifest():
            self._discard_shards()
            self._undo()
        self._release()

    def _release(self) -> None:
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
        """Restores a folder without episodes to its state before this writer."""
        if self._lock is not None:
            if self._is_new:
                (self.path / NAME).unlink(missing_ok=True)
            self._lock.release(remove=not (self.path / NAME).exists())
            self._lock = None
        with contextlib.suppress(OSError):  # another program may have written to the folder
            for folder in self._created:
                folder.rmdir()

    def _check_open(self) -> None:
        if self._lock is None:
            raise ValueError("writer: expected one that is open, got one that was closed")
