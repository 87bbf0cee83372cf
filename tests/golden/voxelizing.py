"""Cases of voxelization, dense and sparse: what voxels.json holds.

Which cell a point is in is stated by hand in every case, and checked here against exact arithmetic
in which each operation of the formula is rounded once to float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from arithmetic import rounded
from encoding import Tensor, tensor

CASES: list[dict[str, Any]] = []

Cell = tuple[int, int, int]


def dense(
    name: str,
    reason: str,
    points: Any,
    grid_size: tuple[int, int, int],
    cells: Any,
    *,
    dtype: str = "float32",
    voxel_size: Any = 1.0,
    origin: tuple[float, float, float] | None = (0.0, 0.0, 0.0),
    mode: str = "count",
    features: Any = None,
    features_dtype: str = "float32",
    offsets: Any = None,
    offsets_dtype: str = "int64",
    out_dtype: str | None = None,
    dropped: Any = 0,
) -> None:
    """`cells`: what the cells that have a point hold, {(x, y, z): number or [C]}; a list of these
    where there are several clouds.
    """
    p = tensor(dtype, points)
    f = None if features is None else tensor(features_dtype, features)
    sizes = voxel_size if isinstance(voxel_size, list) else [voxel_size] * 3
    default = {"occupancy": "float32", "count": "int32"}.get(mode, features_dtype)
    kind = out_dtype or default
    clouds = cells if isinstance(cells, list) else [cells]
    channels = 1 if f is None else f.shape[-1]

    corner: Sequence[float] | None = origin
    if corner is None:
        corner = [-n * s / 2 for n, s in zip(grid_size, sizes, strict=True)]
    if isinstance(cells, dict):
        assert cells_of(p, sizes, corner, grid_size) == set(cells), name

    zero: Any = False if kind == "bool" else 0
    flat: list[Any] = []
    for cloud in clouds:
        for channel in range(channels):
            grid = [zero] * math.prod(grid_size)
            for (x, y, z), value in cloud.items():
                one = value[channel] if isinstance(value, list) else value
                grid[(x * grid_size[1] + y) * grid_size[2] + z] = one
            flat += grid
    shape = [] if isinstance(cells, dict) else [len(clouds)]
    shape += [] if f is None else [channels]
    add(
        name,
        reason,
        form="dense",
        points=p.json(),
        features=None if f is None else f.json(),
        offsets=None if offsets is None else tensor(offsets_dtype, offsets).json(),
        grid_size=list(grid_size),
        voxel_size=[float(s) for s in sizes],
        origin=None if origin is None else [float(x) for x in origin],
        mode=mode,
        out_dtype=out_dtype,
        expected={
            "grid": Tensor(kind, (*shape, *grid_size), flat).json(),
            "dropped": dropped_tensor(dropped).json(),
        },
    )


def sparse(
    name: str,
    reason: str,
    points: Any,
    coordinates: list[Any],
    counts: list[int],
    point_to_voxel: Any,
    *,
    dtype: str = "float32",
    voxel_size: Any = 1.0,
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0),
    reduce: str = "mean",
    features: Any = None,
    features_dtype: str = "float32",
    reduced: Any = None,
    offsets: Any = None,
    offsets_dtype: str = "int64",
    voxel_offsets: list[int] | None = None,
    dropped: Any = 0,
) -> None:
    p = tensor(dtype, points)
    f = None if features is None else tensor(features_dtype, features)
    sizes = voxel_size if isinstance(voxel_size, list) else [voxel_size] * 3
    voxels = len(coordinates)
    assert cells_of(p, sizes, origin, None) == {tuple(c) for c in coordinates}, name
    assert len(counts) == voxels and sum(counts) == len(
        [v for v in flattened(point_to_voxel) if v >= 0]
    )
    rows = None
    if f is not None:
        shape = (voxels, f.shape[-1])
        rows = Tensor(features_dtype, shape, [x for row in reduced for x in row]).json()
    add(
        name,
        reason,
        form="sparse",
        points=p.json(),
        features=None if f is None else f.json(),
        offsets=None if offsets is None else tensor(offsets_dtype, offsets).json(),
        grid_size=None,
        voxel_size=[float(s) for s in sizes],
        origin=[float(x) for x in origin],
        mode=reduce,
        out_dtype=None,
        expected={
            "coordinates": Tensor(
                "int32", (voxels, 3), [x for cell in coordinates for x in cell]
            ).json(),
            "counts": Tensor("int32", (voxels,), counts).json(),
            "features": rows,
            "point_to_voxel": Tensor("int64", p.shape[:-1], flattened(point_to_voxel)).json(),
            "offsets": tensor("int64", voxel_offsets or [0, voxels]).json(),
            "dropped": dropped_tensor(dropped).json(),
        },
    )


def add(name: str, reason: str, **rest: Any) -> None:
    assert all(c["name"] != name for c in CASES), name
    assert name.replace("_", "").isalnum() and name == name.lower(), name
    CASES.append({"name": name, "reason": reason, **rest})


def dropped_tensor(dropped: Any) -> Tensor:
    if isinstance(dropped, list):
        return tensor("int64", dropped)
    return Tensor("int64", (), [dropped])


def flattened(nested: Any) -> list[Any]:
    if not isinstance(nested, list):
        return [nested]
    return [x for part in nested for x in flattened(part)]


def cells_of(points: Tensor, sizes: Any, origin: Any, grid_size: Any) -> set[Cell]:
    """The cells that have a point, by exact arithmetic; in a grid or, without one, anywhere."""
    cells: set[Cell] = set()
    for i in range(0, len(points.data), 3):
        point = points.data[i : i + 3]
        if any(isinstance(x, str) for x in point):
            continue
        x, y, z = (
            math.floor(
                rounded(rounded(Fraction(p) - Fraction(o), "float64") / Fraction(s), "float64")
            )
            for p, o, s in zip(point, origin, sizes, strict=True)
        )
        if grid_size is None or all(0 <= c < n for c, n in zip((x, y, z), grid_size, strict=True)):
            cells.add((x, y, z))
    return cells
