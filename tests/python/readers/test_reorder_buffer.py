"""Rows that come in any order, against a plain sort of all of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robocache.readers import Rows, StreamMetadata, reorder_buffer
from robocache.readers.reorder_buffer import ReorderBuffer

FLOAT = np.dtype(np.float64)


def run(
    stamps: list[int], width: int, held: int, has_stamps: bool = True, array: bool = False
) -> tuple[list[Rows], Counter[str]]:
    """Rows whose values are their index, received one a nanosecond; what was handed on, notes."""
    notes: Counter[str] = Counter()
    handed_on = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reorder_buffer, "HELD_BYTES", held)
        patch.setattr(reorder_buffer, "_BLOCK_ROWS", 4)
        episode = ReorderBuffer(Path("bag"), {}, notes)
        clock = episode.clock("/a", has_stamps)
        shape = None if array else (width,)
        stream_buffer = episode.add_stream("/a", clock, StreamMetadata(), FLOAT, shape)
        for i, stamp in enumerate(stamps):
            clock.tick(stamp, 1000 + i)
            row: Any = np.full(width, float(i)) if array else [float(i)] * width
            episode.held_bytes += stream_buffer.add(stamp, 1000 + i, row)
            if episode.is_full:
                handed_on += list(episode.overflow())
            assert episode.held_bytes == stream_buffer.held_bytes
            assert episode.held_bytes <= held
        handed_on += list(episode.finish())
    return handed_on, notes


@given(
    stamps=st.lists(st.integers(0, 30), max_size=60),
    width=st.sampled_from([1, 3, 10_000]),
    rows_held=st.integers(1, 70),
    has_stamps=st.booleans(),
    array=st.booleans(),
)
def test_any_order(
    stamps: list[int], width: int, rows_held: int, has_stamps: bool, array: bool
) -> None:
    held = rows_held * (8 * width + 16)
    parts, notes = run(stamps, width, held, has_stamps, array)
    late = notes["rows of /a left out, since they came too late to be put in order"]
    zeros = notes["messages of /a stamped zero, left out"]
    got = np.concatenate([p.values[:, 0] for p in parts]) if parts else np.empty(0)
    times = np.concatenate([p.times for p in parts]) if parts else np.empty(0)
    assert len(got) + late + zeros == len(stamps)
    assert len(set(got)) == len(got) and (np.diff(times) >= 0).all()
    rows = got.astype(int)
    received = 1000 + rows
    by_received = (
        not has_stamps or notes["messages of /a stamped zero, timed by when they were received"]
    )
    np.testing.assert_array_equal(times, received if by_received else np.array(stamps)[rows])
    for part in parts:
        assert (part.values == part.values[:, :1]).all()
        if by_received:
            assert part.received is None
        else:
            np.testing.assert_array_equal(part.received, 1000 + part.values[:, 0])
    if len(stamps) <= rows_held:
        assert late == 0
        if not by_received:
            usable = [i for i, stamp in enumerate(stamps) if stamp != 0]
            assert rows.tolist() == sorted(usable, key=lambda i: stamps[i])


def test_a_length_that_changes_late() -> None:
    """Rows that were handed on stay; the stream goes on without those of another length."""
    notes: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reorder_buffer, "HELD_BYTES", 200)
        episode = ReorderBuffer(Path("bag"), {}, notes)
        stream_buffer = episode.add_stream(
            "/a", episode.clock("/a", False), StreamMetadata(), FLOAT
        )
        parts = []
        for i in range(40):
            row = np.full(3 if i == 30 else 2, float(i))
            episode.held_bytes += stream_buffer.add(i, i, row)
            parts += list(episode.overflow())
        parts += list(episode.finish())
    got = np.concatenate([part.values[:, 0] for part in parts])
    assert got.tolist() == [i for i in range(40) if i != 30]
    assert notes == {"rows of /a left out, since their length is not (2,)": 1}
