"""Streams of ragged rows: what is written is read, by this library and by safetensors alone."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import robocache as rc
from robocache.store import shard as shard_module

load_file = pytest.importorskip("safetensors.numpy").load_file

Cloud = NDArray[np.float32]


def random_rows(rng: np.random.Generator, count: int, dtype: Any = np.float32) -> list[Cloud]:
    """Rows [n, 3] of 0 to 6 items."""
    sizes = rng.integers(0, 7, count)
    return [rng.integers(0, 100, (n, 3)).astype(dtype) for n in sizes]


def write_clouds(
    path: Path, episodes: list[list[Cloud]], *, valid: bool = False, **options: Any
) -> None:
    """Writes a stream "cloud" of rows 10 ns apart, and a stream "q" of one number."""
    with rc.StoreWriter(path, **options) as writer:
        for number, rows in enumerate(episodes):
            with writer.episode(source=f"e{number}") as episode:
                flags = np.arange(len(rows)) % 3 != 1 if valid else None
                if rows:
                    ragged = rc.RaggedArray.from_rows(rows)
                    episode.add("cloud", np.arange(len(rows)) * 10, ragged, valid=flags)
                episode.add("q", [0, 5], np.array([number, number + 1], np.float32))


def test_rows_are_read_as_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    episodes = [random_rows(rng, int(rng.integers(0, 20))) for _ in range(30)]
    write_clouds(tmp_path / "s", episodes, valid=True, shard_bytes=3000)
    store = rc.EpisodeStore(tmp_path / "s")
    store.verify()
    info = store.streams["cloud"]
    assert (info.is_ragged, info.shape, info.row_text) == (True, (3,), "F32[*,3]")
    assert info.method == "previous" and info.rows == sum(map(len, episodes))
    assert len(list((tmp_path / "s").glob("shard-*"))) > 3
    for episode, rows in zip(store, episodes, strict=True):
        cloud = episode["cloud"]
        assert len(cloud) == len(cloud.values) == len(rows)
        for i, row in enumerate(rows):
            np.testing.assert_array_equal(cloud.values[i], row, strict=True)
        if len(rows) > 3:
            part = cloud[1:3]
            np.testing.assert_array_equal(part.values[1], rows[2])
            assert part.times.tolist() == [10, 20]
    with pytest.raises(ValueError, match="read-only"):
        store[next(i for i, rows in enumerate(episodes) if rows)]["cloud"].values.items[0] = 1
    again = pickle.loads(pickle.dumps(store))
    np.testing.assert_array_equal(again[0]["cloud"].values.items, store[0]["cloud"].values.items)


def test_rows_of_all_episodes(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    episodes = [random_rows(rng, n) for n in (4, 0, 7, 1)]
    write_clouds(tmp_path / "s", episodes)
    store = rc.EpisodeStore(tmp_path / "s")
    (all_rows,) = store.stream_rows("cloud")
    joined = [row for rows in episodes for row in rows]
    assert len(all_rows) == len(joined)
    for got, row in zip(all_rows.values, joined, strict=True):
        np.testing.assert_array_equal(got, row)
    lengths, (first, last) = store.pieces("cloud", [0, 1, 3])
    assert lengths.tolist() == [4, 0, 1]
    np.testing.assert_array_equal(first.values.items, np.concatenate(episodes[0]))
    np.testing.assert_array_equal(last.values[0], episodes[3][0])
    lengths, (whole,) = store.pieces("cloud", [2, 3])
    assert lengths.tolist() == [7, 1]
    assert whole.values.lengths.tolist() == [len(row) for row in episodes[2] + episodes[3]]


def test_the_file_is_as_documented(tmp_path: Path) -> None:
    rows = [np.ones((2, 3), np.float32), np.empty((0, 3), np.float32), np.full((1, 3), 2, "f4")]
    write_clouds(tmp_path, [rows, rows[:1]])
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["version"] == 2
    assert manifest["streams"][0]["shape"] == [None, 3]
    assert manifest["streams"][0]["method"] == "previous"
    tensors = load_file(tmp_path / "shard-00000.safetensors")
    assert tensors["cloud/row_offsets"].tolist() == [0, 2, 2, 3, 5]
    assert tensors["cloud/values"].shape == (5, 3)
    assert tensors["cloud/offsets"].tolist() == [0, 3, 4]
    assert tensors["cloud/times"].tolist() == [0, 10, 20, 0]
    assert "q/row_offsets" not in tensors


def test_rows_are_compared_whole() -> None:
    rows = rc.RaggedArray.from_rows([[1.0, 2.0], [], [3.0], [1.0, 2.0]])
    assert np.array([1.0, 2.0]) in rows and np.array([1.0]) not in rows
    assert rows.index([3.0]) == 2 and rows.index([1.0, 2.0], 1) == 3
    assert rows.count(np.array([1.0, 2.0])) == 2 and rows.count(np.empty(0)) == 1


def test_without_ragged_rows_the_version_stays_1(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer, writer.episode() as episode:
        episode.add("q", [0], [1.0])
    assert json.loads((tmp_path / "manifest.json").read_text())["version"] == 1
    with rc.StoreWriter(tmp_path, append=True) as writer, writer.episode() as episode:
        episode.add("tokens", [0, 1], rc.RaggedArray(np.arange(3, dtype=np.int32), [0, 3, 3]))
    assert json.loads((tmp_path / "manifest.json").read_text())["version"] == 2
    store = rc.EpisodeStore(tmp_path)
    store.verify()
    assert store.streams["tokens"].row_text == "I32[*]"
    assert len(store[0]["tokens"].values) == 0
    assert [row.tolist() for row in store[1]["tokens"].values] == [[0, 1, 2], []]


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int64, np.float16, np.float64])
def test_statistics_are_those_of_the_valid_items(tmp_path: Path, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    episodes = [random_rows(rng, n, dtype) for n in (5, 9)]
    write_clouds(tmp_path, episodes, valid=True)
    store = rc.EpisodeStore(tmp_path)
    store.verify()
    kept = [row for rows in episodes for i, row in enumerate(rows) if i % 3 != 1]
    items = np.concatenate(kept).astype(np.float64)
    statistics = store.statistics["cloud"]
    assert statistics.count.tolist() == [len(items)] * 3
    np.testing.assert_allclose(statistics.mean, items.mean(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(statistics.max, items.max(axis=0))
    np.testing.assert_allclose(statistics.quantiles[0.5], np.median(items, axis=0))


def test_values_in_many_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of the file end within rows; the flags of the rows are found for each item."""
    monkeypatch.setattr(shard_module, "_CHUNK_BYTES", 40)
    rng = np.random.default_rng(4)
    rows = random_rows(rng, 50)
    write_clouds(tmp_path, [rows], valid=True)
    store = rc.EpisodeStore(tmp_path)
    store.verify()
    items = np.concatenate([row for i, row in enumerate(rows) if i % 3 != 1])
    assert store.statistics["cloud"].count.tolist() == [len(items)] * 3
    np.testing.assert_allclose(store.statistics["cloud"].mean, items.mean(axis=0), rtol=1e-6)


def test_rows_on_the_disk_while_they_are_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    rows = [rng.standard_normal((int(n), 3)) for n in rng.integers(0, 3000, 60)]
    with rc.StoreWriter(tmp_path / "s") as writer:
        shard = rc.ShardWriter(tmp_path / "s", spool_bytes=100_000)
        with shard.episode() as episode:
            for i in range(0, 60, 7):
                part = rows[i : i + 7]
                times = np.arange(i, i + len(part))
                episode.add("cloud", times, rc.RaggedArray.from_rows(part))
        writer.commit_shard(shard.close())
    store = rc.EpisodeStore(tmp_path / "s")
    store.verify()
    for got, row in zip(store[0]["cloud"].values, rows, strict=True):
        np.testing.assert_array_equal(got, row)


def test_merge_and_repair(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    first, second = random_rows(rng, 6), random_rows(rng, 4)
    write_clouds(tmp_path / "a", [first])
    write_clouds(tmp_path / "b", [second])
    rc.merge_stores([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    rc.repair(tmp_path / "c", streams=["cloud"], episodes=[1], rows=[(1, 3)])
    store = rc.EpisodeStore(tmp_path / "c")
    store.verify()
    assert store[1]["cloud"].valid is not None
    assert store[1]["cloud"].valid.tolist() == [True, False, False, True]
    for got, row in zip(store[1]["cloud"].values, second, strict=True):
        np.testing.assert_array_equal(got, row)
    kept = np.concatenate([*first, second[0], second[3]])
    assert store.statistics["cloud"].count.tolist() == [len(kept)] * 3


def ragged(*sizes: int, dtype: Any = np.float32, width: int = 3) -> rc.RaggedArray:
    return rc.RaggedArray.from_rows([np.zeros((n, width), dtype) for n in sizes])


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (
            lambda e: e.add("cloud", [0, 1], ragged(1)),
            "cloud.values: expected 2 rows, got 1 ragged rows",
        ),
        (
            lambda e: e.add("cloud", [9], ragged(1, width=2)),
            r"cloud.values: expected F32 rows of shape \[\*, 3\], got F32 rows of shape \[\*, 2\]",
        ),
        (
            lambda e: e.add("cloud", [9], np.zeros((1, 3), np.float32)),
            r"cloud.values: expected F32 rows of shape \[\*, 3\], got F32 rows of shape \[3\]",
        ),
        (
            lambda e: e.add("points", [0], rc.RaggedArray(np.zeros((2, 0)), [0, 2])),
            r"points.values: expected rows of at least 1 element, got F64 rows of shape \[\*, 0\]",
        ),
        (
            lambda e: e.add("deep", [0], rc.RaggedArray(np.zeros((1,) * 8), [0, 1])),
            "deep.values: expected rows of at most 7 axes, got F64 rows of shape",
        ),
    ],
)
def test_rows_that_do_not_fit(tmp_path: Path, add: Callable[[Any], None], message: str) -> None:
    with rc.StoreWriter(tmp_path) as writer, writer.episode() as episode:
        episode.add("cloud", [5], ragged(2))
        with pytest.raises(ValueError, match=message):
            add(episode)
    store = rc.EpisodeStore(tmp_path)
    store.verify()
    assert store[0]["cloud"].values.lengths.tolist() == [2]


def test_methods_that_combine_rows_are_refused(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer:
        writer.declare("cloud", method="linear")
        with writer.episode() as episode:
            with pytest.raises(ValueError, match=r"cloud.method: expected previous or nearest for"):
                episode.add("cloud", [0], ragged(1))
            episode.add("q", [0], [1.0])
        writer.declare("other", method="nearest", channels=["x", "y", "z"])
        with writer.episode() as episode:
            episode.add("other", [0], ragged(1))
    assert rc.EpisodeStore(tmp_path).streams["other"].method == "nearest"


def test_what_needs_rows_of_one_shape_says_so(tmp_path: Path) -> None:
    write_clouds(tmp_path / "s", [[np.ones((n, 3), np.float32) for n in (1, 2, 3)]])
    store = rc.EpisodeStore(tmp_path / "s")
    with pytest.raises(
        ValueError,
        match=r"windows\['cloud'\]: expected a stream whose rows have one shape, got "
        r"ragged rows F32\[\*,3\]",
    ):
        rc.Loader(store, 1, {"cloud": [0.0]})
    with pytest.raises(TypeError, match="expected an array, got rows of different lengths"):
        rc.Stream.from_rows(store[0]["cloud"])
    with pytest.raises(TypeError, match="expected an array, got rows of different lengths"):
        np.asarray(store[0]["cloud"].values)
    with pytest.raises(ValueError, match="got ragged rows: cloud"):
        store[0].align(10, streams=["cloud"])
    with pytest.raises(ValueError, match=r"got ragged rows: cloud \(name the streams to export\)"):
        rc.export_lerobot(store, tmp_path / "out", rate=10)
    table = store[0].align(1e9 / 5)
    assert list(table) == ["q"]
    assert table.notes == ["streams of ragged rows are left out: cloud"]
    batch = rc.Loader(store, 1, {"q": [0.0]}, anchor="cloud").gather([0, 1, 2])
    assert batch["q"].tolist() == [[0], [1], [1]]


class TestRaggedArray:
    """`rc.RaggedArray` by itself."""

    array = rc.RaggedArray(np.arange(10).reshape(5, 2), [0, 2, 2, 5])

    def test_rows(self) -> None:
        assert len(self.array) == 3
        assert [row.tolist() for row in self.array] == [
            [[0, 1], [2, 3]],
            [],
            [[4, 5], [6, 7], [8, 9]],
        ]
        assert self.array[-1].shape == (3, 2) and self.array[1].shape == (0, 2)
        assert self.array[np.int64(2)].base is not None
        assert (self.array.item_shape, self.array.dtype) == ((2,), np.int64)
        assert repr(self.array) == "RaggedArray(3 rows of int64[*, 2], 5 items)"

    def test_slices_and_masks(self) -> None:
        part = self.array[1:]
        assert part.offsets.tolist() == [0, 0, 3] and part.items.base is not None
        assert len(self.array[2:1]) == 0
        assert self.array[::2].lengths.tolist() == [2, 3]
        assert self.array[::-1].items.tolist()[:3] == [[4, 5], [6, 7], [8, 9]]
        assert self.array[[2, 2, 0]].lengths.tolist() == [3, 3, 2]
        assert self.array[np.array([True, False, False])].items.tolist() == [[0, 1], [2, 3]]
        assert self.array[np.zeros(3, bool)].items.shape == (0, 2)

    def test_torch_takes_it(self) -> None:
        items = torch.arange(10.0).reshape(5, 2)
        nested = torch.nested.nested_tensor_from_jagged(items, torch.tensor(self.array.offsets))
        assert [len(row) for row in nested.unbind()] == self.array.lengths.tolist()

    @pytest.mark.parametrize(
        ("make", "error", "message"),
        [
            (lambda: rc.RaggedArray(3, [0]), ValueError, "items: expected [M, ...], got a scalar"),
            (lambda: rc.RaggedArray([1], []), TypeError, "offsets: expected int64, got float64"),
            (lambda: rc.RaggedArray([1], [[0, 1]]), ValueError,
             "offsets: expected [N+1], got [1, 2]"),
            (lambda: rc.RaggedArray([1], [0.0, 1.0]), TypeError,
             "offsets: expected int64, got float64"),
            (lambda: rc.RaggedArray([1, 2], [0, 1]), ValueError,
             "offsets: expected 0 first and 2 last, for 2 items, got 0 and 1"),
            (lambda: rc.RaggedArray([1, 2], [0, 2, 1, 2]), ValueError,
             "offsets: expected offsets that ascend, got 1 after 2 at row 1"),
            (lambda: rc.RaggedArray.from_rows([]), ValueError,
             "rows: expected at least 1 row, got none"),
            (lambda: rc.RaggedArray.from_rows([[1], 2]), ValueError,
             "rows[1]: expected [n, ...], got a scalar"),
            (lambda: rc.RaggedArray.from_rows([[1], [1.0]]), ValueError,
             "rows[1]: expected int64[*], as rows[0], got float64[*]"),
            (lambda: TestRaggedArray.array[3], IndexError,
             "row: expected an index below 3, got 3"),
        ],
    )  # fmt: skip
    def test_errors(self, make: Callable[[], object], error: type[Exception], message: str) -> None:
        with pytest.raises(error) as raised:
            make()
        assert str(raised.value) == message
