"""Counters of loaders: waits and their quantiles, sums by name."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest
import torch

import robocache as rc
from robocache.loader import stats
from robocache.loader.stats import Counters, LoaderStats, by_name, register


class Owner:
    """In place of a loader."""


def test_waits() -> None:
    counters = Counters("waits")
    assert counters.stats() == LoaderStats()
    for wait in [0.0] * 98 + [1.0, 3.0]:
        counters.handed_out(wait)
    stats = counters.stats()
    assert (stats.waits, stats.waited_s) == (2, 4.0)
    assert (stats.wait_p50_s, stats.wait_p99_s) == (0.0, 3.0)
    for _ in range(1000):  # quantiles are of the latest
        counters.handed_out(0.5)
    stats = counters.stats()
    assert (stats.waits, stats.wait_p50_s, stats.wait_p99_s) == (1002, 0.5, 0.5)


def test_hit_shares() -> None:
    counters = Counters("shares")
    counters.sample_reads = {"gpu": 30, "disk": 10}
    assert counters.stats().hit_shares == {}, "of nothing"
    counters.samples, counters.gathered = 3, 1
    assert counters.stats().read_bytes == {"gpu": 120, "disk": 40}
    assert counters.stats().hit_shares == {"gpu": 0.75, "disk": 0.25}


def test_by_name() -> None:
    """Quantiles are of all waits together; nothing is counted twice, nor lost with its loader."""
    name = "test_by_name"
    first, second = Owner(), Owner()
    for owner, wait in ((second, 2.0), (first, 1.0)):
        counters = Counters(name)
        counters.batches, counters.resident, counters.queue_depth = 10, {"pinned": 5}, 2
        counters.handed_out(wait)
        register(owner, counters)
    both = by_name()[name]
    assert (both.batches, both.waits, both.waited_s, both.queue_depth) == (20, 2, 3.0, 4)
    assert both.resident_bytes == {"pinned": 10}
    assert (both.wait_p50_s, both.wait_p99_s) == (1.0, 2.0)
    del first, owner
    gc.collect()
    for _ in range(2):
        one = by_name()[name]
        assert (one.batches, one.waits, one.waited_s, one.queue_depth) == (20, 2, 3.0, 2)
        assert one.resident_bytes == {"pinned": 5}
        assert (one.wait_p50_s, one.wait_p99_s) == (2.0, 2.0)
    del second
    gc.collect()
    assert by_name()[name] == LoaderStats(batches=20, waits=2, waited_s=3.0)


def test_what_callers_do_to_a_report_stays_with_it() -> None:
    name, owner = "test_reports", Owner()
    counters = Counters(name)
    counters.batches, counters.samples, counters.sample_reads = 1, 2, {"ram": 8}
    register(owner, counters)
    for _ in range(2):
        for _ in range(2):
            reads = by_name()[name].read_bytes
            assert reads == {"ram": 16}
            assert isinstance(reads, dict)
            reads["ram"] = 0
        owner = Owner()  # the other is gone


def test_bytes_are_of_what_a_batch_has(tmp_path: Path) -> None:
    """Also where streams stand in the place of metadata."""
    with rc.StoreWriter(tmp_path / "store") as writer, writer.episode() as episode:
        for name in ("state", "index", "timestamp"):
            episode.add(name, np.arange(5) * 1000, np.zeros((5, 3), np.float32))
    for keys in (["state"], ["state", "index"], ["state", "index", "timestamp"]):
        loader = rc.Loader(tmp_path / "store", 2, dict.fromkeys(keys), device="cpu")
        batches = [loader.next(), loader.gather([1, 2, 3])]
        assert loader.stats().bytes == sum(x.nbytes for batch in batches for x in batch.values())


class Count:
    """In place of a tensor on a GPU, which a child of a fork and a capture may not read."""

    is_cuda = True

    def __init__(self) -> None:
        self.value = 0
        self.readings = 0

    def __int__(self) -> int:
        self.readings += 1
        return self.value


def test_damaged_frames_are_read_where_cuda_may_be_called(monkeypatch: pytest.MonkeyPatch) -> None:
    counters, count = Counters("damaged"), Count()
    counters.damaged = [torch.tensor([2]), count]
    count.value = 3
    assert counters.stats().damaged_frames == 5
    count.value = 4
    with monkeypatch.context() as patch:
        patch.setattr(stats, "may_call_cuda", lambda: False)
        assert counters.stats().damaged_frames == 5
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        assert counters.stats().damaged_frames == 5
        counters.damaged = counters.damaged[:1]
        assert counters.stats().damaged_frames == 2
    counters.damaged.append(count)
    assert (count.readings, counters.stats().damaged_frames) == (1, 6)
