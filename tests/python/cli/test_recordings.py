"""`info`, `check`, `convert` and `view` on recordings of others, which live outside the project."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recordings import DATA, needs

import robocache as rc
from robocache.doctor import examine
from robocache.doctor.overview import overview
from robocache.readers import ReadOptions

BAG = DATA / "husky_bag" / "husky.bag"
BURSTS = DATA / "plotjuggler_bag" / "tilt_laser.bag"
LOG = DATA / "px4_ulog" / "sample.ulg"
LEROBOT = DATA / "lerobot_v21_g1"
DEMOS = DATA / "isaaclab_hdf5" / "dataset.hdf5"
PUSHT = DATA / "pusht_zarr" / "pusht.zarr"
BRIDGE = DATA / "rlds_bridge"

LIBRARIES = {BAG: "rosbags", BURSTS: "rosbags", LOG: "pyulog", LEROBOT: "pyarrow", DEMOS: "h5py",
             PUSHT: "zarr"}  # fmt: skip


def library(path: Path) -> None:
    if path in LIBRARIES:
        pytest.importorskip(LIBRARIES[path], reason=f"{path.name} needs {LIBRARIES[path]}")


def kinds(path: Path, **options: Any) -> dict[str, set[str]]:
    """The streams of each kind of finding."""
    library(path)
    found: dict[str, set[str]] = {}
    diagnosis = examine(path, ReadOptions(images=False, **options))
    assert diagnosis.count("error") == 0
    for finding in diagnosis.findings:
        found.setdefault(finding.kind, set()).add(finding.stream or "")
    return found


@needs(BAG)
def test_husky() -> None:
    """Rates as the sensors have them; the IMU's clock drifts against the computer's."""
    library(BAG)
    streams = {stream.name: stream for stream in overview(BAG).streams}
    rates = {name: stream.measured_hz for name, stream in streams.items()}
    assert rates["/imu/data/orientation"] == pytest.approx(30, rel=0.01)
    assert rates["/husky_velocity_controller/odom/twist/linear"] == pytest.approx(10, rel=0.01)
    assert rates["/fix"] == pytest.approx(2.5, rel=0.01)
    assert streams["/imu/data/orientation"].rows == 11865
    assert all(stream.has_received for stream in streams.values())
    found = kinds(BAG)
    assert all(name.startswith("/imu/") for name in found["clock_drift"])
    assert "/imu/data/orientation" in found["sign_flip"]
    assert not {"times_back", "times_repeat", "gap", "dropout", "not_finite", "not_unit"} & set(
        found
    )


@needs(BURSTS)
def test_bursts_are_no_gaps_and_repeats_are_found() -> None:
    """Receive times come in bursts; two topics repeat every stamp."""
    found = kinds(BURSTS)
    assert {name.split("/")[1] for name in found["times_repeat"]} == {"temperature", "velocity"}
    assert "gap" not in found


@needs(LOG)
def test_px4_dropouts() -> None:
    """The logger's dropouts silence several topics at once."""
    found = kinds(LOG)
    assert "dropout" in found and "sensor_combined" in found["gap"]
    library(LOG)
    (dropout,) = [f for f in examine(LOG).findings if f.kind == "dropout"]
    assert dropout.count >= 4, "four that the log names itself"


@needs(PUSHT)
def test_pusht_has_an_angle_that_wraps() -> None:
    assert kinds(PUSHT, rate=10)["angle_wrap"] == {"state"}


@needs(DEMOS)
def test_demonstrations() -> None:
    library(DEMOS)
    found = overview(DEMOS, ReadOptions(rate=20))
    assert (found.episodes, found.format) == (10, "robomimic HDF5")
    assert found.duration_s == pytest.approx((2163 - 10) / 20)  # rows of ten demonstrations
    (still,) = [
        f
        for f in examine(DEMOS, ReadOptions(rate=20, images=False)).findings
        if f.kind == "never_moves"
    ]
    assert "states/articulation/robot/root_pose" in still.streams


@needs(BRIDGE)
def test_a_folder_with_one_recording() -> None:
    found = overview(BRIDGE, ReadOptions(rate=5, images=False))
    assert (found.format, found.episodes) == ("RLDS", 25)


@needs(DATA)
def test_a_folder_with_several(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="expected one recording, got a folder with"):
        overview(DATA)


@needs(LEROBOT)
def test_convert_lerobot_with_video(tmp_path: Path) -> None:
    """Episodes without video are left out where images are asked for, and said so."""
    library(LEROBOT)
    pytest.importorskip("av", reason="video needs av")
    done = subprocess.run(
        [sys.executable, "-m", "robocache", "convert", str(LEROBOT), str(tmp_path / "s"),
         "--resize", "64x48", "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    report = json.loads(done.stdout)
    store = rc.EpisodeStore(tmp_path / "s")
    assert report["episodes"] == len(store) > 0
    images = [name for name, info in store.streams.items() if info.shape == (48, 64, 3)]
    assert len(images) == 1
    with_video = [episode for episode in store if images[0] in episode]
    for episode in with_video:
        np.testing.assert_array_equal(episode[images[0]].times, episode["action"].times)


@needs(BAG)
def test_view(tmp_path: Path) -> None:
    library(BAG)
    pytest.importorskip("matplotlib")
    picture = tmp_path / "husky.png"
    done = subprocess.run(
        [sys.executable, "-m", "robocache", "view", str(BAG), "--output", str(picture)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert picture.stat().st_size > 50_000
