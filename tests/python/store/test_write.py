"""Writing stores: what is on the disk afterward, and what is refused."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from store_files import TIMES, VALUES, read_manifest, read_store

import robocache as rc
from robocache.align import options
from robocache.store import streams
from robocache.store.shard import ShardWriter
from robocache.store.spool import Kept, Memory, RandomReader, Spool


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


def test_a_relative_folder_stays_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with rc.StoreWriter("robot.store") as writer:
        for folder in (tmp_path / "elsewhere", Path("/")):
            monkeypatch.chdir(folder)
            with writer.episode() as episode:
                episode.add("x", [0], np.zeros((1, 1)))
            writer.commit()
    assert len(rc.EpisodeStore(tmp_path / "robot.store")) == 2
    assert not any((tmp_path / "elsewhere").iterdir())


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


def test_arrays_that_are_taken_are_not_copied(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((200_000, 2))
    times = np.arange(len(values))
    with rc.StoreWriter(tmp_path) as writer, writer.episode() as episode:
        episode.take("x", times[:5], values[:5])
        episode.take("x", times[5:], values[5:])
        parts = episode.streams["x"].columns["values"].parts
        assert [np.shares_memory(np.frombuffer(part), values) for part in parts] == [False, True]
    written = read_store(tmp_path)[0].streams["x"]
    np.testing.assert_array_equal(written["values"], values)
    np.testing.assert_array_equal(written["times"], times)


@pytest.mark.parametrize("limit", [1 << 20, 0])
def test_ranges_of_a_column(tmp_path: Path, limit: int) -> None:
    spool = Spool(tmp_path, Memory(limit))
    column = spool.column()
    data = np.random.default_rng(0).bytes(6000)
    for begin, end in ((0, 1), (1, 900), (900, 5500), (5500, 6000)):
        spool.add([(column, Kept(data[begin:end]))])
    assert spool.is_on_disk == (limit == 0)
    assert len(column.parts) > 1
    reader = RandomReader(column)
    for begin in (0, 1, 899, 900, 5499, 5999):
        for end in (1, 2, 900, 901, 5500, 5501, 6000):
            if begin <= end:
                assert reader.read(begin, end) == data[begin:end]
    assert reader.read(6000, 6000) == b""
    spool.close()


def test_arrays_that_are_taken_count_as_memory(tmp_path: Path) -> None:
    values = np.random.default_rng(0).standard_normal((200_000, 2))
    with rc.StoreWriter(tmp_path) as writer:
        shard = ShardWriter(tmp_path, spool_bytes=4 << 20)
        with shard.episode() as episode:
            episode.take("x", np.arange(len(values)), values)
            assert episode.spool.is_on_disk
        writer.commit_shard(shard.close())
    np.testing.assert_array_equal(read_store(tmp_path)[0].streams["x"]["values"], values)


@pytest.mark.parametrize(("limit", "is_on_disk"), [(80, False), (79, True)])  # of 5 rows of 16
def test_memory_is_counted_to_the_byte(tmp_path: Path, limit: int, is_on_disk: bool) -> None:
    shard = ShardWriter(tmp_path, spool_bytes=limit)
    for _ in range(2):  # an episode that was discarded leaves nothing of its count
        episode = shard.episode()
        episode.add("x", TIMES, VALUES)
        assert episode.spool.is_on_disk == is_on_disk
        episode.discard()
    assert shard._memory.held == 0
    shard.discard()
    assert shard._memory.held == 0


def test_a_mask_that_hides_nothing(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer, writer.episode() as episode:
        episode.add("x", TIMES, np.ma.array(VALUES))
    np.testing.assert_array_equal(read_store(tmp_path)[0].streams["x"]["values"], VALUES)


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


MASKED = (
    "expected no masked elements, got 1 (`valid` says which rows are real; numpy.ma.filled gives "
    "masked elements a value)"
)
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
        ("x", (TIMES, np.ma.masked_equal(VALUES, 3)), ValueError, f"x.values: {MASKED}"),
        ("x", (np.ma.masked_equal(TIMES, 0), VALUES), ValueError, f"x.times: {MASKED}"),
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


# ---- metadata ------------------------------------------------------------------------------------


def test_declared_metadata(tmp_path: Path) -> None:
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
    with rc.StoreWriter(tmp_path, append=True) as writer:  # metadata alone
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
    ("metadata", "error", "message"),
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
def test_refused_metadata(
    tmp_path: Path, metadata: dict, error: type[Exception], message: str
) -> None:
    with rc.StoreWriter(tmp_path) as writer, pytest.raises(error) as caught:
        writer.declare("x", **metadata)
    assert str(caught.value) == message


def test_methods_are_those_of_alignment() -> None:
    assert streams.METHODS == options.METHOD_NAMES


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
