"""Shards that are damaged, foreign or hostile: each gives an error that names the file."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spoiled_stores import INTEGER, SHARD, episodes, problem, small_store
from stores import HandEpisode, HandStore, checksums, tensors_of

import robocache as rc


@pytest.fixture
def store(tmp_path: Path) -> HandStore:
    return small_store(tmp_path / "st")


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
    # Errors on access of an episode
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
# Errors that only verify() reports
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


def test_streams_end_in_any_order(tmp_path: Path) -> None:
    """The first stream has the episode's last row; rows of equal times ascend."""
    with rc.StoreWriter(tmp_path) as writer, writer.episode() as episode:
        episode.add("a", [1, 2, 2, 9], np.zeros(4))
        episode.add("b", [0, 5], np.zeros(2))
    store = rc.EpisodeStore(tmp_path)
    store.verify()
    (found,) = store
    assert (found.start_ns, found.end_ns, found.length) == (0, 9, 4)


def test_each_element_of_a_row_of_flags_is_verified(tmp_path: Path) -> None:
    folder = HandStore(tmp_path / "st")
    contacts = (np.array([1, 2]), np.zeros((2, 3), np.bool_))
    folder.write([[HandEpisode({"contacts": contacts})]])
    path = folder.folder / SHARD
    data = bytearray(path.read_bytes())
    header = 8 + int.from_bytes(data[:8], "little")
    data[header + json.loads(data[8:header])["contacts/values"]["data_offsets"][1] - 1] = 2
    path.write_bytes(data)
    folder.commit()
    with pytest.raises(rc.StoreError, match=r'"contacts/values": expected 0 or 1, got 2 at .* 5$'):
        rc.EpisodeStore(folder.folder).verify()


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
    (b"\0" * 8, "header: expected JSON, got nothing (0 bytes)"),
    (raw({}, length=9), "expected a safetensors header of at most 8 bytes, got 9"),
    (raw({}, length=2**64 - 1),
     "expected a safetensors header of at most 8 bytes, got 18446744073709551615"),
    (b"\x89PNG\r\n\x1a\n" * 9, "expected a safetensors header of at most 64 bytes, got "
     "727905341920923785"),
    (raw(b"[]"), "header: expected a JSON object, got []"),
    (raw(b'{"a":'), "header: expected JSON, got one that ends early, after 8 bytes"),
    (raw(b'{"a":1,"a":2}'), 'header: expected each name once in an object, got "a" twice'),
    (raw({}), 'expected a tensor "episode/start_ns", got none of that name'),
    (raw({"__metadata__": {"a": "b"}}),
     'expected a tensor "episode/start_ns", got none of that name'),
    (raw({"__metadata__": {"a": 1}}), '"__metadata__": expected texts, got {"a":1}'),
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
    (raw({"a": {"dtype": "U8", "shape": [], "data_offsets": [0, 1, 1]}}, b"x"),
     '"a".data_offsets: expected a begin and an end, got [0,1,1]'),
    (raw({"a": tensor("U8", [1], 0, 2)}, b"xy"),
     '"a".data_offsets: expected 1 bytes, as the shape says, got [0,2]'),
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


def test_the_store_that_was_opened_stays(store: HandStore) -> None:
    opened = rc.EpisodeStore(store.folder)
    expected = opened[0]["action"].values.copy()
    shutil.rmtree(store.folder)
    np.testing.assert_array_equal(opened[0]["action"].values, expected)
    with pytest.raises(rc.StoreError, match=f"{SHARD}: expected a file that can be opened, got No"):
        opened.verify()
