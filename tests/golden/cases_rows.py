"""Hits, tolerance, and how linear, previous and nearest combine their rows."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from arithmetic import f32, lerp, rounded
from encoding import N, Y
from resampling import case

# The tables below keep a case to a few lines.
# fmt: off


def rows() -> None:
    equal: dict[str, Any] = {"values": [0, 1, 2, 3], "source_times": [0, 10, 10, 20]}
    case("equal_times_linear", "of equal times the last is lo, the first is hi",
         **equal, target_times=[5, 10, 15], expected=[0.5, 2, 2.5], valid=[Y] * 3)
    case("equal_times_previous", "previous at equal times takes the last",
         **equal, target_times=[9, 10, 11], expected=[0, 2, 2], valid=[Y] * 3, method="previous")
    case("equal_times_nearest",
         "nearest: of equal times beyond t the first, at or before t the last",
         **equal, target_times=[7, 10, 12], expected=[1, 2, 2], valid=[Y] * 3, method="nearest")
    case("equal_times_at_both_ends",
         "equal times at the ends: a hit takes the last, hold the outermost",
         [1, 2, 3, 4], [0, 0, 10, 10], [-1, 0, 10, 11], [1, 2, 4, 4], [N, Y, Y, N])
    case("all_times_equal", "a recording of one instant",
         [1, 2, 3], [5, 5, 5], [4, 5, 6], [1, 3, 3], [N, Y, N])
    case("one_row", "a single row: valid at its time only",
         [7], [5], [4, 5, 6], [7, 7, 7], [N, Y, N])
    case("hit_is_copied",
         "an exact hit is a copy: an infinite neighbor does not reach it, minus zero stays",
         [1, "inf", 2, -0.0, "-inf"], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [1, "inf", 2, -0.0, "-inf"],
         [Y] * 5)
    case("tolerance_hit",
         "within tolerance, inclusive, a row alone is the answer; just beyond it is not",
         [0, 10], [0, 10], [0, 2, 3, 7, 8, 10], [0, 0, lerp(0, 10, 3, 10), lerp(0, 10, 7, 10), 10,
         10], [Y] * 6, tolerance=2)
    case("tolerance_tie", "a tolerance tie takes the earlier row",
         [1, 2], [0, 10], [5], [1], [Y], tolerance=5)
    case("tolerance_nearest_of_two", "of two rows within tolerance the nearer one",
         [1, 2], [0, 10], [4, 6], [1, 2], [Y, Y], tolerance=9)
    case("tolerance_default_is_zero", "without tolerance one nanosecond off is not a hit",
         [0, 8], [0, 8], [7], [7], [Y])
    case("tolerance_float64", "tolerance in seconds, inclusive",
         [0, 8], [0, 1], [0.125, 0.25, 0.875], [0, 2, 8], [Y] * 3, times="float64", tolerance=0.125)
    case("tolerance_previous_looks_ahead", "under tolerance previous takes a row just after t",
         [1, 2], [0, 10], [8, 9], [1, 2], [Y, Y], method="previous", tolerance=1)
    case("tolerance_nearest", "under tolerance nearest agrees with the hit",
         [1, 2], [0, 10], [1, 4, 5, 6], [1, 1, 1, 2], [Y] * 4, method="nearest", tolerance=1)
    case("tolerance_outside", "a hit just outside the recording is valid and ignores outside",
         [5, 6], [0, 10], [-3, -2, 12, 13], [0, 5, 6, 0], [N, Y, Y, N], tolerance=2, outside="zero")
    case("tolerance_outside_nan", "likewise with nan",
         [5, 6], [0, 10], [-3, -2, 12, 13], ["nan", 5, 6, "nan"], [N, Y, Y, N], tolerance=2,
         outside="nan")
    case("tolerance_outside_extrapolate", "likewise with extrapolate: copied, not extrapolated",
         [5, 6], [0, 10], [-20, -2, 12, 20], [3, 5, 6, 7], [N, Y, Y, N], tolerance=2,
         outside="extrapolate")
    case("tolerance_equal_times_ahead", "of equal times ahead within tolerance the first",
         [0, 1, 2], [0, 10, 10], [9], [1], [Y], tolerance=1)
    case("tolerance_equal_times_behind", "of equal times behind within tolerance the last",
         [0, 1, 2], [0, 0, 10], [1], [1], [Y], tolerance=1)
    case("exact_hit_beats_tolerance", "an exact hit wins over a row ahead within tolerance",
         [1, 2, 3], [0, 1, 2], [1, 0], [2, 1], [Y, Y], tolerance=1)
    case("hit_decides_mask", "the hit row alone decides the mask, for better and for worse",
         [0, 10, 20], [0, 10, 20], [0, 10, 20, 9, 11], [0, 10, 20, 10, 10], [Y, N, Y, N, N],
         source_valid=[Y, N, Y], tolerance=1)
    case("hit_ignores_max_gap", "a hit is valid whatever the gap beside it",
         [0, 10], [0, 1000], [0, 5, 995, 1000, 500], [0, 0, 10, 10, 5], [Y, Y, Y, Y, N],
         tolerance=5, max_gap=1)
    third = lerp(1, 8, 1, 3)
    case("linear_each_operation_rounds", "w, b - a, the product and the sum each round to float32",
         [1, 8], [0, 3], [1, 2], [third, lerp(1, 8, 2, 3)], [Y, Y])
    a, b = f32(0.1), f32(0.7)
    plain = lerp(a, b, 2, 3)
    fused = f32(a + f32(Fraction(2, 3)) * f32(b - a))
    assert plain != fused
    case("linear_not_fused", "no fused multiply-add: here it would change the last bit",
         [a, b], [0, 3], [2], [plain], [Y])
    a64, b64 = 0.1, 1.3
    w64 = Fraction(5, 7)
    plain = lerp(a64, b64, 5, 7, "float64")
    fused = rounded(
        Fraction(a64) + rounded(w64, "float64") * rounded(Fraction(b64) - Fraction(a64), "float64"),
        "float64",
    )
    assert plain != fused
    case("linear_not_fused_float64", "nor in float64",
         [a64, b64], [0, 7], [5], [plain], [Y], dtype="float64")
    case("linear_special_values",
         "NaN and infinity are data: they follow a + w*(b - a) and leave the mask",
         [[1, "inf", "nan", "inf"], ["inf", 1, 2, "-inf"]], [0, 2], [1], [["inf", "nan", "nan",
         "nan"]], [Y])
    case("previous", "previous takes row lo; after the last row it is held and not valid",
         [1, 2, 3], [0, 10, 20], [-1, 0, 9, 10, 19, 20, 21], [1, 1, 1, 2, 2, 3, 3], [N, Y, Y, Y, Y,
         Y, N], method="previous")
    case("nearest", "nearest takes the closer row, a tie the earlier",
         [1, 2, 3], [0, 10, 20], [-1, 4, 5, 6, 15, 16, 21], [1, 1, 1, 2, 2, 3, 3], [N, Y, Y, Y, Y,
         Y, N], method="nearest")
    case("previous_special_values", "a chosen row is copied, whatever its neighbors hold",
         [["nan", 1], [2, "inf"]], [0, 10], [5], [["nan", 1]], [Y], method="previous")
