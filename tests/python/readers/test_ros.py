"""Bags of ROS 1 and ROS 2 that the tests write, in every storage."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from message_files import (
    MS,
    START,
    Messages,
    error_of,
    imu_numbers,
    imus,
    messages_for,
    read,
    write,
)

from robocache.readers import find_recordings, reorder_buffer

COVARIANCES = "topics names those to read"


def test_every_storage_gives_what_was_written(tmp_path: Path, storage: str) -> None:
    """Messages of many types, some received in another order than that of their stamps."""
    robot = messages_for(storage)
    entries: list[Any] = []
    for i in range(50):
        # every fifth is stamped 25 ms early, which is before the one that came before
        at = START + i * 10 * MS - (25 * MS if i % 5 == 4 else 0)
        entries.append(("/imu", "sensor_msgs/msg/Imu", START + i * 10 * MS + 7, robot.imu(at, i)))
    for i in range(20):
        at = START + i * 25 * MS
        entries.append(("/cmd_vel", "geometry_msgs/msg/Twist", at, robot.twist(float(i))))
        text = robot.make("std_msgs/msg/String", data="hello")
        entries.append(("/text", "std_msgs/msg/String", at, text))
        flag = robot.make("std_msgs/msg/Bool", data=bool(i % 2))
        entries.append(("/closed", "std_msgs/msg/Bool", at, flag))
    entries.append(("/never", "std_msgs/msg/Bool", START, None))
    entries.sort(key=lambda entry: entry[2])
    path = write(tmp_path, storage, robot, entries)
    assert find_recordings(tmp_path) == [path]

    streams, recording = read(path)
    assert recording.format == ("ROS 1 bag" if storage == "bag" else "ROS 2 bag")
    stamps = [START + i * 10 * MS - (25 * MS if i % 5 == 4 else 0) for i in range(50)]
    order = np.argsort(stamps, kind="stable")
    for k, name in enumerate(("orientation", "angular_velocity", "linear_acceleration")):
        rows = streams[f"/imu/{name}"]
        np.testing.assert_array_equal(rows.times, np.array(stamps)[order])
        np.testing.assert_array_equal(rows.received, START + 7 + order * 10 * MS)
        np.testing.assert_array_equal(rows.values, [imu_numbers(i)[k] for i in order])
    assert (
        recording.notes["messages of /imu earlier than the one before them, sorted by time"] == 10
    )
    twist = streams["/cmd_vel/linear"]
    np.testing.assert_array_equal(twist.times, START + np.arange(20) * 25 * MS)
    np.testing.assert_array_equal(twist.values, [[i, 0, 0] for i in range(20)])
    assert twist.received is None, "a message without a header has one time"
    assert streams["/closed"].values.dtype == np.bool_
    np.testing.assert_array_equal(streams["/closed"].values[:, 0], np.arange(20) % 2 == 1)
    assert not any(name.startswith(("/text", "/never")) for name in streams)
    assert recording.notes["fields of /text that are not numbers, left out"] == 1
    assert set(recording.streams) == set(streams)
    if storage != "mcap":  # which does not store a channel without messages
        assert recording.notes["topics without messages: /never"] == 1


@pytest.mark.parametrize("storage", ["db3", "mcap"])
@pytest.mark.parametrize("mode", ["MESSAGE", "FILE"])
def test_compressed_bags(tmp_path: Path, storage: str, mode: str) -> None:
    if (storage, mode) == ("mcap", "MESSAGE"):
        pytest.skip("rosbags compresses MCAP in chunks, as test_mcap.py has it")
    robot = messages_for(storage)
    path = write(tmp_path, storage, robot, imus(robot, [START, START + MS]), compression=mode)
    streams, _ = read(path)
    np.testing.assert_array_equal(streams["/imu/orientation"].values[1], imu_numbers(1)[0])


def test_topics(tmp_path: Path, storage: str) -> None:
    robot = messages_for(storage)
    entries = [
        (topic, "sensor_msgs/msg/Imu", START + i * MS, robot.imu(START + i * MS, i))
        for i in range(3)
        for topic in ("/imu", "/left/imu")
    ]
    path = write(tmp_path, storage, robot, entries)
    everything = {"orientation", "angular_velocity", "linear_acceleration"}
    streams, recording = read(path, topics=("/left/*",))
    assert set(streams) == {f"/left/imu/{name}" for name in everything}
    assert recording.notes == {f"covariances of /left/imu, left out ({COVARIANCES})": 3}
    streams, _ = read(path, topics=("/imu/orientation", "/left/imu/*_covariance"))
    assert set(streams) == {"/imu/orientation"} | {
        f"/left/imu/{name}_covariance" for name in everything
    }
    np.testing.assert_array_equal(
        streams["/left/imu/orientation_covariance"].values, [np.arange(9.0)] * 3
    )
    with pytest.raises(ValueError, match=r"^topics: expected some of /imu, /left/imu, .*got '/x'$"):
        read(path, topics=("/x",))


def test_streams_that_only_messages_tell_are_chosen_by_name(tmp_path: Path, storage: str) -> None:
    """The streams of transforms and joints are known once their messages are read."""
    robot = messages_for(storage)
    entries = imus(robot, [START, START + MS])
    joints = robot.joints(START, ["a", "b"], position=[1, 2], velocity=[3, 4])
    entries.append(("/joint_states", "sensor_msgs/msg/JointState", START, joints))
    for topic, child in (("/tf", "base"), ("/tf", "arm"), ("/tf_static", "camera")):
        entries.append((topic, *robot.transform(START, "odom", child)))
    path = write(tmp_path, storage, robot, entries)
    tf = [f"/tf/odom/{child}/{part}" for child in ("base", "arm") for part in PARTS]
    static = [f"/tf_static/odom/camera/{part}" for part in PARTS]
    for topics, expected in (
        (("/tf/*",), tf),
        (("/tf",), tf),
        (("/tf*",), tf + static),
        (("/tf/odom/arm",), tf[2:]),
        (("/tf/odom/arm/rotation", "/joint_states/velocity"), [tf[3], "/joint_states/velocity"]),
        (("rotation",), [tf[1], tf[3], static[1]]),
        (("joint_states",), ["/joint_states/position", "/joint_states/velocity"]),
        (("*o*ation",), ["/imu/orientation", *(tf + static)]),
    ):
        streams, recording = read(path, topics=topics)
        assert sorted(streams) == sorted(expected), topics
        assert sorted(recording.streams) == sorted(expected)
    with pytest.raises(ValueError, match=r"^topics: expected some of .*got '/tf/odom/nowhere'$"):
        read(path, topics=("/tf/odom/nowhere", "/imu"))


def test_topics_about_programs_are_left_out(tmp_path: Path, storage: str) -> None:
    """They neither make streams nor move an episode's start, unless they are asked for."""
    robot = messages_for(storage)
    kind = "geometry_msgs/msg/Vector3"
    hidden = ("/parameter_events", "/rosout", "/spawn/_service_event")
    entries = [(topic, kind, START - MS, robot.vector(1, 2, 3)) for topic in hidden]
    path = write(tmp_path, storage, robot, entries + imus(robot, [START, START + MS]))
    streams, recording = read(path)
    assert all(name.startswith("/imu/") for name in streams)
    for topic in hidden:
        assert recording.notes[f"topics left out unless --topic names them: {topic}"] == 1
    streams, recording = read(path, topics=("/rosout", "_service_event"))
    assert set(streams) == {"/rosout", "/spawn/_service_event"}
    assert not recording.notes
    assert set(hidden) < set(read(path, topics=("*",))[0])


PARTS = ("translation", "rotation")


def test_joints(tmp_path: Path, storage: str) -> None:
    """Two nodes share a topic; one changes the order of its joints; some numbers are missing."""
    robot = messages_for(storage)
    kind = "sensor_msgs/msg/JointState"
    arm, hand = ["shoulder", "elbow"], ["finger"]
    messages = [
        robot.joints(START, arm, position=[1, 2], velocity=[0.1, 0.2]),
        robot.joints(START + 1, hand, position=[9]),
        robot.joints(START + 2, arm[::-1], position=[4, 3], velocity=[0.4, 0.3]),
        robot.joints(START + 3, arm, position=[5, 6], effort=[7]),
        robot.joints(START + 4, [], position=[5, 6]),
        robot.joints(START + 5, hand, position=[8]),
    ]
    entries = [("/joint_states", kind, START + i, m) for i, m in enumerate(messages)]
    streams, recording = read(write(tmp_path, storage, robot, entries))
    assert set(streams) == {
        "/joint_states/position", "/joint_states/velocity", "/joint_states/2/position"
    }  # fmt: skip
    np.testing.assert_array_equal(
        streams["/joint_states/position"].values, [[1, 2], [3, 4], [5, 6]]
    )
    np.testing.assert_array_equal(
        streams["/joint_states/velocity"].values, [[0.1, 0.2], [0.3, 0.4]]
    )
    np.testing.assert_array_equal(streams["/joint_states/2/position"].values, [[9], [8]])
    np.testing.assert_array_equal(streams["/joint_states/2/position"].times, [START + 1, START + 5])
    assert recording.streams["/joint_states/position"].channels == ("shoulder", "elbow")
    notes = recording.notes
    assert (
        notes["rows of /joint_states/effort left out, since they are not one number a joint"] == 1
    )
    assert notes["messages of /joint_states without a name for each joint, left out"] == 1


def test_a_list_of_messages(tmp_path: Path, storage: str) -> None:
    """A fixed list is [rows, L, n]; one of any length is left out."""
    kind = "robot_msgs/msg/LowState"
    robot = messages_for(
        storage,
        **{
            kind: "robot_msgs/MotorState[3] motors\nrobot_msgs/MotorState[] others\n"
            "int64 counter\nuint64 tick\nfloat32[4] foot_force\n"
            f"{'=' * 80}\nMSG: robot_msgs/MotorState\n"
            "float32 q\nfloat32 dq\nint8 temperature\n"
        },
    )

    def motor(i: int) -> Any:
        return robot.make("robot_msgs/msg/MotorState", q=i + 0.5, dq=-float(i), temperature=-i)

    entries = []
    for i in range(4):
        force = np.arange(4, dtype=np.float32) + i
        motors = [motor(i + k) for k in range(3)]
        message = robot.make(
            kind, motors=motors, others=motors, counter=-i, tick=2**64 - 1 - i, foot_force=force
        )
        entries.append(("/low_state", kind, START + i, message))
    streams, recording = read(write(tmp_path, storage, robot, entries))
    assert set(streams) == {
        f"/low_state{name}" for name in ("", "/tick", "/motors", "/motors/discrete", "/foot_force")
    }
    np.testing.assert_array_equal(streams["/low_state"].values[:, 0], [0, -1, -2, -3])
    assert streams["/low_state/tick"].values[0, 0] == 2**64 - 1, "no integer type holds both"
    motors = streams["/low_state/motors"].values
    assert motors.shape == (4, 3, 2) and motors.dtype == np.float32
    np.testing.assert_array_equal(motors[3], [[3.5, -3], [4.5, -4], [5.5, -5]])
    np.testing.assert_array_equal(
        streams["/low_state/motors/discrete"].values[1, :, 0], [-1, -2, -3]
    )
    note = "fields of /low_state that are lists of messages of any length, left out"
    assert recording.notes[note] == 1


def test_images(tmp_path: Path, storage: str) -> None:
    robot = messages_for(storage)
    pixels = np.random.default_rng(1).integers(0, 256, (16, 12, 4), dtype=np.uint8)
    depth = np.arange(16 * 12, dtype=np.uint16).reshape(16, 12) * 300
    meters = depth.astype("<f4")
    kind = "sensor_msgs/msg/Image"
    padded = np.zeros((16, 40), np.uint8)
    padded[:, :36] = pixels[:, :, 2::-1].reshape(16, 36)
    made = {
        "/rgb": ("rgb8", pixels[..., :3].tobytes(), {}, pixels[..., :3]),
        "/bgr": ("bgr8", padded.tobytes(), {}, pixels[..., :3]),
        "/bgra": ("bgra8", pixels[..., [2, 1, 0, 3]].tobytes(), {}, pixels[..., :3]),
        "/gray": ("mono8", pixels[..., 0].tobytes(), {}, pixels[..., :1]),
        "/depth": ("16UC1", depth.astype(">u2").tobytes(), {"is_bigendian": 1}, depth[..., None]),
        "/meters": ("32FC1", meters.tobytes(), {}, meters[..., None]),
    }
    entries = [
        (topic, kind, START + i, robot.image(START + i, encoding, (16, 12), data, **more))
        for topic, (encoding, data, more, _) in made.items()
        for i in range(3)
    ]
    bayer = robot.image(START, "bayer_rggb8", (16, 12), pixels[..., 0].tobytes())
    short = robot.image(START, "rgb8", (16, 12), pixels[..., 0].tobytes())
    entries += [("/bayer", kind, START, bayer), ("/short", kind, START, short)]
    path = write(tmp_path, storage, robot, entries)
    streams, recording = read(path)
    assert set(streams) == set(made)
    for topic, (_, _, _, expected) in made.items():
        assert streams[topic].values.dtype == expected.dtype
        np.testing.assert_array_equal(streams[topic].values, [expected] * 3)
        assert recording.streams[topic].method == "previous"
    assert recording.notes["images of /bayer left out: their encoding is 'bayer_rggb8'"] == 1
    (text,) = [text for text in recording.notes if "/short" in text and "images" in text]
    assert text.endswith("192 bytes are not 16 rows of 12 bytes for 12 pixels")

    streams, _ = read(path, resize=(6, 8), fit="stretch", topics=("/rgb", "/depth"))
    assert streams["/rgb"].values.shape == (3, 8, 6, 3)
    assert streams["/depth"].values.shape == (3, 8, 6, 1)


def test_compressed_images(tmp_path: Path, storage: str) -> None:
    image_module = pytest.importorskip("PIL.Image", reason="images need Pillow")
    robot = messages_for(storage)
    pixels = np.random.default_rng(1).integers(0, 256, (5, 20, 24, 3), dtype=np.uint8)
    kind, entries = "sensor_msgs/msg/CompressedImage", []
    encoded: dict[str, list[bytes]] = {"PNG": [], "JPEG": []}
    for i, image in enumerate(pixels):
        for codec, topic in (("PNG", "/png"), ("JPEG", "/jpeg")):
            file = io.BytesIO()
            image_module.fromarray(image).save(file, codec)
            encoded[codec].append(file.getvalue())
            message = robot.compressed(START + i, file.getvalue(), codec.lower())
            entries.append((topic, kind, START + i, message))
    deep = robot.compressed(START, b"...", "16UC1; compressedDepth png")
    entries.append(("/deep", kind, START, deep))
    entries.append(("/imu", "sensor_msgs/msg/Imu", START, robot.imu(START, 0)))
    path = write(tmp_path, storage, robot, entries)
    streams, recording = read(path)
    np.testing.assert_array_equal(streams["/png"].values, pixels)
    np.testing.assert_array_equal(
        streams["/jpeg"].values,
        [np.asarray(image_module.open(io.BytesIO(data))) for data in encoded["JPEG"]],
    )
    np.testing.assert_array_equal(streams["/png"].times, START + np.arange(5))
    assert recording.notes["images of /deep left out: their format is compressedDepth"] == 1

    streams, recording = read(path, images=False)
    assert all(name.startswith("/imu") for name in streams)
    assert recording.notes["streams of images left out (/png)"] == 1

    entries.append(("/png", kind, START + 9, robot.compressed(START + 9, encoded["PNG"][0][:50])))
    broken = write(tmp_path / "broken", storage, robot, entries)
    assert "an image of /png: expected an image (JPEG, PNG, WEBP, " in error_of(broken)


def test_lengths_that_change(tmp_path: Path, storage: str) -> None:
    robot = messages_for(storage)
    kind = "sensor_msgs/msg/LaserScan"
    entries = [
        ("/scan", kind, START + i, robot.scan(START + i, np.arange(10 + (i == 7))))
        for i in range(12)
    ]
    streams, recording = read(write(tmp_path, storage, robot, entries))
    assert set(streams) == {"/scan"} == set(recording.streams)
    assert recording.notes["rows of /scan/ranges left out, since their length changes"] == 12


# ---- times ---------------------------------------------------------------------------------------


def test_stamped_zero_throughout(tmp_path: Path, storage: str) -> None:
    robot = messages_for(storage)
    streams, recording = read(write(tmp_path, storage, robot, imus(robot, [0] * 5)))
    rows = streams["/imu/orientation"]
    np.testing.assert_array_equal(rows.times, START + np.arange(5) * MS)
    assert rows.received is None
    text = "messages of /imu stamped zero, timed by when they were received"
    assert recording.notes[text] == 5


def test_some_stamped_zero(tmp_path: Path, storage: str) -> None:
    """They are no part of a recording that is otherwise stamped with Unix time."""
    robot = messages_for(storage)
    stamps = [START + i * MS - 5 for i in range(6)]
    stamps[0] = stamps[3] = 0
    streams, recording = read(write(tmp_path, storage, robot, imus(robot, stamps)))
    np.testing.assert_array_equal(streams["/imu/orientation"].times, [t for t in stamps if t])
    np.testing.assert_array_equal(
        streams["/imu/angular_velocity"].values, [imu_numbers(i)[1] for i in (1, 2, 4, 5)]
    )
    assert recording.notes["messages of /imu stamped zero, left out"] == 2


def test_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reorder buffer stays small, and sorts rows that are late by no more than it holds."""
    robot = Messages(2)
    jitter = np.random.default_rng(3).integers(-4, 5, 3000)
    stamps = [START + (i * 10 + int(jitter[i]) * 10) * MS for i in range(3000)]
    path = write(tmp_path, "db3", robot, imus(robot, stamps))
    everything, _ = read(path)
    held = 30_000
    monkeypatch.setattr(reorder_buffer, "HELD_BYTES", held)
    largest = 0
    emit = reorder_buffer.StreamBuffer.emit

    def watched(self: Any, keep: int) -> Any:
        nonlocal largest
        for rows in emit(self, keep):
            largest = max(largest, rows.values.nbytes)
            yield rows

    monkeypatch.setattr(reorder_buffer.StreamBuffer, "emit", watched)
    bounded, recording = read(path)
    assert 0 < largest <= held
    for name, rows in everything.items():
        np.testing.assert_array_equal(bounded[name].times, rows.times)
        np.testing.assert_array_equal(bounded[name].values, rows.values)
        np.testing.assert_array_equal(bounded[name].received, rows.received)
    assert not any("too late" in text for text in recording.notes)

    stamps[2500] = START  # later than what is held back
    path = write(tmp_path / "late", "db3", robot, imus(robot, stamps))
    bounded, recording = read(path)
    assert len(bounded["/imu/orientation"].times) == 2999
    text = "rows of /imu/orientation left out, since they came too late to be put in order"
    assert recording.notes[text] == 1
