"""Data sets of other libraries as stores: converted at the first use, opened at later ones."""

from __future__ import annotations

import numbers
import os
from collections.abc import Mapping
from pathlib import Path

from robocache.conversion import convert
from robocache.conversion.worker import source_of
from robocache.core.paths import absolute_path
from robocache.core.progress import Update
from robocache.readers import Reader, ReadOptions, RecordingError
from robocache.readers.errors import describe, hub_hint
from robocache.readers.image_encoding import AUTO
from robocache.store.episode_store import EpisodeStore
from robocache.store.errors import StoreError
from robocache.store.manifest import NAME, is_store
from robocache.store.stream_info import is_image

PathLike = str | os.PathLike[str]

SUFFIX = ".robocache"


def data_set(source: PathLike, reader: Reader) -> Path:
    """The absolute path of a data set of a format.

    Raises:
        RecordingError: The path is no data set of the format.
    """
    path = Path(absolute_path(source))
    if not path.exists() or not reader.recognizes(path):
        got = describe(path) if path.exists() else "no such file or folder" + hub_hint(source)
        raise RecordingError(f"{path}: expected {reader.expects} ({reader.format}), got {got}")
    return path


def refuse_rate(by: str, options: Mapping[str, object]) -> None:
    """Refuses anchors at a rate, from which a data set's windows could not count rows.

    Args:
        by: The function that makes the loader.
        options: Of the loader.

    Raises:
        ValueError: `anchor: expected ..., got ...`.
    """
    anchor = options.get("anchor")
    if isinstance(anchor, numbers.Real):
        raise ValueError(
            f"anchor: expected a stream ({by} counts rows from the anchor's), got {anchor}"
        )


def episode_number(source: str) -> int:
    """The number of an episode in its data set, from its source: ``set#episode_000029``."""
    return int(source.rpartition("_")[2])


def converted(
    path: Path,
    store: PathLike | None,
    reader: Reader,
    options: ReadOptions,
    progress: bool | Update = True,
) -> EpisodeStore:
    """Opens the store of a data set; converts the data set, or resumes the conversion, if needed.

    Args:
        path: The data set, from :func:`data_set`.
        store: The store's folder; None: beside the data set, under its name with ``.robocache``,
            with ``.no-images.robocache`` where `options` leave images out, with
            ``.96x96.robocache`` where they resize images, or with ``.jpeg-95.robocache`` where
            they encode images.
        reader: The data set's format.
        options: Options of the reader, of which `rate`, `topics`, `images`, `encoding` and `resize`
            apply.
        progress: The conversion's, as in :func:`robocache.convert`.

    Raises:
        RecordingError: An episode can't be read.
        StoreError: The store is damaged, has other episodes, lacks streams, has another writer, or
            is older than the data set.
        MissingLibrary: The format's library is not installed.
        OSError: The store can't be written.
    """
    folder = path.with_name(path.name + _suffix(options)) if store is None else Path(store)
    with reader.open(path, options) as recording:
        wanted = {source_of(str(path), episode.key) for episode in recording.episodes()}
        streams = set(recording.streams)
    found = EpisodeStore(folder) if is_store(folder) else None
    if found is not None:
        _refuse_older(folder, path)
    if found is None or not wanted <= {episode.source for episode in found.episodes}:
        convert(
            path,
            folder,
            strict=True,
            progress=progress,
            rate=options.rate,
            topics=options.topics,
            images=options.images and str(options.encoding),
            resize=options.resize,
        )
        found = EpisodeStore(folder)
    others = [episode.source for episode in found.episodes if episode.source not in wanted]
    if others:
        raise StoreError(
            f"{folder}: expected a store of {path} alone, got one with {len(others)} other "
            f"episodes, such as {others[0]!r} (remove it, and it is made again)"
        )
    missing = sorted(streams - set(found.streams))
    if missing:
        raise StoreError(
            f"{folder}: expected a store of all streams of {path}, got one without "
            f"{', '.join(missing)} (remove it, and it is made again)"
        )
    _refuse_images(folder, found, options)
    return found


def _suffix(options: ReadOptions) -> str:
    """The suffix of a store's name beside its data set: each form of images has its own store."""
    if not options.images:
        return f".no-images{SUFFIX}"
    size = "" if options.resize is None else ".{}x{}".format(*options.resize)
    form = "" if options.encoding == AUTO else f".{str(options.encoding).replace(':', '-')}"
    return f"{size}{form}{SUFFIX}"


def _refuse_images(folder: Path, store: EpisodeStore, options: ReadOptions) -> None:
    """Refuses an existing store whose images have another form or size than the options say."""
    if not options.images:
        return
    encoding = options.encoding
    for name, info in store.streams.items():
        quality = info.encoded.quality if info.encoded is not None else None
        got = "pixels" if info.encoding is None else f"JPEG of quality {quality or 'unknown'}"
        is_right = encoding.kind != "raw" or info.encoding is None
        if encoding.kind == "jpeg":
            is_right = info.encoding is not None and quality == encoding.quality
        if is_image(info) and not is_right:
            raise StoreError(
                f"{folder}: expected images in {name} as {encoding}, as images says, got {got} "
                "(remove it, and it is made again)"
            )
    if options.resize is None:
        return
    width, height = options.resize
    for name, info in store.streams.items():
        if is_image(info) and info.shape[:2] != (height, width):
            raise StoreError(
                f"{folder}: expected images of {width}x{height} in {name}, as resize says, got "
                f"{info.shape[1]}x{info.shape[0]} (remove it, and it is made again)"
            )


def _refuse_older(folder: Path, source: Path) -> None:
    """Refuses a store that is older than a file of its data set."""
    made = (folder / NAME).stat().st_mtime_ns
    for file in [source] if source.is_file() else source.rglob("*"):
        # Skip folders such as .cache: a download tool keeps its records there.
        if any(part.startswith(".") for part in file.relative_to(source).parts[:-1]):
            continue
        if file.is_file() and file.stat().st_mtime_ns > made:
            raise StoreError(
                f"{folder}: expected a store that is newer than its data set, got one that is "
                f"older than {file} (remove it, and it is made again)"
            )
