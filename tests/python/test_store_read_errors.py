"""Stores that are damaged, foreign or hostile: each gives an error that names the file."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stores import HandEpisode, HandStore, checksums, sealed, tensors_of

import robocache as rc

SHARD = "shard-00000.safetensors"
TYPES = "BOOL, U8, I8, U16, I16, U32, I32, U64, I64, F16, BF16, F32 or F64"
METHODS = "linear, previous, nearest, slerp_xyzw, slerp_wxyz, angle, mean or sum"
INTEGER = "a whole number from 0 to 9223372036854775807"


def episodes() -> list[HandEpisode]:
    action = (np.array([1, 2, 3]), np.arange(12, dtype=np.float32).reshape(3, 4))
    flag = (np.array([1, 4]), np.array([True, False]), np.array([2, 5]), np.array([True, True]))
    return [
        HandEpisode({"action": action, "flag": flag}, task=0, subsets=1, source="a#1"),
        HandEpisode({"action": action}, source="a#2"),
    ]


@pytest.fixture
def store(tmp_path: Path) -> HandStore:
    hand = HandStore(tmp_path / "st")
    return hand.write([episodes()], tasks=["pick", "place"], subsets=["train"])


def problem(folder: Path, verify: bool = False) -> str:
    """What opening says, or accessing everything, or verifying; the folder's name left out."""
    with pytest.raises(rc.StoreError) as caught:
        look_at_all_of(folder, verify)
    return str(caught.value).replace(str(folder), "ST")


def look_at_all_of(folder: Path, verify: bool) -> None:
    opened = rc.EpisodeStore(folder)
    for episode in opened:
        repr(episode)
        for name in opened.streams:
            episode[name].values.copy()
            episode[name].times.copy()
    len(opened.episodes.lengths)
    if verify:
        opened.verify()


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


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Root may read everything: for a while this process is somebody else."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        if user == 0:
            os.seteuid(user)


@pytest.mark.parametrize("name", ["manifest.json", SHARD, "."])
def test_permission_denied(store: HandStore, name: str) -> None:
    # pytest's own folder is closed to others.
    with tempfile.TemporaryDirectory() as outer:
        Path(outer).chmod(0o755)
        folder = Path(shutil.copytree(store.folder, Path(outer) / "st"))
        folder.chmod(0o755)
        (folder / name).chmod(0)
        expected = "a file that can be opened" if name != "." else "the folder of an episode store"
        with as_nobody():
            said = problem(folder)
        (folder / name).chmod(0o700)
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
        (sealed(b'{"a":'), "ST/manifest.json: expected JSON, got something else at byte 6"),
        (sealed(b'{"a":"\xff"'), "ST/manifest.json: expected JSON, got something else at byte 7"),
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
    (top(version=2), "version: expected 1, which is what this version of robocache reads, got 2"),
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
    manifest["streams"][0]["colour"] = {"a": [1]}
    store.write_manifest(manifest)
    assert len(rc.EpisodeStore(store.folder)) == 2


# ---- shards whose checksums are right ------------------------------------------------------------


def replace(name: str, array: Any) -> Callable[[dict[str, np.ndarray]], None]:
    return lambda tensors: tensors.update({name: np.asarray(array)})


def drop(name: str) -> Callable[[dict[str, np.ndarray]], object]:
    return lambda tensors: tensors.pop(name)


# (what is changed, the message without the file); E=2 episodes, 6 rows of action, 2 of flag
# fmt: off
SHARDS: list[tuple[Callable[[dict[str, np.ndarray]], object], str]] = [
    (drop("episode/task"), 'expected a tensor "episode/task", got none of that name'),
    (drop("episode/source"), 'expected a tensor "episode/source", got none of that name'),
    (drop("action/times"), 'expected a tensor "action/times", got none of that name'),
    (drop("action/offsets"), 'expected a tensor "action/offsets", got none of that name'),
    (drop("action/values"), '"action/offsets": expected tensors of the manifest\'s streams, got '
     "another one"),
    (replace("x/values", [1.0]), '"x/values": expected tensors of the manifest\'s streams, got '
     "another one"),
    (replace("episode/weather", [1]), '"episode/weather": expected tensors of the manifest\'s '
     "streams, got another one"),
    (replace("action/values", np.zeros((6, 4))),
     '"action/values": expected F32 [6,4], got F64 [6,4]'),
    (replace("action/values", np.zeros((6, 5), np.float32)),
     '"action/values": expected F32 [6,4], got F32 [6,5]'),
    (replace("action/values", np.zeros(6, np.float32)),
     '"action/values": expected F32 [6,4], got F32 [6]'),
    (replace("action/values", np.zeros((), np.float32)),
     '"action/values": expected F32 [N,4], got F32 []'),
    (replace("action/values", np.zeros((7, 4), np.float32)),
     '"action/times": expected I64 [7], got I64 [6]'),
    (replace("action/times", np.zeros(6)), '"action/times": expected I64 [6], got F64 [6]'),
    (replace("action/offsets", [0, 6]), '"action/offsets": expected I64 [3], got I64 [2]'),
    (replace("flag/received", [1]), '"flag/received": expected I64 [2], got I64 [1]'),
    (replace("flag/valid", np.zeros(2, np.uint8)), '"flag/valid": expected BOOL [2], got U8 [2]'),
    (replace("episode/length", [3]), '"episode/length": expected I64 [2], got I64 [1]'),
    (replace("episode/task", [0, 0]), '"episode/task": expected I32 [2], got I64 [2]'),
    (replace("episode/source", np.zeros((2, 2), np.uint8)),
     '"episode/source": expected U8 [2], got U8 [2,2]'),
    # What is seen when an episode is accessed
    (replace("action/offsets", [0, 7, 6]),
     '"action/offsets"[0]: expected a range within 6, got [0,7]'),
    (replace("action/offsets", [0, 3, 7]),
     '"action/offsets"[1]: expected a range within 6, got [3,7]'),
    (replace("action/offsets", [-1, 3, 6]),
     '"action/offsets"[0]: expected a range within 6, got [-1,3]'),
    (replace("action/offsets", [0, -(2**63), 6]),
     '"action/offsets"[0]: expected a range within 6, got [0,-9223372036854775808]'),
    (replace("action/offsets", [0, 2**62, 6]),
     '"action/offsets"[0]: expected a range within 6, got [0,4611686018427387904]'),
    (replace("episode/end_ns", [0, 3]), '"episode/end_ns"[0]: expected 1 or later, got 0'),
    (replace("episode/length", [3, 0]), '"episode/length"[1]: expected 1 or more, got 0'),
    (replace("episode/task", np.array([2, 0], np.int32)),
     '"episode/task"[0]: expected -1 or the number of one of 2 tasks, got 2'),
    (replace("episode/task", np.array([0, -2], np.int32)),
     '"episode/task"[1]: expected -1 or the number of one of 2 tasks, got -2'),
    (replace("episode/subsets", np.array([1, 2], np.uint64)),
     '"episode/subsets"[1]: expected bits of 1 subsets, got 2'),
    (replace("episode/source_offsets", [0, 3, 7]),
     '"episode/source_offsets"[1]: expected a range within 6, got [3,7]'),
    (replace("episode/source_offsets", [0, 4, 3]),
     '"episode/source_offsets"[1]: expected a range within 6, got [4,3]'),
    (replace("episode/source", np.frombuffer(b"a#1a\xff2", np.uint8)),
     '"episode/source"[1]: expected UTF-8, got "a\ufffd2"'),
]
# What only verify() looks at
VERIFIED: list[tuple[Callable[[dict[str, np.ndarray]], object], str]] = [
    (replace("action/offsets", [1, 3, 6]), '"action/offsets": expected 0 first, got 1'),
    (replace("action/offsets", [0, 3, 5]), '"action/offsets": expected 6 last, got 5'),
    (replace("episode/source_offsets", [0, 3, 5]),
     '"episode/source_offsets": expected 6 last, got 5'),
    (replace("action/times", [1, 3, 2, 1, 2, 3]), 'episode 0 of the shard: "action/times": '
     "expected ascending times, got [3,2] at row 1"),
    (replace("episode/length", [3, 4]),
     "episode 1 of the shard: length: expected 3, as its rows say, got 4"),
    (replace("episode/start_ns", [0, 1]),
     "episode 0 of the shard: start_ns: expected 1, as its rows say, got 0"),
    (replace("episode/end_ns", [4, 4]),
     "episode 1 of the shard: end_ns: expected 3, as its rows say, got 4"),
    (replace("action/offsets", [0, 4, 6]),
     'episode 0 of the shard: "action/times": expected ascending times, got [3,1] at row 2'),
]
# fmt: on


@pytest.mark.parametrize(
    ("spoil", "message", "verify"),
    [(*case, False) for case in SHARDS] + [(*case, True) for case in VERIFIED],
    ids=[message for _, message in SHARDS + VERIFIED],
)
def test_shard(
    store: HandStore,
    spoil: Callable[[dict[str, np.ndarray]], object],
    message: str,
    verify: bool,
) -> None:
    tensors = tensors_of(episodes())
    spoil(tensors)
    store.write_shard(SHARD, tensors)
    store.commit()
    assert problem(store.folder, verify) == f"ST/{SHARD}: {message}"


def test_an_episode_without_rows(store: HandStore) -> None:
    tensors = tensors_of(episodes()[1:])
    tensors |= {"action/offsets": np.array([0, 0, 3]), "episode/length": np.array([1, 3])}
    for name in ("start_ns", "end_ns"):
        tensors[f"episode/{name}"] = np.array([5, 1 if name == "start_ns" else 3])
    tensors |= {"episode/task": np.array([-1, -1], np.int32)}
    tensors |= {"episode/subsets": np.zeros(2, np.uint64)}
    tensors |= {"episode/source_offsets": np.array([0, 0, 3])}
    store.write_shard(SHARD, tensors)
    store.commit()
    assert problem(store.folder, verify=True) == (
        f"ST/{SHARD}: episode 0 of the shard: length: expected 0, as its rows say, got 1"
    )


@pytest.mark.parametrize("name", ["flag/valid", "flag/values"])
def test_flags_that_are_neither(store: HandStore, name: str) -> None:
    path = store.folder / SHARD
    data = bytearray(path.read_bytes())
    header = 8 + int.from_bytes(data[:8], "little")
    data[header + json.loads(data[8:header])[name]["data_offsets"][0] + 1] = 2
    path.write_bytes(data)
    store.commit()
    rc.EpisodeStore(store.folder)
    with pytest.raises(rc.StoreError, match=rf'"{name}": expected 0 or 1, got 2 at element 1$'):
        rc.EpisodeStore(store.folder).verify()


# ---- headers -------------------------------------------------------------------------------------


def tensor(dtype: str, shape: list[Any], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def raw(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    """A file of that header, padded with spaces to 8 bytes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


# (the file, the message without its name)
# fmt: off
FILES: list[tuple[bytes, str]] = [
    (b"\0" * 8, "header: expected JSON, got something else at byte 1"),
    (raw({}, length=9), "expected a safetensors header of at most 8 bytes, got 9"),
    (raw({}, length=2**64 - 1),
     "expected a safetensors header of at most 8 bytes, got 18446744073709551615"),
    (b"\x89PNG\r\n\x1a\n" * 9, "expected a safetensors header of at most 64 bytes, got "
     "727905341920923785"),
    (raw(b"[]"), "header: expected a JSON object, got []"),
    (raw(b'{"a":'), "header: expected JSON, got something else at byte 9"),
    (raw(b'{"a":1,"a":2}'), 'header: expected each name once in an object, got "a" twice'),
    (raw({}), 'expected a tensor "episode/start_ns", got none of that name'),
    (raw({"__metadata__": {"a": "b"}}),
     'expected a tensor "episode/start_ns", got none of that name'),
    (raw({"__metadata__": {"a": 1}}), '"__metadata__": expected a text, got 1'),
    (raw({"__metadata__": 3}), '"__metadata__": expected an object, got 3'),
    (raw({"a": 3}), '"a": expected an object, got 3'),
    (raw({"a": tensor("F8_E4M3", [1], 0, 1)}, b"x"),
     '"a".dtype: expected a type that a store holds, got "F8_E4M3"'),
    (raw({"a": {}}), '"a".dtype: expected a type that a store holds, got none'),
    (raw({"a": tensor("U8", ["1"], 0, 1)}, b"x"), f'"a".shape[0]: expected {INTEGER}, got "1"'),
    (raw({"a": tensor("U8", [-1], 0, 1)}, b"x"), f'"a".shape[0]: expected {INTEGER}, got -1'),
    (raw({"a": tensor("F64", [2**31, 2**32], 0, 1)}, b"x"), '"a".shape: expected at most '
     "9223372036854775807 bytes, got [2147483648,4294967296]"),
    (raw({"a": tensor("F64", [2**33, 2**31, 0], 0, 0)}), '"a".shape: expected at most '
     "9223372036854775807 bytes, got [8589934592,2147483648,0]"),
    (raw({"a": {"dtype": "U8", "shape": []}}, b"x"), '"a".data_offsets: expected a list, got none'),
    (raw({"a": {"dtype": "U8", "shape": [], "data_offsets": [1]}}, b"x"),
     '"a".data_offsets: expected a begin and an end, got [1]'),
    (raw({"a": tensor("U8", [2], 0, 2)}, b"x"),
     '"a".data_offsets[1]: expected a whole number from 0 to 1, got 2'),
    (raw({"a": tensor("U8", [1], 1, 0)}, b"x"),
     '"a".data_offsets: expected 1 bytes, as the shape says, got [1,0]'),
    (raw({"a": tensor("F32", [1], 0, 1)}, b"x"),
     '"a".data_offsets: expected 4 bytes, as the shape says, got [0,1]'),
    # Two that overlap, a gap, bytes that are nobody's
    (raw({"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [4], 2, 6)}, b"x" * 6),
     '"b": expected data from byte 4 on, where the ones before end, got 2'),
    (raw({"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [4], 0, 4)}, b"x" * 4),
     '"b": expected data from byte 4 on, where the ones before end, got 0'),
    (raw({"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [1], 5, 6)}, b"x" * 6),
     '"b": expected data from byte 4 on, where the ones before end, got 5'),
    (raw({"a": tensor("U8", [1], 0, 1)}, b"x" * 6),
     "expected tensors of 6 bytes, to the file's end, got 1"),
    (raw({"a": tensor("U8", [1], 0, 1), "b": tensor("I64", [1], 1, 9)}, b"x" * 9),
     '"b": expected data at a multiple of 8, got byte 137 of the file'),
]
# fmt: on


@pytest.mark.parametrize(("file", "message"), FILES, ids=[message for _, message in FILES])
def test_header(store: HandStore, file: bytes, message: str) -> None:
    (store.folder / SHARD).write_bytes(file)
    manifest = store.changed()
    manifest["shards"][0] |= checksums(file)
    store.write_manifest(manifest)
    assert problem(store.folder) == f"ST/{SHARD}: {message}"


# ---- cut and altered anywhere --------------------------------------------------------------------


def test_sizes_and_checksums(store: HandStore) -> None:
    path = store.folder / SHARD
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    assert problem(store.folder) == (
        f"ST/{SHARD}: expected {len(data)} bytes, as the manifest says, got {len(data) - 1}"
    )
    path.write_bytes(b"")
    assert problem(store.folder) == (
        f"ST/{SHARD}: expected {len(data)} bytes, as the manifest says, got 0"
    )
    path.write_bytes(data[:20] + b"?" + data[21:])
    crc = checksums(data)
    assert re.fullmatch(
        rf"ST/{SHARD}: header: expected crc32 {crc['header_crc32']}, as the manifest says, got "
        r"[0-9a-f]{8}",
        problem(store.folder),
    )
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    rc.EpisodeStore(store.folder)
    assert re.fullmatch(
        rf"ST/{SHARD}: expected crc32 {crc['crc32']}, as the manifest says, got [0-9a-f]{{8}}: the "
        "file was altered",
        problem(store.folder, verify=True),
    )


@pytest.mark.parametrize("name", ["manifest.json", SHARD])
def test_every_bit_counts(store: HandStore, name: str) -> None:
    path = store.folder / name
    data = path.read_bytes()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
        assert "ST/" in problem(store.folder, verify=True)
    for size in range(0, len(data), 5):
        path.write_bytes(data[:size])
        assert problem(store.folder).startswith(f"ST/{name}: ")
    path.write_bytes(data)
    rc.EpisodeStore(store.folder).verify()


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
    opened.verify()
    file.write_bytes(b"12345678x")
    with pytest.raises(rc.StoreError, match=r"statistics-00000.*: expected crc32 cbf43926, as"):
        opened.verify()
    # The next writer commits a store with another file, and removes this one.
    file.unlink()
    store.write_manifest(manifest | {"tasks": ["pick", "place", "wave"]})
    opened.verify()


def test_the_store_that_was_opened_stays(store: HandStore) -> None:
    opened = rc.EpisodeStore(store.folder)
    expected = opened[0]["action"].values.copy()
    shutil.rmtree(store.folder)
    np.testing.assert_array_equal(opened[0]["action"].values, expected)
    with pytest.raises(rc.StoreError, match=f"{SHARD}: expected a file that can be opened, got No"):
        opened.verify()
