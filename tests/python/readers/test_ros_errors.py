"""Bags of ROS 1 and ROS 2 that are damaged, foreign or not to be understood."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from pathlib import Path

import numpy as np
import pytest
from message_files import (
    MS,
    START,
    error_of,
    imus,
    messages_for,
    read,
    write,
)
from privileges import unprivileged

from robocache.core.extras import MissingLibrary
from robocache.readers import RecordingError, find_reader, find_recordings


def bag_of(tmp_path: Path, storage: str, count: int = 200) -> Path:
    robot = messages_for(storage)
    return write(tmp_path, storage, robot, imus(robot, [START + i * MS for i in range(count)]))


def data_file(path: Path) -> Path:
    return path if path.is_file() else next(f for f in path.iterdir() if f.suffix != ".yaml")


def test_truncated(tmp_path: Path, storage: str) -> None:
    path = bag_of(tmp_path, storage)
    file = data_file(path)
    whole = file.read_bytes()
    for part in (0.95, 0.5, 0.1, 0.01):
        file.write_bytes(whole[: int(len(whole) * part)])
        assert error_of(path).startswith(f"{path}: expected a ROS ")


def test_altered(tmp_path: Path, storage: str) -> None:
    """A flipped byte is an error of the recording, or shows in numbers alone."""
    path = bag_of(tmp_path, storage, 40)
    file = data_file(path)
    whole = file.read_bytes()
    random = np.random.default_rng(5)
    for at in random.integers(16, len(whole), 60).tolist():
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        with contextlib.suppress(RecordingError):
            read(path)


def test_no_messages(tmp_path: Path, storage: str) -> None:
    path = write(tmp_path, storage, messages_for(storage), [])
    assert "with messages, got one with none" in error_of(path)


def test_permission_denied(tmp_path: Path, storage: str) -> None:
    path = bag_of(tmp_path, storage, 3)
    data_file(path).chmod(0)
    assert "permission denied" in unprivileged(error_of, path).lower()


def test_foreign(tmp_path: Path) -> None:
    database = tmp_path / "other.db3"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE birds (name TEXT)")
    connection.close()
    assert find_reader(database) is None
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "metadata.yaml").write_text("birds: 3\n")
    assert find_reader(folder) is None
    (tmp_path / "empty.bag").touch()
    assert error_of(tmp_path / "empty.bag").endswith("got an empty file")
    old = tmp_path / "old.bag"
    old.write_bytes(b"#ROSBAG V1.2\n" + bytes(100))
    assert "Bag version 102 is not supported" in error_of(old)


def test_a_type_that_is_not_known(tmp_path: Path) -> None:
    """Bags of ROS 2 before Iron hold no definitions."""
    robot = messages_for("db3", **{"my_msgs/msg/Own": "float64 x\n"})
    entries = imus(robot, [START, START + MS])
    entries.append(("/own", "my_msgs/msg/Own", START, robot.make("my_msgs/msg/Own", x=1.0)))
    path = write(tmp_path, "db3", robot, entries)
    with sqlite3.connect(data_file(path)) as connection:
        connection.execute("DELETE FROM message_definitions")
    connection.close()
    streams, recording = read(path)
    assert len(streams) == 3, "the standard types are known"
    why = "its type my_msgs/msg/Own is not known, and no definition was recorded"
    assert recording.notes[f"topics left out: /own: {why}"] == 1
    with pytest.raises(ValueError, match="got '/own'"):
        read(path, topics=("/own",))


def test_a_database_that_was_not_closed(tmp_path: Path) -> None:
    path = bag_of(tmp_path, "db3", 3)
    file = data_file(path)
    file.with_name(f"{file.name}-wal").write_bytes(b"messages")
    assert f"{file}: expected a database that was closed, got one with messages in" in error_of(
        path
    )
    assert "PRAGMA wal_checkpoint" in error_of(file)


def test_tables_that_sqlite_computes(tmp_path: Path) -> None:
    """Refused by name, in a folder and alone; triggers run on writing only."""
    for number, (kind, expected) in enumerate(
        [
            ("VIEW topics AS SELECT * FROM old", "a table topics in {}, got a view"),
            (
                "TABLE topics(id INTEGER PRIMARY KEY, name TEXT, type AS (name) STORED)",
                "stored columns in table topics of {}, got type, which is generated",
            ),
            ("VIRTUAL TABLE topics USING rtree(id, a, b)", "a table topics in {}, got a virtual t"),
        ]
    ):
        path = bag_of(tmp_path / str(number), "db3", 2)
        file = data_file(path)
        with sqlite3.connect(file) as connection:
            connection.execute("ALTER TABLE topics RENAME TO old")
            connection.execute(f"CREATE {kind}")
        connection.close()
        for bag in (path, file):
            assert error_of(bag).startswith(f"{bag}: expected {expected.format(file.name)}")
    path = bag_of(tmp_path / "triggers", "db3", 2)
    before = read(path)[0]
    with sqlite3.connect(data_file(path)) as connection:
        connection.execute("CREATE TRIGGER t INSERT ON messages BEGIN DELETE FROM messages; END")
    connection.close()
    assert read(path)[0].keys() == before.keys()


def test_a_database_alone(tmp_path: Path) -> None:
    """As a recorder leaves it that was killed before it wrote metadata.yaml."""
    path = bag_of(tmp_path, "db3", 5)
    (path / "metadata.yaml").unlink()
    assert find_recordings(tmp_path) == [data_file(path)]
    streams, recording = read(data_file(path))
    assert len(streams["/imu/orientation"].times) == 5 and recording.format == "ROS 2 bag"


def test_two_types_of_one_topic(tmp_path: Path) -> None:
    robot = messages_for("bag")
    entries = imus(robot, [START, START + MS])
    entries.append(("/imu", "geometry_msgs/msg/Twist", START + 3, robot.twist(1.0)))
    streams, recording = read(write(tmp_path, "bag", robot, entries))
    assert set(streams) == {f"/imu/{n}" for n in ("orientation", "angular_velocity",
                                                  "linear_acceleration")}  # fmt: skip
    (note,) = [text for text in recording.notes if text.startswith("topics left out")]
    assert "sensor_msgs/msg/Imu is read, geometry_msgs/msg/Twist is not" in note


def test_two_streams_of_one_name(tmp_path: Path, storage: str) -> None:
    robot = messages_for(storage)
    kind = "geometry_msgs/msg/Vector3"
    entries = imus(robot, [START])
    entries.append(("/imu/angular_velocity", kind, START + 1, robot.vector(1, 2, 3)))
    path = write(tmp_path, storage, robot, entries)
    assert error_of(path).endswith(
        "expected streams of different names, got two named /imu/angular_velocity "
        "(topics chooses some)"
    )
    streams, _ = read(path, topics=("/imu",))
    assert len(streams) == 3


def test_without_rosbags(tmp_path: Path, storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = bag_of(tmp_path, storage, 3)
    for name in [name for name in sys.modules if name.split(".")[0] == "rosbags"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rosbags", None)
    with pytest.raises(MissingLibrary, match=r"needs rosbags: pip install 'mcap>=1\.2' pillow "):
        read(path)
