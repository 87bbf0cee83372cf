"""States of recordings: sizes and times of files, and their text in the header of a shard."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from robocache.store.source_state import RecordingState, from_text, state_of, to_text


def write(path: Path, size: int, changed_ns: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    os.utime(path, ns=(0, changed_ns))
    return path


def test_a_file(tmp_path: Path) -> None:
    assert state_of(write(tmp_path / "a", 5, 7_000)) == RecordingState(5, 7_000)
    with pytest.raises(FileNotFoundError):
        state_of(tmp_path / "b")


def test_a_folder(tmp_path: Path) -> None:
    """All files at any depth count, and a broken link does not; nor does the folder itself."""
    folder = tmp_path / "folder"
    folder.mkdir()
    assert state_of(folder) == RecordingState(0, 0)
    write(folder / "a", 5, 7_000)
    write(folder / "in" / "b", 11, 9_000)
    write(folder / "in" / "c", 3, 8_000)
    (folder / "in" / "broken").symlink_to(tmp_path / "nothing")
    assert state_of(folder) == RecordingState(19, 9_000)


def test_the_text_joins_equal_neighbors() -> None:
    a, b = RecordingState(10, 20), RecordingState(10, 21)
    states = [a, a, None, None, None, b, a]
    assert to_text(states) == "[[2,10,20],[3],[1,10,21],[1,10,20]]"
    assert from_text(to_text(states), 7) == states
    assert from_text("[]", 0) == []


@pytest.mark.parametrize("value", [-(1 << 63), -1, 0, 1, (1 << 63) - 1])
def test_numbers_of_64_bits(value: int) -> None:
    assert from_text(f"[[1,{value},{value}]]", 1) == [RecordingState(value, value)]


@pytest.mark.parametrize("value", [-(1 << 63) - 1, 1 << 63])
def test_numbers_of_more_bits(value: int) -> None:
    assert from_text(f"[[1,{value},0]]", 1) == [None]
    assert from_text(f"[[1,0,{value}]]", 1) == [None]


@pytest.mark.parametrize(
    "text", ["[[0,1,2]]", "[[2,1,2]]", "[[1,1,2],[1]]", "[[1,1]]", "[[1,1,2,3]]"]
)
def test_runs_that_do_not_fit_the_episodes(text: str) -> None:
    assert from_text(text, 1) == [None]


def test_text_for_people() -> None:
    assert str(RecordingState(1234, 5_000_000)).startswith("1,234 bytes of 1970-01-01 ")
    assert str(RecordingState(1, 5_000_000)).endswith(":00.005")
