"""Real bags of ROS 1, compared row by row with what rosbags alone reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from message_files import read
from recordings import DATA, needs

HUSKY = DATA / "husky_bag" / "husky.bag"
TILT = DATA / "plotjuggler_bag" / "tilt_laser.bag"
COVARIANCES = "topics names those to read"


def directly(path: Path) -> dict[str, list[tuple[int, Any]]]:
    """Topic: when each message was received, and the message, by rosbags alone."""
    rosbag1 = pytest.importorskip("rosbags.rosbag1", reason="bags need rosbags")
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    found: dict[str, list[tuple[int, Any]]] = {}
    with rosbag1.Reader(path) as reader:
        types = get_typestore(Stores.EMPTY)
        for connection in reader.connections:
            types.register(get_types_from_msg(connection.msgdef.data, connection.msgtype))
        for connection, received, raw in reader.messages():
            message = types.deserialize_ros1(raw, connection.msgtype)
            found.setdefault(connection.topic, []).append((received, message))
    return found


def xyz(vector: Any) -> list[float]:
    return [vector.x, vector.y, vector.z]


def xyzw(quaternion: Any) -> list[float]:
    return [quaternion.x, quaternion.y, quaternion.z, quaternion.w]


def stamp(message: Any) -> int:
    return int(message.header.stamp.sec) * 10**9 + int(message.header.stamp.nanosec)


def compare(rows: Any, messages: list[tuple[int, Any]], numbers: Any) -> None:
    """A stream against `numbers` of each message, in order of its stamps."""
    order = np.argsort([stamp(message) for _, message in messages], kind="stable")
    ordered = [messages[i] for i in order]
    np.testing.assert_array_equal(rows.times, [stamp(message) for _, message in ordered])
    np.testing.assert_array_equal(rows.received, [received for received, _ in ordered])
    np.testing.assert_array_equal(rows.values, [numbers(message) for _, message in ordered])


@needs(HUSKY)
def test_husky() -> None:
    streams, recording = read(HUSKY)
    bag = directly(HUSKY)
    odometry = "/husky_velocity_controller/odom"
    expected: dict[str, tuple[str, Any]] = {
        "/imu/data/orientation": ("/imu/data", lambda m: xyzw(m.orientation)),
        "/imu/data/angular_velocity": ("/imu/data", lambda m: xyz(m.angular_velocity)),
        "/imu/data/linear_acceleration": ("/imu/data", lambda m: xyz(m.linear_acceleration)),
        f"{odometry}/pose/position": (odometry, lambda m: xyz(m.pose.pose.position)),
        f"{odometry}/pose/orientation": (odometry, lambda m: xyzw(m.pose.pose.orientation)),
        f"{odometry}/twist/linear": (odometry, lambda m: xyz(m.twist.twist.linear)),
        f"{odometry}/twist/angular": (odometry, lambda m: xyz(m.twist.twist.angular)),
        "/fix": ("/fix", lambda m: [m.latitude, m.longitude, m.altitude]),
        "/fix/discrete": ("/fix", lambda m: [m.position_covariance_type]),
        "/fix/status": ("/fix", lambda m: [m.status.status, m.status.service]),
    }
    assert set(streams) == set(expected) == set(recording.streams)
    for name, (topic, numbers) in expected.items():
        compare(streams[name], bag[topic], numbers)
    metadata = recording.streams["/imu/data/orientation"]
    assert (metadata.method, metadata.channels) == ("slerp_xyzw", ("x", "y", "z", "w"))
    assert (
        metadata.source == "topic /imu/data (sensor_msgs/msg/Imu)" and metadata.timeline == "time"
    )
    assert recording.streams["/imu/data/linear_acceleration"].units == "m/s^2"
    assert recording.streams["/fix/status"].method == "previous"
    assert recording.format == "ROS 1 bag"
    assert recording.notes == {
        f"covariances of /fix, left out ({COVARIANCES})": 1,
        f"covariances of {odometry}, left out ({COVARIANCES})": 2,
        f"covariances of /imu/data, left out ({COVARIANCES})": 3,
        f"fields of {odometry} that are not numbers, left out": 1,
    }


@needs(HUSKY)
def test_husky_by_time_of_receipt() -> None:
    streams, _ = read(HUSKY, stamp="received", topics=("/fix",))
    bag = directly(HUSKY)["/fix"]
    assert set(streams) == {"/fix", "/fix/discrete", "/fix/status"}
    np.testing.assert_array_equal(streams["/fix"].times, [received for received, _ in bag])
    assert streams["/fix"].received is None
    np.testing.assert_array_equal(streams["/fix"].values[:, 0], [m.latitude for _, m in bag])


@needs(TILT)
def test_tilt_laser() -> None:
    """Bursts, repeated stamps, transforms, scans, a type of the vendor's own."""
    streams, recording = read(TILT)
    bag = directly(TILT)
    expected: dict[str, tuple[str, Any]] = {
        "/gravity_vector/vector": ("/gravity_vector", lambda m: xyz(m.vector)),
        "/magnetic_vector/vector": ("/magnetic_vector", lambda m: xyz(m.vector)),
        "/imu_data/orientation": ("/imu_data", lambda m: xyzw(m.orientation)),
        "/imu_data/angular_velocity": ("/imu_data", lambda m: xyz(m.angular_velocity)),
        "/imu_data/linear_acceleration": ("/imu_data", lambda m: xyz(m.linear_acceleration)),
        "/info_gps": ("/info_gps", lambda m: [m.m_nb_sat, m.satellites_locked, m.valid_data]),
        "/position_gps": ("/position_gps", lambda m: [m.latitude, m.longitude, m.altitude]),
        "/temperature": ("/temperature", lambda m: [m.reading, m.min_reading, m.max_reading]),
        "/velocity/twist/linear": ("/velocity", lambda m: xyz(m.twist.linear)),
        "/velocity/twist/angular": ("/velocity", lambda m: xyz(m.twist.angular)),
        "/scan/ranges": ("/scan", lambda m: m.ranges),
    }
    for name, (topic, numbers) in expected.items():
        compare(streams[name], bag[topic], numbers)
    transforms = [(r, t) for r, message in bag["/tf"] for t in message.transforms]
    for parent, child in (
        ("tilt_axis", "camera"),
        ("tilt_base", "tilt_axis"),
        ("tilt_axis", "laser"),
    ):
        pair = [
            (received, t)
            for received, t in transforms
            if (t.header.frame_id.strip("/"), t.child_frame_id.strip("/")) == (parent, child)
        ]
        name = f"/tf/{parent}/{child}"
        compare(streams[f"{name}/translation"], pair, lambda t: xyz(t.transform.translation))
        compare(streams[f"{name}/rotation"], pair, lambda t: xyzw(t.transform.rotation))
        assert recording.streams[f"{name}/rotation"].method == "slerp_xyzw"
    gps = [[[s.__dict__ for s in m.gps]] for _, m in bag["/info_gps"]]
    assert streams["/info_gps/gps"].values.shape == (356, 16, 4) and len(gps) == 356
    np.testing.assert_array_equal(
        streams["/info_gps/gps"].values[5],
        [[v for v in vars(s).values() if isinstance(v, int)] for s in bag["/info_gps"][5][1].gps],
    )
    assert "/scan/intensities" not in recording.streams
    notes = recording.notes
    assert notes["messages of /velocity that repeat the time of the one before"] == 356
    assert notes["messages of /temperature that repeat the time of the one before"] == 356
    bursts = [text for text in notes if "received in bursts" in text]
    assert any("/imu_data" in text and "49.93 ms apart" in text for text in bursts)
    assert notes["streams that are empty in every message: /scan/intensities"] == 1
