"""The doctor's findings on streams of different clocks, and on timestamps beside a nominal rate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robocache.doctor import Series, check_episode, examine
from robocache.doctor.clocks import two_clocks
from robocache.readers import StreamMetadata
from robocache.readers.rows import row_times
from robocache.store.writer import StoreWriter

START = 1_700_000_000_000_000_000
MS = 1_000_000
S = 1_000_000_000


def series(name: str, times: np.ndarray, received: np.ndarray | None = None) -> Series:
    values = np.random.default_rng(0).normal(size=(len(times), 2))
    return Series(name, times, values, StreamMetadata(), received)


def steps(count: int = 500, begin: int = 0, step: int = 10 * MS) -> np.ndarray:
    return begin + np.arange(count) * step


def test_rows_far_from_their_receipt() -> None:
    arm = series("arm", steps(), START + steps())
    imu = series("imu", START + steps(), START + steps() + 20 * MS)
    (found,) = two_clocks([arm, imu])
    assert (found.kind, found.severity, found.stream, found.count) == (
        "two_clocks",
        "error",
        None,
        1,
    )
    assert found.text == (
        "1 stream is stamped by another clock than that of their receipt, 19,676 d away: arm"
    )
    assert found.advice == (
        "convert the recording with all rows stamped by when they were received, which is one "
        "clock (convert --stamp received): to a causal loader no row has arrived in time"
    )


@pytest.mark.parametrize("latency", [0, 36 * MS, 9 * S, -9 * S])
def test_latency_is_no_clock(latency: int) -> None:
    assert two_clocks([series("imu", START + steps(), START + steps() + latency)]) == []


def test_latched_rows_are_of_one_clock() -> None:
    map_ = series("map", np.array([START - 5000 * S]), np.array([START]))
    assert two_clocks([map_, series("imu", START + steps(), START + steps())]) == []


def test_streams_far_from_all_others() -> None:
    """As in files that say nothing of receipt."""
    streams = [
        series("arm", START + steps()),
        series("hand", START + steps() + 3 * S),
        series("camera", steps(100)),
    ]
    (found,) = two_clocks(streams)
    assert found.text == (
        "1 stream is stamped by another clock than the others, 19,676 d away: camera"
    )
    assert found.advice == (
        "messages: convert --stamp received puts all on one clock; else add the difference to the "
        "times of these streams (clock_offset when aligning), or leave them out"
    )
    assert "two_clocks" in {f.kind for f in check_episode(streams)}
    assert two_clocks(streams[:2]) == []
    assert two_clocks([streams[0], series("late", START + steps() + 3600 * S)]) == [], "its turn"


# ---- timestamps of recordings with a nominal rate ------------------------------------------------


def by_rows(times: np.ndarray, rate: float | None = 20.0) -> Series:
    metadata = StreamMetadata(rate=rate, timeline="rows")
    return replace(series("state", times), metadata=metadata)


def test_kept_timestamps_are_examined() -> None:
    times = np.rint(np.arange(300) / 18.3 * 1e9).astype(np.int64)
    (found,) = check_episode([by_rows(times)])
    assert (found.kind, found.severity) == ("wrong_rate", "warning")
    assert found.text == "said to have 20 Hz, its rows come at 18.3 Hz"
    assert found.advice == (
        "windows that count rows take each for 50 ms, and it is 54.6 ms: timeline='time' goes by "
        "the timestamps"
    )
    times[150:] += 2 * S
    assert {f.kind for f in check_episode([by_rows(times)])} == {"wrong_rate", "gap"}


def test_times_made_from_the_rate_have_nothing_to_tell() -> None:
    assert check_episode([by_rows(row_times(0, 300, 20.0))]) == []
    assert check_episode([by_rows(row_times(0, 300, 18.3), rate=None)]) == []


def test_kept_timestamps_of_a_store(tmp_path: Path) -> None:
    times = np.rint(np.arange(300) / 18.3 * 1e9).astype(np.int64)
    with StoreWriter(tmp_path / "store") as writer:
        writer.declare("state", rate=20.0, timeline="rows")
        with writer.episode() as episode:
            episode.add("state", times, by_rows(times).values)
    assert [f.kind for f in examine(tmp_path / "store").findings] == ["wrong_rate"]


def causes(streams: list[Series]) -> dict[str, set[str | None]]:
    """The causes of each kind of finding."""
    found: dict[str, set[str | None]] = {}
    for finding in check_episode(streams):
        found.setdefault(finding.kind, set()).add(finding.cause)
    return found


def test_two_clocks_explain_what_they_cause() -> None:
    """Its rows arrive years before they were recorded; no stream covers the episode."""
    streams = [
        series("arm", START + steps(), START + steps() + MS),
        series("camera", START + steps() + 20_000 * S, START + steps()),
    ]
    found = causes(streams)
    assert found["two_clocks"] == {None}
    assert found["arrives_early"] == found["coverage"] == {"two_clocks"}


def test_a_far_time_explains_coverage() -> None:
    times = steps()
    found = causes([series("arm", START + times), series("hand", np.r_[0, START + times[1:]])])
    assert (found["far_time"], found["coverage"]) == ({None}, {"far_time"})
    assert causes([series("arm", times), series("hand", times[:200])])["coverage"] == {None}
