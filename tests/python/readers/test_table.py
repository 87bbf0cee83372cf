"""CSV and Parquet of one recording: every row, the time's unit, streams of several rates."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from privileges import unprivileged
from recordings import DATA, message_of, needs, read_all

import robocache as rc
from robocache.readers import ReadOptions, find_recordings, open_recording
from robocache.readers.tables import csv_table, table

pa = pytest.importorskip("pyarrow", reason="tables need pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="tables need pyarrow")
csv = pytest.importorskip("pyarrow.csv", reason="tables need pyarrow")

G1 = DATA / "lerobot_v21_g1/data/chunk-000/episode_000001.parquet"
NS = 1_000_000_000


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


# ---- CSV -----------------------------------------------------------------------------------------


def test_streams_of_several_rates(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv",
        "time,imu.x,imu.y,gps/lat,gps/lon,joint_0,joint_1,name,q[0],q[1],alone\n"
        "0,1,2,,,0,1,a,5,6,1\n"
        "0.01,3,4,48.5,11.5,2,3,b,,,1\n"
        "0.02,5,,,,4,5,c,9,nan,\n",
    )
    read, recording = read_all(path)
    streams = read["0"]
    assert recording.format == "CSV"
    assert {name: rows.values.tolist() for name, rows in streams.items() if name != "imu"} == {
        "gps": [[48.5, 11.5]],
        "joint": [[0, 1], [2, 3], [4, 5]],
        "q": [[5, 6], [9, pytest.approx(np.nan, nan_ok=True)]],
        "alone": [1, 1],
    }
    # A number that is missing beside one that is there.
    np.testing.assert_array_equal(streams["imu"].values, [[1, 2], [3, 4], [5, np.nan]])
    assert streams["gps"].times.tolist() == [10_000_000]
    assert streams["q"].times.tolist() == [0, 20_000_000]
    assert streams["alone"].times.tolist() == [0, 10_000_000]
    assert recording.streams["gps"].channels == ("lat", "lon")
    assert recording.streams["joint"].channels == ("0", "1")
    assert recording.streams["alone"].channels is None
    assert recording.streams["gps"].source == "columns gps/lat, gps/lon"
    assert recording.notes == {"columns that are not numbers left out (name)": 1}


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("time", ["1700000000.123456789", "1700000001"], [1700000000123456789, 1700000001 * NS]),
        ("t", ["-0.5", "1e-3"], [-NS // 2, 1_000_000]),
        ("time", ["0", "0.5"], [0, NS // 2]),
        # Digits below a nanosecond are rounded, a tie to the even one; all other rows stay exact.
        ("time", ["1700000000.123456789", "1700000001.1234567894999999999999999999999999999999"],
         [1700000000123456789, 1700000001123456789]),
        ("time", ["1700000000.1234567885", "1.700000001123456789e9"],
         [1700000000123456788, 1700000001123456789]),
        ("time_us", ["1700000000000000.1239", "1700000000000001.9995"],
         [1700000000000000124, 1700000000000002000]),
        ("time_ns", ["1700000000123456789", "1700000000123456789.75"],
         [1700000000123456789, 1700000000123456790]),
        ("time", [" 1700000000.123456789", "\t1700000001.5 "],
         [1700000000123456789, 1700000001 * NS + NS // 2]),
        ("timestamp_ns", ["1700000000123456789", "1700000000123456790"],
         [1700000000123456789, 1700000000123456790]),
        ("Time [us]", ["10", "12.5"], [10_000, 12_500]),
        ("stamp_ms", ["10", "12"], [10_000_000, 12_000_000]),
        ("t(s)", ["1", "2"], [NS, 2 * NS]),
        ("time", ["2026-11-21 14:00:00.000000001", "2026-11-21T14:00:01"],
         [1795269600 * NS + 1, 1795269601 * NS]),
        ("time", ["2026-11-21T14:00:00Z", "2026-11-21T15:00:01+01:00"],
         [1795269600 * NS, 1795269601 * NS]),
    ],
)  # fmt: skip
def test_times_are_exact(tmp_path: Path, name: str, values: list[str], expected: list[int]) -> None:
    path = write(tmp_path / "a.csv", f"x,{name}\n1,{values[0]}\n2,{values[1]}\n")
    read, recording = read_all(path)
    assert read["0"]["x"].times.tolist() == expected
    assert recording.streams["x"].timeline == "time"


def test_the_time_that_the_options_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "time,clock,x\n0,7,1\n1,8,2\n")
    read, _ = read_all(path, ReadOptions(time_column="clock", time_unit="ms"))
    assert read["0"]["x"].times.tolist() == [7_000_000, 8_000_000]
    assert read["0"]["time"].values.tolist() == [0, 1]
    assert message_of(path, ReadOptions(time_column="x2")) == (
        f"{path}: expected a column of times (x2), got time, clock, x "
        "(--time-column names it; --rate does without)"
    )


def test_a_rate_in_place_of_times(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "x,y\n1,2\n3,4\n")
    read, recording = read_all(path, ReadOptions(rate=4))
    assert read["0"]["y"].times.tolist() == [0, NS // 4]
    assert recording.streams["x"].timeline == "rows" and recording.streams["x"].rate == 4
    assert message_of(path) == (
        f"{path}: expected a column of times (timestamp, timestamps, time_stamp, time, times, "
        "stamp, stamps, t), got x, y (--time-column names it; --rate does without)"
    )


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiters(tmp_path: Path, delimiter: str) -> None:
    lines = (["t", '"a b"', "c"], ["0.5", "1", "2"], ["1.5", "3", "4"])
    text = "\ufeff" + "\r\n".join(delimiter.join(line) for line in lines)
    path = write(tmp_path / "a.tsv", text)
    read, _ = read_all(path)
    assert read["0"]["a b"].values.tolist() == [1, 3]
    assert read["0"]["c"].times.tolist() == [NS // 2, 3 * NS // 2]


def test_spaces_around_names_and_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "time, imu.x, imu.y, q_0, q_1, a b \n0.5, 1, 2, 3, 4, 5\n")
    read, recording = read_all(path)
    assert {name: rows.values.tolist() for name, rows in read["0"].items()} == {
        "imu": [[1, 2]],
        "q": [[3, 4]],
        "a b": [5],
    }
    assert recording.streams["imu"].channels == ("x", "y")
    write(path, "time,x, x\n0.5,1,2\n")
    assert message_of(path) == f"{path}: expected streams of different names, got x twice"


def test_whole_numbers_are_floats_too(tmp_path: Path) -> None:
    """A sensor that happens to give whole numbers has the type that it has in the next file."""
    path = write(tmp_path / "a.csv", "t,x,flag\n0.1,1,true\n0.2,2,false\n")
    read, _ = read_all(path)
    assert read["0"]["x"].values.dtype == np.float64
    assert read["0"]["flag"].values.dtype == np.bool_


def test_rows_that_nobody_stamped_are_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "t,x\n1700000000.5,1\n0,2\n1700000001.5,3\n")
    read, recording = read_all(path)
    assert read["0"]["x"].values.tolist() == [1, 3]
    assert recording.notes == {"rows of x stamped zero, left out": 1}


def test_rows_out_of_order_are_sorted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "t,x,y\n0.2,1,\n0.1,2,5\n0.3,3,\n0.1,4,6\n")
    read, recording = read_all(path)
    assert read["0"]["x"].values.tolist() == [2, 4, 1, 3]
    assert read["0"]["y"].values.tolist() == [5, 6]
    assert recording.notes == {"rows of x earlier than the row before them, sorted by time": 2}


def test_types_of_a_small_file_come_from_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its beginning is looked at first, so that listing many files does not parse them twice."""
    monkeypatch.setattr(csv_table, "BEGINNING_BYTES", 60)
    rows = [f"{i}.0,{i},{'x' if i == 90 else i},{i if i > 80 else ''}" for i in range(100)]
    path = write(tmp_path / "a.csv", "\n".join(["t,n.x,n.y,late", *rows, ""]))
    read, recording = read_all(path)
    assert read["0"]["late"].values.tolist() == list(range(81, 100))
    assert list(read["0"]) == ["n.x", "late"]
    assert recording.notes == {"columns that are not numbers left out (n.y)": 1}

    rows = [f"{i}.0,{'x' if i == 90 else i},{i / 2}" for i in range(100)]
    path = write(tmp_path / "b.csv", "\n".join(["t,n.x,n.y", *rows, ""]))
    with open_recording(path) as recording:
        assert recording.streams["n"].channels == ("x", "y")
        (one,) = next(iter(recording.episodes())).read()
        assert list(recording.streams) == ["n.y"]
        assert one.values.tolist() == [i / 2 for i in range(100)]
        assert recording.notes == {"columns that are not numbers left out (n.x)": 1}


def test_a_conversion_parses_each_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "csv").mkdir()
    for i in range(3):
        write(tmp_path / "csv" / f"{i}.csv", "t,x\n0.0,1\n0.1,2\n")
    parsed: list[str] = []
    read_csv = csv.read_csv

    def count(path: Path, **options: Any) -> Any:
        parsed.append(path.name)
        return read_csv(path, **options)

    monkeypatch.setattr(csv, "read_csv", count)
    assert rc.convert(tmp_path / "csv", tmp_path / "s").episodes == 3
    assert parsed == ["0.csv", "1.csv", "2.csv"]


def test_large_files_are_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As files above the limit are; with numbers that are whole at first."""
    monkeypatch.setattr(table, "WHOLE_BYTES", 1000)
    monkeypatch.setattr(csv_table, "BLOCK_BYTES", 1 << 20)
    count = 150_000
    times = np.arange(count) * 0.001
    values = np.where(np.arange(count) < count - 5, np.arange(count), 0.5)
    path = tmp_path / "a.csv"
    csv.write_csv(pa.table({"time": times, "x": values, "y": np.arange(count)}), path)
    assert path.stat().st_size > 3 << 20
    read, _ = read_all(path)
    np.testing.assert_array_equal(read["0"]["x"].values, values)
    np.testing.assert_array_equal(read["0"]["x"].times, np.arange(count) * 1_000_000)

    times[-1] = 0.25
    csv.write_csv(pa.table({"time": times, "x": values, "y": np.arange(count)}), path)
    assert "expected ascending times in a file above " in message_of(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time,x\n0,1\n1,2\n", "expected the unit of the integers in column time, got none "
         "(--time-unit says it, or a name such as time_ns)"),
        ("time,x,x\n0.5,1,2\n", "expected columns of different names, got x twice"),
        ("t,a.0,a.1,a_0,a_1\n0.5,1,2,3,4\n", "expected streams of different names, got a twice"),
        ("t,name\n0.5,a\n", "expected columns of numbers beside the time, got others (name)"),
    ],
)  # fmt: skip
def test_csv_that_cannot_be_read(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path / "a.csv", text)
    assert message_of(path) == f"{path}: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t,x\n0.5,1\n,2\n", "expected a time in every row, got none in row 1"),
        ("t,x\n0.5,1\nabc,2\n", "expected a number, got 'abc' in row 1"),
        ("t;x\n0,5;1\n0,6;2\n", "expected a number, got '0,5' in row 0"),
        ("t,x\n0.5,1\n1e30,2\n", "expected times within 292 years of 1970, got '1e30' in row 1"),
        ("t,x\n0.5,1\n99999999999999.5,2\n", "expected times within 292 years of 1970, got "),
        ("t,x\n0.5,1\nnan,2\n", "expected times within 292 years of 1970, got 'nan' in row 1"),
        ("t,x\n0.5,1\n1e999999999999999999999,2\n",
         "expected times within 292 years of 1970, got '1e999999999999999999999' in row 1"),
    ],
)  # fmt: skip
def test_times_that_cannot_be_read(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path / "a.csv", text)
    assert message_of(path).startswith(f"{path}, column t: {message}")


def test_csv_that_is_cut_or_foreign(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "t,x\n0.5,1\n1.5")
    assert message_of(path).startswith(f"{path}: expected CSV, got ArrowInvalid: ")
    for text in ("", "one line\n", "1,2\n3,4\n", "a,b,c\n1,2\n"):
        write(path, text)
        assert message_of(path).startswith(f"{path}: expected a recording: CSV (")
    path.write_bytes(b"\xff\xfe,\x00\n,")
    assert message_of(path).startswith(f"{path}: expected a recording: CSV (")
    assert find_recordings(tmp_path) == [path], "its name says what it was to be"
    read, recording = read_all(write(path, "t,x\n"))
    assert read == {} and recording.notes["episodes without rows, skipped"] == 1


# ---- Parquet -------------------------------------------------------------------------------------


@needs(G1)
def test_every_row_is_pyarrow() -> None:
    read, recording = read_all(G1)
    expected = pq.read_table(G1)
    assert recording.format == "Parquet"
    assert set(read["0"]) == set(expected.column_names) - {"timestamp"}
    stamps = expected["timestamp"].to_numpy().astype(np.float64)
    for name, rows in read["0"].items():
        np.testing.assert_array_equal(rows.values, np.array(expected[name].to_pylist()))
        np.testing.assert_array_equal(rows.times, np.rint(stamps * NS).astype(np.int64))


def test_parquet_columns_of_every_kind(tmp_path: Path) -> None:
    path = tmp_path / "anything"
    start = datetime.datetime(2026, 11, 21, 14, tzinfo=datetime.timezone.utc)
    columns = {
        "stamp": pa.array([start, start + datetime.timedelta(microseconds=1)]),
        "imu": pa.array([{"x": 1.0, "y": 2.0}, {"x": 3.0, "y": None}]),
        "pose": pa.array([[1, 2, 3], [4, 5, 6]], pa.list_(pa.float32(), 3)),
        "grid": pa.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], pa.list_(pa.list_(pa.int8()))),
        "count": pa.array([None, 7], pa.int32()),
        "half": pa.array(np.array([0.5, 1.5], np.float16)),
        "word": pa.array(["a", "b"]),
        "words": pa.array([["a"], ["b"]]),
    }
    pq.write_table(pa.table(columns), path)
    read, recording = read_all(path)
    streams = read["0"]
    start_ns = 1795269600 * NS
    assert streams["pose"].times.tolist() == [start_ns, start_ns + 1000]
    np.testing.assert_array_equal(streams["imu"].values, [[1, 2], [3, np.nan]])
    assert recording.streams["imu"].channels == ("x", "y")
    assert streams["pose"].values.dtype == np.float32 and streams["pose"].values.shape == (2, 3)
    assert streams["grid"].values.tolist() == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    assert streams["count"].values.tolist() == [7]
    assert streams["count"].values.dtype == np.int32
    assert streams["half"].values.dtype == np.float16
    assert recording.notes == {
        "columns that are not numbers left out (word)": 1,
        "columns that are not numbers left out (words)": 1,
    }


def test_names_with_dots_that_are_not_structures(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    columns: dict[str, Any] = {
        "t": [0.0, 0.1],
        "observation.state": [[1.0, 2.0], [3.0, 4.0]],
        "observation.speed": [5.0, 6.0],
        "observation": [{"speed": 7.0}, {"speed": 8.0}],
    }
    pq.write_table(pa.table(columns), path)
    assert message_of(path) == (
        f"{path}: expected columns of different names, got observation.speed twice"
    )
    del columns["observation"]
    pq.write_table(pa.table(columns), path)
    read, _ = read_all(path)
    assert read["0"]["observation.state"].values.tolist() == [[1, 2], [3, 4]]
    assert read["0"]["observation.speed"].values.tolist() == [5, 6]


def test_large_parquet_is_read_by_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "WHOLE_BYTES", 1000)
    path = tmp_path / "a.parquet"
    times = np.arange(1000) * 1_000_000
    pq.write_table(pa.table({"time_ns": times, "x": np.arange(1000.0)}), path, row_group_size=100)
    read, _ = read_all(path)
    assert read["0"]["x"].times.tolist() == times.tolist()
    assert read["0"]["x"].values.tolist() == list(range(1000))


def test_damaged_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"t": [0.0, 0.1], "x": [1, 2]}), path)
    data = path.read_bytes()
    for size in (4, 50, len(data) - 1):
        path.write_bytes(data[:size])
        assert message_of(path).startswith(f"{path}: expected Parquet, got ArrowInvalid: ")
    pq.write_table(pa.table({"t": [0.0, 0.1], "x": [1, 2]}).slice(0, 0), path)
    read, recording = read_all(path)
    assert read == {} and recording.notes["episodes without rows, skipped"] == 1


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_permission_denied(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    columns = pa.table({"t": [0.0, 0.1], "x": [1, 2]})
    (csv.write_csv if name == "a.csv" else pq.write_table)(columns, path)
    path.chmod(0)
    message = unprivileged(message_of, path)
    assert message == f"{path}: expected a recording, got permission denied"


def test_missing_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"t": [0.0, 0.1], "a.x": [1, 2], "a.y": [None, 4]}), path)
    assert message_of(path) == (
        f"{path}, column a.y: expected a number in every row, got none in 1"
    )


def test_topics(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "t,a.x,a.y,b\n0.5,1,2,3\n")
    read, _ = read_all(path, ReadOptions(topics=("a",)))
    assert set(read["0"]) == {"a"}
    with open_recording(path) as recording:
        assert set(recording.streams) == {"a", "b"}
