"""What a loader needs of memory, in which tier each of its streams so is, and loading it there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from robocache.loader.order import Order
from robocache.loader.outputs import Outputs
from robocache.loader.residency import FileRows
from robocache.loader.samples import Samples, load_streams
from robocache.loader.tiers import (
    Batches,
    Need,
    Tier,
    gpu_bytes,
    parse_budget,
    place_on_cpu,
    place_on_gpu,
    plain_bytes,
    slot_bytes,
)
from robocache.loader.windows import Window


def load_samples(
    samples: Samples,
    rows: Mapping[str, FileRows],
    groups: Mapping[str, Sequence[str]],
    order: Order,
    with_age: bool,
    reuse: bool,
    budget: object,
    device: torch.device,
) -> Samples:
    """What batches are made of, with its streams, each in its tier.

    Args:
        samples: The same without streams.
        rows: Of each window, by key.
        groups: Keys that stand side by side in a batch.
        order: Says how large batches are.
        with_age: Whether ages are wanted.
        reuse: Whether batches of a size are the same tensors every time.
        budget: The user's.
        device: Where batches are to be.

    Raises:
        TypeError, ValueError: A budget is none, or too small, whatever is where.
        torch.OutOfMemoryError: The memory can't be had; where it is known, before any is taken.
    """
    limits = parse_budget(budget, device)
    # Beside streams: the tables, and two states of drawing.
    tables = (samples.anchors.nbytes, samples.episodes.nbytes, 32, 32)
    placed = _place(samples.windows, rows, groups, tables, order, with_age, reuse, limits, device)
    is_bounded = limits is not None
    return samples._replace(
        streams=load_streams(samples, rows, placed, with_age, device, is_bounded)
    )


def _place(
    windows: Sequence[Window],
    rows: Mapping[str, FileRows],
    groups: Mapping[str, Sequence[str]],
    tables: Sequence[int],
    order: Order,
    with_age: bool,
    reuse: bool,
    limits: Mapping[Tier, int] | None,
    device: torch.device,
) -> dict[str, Tier]:
    """The tier of each window's stream, by key; without limits all are on the device."""
    if limits is None:
        return dict.fromkeys(rows, "gpu" if device.type == "cuda" else "ram")
    by_key = {window.key: window for window in windows}
    group_of = {key: keys for keys in groups.values() for key in keys}
    together = dict.fromkeys(tuple(group_of.get(key, (key,))) for key in by_key)
    needs = [_need([by_key[key] for key in keys], rows, with_age) for keys in together]
    take = gpu_bytes if device.type == "cuda" else plain_bytes
    outputs = Outputs(windows, groups, with_age, device)
    size = order.size(0)
    one, kept = outputs.nbytes(size, take), 0
    if reuse:  # and a smaller one, of any size where a state of other batches is gone on with
        kept = one + (0 if order.drop_last else outputs.nbytes(size - 1, take))
    batches = Batches(size, one, kept, outputs.nbytes(size, slot_bytes))
    if device.type == "cuda":
        return place_on_gpu(needs, tables, batches, limits)
    begins = 8 * (len(next(iter(rows.values())).offsets) - 1)
    return place_on_cpu(needs, tables, batches, begins, limits)


def _need(windows: Sequence[Window], rows: Mapping[str, FileRows], with_age: bool) -> Need:
    sides: list[int] = []
    for window in windows:
        sides += rows[window.key].side_bytes(*window.looks_at(with_age))
        sides.append(8 * len(window.steps))
        if window.scale is not None:  # at most
            sides += [8 * len(window.scale.subtract)] * 2
    return Need(
        tuple(window.key for window in windows),
        tuple(max(rows[window.key].value_bytes, 8) for window in windows),
        tuple(sides),
        sum(window.sample_bytes for window in windows),
    )
