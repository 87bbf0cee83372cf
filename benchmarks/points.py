"""Benchmark cases of robocache.sample_farthest, and what users run now: a loop over samples.

Points lie on a lattice fine enough that few are equal, whose squared distances are exact in
float32: a compiler that fuses multiplications and additions finds the same samples.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

import robocache as rc
from clock import Inputs
from harness import Case
from robocache.core.names import Backend

# B, N, n: clouds, points of each, samples of each. An image of 640 x 480 is one cloud.
CUDA_SHAPES = [(64, 20_000, 1024), (64, 4096, 512), (1, 307_200, 1024)]
CPU_SHAPES = [(8, 20_000, 1024)]
STEPS = 1000  # of the lattice, from the origin


def make_points(shape: tuple[int, int], generator: torch.Generator) -> Inputs:
    size = (*shape, 3)
    points = torch.randint(-STEPS, STEPS, size, generator=generator, device=generator.device)
    return (points.float(),)


def bytes_moved(n: int, inputs: Inputs) -> int:
    """Points once, indices once."""
    return inputs[0].nbytes + inputs[0].shape[0] * n * 8


# ---- peers: -> indices [B,n] ---------------------------------------------------------------------


def step(points: Tensor, distances: Tensor, sample: Tensor) -> tuple[Tensor, Tensor]:
    """The distances to the nearest sample, [B,N], and the next sample, [B,1]."""
    newest = points.gather(1, sample.unsqueeze(-1).expand(-1, -1, 3))
    distances = torch.minimum(distances, (points - newest).square().sum(-1))
    return distances, distances.argmax(1, keepdim=True)


compiled_step = torch.compile(step, fullgraph=True, dynamic=False)


def by_loop(n: int, is_compiled: bool, points: Tensor) -> Tensor:
    take = compiled_step if is_compiled else step
    distances = torch.full(points.shape[:2], torch.inf, device=points.device)
    sample = torch.zeros((points.shape[0], 1), dtype=torch.int64, device=points.device)
    samples = [sample]
    while len(samples) < n:
        distances, sample = take(points, distances, sample)
        samples.append(sample)
    return torch.cat(samples, 1)


# ---- cases ---------------------------------------------------------------------------------------


def sampling_case(shape: tuple[int, int, int], backend: Backend) -> Case:
    B, N, n = shape

    def robocache(points: Tensor) -> Tensor:
        return rc.sample_farthest(points, n, backend=backend)

    return Case(
        operation="sample farthest",
        shape=f"{B}x{N} -> {n}",
        variant="float32",
        footprint=B * N * 12 + B * n * 8,
        make_inputs=partial(make_points, (B, N)),
        bytes_moved=partial(bytes_moved, n),
        robocache=robocache,
        eager={
            "loop": partial(by_loop, n, False),
            "loop of a compiled step": partial(by_loop, n, True),
        },
        compiled={},  # which would unroll the loop
        rtol=0,
        atol=0,
    )


def cases(
    device: torch.device, dtypes: list[torch.dtype], quick: bool, backend: Backend
) -> list[Case]:
    """float32 whatever the other operations' types."""
    shapes = CUDA_SHAPES if device.type == "cuda" else CPU_SHAPES
    return [sampling_case(shape, backend) for shape in (shapes[:1] if quick else shapes)]
