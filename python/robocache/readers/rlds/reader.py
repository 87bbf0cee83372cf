"""RLDS data sets as TFDS writes them (Open X-Embodiment): TFRecord files, without TensorFlow."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from robocache.readers import images
from robocache.readers.encoded_images import first_file, frame_bytes, image_rows
from robocache.readers.errors import RecordingError, reading
from robocache.readers.json_file import parse_json
from robocache.readers.options import ReadOptions
from robocache.readers.recording import (
    EpisodeReader,
    Reader,
    Recording,
    StreamMetadata,
    require_rate,
)
from robocache.readers.rlds.features import Step, count_of, read_features, tensor_of
from robocache.readers.rlds.tfrecord import (
    LEAST_RECORD,
    Feature,
    parse_example,
    read_record,
    record_offsets,
)
from robocache.readers.rows import Rows, chunks, row_times

WHAT = "an RLDS data set"

_SHARD = re.compile(r"(?P<set>.+)-(?P<split>[^-]+)\.tfrecord-(?P<index>\d{5,})-of-(?P<of>\d{5,})")

# In the names of texts by which data sets of Open X-Embodiment say the task.
_TASKS = ("instruction", "language", "task")


@dataclass
class Shard:
    """A file of episodes."""

    path: Path
    split: str
    index: int
    episodes: int | None
    """The number of its episodes, if the data set states it."""
    offsets: list[int] | None = None

    def offset(self, number: int) -> int:
        """Where an episode begins in the file."""
        return self.load()[number]

    def load(self) -> list[int]:
        """The offset of each episode; the first call reads the lengths of the records.

        Raises:
            RecordingError: If the file is cut short, or has another number of episodes.
        """
        if self.offsets is None:
            with reading(self.path, "a TFRecord file"):
                found = record_offsets(self.path)
            if self.episodes is not None and len(found) != self.episodes:
                raise RecordingError(
                    f"{self.path}: expected {self.episodes} episodes, as dataset_info.json says, "
                    f"got {len(found)}"
                )
            self.offsets = found
        return self.offsets


class RldsRecording(Recording):
    """A version of an RLDS data set, opened."""

    format = "RLDS"

    def __init__(self, path: Path, options: ReadOptions) -> None:
        super().__init__(path, options)
        folder = path if path.is_dir() else path.parent
        self.rate = require_rate(path, None, options)
        self.held: dict[RldsEpisode, dict[str, Feature]] = {}
        """The features of the episode whose `task` was read last, until its rows are."""
        with reading(folder, WHAT):
            self.steps = self._choose(read_features(folder / "features.json", self.notes))
            self.shards = self._find_shards(folder, path)
        for step in self.steps:
            if step.kind != "text":
                self.streams[step.name] = StreamMetadata(
                    step.method, rate=self.rate, timeline="rows", source=step.key
                )

    def _choose(self, steps: list[Step]) -> list[Step]:
        """The features to read."""
        names = [step.name for step in steps if step.kind != "text"]
        chosen = set(self.options.select(names))
        kept = []
        for step in steps:
            if step.kind == "text":
                kept.append(step)
                if not is_task(step.name):
                    self.notes[f"text left out: {step.name}"] += 1
            elif step.name not in chosen:
                continue
            elif step.kind == "image" and not self.options.images:
                images.leave_out(step.name, self.notes)
            else:
                kept.append(step)
        return kept

    def _find_shards(self, folder: Path, path: Path) -> list[Shard]:
        """The files of the data set that are here, in the order of splits and of their numbers."""
        splits = self._splits(folder)
        shards = []
        for file in sorted(folder.iterdir()):
            match = _SHARD.fullmatch(file.name)
            if match and file.is_file() and path in (folder, file):
                lengths = splits.get(match["split"])
                index = int(match["index"])
                count = lengths[index] if lengths and index < len(lengths) else None
                shards.append(Shard(file, match["split"], index, count))
        if not shards:
            raise RecordingError(f"{folder}: expected {WHAT} with .tfrecord files, got none")
        if path == folder:
            here = {(shard.split, shard.index) for shard in shards}
            absent = sum(
                (split, index) not in here
                for split, lengths in splits.items()
                for index in range(len(lengths))
            )
            if absent:
                self.notes["files of the data set that are not here"] += absent
        return shards

    def _splits(self, folder: Path) -> dict[str, list[int]]:
        """How many episodes each file of each split has, as far as the data set says."""
        path = folder / "dataset_info.json"
        try:
            info = parse_json(path, path.read_text(encoding="utf-8"))
            return {
                str(split["name"]): [int(length) for length in split.get("shardLengths", ())]
                for split in info.get("splits", ())
            }
        except FileNotFoundError:
            return {}
        except RecordingError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
            raise RecordingError(
                f"{path}: expected dataset_info.json as TFDS writes it, got {error}"
            ) from error

    def image_bytes(self) -> int | None:
        """Estimates by the images of the first episode, and its part of the files' bytes."""
        names = [step.name for step in self.steps if step.kind == "image"]
        if not names:
            return 0
        shard = self.shards[0]
        with contextlib.suppress(Exception):  # `read` reports what it can't read
            record = read_record(shard.path, shard.offset(0))
            example = parse_example(record)
            size = 0
            for step in self.steps:
                files = example.get(step.key)
                if step.kind == "image" and isinstance(files, list):
                    size += len(files) * frame_bytes(first_file(files), self.options)
            stored = sum(shard.path.stat().st_size for shard in self.shards)
            return round(size * stored / len(record))
        return None

    def episodes(self) -> Sequence[EpisodeReader]:
        """Episodes of all splits that are present."""
        found: list[EpisodeReader] = []
        for shard in self.shards:
            count = shard.episodes
            most = shard.path.stat().st_size // LEAST_RECORD
            if count is None or not 0 <= count <= most:
                count = len(shard.load())
            found += [RldsEpisode(self, shard, number) for number in range(count)]
        return found


class RldsEpisode:
    """One episode: one record of a file.

    The record is held whole while it is read; images are decoded in chunks.
    """

    def __init__(self, recording: RldsRecording, shard: Shard, number: int) -> None:
        self._recording = recording
        self._shard = shard
        self._number = number
        self.key = f"{shard.split}/{shard.index:05d}/{number}"
        self.subsets = (shard.split,)

    @functools.cached_property
    def task(self) -> str | None:
        """The task of the first step. Reads the record, and holds it until `read`."""
        features = self._load()
        texts = [step for step in self._recording.steps if step.kind == "text"]
        for step in sorted(texts, key=lambda step: step.name):
            feature = features.get(step.key)
            if is_task(step.name) and isinstance(feature, list) and feature and feature[0]:
                return feature[0].decode("utf-8", "replace")
        return None

    def read(self) -> Iterator[Rows]:
        """The rows, one stream after another."""
        features = self._load()
        self._recording.held.clear()
        steps = [step for step in self._recording.steps if step.kind != "text"]
        where = f"{self._shard.path}, episode {self._number}"
        length: int | None = None
        for step in steps:
            feature = features.get(step.key)
            if feature is None:
                if f"{step.key}/ragged_flat_values" in features:
                    note = f"features left out: {step.name} (its length varies)"
                    self._recording.notes[note] += 1
                    self._recording.streams.pop(step.name, None)
                    continue
                raise RecordingError(f"{where}: expected the feature {step.key}, got none")
            with reading(self._shard.path, f"steps of {step.name} in episode {self._number}"):
                count = count_of(step, feature)
            if length not in (None, count):
                raise RecordingError(
                    f"{where}: expected {length} steps of {step.name}, got {count}"
                )
            length = count
            yield from self._rows(step, feature, count)

    def _rows(self, step: Step, feature: Feature, count: int) -> Iterator[Rows]:
        times = row_times(0, count, self._recording.rate)
        what = f"{step.name} in episode {self._number}"
        if step.kind == "image":
            if not isinstance(feature, list):
                raise RecordingError(f"{self._shard.path}: expected images of {what}, got numbers")
            path = self._shard.path
            yield from image_rows(
                step.name, times, feature, lambda row: f"{path}, step {row} of {what}", path,
                self._recording.notes, self._recording.options,
            )  # fmt: skip
            return
        with reading(self._shard.path, f"numbers of {what}"):
            limit = self._recording.options.memory_limit
            values = tensor_of(step, feature, f"{self._shard.path}, {what}", limit)
        yield from chunks(Rows(step.name, times, values))

    def _load(self) -> dict[str, Feature]:
        """The features of the record; of the recording's records the last one is held."""
        path = self._shard.path
        held = self._recording.held
        if self not in held:
            with reading(path, "a TFRecord file of tf.train.Example"):
                features = parse_example(read_record(path, self._shard.offset(self._number)))
            held.clear()
            held[self] = features
        return held[self]


def is_task(name: str) -> bool:
    """Whether a text describes the task, by its name."""
    base = name.rpartition("/")[2]
    return any(word in base for word in _TASKS)


def _recognizes(path: Path) -> bool:
    if path.is_dir():
        return all((path / name).is_file() for name in ("features.json", "dataset_info.json"))
    is_shard = _SHARD.fullmatch(path.name) is not None
    return is_shard and path.is_file() and (path.parent / "features.json").is_file()


READER = Reader(
    "RLDS", "rlds", "a folder of TFRecord files with features.json", _recognizes, RldsRecording
)
