"""Writing stores: what is on the disk afterwards, and what is refused."""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from store_files import file_names, read_manifest, read_store

import robocache as rc
from robocache import _options
from robocache.store import streams

TIMES = np.arange(5, dtype=np.int64) * 20_000_000
VALUES = np.arange(10, dtype=np.float32).reshape(5, 2)


def write_episodes(path: Path, count: int, append: bool = False, **options: int) -> None:
    with rc.StoreWriter(path, append=append, **options) as writer:
        for i in range(count):
            with writer.episode(task=f"task {i % 2}", source=f"file#{i}") as episode:
                episode.add("action", TIMES, VALUES + i)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    expected = []
    with rc.StoreWriter(tmp_path / "store", shard_bytes=20_000) as writer:
        for i in range(30):
            task = [None, "pick up the cup", "nimm die Tasse – «schnell»"][i % 3]
            subsets = [["train"], [], ["train", "small"]][i % 3]
            written = {}
            with writer.episode(task=task, source=f"é#{i}", subsets=subsets) as episode:
                for name, shape in (("action", (7,)), ("images/front", (4, 6, 3)), ("x", ())):
                    if name == "x" and i % 4 == 0:
                        continue
                    n = int(rng.integers(1, 60))
                    times = np.sort(rng.integers(-(2**62), 2**62, n))
                    values = rng.integers(0, 255, (n, *shape))
                    values = values.astype(np.uint8 if len(shape) == 3 else np.float32)
                    split = int(rng.integers(0, n + 1))
                    episode.add(name, times[:split], values[:split])
                    episode.add(name, times[split:], values[split:])
                    written[name] = (times, values)
            expected.append((task, f"é#{i}", tuple(subsets), written))
    found = read_store(tmp_path / "store")
    assert len(read_manifest(tmp_path / "store")["shards"]) > 3
    assert len(found) == len(expected)
    for got, (task, source, subsets, written) in zip(found, expected, strict=True):
        assert (got.task, got.source, got.subsets) == (task, source, subsets)
        assert set(got.streams) == set(written)
        for name, (times, values) in written.items():
            np.testing.assert_array_equal(got.streams[name]["times"], times)
            np.testing.assert_array_equal(got.streams[name]["values"], values)
            assert set(got.streams[name]) == {"values", "times"}


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (np.bool_, "BOOL"),
        (np.uint8, "U8"),
        (np.int8, "I8"),
        (np.uint16, "U16"),
        (np.int16, "I16"),
        (np.uint32, "U32"),
        (np.int32, "I32"),
        (np.uint64, "U64"),
        (np.int64, "I64"),
        (np.float16, "F16"),
        (np.float32, "F32"),
        (np.float64, "F64"),
        (">f8", "F64"),
        (">i2", "I16"),
    ],
)
def test_every_type(tmp_path: Path, dtype: object, name: str) -> None:
    values = np.arange(15).reshape(5, 3).astype(dtype)
    with rc.StoreWriter(tmp_path) as writer, writer.episode() as episode:
        episode.add("x", TIMES, values)
        episode.add("y", TIMES, VALUES)
    assert read_manifest(tmp_path)["streams"][0]["dtype"] == name
    method = "linear" if name.startswith("F") else "previous"
    assert read_manifest(tmp_path)["streams"][0]["method"] == method
    np.testing.assert_array_equal(read_store(tmp_path)[0].streams["x"]["values"], values)


def test_torch_tensors_and_bfloat16(tmp_path: Path) -> None:
    values = torch.randn(5, 3, dtype=torch.bfloat16)
    with rc.StoreWriter(tmp_path) as writer, writer.episode() as episode:
        episode.add("x", torch.from_numpy(TIMES), values)
        episode.add("y", TIMES, torch.arange(10.0, requires_grad=True)[::2])
    got = read_store(tmp_path)[0].streams
    assert [s["dtype"] for s in read_manifest(tmp_path)["streams"]] == ["BF16", "F32"]
    assert torch.equal(torch.from_numpy(got["x"]["values"].copy()).view(torch.bfloat16), values)
    np.testing.assert_array_equal(got["y"]["values"], [0, 2, 4, 6, 8])


def test_received_and_valid_are_filled_where_only_some_have_them(tmp_path: Path) -> None:
    flags = np.array([True, False, True, True, False])
    with rc.StoreWriter(tmp_path) as writer:
        with writer.episode() as episode:
            episode.add("x", TIMES, VALUES)
        with writer.episode() as episode:
            episode.add("x", TIMES[:2], VALUES[:2])
            episode.add("x", TIMES[2:], VALUES[2:], received=TIMES[2:] + 7)
        with writer.episode() as episode:
            episode.add("x", TIMES[:2], VALUES[:2])
            episode.add("x", TIMES[2:], VALUES[2:], valid=flags[2:])
        with writer.episode() as episode:
            episode.add("x", TIMES, VALUES, valid=flags, received=TIMES + 1)
    a, b, c, d = (episode.streams["x"] for episode in read_store(tmp_path))
    np.testing.assert_array_equal(a["received"], TIMES)
    np.testing.assert_array_equal(b["received"], TIMES + np.array([0, 0, 7, 7, 7]))
    np.testing.assert_array_equal(c["received"], TIMES)
    np.testing.assert_array_equal(d["received"], TIMES + 1)
    assert a["valid"].all() and b["valid"].all()
    np.testing.assert_array_equal(c["valid"], [True, True, True, True, False])
    np.testing.assert_array_equal(d["valid"], flags)


def test_a_discarded_episode_leaves_nothing(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer:
        with contextlib.suppress(RuntimeError), writer.episode() as episode:
            episode.add("x", TIMES, VALUES, received=TIMES)
            raise RuntimeError("the reader failed")
        with writer.episode() as episode:
            episode.add("x", TIMES, VALUES.astype(np.float64))  # the type is not fixed yet
    (only,) = read_store(tmp_path)
    assert set(only.streams["x"]) == {"values", "times"}
    assert only.streams["x"]["values"].dtype == np.float64


def test_refused_rows_leave_the_episode_as_it_was(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer, writer.episode() as episode:
        episode.add("x", TIMES, VALUES)
        with pytest.raises(ValueError, match="at row 5"):
            episode.add("x", TIMES, VALUES)
        with pytest.raises(ValueError, match=r"y.values: expected \[5, ...\], got \[4, 2\]"):
            episode.add("y", TIMES, VALUES[:4])
        episode.add("x", TIMES + TIMES[-1], VALUES)
    (only,) = read_store(tmp_path)
    assert set(only.streams) == {"x"}
    assert len(only.streams["x"]["times"]) == 10


TYPES = "bool, integers of 8 to 64 bits, float16, bfloat16, float32 or float64"
NAMES = "a name without control characters, other than 'episode'"


@pytest.mark.parametrize(
    ("name", "arguments", "error", "message"),
    [
        ("x", (TIMES[::-1], VALUES), ValueError,
         "x.times: expected times that ascend within an episode, "
         "got 60000000 after 80000000 at row 1"),
        ("x", (TIMES / 1e9, VALUES), TypeError,
         "x.times: expected int64 (nanoseconds), got float64"),
        ("x", (TIMES.astype(np.uint64), VALUES), TypeError,
         "x.times: expected int64 (nanoseconds), got uint64"),
        ("x", (TIMES[:, None], VALUES), ValueError, "x.times: expected [n], got [5, 1]"),
        ("x", (TIMES[:4], VALUES), ValueError, "x.values: expected [4, ...], got [5, 2]"),
        ("x", (TIMES, np.float32(1)), ValueError, "x.values: expected [5, ...], got []"),
        ("x", (TIMES, VALUES.astype(complex)), TypeError,
         f"x.values: expected {TYPES}, got complex128"),
        ("x", (TIMES, list("abcde")), TypeError,
         f"x.values: expected {TYPES}, got <U1"),
        ("x", (TIMES, VALUES[:, :0]), ValueError,
         "x.values: expected rows of at least 1 element, got F32 rows of shape [0]"),
        ("x", (TIMES, VALUES.reshape(5, 2, 1, 1, 1, 1, 1, 1, 1)), ValueError,
         "x.values: expected rows of at most 7 axes, "
         "got F32 rows of shape [2, 1, 1, 1, 1, 1, 1, 1]"),
        ("x", (TIMES, VALUES, TIMES[:3]), ValueError, "x.received: expected [5], got [3]"),
        ("x", (TIMES, VALUES, TIMES / 1), TypeError,
         "x.received: expected int64 (nanoseconds), got float64"),
        ("x", (TIMES, VALUES, None, TIMES), TypeError, "x.valid: expected bool, got int64"),
        ("x", (TIMES, VALUES, None, [True]), ValueError, "x.valid: expected [5], got [1]"),
        ("known", (TIMES, VALUES.astype(np.float64)), ValueError,
         "known.values: expected F32 rows of shape [2], got F64 rows of shape [2]"),
        ("known", (TIMES, VALUES[:, :1]), ValueError,
         "known.values: expected F32 rows of shape [2], got F32 rows of shape [1]"),
        ("episode", (TIMES, VALUES), ValueError,
         f"stream: expected {NAMES}, got 'episode'"),
        ("", (TIMES, VALUES), ValueError,
         f"stream: expected {NAMES}, got ''"),
        ("a\nb", (TIMES, VALUES), ValueError,
         f"stream: expected {NAMES}, got 'a\\nb'"),
        ("\ud800", (TIMES, VALUES), ValueError,
         f"stream: expected {NAMES}, got '\\ud800'"),
        (3, (TIMES, VALUES), TypeError, "stream: expected a str, got int"),
        ("quaternion", (TIMES, VALUES), ValueError,
         "quaternion.method: expected slerp_xyzw of 4 channels, got 2"),
        ("named", (TIMES, VALUES), ValueError,
         "named.channels: expected 2 names for F32 rows of shape [2], got 3"),
    ],
)  # fmt: skip
def test_refused_rows(
    tmp_path: Path, name: str, arguments: tuple, error: type[Exception], message: str
) -> None:
    with rc.StoreWriter(tmp_path) as writer:
        writer.declare("quaternion", method="slerp_xyzw")
        writer.declare("named", channels=["x", "y", "z"])
        with writer.episode() as episode:
            episode.add("known", TIMES, VALUES)
        with writer.episode() as episode:
            episode.add("other", TIMES, VALUES)
            with pytest.raises(error) as caught:
                episode.add(name, *arguments)
    assert str(caught.value) == message
    assert len(read_store(tmp_path)) == 2


def test_two_types_in_one_episode(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer, writer.episode() as episode:
        episode.add("x", TIMES, VALUES)
        with pytest.raises(ValueError, match=r"x.values: expected F32 .* got F16"):
            episode.add("x", TIMES + TIMES[-1], VALUES.astype(np.float16))


def test_two_open_episodes_that_differ(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer:
        one, two = writer.episode(source="one"), writer.episode(source="two")
        one.add("x", TIMES, VALUES)
        two.add("x", TIMES, VALUES.astype(np.float64))
        two.finish()
        with pytest.raises(ValueError, match=r"x.values: expected F64 .* got F32"):
            one.finish()
    assert [episode.source for episode in read_store(tmp_path)] == ["two"]


def test_equal_times_and_the_ends_of_int64(tmp_path: Path) -> None:
    times = np.array([-(2**63), -(2**63), 0, 2**63 - 1, 2**63 - 1])
    with rc.StoreWriter(tmp_path) as writer, writer.episode() as episode:
        episode.add("x", times, VALUES)
    np.testing.assert_array_equal(read_store(tmp_path)[0].streams["x"]["times"], times)


def test_an_episode_has_rows(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer:
        episode = writer.episode(source="a#1")
        with pytest.raises(ValueError, match=r"^episode 'a#1': expected at least 1 row, got none$"):
            episode.finish()
        episode = writer.episode()
        episode.add("x", [], np.zeros((0, 3), np.float32))
        with pytest.raises(ValueError, match=r"^episode: expected at least 1 row, got none$"):
            episode.finish()
    assert read_store(tmp_path) == []
    assert read_manifest(tmp_path)["streams"] == []


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"task": 3}, TypeError, "task: expected a str, got int"),
        ({"source": None}, TypeError, "source: expected a str, got NoneType"),
        ({"source": "\udc80"}, ValueError, "source: expected Unicode text, got '\\udc80'"),
        ({"subsets": "train"}, TypeError, "subsets: expected a list of str, got str"),
        ({"subsets": [1]}, TypeError, "subsets: expected a str, got int"),
        ({"subsets": map(str, range(65))}, ValueError, "subsets: expected at most 64, got 65"),
    ],
)
def test_refused_episodes(
    tmp_path: Path, arguments: dict, error: type[Exception], message: str
) -> None:
    with rc.StoreWriter(tmp_path) as writer, pytest.raises(error) as caught:
        writer.episode(**arguments)
    assert str(caught.value) == message


def test_more_subsets_than_a_shard_has_bits(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer:
        for i in range(100):
            with writer.episode(subsets=[f"subset {i}", "all"]) as episode:
                episode.add("x", TIMES, VALUES)
    assert len(read_manifest(tmp_path)["shards"]) == 2
    assert [e.subsets[0] if e.subsets[0] != "all" else e.subsets[1] for e in read_store(tmp_path)]
    for i, episode in enumerate(read_store(tmp_path)):
        assert set(episode.subsets) == {f"subset {i}", "all"}


# ---- facts -------------------------------------------------------------------------------------


def test_declared_facts(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer:
        writer.declare("x", units="rad", channels=["a", "b"])
        writer.declare("x", rate=50)
        writer.declare("nobody", units="m")
        with writer.episode() as episode:
            episode.add("x", TIMES, VALUES)
            episode.add("pose", TIMES, np.zeros((5, 7)))
        writer.declare("pose", method=[("linear", 3), ("slerp_xyzw", 4)], timeline="rows")
    x, pose = read_manifest(tmp_path)["streams"]
    assert x == {
        "name": "x", "dtype": "F32", "shape": [2], "method": "linear", "units": "rad",
        "channels": ["a", "b"], "rate": 50.0, "timeline": "time", "source": None,
    }  # fmt: skip
    assert pose["method"] == [["linear", 3], ["slerp_xyzw", 4]]
    assert pose["timeline"] == "rows"
    with rc.StoreWriter(tmp_path, append=True) as writer:  # facts alone
        writer.declare("x", units="degree", source="topic /x")
        with pytest.raises(ValueError, match=r"x.channels: expected 2 names"):
            writer.declare("x", channels=["a"])
    x, again = read_manifest(tmp_path)["streams"]
    assert (x["units"], x["source"], x["rate"], x["channels"]) == (
        "degree", "topic /x", 50.0, ["a", "b"],
    )  # fmt: skip
    assert again == pose
    with rc.StoreWriter(tmp_path, append=True) as writer:  # and rows that come with them
        writer.declare("x", units="m")
        with writer.episode() as episode:
            episode.add("x", TIMES, VALUES)
        writer.declare("x", rate=20)
    x, _ = read_manifest(tmp_path)["streams"]
    assert (x["units"], x["rate"]) == ("m", 20.0)


@pytest.mark.parametrize(
    ("facts", "error", "message"),
    [
        ({"method": "cubic"}, ValueError,
         "x.method: expected linear, previous, nearest, slerp_xyzw, slerp_wxyz, angle, mean or "
         "sum, got 'cubic'"),
        ({"method": 3}, TypeError,
         "x.method: expected a name or a list of (name, channels), got 3"),
        ({"method": [("linear",)]}, TypeError,
         "x.method: expected a name or a list of (name, channels), got ('linear',)"),
        ({"method": [("linear", 0)]}, ValueError,
         "x.method: expected runs of at least 1 channel, got 0"),
        ({"units": 3}, TypeError, "x.units: expected a str, got int"),
        ({"channels": "ab"}, TypeError, "x.channels: expected a list of str, got str"),
        ({"rate": "fast"}, TypeError, "x.rate: expected a number (Hz), got str"),
        ({"rate": 0}, ValueError, "x.rate: expected a finite number above 0 (Hz), got 0.0"),
        ({"rate": float("nan")}, ValueError,
         "x.rate: expected a finite number above 0 (Hz), got nan"),
        ({"timeline": "frames"}, ValueError, "x.timeline: expected time or rows, got 'frames'"),
    ],
)  # fmt: skip
def test_refused_facts(tmp_path: Path, facts: dict, error: type[Exception], message: str) -> None:
    with rc.StoreWriter(tmp_path) as writer, pytest.raises(error) as caught:
        writer.declare("x", **facts)
    assert str(caught.value) == message


def test_methods_are_those_of_alignment() -> None:
    assert streams.METHODS == _options.METHOD_NAMES


# ---- stores ------------------------------------------------------------------------------------


def test_appending(tmp_path: Path) -> None:
    write_episodes(tmp_path, 3)
    before = (tmp_path / "shard-00000.safetensors").read_bytes()
    write_episodes(tmp_path, 2, append=True)
    assert (tmp_path / "shard-00000.safetensors").read_bytes() == before
    assert [e.source for e in read_store(tmp_path)] == [
        "file#0", "file#1", "file#2", "file#0", "file#1",
    ]  # fmt: skip
    assert read_manifest(tmp_path)["tasks"] == ["task 0", "task 1"]
    with rc.StoreWriter(tmp_path, append=True) as writer, writer.episode() as episode:
        with pytest.raises(ValueError, match=r"action.values: expected F32 .* got F64"):
            episode.add("action", TIMES, VALUES.astype(np.float64))
        episode.add("action", TIMES, VALUES)


def test_append_makes_a_store_where_there_is_none(tmp_path: Path) -> None:
    write_episodes(tmp_path / "new" / "store", 1, append=True)
    assert len(read_store(tmp_path / "new" / "store")) == 1


def test_a_new_store_is_one_from_the_start(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path):
        assert read_store(tmp_path) == []


def test_refused_folders(tmp_path: Path) -> None:
    write_episodes(tmp_path / "store", 1)
    with pytest.raises(rc.StoreError) as caught:
        rc.StoreWriter(tmp_path / "store")
    assert str(caught.value) == (
        f"{tmp_path / 'store'}: expected no store there, got one (append=True adds to it)"
    )
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "shard-00000.safetensors").write_text("someone's")
    for append in (False, True):
        with pytest.raises(
            rc.StoreError, match="expected a store or an empty folder, got one with"
        ):
            rc.StoreWriter(tmp_path / "other", append=append)
    assert (tmp_path / "other" / "shard-00000.safetensors").read_text() == "someone's"
    (tmp_path / "file").write_text("")
    with pytest.raises(rc.StoreError, match=r"file: expected a folder, got a file$"):
        rc.StoreWriter(tmp_path / "file")
    with pytest.raises(ValueError, match="shard_bytes: expected 1 or more, got 0"):
        rc.StoreWriter(tmp_path / "x", shard_bytes=0)


def test_shards_have_a_bounded_size(tmp_path: Path) -> None:
    small, large = 5 * 16, 400 * 16
    with rc.StoreWriter(tmp_path, shard_bytes=10 * small) as writer:
        for i in range(25):
            n = 400 if i == 12 else 5
            with writer.episode() as episode:
                episode.add("x", np.arange(n), np.zeros(n))
    shards = read_manifest(tmp_path)["shards"]
    assert [shard["episodes"] for shard in shards] == [10, 2, 1, 10, 2]
    assert large < shards[2]["bytes"] < large + 2000


def test_names_of_files_are_new_whatever_the_others_are(tmp_path: Path) -> None:
    """A store of another writer may have left numbers out."""
    write_episodes(tmp_path, 2)
    (tmp_path / "shard-00000.safetensors").rename(tmp_path / "shard-00001.safetensors")
    (tmp_path / "statistics-00000.safetensors").rename(tmp_path / "statistics-00001.safetensors")
    manifest = tmp_path / "manifest.json"
    body = manifest.read_bytes()[:-21].replace(b"-00000.", b"-00001.")
    manifest.write_bytes(body + b',"crc32":"%08x"}\n' % zlib.crc32(body))
    write_episodes(tmp_path, 3, append=True)
    assert len(read_store(tmp_path)) == 5
    assert [shard["file"][6:11] for shard in read_manifest(tmp_path)["shards"]] == [
        "00001",
        "00002",
    ]
    assert "statistics-00002.safetensors" in file_names(tmp_path)


def test_a_full_shard_that_cannot_be_committed(tmp_path: Path, monkeypatch) -> None:
    """Only the episode whose block raises is lost."""

    def refuse(*args: object) -> None:
        raise OSError(28, "No space left on device")

    kept = []
    with rc.StoreWriter(tmp_path, shard_bytes=1) as writer:
        for i in range(6):
            with monkeypatch.context() as patch, contextlib.suppress(OSError):
                if i in (2, 3):
                    patch.setattr("robocache.store.writer.new_file", refuse)
                with writer.episode(source=str(i)) as episode:
                    episode.add("x", TIMES, VALUES)
                kept.append(str(i))
    assert [episode.source for episode in read_store(tmp_path)] == kept
    assert len(kept) < 6


def test_a_commit_makes_episodes_visible(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer:
        with writer.episode() as episode:
            episode.add("x", TIMES, VALUES)
            assert read_store(tmp_path) == [] and writer.episodes == 0
        assert read_store(tmp_path) == [] and writer.episodes == 1
        writer.commit()
        assert len(read_store(tmp_path)) == writer.episodes == 1
        writer.commit()  # nothing to do
        with writer.episode() as episode:  # a commit within an episode leaves the episode alone
            episode.add("x", TIMES, VALUES)
            writer.commit()
            episode.add("x", TIMES + TIMES[-1], VALUES)
    assert [e.length for e in read_store(tmp_path)] == [5, 10]
    assert [stream.name for stream in writer.streams] == ["x"]


def test_finished_episodes_survive_an_exception(tmp_path: Path) -> None:
    with contextlib.suppress(RuntimeError), rc.StoreWriter(tmp_path) as writer:
        with writer.episode() as episode:
            episode.add("x", TIMES, VALUES)
        raise RuntimeError
    assert len(read_store(tmp_path)) == 1
    assert file_names(tmp_path) == [
        ".lock",
        "manifest.json",
        "shard-00000.safetensors",
        "statistics-00000.safetensors",
    ]


def test_after_the_end(tmp_path: Path) -> None:
    writer = rc.StoreWriter(tmp_path)
    episode = writer.episode()
    episode.add("x", TIMES, VALUES)
    writer.close()
    writer.close()
    for call in (writer.commit, writer.episode, episode.finish, lambda: writer.declare("x")):
        with pytest.raises(ValueError, match="writer: expected one that is open, got one that was"):
            call()
    with pytest.raises(ValueError, match="episode: expected one that goes on, got one that has"):
        episode.add("x", TIMES, VALUES)
    assert read_store(tmp_path) == []


# ---- large episodes ----------------------------------------------------------------------------


def test_rows_wait_on_the_disk(tmp_path: Path) -> None:
    """Every way of a row through memory and spools, by a spool of a few rows."""
    rng = np.random.default_rng(2)
    written = []
    shard = rc.ShardWriter(tmp_path, spool_bytes=2000)
    for i in range(40):
        times, values = [], []
        try:
            with shard.episode(source=str(i)) as episode:
                for _ in range(int(rng.integers(1, 12))):
                    n = int(rng.choice([1, 3, 10, 200]))
                    start = times[-1][-1] if times else 0
                    times.append(start + np.sort(rng.integers(0, 1000, n)))
                    values.append(rng.standard_normal((n, 2)))
                    received = times[-1] + 5 if rng.random() < 0.2 else None
                    valid = rng.random(n) < 0.5 if rng.random() < 0.2 else None
                    episode.add("x", times[-1], values[-1], received, valid)
                    if rng.random() < 0.5:
                        episode.add("y", times[-1], values[-1].astype(np.float32)[:, 0])
                if i % 7 == 3:
                    raise KeyError
        except KeyError:
            continue
        written.append((str(i), np.concatenate(times), np.concatenate(values)))
    record = shard.close()
    assert file_names(tmp_path) == [record.file]
    with rc.StoreWriter(tmp_path / "store") as writer:
        (tmp_path / record.file).rename(tmp_path / "store" / record.file)
        writer.commit_shard(record)
    found = read_store(tmp_path / "store")
    assert len(found) == len(written)
    for episode, (source, times, values) in zip(found, written, strict=True):
        assert episode.source == source
        np.testing.assert_array_equal(episode.streams["x"]["times"], times)
        np.testing.assert_array_equal(episode.streams["x"]["values"], values)
        has_late = set(np.unique(episode.streams["x"]["received"] - times)) <= {0, 5}
        assert has_late


def test_an_episode_larger_than_memory_allows(tmp_path: Path) -> None:
    """512 MiB in chunks of 8 MiB, in a process that may take 300 MiB more than it has."""
    script = """
import resource, sys
import numpy as np
import robocache as rc

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

chunk = np.zeros((64, 128 << 10), np.uint8)
with rc.StoreWriter(sys.argv[1]) as writer:
    before = peak()
    with writer.episode() as episode:
        for i in range(64):
            episode.add("x", np.arange(64) + 64 * i, chunk)
print(peak() - before)
"""
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) < 150
    (shard,) = read_manifest(tmp_path)["shards"]
    assert shard["bytes"] > 512 << 20


# ---- shards of other processes -----------------------------------------------------------------


def make_shard(folder: Path, name: str, dtype: type = np.float32, **facts: object) -> object:
    with rc.ShardWriter(folder) as shard:
        shard.declare("x", **facts)
        with shard.episode(task=name, source=name, subsets=[name]) as episode:
            episode.add("x", TIMES, VALUES.astype(dtype))
        return shard.close()


def test_shards_of_workers(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer:
        shards = [make_shard(tmp_path, name, units="rad") for name in "cab"]
        for shard in pickle.loads(pickle.dumps(shards)):
            writer.commit_shard(shard)
    found = read_store(tmp_path)
    assert [(e.task, e.source, e.subsets) for e in found] == [(n, n, (n,)) for n in "cab"]
    assert read_manifest(tmp_path)["streams"][0]["units"] == "rad"


def test_shards_that_do_not_fit(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer:
        writer.commit_shard(make_shard(tmp_path, "a", units="rad", rate=50))
        for made, expected in (
            (make_shard(tmp_path, "b", np.float64),
             "stream 'x': expected F32 rows of shape [2], got F64 rows of shape [2]"),
            (make_shard(tmp_path, "b", units="degree"),
             "stream 'x': expected units 'rad', got 'degree'"),
            (make_shard(tmp_path, "b", timeline="rows", rate=30),
             "stream 'x': expected rate 50.0 Hz, got 30.0 Hz"),
        ):  # fmt: skip
            with pytest.raises(rc.StoreError) as caught:
                writer.commit_shard(made)
            assert str(caught.value) == f"{tmp_path / made.file}: {expected}"
        writer.commit_shard(make_shard(tmp_path, "c", method="previous", source="topic /x"))
    assert [e.source for e in read_store(tmp_path)] == ["a", "c"]
    x = read_manifest(tmp_path)["streams"][0]
    assert (x["units"], x["method"], x["source"]) == ("rad", "previous", "topic /x")


def test_a_shard_that_is_not_there(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer:
        shard = make_shard(tmp_path, "a")
        (tmp_path / shard.file).write_bytes((tmp_path / shard.file).read_bytes()[:-1])
        with pytest.raises(rc.StoreError, match=f"expected {shard.bytes} bytes, got"):
            writer.commit_shard(shard)
        (tmp_path / shard.file).unlink()
        with pytest.raises(rc.StoreError, match="expected the shard's file, got none"):
            writer.commit_shard(shard)
    with pytest.raises(ValueError, match="shard: expected at least 1 episode, got none"):
        rc.ShardWriter(tmp_path).close()


# ---- imports -----------------------------------------------------------------------------------


def test_writing_imports_no_torch(tmp_path: Path) -> None:
    script = """
import sys
import robocache as rc
with rc.StoreWriter(sys.argv[1]) as writer, writer.episode() as episode:
    episode.add("x", [0, 1], [[1.0], [2.0]])
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    assert len(read_store(tmp_path)) == 1


FORKS = """
import os, signal, sys, time
import robocache as rc
writer = rc.StoreWriter(sys.argv[1])
child = os.fork()
if child == 0:
    time.sleep(60)
try:
    writer.close()
    rc.StoreWriter(sys.argv[1], append=True).close()
finally:
    os.kill(child, signal.SIGKILL)
"""


def test_a_lock_ends_with_its_writer_though_a_fork_lives_on(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKS, str(tmp_path / "store")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr


def test_a_lock_that_cannot_be_written_is_given_back(tmp_path: Path) -> None:
    script = f"""
import resource, signal
import robocache as rc
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
try:
    rc.StoreWriter({str(tmp_path)!r})
except OSError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
rc.StoreWriter({str(tmp_path)!r}).close()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(f"File too large: {str(tmp_path / '.lock')!r}")
