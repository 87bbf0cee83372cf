"""Real recordings fused onto one timeline, checked against NumPy and SciPy, masks included.

A Husky's ROS 1 bag (IMU 30 Hz, odometry 10 Hz, GPS 2.5 Hz) and a PX4 flight log (1 to 250 Hz, with
dropouts), which live outside the project.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation, Slerp
from support import Backend

import robocache as rc

DATA = Path(__file__).parents[3] / ".." / "shared" / "data"
BAG = DATA / "husky_bag" / "husky.bag"
LOG = DATA / "px4_ulog" / "sample.ulg"
MS = 1_000_000

Times = NDArray[np.int64]
Floats = NDArray[np.float64]


def needs(path: Path) -> pytest.MarkDecorator:
    why = f"../shared/data/{path.parent.name}, a real recording, is absent"
    return pytest.mark.skipif(not path.is_file(), reason=why)


# ---- readers -------------------------------------------------------------------------------------


@functools.cache
def read_bag() -> dict[str, tuple[Times, Times, Floats]]:
    """Topic: when its messages were stamped and received, ns, and their numbers [S,D]."""
    rosbag1 = pytest.importorskip("rosbags.rosbag1", reason="ROS bags need rosbags")
    from rosbags.typesys import Stores, get_typestore

    types = get_typestore(Stores.ROS1_NOETIC)
    rows: dict[str, list[tuple[int, int, list[float]]]] = {}
    with rosbag1.Reader(BAG) as reader:
        for connection, received, raw in reader.messages():
            message: Any = types.deserialize_ros1(raw, connection.msgtype)
            stamp = message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec
            if connection.topic == "/imu/data":
                q, a = message.orientation, message.linear_acceleration
                numbers = [q.x, q.y, q.z, q.w, a.x, a.y, a.z]
            elif connection.topic == "/fix":
                numbers = [message.latitude, message.longitude, message.altitude]
            else:
                position, velocity = message.pose.pose.position, message.twist.twist
                numbers = [position.x, position.y, velocity.linear.x, velocity.angular.z]
            rows.setdefault(connection.topic, []).append((stamp, received, numbers))
    read = {}
    for topic, found in rows.items():
        found.sort(key=lambda row: row[0])
        stamps, received_at, values = zip(*found, strict=True)
        read[topic] = (
            np.array(stamps, np.int64), np.array(received_at, np.int64), np.array(values)
        )  # fmt: skip
    return read


@functools.cache
def read_log() -> tuple[dict[str, dict[str, NDArray[Any]]], list[tuple[int, int]]]:
    """Topic: its fields, with `timestamp` in ns; and the dropouts, ns and ns."""
    pyulog = pytest.importorskip("pyulog", reason="PX4 logs need pyulog")
    log = pyulog.ULog(str(LOG))
    topics = {}
    for topic in log.data_list:
        fields = dict(topic.data)
        fields["timestamp"] = fields["timestamp"].astype(np.int64) * 1000
        topics[topic.name] = fields
    dropouts = [(int(d.timestamp) * 1000, int(d.duration) * MS) for d in log.dropouts]
    return topics, dropouts


# ---- the same in NumPy ---------------------------------------------------------------------------


def inside(times: Times, targets: Times) -> NDArray[np.bool_]:
    return (targets >= times[0]) & (targets <= times[-1])


def gaps(times: Times, targets: Times) -> Times:
    """Between the rows around each target; 0 where a row is at it."""
    last = len(times) - 1
    lo = np.clip(np.searchsorted(times, targets, side="right") - 1, 0, last)
    hi = np.minimum(lo + 1, last)
    return np.where(times[lo] == targets, 0, times[hi] - times[lo])


def linear(times: Times, values: Floats, targets: Times) -> Floats:
    t, source = (targets - times[0]).astype(float), (times - times[0]).astype(float)
    return np.stack([np.interp(t, source, column) for column in values.T], -1)


def means(times: Times, values: Floats, targets: Times, window: int) -> Floats:
    """NaN where the window has no row."""
    first = np.searchsorted(times, targets - window // 2, side="left")
    end = np.searchsorted(times, targets + window // 2, side="right")
    nothing = np.full(values.shape[1], np.nan)
    return np.stack(
        [values[a:b].mean(0) if b > a else nothing for a, b in zip(first, end, strict=True)]
    )


def turns(quaternions: Floats, times: Times, targets: Times) -> Rotation:
    start = times[0]
    return Slerp((times - start).astype(float), Rotation.from_quat(quaternions))(
        (targets - start).astype(float)
    )


def same_turns(got: Floats, want: Rotation) -> None:
    dots = np.abs(np.sum(got * want.as_quat(), -1))
    np.testing.assert_allclose(dots, 1, atol=1e-12)


# ---- tests ---------------------------------------------------------------------------------------


@needs(BAG)
def test_husky(backend: Backend) -> None:
    """All three sensors at 20 Hz, by the clock of the computer that received them."""
    bag = read_bag()
    imu, odometry, gps = (bag[t] for t in ("/imu/data", "/husky_velocity_controller/odom", "/fix"))
    assert [len(times) for times, _, _ in (imu, odometry, gps)] == [11865, 3952, 989]
    offsets = [int(np.median(received - stamped)) for stamped, received, _ in (imu, odometry, gps)]
    assert 20 * MS < offsets[0] < 60 * MS, "the IMU is stamped tens of ms before it is received"

    start, end = imu[0][0] - 500 * MS, imu[0][-1] + 500 * MS
    targets = np.arange(start, end, 50 * MS, dtype=np.int64)
    layouts: list[Any] = [[("slerp_xyzw", 4), ("mean", 3)], "linear", "nearest"]
    limits = [100 * MS, 150 * MS, 300 * MS]
    streams = [
        rc.Stream(
            torch.from_numpy(values),
            torch.from_numpy(times),
            method=method,
            max_gap=limit,
            mean_window=100 * MS if limit == limits[0] else None,
            clock_offset=offset,
        )
        for (times, _, values), method, limit, offset in zip(
            (imu, odometry, gps), layouts, limits, offsets, strict=True
        )
    ]
    results = backend.fuse(streams, torch.from_numpy(targets), return_valid=True, return_age=True)
    out, valid, age = (result.cpu().numpy() for result in results)
    assert out.shape == (len(targets), 14) and out.dtype == np.float64

    times = [stamped + offset for (stamped, _, _), offset in zip((imu, odometry, gps), offsets,
                                                                  strict=True)]  # fmt: skip
    within = [inside(t, targets) for t in times]
    distance = [gaps(t, targets) for t in times]
    # IMU
    np.testing.assert_array_equal(valid[:, 0], within[0] & (distance[0] <= limits[0]))
    same_turns(out[within[0], :4], turns(imu[2][:, :4], times[0], targets[within[0]]))
    want = means(times[0], imu[2][:, 4:], targets, 100 * MS)
    has_rows = within[0] & ~np.isnan(want[:, 0])
    assert has_rows.mean() > 0.9
    np.testing.assert_allclose(out[has_rows, 4:7], want[has_rows], rtol=1e-12, atol=1e-12)
    # Odometry
    np.testing.assert_array_equal(valid[:, 1], within[1] & (distance[1] <= limits[1]))
    np.testing.assert_allclose(
        out[:, 7:11], linear(times[1], odometry[2], targets), rtol=1e-9, atol=1e-9
    )
    # GPS: the nearest fix
    after = np.clip(np.searchsorted(times[2], targets), 1, len(times[2]) - 1)
    is_later = times[2][after] - targets < targets - times[2][after - 1]
    nearest = np.where(is_later, after, after - 1)
    away = np.abs(times[2][nearest] - targets)
    np.testing.assert_array_equal(valid[:, 2], within[2] & (away <= limits[2]))
    np.testing.assert_array_equal(out[:, 11:], gps[2][nearest])
    np.testing.assert_array_equal(age[:, 2], targets - times[2][nearest])
    assert 0.9 < valid.all(1).mean() < 1, "most of it is real; not the ends, nor the gaps"


@needs(LOG)
def test_px4(backend: Backend) -> None:
    """250 Hz accelerations, attitude, commands and 10 Hz positions at 50 Hz; dropouts are gaps."""
    topics, dropouts = read_log()
    assert len(dropouts) == 4
    sensors, attitude = topics["sensor_combined"], topics["vehicle_attitude"]
    controls, position = topics["actuator_controls_0"], topics["vehicle_local_position"]

    def columns(fields: dict[str, NDArray[Any]], *names: str) -> NDArray[np.float32]:
        return np.stack([fields[name] for name in names], -1).astype(np.float32)

    acceleration = columns(sensors, *[f"accelerometer_m_s2[{i}]" for i in range(3)])
    quaternions = columns(attitude, *[f"q[{i}]" for i in range(4)])  # w x y z
    commands = columns(controls, *[f"control[{i}]" for i in range(4)])
    positions = columns(position, "x", "y", "z")
    times = [topic["timestamp"] for topic in (sensors, attitude, controls, position)]
    limits = [10 * MS, 40 * MS, 40 * MS, 150 * MS]
    methods = ["mean", "slerp_wxyz", "previous", "linear"]
    targets = np.arange(times[0][0] - 100 * MS, times[0][-1] + 100 * MS, 20 * MS, dtype=np.int64)
    windows = [8 * MS, None, None, None]
    streams = [
        rc.Stream(torch.from_numpy(v), torch.from_numpy(t), method=m, max_gap=g, mean_window=w)
        for v, t, m, g, w in zip(
            (acceleration, quaternions, commands, positions),
            times,
            methods,
            limits,
            windows,
            strict=True,
        )
    ]
    out, valid = (
        result.cpu().numpy()
        for result in backend.fuse(streams, torch.from_numpy(targets), return_valid=True)
    )

    within = [inside(t, targets) for t in times]
    distance = [gaps(t, targets) for t in times]
    want = means(times[0], acceleration.astype(np.float64), targets, 8 * MS)
    has_rows = within[0] & ~np.isnan(want[:, 0])
    np.testing.assert_array_equal(valid[:, 0], within[0] & (has_rows | (distance[0] <= limits[0])))
    np.testing.assert_allclose(out[has_rows, :3], want[has_rows], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(valid[:, 1], within[1] & (distance[1] <= limits[1]))
    turned = turns(quaternions[:, [1, 2, 3, 0]].astype(np.float64), times[1], targets[within[1]])
    dots = np.abs(np.sum(out[within[1]][:, [4, 5, 6, 3]] * turned.as_quat(), -1))
    np.testing.assert_allclose(dots, 1, atol=1e-6)
    row = np.searchsorted(times[2], targets, side="right") - 1
    age = targets - times[2][row]
    np.testing.assert_array_equal(valid[:, 2], within[2] & (age <= limits[2]))
    np.testing.assert_array_equal(out[within[2], 7:11], commands[row[within[2]]])
    np.testing.assert_array_equal(valid[:, 3], within[3] & (distance[3] <= limits[3]))
    np.testing.assert_allclose(
        out[:, 11:], linear(times[3], positions.astype(np.float64), targets), rtol=1e-5, atol=1e-5
    )

    # A dropout of the log (timestamp and length) is a gap of the fastest stream, and all
    # targets deep in it are invalid.
    steps = np.diff(times[0])
    longest = [(at, length) for at, length in dropouts if length > 30 * MS]
    assert longest
    for at, length in longest:
        around = np.abs(times[0][:-1] - at) < 100 * MS
        gap = int(np.argmax(np.where(around, steps, 0)))
        assert steps[gap] > length / 2
        deep = (targets > times[0][gap] + 4 * MS) & (targets < times[0][gap + 1] - 4 * MS)
        assert deep.any() and not valid[deep, 0].any()
    assert 0.97 < valid[within[0], 0].mean() < 1
