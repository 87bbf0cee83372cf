"""The age of a target: its time less that of the newest row that it is made from."""

from __future__ import annotations

from typing import Any

from arithmetic import INT64_MAX, INT64_MIN, UNIX
from encoding import N, Tensor, Y
from fusing import case, stream

# The tables below keep a case to a few lines.
# fmt: off


def ages() -> None:
    two: dict[str, Any] = {"values": [0, 10], "source_times": [0, 10]}
    at = [-3, 0, 4, 6, 10, 12]
    mask = [N, Y, Y, Y, Y, N]
    case("age_linear",
         "between two rows the later one is the newest; a hit is 0 old, a held row older",
         stream(**two), at, [0, 0, 4, 6, 10, 10], mask, [-3, 0, -6, -4, 0, 2])
    case("age_previous", "previous: of its one row",
         stream(**two, method="previous"), at, [0, 0, 0, 0, 10, 10], mask, [-3, 0, 4, 6, 0, 2])
    case("age_nearest", "nearest: likewise, on either side",
         stream(**two, method="nearest"), at, [0, 0, 0, 10, 10, 10], mask, [-3, 0, 4, -4, 0, 2])
    case("age_layout", "several runs: the newest row of them all",
         stream([[0, 0], [10, 10]], [0, 10], method=[("previous", 1), ("nearest", 1)]),
         [4, 6], [[0, 0], [0, 10]], [Y, Y], [4, -4])
    case("age_layout_linear", "linear beside previous: the later row",
         stream([[0, 0], [10, 10]], [0, 10], method=[("previous", 1), ("linear", 1)]),
         [4], [[0, 4]], [Y], [-6])
    case("age_tolerance", "a hit within tolerance: of that row, before or after the target",
         stream(**two, tolerance=3), [2, 8, 12], [0, 10, 10], [Y, Y, Y], [2, -2, 2])
    case("age_equal_times", "of equal times the last row is the newest",
         stream([1, 2, 3], [0, 5, 5]), [5, 6], [3, 3], [Y, N], [0, 1])
    case("age_extrapolate", "extrapolated: of the later of the two rows, at either end",
         stream([0, 10, 30], [0, 10, 20]), [-5, 25], [-5, 40], [N, N], [-15, 5],
         outside="extrapolate")
    case("age_extrapolate_previous", "what holds, holds",
         stream([0, 10, 30], [0, 10, 20], method="previous"), [-5, 25], [0, 30], [N, N], [-5, 5],
         outside="extrapolate")
    for outside, literal in (("zero", 0), ("nan", "nan")):
        case(f"age_outside_{outside}", "a literal: as if it were held",
             stream(**two), [-3, 12], [literal, literal], [N, N], [-3, 2], outside=outside)
    case("age_empty", "0 of an empty episode",
         stream(Tensor("float32", (0, 1), []), []), [5], [0], [N], [0])
    case("age_nan_target", "0 of a NaN target",
         stream([1, 2], [0, 1], times="float64"), ["nan", 0.25], ["nan", 1.25], [N, Y], [0, -0.75],
         times="float64")
    case("age_invalid_rows", "rows that are not valid are as new as any",
         stream(**two, valid=[Y, N]), [4], [4], [N], [-6])
    case("age_mean", "mean: of the last valid row in the window",
         stream([1, 2, 4, 8], [0, 2, 4, 6], method="mean", mean_window=4, valid=[Y, Y, Y, N]),
         [1, 2, 5], [1.5, 7 / 3, 4], [Y] * 3, [-1, -2, 1], atol=2.0**-22)
    case("age_mean_as_linear", "without a row in the window: as linear",
         stream(**two, method="mean", mean_window=2), [4, 12], [4, 10], [Y, N], [-6, 2])
    case("age_sum",
         "sum: of the last valid row it adds; without one, of the last row at or before the target",
         stream([1, 2, 4], [0, 2, 6], method="sum", valid=[Y, N, Y]),
         [1, 3, 4, 7], [1, 0, 0, 4], [Y, N, Y, N], [1, 1, 2, 1])
    case("age_sum_left_out_rows", "rows that a sum leaves out do not make it newer",
         stream([1, 2, 4], [0, 2, 6], method="sum", valid=[Y, N, Y]),
         [3, 6], [1, 4], [N, Y], [3, 0])
    case("age_slerp", "slerp: the later row, zero or not",
         stream([[0, 0, 0, 1], [0, 0, 0, 0]], [0, 10], method="slerp_xyzw"), [0, 4],
         [[0, 0, 0, 1], [0, 0, 0, 0]], [Y, N], [0, -6])
    case("age_float32", "in the type of the times",
         stream([1, 2], [0, 0.5], times="float32"), [0.25, 0.75], [1.5, 2], [Y, N], [-0.25, 0.25],
         times="float32")
    case("age_unix_nanoseconds", "to the nanosecond",
         stream([0, 8], [UNIX, UNIX + 8], method="previous"), [UNIX + 7, UNIX + 8], [0, 8], [Y, Y],
         [7, 0])
    case("age_whole_range", "up to the largest int64, and past it around",
         stream([1, 2], [INT64_MIN, INT64_MIN + 1], method="previous"), [0, INT64_MAX], [2, 2],
         [N, N], [INT64_MAX, -2])
    case("age_clock_offset", "the clock offset moves the rows",
         stream(**two, clock_offset=2), [2, 5, 14], [0, 3, 10], [Y, Y, N], [0, -7, 2])
    case("age_batch", "each batch row by its own times",
         stream([[[1], [2]], [[1], [2]]], [[0, 4], [0, 8]], method="nearest", lengths=[2, 1]),
         [3, 5], [[[2], [2]], [[1], [1]]], [[[Y], [N]], [[N], [N]]], [[[-1], [1]], [[3], [5]]])
