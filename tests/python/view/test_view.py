"""Pictures of episodes: which channels and streams are drawn, time ranges, kinds of files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conversions import robocache

import robocache as rc
from robocache.doctor.episode_data import open_data
from robocache.doctor.finding import Series
from robocache.readers import ReadOptions, StreamMetadata
from robocache.view.selection import EpisodePart, cut, most_varying, moves

S = 1_000_000_000
START = 1_700_000_000 * S


def series(values: np.ndarray) -> Series:
    return Series("x", np.arange(len(values)) * S, values, StreamMetadata())


def write_store(path: Path, streams: int = 0) -> Path:
    """10 s of an arm of 20 joints, of which the odd ones move, and of a camera."""
    t = np.arange(100)
    arm = np.where(np.arange(20) % 2, np.sin(t[:, None] / 9) * np.arange(20), 3.0)
    frames = np.broadcast_to(t[:, None, None, None].astype(np.uint8), (100, 4, 6, 3))
    with rc.StoreWriter(path) as writer, writer.episode() as episode:
        episode.add("arm", START + t * S // 10, arm)
        episode.add("camera", START + t * S // 10, np.ascontiguousarray(frames))
        for number in range(streams):
            values = np.zeros((100, 1)) if number % 3 else t[:, None] * 1.0
            episode.add(f"sensor_{number}", START + t * S // 10, values)
    return path


def test_the_channels_that_vary_most() -> None:
    t = np.arange(50.0)[:, None]
    values = t * np.array([0, 3, 1, -9, 2])
    assert most_varying(series(values), 2) == [1, 3]
    assert most_varying(series(values), 9) == [0, 1, 2, 3, 4]
    values[:, 1] = np.nan  # which says nothing
    values[7, 3] = np.inf
    assert most_varying(series(values), 2) == [3, 4]
    assert not moves(series(values[:, :2])) and moves(series(values))
    assert not moves(series(np.full((3, 2), np.nan)))


def test_frames_of_a_time_range(tmp_path: Path) -> None:
    """Rows count from the range's start."""
    with open_data(write_store(tmp_path / "s"), ReadOptions()) as data:
        episode = data.episodes[0]
        streams = episode.load()
        span = (START + 2 * S, START + 3 * S)
        arm, camera = cut(streams, *span)
        assert arm.times[0] == span[0] and arm.times[-1] == span[1] and len(arm.values) == 11
        frames = EpisodePart(episode, streams, *span).frames("camera", [0, 10])
        assert frames is not None and frames[:, 0, 0, 0].tolist() == [20, 30]
        assert len(camera.values) == 11
        assert cut(streams, START - 5, START - 1) == []


@pytest.mark.parametrize(
    ("suffix", "magic"),
    [("jpg", b"\xff\xd8"), ("jpeg", b"\xff\xd8"), ("png", b"\x89PNG"), ("pdf", b"%PDF")],
)
def test_kinds_of_pictures(tmp_path: Path, suffix: str, magic: bytes) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / f"episode.{suffix}"
    store = write_store(tmp_path / "s")
    done = robocache("view", store, "--output", picture, "--from", 2, "--to", 3.5)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (f"wrote {picture}\n  drawn: 8 of 20 channels of arm, which vary most\n")
    assert picture.read_bytes().startswith(magic)


def test_a_picture_is_of_the_range_and_its_channels(tmp_path: Path) -> None:
    """An SVG's text says which."""
    pytest.importorskip("matplotlib")
    picture = tmp_path / "episode.svg"
    store = write_store(tmp_path / "s", streams=30)
    done = robocache("view", store, "--output", picture, "--from", 2)
    assert "drawn: values of 12 of 32 streams, those that move" in done.stdout
    text = picture.read_text()
    assert "<!-- arm   float64 20, linear; the 8 channels that vary most, 12 left out -->" in text
    assert "<!-- 80 rows, 10 Hz -->" in text
    for channel in range(5, 20, 2):
        assert f"<!-- {channel} -->" in text
    assert "<!-- 18 -->" not in text


def test_streams_and_ranges_that_are_not_there(tmp_path: Path) -> None:
    store = write_store(tmp_path / "s")
    for options, message in (
        (("--from", 50), "--from: expected a range within 0 to 9.900 s, got 50"),
        (("--to", -1), "--to: expected a range within 0 to 9.900 s, got -1"),
        (("--from", 3, "--to", 2), "--to: expected more than --from 3, got 2"),
        (("--topic", "leg"), "topics: expected some of arm, camera; got 'leg'"),
    ):
        done = robocache("view", store, "--output", tmp_path / "a.png", *options)
        assert (done.returncode, done.stderr) == (2, f"robocache: {message}\n")
    assert not (tmp_path / "a.png").exists()
