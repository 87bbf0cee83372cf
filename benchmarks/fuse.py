"""Benchmark cases of robocache.fuse, and the best torch for them.

Three streams (vision, proprioception, force) of the same recordings, each at a rate of its own with
30 % of jitter, onto one timeline spaced evenly from the first rows to the last. All linear, and
held; in one variant the third stream is averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

import resample
import robocache as rc
from clock import Call, Inputs
from harness import Case
from machine import free_bytes
from robocache.core.names import Backend

# B, [(S, D) of each stream], T
SHAPES: list[tuple[int, list[tuple[int, int]], int]] = [
    (32, [(30, 512), (100, 32), (50, 16)], 50),
    (512, [(300, 512), (1000, 32), (500, 16)], 500),
]
DURATION_NS = 1_000_000_000
START_NS = resample.START_NS
MEAN_PERIODS = 3  # of the averaged stream, in its window: wide enough to hold a row


# ---- peers: data, times of each stream, and target_times [B,T] -> [B,T,sum of D] -----------------


def side_by_side(one: Call, *inputs: Tensor) -> Tensor:
    """Each stream by a peer of resampling."""
    streams, targets = inputs[:-1], inputs[-1]
    parts = [one(streams[i], streams[i + 1], targets) for i in range(0, len(streams), 2)]
    return torch.cat(parts, -1)


def with_mean(one: Call, window: float, *inputs: Tensor) -> Tensor:
    """The last stream by differences of running sums, the others by a peer of resampling."""
    *streams, data, times, targets = inputs
    parts = [one(streams[i], streams[i + 1], targets) for i in range(0, len(streams), 2)]
    half = int(window) // 2 if times.dtype == torch.int64 else window / 2
    first = torch.searchsorted(times, targets - half)
    end = torch.searchsorted(times, targets + half, right=True)
    running = torch.nn.functional.pad(data.float().cumsum(1), (0, 0, 1, 0))
    columns = (-1, -1, data.shape[2])
    sums = running.gather(1, end.unsqueeze(-1).expand(columns)) - running.gather(
        1, first.unsqueeze(-1).expand(columns)
    )
    parts.append((sums / (end - first).unsqueeze(-1)).to(data.dtype))
    return torch.cat(parts, -1)


# ---- cases ---------------------------------------------------------------------------------------


def make_inputs(
    batch: int,
    streams: Sequence[tuple[int, int]],
    targets: int,
    values: torch.dtype,
    times: torch.dtype,
    generator: torch.Generator,
) -> Inputs:
    device = generator.device
    made: list[Tensor] = []
    for rows, channels in streams:
        made.append(
            torch.randn(batch, rows, channels, generator=generator, device=device).to(values)
        )
        noise = torch.rand(batch, rows, generator=generator, device=device, dtype=torch.float64)
        periods = torch.arange(rows, device=device) + 0.3 * (2 * noise - 1)
        periods[:, 0], periods[:, -1] = 0, rows - 1  # all streams span the whole recording
        made.append(in_type(periods / (rows - 1), times))
    share = torch.linspace(0, 1, targets, device=device, dtype=torch.float64)
    made.append(in_type(share.expand(batch, -1), times).contiguous())
    return tuple(made)


def in_type(share: Tensor, times: torch.dtype) -> Tensor:
    """Shares of the recording's length as times."""
    if times == torch.int64:
        return START_NS + (share * DURATION_NS).long()
    return (share * (DURATION_NS * 1e-9)).to(times)


def bytes_moved(window: float | None, inputs: Inputs) -> int:
    """Each source row that is needed once, all times once, the output once."""
    *streams, target_times = inputs
    total = target_times.nbytes
    for i in range(0, len(streams), 2):
        data, times = streams[i], streams[i + 1]
        B, S, D = data.shape
        is_mean = window is not None and i == len(streams) - 2
        rows = B * S if is_mean else needed_rows(times, target_times)
        total += (rows + target_times.numel()) * D * data.element_size() + times.nbytes
    return total


def needed_rows(times: Tensor, target_times: Tensor) -> int:
    last = times.shape[1] - 1
    hi = torch.searchsorted(times, target_times, right=True).clamp_(1, last)
    needed = torch.zeros(times.shape, dtype=torch.bool, device=times.device)
    return int(needed.scatter_(1, hi, True).scatter_(1, hi - 1, True).sum())


def footprint(
    batch: int, streams: Sequence[tuple[int, int]], targets: int, values: torch.dtype
) -> int:
    return batch * sum((S + targets) * D * values.itemsize + 8 * S for S, D in streams)


def fused(window: float | None, backend: Backend, *inputs: Tensor) -> Tensor:
    """The call as users write it, the making of its streams included."""
    a, a_times, b, b_times, c, c_times, targets = inputs
    if window is None:
        third = rc.Stream(c, c_times)
    else:
        third = rc.Stream(c, c_times, method="mean", mean_window=window)
    streams = [rc.Stream(a, a_times), rc.Stream(b, b_times), third]
    return rc.fuse(streams, targets, backend=backend)


def make_case(
    shape: tuple[int, list[tuple[int, int]], int],
    values: torch.dtype,
    times: torch.dtype,
    averages: bool,
    device: torch.device,
    backend: Backend,
) -> Case:
    batch, streams, targets = shape
    window: float | None = None
    if averages:
        period_ns = DURATION_NS / (streams[-1][0] - 1)
        is_integer = times == torch.int64
        window = MEAN_PERIODS * (int(period_ns) if is_integer else period_ns * 1e-9)

    def peer(one: Call) -> Callable[..., Tensor]:
        return partial(side_by_side, one) if window is None else partial(with_mean, one, window)

    rtol, atol = resample.TOLERANCE[values]
    if averages:
        atol = max(atol, 2e-4)  # of differences of running sums in float32
    of_streams = ", ".join(f"{S}x{D}" for S, D in streams)
    return Case(
        operation="fuse",
        shape=f"{batch}x({of_streams}) -> {targets}",
        variant=f"{str(values)[6:]}, {str(times)[6:]} times" + (", third averaged" * averages),
        footprint=footprint(batch, streams, targets, values),
        make_inputs=partial(make_inputs, batch, streams, targets, values, times),
        bytes_moved=partial(bytes_moved, window),
        robocache=partial(fused, window, backend),
        eager={"gather": peer(resample.eager_gather)},
        compiled={
            "searchsorted": peer(resample.compiled_searchsorted),
            "binary search": peer(resample.compiled_binary_search),
        },
        rtol=rtol,
        atol=atol,
    )


def cases(
    device: torch.device, dtypes: list[torch.dtype], quick: bool, backend: Backend
) -> list[Case]:
    """The first type with float32 and int64 times and a mean, others with float32 times."""
    room = free_bytes(device) // 8
    shapes = [s for s in SHAPES[: 1 if quick else None] if footprint(*s, dtypes[0]) <= room]
    declared = []
    for values in dtypes:
        declared += [(shape, values, torch.float32, False) for shape in shapes]
        if values == dtypes[0] and not quick:
            declared += [(shape, values, torch.int64, False) for shape in shapes]
            declared += [(shape, values, torch.float32, True) for shape in shapes]
    return [make_case(*each, device, backend) for each in declared]
