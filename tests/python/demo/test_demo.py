"""The demo and the recording that it generates: sensible, repeatable, and drawn to the end."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support import find_backends

import robocache as rc
from robocache.cli import main

STREAMS = ("joints", "force", "vision", "gripper", "hand")
MS = 1_000_000  # ns


@pytest.fixture(scope="module")
def recording() -> Any:
    return importlib.import_module("robocache.demo.recording")


@pytest.fixture(scope="module", params=[(0, 10.0), (1, 10.0), (2, 23.5)], ids=str)
def episode(recording: Any, request: pytest.FixtureRequest) -> Any:
    seed, duration_s = request.param
    return recording.make_recording(np.random.default_rng(seed), duration_s)


def seconds(times: NDArray[np.int64], episode: Any) -> NDArray[np.float64]:
    start_ns: int = episode.start_ns
    return (times - start_ns) / 1e9


@pytest.mark.parametrize("name", STREAMS)
def test_rows_ascend_within_the_recording(episode: Any, name: str) -> None:
    stream = getattr(episode, name)
    assert stream.times.dtype == np.int64
    assert len(stream.times) == len(stream.values)
    assert np.isfinite(stream.values).all()
    assert (np.diff(stream.times) > 0).all()
    t = seconds(stream.times, episode)
    assert 0 <= t[0] < 0.1
    assert episode.duration_s - 0.1 < t[-1] < episode.duration_s + 0.1


@pytest.mark.parametrize(
    ("name", "hz", "channels", "dtype"),
    [
        ("joints", 100, 7, np.float32),
        ("force", 1000, 3, np.float32),
        ("vision", 30, 64, np.float16),
        ("gripper", 20, 1, np.float32),
        ("hand", 60, 4, np.float32),
    ],
)
def test_rates_and_shapes(episode: Any, name: str, hz: int, channels: int, dtype: type) -> None:
    stream = getattr(episode, name)
    missing = {"force": 600, "vision": 2}.get(name, 0)
    assert abs(len(stream.times) + missing - int(episode.duration_s * hz)) <= 1
    assert stream.values.shape[1] == channels
    assert stream.values.dtype == dtype
    gaps_ms = np.diff(stream.times) / MS
    assert np.median(gaps_ms) == pytest.approx(1000 / hz, rel=0.03)
    assert gaps_ms.std() > 0.01, "the clock jitters"


def test_joints_keep_their_limits(recording: Any, episode: Any) -> None:
    angles = episode.joints.values.astype(np.float64)
    assert (np.abs(angles) <= recording.JOINT_LIMITS + 1e-6).all()
    # Nothing moves faster than such an arm can, the wrap of joint 7 aside.
    t = np.arange(0, recording.CYCLE_S, 1e-3)
    speed = np.abs(np.gradient(recording.joint_angles(t), t, axis=0)).max()
    assert 1.0 < speed < 3.0
    assert np.abs(np.diff(angles[:, 6])).max() > 6, "joint 7 wraps"
    assert np.abs(np.diff(angles[:, :6], axis=0)).max() < 0.1


def test_the_arm_rests_at_its_waypoints(recording: Any) -> None:
    rests = recording.joint_angles(np.array([0.0, 0.2, 3.0, 3.3, 7.0, 7.3, 9.9, 10.0]))
    for before, after in rests.reshape(4, 2, 7):
        np.testing.assert_array_equal(before, after)
    fingertips, orientation = recording.hand_pose(rests[[2, 4]])
    assert (np.abs(fingertips[:, 2] - 0.03) < 0.005).all(), "the hand is down at the table"
    down = 1 - 2 * (orientation[:, 0] ** 2 + orientation[:, 1] ** 2)
    np.testing.assert_allclose(down, -1.0, atol=2e-3)


def test_hand_is_a_unit_quaternion_that_changes_sign(recording: Any, episode: Any) -> None:
    q = episode.hand.values.astype(np.float64)
    np.testing.assert_allclose(np.linalg.norm(q, axis=1), 1.0, atol=1e-6)
    steps = np.sum(q[1:] * q[:-1], axis=1)
    assert (steps < 0).any(), "the sign flips"
    assert np.abs(steps).min() > 0.99, "the orientation does not jump"
    _, truth = recording.hand_pose(recording.joint_angles(seconds(episode.hand.times, episode)))
    assert np.abs(np.sum(q * truth, axis=1)).min() > 0.9999


def test_forward_kinematics_against_scipy(recording: Any) -> None:
    rotation = pytest.importorskip("scipy.spatial.transform").Rotation
    angles = np.random.default_rng(0).uniform(-np.pi, np.pi, (50, 7))
    position, orientation = recording.hand_pose(angles)
    want = rotation.from_euler("ZYZ", angles[:, :3])
    want = (
        want * rotation.from_euler("YZY", angles[:, 3:6]) * rotation.from_euler("Z", angles[:, 6:])
    )
    assert np.abs(np.sum(orientation * want.as_quat(), axis=1)).min() > 1 - 1e-12
    longest = 0.36 + 0.42 + 0.40 + 0.23
    assert (np.linalg.norm(position, axis=1) <= longest).all()
    straight, _ = recording.hand_pose(np.zeros((1, 7)))
    np.testing.assert_allclose(straight, [[0.0, 0.0, longest]])


def test_force_has_one_dropout_and_carries_the_block(recording: Any, episode: Any) -> None:
    gaps_ms = np.diff(episode.force.times) / MS
    assert np.sort(gaps_ms)[-2] < 2
    assert gaps_ms.max() == pytest.approx(600, abs=2.5)
    begin, end = episode.dropout_ns
    assert end - begin == pytest.approx(600 * MS, abs=2)
    inside = (episode.force.times >= begin) & (episode.force.times < end)
    assert not inside.any()

    into = np.mod(seconds(episode.force.times, episode), recording.CYCLE_S)
    along = episode.force.values[:, 2].astype(np.float64)  # out of the fingers, downwards
    weight = recording.BLOCK_KG * recording.GRAVITY

    def mean_between(low: float, high: float) -> float:
        return float(along[(into > low) & (into < high)].mean())

    assert mean_between(0.5, 2.5) == pytest.approx(0, abs=0.1)  # empty
    assert mean_between(3.1, 3.35) < -3  # pressed on the table
    assert mean_between(4.3, 4.7) == pytest.approx(weight, abs=0.5)  # carrying
    assert mean_between(7.1, 7.35) < -6
    assert mean_between(8.5, 9.5) == pytest.approx(0, abs=0.1)


def test_vision_loses_two_frames_and_arrives_late(episode: Any) -> None:
    vision = episode.vision
    gaps_ms = np.diff(vision.times) / MS
    lost = gaps_ms > 50
    assert lost.sum() == 2
    assert gaps_ms[lost] == pytest.approx(2000 / 30, abs=4)
    assert (vision.received - vision.times >= 20 * MS).all()
    assert (np.diff(vision.received) >= 0).all()


def test_gripper_steps_between_two_widths(recording: Any, episode: Any) -> None:
    widths = episode.gripper.values[:, 0]
    assert set(widths.tolist()) == {recording.GRIPPER_OPEN_MM, recording.GRIPPER_CLOSED_MM}
    assert widths[0] == recording.GRIPPER_OPEN_MM


def test_the_seed_decides(recording: Any) -> None:
    one, same, other = (recording.make_recording(np.random.default_rng(seed)) for seed in (7, 7, 8))
    for name in STREAMS:
        a, b, c = (getattr(episode, name) for episode in (one, same, other))
        np.testing.assert_array_equal(a.times, b.times)
        np.testing.assert_array_equal(a.values, b.values)
        assert not np.array_equal(a.times, c.times)
    assert one.dropout_ns == same.dropout_ns != other.dropout_ns


def test_too_short_a_recording(recording: Any) -> None:
    with pytest.raises(ValueError, match=r"^duration_s: expected 10 or more, got 2$"):
        recording.make_recording(np.random.default_rng(0), 2.0)


def test_demo_runs_to_the_end(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    folder = tmp_path / "new" / "folder"
    done = subprocess.run(
        [sys.executable, "-m", "robocache", "demo", "--output", str(folder), "--seed", "3"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name in ("alignment.png", "voxels.png", "loop.png"):
        picture = folder / name
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size > 50_000
        assert f"Picture: {picture}" in done.stdout.splitlines()

    first = done.stdout.partition("valid: the share of targets")[0]
    table = {line.split()[0]: line for line in first.splitlines() if line.strip()}
    assert table["joints"].endswith("100.0 %")
    assert table["hand"].endswith("100.0 %")
    assert table["gripper"].endswith("100.0 %")
    assert float(table["force"].split()[-2]) == pytest.approx(94, abs=0.5)  # 0.6 s of 10 missing
    assert 99 < float(table["vision"].split()[-2]) < 100
    assert "best of 200" in done.stdout
    assert "\n0 differing bits between robot and loader\n" in done.stdout
    assert rc.PolicySpec.load(folder / "policy_spec.json").stream("action").relative_to is not None
    camera = rc.EpisodeStore(folder / "takes.store").streams["camera"]
    assert camera.encoding == "jpeg" and camera.encoded is not None
    assert camera.encoded.quality == 95 and (camera.encoded.psnr or 0) > 38
    for backend in find_backends()[0]:
        assert f"robocache, {backend.backend}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--duration", "3"), "--duration: expected 10 to 120, got 3"),
        (("--duration", "nan"), "--duration: expected 10 to 120, got nan"),
        (("--seed", "-1"), "--seed: expected 0 or more, got -1"),
    ],
)
def test_demo_names_a_wrong_argument(
    arguments: tuple[str, str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(
        sys, "argv", ["robocache", "demo", *arguments, "--output", str(tmp_path / "new")]
    )
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_store_gives_the_recording_back(recording: Any, tmp_path: Path) -> None:
    """The bits are equal, so that the demo shows what it showed without a store."""
    storing = importlib.import_module("robocache.demo.stores")
    made = recording.make_recording(np.random.default_rng(0))
    for _ in range(2):  # the second run takes the place of the first
        path = storing.write_store(made, tmp_path)
        read = storing.read_back(made, path)
        for name in STREAMS:
            ours, theirs = getattr(made, name), getattr(read, name)
            assert ours.values.dtype == theirs.values.dtype
            np.testing.assert_array_equal(ours.values, theirs.values)
            np.testing.assert_array_equal(ours.times, theirs.times)
            assert (ours.received is None) == (theirs.received is None)
        np.testing.assert_array_equal(made.vision.received, read.vision.received)
    assert len(rc.EpisodeStore(path)) == 1


@pytest.fixture(scope="module")
def take() -> Any:
    return importlib.import_module("robocache.demo.demonstrations").make_take(
        np.random.default_rng(4)
    )


def test_a_take_has_four_clocks(recording: Any, take: Any) -> None:
    for name, hz, shape, dtype in (
        ("camera", 30, (24, 24, 3), np.uint8),
        ("joints", 500, (7,), np.float32),
        ("force", 1000, (3,), np.float32),
        ("action", 50, (7,), np.float32),
    ):
        stream = getattr(take, name)
        assert (stream.values.shape, stream.values.dtype) == ((4 * hz, *shape), dtype)
        assert (np.diff(stream.times) > 0).all()
        assert np.median(np.diff(stream.times)) == pytest.approx(1e9 / hz, rel=0.03)
        if stream.received is not None:
            assert (stream.received > stream.times).all() and (np.diff(stream.received) >= 0).all()
    # Commands are where the joints are 0.1 s later.
    joints = np.unwrap(take.joints.values.astype(np.float64), axis=0)
    later = take.action.times[:-6] + 100 * MS
    for joint in range(6):
        there = np.interp(later, take.joints.times, joints[:, joint])
        np.testing.assert_allclose(take.action.values[:-6, joint], there, atol=0.01)


def test_the_camera_sees_block_and_hand(take: Any) -> None:
    pictures = take.camera.values.astype(np.float64)
    for channel in (0, 2):
        assert (pictures[..., channel].max((1, 2)) > 150).all()
    assert abs(pictures[..., 1] - 110).max() < 20


def test_a_cut_takes_rows_away(take: Any) -> None:
    begin, end = take.force.times[[1000, 1200]].tolist()
    rest = importlib.import_module("robocache.demo.demonstrations").cut(take.force, begin, end)
    assert len(rest.times) == len(rest.values) == len(rest.received) == 3800
    assert not ((rest.times >= begin) & (rest.times < end)).any()


def test_the_demo_leaves_a_store_of_others_alone(recording: Any, tmp_path: Path) -> None:
    path = tmp_path / "recording.store"
    with rc.StoreWriter(path) as writer, writer.episode(source="mine") as episode:
        episode.add("a", [0], [[1.0]])
    with pytest.raises(ValueError, match="expected the store of an earlier demo, got another one"):
        importlib.import_module("robocache.demo.stores").write_store(
            recording.make_recording(np.random.default_rng(0)), tmp_path
        )
    assert rc.EpisodeStore(path)[0].source == "mine"
