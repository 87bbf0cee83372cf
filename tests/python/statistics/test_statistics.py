"""Statistics of streams, against NumPy on all rows at once."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from recordings import DATA, needs
from store_files import file_names, read_manifest
from stores import HandStore

import robocache as rc
from robocache.doctor import examine
from robocache.statistics.quantiles import EXACT_ROWS, QUANTILES, RANK_ERROR, exact_rows
from robocache.store.statistics import StreamStatistics, channels_of

FUNCTIONS = {"mean": np.mean, "std": np.std, "min": np.min, "max": np.max}


def numpy_summary(columns: list[np.ndarray]) -> dict:
    """NumPy's statistics of the finite values of each channel."""
    columns = [np.asarray(c)[np.isfinite(c)].astype(np.float64) for c in columns]
    some = [len(c) > 0 for c in columns]
    return {
        "count": [len(c) for c in columns],
        **{
            name: [float(function(c)) if s else None for c, s in zip(columns, some, strict=True)]
            for name, function in FUNCTIONS.items()
        },
        "quantiles": {
            str(q): [
                float(np.quantile(c, q)) if s else None for c, s in zip(columns, some, strict=True)
            ]
            for q in QUANTILES
        },
    }


def assert_summary(got: dict, expected: dict, with_quantiles: bool = True) -> None:
    assert got["count"] == expected["count"]
    assert got["min"] == expected["min"] and got["max"] == expected["max"]
    pairs = [(got[name], expected[name]) for name in ("mean", "std")]
    if with_quantiles:
        assert set(got["quantiles"]) == set(expected["quantiles"])
        pairs += [(got["quantiles"][q], expected["quantiles"][q]) for q in got["quantiles"]]
    for a, b in pairs:
        np.testing.assert_allclose(
            np.array(a, np.float64), np.array(b, np.float64), rtol=1e-12, atol=1e-12
        )


def rank_errors(sketched: dict, columns: list[np.ndarray]) -> list[float]:
    errors = []
    for c, column in enumerate(columns):
        ordered = np.sort(column)
        for q, values in sketched["quantiles"].items():
            low = np.searchsorted(ordered, values[c], "left") / len(ordered)
            high = np.searchsorted(ordered, values[c], "right") / len(ordered)
            errors.append(max(low - float(q), float(q) - high, 0))
    return errors


@pytest.mark.parametrize(
    "dtype", ["?", "u1", "i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2", "<f4", "<f8"]
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_against_numpy(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    kind = np.dtype(dtype).kind
    scale = {"b": 1, "u": 40, "i": 40, "f": 40.5}[kind]
    values = rng.standard_normal((500, *shape)) * scale
    values = (np.abs(values) if kind in "bu" else values).astype(int if kind != "f" else float)
    values = values.astype(dtype)
    with rc.StoreWriter(tmp_path) as writer:
        for begin, end in ((0, 1), (1, 70), (70, 71), (71, 500)):
            with writer.episode() as episode:
                episode.add("x", np.arange(end - begin), values[begin:end])
            writer.commit()
    manifest = read_manifest(tmp_path)
    assert len(manifest["shards"]) == 4
    got = manifest["statistics"]["streams"]["x"]
    is_image = dtype == "u1" and len(shape) == 2
    columns = list(values.reshape(-1, shape[-1] if is_image else int(np.prod(shape))).T)
    assert_summary(got, numpy_summary(columns))
    assert got["exact_quantiles"] is True


@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
@pytest.mark.parametrize("channels", [1, 5, 33, 64, 65, 300])
@pytest.mark.parametrize("rows", [1, 2, 130])
def test_rows_of_any_width(dtype: str, channels: int, rows: int) -> None:
    """Few channels are added up several rows at a time, and rows may not fill the last step."""
    values = np.random.default_rng(channels).normal(5, 2, (rows, channels)).astype(dtype)
    for row in (None, 0, rows - 1):
        if row is not None:
            values[row, row % channels] = np.nan
        statistics = StreamStatistics({"<f4": "F32", "<f8": "F64"}[dtype], (channels,))
        statistics.update(values)
        assert_summary(statistics.summary(), numpy_summary(list(values.T)))


def test_bfloat16(tmp_path: Path) -> None:
    values = torch.randn(100, 3).to(torch.bfloat16)
    with rc.StoreWriter(tmp_path) as writer, writer.episode() as episode:
        episode.add("x", np.arange(100), values)
    got = read_manifest(tmp_path)["statistics"]["streams"]["x"]
    assert_summary(got, numpy_summary(list(values.float().numpy().T)))


def test_invalid_and_not_finite_values_are_left_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    values = rng.standard_normal((1000, 4)).astype(np.float32)
    values[rng.random(values.shape) < 0.1] = np.nan
    values[rng.random(values.shape) < 0.05] = np.inf
    values[rng.random(values.shape) < 0.05] = -np.inf
    values[:, 3] = np.nan
    valid = rng.random(1000) < 0.7
    with rc.StoreWriter(tmp_path) as writer:
        with writer.episode() as episode:
            episode.add("x", np.arange(400), values[:400], valid=valid[:400])
        with writer.episode() as episode:
            episode.add("x", np.arange(600), values[400:], valid=valid[400:])
        with writer.episode() as episode:
            episode.add("never", np.arange(3), np.ones(3), valid=np.zeros(3, bool))
    streams = read_manifest(tmp_path)["statistics"]["streams"]
    assert_summary(streams["x"], numpy_summary(list(values[valid].T)))
    assert streams["x"]["mean"][3] is None and streams["x"]["count"][3] == 0
    assert streams["never"] == {
        "count": [0], "mean": [None], "std": [None], "min": [None], "max": [None],
        "quantiles": {str(q): [None] for q in QUANTILES}, "exact_quantiles": True,
    }  # fmt: skip


def test_images(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    streams = {
        "color": rng.integers(0, 256, (30, 7, 9, 3), np.uint8),
        "gray": rng.integers(10, 20, (30, 40, 50), np.uint8),
        "depth": rng.integers(0, 5000, (30, 40, 50), np.uint16),
        "height": rng.integers(-5000, 5000, (30, 40, 50, 1), np.int16),
        "points": rng.standard_normal((30, 700, 3)).astype(np.float32),
    }
    valid = rng.random(30) < 0.5
    with rc.StoreWriter(tmp_path) as writer, writer.episode() as episode:
        for name, frames in streams.items():
            episode.add(name, np.arange(30), frames, valid=valid)
    got = read_manifest(tmp_path)["statistics"]["streams"]
    for name, frames in streams.items():
        colors = frames.shape[-1] if frames.shape[-1] <= 4 else 1
        assert_summary(got[name], numpy_summary(list(frames[valid].reshape(-1, colors).T)))
        assert got[name]["exact_quantiles"] is True


def test_which_streams_have_how_many_channels() -> None:
    assert channels_of("F32", ()) == 1
    assert channels_of("U8", (6,)) == 6
    assert channels_of("U8", (480, 640, 3)) == 3
    assert channels_of("U8", (480, 640)) == 1
    assert channels_of("F32", (4, 4)) == 16
    assert channels_of("F32", (1024,)) == 1024
    assert channels_of("F32", (1025,)) == 1
    assert channels_of("F32", (2000, 3)) == 3
    assert channels_of("U16", (480, 640)) == 1


def test_a_mean_that_is_large_beside_the_deviation() -> None:
    rng = np.random.default_rng(6)
    values = 1e9 + rng.standard_normal((100_000, 1))
    statistics = StreamStatistics("F64", (1,))
    for part in np.array_split(values, 37):
        statistics.update(part)
    summary = statistics.summary()
    np.testing.assert_allclose(summary["std"][0], values.std(), rtol=1e-9)
    np.testing.assert_allclose(summary["mean"][0], values.mean(), rtol=1e-15)


def test_sums_that_overflow_are_null() -> None:
    statistics = StreamStatistics("F64", (1,))
    statistics.update(np.array([[1e308], [-1e308], [1.5e308], [1.5e308]]))
    summary = statistics.summary()
    assert summary["count"] == [4] and summary["max"] == [1.5e308] and summary["std"] == [None]


def test_exact_quantiles_up_to_the_bound() -> None:
    rng = np.random.default_rng(7)
    values = rng.standard_normal((EXACT_ROWS + 1, 2)).astype(np.float32)
    one, two = StreamStatistics("F32", (2,)), StreamStatistics("F32", (2,))
    one.update(values[:-1])
    two.update(values[-1:])
    summary = one.summary()
    assert summary["exact_quantiles"] is True
    assert_summary(summary, numpy_summary(list(values[:-1].T)))
    beyond = one.merged(two).summary()
    assert beyond["exact_quantiles"] is False
    assert_summary(beyond, numpy_summary(list(values.T)), with_quantiles=False)
    assert max(rank_errors(beyond, list(values.T))) < RANK_ERROR
    assert exact_rows(16) == EXACT_ROWS and exact_rows(1024) == 1024


def test_the_same_rows_give_the_same_sketches() -> None:
    """However they are cut, whoever looks in between, and whatever process they come from."""
    rng = np.random.default_rng(12)
    values = rng.standard_normal((150_000, 2)).astype(np.float32)
    values[rng.random(len(values)) < 0.1, 1] = np.nan

    def merged(pieces: int, is_watched: bool) -> dict:
        statistics = StreamStatistics("F32", (2,))
        # Two shards, the first of them above the exact rows, and a short one.
        for shard in (values[:100_000], values[100_000:100_300], values[100_300:]):
            piece = StreamStatistics("F32", (2,))
            for part in np.array_split(shard, pieces):
                piece.update(part)
            if is_watched:
                piece = pickle.loads(pickle.dumps(piece))
                statistics.summary()
                tensors = statistics.to_tensors()
                statistics = StreamStatistics.from_tensors("F32", (2,), tensors)
            statistics = statistics.merged(piece)
        tensors = statistics.to_tensors()
        return {name: tensors[name].tobytes() for name in tensors if name.startswith("sketch")}

    one = merged(1, False)
    assert len(one) == 3 and merged(7, False) == one and merged(40, True) == one


@pytest.mark.parametrize("kind", ["noise", "walk", "period", "steps"])
def test_rank_errors_of_long_streams(kind: str) -> None:
    """The stated rank error, in rows that are thinned too, and after merging."""
    rng = np.random.default_rng(8)
    n = 536_633
    if kind == "noise":
        values = rng.standard_normal((n, 2))
    elif kind == "walk":
        values = rng.standard_normal((n, 2)).cumsum(axis=0)
    elif kind == "period":  # as a sensor that is read twice as often as it measures
        values = np.stack([np.arange(n) % 2, np.arange(n) % 16], axis=1).astype(np.float64)
    else:
        values = (rng.random((n, 2)) ** 9).round(2)
    whole = StreamStatistics("F64", (2,))
    parts = [StreamStatistics("F64", (2,)) for _ in range(3)]
    for i, chunk in enumerate(np.array_split(values, 50)):
        whole.update(chunk)
        parts[i % 3].update(chunk)
    merged = parts[0].merged(parts[1]).merged(parts[2])
    for statistics in (whole, merged):
        summary = statistics.summary()
        assert summary["exact_quantiles"] is False
        errors = rank_errors(summary, list(values.T))
        # 99 of 100 stay below the stated error: these are 10.
        assert sorted(errors)[-2] < RANK_ERROR and max(errors) < 2 * RANK_ERROR
        assert_summary(summary, numpy_summary(list(values.T)), with_quantiles=False)


@pytest.mark.parametrize("channels", [20, 64, 300])
def test_rank_errors_of_wide_streams(channels: int) -> None:
    """Also just beyond the exact rows, where thinning tells most, and of channels with holes."""
    rng = np.random.default_rng(11)
    n = exact_rows(channels) + 1000
    values = rng.standard_normal((n, channels)).astype(np.float32)
    values[:, 1] = values[:, 1].cumsum()
    values[rng.random(n) < 0.5, 2] = np.nan
    values[100:, 3] = np.inf
    parts = [StreamStatistics("F32", (channels,)) for _ in range(2)]
    for i, chunk in enumerate(np.array_split(values, 30)):
        parts[i % 2].update(chunk)
    columns = [column[np.isfinite(column)] for column in values.T]
    for statistics in (parts[0].merged(parts[1]), parts[1].merged(parts[0])):
        summary = statistics.summary()
        assert summary["exact_quantiles"] is False
        assert summary["count"] == [len(column) for column in columns]
        errors = rank_errors(summary, columns)
        # A hundredth of the 100 rows of one channel is a row.
        assert np.quantile(errors, 0.98) < RANK_ERROR and max(errors) < 0.011


def test_state_goes_on(tmp_path: Path) -> None:
    """Pickled, as tensors, merged in any order: the same statistics."""
    rng = np.random.default_rng(9)
    for dtype, shape in (("F32", (2,)), ("U8", (4, 4, 3)), ("U16", (40, 40)), ("BOOL", ())):
        numpy_dtype = {"F32": "f4", "U8": "u1", "U16": "u2", "BOOL": "?"}[dtype]
        values = (rng.random((3000, *shape)) * 3).astype(numpy_dtype)
        whole = StreamStatistics(dtype, shape)
        whole.update(values)
        merged = StreamStatistics(dtype, shape)
        for part in np.array_split(values, 5):
            piece = StreamStatistics(dtype, shape)
            piece.update(part)
            merged = pickle.loads(pickle.dumps(piece)).merged(merged)
        assert_summary(merged.summary(), whole.summary())


def test_sketches_are_pickled() -> None:
    rng = np.random.default_rng(10)
    statistics = StreamStatistics("F32", (2,))
    statistics.update(rng.standard_normal((EXACT_ROWS + 10, 2)).astype(np.float32))
    again = pickle.loads(pickle.dumps(statistics))
    assert again.summary() == statistics.summary()
    more = rng.standard_normal((1000, 2)).astype(np.float32)
    again.update(more)
    assert again.summary()["count"] == [EXACT_ROWS + 1010] * 2
    before = statistics.summary()
    statistics.merged(again)
    assert statistics.summary() == before


def test_another_stream_is_refused() -> None:
    with pytest.raises(ValueError, match=r"other: expected F32 rows of shape \[2\], got F64 rows"):
        StreamStatistics("F32", (2,)).merged(StreamStatistics("F64", (2,)))


def test_appending_goes_on_with_statistics(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    values = rng.standard_normal((300, 2))
    for i in range(3):
        with rc.StoreWriter(tmp_path, append=True) as writer, writer.episode() as episode:
            episode.add("x", np.arange(100), values[100 * i : 100 * i + 100])
            if i == 1:
                episode.add("y", np.arange(2), np.array([5, 7]))
    manifest = read_manifest(tmp_path)
    assert_summary(manifest["statistics"]["streams"]["x"], numpy_summary(list(values.T)))
    assert manifest["statistics"]["streams"]["y"]["mean"] == [6.0]
    assert manifest["statistics"]["file"] == "statistics-00002.safetensors"
    assert [n for n in file_names(tmp_path) if n.startswith("statistics")] == [
        "statistics-00002.safetensors"
    ]


def test_a_manifest_that_lost_a_shard(tmp_path: Path) -> None:
    """All its checksums are right; its statistics are of more than there is."""
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    values[1, 1] = np.nan
    image = np.zeros((4, 5, 6, 3), np.uint8)
    for i in range(2):
        with rc.StoreWriter(tmp_path, append=True) as writer, writer.episode() as episode:
            episode.add("x", np.arange(4), values, valid=[True, True, True, i == 0])
            episode.add("image", np.arange(4), image)
            episode.add("half", np.arange(4), torch.tensor([1, np.inf, 2, 3]).to(torch.bfloat16))
    store = rc.EpisodeStore(tmp_path)
    assert store.statistics["x"].count.tolist() == [7, 5, 7]
    store.verify()
    for lost, left in ((1, 4), (0, 3)):
        manifest = read_manifest(tmp_path)
        del manifest["shards"][lost], manifest["crc32"]
        (tmp_path / f"lost {lost}").mkdir()
        for file in tmp_path.glob("*.safetensors"):
            (tmp_path / f"lost {lost}" / file.name).hardlink_to(file)
        HandStore(tmp_path / f"lost {lost}").write_manifest(manifest)
        opened = rc.EpisodeStore(tmp_path / f"lost {lost}")
        with pytest.raises(rc.StoreError) as caught:
            opened.verify()
        assert str(caught.value) == (
            f'{tmp_path}/lost {lost}/manifest.json: statistics.streams."x".count[0]: '
            f"expected {left}, as the rows of the shards say, got 7"
        )
        assert "checksum" in {one.kind for one in examine(opened.path).findings}


def test_altered_state_is_an_error_of_the_next_writer(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer, writer.episode() as episode:
        episode.add("x", [0], [1.0])
    file = tmp_path / "statistics-00000.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(rc.StoreError, match=r"00000.safetensors: expected crc32 [0-9a-f]{8}, as"):
        rc.StoreWriter(tmp_path, append=True)


@needs(DATA / "lerobot_v21_g1")
def test_lerobots_own_statistics(tmp_path: Path) -> None:
    """LeRobot wrote those of each episode beside it; joined, they are the store's."""
    folder = DATA / "lerobot_v21_g1"
    parquet = pytest.importorskip("pyarrow.parquet", reason="LeRobot's files need pyarrow")
    lines = (folder / "meta" / "episodes_stats.jsonl").read_text().splitlines()
    known = {entry["episode_index"]: entry["stats"] for entry in map(json.loads, lines)}
    theirs: list[dict] = []
    with rc.StoreWriter(tmp_path) as writer:
        for path in sorted((folder / "data" / "chunk-000").glob("*.parquet")):
            column = parquet.read_table(path, columns=["action"])["action"]
            with writer.episode(source=path.name) as episode:
                episode.add("x", np.arange(len(column)), np.array(column.to_pylist(), np.float32))
            theirs.append(known[int(path.stem.rpartition("_")[2])]["action"])
    ours = rc.EpisodeStore(tmp_path).statistics["x"]
    assert len(theirs) > 1
    count = np.array([each["count"] for each in theirs])
    mean = np.array([each["mean"] for each in theirs])
    square = np.array([each["std"] for each in theirs]) ** 2 + mean**2
    joined = (count * mean).sum(axis=0) / count.sum()
    deviation = np.sqrt((count * square).sum(axis=0) / count.sum() - joined**2)
    assert set(ours.count) == {count.sum()}
    np.testing.assert_allclose(ours.mean, joined, atol=1e-5)  # theirs are float32
    np.testing.assert_allclose(ours.std, deviation, atol=1e-5)
    np.testing.assert_array_equal(ours.min, np.min([each["min"] for each in theirs], axis=0))
    np.testing.assert_array_equal(ours.max, np.max([each["max"] for each in theirs], axis=0))
