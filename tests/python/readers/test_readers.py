"""Behavior of all readers: recognition, options, errors, order in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from privileges import unprivileged

from robocache import readers
from robocache.conversion import convert
from robocache.core.extras import require
from robocache.doctor import examine
from robocache.doctor.overview import overview
from robocache.readers import (
    EpisodeReader,
    MissingLibrary,
    Reader,
    ReadOptions,
    Recording,
    RecordingError,
    Rows,
    find_recordings,
    open_recording,
)
from robocache.readers.recording import note_lines
from robocache.readers.rows import CHUNK_BYTES, chunks, row_times, sort_rows


class Letters(Recording):
    """Files that begin with ABC, of no episodes."""

    format = "letters"

    def episodes(self) -> Sequence[EpisodeReader]:
        return ()


@dataclass(frozen=True)
class FaultyEpisode:
    """Its library raises what nobody foresaw."""

    key: str = "0"
    task: str | None = None
    subsets: tuple[str, ...] = ()

    def read(self) -> Iterator[Rows]:
        raise AttributeError("no attribute\n'velocity'")


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> Reader:
    reader = Reader(
        "letters",
        "letters",
        "a file of letters",
        lambda path: readers.errors.head(path, 3) == b"ABC",
        Letters,
    )
    monkeypatch.setattr(readers, "READERS", (reader,))
    return reader


# ---- finding -------------------------------------------------------------------------------------


def test_a_recording_is_recognized_by_its_content(letters: Reader, tmp_path: Path) -> None:
    (tmp_path / "any.name").write_bytes(b"ABCDEF")
    with open_recording(tmp_path / "any.name") as recording:
        assert recording.format == "letters"
        assert recording.options == ReadOptions()


@pytest.mark.parametrize(
    ("content", "got"), [(b"", "an empty file"), (b"xyz", "a file that begins with b'xyz'")]
)
def test_a_foreign_file(letters: Reader, tmp_path: Path, content: bytes, got: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(content)
    with pytest.raises(RecordingError) as error:
        open_recording(path)
    expected = f"{path}: expected a recording: letters (a file of letters); got {got}"
    assert str(error.value) == expected
    assert find_recordings(path) == []


def test_a_foreign_folder(letters: Reader, tmp_path: Path) -> None:
    for name in "abcdef":
        (tmp_path / name).touch()
    with pytest.raises(RecordingError, match=r"got a folder with a, b, c, d and 2 more$"):
        open_recording(tmp_path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.bag", "ROS 1 bag (a .bag file of version 2.0)"),
        ("a.db3", "ROS 2 bag (a folder with metadata.yaml, or a .db3 file)"),
        ("a.mcap", "MCAP (a .mcap file)"),
        ("a.ulg", "PX4 ULog (a .ulg file)"),
        ("a.HDF5", "robomimic HDF5 (an HDF5 file)"),
        ("a.h5", "robomimic HDF5 (an HDF5 file)"),
        ("a.npz", "NPZ (an .npz file of arrays)"),
        ("a.parquet", "Parquet (a Parquet file)"),
        ("a.csv", "CSV (a .csv or .tsv file with a line of names)"),
    ],
)
def test_a_file_that_is_named_as_a_recording(tmp_path: Path, name: str, expected: str) -> None:
    """A recorder that crashed leaves such a file: it is not passed over in silence."""
    path = tmp_path / name
    path.touch()
    (tmp_path / "notes.txt").touch()
    assert find_recordings(tmp_path) == [path]
    with pytest.raises(RecordingError) as error:
        open_recording(path)
    assert str(error.value) == f"{path}: expected a recording: {expected}; got an empty file"


def test_no_such_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with pytest.raises(RecordingError) as error:
        open_recording(path)
    assert str(error.value) == f"{path}: expected a recording, got no such file"


def test_recordings_of_a_folder_are_sorted(letters: Reader, tmp_path: Path) -> None:
    for name in ("b/2", "b/1", "a", "c/d/e", ".hidden/x", ".y"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"ABC")
    (tmp_path / "foreign").write_bytes(b"x")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = [str(path.relative_to(tmp_path)) for path in find_recordings(tmp_path)]
    assert found == ["a", "b/1", "b/2", "c/d/e"]


def test_permission_denied(tmp_path: Path) -> None:
    closed, good = tmp_path / "closed.csv", tmp_path / "good.csv"
    for path, mode in ((closed, 0), (good, 0o644)):
        path.write_text("t,x\n0.5,1\n")
        path.chmod(mode)
    with pytest.raises(RecordingError) as error:
        unprivileged(open_recording, closed)
    found = unprivileged(find_recordings, tmp_path)
    assert str(error.value) == f"{closed}: expected a recording, got permission denied"
    assert found == [closed, good]


def test_what_a_library_raises(letters: Reader, tmp_path: Path, monkeypatch: Any) -> None:
    """An error that nobody foresaw is one of the recording, to whoever looks at it."""
    monkeypatch.setattr(Letters, "episodes", lambda _: (FaultyEpisode(),))
    path = tmp_path / "a"
    path.write_bytes(b"ABC")
    text = "expected episode 0 to be readable, got AttributeError: no attribute 'velocity'"
    (finding,) = examine(path).findings  # it is not called short, or without streams, besides
    assert finding.kind == "unreadable" and f"{path}: {text}" in finding.text
    with pytest.raises(RecordingError, match=text):
        overview(path)
    (skipped,) = convert(path, tmp_path / "store", workers=1).skipped
    assert (skipped.source, skipped.reason) == (f"{path}#0", text)


# ---- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0}, "rate: expected rows per second above 0, got 0"),
        ({"rate": float("inf")}, "rate: expected rows per second above 0, got inf"),
        ({"resize": (0, 2)}, "resize: expected a width and a height above 0, got (0, 2)"),
        ({"fit": "x"}, "fit: expected one of pad, crop, stretch, got 'x'"),
        ({"stamp": "x"}, "stamp: expected one of header, received, got 'x'"),
        ({"time_unit": "min"}, "time_unit: expected one of ns, us, ms, s, got 'min'"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the message is compared whole)
        ReadOptions(**options)
    assert str(error.value) == message


def test_topics_are_patterns() -> None:
    names = ["/imu/data", "/fix", "/imu/mag"]
    assert ReadOptions().select(names) == names
    assert ReadOptions(topics=("/fix", "/imu/m*")).select(names) == ["/fix", "/imu/mag"]
    with pytest.raises(ValueError, match=r"^topics: expected some of /imu/data, /fix, /imu/mag; "):
        ReadOptions(topics=("/imu/data", "/gps")).select(names)


def test_a_missing_library_says_what_to_install() -> None:
    with pytest.raises(MissingLibrary) as error:
        require("no_such_library.part", "ULog", "ulog")
    expected = (
        "reading ULog needs no_such_library: pip install 'pyulog>=1.1' "
        "(or, in a checkout: pip install '.[ulog]')"
    )
    assert str(error.value) == expected


# ---- rows ----------------------------------------------------------------------------------------


def test_rows_that_nobody_stamped_are_left_out() -> None:
    """Zeros after a later time; not those that a clock comes through."""
    notes: Counter[str] = Counter()
    times = np.array([0, 5, 0, 0, 4, 7])
    ordered = sort_rows(Rows("s", times, np.arange(6)), notes)
    assert (ordered.times.tolist(), ordered.values.tolist()) == ([0, 4, 5, 7], [0, 4, 1, 5])
    assert note_lines(notes) == [
        "rows of s earlier than the row before them, sorted by time: 1",
        "rows of s stamped zero, left out: 2",
    ]
    notes.clear()
    for through in ([-2, 0, 0, 3], [0, 0, 0], []):
        rows = Rows("s", np.array(through, np.int64), np.arange(len(through)))
        assert sort_rows(rows, notes) is rows
    assert not notes


def test_rows_that_go_back_are_sorted_stably() -> None:
    notes: Counter[str] = Counter()
    rows = Rows("s", np.array([5, 3, 5, 4, 9]), np.arange(5), valid=np.array([1, 1, 0, 1, 1], bool))
    ordered = sort_rows(rows, notes)
    assert ordered.times.tolist() == [3, 4, 5, 5, 9]
    assert ordered.values.tolist() == [1, 3, 0, 2, 4]
    assert ordered.valid is not None and ordered.valid.tolist() == [True, True, True, False, True]
    assert note_lines(notes) == ["rows of s earlier than the row before them, sorted by time: 2"]
    assert sort_rows(ordered, notes) is ordered
    apart = Rows("s", np.array([2**63 - 1, -(2**63)]), np.arange(2))
    assert sort_rows(apart, notes).times.tolist() == [-(2**63), 2**63 - 1]


def test_times_from_a_rate_do_not_drift() -> None:
    exact = [round(row * 1_000_000_000 / 30) for row in (0, 1, 2, 3_000_000, 3_000_001)]
    assert row_times(0, 3, 30).tolist() == exact[:3]
    assert row_times(3_000_000, 2, 30).tolist() == exact[3:]


def test_chunks_are_bounded() -> None:
    values = np.zeros((5, CHUNK_BYTES // 2), np.uint8)
    parts = list(chunks(Rows("s", np.arange(5), values)))
    assert [part.times.tolist() for part in parts] == [[0, 1], [2, 3], [4]]
    assert all(np.shares_memory(part.values, values) for part in parts)
    assert list(chunks(Rows("s", np.arange(0), np.zeros(0)))) == []
