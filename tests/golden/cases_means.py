"""The mean of the rows around a target, and what takes over where there are none."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from arithmetic import INT64_MAX, INT64_MIN, UNIX, f32, lerp, rounded
from encoding import N, Tensor, Y
from fusing import case, stream

# The tables below keep a case to a few lines.
# fmt: off


def means() -> None:
    five: dict[str, Any] = {"values": [1, 2, 4, 8, 16], "source_times": [0, 2, 4, 6, 8],
         "method": "mean"}
    case("mean", "the rows at most half the window away, both ends counted",
         stream(**five, mean_window=4),
         [0, 4, 5, 8], [1.5, f32(Fraction(14, 3)), 6, 12], [Y] * 4)
    case("mean_odd_window", "half of an odd window of int64 is rounded down",
         stream(**five, mean_window=5),
         [0, 4, 5, 8], [1.5, f32(Fraction(14, 3)), 6, 12], [Y] * 4)
    case("mean_odd_window_is_not_rounded_up", "half of 3 ns is 1 ns",
         stream(**five, mean_window=3),
         [4, 5], [4, 6], [Y] * 2)
    case("mean_of_one_nanosecond", "half of 1 ns is 0: the rows of that very time",
         stream([1, 3, 4, 6], [UNIX, UNIX + 1, UNIX + 1, UNIX + 2], method="mean", mean_window=1),
         [UNIX, UNIX + 1, UNIX + 2], [1, 3.5, 6], [Y] * 3)
    case("mean_is_not_a_hit", "a row at the target's own time is one among the others",
         stream([0, 9, 0], [0, 1, 2], method="mean", mean_window=2),
         [1], [3], [Y])
    for times in ("float32", "float64"):
        case(f"mean_{times}_times", "half a window of floating times is not rounded to anything",
             stream([1, 2, 4], [0, 0.5, 1], times=times, method="mean", mean_window=1.5),
             [0.25, 0.5, 1, 0.75], [f32(Fraction(7, 3)), f32(Fraction(7, 3)), 3,
             f32(Fraction(7, 3))],
             [Y] * 4, times=times)
    case("mean_window_in_float32", "a window of floating times takes their type",
         stream([1, 3, 9], [0, f32(0.1), 1], times="float32", method="mean", mean_window=0.2),
         [0], [2], [Y], times="float32")
    case("mean_infinite_times", "an infinite time is within any window of its equal",
         stream([1, 3, 9], [0, 1, "inf"], times="float64", method="mean", mean_window=2),
         [0, "inf"], [2, 9], [Y, Y], times="float64")
    case("mean_whole_range", "distances do not overflow",
         stream([1, 2, 4], [INT64_MIN, 0, INT64_MAX], method="mean", mean_window=INT64_MAX),
         [INT64_MIN, 0, 1, 2**62, INT64_MAX], [1, 2, 2, 4, 4], [Y] * 5)
    case("mean_valid_rows_only", "rows that are not valid are left out, and do not clear the mask",
         stream([1, 100, 3], [0, 1, 2], method="mean", mean_window=4, valid=[Y, N, Y]),
         [1], [2], [Y])
    case("mean_no_row_is_linear", "without a row in the window, as linear: values, and its mask",
         stream([0, 8, 16], [0, 8, 16], method="mean", mean_window=2, valid=[N, Y, Y]),
         [0, 1, 4, 12, 16], [0, 1, 4, 12, 16], [N, N, N, Y, Y])
    case("mean_no_valid_row_is_linear", "nor a valid one: a hit then decides for itself",
         stream([0, 8, 16, 24], [0, 8, 16, 24], method="mean", mean_window=2, valid=[Y, N, Y, Y]),
         [8, 9, 15, 20], [8, 9, 16, 20], [N, N, Y, Y])
    case("mean_and_max_gap", "max_gap does not concern a mean, but does the linear that stands in",
         stream([0, 8, 16], [0, 1, 9], method="mean", mean_window=2, max_gap=2),
         [0, 1, 5, 9], [4, 4, 12, 16], [Y, Y, N, Y])
    case("mean_across_a_gap", "rows on either side of a gap make a mean",
         stream([0, 8], [0, 16], method="mean", mean_window=16, max_gap=1),
         [8], [4], [Y])
    case("mean_and_tolerance",
         "tolerance does not concern a mean, but does the linear that stands in",
         stream([0, 8, 10], [0, 8, 9], method="mean", mean_window=4, tolerance=3),
         [2, 4, 5, 7, 9], [0, 4, 8, 9, 9], [Y] * 5)
    two: dict[str, Any] = {"values": [2, 4], "source_times": [0, 10], "method": "mean",
         "mean_window": 40}
    case("mean_outside_hold", "outside the recording no mean is made, whatever the window",
         stream(**two),
         [-1, 0, 10, 11], [2, 3, 3, 4], [N, Y, Y, N])
    case("mean_outside_zero", "zero outside",
         stream(**two, subtract=[1], multiply=[3]),
         [-1, 0, 10, 11], [0, 6, 6, 0], [N, Y, Y, N], outside="zero")
    case("mean_outside_nan", "nan outside",
         stream(**two),
         [-1, 0, 11], ["nan", 3, "nan"], [N, Y, N], outside="nan")
    case("mean_outside_extrapolate", "extrapolate holds, as for every run that is not linear",
         stream(**two, subtract=[1], multiply=[3]),
         [-1, 5, 11], [3, 6, 9], [N, Y, N], outside="extrapolate")
    case("mean_outside_ignores_tolerance", "tolerance does not bring a target into the recording",
         stream(**two, tolerance=5),
         [-1, 11], [2, 4], [N, N])
    case("mean_precedence", "an empty episode, then a NaN target, then outside",
         stream([[[2], [4]], [[2], [4]]], [0, 1], times="float64", method="mean", mean_window=4,
          lengths=[0, 2]),
         [[-1, 0, "nan"], [-1, 0, "nan"]], [[[0], [0], [0]], [["nan"], [3], ["nan"]]],
         [[[N], [N], [N]], [[N], [Y], [N]]], times="float64", outside="nan")
    case("mean_lengths", "rows past the episode's end are in no window",
         stream([1, 3, 100], [0, 2, 4], method="mean", mean_window=8,
          lengths=Tensor("int64", (), [2])),
         [0, 2], [2, 2], [Y, Y])
    case("mean_equal_times", "rows of equal time count one by one",
         stream([1, 2, 6, 7], [0, 10, 10, 20], method="mean", mean_window=0),
         [0, 10, 15], [1, 4, 6.5], [Y] * 3)
    big = 2**24
    case("mean_in_row_order", "float32 sums are taken in row order, then divided once",
         stream([[big, 1], [1, 1], [1, big]], [0, 1, 2], method="mean", mean_window=8),
         [1], [[f32(Fraction(big, 3)), f32(Fraction(big + 2, 3))]], [Y])
    case("mean_float64", "float64 values are summed in float64",
         stream([big, 1, 1], [0, 1, 2], dtype="float64", method="mean", mean_window=8),
         [1], [f32(Fraction(big + 2, 3))], [Y], out_dtype="float32")
    case("mean_float64_output", "and so are others for a float64 output",
         stream([1, 2, 4], [0, 1, 2], method="mean", mean_window=8),
         [1], [rounded(Fraction(7, 3), "float64")], [Y], out_dtype="float64")
    case("mean_bfloat16", "bfloat16: only the mean is rounded to bfloat16",
         stream([256, 1, 1], [0, 1, 2], dtype="bfloat16", method="mean", mean_window=8),
         [1], [86], [Y])
    case("mean_float16_overflow_inside", "float16: a sum beyond float16 is no overflow",
         stream([65504, 65504], [0, 1], dtype="float16", method="mean", mean_window=8),
         [0], [65504], [Y])
    case("mean_uint8", "uint8: one rounding, ties to even",
         stream([[250, 0], [254, 1]], [0, 1], dtype="uint8", method="mean", mean_window=8),
         [0], [[252, 0]], [Y])
    case("mean_special_values", "NaN and infinity are data",
         stream([["nan", "inf", "inf"], [1, 1, "-inf"]], [0, 1], method="mean", mean_window=8),
         [0], [["nan", "inf", "nan"]], [Y])
    case("mean_normalized", "subtract and multiply come after the mean",
         stream([1, 3], [0, 1], method="mean", mean_window=8, subtract=[1], multiply=[4]),
         [0], [4], [Y])
    case("mean_and_linear", "a layout of mean and linear: one mask, each by its own rows",
         stream([[0, 0], [8, 8], [16, 16]], [0, 8, 16], method=[("mean", 1), ("linear", 1)],
          mean_window=8, valid=[Y, N, Y]),
         [3, 8, 12], [[0, 3], [8, 8], [16, 12]], [N, N, N])
    case("mean_targets_in_any_order", "targets may descend",
         stream(**five, mean_window=2),
         [7, 1], [12, 1.5], [Y, Y])
    third = lerp(0, 10, 1, 3)
    case("mean_linear_weights", "the linear that stands in rounds as linear does",
         stream([0, 10], [0, 3], method="mean", mean_window=1),
         [1], [third], [Y])
