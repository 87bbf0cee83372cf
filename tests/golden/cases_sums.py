"""The sum of the rows since the target before."""

from __future__ import annotations

from typing import Any

from arithmetic import INT64_MAX, INT64_MIN, f32
from encoding import N, Tensor, Y
from fusing import case, stream

# The tables below keep a case to a few lines.
# fmt: off


def sums() -> None:
    five: dict[str, Any] = {"values": [1, 2, 4, 8, 16], "source_times": [0, 2, 4, 6, 8],
         "method": "sum"}
    case("sum", "the rows after the target before, up to this one; the first from the first row on",
         stream(**five),
         [2, 5, 5, 8], [3, 4, 0, 24], [Y] * 4)
    case("sum_of_all", "a single target sums all rows up to it",
         stream(**five),
         [8], [31], [Y])
    case("sum_nothing_is_lost", "sums of neighboring targets add up to the sum of all rows",
         stream(**five),
         [0, 1, 2, 3, 4, 5, 6, 7, 8], [1, 0, 2, 0, 4, 0, 8, 0, 16], [Y] * 9)
    case("sum_invalid_rows", "rows that are not valid are left out and clear the mask",
         stream(**five, valid=[Y, N, Y, Y, N]),
         [1, 3, 5, 6, 8], [1, 0, 4, 8, 0], [Y, N, Y, Y, N])
    case("sum_of_no_row_is_valid", "no row, no fault: 0 and valid, whatever the rows beside it",
         stream([1, 2], [0, 10], method="sum", valid=[N, N]),
         [3, 6], [0, 0], [N, Y])
    case("sum_equal_times", "rows of equal time belong to one target, all of them",
         stream([1, 2, 4, 8], [0, 5, 5, 9], method="sum"),
         [4, 5, 9], [1, 6, 8], [Y] * 3)
    case("sum_no_tolerance_no_max_gap", "neither tolerance nor max_gap concerns a sum",
         stream([1, 2, 4], [0, 10, 20], method="sum", tolerance=2, max_gap=0),
         [1, 9, 15, 20], [1, 0, 2, 4], [Y] * 4)
    case("sum_outside_hold",
         "outside the recording the end is held; the target counts for the next one",
         stream([1, 2, 4], [0, 10, 20], method="sum"),
         [-1, 10, 19, 21, 22], [1, 3, 0, 4, 4], [N, Y, Y, N, N])
    case("sum_outside_zero", "zero outside",
         stream([1, 2, 4], [0, 10, 20], method="sum", subtract=[1], multiply=[3]),
         [-1, 10, 21], [0, 6, 0], [N, Y, N], outside="zero")
    case("sum_outside_nan", "nan outside",
         stream([1, 2, 4], [0, 10, 20], method="sum"),
         [-1, 0, 21], ["nan", 1, "nan"], [N, Y, N], outside="nan")
    case("sum_outside_extrapolate", "extrapolate holds",
         stream([1, 2, 4], [0, 10, 20], method="sum"),
         [-10, 20, 30], [1, 7, 4], [N, Y, N], outside="extrapolate")
    case("sum_outside_ignores_tolerance", "tolerance does not bring a target into the recording",
         stream([1, 2], [0, 10], method="sum", tolerance=5),
         [-1, 11], [1, 2], [N, N])
    case("sum_nan_target", "a NaN target is NaN, and the next one passes over it",
         stream([1, 2, 4], [0, 1, 2], times="float64", method="sum"),
         [0, "nan", "nan", 2], [1, "nan", "nan", 6], [Y, N, N, Y], times="float64")
    case("sum_nan_targets_first", "passed over down to the first target of all",
         stream([1, 2, 4], [0, 1, 2], times="float32", method="sum"),
         ["nan", 1], ["nan", 3], [N, Y], times="float32")
    case("sum_infinite_times", "infinite times are equal to themselves",
         stream([1, 2, 4], ["-inf", 0, "inf"], times="float64", method="sum"),
         ["-inf", "inf", "inf"], [1, 6, 0], [Y] * 3, times="float64")
    case("sum_whole_range", "over the whole range of int64",
         stream([1, 2, 4], [INT64_MIN, 0, INT64_MAX], method="sum"),
         [INT64_MIN, -1, INT64_MAX], [1, 0, 6], [Y] * 3)
    case("sum_batch", "the target before is one of the same batch row",
         stream([[[1], [2], [4]], [[8], [16], [32]]], [0, 2, 4], method="sum", lengths=[3, 2]),
         [[2, 4], [1, 2]], [[[3], [4]], [[8], [16]]], [[[Y], [Y]], [[Y], [Y]]])
    case("sum_shared_targets", "shared targets begin anew in every batch row",
         stream([[[1], [2], [4]], [[8], [16], [32]]], [0, 2, 4], method="sum"),
         [2, 4], [[[3], [4]], [[24], [32]]], [[[Y], [Y]], [[Y], [Y]]])
    case("sum_empty", "an empty episode: zeros, literally",
         stream(Tensor("float32", (0, 1), []), [], method="sum", subtract=[1]),
         [0, 1], [0, 0], [N, N])
    big = 2**24
    case("sum_in_row_order", "float32 sums are taken in row order",
         stream([[big, 1], [1, 1], [1, big]], [0, 1, 2], method="sum"),
         [2], [[big, big + 2]], [Y])
    case("sum_float64", "float64 values are summed in float64",
         stream([big, 1, 1], [0, 1, 2], dtype="float64", method="sum"),
         [2], [big + 2], [Y], out_dtype="float32")
    case("sum_float16", "float16: only the sum is rounded, here to infinity",
         stream([[2048, 65504], [1, 65504], [1, -65504]], [0, 1, 2], dtype="float16", method="sum"),
         [1, 2], [[2048, "inf"], [1, -65504]], [Y, Y])
    case("sum_uint8", "uint8 saturates",
         stream([200, 50, 100], [0, 1, 2], dtype="uint8", method="sum"),
         [1, 2, 2], [250, 100, 0], [Y] * 3)
    case("sum_uint8_saturates", "but only after the last addition, subtract and multiply",
         stream([[200, 200], [100, 100]], [0, 1], dtype="uint8", method="sum", subtract=[0, 100],
          multiply=[1, 1]),
         [1], [[255, 200]], [Y], out_dtype="uint8")
    case("sum_normalized", "subtract and multiply come after the sum, of no rows too",
         stream([1, 2], [0, 4], method="sum", subtract=[1], multiply=[2]),
         [0, 2, 4], [0, -2, 2], [Y] * 3)
    tenth = f32(0.1)
    case("sum_rounds_each_addition", "each addition rounds to float32",
         stream([tenth, tenth, tenth], [0, 1, 2], method="sum"),
         [2], [f32(f32(tenth + tenth) + tenth)], [Y])
    case("sum_beside_others", "a layout of sum, mean, previous and linear: one mask",
         stream([[1, 1, 1, 1], [2, 2, 2, 2], [4, 4, 4, 4]], [0, 2, 4],
          method=[("sum", 1), ("mean", 1), ("previous", 1), ("linear", 1)], mean_window=4,
          valid=[Y, N, Y]),
         [0, 2, 3, 4], [[1, 1, 1, 1], [0, 2.5, 2, 2], [0, 4, 2, 3], [4, 4, 4, 4]], [Y, N, N, Y])
