"""Hypothesis strategies: voxelizations of every kind, strides included."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from hypothesis import strategies as st
from strategies import numbers, strided
from support import DTYPES, FLOATS

MODES = ("occupancy", "count", "mean", "sum", "max", "min")
REDUCTIONS = MODES[2:]
OUT_DTYPES: dict[str, tuple[torch.dtype | None, ...]] = {
    "occupancy": (None, *FLOATS, torch.uint8, torch.int32, torch.bool),
    "count": (None, torch.int32, torch.int64, torch.float32, torch.float64),
}
UTM = 4e6  # meters: how far from the origin of its zone a robot may be


@dataclass
class DenseCall:
    points: torch.Tensor
    grid_size: tuple[int, int, int]
    voxel_size: Any
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def arguments(self) -> tuple[Any, Any, Any]:
        return self.points, self.grid_size, self.voxel_size


@dataclass
class SparseCall:
    points: torch.Tensor
    voxel_size: Any
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def arguments(self) -> tuple[Any, Any]:
        return self.points, self.voxel_size


@st.composite
def dense_calls(draw: st.DrawFn) -> DenseCall:
    mode = draw(st.sampled_from(MODES))
    grid_size = draw(st.tuples(*[st.integers(1, 5)] * 3))
    sizes = draw(st.tuples(*[voxel_sizes()] * 3))
    origin = draw(st.none() | st.tuples(*[origins()] * 3))
    corner = origin or tuple(-(n * s) / 2 for n, s in zip(grid_size, sizes, strict=True))
    points, features, offsets = draw(clouds(corner, sizes, grid_size, mode in REDUCTIONS))
    voxel_size: Any = sizes
    if draw(st.booleans()) and sizes == (sizes[0],) * 3:
        voxel_size = sizes[0]
    out_dtype = draw(st.sampled_from(OUT_DTYPES.get(mode, (None, *DTYPES))))
    options = {"mode": mode, "origin": origin, "features": features, "offsets": offsets}
    return DenseCall(points, grid_size, voxel_size, {**options, "out_dtype": out_dtype})


@st.composite
def sparse_calls(draw: st.DrawFn) -> SparseCall:
    sizes = draw(st.tuples(*[voxel_sizes()] * 3))
    origin = draw(st.tuples(*[origins()] * 3))
    has_features = draw(st.sampled_from([True, True, False]))
    points, features, offsets = draw(clouds(origin, sizes, (3, 3, 3), has_features))
    reduce = draw(st.sampled_from(REDUCTIONS))
    options = {"reduce": reduce, "origin": origin, "features": features, "offsets": offsets}
    return SparseCall(points, sizes, options)


def voxel_sizes() -> st.SearchStrategy[float]:
    return st.sampled_from([0.1, 0.1, 1.0, 0.25, 1 / 3, 7.0])


def origins() -> st.SearchStrategy[float]:
    return st.sampled_from([0.0, 0.0, -0.3, 0.15, UTM, -UTM + 0.7])


@st.composite
def clouds(
    draw: st.DrawFn,
    corner: tuple[float, ...],
    sizes: tuple[float, ...],
    grid_size: tuple[int, ...],
    has_features: bool,
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """Points, features and offsets; few of the clouds are empty."""
    kind = draw(st.sampled_from(["batch", "ragged", "one"]))
    offsets = None
    if kind == "batch":
        shape = [draw(st.sampled_from([1, 2, 2, 3, 0])), draw(st.sampled_from([5, 9, 17, 1, 0]))]
    elif kind == "ragged":
        lengths = draw(st.lists(st.sampled_from([5, 9, 3, 1, 0, 0]), min_size=0, max_size=4))
        bounds = [sum(lengths[:b]) for b in range(len(lengths) + 1)]
        dtype = draw(st.sampled_from([torch.int64, torch.int32]))
        offsets = draw(strided(torch.tensor(bounds, dtype=dtype)))
        shape = [bounds[-1]]
    else:
        shape = [draw(st.sampled_from([5, 9, 17, 1, 0]))]
    count = math.prod(shape)

    rows = draw(st.lists(point(corner, sizes, grid_size), min_size=count, max_size=count))
    points = torch.tensor(rows, dtype=torch.float64).reshape([*shape, 3])
    points = points.to(draw(st.sampled_from((torch.float32, torch.float64, *FLOATS))))
    # Numbers of a half type may round to infinity, and this is then what they are.
    features = None
    if has_features:
        channels = draw(st.sampled_from([1, 2, 3, 4, 5, 0]))
        dtype = draw(st.sampled_from(DTYPES))
        elements: st.SearchStrategy[Any] = (
            st.integers(0, 255) if dtype == torch.uint8 else numbers(dtype)
        )
        size = count * channels
        numbers_drawn = draw(st.lists(elements, min_size=size, max_size=size))
        features = torch.tensor(numbers_drawn, dtype=torch.float64).to(dtype)
        features = draw(strided(features.reshape([*shape, channels])))
    return draw(strided(points)), features, offsets


@st.composite
def point(
    draw: st.DrawFn,
    corner: tuple[float, ...],
    sizes: tuple[float, ...],
    grid_size: tuple[int, ...],
) -> list[float]:
    """On faces, beside them, within cells, outside; seldom NaN or infinite."""
    coordinates = []
    for low, size, n in zip(corner, sizes, grid_size, strict=True):
        step = draw(st.integers(-1, n + 1))
        part = draw(st.sampled_from([0.0, 0.5, 0.5, 0.25, 1e-9, -1e-9]))
        x = low + (step + part) * size
        x = draw(
            st.sampled_from([x, x, x, math.nextafter(x, math.inf), math.nextafter(x, -math.inf)])
        )
        coordinates.append(x)
    if draw(st.integers(0, 15)) == 15:
        axis = draw(st.integers(0, 2))
        coordinates[axis] = draw(st.sampled_from([math.nan, math.inf, -math.inf]))
    return coordinates
