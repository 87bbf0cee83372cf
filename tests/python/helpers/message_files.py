"""Writes recordings of messages for tests: bags by rosbags' writers, MCAP by the mcap library."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recordings import collect, message_of

from robocache.readers import ReadOptions, Recording, Rows, open_recording

START = 1_700_000_000_000_000_000
MS = 1_000_000

Entry = tuple[str, str, int, Any]
"""Topic, type, when it was received (ns), message."""


class Messages:
    """Makes messages of ROS 1 or ROS 2."""

    def __init__(self, version: int, definitions: dict[str, str] | None = None) -> None:
        typesys = pytest.importorskip("rosbags.typesys", reason="bags need rosbags")
        stores = typesys.Stores
        self.version = version
        self.store: Any = typesys.get_typestore(
            stores.ROS1_NOETIC if version == 1 else stores.ROS2_JAZZY
        )
        for name, text in (definitions or {}).items():
            self.store.register(typesys.get_types_from_msg(text, name))

    def make(self, kind: str, **fields: Any) -> Any:
        return self.store.types[kind](**fields)

    def header(self, stamp: int, frame: str = "base") -> Any:
        seq = {"seq": 0} if self.version == 1 else {}
        time = self.make("builtin_interfaces/msg/Time", sec=stamp // 10**9, nanosec=stamp % 10**9)
        return self.make("std_msgs/msg/Header", **seq, stamp=time, frame_id=frame)

    def vector(self, *xyz: float) -> Any:
        x, y, z = xyz
        return self.make("geometry_msgs/msg/Vector3", x=x, y=y, z=z)

    def quaternion(self, *xyzw: float) -> Any:
        x, y, z, w = xyzw
        return self.make("geometry_msgs/msg/Quaternion", x=x, y=y, z=z, w=w)

    def transform(self, stamp: int, parent: str, child: str) -> tuple[str, int, Any]:
        """Type, time of receipt and message of a /tf that has one transform."""
        kind = "tf2_msgs/msg/TFMessage"
        if kind not in self.store.types:  # those of ROS 1 are without it
            typesys = pytest.importorskip("rosbags.typesys")
            text = "geometry_msgs/TransformStamped[] transforms\n"
            self.store.register(typesys.get_types_from_msg(text, kind))
        placed = self.make(
            "geometry_msgs/msg/TransformStamped",
            header=self.header(stamp, parent),
            child_frame_id=child,
            transform=self.make(
                "geometry_msgs/msg/Transform",
                translation=self.vector(1, 2, 3),
                rotation=self.quaternion(0, 0, 0, 1),
            ),
        )
        return kind, stamp, self.make(kind, transforms=[placed])

    def imu(self, stamp: int, seed: int) -> Any:
        q, w, a = imu_numbers(seed)
        return self.make(
            "sensor_msgs/msg/Imu",
            header=self.header(stamp),
            orientation=self.quaternion(*q),
            angular_velocity=self.vector(*w),
            linear_acceleration=self.vector(*a),
            orientation_covariance=np.arange(9.0),
            angular_velocity_covariance=np.zeros(9),
            linear_acceleration_covariance=np.zeros(9),
        )

    def joints(self, stamp: int, names: list[str], **numbers: list[float]) -> Any:
        arrays = {
            field: np.array(numbers.get(field, ()), np.float64)
            for field in ("position", "velocity", "effort")
        }
        return self.make(
            "sensor_msgs/msg/JointState", header=self.header(stamp), name=names, **arrays
        )

    def twist(self, x: float) -> Any:
        return self.make(
            "geometry_msgs/msg/Twist", linear=self.vector(x, 0, 0), angular=self.vector(0, 0, -x)
        )

    def scan(self, stamp: int, ranges: Any) -> Any:
        scalars = ("angle_min", "angle_max", "angle_increment", "time_increment", "scan_time")
        return self.make(
            "sensor_msgs/msg/LaserScan",
            header=self.header(stamp),
            **dict.fromkeys((*scalars, "range_min", "range_max"), 0.0),
            ranges=np.asarray(ranges, np.float32),
            intensities=np.empty(0, np.float32),
        )

    def image(
        self, stamp: int, encoding: str, shape: tuple[int, int], data: bytes, **more: Any
    ) -> Any:
        height, width = shape
        fields = {"step": len(data) // max(1, height), "is_bigendian": 0, **more}
        return self.make(
            "sensor_msgs/msg/Image",
            header=self.header(stamp),
            height=height,
            width=width,
            encoding=encoding,
            data=np.frombuffer(data, np.uint8),
            **fields,
        )

    def compressed(self, stamp: int, data: bytes, kind: str = "jpeg") -> Any:
        return self.make(
            "sensor_msgs/msg/CompressedImage",
            header=self.header(stamp),
            format=kind,
            data=np.frombuffer(data, np.uint8),
        )


def imu_numbers(seed: int) -> tuple[Any, Any, Any]:
    """The quaternion, angular velocity and acceleration of `Messages.imu`."""
    numbers = np.random.default_rng(seed).normal(size=10)
    return numbers[:4] / np.linalg.norm(numbers[:4]), numbers[4:7], numbers[7:]


def write(
    folder: Path,
    storage: str,
    messages: Messages,
    entries: Iterable[Entry],
    compression: str | None = None,
) -> Path:
    """A bag of entries.

    `storage` is ``bag`` (ROS 1), ``db3`` or ``mcap`` (ROS 2 folders); `compression`, of ROS 2,
    ``MESSAGE`` or ``FILE``.
    """
    folder.mkdir(exist_ok=True)
    path = folder / f"recording.{storage}" if storage == "bag" else folder / f"recording_{storage}"
    if storage == "bag":
        module = pytest.importorskip("rosbags.rosbag1", reason="bags need rosbags")
        writer, serialize = module.Writer(path), messages.store.serialize_ros1
    else:
        module = pytest.importorskip("rosbags.rosbag2", reason="bags need rosbags")
        plugin = {"db3": "SQLITE3", "mcap": "MCAP"}[storage]
        writer = module.Writer(path, version=9, storage_plugin=module.StoragePlugin[plugin])
        serialize = messages.store.serialize_cdr
        if compression:
            writer.set_compression(
                module.CompressionMode[compression], module.CompressionFormat.ZSTD
            )
    with writer:
        connections: dict[tuple[str, str], Any] = {}
        for topic, kind, received, message in entries:
            if (topic, kind) not in connections:
                connections[topic, kind] = writer.add_connection(
                    topic, kind, typestore=messages.store
                )
            if message is not None:
                writer.write(connections[topic, kind], received, serialize(message, kind))
    return path


# ---- reading -------------------------------------------------------------------------------------


def read(path: Path, **options: Any) -> tuple[dict[str, Rows], Recording]:
    """The streams of a recording of messages, which is one episode, and the recording, closed."""
    with open_recording(path, ReadOptions(**options)) as recording:
        (episode,) = recording.episodes()
        assert (episode.key, episode.task, episode.subsets) == ("0", None, ())
        streams = collect(episode)
    assert set(streams) == set(recording.streams)
    return streams, recording


def error_of(path: Path, **options: Any) -> str:
    """The message of the error that reading a recording raises."""
    return message_of(path, ReadOptions(**options))


def messages_for(storage: str, **definitions: str) -> Messages:
    return Messages(1 if storage == "bag" else 2, definitions)


def imus(robot: Messages, stamps: list[int]) -> list[Any]:
    return [
        ("/imu", "sensor_msgs/msg/Imu", START + i * MS, robot.imu(at, i))
        for i, at in enumerate(stamps)
    ]
