"""Voxelization: which cell, what it holds, and in what order."""

from __future__ import annotations

from arithmetic import f32
from encoding import Tensor
from voxelizing import dense, sparse

NAN, INF = "nan", "inf"
NONE = Tensor("float32", (0, 3), [])

# The tables below keep a case to a few lines.
# fmt: off


def cells() -> None:
    dense("cell_floor", "the cell is the floor, counted from the origin",
          [[0.5, 1.5, 2.5], [0.75, 1.25, 2.0]], (1, 2, 3), {(0, 1, 2): 2})
    dense("cell_faces", "a lower face belongs to its cell, an upper one to the next",
          [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 2]], (2, 2, 2),
          {(0, 0, 0): 1, (1, 0, 0): 1, (0, 1, 0): 1}, dropped=1)
    dense("cell_grid_ends", "the grid has its lowest corner, not its highest",
          [[-1, -1, -1], [1, 1, 1], [0.5, 0.5, 0.5]], (2, 2, 2), {(0, 0, 0): 1, (1, 1, 1): 1},
          origin=(-1, -1, -1), dropped=1)
    dense("cell_centerd", "without an origin the grid's center is at zero",
          [[0, 0, 0], [-1, -0.5, -0.125], [-1.5, -0.75, -0.25]], (3, 3, 2),
          {(1, 1, 1): 1, (0, 0, 0): 2}, voxel_size=[1.0, 0.5, 0.25], origin=None)
    dense("cell_zero_size_steps", "negative zero is zero",
          [[-0.0, 0.0, -0.0]], (1, 1, 1), {(0, 0, 0): 1})
    dense("cell_division", "a true division: 0.3 / 0.1 is below 3, which 0.3 times 10 is not",
          [[0.3, 0.6, 0.7]], (4, 4, 8), {(2, 2, 6): 1},
          dtype="float64", voxel_size=[0.1, 0.2, 0.1])
    dense("cell_float32_points", "float32 points are widened, not the size narrowed",
          [[f32(0.1), f32(0.3), f32(0.7)]], (8, 8, 8), {(1, 3, 6): 1}, voxel_size=0.1)
    dense("cell_float16_points", "float16", [[0.5, 1.5, -0.25]], (2, 2, 2), {(0, 1, 0): 1},
          dtype="float16", origin=(0, 0, -1))
    dense("cell_bfloat16_points", "bfloat16", [[0.5, 1.5, -0.25]], (2, 2, 2), {(0, 1, 0): 1},
          dtype="bfloat16", origin=(0, 0, -1))
    dense("cell_rounded_difference", "the difference is rounded to float64 before the division",
          [[1e-20, 0, 0], [-1e-20, 0, 0]], (2, 1, 1), {(1, 0, 0): 2},
          dtype="float64", origin=(-1, 0, 0))
    dense("cell_utm", "4 million meters from the origin, cells of 1 cm in float64",
          [[500000.0, 4649776.125, 0.25], [500000.015625, 4649776.125, 0.25]], (2, 20, 1),
          {(0, 12, 0): 1, (1, 12, 0): 1},
          dtype="float64", voxel_size=[0.01, 0.01, 1.0], origin=(500000, 4649776, 0))
    dense("cell_not_finite", "NaN and infinite points are dropped, and counted",
          [[NAN, 0, 0], [0, INF, 0], [0, 0, "-inf"], [0, 0, 0]], (1, 1, 1), {(0, 0, 0): 1},
          dropped=3)
    dense("cell_far_outside", "as are points that no integer could number",
          [[2.0**100, 0, 0], [0, -(2.0**127), 0], [0, 0, 0]], (1, 1, 1), {(0, 0, 0): 1},
          voxel_size=2.0**-20, dropped=2)


def modes() -> None:
    points = [[0.5, 0, 0], [1.5, 0, 0], [0.25, 0, 0], [9, 9, 9], [0.75, 0, 0]]
    features = [[1, -8], [5, 3], [4, -2], [100, 100], [1, 4]]
    where = {(0, 0, 0): 1, (1, 0, 0): 1}
    for dtype, one in (("float16", 1), ("bfloat16", 1), ("float32", 1), ("float64", 1),
                       ("uint8", 1), ("int32", 1), ("bool", True)):
        dense(f"occupancy_{dtype}", "1 where there is a point", points, (3, 1, 1),
              dict.fromkeys(where, one), mode="occupancy", out_dtype=dtype, dropped=1)
    dense("occupancy_default", "float32 by default", points, (3, 1, 1), where,
          mode="occupancy", dropped=1)
    for dtype in ("int32", "int64", "float32", "float64"):
        dense(f"count_{dtype}", "how many points", points, (3, 1, 1),
              {(0, 0, 0): 3, (1, 0, 0): 1}, out_dtype=dtype, dropped=1)
    dense("mean", "the mean of the features, 0 where there is no point", points, (3, 1, 1),
          {(0, 0, 0): [2, -2], (1, 0, 0): [5, 3]}, mode="mean", features=features, dropped=1)
    dense("sum", "their sum", points, (3, 1, 1),
          {(0, 0, 0): [6, -6], (1, 0, 0): [5, 3]}, mode="sum", features=features, dropped=1)
    dense("max", "the largest, also where it is negative", points[:4], (3, 1, 1),
          {(0, 0, 0): [4, -2], (1, 0, 0): [5, 3]}, mode="max", features=features[:4], dropped=1)
    dense("min", "the smallest", points, (3, 1, 1),
          {(0, 0, 0): [1, -8], (1, 0, 0): [5, 3]}, mode="min", features=features, dropped=1)
    here = [[0, 0, 0]] * 3
    dense("max_nan", "max and min are NaN where a point is", here, (1, 1, 1),
          {(0, 0, 0): [NAN, 2]}, mode="max", features=[[1, 0], [NAN, 1], [3, 2]])
    dense("min_nan", "the first point too", here, (1, 1, 1),
          {(0, 0, 0): [NAN, 0]}, mode="min", features=[[NAN, 2], [2, 1], [3, 0]])
    dense("max_first_of_equals", "of equal features the first: the sign of zero shows it",
          here, (1, 1, 1), {(0, 0, 0): [-0.0, 0.0]}, mode="max",
          features=[[-0.0, 0.0], [0.0, -0.0], [-1, -1]])
    dense("max_infinite", "infinity is a number like others", here, (1, 1, 1),
          {(0, 0, 0): [INF, "-inf"]}, mode="max",
          features=[[1, "-inf"], [INF, "-inf"], [3, "-inf"]])
    dense("sum_infinite", "and so in sums", here, (1, 1, 1), {(0, 0, 0): [INF, NAN]}, mode="sum",
          features=[[1, "-inf"], [INF, INF], [3, 0]])


def arithmetic() -> None:
    here = [[0, 0, 0]] * 3
    big = 2**24
    dense("sum_in_order", "in the order of the points, each sum rounded to float32",
          here, (1, 1, 1), {(0, 0, 0): [big, big + 2]}, mode="sum",
          features=[[big, 1], [1, 1], [1, big]])
    dense("sum_of_negative_zero", "sums begin with 0", here[:1], (1, 1, 1), {(0, 0, 0): [0]},
          mode="sum", features=[[-0.0]])
    dense("mean_in_order", "the mean: the sum in order, divided once", here, (1, 1, 1),
          {(0, 0, 0): [f32(big / 3), f32(1 / 3)]}, mode="mean", features=[[big, 0], [1, 1], [0, 0]])
    dense("sum_float64", "float64 features are summed in float64, rounded once to the output",
          here, (1, 1, 1), {(0, 0, 0): [big + 2]}, mode="sum",
          features=[[big], [1], [1]], features_dtype="float64", out_dtype="float32")
    dense("sum_float64_output", "a float64 output too makes it float64", here, (1, 1, 1),
          {(0, 0, 0): [big + 2]}, mode="sum", features=[[big], [1], [1]], out_dtype="float64")
    dense("sum_float16", "half types are summed in float32 and rounded once", here, (1, 1, 1),
          {(0, 0, 0): [2050, -32]}, mode="sum",
          features=[[2048, 65504], [1, -65504], [1, -32]], features_dtype="float16")
    dense("sum_bfloat16", "bfloat16: ties to even", here, (1, 1, 1), {(0, 0, 0): [256, 260]},
          mode="sum", features=[[256, 256], [1, 2], [0, 1]], features_dtype="bfloat16")
    dense("sum_uint8", "uint8 saturates", here, (1, 1, 1), {(0, 0, 0): [255, 6]},
          mode="sum", features=[[200, 1], [100, 2], [0, 3]], features_dtype="uint8")
    dense("mean_uint8", "and rounds to nearest even", here[:2], (1, 1, 1),
          {(0, 0, 0): [2, 2, 4]}, mode="mean", features=[[1, 2, 3], [2, 3, 4]],
          features_dtype="uint8")
    dense("mean_uint8_output", "NaN is 0 in uint8", here[:2], (1, 1, 1), {(0, 0, 0): [0, 0]},
          mode="mean", features=[[NAN, -3], [1, -4]], out_dtype="uint8")


def clouds() -> None:
    dense("batch", "clouds of equal size, each with its grid and its count of dropped points",
          [[[0.5, 0, 0], [1.5, 0, 0]], [[0.5, 0, 0], [0.25, 0, 0]], [[7, 0, 0], [NAN, 0, 0]]],
          (2, 1, 1), [{(0, 0, 0): 1, (1, 0, 0): 1}, {(0, 0, 0): 2}, {}], dropped=[0, 0, 2])
    dense("batch_features", "[B,C,X,Y,Z]", [[[0.5, 0, 0], [1.5, 0, 0]], [[0.5, 0, 0], [0, 0, 0]]],
          (2, 1, 1), [{(0, 0, 0): [1, 2], (1, 0, 0): [3, 4]}, {(0, 0, 0): [12, 14]}], mode="sum",
          features=[[[1, 2], [3, 4]], [[5, 6], [7, 8]]], dropped=[0, 0])
    for kind in ("int64", "int32"):
        dense(f"ragged_{kind}", "clouds by offsets, one of them empty",
              [[0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 0, 5]], (2, 1, 1),
              [{(0, 0, 0): 2}, {}, {(1, 0, 0): 1}], offsets=[0, 2, 2, 4], offsets_dtype=kind,
              dropped=[0, 0, 1])
    dense("ragged_none", "no cloud at all", NONE, (1, 1, 2), [], offsets=[0], dropped=[])
    dense("empty", "no points: zeros", NONE, (1, 1, 2), {}, mode="occupancy")
    dense("empty_features", "also of features", NONE, (1, 1, 2), {}, mode="max",
          features=Tensor("float32", (0, 2), []))
    dense("all_dropped", "all points dropped: zeros", [[NAN, 0, 0], [5, 5, 5]], (1, 1, 2), {},
          mode="min", features=[[1], [2]], dropped=2)


def voxels() -> None:
    sparse("sparse_order", "voxels ascend by x, then y, then z",
           [[1, 0, 0], [0, 2, 0], [0, 0, 3], [0, 2, 0], [-1, 5, 5]],
           [[-1, 5, 5], [0, 0, 3], [0, 2, 0], [1, 0, 0]], [1, 1, 2, 1], [3, 2, 1, 2, 0])
    sparse("sparse_origin", "coordinates are counted from the origin, per-axis sizes",
           [[0.25, 0.25, 0.25], [-0.25, 1.0, 1.5]], [[-3, 0, 2], [-2, -1, 0]], [1, 1], [1, 0],
           voxel_size=[0.5, 1.0, 1.0], origin=(1.0, 0.5, -0.5))
    sparse("sparse_faces", "cells are those of the dense grid, faces too",
           [[0.3, 0.6, 0.7], [0.25, 0.5, 0.625]], [[2, 2, 6]], [2], [0, 0],
           dtype="float64", voxel_size=[0.1, 0.2, 0.1])
    sparse("sparse_dropped", "only NaN and infinite points are dropped",
           [[0, 0, 0], [NAN, 0, 0], [1e6, 0, 0], [0, "-inf", 0]],
           [[0, 0, 0], [1000000, 0, 0]], [1, 1], [0, -1, 1, -1], dropped=2)
    sparse("sparse_ends_of_int32", "coordinates over the whole range of int32",
           [[-(2.0**31), 0, 0], [2.0**31 - 1, 0, 0]],
           [[-(2**31), 0, 0], [2**31 - 1, 0, 0]], [1, 1], [0, 1], dtype="float64")
    sparse("sparse_wide_box", "keys of more than 32 bits",
           [[0, 0, 0], [2.0**20, 2.0**20, 2.0**20], [0, 2.0**20, 0]],
           [[0, 0, 0], [0, 2**20, 0], [2**20, 2**20, 2**20]], [1, 1, 1], [0, 2, 1])
    there = [[0, 0, 0], [0.5, 0.5, 0.5], [2, 0, 0]]
    firsts = {"mean": [1.5, -1], "sum": [3, -2], "max": [4, 0], "min": [-1, -2]}
    for reduce, first in firsts.items():
        sparse(f"sparse_{reduce}", "features reduced per voxel", there, [[0, 0, 0], [2, 0, 0]],
               [2, 1], [0, 0, 1], reduce=reduce, features=[[4, -2], [-1, 0], [7, 8]],
               reduced=[first, [7, 8]])
    sparse("sparse_uint8", "uint8 features stay uint8", there, [[0, 0, 0], [2, 0, 0]], [2, 1],
           [0, 0, 1], features=[[1, 2], [2, 3], [7, 8]], features_dtype="uint8",
           reduced=[[2, 2], [7, 8]])
    sparse("sparse_batch", "voxels of cloud after cloud",
           [[[5, 0, 0], [0, 0, 0]], [[NAN, 0, 0], [0, 0, 0]]],
           [[0, 0, 0], [5, 0, 0], [0, 0, 0]], [1, 1, 1], [[1, 0], [-1, 2]],
           voxel_offsets=[0, 2, 3], dropped=[0, 1])
    sparse("sparse_ragged", "clouds by offsets, one of them empty",
           [[5, 0, 0], [0, 0, 0], [5, 0, 0]], [[5, 0, 0], [0, 0, 0], [5, 0, 0]], [1, 1, 1],
           [0, 1, 2], offsets=[0, 1, 1, 3], voxel_offsets=[0, 1, 1, 3], dropped=[0, 0, 0])
    sparse("sparse_empty", "no points: no voxels", NONE, [], [], [])
    sparse("sparse_all_dropped", "all points dropped: none either", [[NAN, 0, 0]], [], [], [-1],
           features=[[1]], reduced=[], dropped=1)
