"""Held observations: what a causal window has at a target later than the newest row."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loader_options import keyed_loader
from loader_stores import MS, START

import robocache as rc

TIMES = [0, 10, 20]  # ms, of the rows of every stream but the clock
CLOCK = [5, 22, 25, 60, 1020]  # ms, of the anchors
ROWS = np.array([[1.0], [2.0], [4.0]], np.float32)


def write(folder: Path, values: np.ndarray[Any, Any] = ROWS, **options: Any) -> Path:
    """A stream `x` whose rows end long before the anchors do."""
    with rc.StoreWriter(folder / "store") as writer, writer.episode() as episode:
        episode.add("clock", [START + t * MS for t in CLOCK], np.zeros((len(CLOCK), 1), np.float32))
        episode.add("x", [START + t * MS for t in TIMES], values, **options)
    return folder / "store"


def batch_of(
    store: Path, device: str, steps: Any = None, **options: Any
) -> dict[str, torch.Tensor]:
    """All anchors, in order."""
    deltas = {"x": steps, "clock": None}
    loader = keyed_loader(
        store, 8, deltas, anchor="clock", shuffle=False, with_age=True, device=device, **options
    )
    return {key: value.cpu() for key, value in loader.next().items()}


def column(batch: dict[str, torch.Tensor], key: str = "x") -> list[float]:
    return batch[key].flatten().tolist()


# ---- every method --------------------------------------------------------------------------------


@pytest.mark.parametrize("outside", ["hold", "zero", "nan", "extrapolate"])
@pytest.mark.parametrize("method", ["linear", "previous", "nearest"])
def test_the_newest_row_is_held(tmp_path: Path, device: str, method: str, outside: str) -> None:
    """The row is held to the stream's end and past it, for any `outside`."""
    batch = batch_of(write(tmp_path), device, method={"x": method}, outside=outside)
    assert column(batch) == [1, 4, 4, 4, 4]
    assert not batch["x_is_pad"].any()
    assert batch["x_age"].tolist() == [age * MS for age in (5, 2, 5, 40, 1000)]


@pytest.mark.parametrize("method", ["linear", "previous", "nearest"])
def test_max_gap_limits_it(tmp_path: Path, device: str, method: str) -> None:
    """Inclusive; values stay what they are."""
    batch = batch_of(write(tmp_path), device, method={"x": method}, max_gap_s=0.005)
    assert column(batch) == [1, 4, 4, 4, 4]
    assert batch["x_is_pad"].tolist() == [False, False, False, True, True]


def test_a_row_that_is_not_real_is_held_and_padded(tmp_path: Path, device: str) -> None:
    batch = batch_of(write(tmp_path, valid=[True, True, False]), device)
    assert column(batch) == [1, 4, 4, 4, 4]
    assert batch["x_is_pad"].tolist() == [False, True, True, True, True]


def test_late_rows_are_not_held(tmp_path: Path, device: str) -> None:
    """Only rows that had arrived by the anchor count: by `received`, or by the latency."""
    received = [START + t * MS for t in (4, 23, 61)]
    batch = batch_of(write(tmp_path, received=received), device)
    assert column(batch) == [1, 1, 2, 2, 4]
    assert batch["x_age"].tolist() == [age * MS for age in (5, 22, 15, 50, 1000)]
    assert not batch["x_is_pad"].any()


def test_latency(tmp_path: Path, device: str) -> None:
    batch = batch_of(write(tmp_path), device, latency_s=0.006, max_gap_s=0.05)
    assert column(batch) == [0, 2, 2, 4, 4]  # the first row arrives 1 ms after the first anchor
    assert batch["x_is_pad"].tolist() == [True, False, False, False, True]


def test_before_the_first_row(tmp_path: Path, device: str) -> None:
    """There `outside` rules as ever; between rows nothing is held."""
    steps = [-0.03, -0.02, -0.001]
    batch = batch_of(write(tmp_path), device, steps, outside="zero")
    assert batch["x"][..., 0].tolist()[:2] == [[0, 0, 1], [0, pytest.approx(1.2), 4]]
    assert batch["x_is_pad"].tolist()[:2] == [[True, True, False], [True, False, False]]
    batch = batch_of(write(tmp_path / "2"), device, steps, outside="extrapolate")
    assert batch["x"][1, 0].tolist() == pytest.approx([0.2])  # -8 ms, along 0 and 10 ms
    assert batch["x_is_pad"][1].tolist() == [True, False, False]


def test_quaternions_and_angles(tmp_path: Path, device: str) -> None:
    """Held rows are normalized and wrapped; a quaternion of zeros is invalid."""
    rows = np.array([[0, 0, 0, 2, 7.0], [0, 0, 3, 4, -7], [0, 0, 0, 0, 1]], np.float32)
    layout = [("slerp_xyzw", 4), ("angle", 1)]
    batch = batch_of(write(tmp_path, rows[:, :5]), device, [-0.011, 0.0], method={"x": layout})
    turn = 2 * math.pi
    assert batch["x"][0, 1].tolist() == pytest.approx([0, 0, 0, 1, 7 - turn], abs=1e-6)
    assert batch["x"][2, 1].tolist() == pytest.approx([0, 0, 0, 0, 1], abs=1e-6)
    assert batch["x_is_pad"][:, 1].tolist() == [False, True, True, True, True]
    two = np.concatenate([rows[:2], rows[1:2]])
    batch = batch_of(write(tmp_path / "2", two), device, method={"x": layout})
    assert batch["x"][4].tolist() == pytest.approx([0, 0, 0.6, 0.8, turn - 7], abs=1e-6)
    assert not batch["x_is_pad"].any()


def test_means(tmp_path: Path, device: str) -> None:
    """A mean takes the arrived valid rows in its window; it holds where there are none."""
    options: dict[str, Any] = {"method": {"x": "mean"}, "mean_window_s": 0.024, "outside": "nan"}
    batch = batch_of(write(tmp_path), device, **options)
    assert column(batch) == [1, 3, 4, 4, 4]  # of 0; 10 and 20; 20; held
    assert not batch["x_is_pad"].any()
    assert batch["x_age"].tolist() == [age * MS for age in (5, 2, 5, 40, 1000)]
    batch = batch_of(write(tmp_path / "2"), device, max_gap_s=0.001, **options)
    assert batch["x_is_pad"].tolist() == [False, False, False, True, True]
    store = write(tmp_path / "3", valid=[True, True, False])
    batch = batch_of(store, device, **options)
    assert column(batch) == [1, 2, 4, 4, 4]
    assert batch["x_is_pad"].tolist() == [False, False, True, True, True]
    assert batch["x_age"].tolist() == [age * MS for age in (5, 12, 5, 40, 1000)]


def test_sums(tmp_path: Path, device: str) -> None:
    """A sum takes the arrived rows since the previous target; 0 where there are none."""
    steps = [-0.01, -0.004, 0.0]
    options: dict[str, Any] = {"method": {"x": "sum"}, "outside": "nan"}
    batch = batch_of(write(tmp_path), device, steps, **options)
    expected = [[0, 1, 0], [3, 0, 4], [3, 4, 0], [7, 0, 0], [7, 0, 0]]
    assert batch["x"][0, 0].isnan().all()  # before the first row
    assert batch["x"][..., 0].nan_to_num(0).tolist() == expected
    assert batch["x_is_pad"].tolist() == [[True, False, False]] + [[False] * 3] * 4
    batch = batch_of(write(tmp_path / "2"), device, steps, max_gap_s=0.03, **options)
    assert batch["x_is_pad"][3].tolist() == [False, True, True]  # 30, 36 and 40 ms old
    batch = batch_of(write(tmp_path / "3", valid=[True, True, False]), device, steps, **options)
    assert batch["x"][1, :, 0].tolist() == [3, 0, 0]
    assert batch["x_is_pad"][1].tolist() == [False, False, True]
    assert batch["x_is_pad"][2].tolist() == [False, True, True]  # the newest row is not real


# ---- what is not held ----------------------------------------------------------------------------


def test_other_windows_keep_their_meaning(tmp_path: Path, device: str) -> None:
    """causal=False, and steps past the anchor: what lies after the last row is outside."""
    store = write(tmp_path)
    batch = batch_of(store, device, causal=False)
    assert column(batch) == [1.5, 4, 4, 4, 4]
    assert batch["x_is_pad"].tolist() == [False, True, True, True, True]
    batch = batch_of(store, device, [0.0, 0.02], outside="zero")
    assert batch["x"][..., 0].tolist() == [[1.5, 0], [0, 0], [0, 0], [0, 0], [0, 0]]
    assert batch["x_is_pad"][:, 0].tolist() == [False, True, True, True, True]


def test_without_a_row_there_is_nothing_to_hold(tmp_path: Path, device: str) -> None:
    received = [START + t * MS for t in (30, 30, 2000)]
    batch = batch_of(write(tmp_path, received=received), device, outside="nan")
    assert column(batch) == [0, 0, 0, 2, 2]
    assert batch["x_is_pad"].tolist() == [True, True, True, False, False]


# ---- what others are relative to -----------------------------------------------------------------


@pytest.mark.parametrize("ahead", [False, True])
def test_references_are_causal(tmp_path: Path, device: str, ahead: bool) -> None:
    """References are causal for any offsets of the stream itself."""
    received = [START + t * MS for t in (4, 23, 61)]
    options: dict[str, Any] = {
        "relative_to": {"clock": "x"}, "dtype": {"clock": torch.float64}, "max_gap_s": {"x": 0.02}
    }  # fmt: skip
    steps = [0.0, 0.02] if ahead else None
    batch = batch_of(write(tmp_path, received=received), device, steps, **options)
    assert column(batch, "clock") == [-1, -1, -2, -2, -4]
    assert batch["clock_is_pad"].tolist() == [False, True, False, True, True]
    batch = batch_of(
        write(tmp_path / "2", received=received), device, steps, causal={"x": False}, **options
    )
    assert column(batch, "clock") == [-1.5, -4, -4, -4, -4]
    assert batch["clock_is_pad"].tolist() == [False, True, True, True, True]


def test_references_of_any_method_and_outside(tmp_path: Path, device: str) -> None:
    """A mean too, and whatever `outside` says."""
    options: dict[str, Any] = {"relative_to": {"clock": "x"}, "outside": {"x": "zero"}}
    batch = batch_of(write(tmp_path), device, **options)
    assert column(batch, "clock") == [-1, -4, -4, -4, -4]
    assert not batch["clock_is_pad"].any()
    batch = batch_of(
        write(tmp_path / "2"), device, method={"x": "mean"}, mean_window_s={"x": 0.024}, **options
    )
    assert column(batch, "clock") == [-1, -3, -4, -4, -4]
    assert not batch["clock_is_pad"].any()
