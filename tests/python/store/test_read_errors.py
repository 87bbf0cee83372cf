"""Folders that are no store, and manifests that are damaged, foreign or hostile: each an error."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from privileges import unprivileged
from spoiled_stores import INTEGER, SHARD, problem, small_store
from stores import HandStore, sealed

import robocache as rc

TYPES = "BOOL, U8, I8, U16, I16, U32, I32, U64, I64, F16, BF16, F32 or F64"
METHODS = "linear, previous, nearest, slerp_xyzw, slerp_wxyz, angle, mean or sum"


@pytest.fixture
def store(tmp_path: Path) -> HandStore:
    return small_store(tmp_path / "st")


# ---- the folder and its files --------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_no_path(path: str) -> None:
    with pytest.raises(rc.StoreError, match=r"^path: expected the folder of an episode store, got"):
        rc.EpisodeStore(path)


def test_type_of_path() -> None:
    with pytest.raises(TypeError):
        rc.EpisodeStore(3)  # type: ignore[arg-type]


def test_nothing_there(tmp_path: Path) -> None:
    assert problem(tmp_path / "no") == (
        "ST: expected the folder of an episode store, got No such file or directory"
    )


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    assert (
        problem(tmp_path / "f")
        == "ST: expected the folder of an episode store, got Not a directory"
    )


def test_another_folder(tmp_path: Path) -> None:
    (tmp_path / SHARD).write_bytes(b"x")
    assert problem(tmp_path) == (
        "ST: expected the folder of an episode store, got one without manifest.json"
    )


@pytest.mark.parametrize("name", ["manifest.json", SHARD])
def test_what_is_no_file(store: HandStore, name: str) -> None:
    path = store.folder / name
    path.unlink()
    path.mkdir()
    assert problem(store.folder) == f"ST/{name}: expected a file, got a folder"
    path.rmdir()
    os.mkfifo(path)
    assert problem(store.folder) == f"ST/{name}: expected a file, got something that is no file"
    path.unlink()
    path.symlink_to("/dev/zero")
    assert problem(store.folder) == f"ST/{name}: expected a file, got a symbolic link"


def test_a_link_to_a_good_shard(store: HandStore) -> None:
    path = store.folder / SHARD
    path.rename(store.folder.parent / "elsewhere")
    path.symlink_to(store.folder.parent / "elsewhere")
    assert problem(store.folder) == f"ST/{SHARD}: expected a file, got a symbolic link"


def test_a_shard_is_missing(store: HandStore) -> None:
    (store.folder / SHARD).unlink()
    assert problem(store.folder) == (
        f"ST/{SHARD}: expected a file that can be opened, got No such file or directory"
    )


def test_a_recording_is_no_store(tmp_path: Path) -> None:
    """The message has the command that makes one of it."""
    folder = tmp_path / "my takes"
    folder.mkdir()
    table = folder / "take 1.csv"
    table.write_text("t,x\n0.0,1\n0.1,2\n")
    with pytest.raises(rc.StoreError) as error:
        rc.EpisodeStore(table)
    assert str(error.value) == (
        f"{table}: expected the folder of an episode store, got a recording (CSV) "
        f"(`robocache convert '{table}' 'take 1.store'` makes a store of it)"
    )
    with pytest.raises(rc.StoreError) as error:
        rc.EpisodeStore(folder)
    assert str(error.value) == (
        f"{folder}: expected the folder of an episode store, got a folder of recordings (CSV) "
        f"(`robocache convert '{folder}' 'my takes.store'` makes a store of it)"
    )


@pytest.mark.parametrize("name", ["manifest.json", SHARD, "."])
def test_permission_denied(store: HandStore, name: str) -> None:
    expected = "a file that can be opened" if name != "." else "the folder of an episode store"
    (store.folder / name).chmod(0)
    said = unprivileged(problem, store.folder)
    (store.folder / name).chmod(0o700)
    where = "ST" if name == "." else f"ST/{name}"
    assert said == f"{where}: expected {expected}, got Permission denied"


# ---- the manifest's text -------------------------------------------------------------------------

NO_CHECKSUM = (
    "ST/manifest.json: expected the manifest of an episode store, which ends in its checksum, got "
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", NO_CHECKSUM + "an empty file"),
        (b"{}", NO_CHECKSUM + "a file that is cut short or another one"),
        (b'{"format": "lerobot"}\n' * 9, NO_CHECKSUM + "a file that is cut short or another one"),
        (b"\x89PNG" * 99, NO_CHECKSUM + "a file that is cut short or another one"),
        (b'{"a":1,"crc32":"0000000g"}\n', NO_CHECKSUM + "a file that is cut short or another one"),
        (b'{"a":1,"crc32":"0000000A"}\n', NO_CHECKSUM + "a file that is cut short or another one"),
        (b'{"a":1,"crc32":"01234567"}\n',
         "ST/manifest.json: expected crc32 01234567, as it says at its end, got a702fc6e: the file "
         "was altered"),
        (sealed(b'{"a":'),
         'ST/manifest.json: expected JSON, got ",\\"crc32\\":\\"6ab07f" at byte 6'),
        (sealed(b'{"a":"\xff"'),
         'ST/manifest.json: expected JSON, got "\ufffd\\",\\"crc32\\":\\"5688" at byte 7'),
        (sealed(b'{"a":1e999'), "ST/manifest.json: expected JSON, got a number out of range"),
        (sealed(b'{"a":1,"a":2'),
         'ST/manifest.json: expected each name once in an object, got "a" twice'),
        (sealed(b'{"a":' + b"[" * 9999),
         "ST/manifest.json: expected JSON at most 16 levels deep, got more"),
        (sealed(b'{"a":' + b'{"b":' * 17),
         "ST/manifest.json: expected JSON at most 16 levels deep, got more"),
    ],
)  # fmt: skip
def test_text(store: HandStore, text: bytes, message: str) -> None:
    (store.folder / "manifest.json").write_bytes(text)
    assert problem(store.folder) == message


def stream(**changes: Any) -> Callable[[dict[str, Any]], None]:
    """Changes the manifest's first stream, whose rows have 4 elements."""
    return lambda manifest: manifest["streams"][0].update(changes)


def shard(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda manifest: manifest["shards"][0].update(changes)


def top(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda manifest: manifest.update(changes)


def without(*path: Any) -> Callable[[dict[str, Any]], None]:
    def spoil(manifest: dict[str, Any]) -> None:
        place: Any = manifest
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]

    return spoil


def statistics(**changes: Any) -> Callable[[dict[str, Any]], None]:
    summary = {
        "count": [1, 2], "mean": [0, None], "std": [0, 1], "min": [0, 1], "max": [0, 1],
        "quantiles": {"0.5": [0, 1]}, "exact_quantiles": False,
    }  # fmt: skip
    entry = {"file": "statistics-00000.safetensors", "bytes": 8, "crc32": "00000000"}
    return lambda manifest: manifest.update(
        statistics=entry | {"streams": {"action": summary | changes}}
    )


# (what is changed, the message without "ST/manifest.json: ")
# fmt: off
MANIFESTS: list[tuple[Callable[[dict[str, Any]], None], str]] = [
    (without("format"), 'format: expected "robocache-store", got none'),
    (top(format="zarr"), 'format: expected "robocache-store", got "zarr"'),
    (top(format=3), 'format: expected "robocache-store", got 3'),
    (without("version"), f"version: expected {INTEGER}, got none"),
    (top(version=3), "version: expected 1 or 2, which this version of robocache reads, got 3"),
    (top(version=0), "version: expected 1 or 2, which this version of robocache reads, got 0"),
    (top(version="1"), f'version: expected {INTEGER}, got "1"'),
    (top(version=1.0), f"version: expected {INTEGER}, got 1.0"),
    (without("streams"), "streams: expected a list, got none"),
    (top(streams={}), "streams: expected a list, got {}"),
    (top(streams=[3]), "streams[0]: expected an object, got 3"),
    (without("tasks"), "tasks: expected a list, got none"),
    (top(tasks=["a", 1]), "tasks[1]: expected a text, got 1"),
    (top(subsets=None), "subsets: expected a list, got null"),
    (without("shards"), "shards: expected a list, got none"),
    # Streams
    (without("streams", 0, "name"), "streams[0].name: expected a text, got none"),
    (stream(name=""), "streams[0].name: expected a name without control characters, other than "
     '"episode", got ""'),
    (stream(name="episode"), "streams[0].name: expected a name without control characters, other "
     'than "episode", got "episode"'),
    (stream(name="a\nb"), "streams[0].name: expected a name without control characters, other "
     'than "episode", got "a\\nb"'),
    (stream(name="flag"), 'streams[1].name: expected each stream once, got "flag"'),
    (stream(dtype="F31"), f'streams[0].dtype: expected {TYPES}, got "F31"'),
    (stream(dtype=None), f"streams[0].dtype: expected {TYPES}, got null"),
    (stream(dtype="é" * 60), f'streams[0].dtype: expected {TYPES}, got "' + "é" * 39 + "..."),
    (stream(shape=4), "streams[0].shape: expected a list, got 4"),
    (stream(shape=[-1]), f"streams[0].shape[0]: expected {INTEGER}, got -1"),
    (stream(shape=[1.5]), f"streams[0].shape[0]: expected {INTEGER}, got 1.5"),
    (stream(shape=[2**64]), f"streams[0].shape[0]: expected {INTEGER}, got 1.8446744073709552e+19"),
    (stream(shape=[4, 0]), "streams[0].shape[1]: expected 1 or more, got 0"),
    (stream(shape=[2**40, 2**40]), "streams[0].shape: expected a row of at most "
     "9223372036854775807 elements, got [1099511627776,1099511627776]"),
    (stream(shape=[1] * 8), "streams[0].shape: expected at most 7 sizes, got [1,1,1,1,1,1,1,1]"),
    (stream(method="cubic"), f'streams[0].method: expected {METHODS}, got "cubic"'),
    (stream(method=3), "streams[0].method: expected a list, got 3"),
    (stream(method=[["linear"]]),
     'streams[0].method[0]: expected a method and its number of channels, got ["linear"]'),
    (stream(method=[["cubic", 4]]), f'streams[0].method[0][0]: expected {METHODS}, got "cubic"'),
    (stream(method=[["linear", 3]]),
     'streams[0].method: expected runs that sum to the row\'s 4 elements, got [["linear",3]]'),
    (stream(method=[["linear", 3], ["sum", 2]]),
     "streams[0].method[1][1]: expected a whole number from 0 to 1, got 2"),
    (stream(method=[["linear", 0], ["sum", 4]]),
     'streams[0].method[0]: expected a run of 1 channel or more, got ["linear",0]'),
    (stream(method=[["linear", 1], ["slerp_wxyz", 3]]),
     'streams[0].method[1]: expected a slerp of 4 channels, got ["slerp_wxyz",3]'),
    (stream(shape=[3], method="slerp_xyzw"),
     'streams[0].method: expected a slerp of 4 channels, got "slerp_xyzw"'),
    (stream(units=3), "streams[0].units: expected a text or null, got 3"),
    (stream(channels=["a"]), 'streams[0].channels: expected null or 4 names, got ["a"]'),
    (stream(channels="abcd"), 'streams[0].channels: expected a list, got "abcd"'),
    (stream(rate=0), "streams[0].rate: expected null or a rate above 0, got 0"),
    (stream(rate=-3.5), "streams[0].rate: expected null or a rate above 0, got -3.5"),
    (stream(rate="30"), 'streams[0].rate: expected a number, got "30"'),
    (stream(timeline="frames"), 'streams[0].timeline: expected time or rows, got "frames"'),
    (stream(source=[]), "streams[0].source: expected a text or null, got []"),
    # Shards
    (shard(file="../shard-00000.safetensors"),
     'shards[0].file: expected shard-NNNNN.safetensors, got "../shard-00000.safetensors"'),
    (shard(file="/etc/passwd"),
     'shards[0].file: expected shard-NNNNN.safetensors, got "/etc/passwd"'),
    (shard(file="shard-0000/../shard-00000.safetensors"), "shards[0].file: expected "
     'shard-NNNNN.safetensors, got "shard-0000/../shard-00000.safetensors"'),
    (shard(file="shard-0/000.safetensors"),
     'shards[0].file: expected shard-NNNNN.safetensors, got "shard-0/000.safetensors"'),
    (shard(file=f"shard-{0:0238}.safetensors"),  # 256 bytes, where names have at most 255
     'shards[0].file: expected shard-NNNNN.safetensors, got "shard-' + "0" * 73 + "..."),
    (shard(file="shard-0000.safetensors"),
     'shards[0].file: expected shard-NNNNN.safetensors, got "shard-0000.safetensors"'),
    (shard(file="shard-00000.safetensors\0"),
     'shards[0].file: expected shard-NNNNN.safetensors, got "shard-00000.safetensors\\u0000"'),
    (shard(file=None), "shards[0].file: expected shard-NNNNN.safetensors, got null"),
    (shard(bytes=-1), f"shards[0].bytes: expected {INTEGER}, got -1"),
    (shard(bytes=7), "shards[0].bytes: expected 8 or more, got 7"),
    (shard(bytes="8"), f'shards[0].bytes: expected {INTEGER}, got "8"'),
    (shard(crc32=5), "shards[0].crc32: expected 8 hexadecimal digits, got 5"),
    (shard(crc32="ABCDEF01"), 'shards[0].crc32: expected 8 hexadecimal digits, got "ABCDEF01"'),
    (shard(crc32="012345678"), 'shards[0].crc32: expected 8 hexadecimal digits, got "012345678"'),
    (shard(header_crc32="123"), 'shards[0].header_crc32: expected 8 hexadecimal digits, got "123"'),
    (shard(episodes=2**63), "shards[0].episodes: expected a whole number from 0 to "
     "9223372036854775806, got 9223372036854775808"),
    (shard(tasks=[0, 2]), "shards[0].tasks[1]: expected the number of one of 2 tasks, got 2"),
    (shard(subsets=[1]), "shards[0].subsets[0]: expected the number of one of 1 subsets, got 1"),
    (shard(subsets=[0] * 65), "shards[0].subsets: expected at most 64 subsets, got [" + "0," * 39
     + "0..."),
    (lambda manifest: manifest["shards"].append(manifest["shards"][0]),
     f'shards[1].file: expected each shard once, got "{SHARD}"'),
    # Statistics
    (top(statistics=[]), "statistics: expected an object, got []"),
    (top(statistics={"file": "shard-00000.safetensors"}),
     f'statistics.file: expected statistics-NNNNN.safetensors, got "{SHARD}"'),
    (lambda manifest: (statistics()(manifest), manifest["statistics"]["streams"].update(x={})),
     'statistics.streams: expected streams of the store, got "x"'),
    (statistics(count=None), 'statistics.streams."action".count: expected a list, got null'),
    (statistics(count=[1, -2]),
     f'statistics.streams."action".count[1]: expected {INTEGER}, got -2'),
    (statistics(mean=[1]),
     'statistics.streams."action".mean: expected a list of 2 numbers, got [1]'),
    (statistics(min=[1, 2, 3]),
     'statistics.streams."action".min: expected a list of 2 numbers, got [1,2,3]'),
    (statistics(max=[1, "x"]), 'statistics.streams."action".max: expected numbers or null, got '
     '[1,"x"]'),
    (statistics(quantiles={"1.5": [0, 1]}),
     'statistics.streams."action".quantiles: expected quantiles from 0 to 1, got "1.5"'),
    (statistics(quantiles={"0.5x": [0, 1]}),
     'statistics.streams."action".quantiles: expected quantiles from 0 to 1, got "0.5x"'),
    (statistics(quantiles={"0.5": [0]}),
     'statistics.streams."action".quantiles."0.5": expected a list of 2 numbers, got [0]'),
    (statistics(exact_quantiles=1),
     'statistics.streams."action".exact_quantiles: expected true or false, got 1'),
]
# fmt: on


@pytest.mark.parametrize(("spoil", "message"), MANIFESTS, ids=[m for _, m in MANIFESTS])
def test_manifest(store: HandStore, spoil: Callable[[dict[str, Any]], None], message: str) -> None:
    manifest = store.changed()
    spoil(manifest)
    store.write_manifest(manifest)
    assert problem(store.folder) == f"ST/manifest.json: {message}"


def test_further_members_are_ignored(store: HandStore) -> None:
    manifest = store.changed(author="x")
    manifest["streams"][0]["color"] = {"a": [1]}
    store.write_manifest(manifest)
    assert len(rc.EpisodeStore(store.folder)) == 2


def test_limits_are_inclusive(store: HandStore) -> None:
    """64 subsets of a shard, quantiles 0 and 1, names with spaces, 16 levels of JSON."""
    manifest = store.changed(author=nested(15))
    shard(subsets=[0] * 64)(manifest)
    statistics(quantiles={"0": [0, 1], "1": [0, 1]})(manifest)
    manifest["streams"].append(manifest["streams"][0] | {"name": "left arm"})
    store.write_manifest(manifest)
    assert list(rc.EpisodeStore(store.folder).streams) == ["action", "flag", "left arm"]
    store.write_manifest(manifest | {"author": nested(16)})
    assert problem(store.folder) == (
        "ST/manifest.json: expected JSON at most 16 levels deep, got more"
    )


def nested(levels: int) -> list[Any]:
    """Lists in a list."""
    return [nested(levels - 1)] if levels > 1 else []


@pytest.mark.parametrize("channel", range(4))
@pytest.mark.parametrize("stream", ["action", "flag"])
def test_statistics_of_other_rows(store: HandStore, stream: str, channel: int) -> None:
    """Verification compares the count of every channel of every stream."""
    counts = {"action": [6, 6, 6, 6], "flag": [2]}
    if channel >= len(counts[stream]):
        return
    (store.folder / "statistics-00000.safetensors").write_bytes(b"123456789")
    manifest = store.changed()
    statistics()(manifest)
    entry = manifest["statistics"] | {"bytes": 9, "crc32": "cbf43926"}
    for more in (0, 1, -1):
        numbers = {name: list(count) for name, count in counts.items()}
        numbers[stream][channel] += more
        entry["streams"] = {name: summary(count) for name, count in numbers.items()}
        store.write_manifest(manifest | {"statistics": entry})
        opened = rc.EpisodeStore(store.folder)
        if not more:
            opened.verify()
            continue
        expected = counts[stream][channel]
        with pytest.raises(rc.StoreError) as caught:
            opened.verify()
        assert str(caught.value) == (
            f'{store.folder}/manifest.json: statistics.streams."{stream}".count[{channel}]: '
            f"expected {expected}, as the rows of the shards say, got {expected + more}"
        )


def summary(count: list[int]) -> dict[str, Any]:
    """Statistics of so many elements."""
    numbers = [0.0] * len(count)
    moments = dict.fromkeys(("mean", "std", "min", "max"), numbers)
    return {"count": count, **moments, "quantiles": {"0.5": numbers}, "exact_quantiles": True}


def test_statistics_file(store: HandStore) -> None:
    file = store.folder / "statistics-00000.safetensors"
    manifest = store.changed()
    statistics()(manifest)
    manifest["statistics"] |= {"bytes": 9, "crc32": "cbf43926"}
    store.write_manifest(manifest)
    opened = rc.EpisodeStore(store.folder)  # the file is for writers: nobody looks for it here
    with pytest.raises(rc.StoreError, match=r"statistics-00000.safetensors: expected a file that"):
        opened.verify()
    file.write_bytes(b"123456789")
    with pytest.raises(rc.StoreError, match=r'"action"\.count: expected 4 channels, got 2'):
        opened.verify()
    manifest["statistics"]["streams"] = {}
    store.write_manifest(manifest)
    opened = rc.EpisodeStore(store.folder)
    opened.verify()
    file.write_bytes(b"12345678x")
    with pytest.raises(rc.StoreError, match=r"statistics-00000.*: expected crc32 cbf43926, as"):
        opened.verify()
    # The next writer commits a store with another file, and removes this one.
    store.write_manifest(manifest | {"tasks": ["pick", "place", "wave"]})
    with pytest.raises(rc.StoreError, match=r"statistics-00000.*: expected crc32 cbf43926, as"):
        opened.verify()
    file.unlink()
    opened.verify()


@pytest.mark.parametrize(
    ("shape", "dtype", "channels"),
    [((3,), np.int32, 3), ((), np.uint8, 1), ((4, 5, 3), np.uint8, 3), ((40, 50), np.int16, 1)],
)
def test_counts_of_integers(
    tmp_path: Path, shape: tuple[int, ...], dtype: Any, channels: int
) -> None:
    """The statistics of integers count the elements of valid rows, images those of each color."""
    valid = np.arange(9) % 3 != 0
    with rc.StoreWriter(tmp_path) as writer, writer.episode() as episode:
        episode.add("x", range(9), np.ones((9, *shape), dtype), valid=valid)
    rc.EpisodeStore(tmp_path).verify()
    count = 6 * int(np.prod(shape)) // channels
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    del manifest["crc32"]
    assert manifest["statistics"]["streams"]["x"]["count"] == [count] * channels
    manifest["statistics"]["streams"]["x"]["count"] = [count - 1] * channels
    HandStore(tmp_path).write_manifest(manifest)
    with pytest.raises(rc.StoreError, match=rf"expected {count}, as the rows .* got {count - 1}"):
        rc.EpisodeStore(tmp_path).verify()
