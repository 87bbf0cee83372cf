"""Windows of the loader, by time and by rows, against the plain reference."""

from __future__ import annotations

from typing import Any

import loader_reference as plain
import numpy as np
import pytest
import torch
from loader_options import keyed_loader
from loader_reference import Window
from loader_stores import MS, write_store
from loader_windows import FUTURE, PAST, check, ns, to_cpu
from support import assert_same_bits

import robocache as rc


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("loader") / "store")


# ---- windows by time -----------------------------------------------------------------------------

TIME_CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "linear past": ("joints", {"delta_timestamps": {"joints": PAST}}, {}),
    "linear future": ("joints", {"delta_timestamps": {"joints": FUTURE}}, {}),
    "all rows": (
        "joints", {"delta_timestamps": {"joints": PAST}, "causal": False}, {"causal": False}
    ),
    "latency": (
        "joints", {"delta_timestamps": {"joints": PAST}, "latency_s": 0.03}, {"latency": 30 * MS}
    ),
    "gaps": (
        "joints", {"delta_timestamps": {"joints": FUTURE}, "max_gap_s": 0.02}, {"max_gap": 20 * MS}
    ),
    "tolerance": (
        "joints",
        {"delta_timestamps": {"joints": FUTURE}, "tolerance_s": 0.003},
        {"tolerance": 3 * MS},
    ),
    "zero": ("joints", {"delta_timestamps": {"joints": FUTURE}, "outside": "zero"},
             {"outside": "zero"}),
    "nan": ("joints", {"delta_timestamps": {"joints": FUTURE}, "outside": "nan"},
            {"outside": "nan"}),
    "extrapolate": (
        "joints",
        {"delta_timestamps": {"joints": FUTURE}, "outside": "extrapolate"},
        {"outside": "extrapolate"},
    ),
    "nearest": ("joints", {"delta_timestamps": {"joints": FUTURE}, "method": "nearest"},
                {"layout": [("nearest", 7)]}),
    "layout": (
        "joints",
        {"delta_timestamps": {"joints": FUTURE}, "method": [("linear", 4), ("previous", 3)]},
        {"layout": [("linear", 4), ("previous", 3)]},
    ),
    "mean": (
        "force",
        {"delta_timestamps": {"force": FUTURE}, "method": "mean", "mean_window_s": 0.02},
        {"layout": [("mean", 3)], "mean_window": 20 * MS},
    ),
    "sum": (
        "force",
        {"delta_timestamps": {"force": FUTURE}, "method": "sum"},
        {"layout": [("sum", 3)]},
    ),
    "float64": ("force", {"delta_timestamps": {"force": PAST}}, {}),
    "float64 to float32": (
        "force", {"delta_timestamps": {"force": PAST}, "dtype": torch.float32},
        {"dtype": torch.float32},
    ),
    "late images": ("camera", {"delta_timestamps": {"camera": PAST}}, {}),
    "images": ("camera", {"delta_timestamps": {"camera": FUTURE}}, {}),
    "bool": ("gripper", {"delta_timestamps": {"gripper": FUTURE}}, {}),
    "int64": ("counter", {"delta_timestamps": {"counter": [*PAST, 0.1, 9.0]}}, {}),
    "int64 nearest zero": (
        "counter",
        {"delta_timestamps": {"counter": FUTURE}, "method": "nearest", "outside": "zero"},
        {"layout": [("nearest", 2)], "outside": "zero"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TIME_CASES)
def test_windows_by_time(store: rc.EpisodeStore, device: str, case: str) -> None:
    key, options, meant = TIME_CASES[case]
    loader = keyed_loader(store, 8, anchor="joints", device=device, with_age=True, **options)
    window = Window(key, ns(options["delta_timestamps"][key]), **meant)
    check(store, loader, {key: window}, plain.row_anchors(store, "joints"))


def test_quaternions(store: rc.EpisodeStore, device: str) -> None:
    loader = rc.Loader(store, 8, {"pose": FUTURE}, anchor="joints", device=device)
    window = Window("pose", ns(FUTURE), layout=[("slerp_xyzw", 4)])
    check(store, loader, {"pose": window}, plain.row_anchors(store, "joints"), atol=5e-7)


def test_many_streams_at_once(store: rc.EpisodeStore, device: str) -> None:
    deltas = {"joints": PAST, "force": [0.0, 0.01], "camera": [-0.1, 0.0], "action": [0.0, 0.02]}
    loader = keyed_loader(
        store,
        8,
        deltas,
        device=device,
        timeline="time",
        max_gap_s={"joints": 0.02},
        causal={"camera": False},
        dtype={"force": torch.float32},
        with_age=True,
    )
    windows = {
        "joints": Window("joints", ns(PAST), max_gap=20 * MS),
        "force": Window("force", [0, 10 * MS], dtype=torch.float32),
        "camera": Window("camera", [-100 * MS, 0], causal=False),
        "action": Window("action", [0, 20 * MS]),
    }
    check(store, loader, windows, plain.row_anchors(store, "joints"))


# ---- windows by rows -----------------------------------------------------------------------------


def test_windows_by_rows(store: rc.EpisodeStore, device: str) -> None:
    rows = list(range(-3, 40))
    deltas = {"action": [r / 50 for r in rows], "state": [-0.04, 0.0], "step": [0.0, 0.02]}
    loader = rc.Loader(store, 8, deltas, device=device, with_age=True)
    windows = {
        "action": Window("action", rows, by_rows=True),
        "state": Window("state", [-2, 0], by_rows=True),
        "step": Window("step", [0, 1], by_rows=True),
    }
    check(store, loader, windows, plain.row_anchors(store, "action"))


def test_rows_that_are_not_real_are_padded(store: rc.EpisodeStore, device: str) -> None:
    loader = keyed_loader(store, 8, {"joints": None}, timeline="rows", device=device)
    batch = to_cpu(loader.gather(range(len(loader.dataset))))
    valid = np.concatenate([episode["joints"].valid for episode in store])
    assert_same_bits(batch["joints_is_pad"], torch.from_numpy(~valid))


def test_an_episode_without_a_stream_gives_zeros(store: rc.EpisodeStore, device: str) -> None:
    loader = rc.Loader(store, 8, {"camera": [0.0]}, anchor="joints", episodes=[2], device=device)
    batch = to_cpu(loader.gather(range(len(loader.dataset))))
    assert batch["camera"].shape[1:] == (1, 4, 6, 3)
    assert not batch["camera"].any() and batch["camera_is_pad"].all()
