"""Recordings whose messages are stamped by several clocks come onto one timeline."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from message_files import MS, START, Entry, Messages, read, write

from robocache.doctor import examine
from robocache.readers import Rows
from robocache.readers.clocks import Survey, offset_of

SECOND = 1000 * MS
STORAGES = ["bag", "db3", "mcap"]

Stamping = Callable[[int], int]
"""When a message was received, to its stamp."""


def simulated(received: int) -> int:
    """The stamp of a simulator that began 5 s before the recording; 2 ms before receipt."""
    return received - START + 5 * SECOND - 2 * MS


def wall(received: int) -> int:
    return received - 20 * MS


def robot_of(storage: str) -> Messages:
    """Makes messages; of ROS 1, rosbags does not know tf2_msgs."""
    definitions = {"tf2_msgs/msg/TFMessage": "geometry_msgs/TransformStamped[] transforms\n"}
    return Messages(1, definitions) if storage == "bag" else Messages(2)


def imus(robot: Messages, topic: str, stamp: Stamping, count: int = 100, step: int = 10) -> Any:
    """Messages with a header, received every `step` ms."""
    times = [START + i * step * MS for i in range(count)]
    return [(topic, "sensor_msgs/msg/Imu", t, robot.imu(stamp(t), i)) for i, t in enumerate(times)]


def twists(robot: Messages, topic: str = "/cmd_vel", count: int = 100) -> list[Entry]:
    """Messages without a header, received every 10 ms, 4 ms after the others."""
    kind = "geometry_msgs/msg/Twist"
    return [
        (topic, kind, START + i * 10 * MS + 4 * MS, robot.twist(float(i))) for i in range(count)
    ]


def transform(robot: Messages, stamp: int, child: str, x: float = 0.0) -> Any:
    pose = robot.make(
        "geometry_msgs/msg/Transform",
        translation=robot.vector(x, 0, 0),
        rotation=robot.quaternion(0, 0, 0, 1),
    )
    return robot.make(
        "geometry_msgs/msg/TransformStamped",
        header=robot.header(stamp),
        child_frame_id=child,
        transform=pose,
    )


def transforms(robot: Messages, topic: str, received: int, *made: Any) -> Entry:
    kind = "tf2_msgs/msg/TFMessage"
    return (topic, kind, received, robot.make(kind, transforms=list(made)))


def save(folder: Path, storage: str, robot: Messages, entries: list[Entry]) -> Path:
    return write(folder, storage, robot, sorted(entries, key=lambda entry: entry[2]))


def span(streams: dict[str, Rows]) -> float:
    """Seconds from the earliest row to the latest."""
    times = np.concatenate([rows.times for rows in streams.values()])
    return float(np.ptp(times)) / 1e9


@pytest.mark.parametrize("storage", STORAGES)
def test_a_simulated_clock(tmp_path: Path, storage: str) -> None:
    """Headers are of the simulator, all else of the recorder: receipt moves by the median."""
    robot = robot_of(storage)
    entries = imus(robot, "/imu", simulated) + imus(robot, "/arm", simulated) + twists(robot)
    entries.append(transforms(robot, "/tf_static", START + 30 * MS, transform(robot, 0, "lidar")))
    streams, recording = read(save(tmp_path, storage, robot, entries))
    imu, twist = streams["/imu/orientation"], streams["/cmd_vel/linear"]
    begin = 5 * SECOND - 2 * MS
    np.testing.assert_array_equal(imu.times, begin + np.arange(100) * 10 * MS)
    np.testing.assert_array_equal(imu.received, imu.times)  # the latency is unknown, and taken as 0
    np.testing.assert_array_equal(twist.times, imu.times + 4 * MS)
    np.testing.assert_array_equal(streams["/tf_static/base/lidar/rotation"].times, [begin])
    assert span(streams) == pytest.approx(0.994)
    text = (
        "topics stamped by a simulated or replayed clock, onto which times of receipt are moved by "
        "-1,699,999,995.002 s, within 0 ms (/imu, /arm)"
    )
    assert recording.notes[text] == 2
    assert recording.notes["transforms of /tf_static, held from the recording's start"] == 1


@pytest.mark.parametrize("topic", ["/imu", "/cmd_vel", "/tf_static"])
def test_a_topic_alone(tmp_path: Path, topic: str) -> None:
    robot = robot_of("bag")
    entries = imus(robot, "/imu", simulated) + twists(robot)
    entries.append(transforms(robot, "/tf_static", START + 30 * MS, transform(robot, 0, "lidar")))
    streams, _ = read(save(tmp_path, "bag", robot, entries), topics=(topic,))
    assert len(streams) >= 2
    for rows in streams.values():
        if rows.received is not None:
            np.testing.assert_array_equal(rows.received, rows.times)


@pytest.mark.parametrize("storage", STORAGES)
def test_a_causal_loader_sees_them(tmp_path: Path, storage: str) -> None:
    """Under a simulated clock every row arrives; windows miss none."""
    pytest.importorskip("torch")
    import robocache as rc

    robot = robot_of(storage)
    path = save(tmp_path, storage, robot, imus(robot, "/imu", simulated) + twists(robot))
    rc.convert(path, tmp_path / "store")
    loader = rc.Loader(tmp_path / "store", 100, {"/imu/linear_acceleration": [0.0]}, shuffle=False)
    batch = next(iter(loader))
    assert not batch["/imu/linear_acceleration_is_pad"].any()
    assert (batch["/imu/linear_acceleration"] != 0).all()


def test_latency_is_no_clock(tmp_path: Path) -> None:
    """As of husky, whose stamps are up to 36 ms before receipt: nothing is moved."""
    robot = robot_of("bag")
    late = imus(robot, "/slow", lambda received: received - 3 * SECOND)
    path = save(tmp_path, "bag", robot, imus(robot, "/imu", wall) + late + twists(robot))
    streams, recording = read(path)
    received = START + np.arange(100) * 10 * MS
    for topic, latency in (("/imu", 20 * MS), ("/slow", 3 * SECOND)):
        rows = streams[f"{topic}/orientation"]
        np.testing.assert_array_equal(rows.received, received)
        np.testing.assert_array_equal(rows.times, received - latency)
    assert not any("clock" in note for note in recording.notes)


def test_a_camera_stamps_by_its_own_clock(tmp_path: Path) -> None:
    """Two devices count from their start, at different instants: each has its own offset."""
    robot = robot_of("mcap")
    entries = imus(robot, "/imu", wall) + imus(robot, "/odom", wall) + twists(robot)
    entries += imus(robot, "/left", lambda received: received - START + 60 * SECOND)
    entries += imus(robot, "/right", lambda received: received - START + 63 * SECOND)
    streams, recording = read(save(tmp_path, "mcap", robot, entries))
    received = START + np.arange(100) * 10 * MS
    for topic in ("/left", "/right"):
        np.testing.assert_array_equal(streams[f"{topic}/orientation"].times, received)
        np.testing.assert_array_equal(streams[f"{topic}/orientation"].received, received)
    np.testing.assert_array_equal(streams["/imu/orientation"].times, received - 20 * MS)
    np.testing.assert_array_equal(streams["/imu/orientation"].received, received)
    text = (
        "topics stamped by another clock than most, moved onto that by their median offset "
        "(/left, /right; the first by +1,699,999,940.000 s)"
    )
    assert recording.notes[text] == 2


def test_streams_of_one_device_stay_together(tmp_path: Path) -> None:
    """An image and what describes it have one stamp, and are received at different times."""
    robot = robot_of("bag")
    entries = imus(robot, "/imu", wall) + imus(robot, "/odom", wall) + imus(robot, "/gps", wall)
    entries += imus(robot, "/image", lambda received: received - START + SECOND)
    entries += imus(robot, "/info", lambda received: received - START + SECOND + 60 * MS)
    streams, _ = read(save(tmp_path, "bag", robot, entries))
    apart = streams["/info/orientation"].times - streams["/image/orientation"].times
    assert (apart == 60 * MS).all()


def test_a_node_without_simulated_time(tmp_path: Path) -> None:
    """Most stamps are simulated; one topic's are of the wall clock, whose latency is kept."""
    robot = robot_of("bag")
    entries = [e for topic in ("/a", "/b", "/c") for e in imus(robot, topic, simulated)]
    streams, _ = read(save(tmp_path, "bag", robot, entries + imus(robot, "/wall", wall)))
    a, rows = streams["/a/orientation"], streams["/wall/orientation"]
    np.testing.assert_array_equal(rows.times, a.times - 20 * MS)
    np.testing.assert_array_equal(rows.received, a.times)


def test_the_clock_topic_tells(tmp_path: Path) -> None:
    """Nothing else has stamps: what /clock says is the time."""
    robot = robot_of("mcap")
    kind = "rosgraph_msgs/msg/Clock"
    entries = twists(robot)
    for i in range(100):
        received = START + i * 10 * MS
        stamp = robot.header(simulated(received)).stamp
        entries.append(("/clock", kind, received, robot.make(kind, clock=stamp)))
    streams, _ = read(save(tmp_path, "mcap", robot, entries))
    clock = streams["/clock/clock"]
    np.testing.assert_array_equal(clock.times, clock.values @ np.array([SECOND, 1]))
    np.testing.assert_array_equal(streams["/cmd_vel/linear"].times, clock.times + 4 * MS)


SLOW = (
    "messages of /imu stamped by another clock than that of their receipt, at another rate or with "
    "jumps, kept as stamped (--stamp received, or stamp='received', puts all streams on one clock)"
)


def half(received: int) -> int:
    return 5 * SECOND + (received - START) // 2


def looped(received: int) -> int:
    """A bag of 4 s, played again and again."""
    return 5 * SECOND + (received - START) % (4 * SECOND)


@pytest.mark.parametrize("stamp", [half, looped], ids=["half as fast", "a loop"])
def test_no_constant_offset(tmp_path: Path, stamp: Stamping) -> None:
    """Nothing is moved; a note and an error of the doctor name the topics and the way out."""
    robot = robot_of("bag")
    entries = imus(robot, "/imu", stamp, step=100) + twists(robot)
    path = save(tmp_path, "bag", robot, entries)
    streams, recording = read(path)
    imu = streams["/imu/orientation"]
    assert sorted(stamp(START + i * 100 * MS) for i in range(100)) == imu.times.tolist()
    assert recording.notes[SLOW] == 100
    (finding,) = [f for f in examine(path).findings if f.kind == "two_clocks"]
    assert finding.severity == "error"
    assert (finding.stream, finding.count) == (None, 3)
    assert re.fullmatch(
        "3 streams are stamped by another clock than that of their receipt, 19,67[56] d away: "
        "/imu/orientation, /imu/angular_velocity, /imu/linear_acceleration",
        finding.text,
    )
    assert finding.advice == (
        "convert the recording with all rows stamped by when they were received, which is one "
        "clock (convert --stamp received): to a causal loader no row has arrived in time"
    )
    streams, recording = read(path, stamp="received")
    assert span(streams) == pytest.approx(9.9)
    assert not examine_kinds(path, "two_clocks", stamp="received")


def examine_kinds(path: Path, kind: str, **options: Any) -> list[Any]:
    from robocache.readers import ReadOptions

    return [f for f in examine(path, ReadOptions(**options)).findings if f.kind == kind]


def test_static_transforms(tmp_path: Path) -> None:
    """The first of each pair holds from the start; one that replaces it from when it came."""
    robot = robot_of("bag")
    entries = imus(robot, "/imu", wall)
    old = transform(robot, START - 3600 * SECOND, "lidar", 1.0)
    new = transform(robot, START - 3600 * SECOND, "lidar", 2.0)
    other = transform(robot, START - 7200 * SECOND, "camera", 3.0)
    entries.append(transforms(robot, "/robot/tf_static", START + 100 * MS, old, other))
    entries.append(transforms(robot, "/robot/tf_static", START + 500 * MS, new))
    path = save(tmp_path, "bag", robot, entries)
    for options in ({}, {"stamp": "received"}):
        streams, _ = read(path, **options)
        first = streams["/imu/orientation"].times[0]
        lidar = streams["/robot/tf_static/base/lidar/translation"]
        np.testing.assert_array_equal(lidar.times, [first, START + 500 * MS])
        assert lidar.values[:, 0].tolist() == [1.0, 2.0]
        camera = streams["/robot/tf_static/base/camera/translation"]
        np.testing.assert_array_equal(camera.times, [first])


def test_latched_messages_keep_their_stamps(tmp_path: Path) -> None:
    """A map that was made an hour before is of the same clock; a stamp of boot time is not."""
    robot = robot_of("bag")
    entries = imus(robot, "/imu", wall)
    entries += imus(robot, "/map", lambda received: START - 3600 * SECOND, count=1)
    entries += imus(robot, "/boot", lambda received: 77 * SECOND, count=2)
    streams, recording = read(save(tmp_path, "bag", robot, entries))
    assert streams["/map/orientation"].times.tolist() == [START - 3600 * SECOND]
    assert streams["/boot/orientation"].times.tolist() == [START, START + 10 * MS]
    text = (
        "topics stamped by another clock in too few messages to compare, timed by when they were "
        "received (/boot)"
    )
    assert recording.notes[text] == 1


def test_a_clock_that_begins_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All messages are read where the first ones show two clocks; else those after are noted."""
    from robocache.readers.ros import reader as ros

    robot = robot_of("bag")
    late = [
        (topic, kind, received + 2 * SECOND, message)
        for topic, kind, received, message in imus(robot, "/imu", lambda t: t - START)
    ]
    path = save(tmp_path, "bag", robot, imus(robot, "/early", wall) + late)
    streams, _ = read(path)
    assert span(streams) < 4
    monkeypatch.setattr(ros, "PROBED_MESSAGES", 50)
    streams, recording = read(path)
    assert recording.notes[SLOW] == 100
    assert len(examine_kinds(path, "two_clocks")) == 1


def test_transforms_of_two_clocks(tmp_path: Path) -> None:
    """Each pair of frames in /tf may have its own clock."""
    robot = robot_of("bag")
    entries: list[Entry] = [*imus(robot, "/a", simulated), *imus(robot, "/b", simulated)]
    for i in range(50):
        t = START + i * 20 * MS
        pairs = (transform(robot, simulated(t), "wheel"), transform(robot, wall(t), "head"))
        entries.append(transforms(robot, "/tf", t, *pairs))
    streams, _ = read(save(tmp_path, "bag", robot, entries))
    wheel, head = (streams[f"/tf/base/{child}/rotation"] for child in ("wheel", "head"))
    np.testing.assert_array_equal(head.times, wheel.times - 20 * MS)


def test_json(tmp_path: Path) -> None:
    """Stamps in JSON, of a clock of its own, beside messages that only say when they were sent."""
    from mcap.writer import Writer

    path = tmp_path / "a.mcap"
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start()
        ids = [writer.register_channel(t, "json", 0) for t in ("/state", "/command")]
        for i in range(50):
            t = START + i * 10 * MS
            stamp = {"sec": 3, "nsec": i * 10 * MS}
            writer.add_message(ids[0], t, json.dumps({"timestamp": stamp, "x": i}).encode(), t)
            writer.add_message(ids[1], t, json.dumps({"y": i}).encode(), t)
        writer.finish()
    streams, _ = read(path)
    times = 3 * SECOND + np.arange(50) * 10 * MS
    for rows in streams.values():
        np.testing.assert_array_equal(rows.times, times)
        np.testing.assert_array_equal(rows.received, times)


def test_many_messages_are_thinned() -> None:
    """The survey of a long recording is of bounded size, and spans all of it."""
    survey = Survey()
    for i in range(350_000):
        survey.add("/a", 1000 + i * MS, START + i * MS, True)
    clocks = survey.clocks()
    assert clocks.receipt_shift == 1000 - START
    (topic,) = survey._topics.values()
    stamps, _ = topic.arrays()
    assert len(stamps) < 100_000 and stamps[-1] > 349_000 * MS


def test_a_bogus_stamp_moves_nothing() -> None:
    stamps = np.arange(100) * MS + START
    received = stamps + 5 * MS
    stamps[7] = 2**32 * SECOND
    offset = offset_of(stamps, received)
    assert offset is not None and offset.median == 5 * MS and offset.is_steady
