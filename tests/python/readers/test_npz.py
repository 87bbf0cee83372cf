"""NPZ files of one recording: arrays and the times beside them."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from privileges import unprivileged
from recordings import message_of, read_all

from robocache.readers import ReadOptions, RecordingError, find_recordings
from robocache.readers.rows import CHUNK_BYTES

NS = 1_000_000_000


def write(path: Path, packed: bool = False, **arrays: Any) -> Path:
    save = np.savez_compressed if packed else np.savez
    with path.open("wb") as file:
        save(file, **{name.replace("__", "/"): array for name, array in arrays.items()})
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_every_row(tmp_path: Path, packed: bool) -> None:
    random = np.random.default_rng(0)
    arrays = {
        "imu": random.normal(size=(50, 6)).astype(np.float32),
        "imu_times_ns": np.arange(50) * 10_000_000 + 1_700_000_000_000_000_123,
        "force": np.asfortranarray(random.normal(size=(7, 3))),
        "force__t": np.arange(7) * 0.25,
        "joints": random.integers(-9, 9, (5, 2)).astype(">i4"),
        "grip": np.arange(5) % 2 == 1,
        "timestamps": np.arange(5) * 0.5,
        "camera": random.integers(0, 256, (5, 20, 30, 3), np.uint8),
    }
    read, recording = read_all(write(tmp_path / "a", packed, **arrays))
    assert recording.format == "NPZ" and recording.notes == {}
    streams = read["0"]
    assert set(streams) == {"imu", "force", "joints", "grip", "camera"}
    for name, rows in streams.items():
        np.testing.assert_array_equal(rows.values, arrays[name])
    assert streams["imu"].times.tolist() == arrays["imu_times_ns"].tolist()
    assert streams["force"].times.tolist() == (np.arange(7) * NS // 4).tolist()
    assert streams["joints"].times.tolist() == (np.arange(5) * NS // 2).tolist()
    assert streams["joints"].values.dtype == np.int32
    assert recording.streams["imu"].source == "array imu, times in imu_times_ns"
    assert recording.streams["camera"].method == "previous"


def test_options(tmp_path: Path) -> None:
    path = write(tmp_path / "a", x=np.zeros(3), clock=np.arange(3), time=np.arange(3.0))
    read, _ = read_all(path, ReadOptions(time_column="clock", time_unit="ms"))
    assert read["0"]["x"].times.tolist() == [0, 1_000_000, 2_000_000]
    assert read["0"]["time"].values.tolist() == [0, 1, 2]
    message = f"{path}: expected an array of times tick, got x, clock, time"
    assert message_of(path, ReadOptions(time_column="tick")) == message
    camera = np.zeros((3, 20, 20, 3), np.uint8)
    path = write(tmp_path / "a", x=np.zeros(3), camera=camera)
    read, recording = read_all(path, ReadOptions(rate=2, images=False))
    assert read["0"]["x"].times.tolist() == [0, NS // 2, NS]
    assert recording.streams["x"].timeline == "rows"
    assert recording.notes == {"streams of images left out (camera)": 1}
    read, _ = read_all(path, ReadOptions(rate=2, resize=(8, 6), topics=("cam*",)))
    assert read["0"]["camera"].values.shape == (3, 6, 8, 3)
    assert "expected a rate, since the recording has neither" in message_of(path)


def test_dates(tmp_path: Path) -> None:
    stamps = np.array(["2026-11-21T14:00:00", "2026-11-21T14:00:01"], "datetime64[ms]")
    read, _ = read_all(write(tmp_path / "a", x=np.zeros(2), t=stamps))
    assert read["0"]["x"].times.tolist() == [1795269600 * NS, 1795269601 * NS]
    stamps[1] = "NaT"
    path = write(tmp_path / "a", x=np.zeros(2), t=stamps)
    assert message_of(path) == f"{path}, t: expected a time in every row, got none in row 1"
    far = np.array(["3000-01-02", "9999-12-31"], "datetime64[D]")
    path = write(tmp_path / "a", x=np.zeros(2), t=far)
    assert message_of(path) == (
        f"{path}, t: expected times within 292 years of 1970, got 3000-01-02 to 9999-12-31"
    )


def test_rows_that_nobody_stamped_are_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "a", x=np.arange(3), t_ns=np.array([17 * 10**17, 0, 17 * 10**17 + 9]))
    read, recording = read_all(path)
    assert read["0"]["x"].values.tolist() == [0, 2]
    assert recording.notes == {"rows of x stamped zero, left out": 1}


def test_rows_out_of_order_are_sorted(tmp_path: Path) -> None:
    path = write(tmp_path / "a", x=np.arange(4), t=np.array([0.3, 0.1, 0.2, 0.1]))
    read, recording = read_all(path)
    assert read["0"]["x"].values.tolist() == [1, 3, 2, 0]
    assert recording.notes == {"rows of x earlier than the row before them, sorted by time": 2}


def test_large_arrays_come_in_chunks(tmp_path: Path) -> None:
    large = np.random.default_rng(0).normal(size=(70, 100_000))
    assert large.nbytes > CHUNK_BYTES
    read, _ = read_all(write(tmp_path / "a", x=large, t=np.arange(70.0)))
    assert np.array_equal(read["0"]["x"].values, large)


def test_what_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "a", x=np.zeros(2), t=np.arange(2.0), k=3.5, words=np.array(["a", "b"]))
    _, recording = read_all(path)
    assert recording.notes == {
        "arrays of a single number left out (k)": 1,
        "arrays of type <U1 left out (words)": 1,
    }


def test_times_that_nothing_has(tmp_path: Path) -> None:
    path = write(tmp_path / "a", x=np.zeros(2), x_times=np.arange(2.0), time=np.arange(9.0))
    read, recording = read_all(path)
    assert set(read["0"]) == {"x"}
    assert recording.notes == {"arrays of times that no other array has left out (time)": 1}


# ---- what is wrong -------------------------------------------------------------------------------


def test_times_that_do_not_fit(tmp_path: Path) -> None:
    path = write(tmp_path / "a", x=np.zeros(3), t=np.arange(2.0))
    assert message_of(path) == f"{path}: expected 3 times in t, as x has rows, got [2]"
    path = write(tmp_path / "a", x=np.zeros(3), t=np.arange(3))
    assert message_of(path) == (
        f"{path}: expected the unit of the integers in t, got none "
        "(--time-unit says it, or a name such as times_ns)"
    )
    path = write(tmp_path / "a", x=np.zeros(3), t=np.array([0, np.nan, 1]))
    assert message_of(path) == (
        f"{path}, t: expected times within 292 years of 1970, got nan in row 1"
    )


def test_objects_are_not_unpickled(tmp_path: Path) -> None:
    path = write(tmp_path / "a", x=np.zeros(2), t=np.arange(2.0), o=np.array([{}, {}], object))
    read, recording = read_all(path)
    assert set(read["0"]) == {"x"}
    assert recording.notes == {"arrays of type object left out (o)": 1}


def test_damaged(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", x=np.arange(1000), t=np.arange(1000.0))
    data = path.read_bytes()
    for size in (10, 500, len(data) - 30):
        path.write_bytes(data[:size])
        assert message_of(path).startswith(f"{path}: expected an NPZ file, got BadZipFile")
    middle = bytearray(data)
    middle[3000] ^= 1
    path.write_bytes(middle)
    assert message_of(path).startswith(f"{path}: expected an NPZ file, got BadZipFile: Bad CRC")


def test_nothing_else_is_raised_for_damaged_files(tmp_path: Path) -> None:
    """Bytes changed at random: a RecordingError, or rows."""
    path = write(tmp_path / "a.npz", x=np.arange(9), t=np.arange(9.0))
    data = path.read_bytes()
    random = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        changed = bytearray(data)
        for place in random.integers(0, len(data), random.integers(1, 4)):
            changed[place] = random.integers(0, 256)
        path.write_bytes(changed)
        try:
            read_all(path)
        except RecordingError:
            refused += 1
    assert refused > 200


def test_shapes_that_lie(tmp_path: Path) -> None:
    """An array whose header promises more rows than there are bytes, and not memory for them."""
    path = tmp_path / "a.npz"
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 3), }"
    header += b" " * (117 - len(header)) + b"\n"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x.npy", b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + header)
    assert message_of(path, ReadOptions(rate=1)) == (
        f"{path}: expected float64 [99999999999, 3] in x.npy, got 0 bytes"
    )


def test_two_arrays_of_one_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a", x=np.zeros(2), t=np.arange(2.0))
    with zipfile.ZipFile(path) as file:
        data = file.read("x.npy")
    with (
        zipfile.ZipFile(path, "a") as file,
        pytest.warns(UserWarning, match="Duplicate name"),
    ):
        file.writestr("x.npy", data)
    assert message_of(path) == f"{path}: expected arrays of different names, got x twice"


def test_foreign_zip_files(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("notes.txt", "text")
    assert message_of(path).startswith(f"{path}: expected a recording: ")
    assert find_recordings(tmp_path) == []


def test_no_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "a", x=np.zeros((0, 3)), t=np.zeros(0))
    read, recording = read_all(path)
    assert read == {} and recording.notes == {"episodes without rows, skipped": 1}


def test_permission_denied(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", x=np.zeros(2), t=np.arange(2.0))
    path.chmod(0)
    message = unprivileged(message_of, path)
    assert message == f"{path}: expected a recording, got permission denied"
