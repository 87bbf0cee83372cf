"""Benchmark cases of robocache.resample_trajectories (linear, hold), and the best torch for them.

Sources are sampled at 100 Hz with jitter ("jitter") or at random ("irregular"); targets are spaced
evenly from the first source time to the last.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

import robocache as rc
from clock import Call, Inputs
from harness import Case
from machine import free_bytes

# B, S, T, D: B recordings of S rows to T targets, D channels
SHAPES = [
    (64, 100, 50, 32),
    (32, 50, 256, 128),
    (64, 4096, 1024, 32),
    (32, 500, 250, 256),
    (64, 1000, 512, 512),
    (256, 1000, 1000, 512),
    (4096, 200, 64, 64),
    (1, 1_000_000, 1_000_000, 8),
]
IRREGULAR_SHAPES = [SHAPES[0], SHAPES[2], SHAPES[7]]

PERIOD_NS = 10_000_000
START_NS = 1_700_000_000_000_000_000  # Unix time: what a recorder stamps

# A peer computes in float32 and rounds once, as robocache does; fused multiply-add and a different
# order of operations may then move a result across a rounding boundary.
TOLERANCE = {
    torch.bfloat16: (2**-7, 1e-5),
    torch.float16: (2**-10, 1e-5),
    torch.float32: (1e-5, 1e-5),
}


# ---- peers: data [B,S,D], source_times [B,S], target_times [B,T] -> [B,T,D] ----------------------


def weight_between(t: Tensor, before: Tensor, after: Tensor) -> Tensor:
    """Differences in the times' type, so that int64 nanoseconds lose nothing; clamped to hold."""
    return ((t - before).float() / (after - before).float()).clamp(0, 1).unsqueeze(-1)


def eager_gather(data: Tensor, source_times: Tensor, target_times: Tensor) -> Tensor:
    hi = torch.searchsorted(source_times, target_times, right=True).clamp_(1, data.shape[1] - 1)
    lo = hi - 1
    w = weight_between(target_times, source_times.gather(1, lo), source_times.gather(1, hi))
    rows = (-1, -1, data.shape[2])
    a = data.gather(1, lo.unsqueeze(-1).expand(rows))
    b = data.gather(1, hi.unsqueeze(-1).expand(rows))
    return torch.lerp(a.float(), b.float(), w).to(data.dtype)


def eager_index(batch: Tensor, data: Tensor, source_times: Tensor, target_times: Tensor) -> Tensor:
    hi = torch.searchsorted(source_times, target_times, right=True).clamp_(1, data.shape[1] - 1)
    lo = hi - 1
    w = weight_between(target_times, source_times.gather(1, lo), source_times.gather(1, hi))
    return torch.lerp(data[batch, lo].float(), data[batch, hi].float(), w).to(data.dtype)


def eager_embedding(
    first_row: Tensor, data: Tensor, source_times: Tensor, target_times: Tensor
) -> Tensor:
    hi = torch.searchsorted(source_times, target_times, right=True).clamp_(1, data.shape[1] - 1)
    hi = hi.add_(first_row)
    lo = hi - 1
    times, rows = source_times.view(-1), data.view(-1, data.shape[2])
    w = weight_between(target_times, times[lo], times[hi])
    a, b = F.embedding(lo, rows), F.embedding(hi, rows)
    return torch.lerp(a.float(), b.float(), w).to(data.dtype)


def lerp_rows(data: Tensor, lo: Tensor, times: Tensor, t: Tensor) -> Tensor:
    """For torch.compile, which fuses it: rows lo and lo + 1 [B,T], and the arithmetic."""
    batch = torch.arange(data.shape[0], device=data.device).unsqueeze(-1)
    w = weight_between(t, times[batch, lo], times[batch, lo + 1])
    a, b = data[batch, lo].float(), data[batch, lo + 1].float()
    return (a + w * (b - a)).to(data.dtype)


def compiled_searchsorted(data: Tensor, source_times: Tensor, target_times: Tensor) -> Tensor:
    hi = torch.searchsorted(source_times, target_times, right=True, out_int32=True)
    return lerp_rows(data, hi.clamp(1, data.shape[1] - 1) - 1, source_times, target_times)


def compiled_binary_search(data: Tensor, source_times: Tensor, target_times: Tensor) -> Tensor:
    """A branch-free binary search, unrolled: pointwise arithmetic that inductor can fuse."""
    last = data.shape[1] - 2
    batch = torch.arange(data.shape[0], device=data.device).unsqueeze(-1)
    lo = torch.zeros_like(target_times, dtype=torch.int32)
    for bit in reversed(range(last.bit_length())):
        middle = lo + (1 << bit)
        inside = middle <= last
        row = middle.clamp(max=last)
        lo = torch.where(inside & (source_times[batch, row] <= target_times), middle, lo)
    return lerp_rows(data, lo, source_times, target_times)


# ---- cases ---------------------------------------------------------------------------------------


def make_inputs(
    shape: tuple[int, int, int, int],
    values: torch.dtype,
    times: torch.dtype,
    spacing: str,
    generator: torch.Generator,
) -> Inputs:
    B, S, T, D = shape
    device = generator.device
    data = torch.randn(B, S, D, generator=generator, device=device).to(values)
    noise = torch.rand(B, S, generator=generator, device=device, dtype=torch.float64)
    if spacing == "jitter":
        periods = torch.arange(S, device=device) + 0.3 * (2 * noise - 1)
    else:
        periods = (S - 1) * noise.sort(dim=1).values
        periods[:, 0], periods[:, -1] = -0.5, S - 0.5  # the ends have neighbors of their own
    if times == torch.int64:
        source_times = START_NS + (periods * PERIOD_NS).long()
        first, last = source_times[:, :1], source_times[:, -1:]
        share = torch.linspace(0, 1, T, device=device, dtype=torch.float64)
        target_times = first + (share * (last - first)).long()
    else:
        source_times = (periods * (PERIOD_NS * 1e-9)).to(times)
        first, last = source_times[:, :1].double(), source_times[:, -1:].double()
        share = torch.linspace(0, 1, T, device=device, dtype=torch.float64)
        target_times = (first + share * (last - first)).to(times)
    return data, source_times, target_times


def bytes_moved(inputs: Inputs) -> int:
    """Each source row that is needed once, both times once, the output once."""
    data, source_times, target_times = inputs
    B, S, D = data.shape
    hi = torch.searchsorted(source_times, target_times, right=True).clamp_(1, S - 1)
    needed = torch.zeros(B, S, dtype=torch.bool, device=data.device)
    needed.scatter_(1, hi, True).scatter_(1, hi - 1, True)
    row = D * data.element_size()
    rows = int(needed.sum()) + target_times.numel()
    return rows * row + source_times.nbytes + target_times.nbytes


def footprint(shape: tuple[int, int, int, int], values: torch.dtype, times: torch.dtype) -> int:
    B, S, T, D = shape
    return B * (S + T) * (D * values.itemsize + times.itemsize)


def make_case(
    shape: tuple[int, int, int, int],
    values: torch.dtype,
    times: torch.dtype,
    spacing: str,
    device: torch.device,
    backend: str,
) -> Case:
    B, S, T, D = shape
    batch = torch.arange(B, device=device).unsqueeze(-1)
    robocache: Call = rc.resample_trajectories  # the call as users write it
    if backend != "auto":
        robocache = partial(rc.resample_trajectories, backend=backend)
    rtol, atol = TOLERANCE[values]
    return Case(
        operation="resample",
        shape=f"{B}x{S} -> {T}x{D}",
        variant=f"{str(values)[6:]}, {str(times)[6:]} times, {spacing}",
        footprint=footprint(shape, values, times),
        make_inputs=partial(make_inputs, shape, values, times, spacing),
        bytes_moved=bytes_moved,
        robocache=robocache,
        eager={
            "gather": eager_gather,
            "index": partial(eager_index, batch),
            "embedding": partial(eager_embedding, batch * S),
        },
        compiled={
            "searchsorted": compiled_searchsorted,
            "binary search": compiled_binary_search,
        },
        rtol=rtol,
        atol=atol,
    )


def cases(device: torch.device, dtypes: list[torch.dtype], quick: bool, backend: str) -> list[Case]:
    """The first type with float32 and int64 times and irregular spacing, others with float32."""
    shapes = SHAPES
    if device.type == "cpu":
        # the first four, and the largest that leaves room for torch's temporaries
        room = free_bytes(device) // 8
        large = SHAPES[4:5] if quick else SHAPES[4:]
        fitting = [s for s in large if footprint(s, dtypes[0], torch.int64) <= room]
        shapes = SHAPES[:4] + sorted(fitting, key=lambda s: s[0] * (s[1] + s[2]) * s[3])[-1:]

    declared = []
    for values in dtypes:
        declared += [(shape, values, torch.float32, "jitter") for shape in shapes]
        if values == dtypes[0] and not quick:
            declared += [(shape, values, torch.int64, "jitter") for shape in shapes]
            declared += [
                (shape, values, torch.float32, "irregular")
                for shape in IRREGULAR_SHAPES
                if shape in shapes
            ]
    return [make_case(*each, device, backend) for each in declared]
