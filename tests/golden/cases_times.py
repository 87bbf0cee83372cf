"""Times and durations: types, ranges, differences."""

from __future__ import annotations

from fractions import Fraction

from arithmetic import INT64_MAX, INT64_MIN, UNIX, f32, lerp
from encoding import N, Y
from resampling import case

# The tables below keep a case to a few lines.
# fmt: off


def times() -> None:
    case("int64_times", "int64 nanoseconds: rows, and weights between them",
         [0, 10, 40], [0, 100, 300], [0, 25, 100, 150, 300], [0, 2.5, 10, 17.5, 40], [Y] * 5)
    case("float64_times", "float64 seconds",
         [0, 10, 40], [0, 1, 3], [0, 0.25, 1, 1.5, 3], [0, 2.5, 10, 17.5, 40], [Y] * 5,
         times="float64")
    case("float32_times", "float32 seconds",
         [0, 10, 40], [0, 1, 3], [0, 0.25, 1, 1.5, 3], [0, 2.5, 10, 17.5, 40], [Y] * 5,
         times="float32")
    tenth32 = f32(Fraction(1, 10))  # a little more than the double 0.1
    case("float32_sources_float64_targets",
         "float32 promotes: the double 0.1 lies before float32 0.1",
         [1, 2], [tenth32, 1], [0.1, tenth32], [1, 1], [N, Y], times="float32",
         target_dtype="float64")
    case("float64_sources_float32_targets",
         "float64 sources keep their digits beside float32 targets",
         [1, 2], [0.1, 1], [tenth32, 0], [lerp(1, 2, float(tenth32) - 0.1, 1 - 0.1), 1], [Y, N],
         times="float64", target_dtype="float32")
    case("unix_nanoseconds_one_apart", "1.7e18 ns with 1 ns steps loses nothing",
         [0, 1, 5, 8], [UNIX, UNIX + 1, UNIX + 5, UNIX + 6], [UNIX + i for i in range(7)], [0, 1, 2,
         3, 4, 5, 8], [Y] * 7)
    case("unix_nanoseconds_masks", "max_gap and tolerance tell single nanoseconds apart at 1.7e18",
         [0, 8, 16], [UNIX, UNIX + 8, UNIX + 17], [UNIX + 4, UNIX + 7, UNIX + 10, UNIX + 12, UNIX +
         18], [4, 8, lerp(8, 16, 2, 9), lerp(8, 16, 4, 9), 16], [Y, Y, N, N, Y], max_gap=8,
         tolerance=1)
    case("int64_whole_range", "differences are exact over the whole int64 range",
         [0, 1], [INT64_MIN, INT64_MAX], [INT64_MIN, -(2**62), 0, 2**62, INT64_MAX], [0, 0.25, 0.5,
         0.75, 1], [Y] * 5)
    case("int64_whole_range_max_gap", "a gap beyond int64 is larger than any max_gap",
         [0, 1], [INT64_MIN, INT64_MAX], [0, INT64_MAX], [0.5, 1], [N, Y], max_gap=INT64_MAX)
    case("int64_whole_range_tolerance", "a distance beyond int64 is not within any tolerance",
         [3, 4], [INT64_MIN, INT64_MAX], [2, 0], [4, 4], [Y, Y], tolerance=INT64_MAX,
         method="previous")
    case("int64_whole_range_nearest",
         "nearest compares distances over the whole range; 0 is nearer to the end",
         [3, 4], [INT64_MIN, INT64_MAX], [-1, 0], [3, 4], [Y, Y], method="nearest")
    case("int64_whole_range_extrapolate", "extrapolation's differences do not overflow either",
         [[0, 0], [1, 1]], [INT64_MIN, INT64_MIN + 1], [INT64_MAX], [[2**64, 2**64]], [N],
         outside="extrapolate")
    case("int64_whole_range_extrapolate_before", "nor do they before the first row",
         [[0, 0], [1, 1]], [INT64_MAX - 1, INT64_MAX], [INT64_MIN], [[-(2**64), -(2**64)]], [N],
         outside="extrapolate")
    case("int64_difference_then_convert",
         "the difference is taken in integers, then converted: float32 times would all be equal",
         [0, 4], [2**40 + 1, 2**40 + 5], [2**40 + 2, 2**40 + 4], [1, 3], [Y, Y])
    case("float64_difference_then_convert", "float64 times keep their digits under float32 values",
         [0, 4], [2.0**40 + 1, 2.0**40 + 5], [2.0**40 + 2, 2.0**40 + 4], [1, 3], [Y, Y],
         times="float64")
    case("float32_difference_rounds_in_float32",
         "float32 times: the difference rounds in float32, also under float64 values",
         [0, 1], [1, 2**25], [2**24 + 2], [0.5], [Y], dtype="float64", times="float32")
    case("int64_difference_rounds_in_compute_type",
         "exact integer differences are converted one by one, then divided",
         [0, 2**24], [0, 2**24 + 3], [2**24 + 1], [2**24 - 4], [Y])
    case("int64_difference_rounds_once",
         "to float32 in one rounding: by way of a double, 2**60 + 2**36 + 1 would be a tie",
         [0, 1], [0, 2**60 + 2**36 + 1], [2**59], [lerp(0, 1, 2**59, 2**60 + 2**36 + 1)], [Y])
    case("int64_difference_rounds_once_beyond_int64",
         "likewise where the difference is beyond int64",
         [0, 1], [INT64_MIN, INT64_MIN + 2**63 + 2**39 + 1], [INT64_MIN + 2**62],
         [lerp(0, 1, 2**62, 2**63 + 2**39 + 1)], [Y])
    case("targets_in_any_order", "targets may descend and repeat",
         [0, 10, 20], [0, 10, 20], [20, 5, 15, 5, 0], [20, 5, 15, 5, 0], [Y] * 5)
    case("negative_times", "times may be negative",
         [0, 10], [-20, -10], [-20, -15, -10, -21], [0, 5, 10, 0], [Y, Y, Y, N])
    case("duration_in_float32_tolerance",
         "durations take the times' type: float32 0.1 is within a tolerance of 0.1",
         [1, 2], [0, 1], [tenth32], [1], [Y], times="float32", tolerance=0.1)
    case("duration_in_float32_max_gap", "and rows float32 0.1 apart are within a max_gap of 0.1",
         [1, 2], [0, tenth32], [tenth32 / 2], [1.5], [Y], times="float32", max_gap=0.1)
    case("duration_in_float64_max_gap",
         "where times promote to float64, so do durations: float32 0.1 is beyond 0.1",
         [1, 2], [0, tenth32], [tenth32 / 2], [1.5], [N], times="float32", target_dtype="float64",
         max_gap=0.1)
