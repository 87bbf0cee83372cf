"""Recordings through the LiveAligner: generated, of others and the demo's, beside the loader."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loader_options import keyed_loader
from loader_stores import write_humanoid, write_store
from recordings import DATA, needs

import robocache as rc
from robocache.cli import main
from robocache.cli.replay import print_replay
from robocache.demo.recording import make_recording
from robocache.demo.stores import write_store as write_demo
from robocache.live import aligner as live
from robocache.live.replay import Quantiles

BAG = DATA / "husky_bag" / "husky.bag"
LOG = DATA / "px4_ulog" / "sample.ulg"
STEPS = [-0.1, -0.05, 0.0]


def expect_the_same(store: Any, loader: rc.Loader, episodes: Any = None) -> rc.Replay:
    found = rc.replay_store(store, loader.spec(), episodes=episodes)
    assert {name: s.differing_bits for name, s in found.streams.items() if s.differing_bits} == {}
    assert all(stream.given_up == stream.short_windows == 0 for stream in found.streams.values())
    return found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("replay") / "store")


# ---- generated -----------------------------------------------------------------------------------


def test_streams_of_every_kind(store: rc.EpisodeStore) -> None:
    loader = keyed_loader(
        store, 4,
        {
            "joints": [-0.02, -0.01, 0.0], "pose": [-0.02, -0.01, 0.0], "force": [-0.01, 0.0],
            "camera": None, "gripper": [-0.1, 0.0], "counter": [0.0], "state": [-0.04, 0.0],
            "step": None, "action": [0.0, 0.02],
        },
        anchor="action",
        method={"force": "mean", "counter": "nearest"},
        mean_window_s={"force": 0.01},
        latency_s={"joints": 0.003, "pose": 0.011},
        max_gap_s={"joints": 0.03, "camera": 0.05},
        outside={"pose": "nan", "force": "zero"},
        normalize={"joints": "mean_std", "action": "min_max", "state": "quantiles"},
        dtype={"force": torch.bfloat16, "joints": torch.float16, "pose": torch.float16},
        channels_first={"camera": True},
        concat={"obs": ["pose", "joints"]},
        device="cpu",
    )  # fmt: skip
    found = expect_the_same(store, loader)
    assert found.anchors == len(loader.dataset) and found.episodes == 5
    assert "action" not in found.streams and len(found.streams) == 8
    assert found.streams["joints"].latency_ms == Quantiles(3.0, 3.0)
    assert found.streams["camera"].latency_ms.p99 > 40
    assert 0 < found.streams["joints"].padded < found.streams["joints"].steps


def test_anchors_at_a_rate_and_some_episodes(store: rc.EpisodeStore) -> None:
    loader = keyed_loader(
        store, 4, {"joints": [-0.05, 0.0], "force": [-0.01, 0.0], "camera": [-0.1, 0.0]},
        anchor=37, method={"joints": "angle"}, latency_s=0.004, device="cpu",
    )  # fmt: skip
    found = expect_the_same(store, loader, episodes=[1, 3])
    assert found.episodes == 2


def test_streams_relative_to_another(store: rc.EpisodeStore) -> None:
    loader = keyed_loader(
        store, 4,
        {"joints": [-0.02, -0.01, 0.0], "force": [-0.01, 0.0], "state": [-0.04, 0.0],
         "pose": [0.0], "action": [0.0, 0.02]},
        anchor="action",
        method={"joints": [("linear", 5), ("angle", 2)], "pose": "nearest"},
        latency_s={"joints": 0.003, "force": 0.005},
        relative_to={
            "joints": rc.Relative("force", channels=[0, 1, 2, None, None, 1, 0]),
            "pose": rc.Relative("state", mask=[True, True, True, False]),
            "action": rc.Relative("state", channels=[0, 1, 2, None, None]),
        },
        normalize={"joints": "mean_std"},
        statistics={"joints": rc.Normalization(np.full(7, 0.1), np.full(7, 3.0))},
        dtype={"pose": torch.float64},
        device="cpu",
    )  # fmt: skip
    found = expect_the_same(store, loader)
    assert set(found.streams) == {"joints", "force", "state", "pose"}


def test_references_that_reach_ahead(store: rc.EpisodeStore) -> None:
    """Their value at the anchor is pushed and compared, and what is relative to it."""
    loader = keyed_loader(
        store, 4,
        {"joints": [-0.01, 0.0], "force": [0.0, 0.02], "state": [0.0, 0.02], "pose": [0.0],
         "action": [0.0, 0.02]},
        anchor="action",
        method={"pose": "nearest", "force": "mean"},
        mean_window_s={"force": 0.004},
        latency_s={"joints": 0.003, "force": 0.005},
        relative_to={
            "joints": rc.Relative("force", channels=[0, 1, 2, None, None, 1, 0]),
            "pose": rc.Relative("state", mask=[True, True, True, False]),
        },
        device="cpu",
    )  # fmt: skip
    found = expect_the_same(store, loader)
    assert set(found.streams) == {"joints", "force", "state", "pose"}
    assert found.streams["force"].steps == found.anchors


def test_bfloat16_rows_that_arrive_out_of_order(tmp_path: Path) -> None:
    """Windows by rows do not depend on arrivals; one stream has late ones."""
    times = np.arange(100) * 10_000_000
    late = np.random.default_rng(0).integers(0, 40_000_000, 100)
    with rc.StoreWriter(tmp_path / "s") as writer:
        writer.declare("counted", rate=100, timeline="rows")
        with writer.episode() as episode:
            rows = torch.randn(100, 3, generator=torch.Generator().manual_seed(0)).bfloat16()
            episode.add("half", times, rows, received=np.maximum.accumulate(times + late))
            episode.add("counted", times, rows.float(), received=times + late)
    loader = rc.Loader(
        tmp_path / "s", 2, {"half": [-0.02, 0.0], "counted": [-0.01, 0.0]}, device="cpu"
    )
    expect_the_same(tmp_path / "s", loader)


def test_what_is_not_covered_is_named(tmp_path: Path, capsys: Any) -> None:
    """Arrivals of rows that windows count."""
    times = np.arange(50) * 20_000_000
    with rc.StoreWriter(tmp_path / "s") as writer:
        for name in ("camera", "joints"):
            writer.declare(name, rate=50, timeline="rows")
        with writer.episode() as episode:
            rows = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
            episode.add("camera", times, rows, received=times + 60_000_000)
            episode.add("joints", times, rows)
    loader = rc.Loader(tmp_path / "s", 2, {"camera": [-0.02, 0.0], "joints": None}, device="cpu")
    found = expect_the_same(tmp_path / "s", loader)
    assert not found.streams["camera"].by_arrival
    assert found.streams["camera"].latency_ms == Quantiles(60.0, 60.0)
    print_replay(tmp_path / "s", found)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "by rows, and so pushed at their times, not when they arrived: camera"


def test_anchors_far_apart(tmp_path: Path) -> None:
    """More rows arrive between two anchors than a ring has room for: it keeps the newest."""
    store = write_humanoid(tmp_path / "s")
    loader = keyed_loader(store, 4, {"qpos": [-0.1, 0.0]}, anchor=1.5, device="cpu")
    expect_the_same(store, loader)


def write_noise(folder: Path) -> Path:
    """Ten seconds of joints at 1 kHz and of actions at 50 Hz."""
    with rc.StoreWriter(folder) as writer, writer.episode() as episode:
        values = np.random.default_rng(0).normal(size=(10_000, 1)).astype(np.float32)
        episode.add("joints", np.arange(10_000) * 1_000_000, values)
        episode.add("action", np.arange(500) * 20_000_000, values[:500])
    return folder


def test_a_policy_that_asks_rarely(tmp_path: Path, capsys: Any) -> None:
    """The replay queries where the policy does; what its rings lose then is reported."""
    store = write_noise(tmp_path / "s")

    def replay(offsets: list[float], query_every_s: float | None) -> rc.Replay:
        loader = rc.Loader(store, 4, {"joints": offsets}, anchor="action", device="cpu")
        return rc.replay_store(store, loader.spec(), query_every_s=query_every_s)

    every = replay([-0.02, 0.0], None)
    assert (every.anchors, every.streams["joints"].overwritten) == (500, 0)
    once = replay([-0.02, 0.0], 1)
    assert (once.anchors, once.differing_bits) == (10, 0)
    joints = once.streams["joints"]
    assert joints.age_ms == Quantiles(0.0, 0.0)
    assert joints.overwritten > 5000 and joints.short_windows == 0
    assert replay([-3.0, 0.0], 2.5).differing_bits == 0

    # A robot that asks more rarely than its aligner was told.
    loader = rc.Loader(store, 4, {"joints": [-2.0, 0.0]}, anchor=0.4, device="cpu")
    rare = rc.replay_store(store, loader.spec())
    assert rare.anchors == 4 and rare.differing_bits > 0
    assert rare.streams["joints"].short_windows == 3
    print_replay(store, rare)
    note = capsys.readouterr().out.splitlines()[-1]
    assert note.startswith("windows that reach back to rows that were overwritten or dropped: jo")
    with pytest.raises(ValueError, match=r"^query_every_s: expected 0 to 2\^33 s, got -1$"):
        replay([0.0], -1)


def test_streams_that_begin_long_before_the_anchors(tmp_path: Path) -> None:
    """No query empties the rings on the way to the first anchor."""
    with rc.StoreWriter(tmp_path / "s") as writer, writer.episode() as episode:
        times = 6_000_000_000 + np.arange(60) * 50_000_000
        episode.add("anchor", times, np.arange(60, dtype=np.float32)[:, None])
        rng = np.random.default_rng(0)
        for i, name in enumerate(("arm", "hand", "burst")):
            times = np.arange(90) * 100_000_000 + i * 7_000_000
            values = rng.normal(size=(90, 2)).astype(np.float32)
            # More rows of the last stream arrive at once than its ring has room for.
            received = np.maximum(times, 2_000_000_000) if name == "burst" else None
            episode.add(name, times, values, received=received)
    offsets = [-0.2, -0.1, 0.0]
    keys = ("anchor", "arm", "hand", "burst")
    loader = rc.Loader(tmp_path / "s", 2, dict.fromkeys(keys, offsets), device="cpu")
    expect_the_same(tmp_path / "s", loader)


# ---- of others, and the demo's -------------------------------------------------------------------


def convert(source: Path, folder: Path, library: str) -> rc.EpisodeStore:
    pytest.importorskip(library, reason=f"{source.name} needs {library}")
    rc.convert(source, folder, images=False, workers=1)
    return rc.EpisodeStore(folder)


@needs(BAG)
def test_a_ros_bag(tmp_path: Path) -> None:
    """Stamps and arrivals differ by 21 to 36 ms; IMU at 30 Hz, odometry at 10, GPS at 2.5."""
    store = convert(BAG, tmp_path / "s", "rosbags")
    streams = {
        "/imu/data/orientation": STEPS,
        "/imu/data/angular_velocity": STEPS,
        "/husky_velocity_controller/odom/twist/linear": STEPS,
        "/fix": [-0.5, 0.0],
    }
    found = expect_the_same(
        store,
        keyed_loader(
            store, 4, streams, anchor=4,
            latency_s={"/fix": 0.2}, max_gap_s={"/fix": 1.0}, device="cpu",
        ),
    )  # fmt: skip
    assert found.anchors > 1500
    assert found.streams["/fix"].latency_ms.p50 >= 200
    assert found.streams["/imu/data/orientation"].latency_ms.p50 > 15


@needs(LOG)
def test_a_px4_log(tmp_path: Path) -> None:
    """Rates of 1 to 250 Hz, and four dropouts."""
    store = convert(LOG, tmp_path / "s", "pyulog")
    counts = {name: info.rows for name, info in store.streams.items()}
    fast = sorted(counts, key=lambda name: counts[name])[-6:]
    slow = [name for name, count in counts.items() if 60 < count < 800][:3]
    steps = {key: [-0.02, -0.01, 0.0] for key in [*fast, *slow]}
    found = expect_the_same(
        store,
        keyed_loader(store, 4, steps, anchor=20, latency_s={fast[0]: 0.007}, device="cpu"),
    )
    assert found.anchors > 1000


def test_the_demo(tmp_path: Path) -> None:
    store = rc.EpisodeStore(write_demo(make_recording(np.random.default_rng(0)), tmp_path / "s"))
    steps = {name: [-0.04, -0.02, 0.0] for name in store.streams}
    loader = keyed_loader(
        store, 4, steps, anchor=50, method={"force": "mean"}, mean_window_s={"force": 0.02},
        latency_s={"vision": 0.03}, normalize=dict.fromkeys(steps, "mean_std"), device="cpu",
    )  # fmt: skip
    expect_the_same(store, loader)


# ---- what differs is found -----------------------------------------------------------------------


def plant(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    push = live.LiveAligner.push_many

    def changed(self: Any, stream: str, times: Any, values: Any, *rest: Any, **more: Any) -> int:
        times, values = change(stream, times.copy(), np.array(values))
        return push(self, stream, times, values, *rest, **more)

    monkeypatch.setattr(live.LiveAligner, "push_many", changed)


def test_one_bit_is_found(store: rc.EpisodeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    target = store[1]["joints"]
    time = int(target.times[20])

    def flip(stream: str, times: Any, values: Any) -> Any:
        if stream == "joints" and time in times:
            values[list(times).index(time)].view(np.uint32)[3] ^= 1
        return times, values

    plant(monkeypatch, flip)
    loader = keyed_loader(
        store, 4, {"joints": None, "force": [0.0]}, method={"joints": "previous"}, device="cpu"
    )
    found = rc.replay_store(store, loader.spec())
    assert found.streams["joints"].differing_bits == 1  # the anchor at this row
    assert found.streams["force"].differing_bits == 0
    assert found.differing_bits == 1


def test_rows_out_of_their_time_are_found(
    store: rc.EpisodeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, lambda stream, times, values: (times + (stream == "force"), values))
    loader = rc.Loader(store, 4, {"joints": [0.0], "force": [-0.01, 0.0]}, device="cpu")
    found = rc.replay_store(store, loader.spec())
    assert found.streams["joints"].differing_bits == 0
    assert found.streams["force"].differing_bits > 0


# ---- the command ---------------------------------------------------------------------------------


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["robocache", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_the_command(
    store: rc.EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    spec = tmp_path / "policy_spec.json"
    rc.Loader(store, 4, {"joints": [-0.02, 0.0], "force": None}, device="cpu").spec().save(spec)
    assert call(monkeypatch, "replay", store.path, "--spec", spec) == 0
    printed = capsys.readouterr().out
    assert "stream  windows  differing bits" in printed
    assert "5 episodes, 361 anchors, 0 differing bits; a query takes" in printed

    assert call(monkeypatch, "replay", store.path, "--spec", spec, "--query-every", 0.5) == 0
    printed = capsys.readouterr().out
    assert "5 episodes, 5 anchors" in printed or "anchors, 0 differing bits" in printed

    arguments = ("replay", store.path, "--spec", spec, "--episodes", 2, "--json")
    assert call(monkeypatch, *arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["differing_bits"] == 0 and found["episodes"] == 2
    assert found["streams"]["joints"]["windows"] == found["anchors"]

    plant(monkeypatch, lambda stream, times, values: (times, values + 1))
    assert call(monkeypatch, "replay", store.path, "--spec", spec) == 1
    assert "0 differing bits" not in capsys.readouterr().out


def test_stores_that_do_not_fit(
    store: rc.EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    spec = tmp_path / "policy_spec.json"
    rc.Loader(store, 4, {"joints": [0.0]}, device="cpu").spec().save(spec)
    other = write_humanoid(tmp_path / "humanoid")
    assert call(monkeypatch, "replay", other.path, "--spec", spec) == 2
    expected = (
        f"robocache: spec: streams[0].name: expected a stream of {other.path} (qpos, action, "
        "counter, camera, gripper), got 'joints'\n"
    )
    assert capsys.readouterr().err == expected
    spec.write_text(spec.read_text().replace('"shape": [\n    7\n   ]', '"shape": []'))
    assert call(monkeypatch, "replay", store.path, "--spec", spec) == 2
    assert "spec: streams[0]: expected joints of F32 [7], as " in capsys.readouterr().err
    ahead = rc.Loader(store, 4, {"action": [0.0, 0.02]}, device="cpu").spec()
    with pytest.raises(ValueError, match=r"^spec: expected a stream without steps past the anchor"):
        rc.replay_store(store, ahead)
    assert call(monkeypatch, "replay", tmp_path / "none", "--spec", spec) == 2
    capsys.readouterr()
    for path, got in ((tmp_path / "missing.json", "no such file"), (tmp_path, "a folder")):
        assert call(monkeypatch, "replay", store.path, "--spec", path) == 2
        assert capsys.readouterr().err == (
            f"robocache: {path}: expected a policy spec, as loader.spec().save(...) writes it, "
            f"got {got}\n"
        )
