"""The loader's reference against answers by hand: what judges the loader is judged here."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import loader_reference as plain
import numpy as np
import pytest
from loader_reference import Anchor, Window

import robocache as rc


@pytest.mark.parametrize("count", [1, 2, 3, 5, 64, 65, 1000])
def test_permute_is_a_permutation(count: int) -> None:
    orders = {tuple(plain.permute(7, epoch, count, p) for p in range(count)) for epoch in range(4)}
    assert all(sorted(order) == list(range(count)) for order in orders)
    assert len(orders) > 1 or count <= 3


def test_permute_spreads() -> None:
    """How often each of the 24 orders of four comes up is as chance has it."""
    seen = Counter(tuple(plain.permute(seed, 0, 4, p) for p in range(4)) for seed in range(4800))
    assert len(seen) == 24
    chi2 = sum((n - 200) ** 2 / 200 for n in seen.values())
    assert chi2 < 60  # 23 degrees of freedom: the chance of more is below 1e-4


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(
    ("samples", "ranks", "size"), [(11, 4, 2), (14, 4, 2), (9, 1, 4), (8, 2, 4)]
)
def test_ranks_share_an_epoch(samples: int, ranks: int, size: int, drop_last: bool) -> None:
    """Each sample at most once; as many batches on every rank; what is left out is stated."""
    of_ranks = []
    for rank in range(ranks):
        drawn = plain.draw(samples, size, drop_last=drop_last, rank=rank, ranks=ranks)
        of_ranks.append([d for d in islice(drawn, samples) if d.epoch == 0])
    assert len({len(batches) for batches in of_ranks}) == 1
    indices = [i for batches in of_ranks for batch in batches for i in batch.indices]
    assert len(set(indices)) == len(indices)
    left_out = samples - len(indices)
    assert left_out < (ranks * size if drop_last else ranks)
    assert all(batch.indices for batches in of_ranks for batch in batches)


def test_windows_by_hand(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path / "store") as writer, writer.episode() as episode:
        values = np.array([[0.0], [10.0], [20.0], [30.0]], np.float32)
        episode.add("x", [0, 10, 20, 30], values, received=[5, 12, 31, 31],
                    valid=[True, True, False, True])  # fmt: skip
    store = rc.EpisodeStore(tmp_path / "store")

    def made(window: Window, anchor: Anchor) -> tuple[list[float], list[bool], list[int]]:
        found = plain.make(store, window, anchor)
        return (
            found.values[:, 0].tolist(),
            found.is_pad.tolist(),
            found.age.tolist(),
        )

    at = Anchor(0, 2, 20)
    # At 20 the rows of 0 and 10 had arrived: the newest is held, as far as the gap limit goes.
    window = Window("x", [-15, -10, 0], tolerance=0)
    assert made(window, at) == ([5.0, 10.0, 10.0], [False, False, False], [-5, 0, 10])
    window = Window("x", [-15, -4, 0], tolerance=0, max_gap=9, outside="nan")
    assert made(window, at) == ([5.0, 10.0, 10.0], [True, False, True], [-5, 6, 10])
    # Means are of the rows in their window, and sums since the target before; else held, and 0.
    window = Window("x", [-15, -4, 0], layout=[("mean", 1)], mean_window=12, outside="nan")
    assert made(window, at) == ([5.0, 10.0, 10.0], [False, False, False], [-5, 6, 10])
    window = Window("x", [-15, -4, 0], layout=[("sum", 1)], max_gap=9, outside="nan")
    assert made(window, at) == ([0.0, 10.0, 0.0], [False, False, True], [5, 6, 10])
    # Without that, the row of 20 answers, which is not real.
    window = Window("x", [-15, -5, 0], tolerance=0, causal=False)
    assert made(window, at) == ([5.0, 15.0, 20.0], [False, True, True], [-5, -5, 0])
    # Before anything arrived there is nothing.
    assert made(Window("x", [0]), Anchor(0, 0, 4)) == ([0.0], [True], [0])
    # A window that reaches into the future sees everything.
    assert made(Window("x", [0, 5], tolerance=0), at)[0] == [20.0, 25.0]
    # By rows: outside the episode its first and last.
    window = Window("x", [-3, -1, 0, 1, 2], by_rows=True, subtract=[10.0], multiply=[2.0])
    assert made(window, at) == (
        [-20.0, 0.0, 20.0, 40.0, 40.0],
        [True, False, True, False, True],
        [20, 10, 0, -10, -10],
    )
