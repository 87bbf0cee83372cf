"""Errors that depend on a store's rows: their streams, order of times and arrivals, tolerance."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loader_options import keyed_loader
from loader_stores import MS

import robocache as rc
from robocache.loader.memory import resident_streams


class LoadingError(Exception):
    """In place of loading."""


@pytest.fixture
def no_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*arguments: Any) -> None:
        raise LoadingError

    monkeypatch.setattr(resident_streams, "load", load)


@pytest.mark.usefixtures("no_loading")
def test_too_many_streams_are_refused_before_loading(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path / "store") as writer, writer.episode() as episode:
        for i in range(65):
            episode.add(f"s{i}", [0, MS], np.zeros(2, np.float32))
    with pytest.raises(
        ValueError, match=r"^windows: expected at most 64 streams, got 65 \(all of the .*"
    ):
        rc.Loader(tmp_path / "store", 2, device="cpu")
    with pytest.raises(LoadingError):
        rc.Loader(tmp_path / "store", 2, {f"s{i}": None for i in range(64)}, device="cpu")


@pytest.mark.usefixtures("no_loading")
def test_unordered_times_are_refused_before_loading(tmp_path: Path) -> None:
    rewritten = write_unordered(tmp_path / "store")
    with pytest.raises(
        ValueError,
        match=r"^times\['x'\]: expected times that ascend in each episode, got row 2 of episode 1 "
        r"\(of those chosen\) with an earlier time than the row before it$",
    ):
        keyed_loader(rewritten, 2, {"x": [0.0]}, timeline="time", device="cpu")
    with pytest.raises(LoadingError):
        keyed_loader(rewritten, 2, {"x": [0.0]}, timeline="time", episodes=[0], device="cpu")
    with pytest.raises(LoadingError):  # where nobody looks at times
        keyed_loader(rewritten, 2, {"x": [0.0]}, timeline="rows", device="cpu")


@pytest.mark.parametrize("period_us", [1000, 200, 50])
def test_the_default_tolerance_gives_way_to_rows_that_are_close(
    tmp_path: Path, period_us: int
) -> None:
    """At 5 kHz it would span rows; means and sums know none."""
    with rc.StoreWriter(tmp_path / "store") as writer, writer.episode() as episode:
        times = np.arange(100) * period_us * 1000
        episode.add("force", times, np.arange(100, dtype=np.float32))
    period = period_us * 1e-6
    options: dict[str, Any] = {"device": "cpu"}

    def value(offset: float, **more: Any) -> float:
        steps = {"force": [0.0, offset]}
        loader = keyed_loader(tmp_path / "store", 2, steps, **options, **more)
        return float(loader.dataset[10]["force"][1])

    is_near = period_us > 200  # a row answers for what lies within 1e-4 s of it
    assert value(0.09e-3) == pytest.approx(10 if is_near else 10 + 0.09e-3 / period, abs=1e-4)
    for method in ("mean", "sum"):
        window = {"mean_window_s": 2.2 * period} if method == "mean" else {}
        expected = {"mean": 12.0, "sum": 11.0 + 12.0}[method]
        for tolerance in ({}, {"tolerance_s": 1e-4}):
            assert value(2 * period, method=method, **window, **tolerance) == expected
    if not is_near:
        with pytest.raises(
            ValueError, match=r"^tolerance_s\['force'\]: expected less than half of"
        ):
            value(0.0, tolerance_s=1e-4)


@pytest.mark.parametrize("tolerance_ms", [25, 10_000])
def test_a_tolerance_that_spans_repeated_timestamps_is_refused(
    tmp_path: Path, tolerance_ms: int
) -> None:
    """Each timestamp stands twice, 50 ms apart: the median time between rows is 0 or 50 ms."""
    with rc.StoreWriter(tmp_path / "store") as writer, writer.episode() as episode:
        times = np.repeat(np.arange(20) * 50 * MS, 2)
        episode.add("force", times, np.arange(40, dtype=np.float32))
    window = rc.Window([0.0], tolerance_s=tolerance_ms * 1e-3)
    message = (
        "tolerance_s['force']: expected less than half of the 0.05 s between its rows, got "
        f"{tolerance_ms * 1e-3:g} (a row so near to a target is the answer alone; max_gap_s is "
        "what limits gaps)"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        rc.Loader(tmp_path / "store", 2, {"force": window}, device="cpu")
    fitting = replace(window, tolerance_s=0.024)
    assert rc.Loader(tmp_path / "store", 2, {"force": fitting}, device="cpu").next()


def test_means_of_a_stream_by_rows_need_no_window(tmp_path: Path) -> None:
    """A method that the store says is not looked at where rows are counted."""
    with rc.StoreWriter(tmp_path / "store") as writer:
        writer.declare("force", rate=50, method="mean")
        with writer.episode() as episode:
            episode.add("force", np.arange(4) * 20 * MS, np.arange(4, dtype=np.float32))
    loader = keyed_loader(tmp_path / "store", 4, {"force": [0.02]}, timeline="rows", device="cpu")
    assert loader.gather(range(4))["force"][:, 0].tolist() == [1, 2, 3, 3]


def write_unordered(folder: Path) -> Path:
    """Two episodes of 4 rows; row 2 of the second is early, as only a broken writer leaves it."""
    with rc.StoreWriter(folder) as writer:
        writer.declare("x", rate=100)
        for _ in range(2):
            with writer.episode() as episode:
                times = np.arange(4) * 10 * MS
                episode.add("x", times, np.zeros((4, 1), np.float32))
    (shard,) = folder.glob("shard-*.safetensors")
    data = bytearray(shard.read_bytes())
    row = np.int64(20 * MS).tobytes()
    at = data.rindex(row)
    data[at : at + 8] = np.int64(5 * MS).tobytes()
    shard.write_bytes(bytes(data))
    return folder


def test_rows_that_arrived_out_of_order(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path / "store") as writer:
        for e in range(2):
            with writer.episode() as episode:
                times = np.arange(4) * 10 * MS
                received = times + 5 * MS
                received[2] += 20 * MS * e
                episode.add("x", times, np.zeros((4, 1), np.float32), received=received)
    with pytest.raises(
        ValueError,
        match=r"^causal\['x'\]: expected rows that were received in the .*"
        r"got row 3 of episode 1 .* before the row before it; causal=False ",
    ):
        rc.Loader(tmp_path / "store", 2, {"x": [-0.01, 0.0]}, device="cpu")
    assert keyed_loader(tmp_path / "store", 2, {"x": [0.0]}, causal=False, device="cpu").next()
    assert rc.Loader(tmp_path / "store", 2, {"x": [0.0, 0.01]}, device="cpu").next()


def test_a_stream_named_like_a_mask_or_an_age(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path / "store") as writer, writer.episode() as episode:
        for name in ("x", "x_is_pad", "x_age"):
            episode.add(name, [0, MS], np.zeros((2, 3), np.float32))
    expected = "^windows: expected keys that are no stream's mask or age, got 'x_{}' "
    with pytest.raises(ValueError, match=expected.format("is_pad") + "beside 'x'$"):
        rc.Loader(tmp_path / "store", 2, device="cpu")
    ages = {"x": [0.0], "x_age": [0.0]}
    with pytest.raises(ValueError, match=expected.format("age") + "beside 'x'$"):
        rc.Loader(tmp_path / "store", 2, ages, with_age=True, device="cpu")
    assert rc.Loader(tmp_path / "store", 2, ages, device="cpu").next()["x_age"].shape == (2, 1, 3)
