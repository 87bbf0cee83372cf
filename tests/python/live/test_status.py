"""Statuses of a LiveAligner's queries, and their warnings: rare queries, silent sensors, clocks."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from live_specs import ACTION, MS, SPEC, make_stream

import robocache as rc

FAST = replace(SPEC, streams=[make_stream("joints", rate=1000.0), ACTION], with_age=True)


@pytest.mark.parametrize("is_batched", [False, True])
def test_a_policy_that_asks_rarely_sees_the_newest_rows(is_batched: bool) -> None:
    """Once a second, as policies that predict chunks of actions do."""
    aligner = rc.LiveAligner(FAST)
    for second in range(4):
        times = np.arange(second * 1000, (second + 1) * 1000) * MS
        rows = np.stack([times, -times], 1) / MS
        if is_batched:
            aligner.push_many("joints", times, rows)
        else:
            for time, row in zip(times.tolist(), rows, strict=True):
                aligner.push("joints", time, row)
        batch = aligner.query(int(times[-1]))
        newest = second * 1000 + 999
        assert batch["joints"][0, :, 0].tolist() == [newest - 20, newest - 10, newest]
        assert batch["joints_age"].tolist() == [[0, 0, 0]]
        assert aligner.status() == {"joints": "ok"}
    stats = aligner.stats()["joints"]
    assert stats.short_windows == 0 and stats.overwritten + stats.taken == stats.pushed


def test_the_ring_follows_the_slowest_query() -> None:
    wide = replace(FAST, streams=[make_stream("joints", rate=1000.0, offsets=(-5000 * MS, 0))])
    assert rc.LiveAligner(wide).rows["joints"][1] == 1008
    assert rc.LiveAligner(wide, query_every_s=3).rows["joints"][1] == 3008
    assert rc.LiveAligner(wide, query_every_s=0.02).rows["joints"][1] == 28


def push(aligner: rc.LiveAligner, stream: str, times_ms: Any, robot: int = 0) -> None:
    for time in times_ms:
        aligner.push(stream, time * MS, [time, -time], robot)


def test_lost_rows_warn_once_a_stream() -> None:
    both = replace(SPEC, streams=[make_stream("joints"), make_stream("force")], anchor="force")
    aligner = rc.LiveAligner(both, ring_rows={"joints": 2}, buffer_rows={"force": 4})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for begin in (0, 100, 200):
            push(aligner, "joints", range(begin, begin + 100, 10))
            push(aligner, "force", range(begin, begin + 100, 10))
            aligner.query((begin + 90) * MS)
            assert aligner.status() == {"joints": "rows_lost", "force": "ok"}
        assert len(caught) == 1
        for _ in range(2):
            aligner.query(270 * MS)
        assert aligner.status() == {"joints": "rows_lost", "force": "rows_lost"}
    first, second = caught
    assert (first.category, first.filename) == (UserWarning, __file__)
    assert str(first.message) == (
        "LiveAligner: joints: the window reaches back to rows that were overwritten: more than 2 "
        "rows were pushed between two queries (query more often, state the longest time between "
        "queries as query_every_s, or set ring_rows={'joints': 4})"
    )
    assert str(second.message) == (
        "LiveAligner: force: the window reaches back to rows that were discarded: the buffer has 4 "
        "rows (set buffer_rows={'force': 8})"
    )
    assert aligner.stats()["joints"].overwritten == 24
    assert aligner.stats()["joints"].short_windows == 5


def test_streams_without_rows() -> None:
    both = replace(SPEC, streams=[make_stream("joints"), make_stream("force"), ACTION])
    aligner = rc.LiveAligner(both, robots=2)
    assert aligner.status() == {"joints": "no_query", "force": "no_query"}
    assert not aligner.ready()
    push(aligner, "joints", [0], robot=0)
    push(aligner, "force", [0], robot=0)
    assert aligner.ready(0) and not aligner.ready(1) and not aligner.ready()
    batch = aligner.query(0)
    assert batch["joints_is_pad"][1].all()
    assert aligner.status() == {"joints": "no_rows", "force": "no_rows"}
    assert aligner.status(0) == {"joints": "ok", "force": "ok"}
    push(aligner, "joints", [0], robot=1)
    push(aligner, "force", [5], robot=1)
    assert aligner.ready()
    aligner.query(0)
    assert aligner.status() == {"joints": "ok", "force": "no_rows"}  # its row is later than now
    aligner.reset(1)
    assert aligner.status(1) == {"joints": "no_query", "force": "no_query"}
    assert aligner.ready(0) and not aligner.ready()
    for call in (aligner.status, aligner.ready):
        with pytest.raises(ValueError, match=r"^robot: expected 0 to 1, got 2$"):
            call(2)


def test_a_stream_that_stops_is_stale() -> None:
    spec = replace(SPEC, streams=[make_stream("joints", max_gap_ns=50 * MS), ACTION])
    aligner = rc.LiveAligner(spec)
    push(aligner, "joints", range(0, 100, 10))
    for now, status in ((90, "ok"), (140, "ok"), (141, "stale")):
        aligner.query(now * MS)
        assert aligner.status() == {"joints": status}


def test_stamps_of_another_clock_warn() -> None:
    for stamp, now in ((0, 1_700_000_000_000), (1_700_000_000_000, 0)):
        aligner = rc.LiveAligner(SPEC)
        push(aligner, "joints", [stamp, stamp + 10])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                aligner.query(now * MS)
        assert [str(each.message) for each in caught] == [
            "LiveAligner: joints: the last rows are stamped further from now than max_future_s: by "
            "another clock (stamp rows and query with one clock, or query at the newest row of a "
            "stream)"
        ]
        assert aligner.status() == {"joints": "two_clocks"}
        assert aligner.ready()
