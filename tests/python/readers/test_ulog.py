"""PX4 logs: a real one against pyulog alone, row by row, and ones written here."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from message_files import error_of, read
from privileges import unprivileged
from recordings import DATA, needs

from robocache.readers import MissingLibrary, RecordingError, find_reader, ulog

LOG = DATA / "px4_ulog" / "sample.ulg"
US = 1000

# ---- the real log --------------------------------------------------------------------------------


def directly() -> Any:
    return pytest.importorskip("pyulog", reason="PX4 logs need pyulog").ULog(str(LOG))


@needs(LOG)
def test_every_number_of_the_real_log() -> None:
    """Each field of each topic is in exactly one stream, as it was logged."""
    streams, recording = read(LOG)
    log = directly()
    stamped_once = {"commander_state", "ekf2_innovations", "sensor_preflight"}
    seen = set()
    for data in log.data_list:
        columns: dict[str, Any] = {}
        for name, rows in streams.items():
            if name != data.name and not name.startswith(f"{data.name}/"):
                continue
            seen.add(name)
            below = name[len(data.name) + 1 :]
            channels = recording.streams[name].channels
            keys = channels or [f"{below}[{i}]" for i in range(rows.values.shape[1])]
            for key, column in zip(keys, rows.values.T, strict=True):
                assert key not in columns
                columns[key] = column
            if data.name not in stamped_once:
                expected = np.sort(data.data["timestamp"].astype(np.int64)) * US
                np.testing.assert_array_equal(rows.times, expected)
        assert set(columns) == {f.field_name for f in data.field_data} - {"timestamp"}
        order = np.argsort(data.data["timestamp"], kind="stable")
        for key, column in columns.items():
            np.testing.assert_array_equal(column, data.data[key][order], err_msg=key)
    assert seen == set(streams)
    assert recording.format == "PX4 ULog"


@needs(LOG)
def test_facts_of_the_real_log() -> None:
    _, recording = read(LOG)
    metadata = recording.streams
    assert metadata["vehicle_attitude/q"].method == "slerp_wxyz"
    assert metadata["vehicle_attitude"].channels == ("rollspeed", "pitchspeed", "yawspeed")
    assert metadata["vehicle_attitude_setpoint/discrete"].method == "previous"
    assert metadata["sensor_combined"].method == "linear"
    assert metadata["sensor_combined"].source == "topic sensor_combined, instance 0"
    notes = recording.notes
    assert notes["dropouts of the logger (119 ms in all), left as gaps"] == 4
    assert notes["topics without messages"] == 28
    text = "messages of sensor_preflight, all stamped 0 us, timed by the newest stamp logged before"
    assert notes[f"{text} them"] == 17072


@needs(LOG)
def test_topics_stamped_once_have_the_times_of_their_neighbors() -> None:
    """sensor_preflight is logged right after sensor_combined, ekf2_innovations with the filter."""
    streams, _ = read(LOG)
    preflight, combined = streams["sensor_preflight"].times, streams["sensor_combined"].times
    nearest = combined[np.clip(np.searchsorted(combined, preflight), 0, len(combined) - 1)]
    assert np.median(np.abs(preflight - nearest)) < 4_000_000, "within a sample of 250 Hz"
    innovations = streams["ekf2_innovations"].times
    steps = np.diff(innovations)
    assert abs(np.median(steps) - 20_000_000) < 4_000_000 and innovations[0] > 112_000_000_000


@needs(LOG)
def test_topics_of_the_real_log(monkeypatch: pytest.MonkeyPatch) -> None:
    everything, _ = read(LOG)
    streams, _ = read(LOG, topics=("vehicle_rates*", "cpuload"))
    assert set(streams) == {"vehicle_rates_setpoint", "cpuload"}
    np.testing.assert_array_equal(streams["cpuload"].values, everything["cpuload"].values)
    with pytest.raises(ValueError, match=r"^topics: expected some of actuator_.*; got 'nope'"):
        read(LOG, topics=("nope",))
    # Streams as `info` prints them, and what is below a topic.
    streams, _ = read(LOG, topics=("vehicle_attitude/q", "commander_state"))
    assert set(streams) == {"vehicle_attitude/q", "commander_state"}
    assert set(read(LOG, topics=("q",))[0]) == {"control_state/q", "vehicle_attitude/q"}
    # In several passes, as a log is read that is larger than memory allows.
    monkeypatch.setattr(ulog, "GROUP_BYTES", 200_000)
    passes, recording = read(LOG)
    assert set(passes) == set(everything)
    for name, rows in everything.items():
        np.testing.assert_array_equal(passes[name].values, rows.values)
        np.testing.assert_array_equal(passes[name].times, rows.times)
    assert recording.notes["dropouts of the logger (119 ms in all), left as gaps"] == 4


# ---- logs written here ---------------------------------------------------------------------------


def record(kind: str, data: bytes) -> bytes:
    return struct.pack("<HB", len(data), ord(kind)) + data


class Log:
    """Makes the bytes of a log, by https://docs.px4.io/main/en/dev_log/ulog_file_format.html."""

    def __init__(self) -> None:
        flags = record("B", bytes(40))
        self.data = ulog.MAGIC + b"\x01" + struct.pack("<Q", 1_000_000) + flags

    def format(self, name: str, fields: str) -> None:
        self.data += record("F", f"{name}:{fields}".encode())

    def topic(self, key: int, name: str, instance: int = 0) -> None:
        self.data += record("A", struct.pack("<BH", instance, key) + name.encode())

    def message(self, key: int, layout: str, *numbers: Any) -> None:
        self.data += record("D", struct.pack("<H", key) + struct.pack(f"<{layout}", *numbers))

    def dropout(self, ms: int) -> None:
        self.data += record("O", struct.pack("<H", ms))

    def save(self, path: Path) -> Path:
        path.write_bytes(self.data)
        return path


def small_log(stamps: list[int]) -> Log:
    log = Log()
    log.format("motor", "float rpm;uint8_t state;")
    log.format(
        "esc", "uint64_t timestamp;float x;double y;bool on;int16_t n;motor[2] m;char[4] who;"
    )
    log.topic(0, "esc")
    log.topic(1, "esc", 1)
    for i, stamp in enumerate(stamps):
        log.message(0, "Qfd?hfBfB4s", stamp, i, -i, i % 2, -i, 10 + i, i, 20 + i, 2 * i, b"abcd")
        log.message(1, "Qfd?hfBfB4s", stamp + 1, 100 + i, 0, 0, 0, 0, 0, 0, 0, b"abcd")
    return log


def test_instances_and_nested_messages(tmp_path: Path) -> None:
    streams, recording = read(small_log([1000, 2000, 3000]).save(tmp_path / "a.ulg"))
    below = ("", "/discrete", "/m.0", "/m.0/discrete", "/m.1", "/m.1/discrete")
    assert set(streams) == {f"esc{instance}{name}" for instance in ("", ".1") for name in below}
    assert recording.streams["esc"].channels == ("x", "y")
    np.testing.assert_array_equal(streams["esc"].values, [[0, 0], [1, -1], [2, -2]])
    np.testing.assert_array_equal(streams["esc"].times, [1_000_000, 2_000_000, 3_000_000])
    np.testing.assert_array_equal(streams["esc/discrete"].values, [[0, 0], [1, -1], [0, -2]])
    np.testing.assert_array_equal(streams["esc/m.1"].values, [[20], [21], [22]])
    assert streams["esc/m.1/discrete"].values.dtype == np.uint8
    np.testing.assert_array_equal(streams["esc.1"].values[:, 0], [100, 101, 102])
    np.testing.assert_array_equal(streams["esc.1"].times, [1_001_000, 2_001_000, 3_001_000])
    assert recording.notes["characters of esc that are text, left out"] == 4


def test_late_repeated_and_impossible_stamps(tmp_path: Path) -> None:
    log = small_log([5000, 3000, 3000, 2**63, 7000])
    streams, recording = read(log.save(tmp_path / "a.ulg"), topics=("esc",))
    np.testing.assert_array_equal(streams["esc"].times, np.array([3000, 3000, 5000, 7000]) * US)
    np.testing.assert_array_equal(streams["esc"].values[:, 0], [1, 2, 0, 4])
    assert recording.notes["messages of esc with an impossible stamp, left out"] == 1
    assert recording.notes["messages of esc that repeat the time of the one before"] == 1
    assert recording.notes["messages of esc earlier than the one before them, sorted by time"] == 1


def two_topics(stamps: list[int]) -> Log:
    """`imu` with these stamps, each message followed by one of `preflight`, which is stamped 0."""
    log = Log()
    log.format("imu", "uint64_t timestamp;float x;")
    log.format("preflight", "uint64_t timestamp;float y;")
    log.topic(0, "imu")
    log.topic(1, "preflight")
    for i, stamp in enumerate(stamps):
        log.message(0, "Qf", stamp, i)
        log.message(1, "Qf", 0, i)
    return log


PREFETCH_DEPTH = "messages of imu stamped more than 1 s ahead of the log"


@pytest.mark.parametrize("at", [0, 1, 12, 100, 238, 249])
def test_a_stamp_ahead_of_the_log(tmp_path: Path, at: int) -> None:
    """One bogus stamp of 1,193 s in a log of 25 s: its row goes, and moves no other."""
    stamps = [1_000_000 + 100_000 * i for i in range(250)]
    good = stamps[:at] + stamps[at + 1 :]
    logged = stamps[max(at - 1, 0)]
    spoiled = [*stamps[:at], 1_193_000_000, *stamps[at + 1 :]]
    streams, recording = read(two_topics(spoiled).save(tmp_path / "a.ulg"))
    np.testing.assert_array_equal(streams["imu"].times, np.array(good) * US)
    np.testing.assert_array_equal(streams["imu"].values[:, 0], np.delete(np.arange(250), at))
    neighbors = [*stamps[:at], logged, *stamps[at + 1 :]]
    np.testing.assert_array_equal(streams["preflight"].times, np.array(neighbors) * US)
    where = f"the first 1,193.000000 s, logged at {logged / 1e6:.6f} s"
    text = "messages of preflight, all stamped 0 us, timed by the newest stamp logged before them"
    repeated = {"messages of preflight that repeat the time of the one before": 1}
    assert recording.notes == {
        f"{PREFETCH_DEPTH}, left out ({where})": 1,
        text: 250,
        **(repeated if at else {}),
    }


def test_several_stamps_ahead_of_the_log(tmp_path: Path) -> None:
    stamps = [1_000_000 + 100_000 * i for i in range(100)]
    for at in (40, 41, 70):
        stamps[at] += 50_000_000
    streams, recording = read(two_topics(stamps).save(tmp_path / "a.ulg"), topics=("imu",))
    expected = np.delete(np.arange(100), [40, 41, 70])
    np.testing.assert_array_equal(streams["imu"].values[:, 0], expected)
    where = "the first 55.000000 s, logged at 4.900000 s"
    assert recording.notes == {f"{PREFETCH_DEPTH}, left out ({where})": 3}


@pytest.mark.parametrize(
    "stamps",
    [
        # The logger lost 20 s, and wrote few messages after that, or many.
        [1_000_000 + 10_000 * i + 20_000_000 * (i >= 40) for i in range(42)],
        [1_000_000 + 10_000 * i + 20_000_000 * (i >= 40) for i in range(99)],
        # A message every 2 s.
        [1_000_000 + 2_000_000 * i for i in range(40)],
        # Latched messages, older than the log, around the first that is not.
        [2_000 + i for i in range(20)] + [9_000_000] + [3_000 + i for i in range(20)],
    ],
)
def test_stamps_that_are_not_ahead_of_the_log(tmp_path: Path, stamps: list[int]) -> None:
    log = two_topics(stamps)
    if stamps[0] < 1_000_000:
        log.data = log.data[:8] + struct.pack("<Q", 8_999_000) + log.data[16:]
    streams, recording = read(log.save(tmp_path / "a.ulg"), topics=("imu",))
    np.testing.assert_array_equal(streams["imu"].times, np.sort(stamps) * US)
    assert not [note for note in recording.notes if "ahead" in note]


def test_what_is_no_stamp_is_ahead_of_nothing(tmp_path: Path) -> None:
    """A topic whose first field is another number, and one that is stamped once and for all."""
    log = Log()
    log.format("count", "uint64_t count;uint64_t timestamp;")
    log.format("imu", "uint64_t timestamp;float x;")
    log.format("latched", "uint64_t timestamp;float y;")
    for key, name in enumerate(("count", "imu", "latched")):
        log.topic(key, name)
    stamps = [1_000_000 + 100_000 * i for i in range(60)]
    for i, stamp in enumerate(stamps):
        for _ in range(3):
            log.message(0, "QQ", i, stamp)
            log.message(2, "Qf", 2_000, i)
        log.message(1, "Qf", stamp, i)
    log.message(0, "QQ", 1 << 40, stamps[-1])
    streams, recording = read(log.save(tmp_path / "a.ulg"))
    np.testing.assert_array_equal(streams["imu"].times, np.array(stamps) * US)
    assert len(streams["count"].times) == 181
    assert not [note for note in recording.notes if "ahead" in note]


def test_a_log_that_was_cut(tmp_path: Path) -> None:
    """A log cut off by a power loss is read up to its end, with a note."""
    log = small_log(list(range(1000, 30000, 1000)))
    log.data = log.data[:-5]
    streams, recording = read(log.save(tmp_path / "a.ulg"))
    assert len(streams["esc"].times) == 29 and len(streams["esc.1"].times) == 28
    text = "logs that end within a record: its last messages are missing"
    assert recording.notes[text] == 1


def test_damaged(tmp_path: Path) -> None:
    """Any flipped byte gives numbers, a note or an error of the recording; nothing else."""
    log = small_log(list(range(1000, 10000, 1000)))
    path = tmp_path / "a.ulg"
    random = np.random.default_rng(4)
    outcomes = []
    for at in random.integers(8, len(log.data), 150).tolist():
        path.write_bytes(log.data[:at] + bytes([log.data[at] ^ 0xFF]) + log.data[at + 1 :])
        try:
            read(path)
            outcomes.append("read")
        except RecordingError:
            outcomes.append("refused")
    assert set(outcomes) == {"read", "refused"}


def test_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "a.ulg"
    log = small_log([1000])
    path.write_bytes(b"")
    assert find_reader(path) is None
    for end in (10, 16, 40, 100):
        path.write_bytes(log.data[:end])
        assert error_of(path).startswith(f"{path}: expected a PX4 ULog file")
    empty = Log()
    empty.format("esc", "uint64_t timestamp;float x;")
    empty.topic(0, "esc")
    path = empty.save(path)
    assert error_of(path) == f"{path}: expected a PX4 ULog file with messages, got one without"


def test_permission_denied(tmp_path: Path) -> None:
    path = small_log([1000]).save(tmp_path / "a.ulg")
    path.chmod(0)
    assert unprivileged(error_of, path).endswith("got permission denied")


def test_without_pyulog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = small_log([1000]).save(tmp_path / "a.ulg")
    monkeypatch.setitem(sys.modules, "pyulog", None)
    with pytest.raises(MissingLibrary, match=r"needs pyulog: pip install 'pyulog>=1\.1' "):
        read(path)
