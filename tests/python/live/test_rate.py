"""Streams by rows whose rows do not come at the rate of training."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from live_specs import MS, make_stream

import robocache as rc


def push(aligner: rc.LiveAligner, period_ms: int, rows: int = 40, robot: int = 0) -> int:
    for i in range(rows):
        aligner.push("joints", i * period_ms * MS, [i, -i], robot)
    return (rows - 1) * period_ms * MS


def test_a_warning_and_a_status(tmp_path: Path) -> None:
    """The rate is that of the store, which its spec keeps."""
    with rc.StoreWriter(tmp_path / "s") as writer:
        writer.declare("joints", rate=50, timeline="rows")
        with writer.episode() as episode:
            rows = np.zeros((100, 2), np.float32)
            episode.add("joints", np.arange(100) * 20 * MS, rows)
    windows = {"joints": rc.Window([-0.02, 0.0])}
    spec = rc.Loader(tmp_path / "s", 1, windows, anchor="joints", device="cpu").spec()
    aligner = rc.LiveAligner(spec)
    now = push(aligner, 10)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            aligner.query(now)
    assert [(each.category, each.filename) for each in caught] == [(UserWarning, __file__)]
    assert str(caught[0].message) == (
        "LiveAligner: joints: recent rows are 10 ms apart, but the window counts rows of 50 Hz (20 "
        "ms), and so spans another time than in training (push rows at that rate, or train with "
        "rc.Window(timeline='time'))"
    )
    assert aligner.status() == {"joints": "wrong_rate"}
    stats = aligner.stats()["joints"]
    assert (stats.wrong_rate, stats.period_ns) == (2, 10 * MS)
    aligner.reset()
    aligner.query(push(aligner, 20))
    assert aligner.status() == {"joints": "ok"}


def test_the_period_is_the_longest_of_all_robots() -> None:
    stream = make_stream("joints", timeline="rows", causal=False, offsets=(0,), nominal_rate=50.0)
    aligner = rc.LiveAligner(rc.PolicySpec([stream], anchor="joints"), robots=2)
    assert aligner.stats()["joints"].period_ns is None
    push(aligner, 20, robot=0)
    push(aligner, 10, 80, robot=1)
    with pytest.warns(UserWarning, match="joints: recent rows are 10 ms apart, but the window"):
        aligner.query(790 * MS)
    assert aligner.status() == {"joints": "wrong_rate"}
    assert (aligner.status(0), aligner.status(1)) == ({"joints": "ok"}, {"joints": "wrong_rate"})
    assert aligner.stats()["joints"].period_ns == 20 * MS
    assert aligner.stats(1)["joints"].period_ns == 10 * MS
