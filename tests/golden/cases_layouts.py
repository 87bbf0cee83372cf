"""Runs of several methods side by side."""

from __future__ import annotations

import math

from arithmetic import ULP32
from encoding import N, Y
from resampling import case

# The tables below keep a case to a few lines.
# fmt: off


def layouts() -> None:
    tau = 2 * math.pi
    eighth = math.pi / 8
    row0 = [0, 10, 0, 0, 0, 1, 3, 7]
    row1 = [8, 20, 0, 0, 1, 0, -3, 9]
    case("layout_four_methods", "each run by its own method",
         [row0, row1], [0, 4], [0, 1, 3], [row0, [2, 12.5, 0, 0, math.sin(eighth), math.cos(eighth),
         3 + (tau - 6) / 4, 7], [6, 17.5, 0, 0, math.sin(3 * eighth), math.cos(3 * eighth), -3 -
         (tau - 6) / 4, 7]], [Y] * 3, method=[("linear", 2), ("slerp_xyzw", 4), ("angle", 1),
         ("previous", 1)], atol=ULP32)
    case("layout_wxyz_first", "a quaternion run may stand anywhere",
         [[1, 0, 0, 0, 5], [0, 0, 0, 1, 6]], [0, 12], [4, 9], [[math.sqrt(0.75), 0, 0, 0.5, 5],
         [math.cos(3 * eighth), 0, 0, math.sin(3 * eighth), 6]], [Y, Y], method=[("slerp_wxyz", 4),
         ("nearest", 1)], atol=ULP32)
    case("layout_exact", "linear, previous and nearest side by side",
         [[0, 0, 0, 0], [8, 8, 8, 8]], [0, 8], [0, 1, 4, 5, 8], [[0] * 4, [1, 0, 0, 1], [4, 0, 0,
         4], [5, 0, 8, 5], [8] * 4], [Y] * 5, method=[("linear", 1), ("previous", 1), ("nearest",
         1), ("linear", 1)])
    case("layout_repeats_a_method", "equal neighboring runs are one longer run",
         [[0, 8, 16], [8, 16, 24]], [0, 8], [2], [[2, 10, 18]], [Y], method=[("linear", 1),
         ("linear", 2)])
    case("layout_mask_max_gap", "one mask: the gap fails linear, and with it the row",
         [[0, 0], [10, 10]], [0, 10], [0, 2, 5, 10], [[0, 0], [2, 0], [5, 0], [10, 10]], [Y, N, N,
         Y], method=[("linear", 1), ("previous", 1)], max_gap=9)
    case("layout_mask_max_gap_previous", "one mask: nearest is near enough, previous is not",
         [[0, 0], [10, 10]], [0, 10], [3, 4, 9], [[0, 0], [0, 0], [0, 10]], [Y, N, N],
         method=[("previous", 1), ("nearest", 1)], max_gap=3)
    case("layout_mask_source_valid", "one mask: previous has a valid row, linear has not both",
         [[0, 0], [10, 10]], [0, 10], [0, 5], [[0, 0], [0, 5]], [Y, N], method=[("previous", 1),
         ("linear", 1)], source_valid=[Y, N])
    case("layout_mask_zero_quaternion", "one mask: a zero quaternion fails its whole row",
         [[0, 0, 0, 0, 4], [0, 0, 0, 1, 8]], [0, 4], [0, 2, 4], [[0, 0, 0, 0, 4], [0, 0, 0, 0, 6],
         [0, 0, 0, 1, 8]], [N, N, Y], method=[("slerp_xyzw", 4), ("linear", 1)])
    case("layout_extrapolate", "outside extrapolate: linear runs only, the others hold",
         [[0, 0, 1, 5], [10, 10, 2, 6]], [0, 10], [-10, 20], [[-10, 0, 1, 5], [20, 10, 2, 6]], [N,
         N], method=[("linear", 1), ("previous", 1), ("angle", 1), ("nearest", 1)],
         outside="extrapolate", atol=ULP32)
