"""Stores made of stores."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from store_files import file_names, read_manifest, read_store

import robocache as rc
from robocache.statistics.quantiles import EXACT_ROWS, RANK_ERROR


def write(
    path: Path, values: np.ndarray, episodes: int, name: str = "", **metadata: object
) -> None:
    with rc.StoreWriter(path, shard_bytes=4000) as writer:
        writer.declare("x", **metadata)
        for i, part in enumerate(np.array_split(values, episodes)):
            with writer.episode(f"task {i % 3}", f"{name}#{i}", [name, f"of {i % 2}"]) as episode:
                episode.add("x", np.arange(len(part)), part)
                if i % 2:
                    episode.add(f"only in {name}", [i], [i])


def refuse(*args: object, **kwargs: object) -> None:
    raise OSError("another file system")


@pytest.mark.parametrize("can_link", [True, False])
def test_merged_equals_whole(tmp_path: Path, monkeypatch, can_link: bool) -> None:
    if not can_link:
        monkeypatch.setattr(os, "link", refuse)
    rng = np.random.default_rng(1)
    values = rng.standard_normal((2000, 5)).astype(np.float32)
    write(tmp_path / "a", values[:700], 20, "a", units="rad")
    write(tmp_path / "b", values[700:], 30, "b", rate=50)
    before = {f: (tmp_path / "a" / f).read_bytes() for f in file_names(tmp_path / "a")}
    rc.merge_stores([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    merged = read_store(tmp_path / "c")
    for got, expected in zip(
        merged, [*read_store(tmp_path / "a"), *read_store(tmp_path / "b")], strict=True
    ):
        assert (got.task, got.source, got.subsets) == (
            expected.task,
            expected.source,
            expected.subsets,
        )
        for name, columns in expected.streams.items():
            np.testing.assert_array_equal(got.streams[name]["values"], columns["values"])
            np.testing.assert_array_equal(got.streams[name]["times"], columns["times"])
    manifest = read_manifest(tmp_path / "c")
    assert [s["name"] for s in manifest["streams"]] == ["x", "only in a", "only in b"]
    assert manifest["streams"][0]["units"] == "rad"
    got = manifest["statistics"]["streams"]["x"]
    wide = values.astype(np.float64)
    assert got["count"] == [2000] * 5 and got["exact_quantiles"] is True
    np.testing.assert_allclose(got["mean"], wide.mean(axis=0), rtol=0, atol=1e-14)
    np.testing.assert_allclose(got["std"], wide.std(axis=0), rtol=1e-13)
    for q, found in got["quantiles"].items():
        np.testing.assert_allclose(found, np.quantile(wide, float(q), axis=0), rtol=1e-12)
    assert not [f for f in file_names(tmp_path / "c") if f.startswith(".tmp-")]
    assert {f: (tmp_path / "a" / f).read_bytes() for f in file_names(tmp_path / "a")} == before
    linked = (tmp_path / "c" / "shard-00000.safetensors").stat().st_nlink == 2
    assert linked == can_link
    with rc.StoreWriter(tmp_path / "c", append=True) as writer, writer.episode() as episode:
        episode.add("x", [0], values[:1])
    assert len(read_store(tmp_path / "c")) == 51


def test_merged_sketches(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    values = rng.gamma(2, 1, (2 * EXACT_ROWS, 1)).astype(np.float32)
    for name, part in (("a", values[: EXACT_ROWS // 2]), ("b", values[EXACT_ROWS // 2 :])):
        with rc.StoreWriter(tmp_path / name) as writer, writer.episode() as episode:
            episode.add("x", np.arange(len(part)), part)
    rc.merge_stores([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    got = read_manifest(tmp_path / "c")["statistics"]["streams"]["x"]
    assert got["exact_quantiles"] is False and got["count"] == [len(values)]
    for q, (found,) in got["quantiles"].items():
        assert abs((values <= found).mean() - float(q)) < RANK_ERROR


def test_nothing_is_written_where_sources_do_not_fit(tmp_path: Path) -> None:
    values = np.zeros((10, 3), np.float32)
    write(tmp_path / "a", values, 2, "a", units="rad")
    write(tmp_path / "b", values.astype(np.float64), 2, "b")
    write(tmp_path / "c", values, 2, "c", units="degree")
    for other, expected in (
        ("b", "stream 'x': expected F32 rows of shape [3], got F64 rows of shape [3]"),
        ("c", "stream 'x': expected units 'rad', got 'degree'"),
    ):
        with pytest.raises(rc.StoreError) as caught:
            rc.merge_stores([tmp_path / "a", tmp_path / other], tmp_path / "new")
        assert str(caught.value) == f"{tmp_path / other}: {expected}"
    with pytest.raises(rc.StoreError, match="expected each store once, got it twice"):
        rc.merge_stores([tmp_path / "a", tmp_path / "x" / ".." / "a"], tmp_path / "new")
    with pytest.raises(rc.StoreError, match="expected each store once, got it twice"):
        rc.merge_stores([tmp_path / "a"], tmp_path / "a")
    with pytest.raises(rc.StoreError):
        rc.merge_stores([tmp_path / "nothing"], tmp_path / "new")
    assert not (tmp_path / "new").exists()
    message = re.escape(f"{tmp_path / 'b'}: expected no store there, got one with episodes")
    with pytest.raises(rc.StoreError, match=message):
        rc.merge_stores([tmp_path / "a"], tmp_path / "b")


def test_a_damaged_copy_is_found(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(os, "link", refuse)
    write(tmp_path / "a", np.zeros((100, 3)), 2, "a")
    file = tmp_path / "a" / "shard-00000.safetensors"
    data = bytearray(file.read_bytes())
    data[-100] ^= 1
    file.write_bytes(data)
    with pytest.raises(rc.StoreError, match=re.escape(f"{file}: expected checksum")):
        rc.merge_stores([tmp_path / "a"], tmp_path / "new" / "b")
    assert not (tmp_path / "new").exists(), "what failed leaves nothing"
    with rc.StoreWriter(tmp_path / "b"):
        pass
    with pytest.raises(rc.StoreError):
        rc.merge_stores([tmp_path / "a"], tmp_path / "b")
    assert read_store(tmp_path / "b") == [], "a store without episodes may be there, and stays"
    file.write_bytes(bytes(data[:-100]) + bytes([data[-100] ^ 1]) + bytes(data[-99:]))
    rc.merge_stores([tmp_path / "a"], tmp_path / "b")
    assert len(read_store(tmp_path / "b")) == 2


def test_a_folder_that_is_no_store_stays_as_it_was(tmp_path: Path) -> None:
    write(tmp_path / "a", np.zeros((10, 3)), 2, "a")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "notes.txt").touch()
    with pytest.raises(rc.StoreError, match="expected a store or an empty folder, got one with"):
        rc.merge_stores([tmp_path / "a"], tmp_path / "notes")
    assert [file.name for file in (tmp_path / "notes").iterdir()] == ["notes.txt"]


def test_empty_stores(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path / "a"):
        pass
    rc.merge_stores([tmp_path / "a"], tmp_path / "b")
    rc.merge_stores([], tmp_path / "c")
    assert read_store(tmp_path / "b") == read_store(tmp_path / "c") == []


# ---- normalization -----------------------------------------------------------------------------


def test_normalization(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    values = rng.standard_normal((1000, 5)) * [1, 10, 0.001, 0, 1] + [0, 5, 100, 0.1, 0]
    values[:, 4] = np.nan
    values[:995, 2] = 7  # most are equal: no spread between the quantiles, but a deviation
    values[995:, 2] = 8
    with rc.StoreWriter(tmp_path) as writer, writer.episode() as episode:
        episode.add("x", np.arange(1000), values)
    statistics = rc.EpisodeStore(tmp_path).statistics["x"]
    known = values[:, :4]

    subtract, multiply = rc.normalization(statistics, "mean_std")
    y = (known - subtract[:4]) * multiply[:4]
    np.testing.assert_allclose(y.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(y.std(axis=0), [1, 1, 1, 0], atol=1e-6)
    assert multiply[3] == 1

    subtract, multiply = rc.normalization(statistics, "min_max")
    y = (known - subtract[:4]) * multiply[:4]
    np.testing.assert_allclose(y.min(axis=0), [-1, -1, -1, 0], atol=1e-9)
    np.testing.assert_allclose(y.max(axis=0), [1, 1, 1, 0], atol=1e-9)

    low, high = np.quantile(known, [0.01, 0.99], axis=0)
    subtract, multiply = rc.normalization(statistics, "quantiles")
    for edge, expected in ((low, -1), (high, 1)):
        found = (edge - subtract[:4]) * multiply[:4]
        np.testing.assert_allclose(found[:2], expected, atol=1e-9)
    assert subtract[2] == 7 and multiply[2] == 1

    for mode in ("mean_std", "min_max", "quantiles"):
        subtract, multiply = rc.normalization(statistics, mode)
        assert np.isfinite(subtract).all() and np.isfinite(multiply).all()
        assert subtract[4] == 0 and multiply[4] == 1
    with pytest.raises(
        ValueError,
        match="mode: expected mean_std, min_max, quantiles, quantile10 or identity, got 'max'",
    ):
        rc.normalization(statistics, "max")
