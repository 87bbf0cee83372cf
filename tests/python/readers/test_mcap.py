"""MCAP files of ROS 1, of ROS 2 and of programs without ROS."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from message_files import MS, START, Messages, error_of, imu_numbers, read
from privileges import unprivileged

from robocache.readers import find_reader

IMU = "sensor_msgs/msg/Imu"


def write_mcap(
    path: Path,
    channels: dict[str, tuple[str, str, bytes, str]],
    messages: Iterable[tuple[str, int, int, bytes]],
    metadata: dict[str, str] | None = None,
    **options: Any,
) -> Path:
    """Channels (name, encoding and text of the schema, encoding of the messages; metadata) and
    messages (topic, when received, when sent, data)."""
    module = pytest.importorskip("mcap.writer", reason="MCAP needs mcap")
    with path.open("wb") as file:
        writer = module.Writer(file, **options)
        writer.start(profile="", library="test")
        ids = {}
        for topic, (name, encoding, text, message_encoding) in channels.items():
            schema = writer.register_schema(name, encoding, text) if name else 0
            ids[topic] = writer.register_channel(topic, message_encoding, schema, metadata or {})
        for topic, received, sent, data in messages:
            writer.add_message(ids[topic], received, data, sent)
        writer.finish()
    return path


def ros_channel(robot: Messages, kind: str = IMU) -> tuple[str, str, bytes, str]:
    text, _ = robot.store.generate_msgdef(kind, ros_version=robot.version)
    if robot.version == 1:
        return kind.replace("/msg/", "/"), "ros1msg", text.encode(), "ros1"
    return kind, "ros2msg", text.encode(), "cdr"


def imu_file(path: Path, version: int, count: int = 30, **options: Any) -> Path:
    robot = Messages(version)
    serialize = robot.store.serialize_ros1 if version == 1 else robot.store.serialize_cdr
    messages = []
    for i in range(count):
        at = START + i * MS
        messages.append(("/imu", at + 9, at + 2, bytes(serialize(robot.imu(at, i), IMU))))
    return write_mcap(path, {"/imu": ros_channel(robot)}, messages, **options)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "options",
    [
        {"compression": 0},
        {"compression": 1},
        {"compression": 2, "chunk_size": 500},
        {"use_chunking": False},
        {"index_types": 0},
        {"repeat_channels": False, "repeat_schemas": False},
    ],
    ids=["plain", "lz4", "zstd", "unchunked", "unindexed", "no-summary-of-channels"],
)
def test_ros(tmp_path: Path, version: int, options: dict[str, Any]) -> None:
    module = pytest.importorskip("mcap.writer", reason="MCAP needs mcap")
    if "compression" in options:
        options = options | {"compression": list(module.CompressionType)[options["compression"]]}
    if "index_types" in options:
        options = {"index_types": module.IndexType.NONE}
    path = imu_file(tmp_path / "imu.mcap", version, **options)
    streams, recording = read(path)
    assert recording.format == "MCAP"
    for k, name in enumerate(("orientation", "angular_velocity", "linear_acceleration")):
        rows = streams[f"/imu/{name}"]
        np.testing.assert_array_equal(rows.times, START + np.arange(30) * MS)
        np.testing.assert_array_equal(rows.received, START + np.arange(30) * MS + 9)
        np.testing.assert_array_equal(rows.values, [imu_numbers(i)[k] for i in range(30)])
    streams, _ = read(path, stamp="received")
    np.testing.assert_array_equal(streams["/imu/orientation"].times, START + np.arange(30) * MS + 9)


def test_when_it_was_sent(tmp_path: Path) -> None:
    """A message without a header has the time at which it was sent."""
    robot = Messages(2)
    twist = "geometry_msgs/msg/Twist"
    messages = []
    for i in range(4):
        at = START + i * MS
        data = bytes(robot.store.serialize_cdr(robot.twist(i), twist))
        messages.append(("/cmd", at + 9, at, data))
    path = write_mcap(tmp_path / "a.mcap", {"/cmd": ros_channel(robot, twist)}, messages)
    rows = read(path)[0]["/cmd/linear"]
    np.testing.assert_array_equal(rows.times, START + np.arange(4) * MS)
    np.testing.assert_array_equal(rows.received, START + np.arange(4) * MS + 9)
    rows = read(path, stamp="received")[0]["/cmd/linear"]
    np.testing.assert_array_equal(rows.times, START + np.arange(4) * MS + 9)
    assert rows.received is None


@pytest.mark.parametrize("is_json", [False, True])
def test_a_recording_that_starts_at_zero(tmp_path: Path, is_json: bool) -> None:
    """Zero is a time of sending, as of a simulation: only a stamp in a message may be unset."""
    robot = Messages(2)
    twist = "geometry_msgs/msg/Twist"
    channel = ("state", "jsonschema", b"{}", "json") if is_json else ros_channel(robot, twist)
    messages = []
    for i in range(4):
        data = bytes(robot.store.serialize_cdr(robot.twist(i), twist))
        messages.append(("/cmd", i * MS, i * MS, b'{"x": 1.5}' if is_json else data))
    path = write_mcap(tmp_path / "a.mcap", {"/cmd": channel}, messages)
    streams, recording = read(path)
    for rows in streams.values():
        assert rows.times.tolist() == [0, MS, 2 * MS, 3 * MS]
        assert rows.received is not None and rows.received.tolist() == rows.times.tolist()
    assert len(streams) == (1 if is_json else 2) and not recording.notes


def test_stamps_of_zero_in_json(tmp_path: Path) -> None:
    """They are unset, as those in a header."""
    second = START // 10**9
    messages = [{"stamp": {"sec": sec, "nsec": 0}, "x": 1.0} for sec in (0, second, second + 1)]
    streams, recording = read(json_file(tmp_path / "a.mcap", messages))
    assert streams["/state"].times.tolist() == [START, START + 10**9]
    assert recording.notes["messages of /state stamped zero, left out"] == 1


def test_definitions_in_idl(tmp_path: Path) -> None:
    idl = "module my_msgs { module msg { struct Own { double x; float y[3]; }; }; };"
    robot = Messages(2)
    from rosbags.typesys import get_types_from_idl

    robot.store.register(get_types_from_idl(idl))
    kind = "my_msgs/msg/Own"
    message = robot.make(kind, x=0.5, y=np.float32([1, 2, 3]))
    data = bytes(robot.store.serialize_cdr(message, kind))
    channels = {"/own": (kind, "ros2idl", idl.encode(), "cdr")}
    path = write_mcap(tmp_path / "a.mcap", channels, [("/own", START, START, data)])
    streams, _ = read(path)
    assert streams["/own"].values.tolist() == [[0.5]]
    assert streams["/own/y"].values.tolist() == [[1, 2, 3]]


def test_two_definitions_of_one_type(tmp_path: Path) -> None:
    """Nodes that were built at different times; each topic is read by its own."""
    channels, messages = {}, []
    for topic, fields in (("/a", "float64 x\n"), ("/b", "float64 x\nfloat64 y\n")):
        kind = f"my_msgs/msg/Of{topic[1].upper()}"
        text = f"my_msgs/Inner inner\n{'=' * 80}\nMSG: my_msgs/Inner\n{fields}"
        robot = Messages(2, {kind: text})
        numbers = {name: 3.0 for name in ("x", "y") if name in fields}
        message = robot.make(kind, inner=robot.make("my_msgs/msg/Inner", **numbers))
        data = bytes(robot.store.serialize_cdr(message, kind))
        channels[topic] = (kind, "ros2msg", text.encode(), "cdr")
        messages.append((topic, START, START, data))
    streams, _ = read(write_mcap(tmp_path / "a.mcap", channels, messages))
    assert streams["/a/inner"].values.tolist() == [[3]]
    assert streams["/b/inner"].values.tolist() == [[3, 3]]


def json_file(path: Path, messages: list[Any], schema: str = "jsonschema") -> Path:
    channel = ("state", schema, b"{}", "json") if schema else ("", "", b"", "json")
    return write_mcap(
        path,
        {"/state": channel},
        [
            ("/state", START + i * MS, START + i * MS, json.dumps(message).encode())
            for i, message in enumerate(messages)
        ],
    )


def test_json(tmp_path: Path) -> None:
    def message(i: int) -> dict[str, Any]:
        return {
            "timestamp": {"sec": 1_700_000_000, "nsec": i * 1000},
            "pose": {"x": i, "y": -i / 2, "frame": "map"},
            "battery": 0.5 + i,
            "charging": i % 2 == 1,
            "joints": [i, i + 0.25, i + 0.5],
            "flags": [True, False],
            "matrix": [[i, 1], [2, 3]],
            "names": ["a", "b"],
            "points": [{"x": 1}],
        }

    messages: list[Any] = [message(i) for i in range(5)]
    del messages[3]["battery"]
    messages[4]["joints"] = None
    messages.append([1, 2, 3])
    streams, recording = read(json_file(tmp_path / "a.mcap", messages))
    assert set(streams) == {
        f"/state{name}" for name in ("", "/discrete", "/pose", "/joints", "/flags", "/matrix")
    }
    times = START + np.arange(5) * 1000
    np.testing.assert_array_equal(streams["/state/pose"].values, [[i, -i / 2] for i in range(5)])
    np.testing.assert_array_equal(streams["/state/pose"].times, times)
    np.testing.assert_array_equal(streams["/state/pose"].received, START + np.arange(5) * MS)
    np.testing.assert_array_equal(streams["/state"].values[:, 0], [0.5, 1.5, 2.5, 4.5])
    np.testing.assert_array_equal(streams["/state"].times, times[[0, 1, 2, 4]])
    np.testing.assert_array_equal(streams["/state/joints"].values[2], [2, 2.25, 2.5])
    assert streams["/state/flags"].values.dtype == np.bool_
    assert streams["/state/matrix"].values.shape == (5, 2, 2)
    assert recording.streams["/state/pose"].channels == ("x", "y")
    assert recording.streams["/state/discrete"].method == "previous"
    assert recording.notes == {
        "rows of /state left out, since numbers are missing": 2,
        "messages of /state that are not JSON objects, left out": 1,
    }


@pytest.mark.parametrize(
    ("text", "method"),
    [
        ("slerp_xyzw", "slerp_xyzw"),
        ("linear:1,angle:3", (("linear", 1), ("angle", 3))),
        ("linear:3,slerp_xyzw:1", "linear"),
        ("linear:3", "linear"),
        ("linear:0,angle:4", "linear"),
        ("POST", "linear"),
        ("", "linear"),
    ],
)
def test_methods_in_metadata(
    tmp_path: Path, text: str, method: str | tuple[tuple[str, int], ...]
) -> None:
    """Metadata of other programs is read too, if it is a method and fits the numbers."""
    message = {"x": 0.5, "y": 0.5, "z": 0.5, "w": 0.5, "on": True, "more": {"p": 1, "q": 2}}
    path = write_mcap(
        tmp_path / "a.mcap",
        {"/a": ("", "", b"", "json")},
        [("/a", START, START, json.dumps(message).encode())],
        {"method": text},
    )
    streams = read(path)[1].streams
    assert streams["/a"].method == method
    assert streams["/a/discrete"].method == "previous"
    assert streams["/a/more"].method == "linear"


def test_json_without_a_stamp_or_a_schema(tmp_path: Path) -> None:
    streams, _ = read(json_file(tmp_path / "a.mcap", [{"x": 1}, {"x": 2}], schema=""))
    np.testing.assert_array_equal(streams["/state"].times, [START, START + MS])
    np.testing.assert_array_equal(streams["/state"].values, [[1], [2]])


def test_json_that_is_none(tmp_path: Path) -> None:
    path = write_mcap(
        tmp_path / "a.mcap", {"/a": ("", "", b"", "json")}, [("/a", START, START, b"{nothing")]
    )
    assert f"{path}: expected json in topic /a, got " in error_of(path)
    path = json_file(tmp_path / "b.mcap", [{"x": 1}, {"x": 10**400}])
    assert f"{path}: expected state in topic /state, got " in error_of(path)


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**80), 10**300])
def test_integers_of_more_than_64_bits(tmp_path: Path, number: int) -> None:
    """In a list as by themselves: the nearest float64."""
    messages = [{"x": number, "list": [1, number], "grid": [[number], [2.5]]}]
    streams, _ = read(json_file(tmp_path / "a.mcap", messages))
    assert streams["/state"].values.tolist() == [[float(number)]]
    assert streams["/state/list"].values.tolist() == [[1.0, float(number)]]
    assert streams["/state/grid"].values.tolist() == [[[float(number)], [2.5]]]


def test_lists_of_integers_past_float64(tmp_path: Path) -> None:
    for number, message in enumerate([{"x": [1, 10**400]}, {"x": [[10**400]]}]):
        path = json_file(tmp_path / f"{number}.mcap", [{"x": [0, 0]}, message])
        assert error_of(path) == (
            f"{path}: expected state in topic /state, got int too large to convert to float"
        )


def test_lists_that_are_no_numbers(tmp_path: Path) -> None:
    messages = [{"x": 1.0, "a": [1, None], "b": ["1"], "c": [{}], "d": [2**70, "1"]}]
    streams, _ = read(json_file(tmp_path / "a.mcap", messages))
    assert set(streams) == {"/state"}


def test_what_is_not_read(tmp_path: Path) -> None:
    channels = {
        "/image": ("foxglove.RawImage", "protobuf", b"...", "protobuf"),
        "/own": ("Own", "flatbuffer", b"...", "flatbuffer"),
        "/state": ("state", "jsonschema", b"{}", "json"),
        "/bad": ("a/msg/Bad", "ros2msg", b"float64 [x", "cdr"),
    }
    messages = [(topic, START, START, b'{"x": 1}') for topic in channels]
    streams, recording = read(write_mcap(tmp_path / "a.mcap", channels, messages))
    assert set(streams) == {"/state"}
    notes = recording.notes
    assert notes["topics left out: /image: messages in protobuf are not read"] == 1
    assert notes["topics left out: /own: messages in flatbuffer are not read"] == 1
    assert any("/bad: its definition of a/msg/Bad is not understood" in text for text in notes)

    del channels["/state"], channels["/bad"], messages[2:]
    path = write_mcap(tmp_path / "b.mcap", channels, messages)
    assert error_of(path) == (
        f"{path}: expected an MCAP file with topics that can be read, got topics left out: /image: "
        "messages in protobuf are not read; topics left out: /own: messages in flatbuffer are not "
        "read"
    )


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("chunked", [True, False])
def test_truncated(tmp_path: Path, chunked: bool) -> None:
    path = imu_file(tmp_path / "imu.mcap", 2, use_chunking=chunked)
    whole = path.read_bytes()
    for end in (len(whole) - 1, len(whole) // 2, 100, 9):
        path.write_bytes(whole[:end])
        assert error_of(path).startswith(f"{path}: expected an MCAP file, got ")
    path.write_bytes(b"")
    assert find_reader(path) is None


def test_a_checksum_that_differs(tmp_path: Path) -> None:
    module = pytest.importorskip("mcap.writer", reason="MCAP needs mcap")
    path = imu_file(tmp_path / "imu.mcap", 2, compression=module.CompressionType.NONE)
    whole = bytearray(path.read_bytes())
    robot = Messages(2)
    raw = bytes(robot.store.serialize_cdr(robot.imu(START + 4 * MS, 4), IMU))
    whole[whole.index(raw) + 60] ^= 1
    path.write_bytes(whole)
    assert error_of(path).startswith(f"{path}: expected an MCAP file, got CRCValidationError")


def test_permission_denied(tmp_path: Path) -> None:
    path = imu_file(tmp_path / "imu.mcap", 2)
    path.chmod(0)
    assert unprivileged(error_of, path).endswith("got permission denied")


def test_no_messages(tmp_path: Path) -> None:
    path = write_mcap(tmp_path / "a.mcap", {}, [])
    assert error_of(path) == f"{path}: expected an MCAP file with messages, got one with none"
