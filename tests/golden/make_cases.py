"""Writes cases.json, the golden cases of resampling (its format: README.md beside this file).

Every expected value is stated by hand, or follows from exact rational arithmetic in which each
operation that the design names is rounded once (`rounded`). Nothing here calls the library, NumPy
or torch: only the standard library of Python 3.10.

Shorthand used below: a flat list of values or of expected values is one channel, [S,1] or [T,1].
An element is an int, a float, a Fraction or one of "nan", "inf", "-inf"; it must be exact in its
dtype, so that no case depends on how a reader rounds its input.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

PATH = Path(__file__).parent / "cases.json"

# Significand bits (the hidden one counted) and the exponent of the smallest normal number.
FORMATS = {
    "float16": (11, -14, 15),
    "bfloat16": (8, -126, 127),
    "float32": (24, -126, 127),
    "float64": (53, -1022, 1023),
}
FLOATS = tuple(FORMATS)
SPECIAL = ("nan", "inf", "-inf")
ULP32 = 4 * 2.0**-23  # 4 units in the last place of 1
ULP64 = 4 * 2.0**-52
PI32 = Fraction(13176795, 4194304)  # pi rounded to float32
UNIX = 1_700_000_000_000_000_000  # a Unix time in nanoseconds
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


def rounded(x: Fraction | float, dtype: str) -> Fraction:
    """x rounded once to a binary floating type: to nearest, ties to even."""
    x = Fraction(x)
    if x == 0:
        return x
    precision, smallest, largest = FORMATS[dtype]
    exponent = math.frexp(float(abs(x)))[1] - 1
    while Fraction(2) ** exponent > abs(x):
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= abs(x):
        exponent += 1
    unit = Fraction(2) ** (max(exponent, smallest) - precision + 1)
    result = round(x / unit) * unit  # round() of a Fraction takes ties to even
    if abs(result) >= Fraction(2) ** (largest + 1):
        raise OverflowError(f"{x} does not fit {dtype}")
    return result


def f32(x: Fraction | float) -> Fraction:
    return rounded(x, "float32")


def lerp(a: Any, b: Any, part: Any, whole: Any, compute: str = "float32") -> Fraction:
    """a + w*(b - a) with w = part/whole, each operation rounded to the compute type."""

    def r(x: Fraction | float) -> Fraction:
        return rounded(x, compute)

    w = r(r(part) / r(whole))
    return r(Fraction(a) + r(w * r(Fraction(b) - Fraction(a))))


def half_to_even(x: Fraction) -> int:
    return min(255, max(0, round(x)))


class Tensor:
    """A dtype, a shape and flat elements, checked to be exact in the dtype."""

    def __init__(self, dtype: str, shape: tuple[int, ...], data: list[Any], exact: bool = True):
        self.dtype, self.shape = dtype, shape
        assert len(data) == math.prod(shape), (dtype, shape, data)
        self.data = [self._element(x, exact) for x in data]

    def _element(self, x: Any, exact: bool) -> Any:
        if self.dtype == "bool":
            assert isinstance(x, bool), x
            return x
        if self.dtype in FLOATS:
            if isinstance(x, str):
                assert x in SPECIAL, x
                return x
            if isinstance(x, float) and x == 0:
                return x  # keeps the sign of zero
            if not exact:
                return float(rounded(x, self.dtype))
            assert rounded(x, self.dtype) == Fraction(x), f"{x!r} is not exact in {self.dtype}"
            return float(x)
        low, high = {
            "int64": (INT64_MIN, INT64_MAX),
            "int32": (-(2**31), 2**31 - 1),
            "uint8": (0, 255),
        }[self.dtype]
        assert isinstance(x, int) and low <= x <= high, x
        return x

    def json(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "shape": list(self.shape), "data": self.data}


def tensor(dtype: str, nested: Any, column: bool = False, exact: bool = True) -> Tensor:
    """A nested list as a Tensor; with `column`, a flat list becomes one channel."""
    if isinstance(nested, Tensor):
        return nested
    shape: list[int] = []
    level = nested
    while isinstance(level, list):
        shape.append(len(level))
        if not level:
            break
        level = level[0]

    def flatten(x: Any) -> list[Any]:
        return [e for part in x for e in flatten(part)] if isinstance(x, list) else [x]

    data = flatten(nested)
    if column and len(shape) == 1:
        shape.append(1)
    return Tensor(dtype, tuple(shape), data, exact)


CASES: list[dict[str, Any]] = []


def case(
    name: str,
    reason: str,
    values: Any,
    source_times: Any,
    target_times: Any,
    expected: Any,
    valid: Any,
    *,
    dtype: str = "float32",
    times: str = "int64",
    target_dtype: str | None = None,
    method: str | list[tuple[str, int]] = "linear",
    outside: str = "hold",
    max_gap: float | None = None,
    tolerance: float = 0,
    lengths: Any = None,
    lengths_dtype: str = "int64",
    source_valid: Any = None,
    subtract: Any = None,
    subtract_dtype: str = "float32",
    multiply: Any = None,
    multiply_dtype: str = "float32",
    out_dtype: str | None = None,
    atol: float = 0,
) -> None:
    assert all(c["name"] != name for c in CASES), name
    assert name.replace("_", "").isalnum() and name == name.lower(), name
    v = tensor(dtype, values, column=True)
    s = tensor(times, source_times)
    t = tensor(target_dtype or times, target_times)
    channels = v.shape[-1]
    layout = [(method, channels)] if isinstance(method, str) else method
    assert sum(width for _, width in layout) == channels, name
    e = tensor(out_dtype or dtype, expected, column=True, exact=atol == 0)
    m = tensor("bool", valid)
    assert e.shape[:-1] == m.shape and e.shape[-1] == channels, (name, e.shape, m.shape)
    assert m.shape[-1] == t.shape[-1] and v.shape[-2] == s.shape[-1], name
    number = int if times == "int64" else float

    def optional(kind: str, nested: Any) -> Any:
        return None if nested is None else tensor(kind, nested).json()

    CASES.append(
        {
            "name": name,
            "reason": reason,
            "values": v.json(),
            "source_times": s.json(),
            "target_times": t.json(),
            "source_lengths": optional(lengths_dtype, lengths),
            "source_valid": optional("bool", source_valid),
            "subtract": optional(subtract_dtype, subtract),
            "multiply": optional(multiply_dtype, multiply),
            "layout": [list(run) for run in layout],
            "outside": outside,
            "max_gap": None if max_gap is None else number(max_gap),
            "tolerance": number(tolerance),
            "out_dtype": out_dtype,
            "expected": e.json(),
            "valid": m.json(),
            "atol": atol,
        }
    )


Y, N = True, False  # valid, not valid

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
         "an exact hit is a copy: an infinite neighbour does not reach it, minus zero stays",
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
    case("previous_special_values", "a chosen row is copied, whatever its neighbours hold",
         [["nan", 1], [2, "inf"]], [0, 10], [5], [["nan", 1]], [Y], method="previous")


def quaternions() -> None:
    half = math.sqrt(0.5)
    identity, z180 = [0, 0, 0, 1], [0, 0, 1, 0]
    case("slerp_quarters", "half-way and a third of the way to a half turn about z",
         [identity, z180], [0, 12], [0, 6, 4, 8, 12], [identity, [0, 0, half, half], [0, 0, 0.5,
         math.sqrt(0.75)], [0, 0, math.sqrt(0.75), 0.5], z180], [Y] * 5, method="slerp_xyzw",
         atol=ULP32)
    case("slerp_wxyz", "wxyz: the same rotation, stored w first",
         [[1, 0, 0, 0], [0, 0, 0, 1]], [0, 12], [6, 4], [[half, 0, 0, half], [math.sqrt(0.75), 0, 0,
         0.5]], [Y, Y], method="slerp_wxyz", atol=ULP32)
    case("slerp_float64", "float64 within 4 units in the last place of 1 of float64",
         [identity, z180], [0, 12], [4], [[0, 0, 0.5, math.sqrt(0.75)]], [Y], method="slerp_xyzw",
         dtype="float64", atol=ULP64)
    case("slerp_sign", "b flips sign where the dot product is negative, a keeps its own",
         [[0, 0, 0, -1], [0, 0, 1, 0.125]], [0, 2], [0, 1, 2], [[0, 0, 0, -1], slerp_planar((0, -1),
         (-8, -1), 0.5), slerp_planar((8, 1), (8, 1), 0)], [Y] * 3, method="slerp_xyzw", atol=ULP32)
    case("slerp_opposite_is_same_rotation", "q and -q are one rotation: nothing moves",
         [[0.5, 0.5, 0.5, 0.5], [-0.5, -0.5, -0.5, -0.5]], [0, 4], [1, 2, 4], [[0.5] * 4, [0.5] * 4,
         [-0.5] * 4], [Y] * 3, method="slerp_xyzw", atol=ULP32)
    case("slerp_orthogonal_keeps_sign", "a dot product of exactly 0 does not flip",
         [identity, [0, 0, -1, 0]], [0, 12], [6], [[0, 0, -half, half]], [Y], method="slerp_xyzw",
         atol=ULP32)
    case("slerp_equal_rows", "equal rows: no division by the sine of nothing",
         [[0.5, -0.5, 0.5, 0.5]] * 2, [0, 7], [3], [[0.5, -0.5, 0.5, 0.5]], [Y],
         method="slerp_xyzw", atol=ULP32)
    small = 2.0**-9
    case("slerp_small_angle", "a small angle keeps its digits",
         [identity, [0, 0, math.ldexp(1, -9), 1]], [0, 4], [1], [[0, 0, math.sin(math.atan(small) /
         4), math.cos(math.atan(small) / 4)]], [Y], method="slerp_xyzw", atol=ULP32)
    case("slerp_normalises", "rows are normalised before, hits and held rows too",
         [[0, 0, 0, 2], [0, 0, 3, 4], [0, 5, 0, 0]], [0, 10, 20], [-5, 0, 10, 15, 25], [identity,
         identity, [0, 0, 0.6, 0.8], [0, half, half * 0.6, half * 0.8], [0, 1, 0, 0]], [N, Y, Y, Y,
         N], method="slerp_xyzw", atol=ULP32)
    case("slerp_zero_quaternion",
         "a zero quaternion, as neighbour or hit, gives zeros and an invalid row",
         [[0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0]], [0, 10, 20, 30], [0, 5, 10, 15,
         20, 25], [identity, [0] * 4, [0] * 4, [0] * 4, z180, z180], [Y, N, N, N, Y, Y],
         method="slerp_xyzw", atol=ULP32)
    case("slerp_zero_quaternion_normalised_output",
         "subtract and multiply apply to the zeros of a zero quaternion",
         [[0, 0, 0, 0], [0, 0, 0, 1]], [0, 10], [0, 5, 10], [[0, 0, 0, -2], [0, 0, 0, -2], [0, 0, 0,
         0]], [N, N, Y], method="slerp_xyzw", subtract=[0, 0, 0, 1], multiply=[1, 1, 1, 2],
         atol=ULP32)
    case("slerp_outside_extrapolate", "slerp does not extrapolate: the end is held, normalised",
         [[0, 0, 0, 3], [0, 0, 3, 0]], [0, 10], [-5, 15], [identity, z180], [N, N],
         method="slerp_xyzw", outside="extrapolate", atol=ULP32)
    case("slerp_outside_nan", "outside nan is literal under slerp too",
         [[0, 0, 0, 3], [0, 0, 3, 0]], [0, 10], [-5, 0], [["nan"] * 4, identity], [N, Y],
         method="slerp_xyzw", outside="nan", atol=ULP32)
    case("slerp_max_gap", "max_gap for slerp is the distance between the rows, inclusive",
         [identity, z180, identity], [0, 12, 25], [6, 12, 25], [[0, 0, half, half], z180, identity],
         [Y, Y, Y], method="slerp_xyzw", max_gap=12, atol=ULP32)
    case("slerp_max_gap_exceeded", "one more nanosecond between the rows is too much",
         [identity, z180], [0, 12], [6], [[0, 0, half, half]], [N], method="slerp_xyzw", max_gap=11,
         atol=ULP32)
    case("slerp_valid_needs_both_rows", "slerp is made from both rows",
         [identity, z180, identity], [0, 12, 24], [6, 18, 24], [[0, 0, half, half], [0, 0, half,
         half], identity], [N, Y, Y], method="slerp_xyzw", source_valid=[N, Y, Y], atol=ULP32)


def slerp_planar(a: tuple[float, float], b: tuple[float, float], w: float) -> list[float]:
    """Slerp in the (z, w) plane by the angle, where the dot product is not negative."""
    start = math.atan2(a[0], a[1])
    turn = (math.atan2(b[0], b[1]) - start + math.pi) % (2 * math.pi) - math.pi
    return [0, 0, math.sin(start + w * turn), math.cos(start + w * turn)]


def angles() -> None:
    pi, tau = math.pi, 2 * math.pi
    case("angle_inside", "no wrap where none is needed",
         [-1, 0, 2], [0, 10, 20], [0, 5, 10, 15, 20], [-1, -0.5, 0, 1, 2], [Y] * 5, method="angle",
         atol=ULP32)
    case("angle_short_way", "from 3 to -3 the short way leads through pi",
         [3, -3], [0, 4], [1, 3], [3 + (tau - 6) / 4, -3 - (tau - 6) / 4], [Y, Y], method="angle",
         atol=ULP32)
    case("angle_short_way_back", "and from -3 to 3 likewise, downwards",
         [-3, 3], [0, 4], [1, 3], [-3 - (tau - 6) / 4, 3 + (tau - 6) / 4], [Y, Y], method="angle",
         atol=ULP32)
    case("angle_exactly_pi_goes_positive",
         "a difference of exactly +pi or -pi goes the positive way",
         [[0, PI32, 0], [PI32, 0, -PI32]], [0, 4], [1], [[pi / 4, float(PI32) * 1.25 - tau, pi /
         4]], [Y], method="angle", atol=ULP32)
    case("angle_minus_pi_becomes_pi", "the result lies in (-pi, pi]: a hit or a held -pi reads +pi",
         [-PI32, PI32], [0, 10], [-1, 0, 10, 11], [pi] * 4, [N, Y, Y, N], method="angle",
         atol=ULP32)
    case("angle_hits_wrap", "hits and held rows wrap into (-pi, pi]",
         [4, -4, 6.5, 7], [0, 10, 20, 30], [-1, 0, 10, 20, 30, 31], [4 - tau, 4 - tau, tau - 4, 6.5
         - tau, 7 - tau, 7 - tau], [N, Y, Y, Y, Y, N], method="angle", atol=ULP32)
    case("angle_float64", "float64 within 4 units in the last place of 1 of float64",
         [3, -3], [0, 4], [1, 3], [3 + (tau - 6) / 4, -3 - (tau - 6) / 4], [Y, Y], method="angle",
         dtype="float64", atol=ULP64)
    case("angle_outside_extrapolate", "angle does not extrapolate: the ends are held",
         [1, 2], [0, 10], [-10, 20], [1, 2], [N, N], method="angle", outside="extrapolate",
         atol=ULP32)
    case("angle_max_gap", "max_gap for angle is the distance between the rows, inclusive",
         [0, 1, 0], [0, 10, 21], [5, 16, 21], [0.5, 5 / 11, 0], [Y, N, Y], method="angle",
         max_gap=10, atol=ULP32)
    case("angle_subtract_multiply", "subtract and multiply apply after the wrap",
         [4, 4], [0, 10], [5], [(4 - tau - 1) * 2], [Y], method="angle", subtract=[1], multiply=[2],
         atol=4 * ULP32)


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
    case("layout_repeats_a_method", "equal neighbouring runs are one longer run",
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


def outside() -> None:
    two: dict[str, Any] = {"values": [2, 4], "source_times": [0, 10]}
    case("outside_hold", "hold: the first row before, the last row after, not valid",
         **two, target_times=[-5, 0, 10, 15], expected=[2, 2, 4, 4], valid=[N, Y, Y, N])
    case("outside_zero", "zero outside only",
         **two, target_times=[-5, 0, 10, 15], expected=[0, 2, 4, 0], valid=[N, Y, Y, N],
         outside="zero")
    case("outside_nan", "nan outside only",
         **two, target_times=[-5, 0, 10, 15], expected=["nan", 2, 4, "nan"], valid=[N, Y, Y, N],
         outside="nan")
    case("outside_extrapolate", "extrapolate from the first two and the last two rows",
         [0, 2, 6], [0, 8, 16], [-8, -4, 20, 24, 16], [-2, -1, 8, 10, 6], [N, N, N, N, Y],
         outside="extrapolate")
    case("outside_extrapolate_rounds", "before the first row a is row 0, after the last row n - 2",
         [1, 8], [0, 3], [-1, 4], [lerp(1, 8, -1, 3), lerp(1, 8, 4, 3)], [N, N],
         outside="extrapolate")
    case("outside_extrapolate_float64", "extrapolation over floating times",
         [0, 2], [0, 1], [-0.5, 2], [-1, 4], [N, N], times="float64", dtype="float64",
         outside="extrapolate")
    case("outside_extrapolate_one_row", "a single row is held",
         [3], [5], [4, 6], [3, 3], [N, N], outside="extrapolate")
    case("outside_extrapolate_equal_times", "two rows of equal time hold: the outermost one",
         [1, 2, 3, 4], [0, 0, 10, 10], [-5, 15], [1, 4], [N, N], outside="extrapolate")
    case("outside_extrapolate_one_end_equal", "each end looks at its own two rows",
         [1, 2, 4], [0, 0, 10], [-5, 15], [1, 5], [N, N], outside="extrapolate")
    case("outside_extrapolate_previous", "previous holds under extrapolate",
         **two, target_times=[-5, 15], expected=[2, 4], valid=[N, N], method="previous",
         outside="extrapolate")
    case("outside_extrapolate_nearest", "nearest holds under extrapolate",
         **two, target_times=[-5, 15], expected=[2, 4], valid=[N, N], method="nearest",
         outside="extrapolate")
    case("outside_zero_is_literal", "zero is written after subtract and multiply, hold before them",
         **two, target_times=[-5, 0], expected=[0, 3], valid=[N, Y], outside="zero", subtract=[1],
         multiply=[3])
    case("outside_hold_is_normalised", "a held row goes through subtract and multiply",
         **two, target_times=[-5, 15], expected=[3, 9], valid=[N, N], subtract=[1], multiply=[3])
    case("outside_extrapolate_is_normalised", "so does an extrapolated one",
         **two, target_times=[-5, 15], expected=[0, 12], valid=[N, N], subtract=[1], multiply=[3],
         outside="extrapolate")
    case("outside_nan_is_literal", "nan whatever subtract and multiply say",
         **two, target_times=[15, 5], expected=["nan", 0], valid=[N, Y], outside="nan",
         subtract=[0], multiply=[0])
    case("outside_zero_uint8", "zero into uint8",
         [200, 100], [0, 10], [-1, 0, 11], [0, 200, 0], [N, Y, N], dtype="uint8", outside="zero")
    case("outside_extrapolate_uint8", "extrapolation saturates uint8 at both ends",
         [100, 200], [0, 10], [-11, -5, 12, 20], [0, 50, 220, 255], [N] * 4, dtype="uint8",
         outside="extrapolate")
    for method in ("previous", "nearest"):
        case(f"outside_zero_{method}", f"zero and its mask under {method}",
             **two, target_times=[-1, 0, 10, 11], expected=[0, 2, 4, 0], valid=[N, Y, Y, N],
             method=method, outside="zero")
    case("nan_target", "a NaN target: NaN, not valid; its neighbours are untouched",
         [[1, 2], [3, 4]], [0, 1], [0, "nan", 1], [[1, 2], ["nan", "nan"], [3, 4]], [Y, N, Y],
         times="float64")
    case("nan_target_before_outside", "NaN comes before outside zero, and ignores tolerance",
         [1, 3], [0, 1], ["nan", -5], ["nan", 0], [N, N], times="float32", outside="zero",
         tolerance=1)
    case("nan_target_is_literal", "written after subtract and multiply, in every method",
         [[1, 1, 1], [3, 3, 3]], [0, 1], ["nan"], [["nan", "nan", "nan"]], [N], times="float64",
         method=[("previous", 1), ("nearest", 1), ("angle", 1)], subtract=[1, 1, 1], multiply=[0, 0,
         0])
    case("nan_target_uint8", "0 for integers",
         [9, 9], [0, 1], ["nan", 0.5], [0, 9], [N, Y], dtype="uint8", times="float64")
    case("infinite_targets", "infinite targets lie outside",
         [1, 3], [0, 1], ["-inf", "inf"], [1, 3], [N, N], times="float64")
    case("empty_recording", "no rows: zeros, not valid",
         Tensor("float32", (0, 2), []), [], [0, 1], [[0, 0], [0, 0]], [N, N])
    case("empty_before_nan", "an empty episode comes before a NaN target and before outside nan",
         Tensor("float32", (0, 1), []), [], ["nan", 1], [0, 0], [N, N], times="float64",
         outside="nan", subtract=[5], multiply=[2])
    case("empty_episode_in_batch", "an episode of length 0 beside a full one",
         [[[1], [3]], [[5], [7]]], [[0, 2], [0, 2]], [[1, 3], [1, 3]], [[[0], [0]], [[6], [7]]],
         [[N, N], [Y, N]], lengths=[0, 2], outside="hold")


def masks() -> None:
    case("max_gap_linear", "linear: the rows are at most max_gap apart, inclusive",
         [0, 8, 16, 24], [0, 8, 17, 24], [4, 12, 17, 20], [4, lerp(8, 16, 4, 9), 16, lerp(16, 24, 3,
         7)], [Y, N, Y, Y], max_gap=8)
    case("max_gap_previous", "previous: the row is at most max_gap away, inclusive",
         [1, 2], [0, 10], [3, 4, 10], [1, 1, 2], [Y, N, Y], method="previous", max_gap=3)
    case("max_gap_nearest", "nearest: likewise, on either side",
         [1, 2], [0, 10], [3, 4, 6, 7], [1, 1, 2, 2], [Y, N, N, Y], method="nearest", max_gap=3)
    case("max_gap_zero", "max_gap 0 leaves the hits",
         [0, 8], [0, 8], [0, 4, 8], [0, 4, 8], [Y, N, Y], max_gap=0)
    case("max_gap_float64", "max_gap in seconds, inclusive",
         [0, 8, 16], [0, 0.5, 1.25], [0.25, 0.75], [4, lerp(8, 16, 0.25, 0.75)], [Y, N],
         times="float64", max_gap=0.5)
    case("max_gap_outside", "outside stays invalid however large max_gap is",
         [1, 2], [0, 10], [-1, 11], [1, 2], [N, N], max_gap=1000)
    case("source_valid_linear",
         "both rows must be valid; invalid rows still bracket and give values",
         [0, 8, 16, 24], [0, 8, 16, 24], [4, 8, 12, 16, 20], [4, 8, 12, 16, 20], [N, N, N, Y, Y],
         source_valid=[Y, N, Y, Y])
    case("source_valid_previous", "previous: its one row decides",
         [1, 2, 3], [0, 10, 20], [0, 5, 10, 15, 20], [1, 1, 2, 2, 3], [Y, Y, N, N, Y],
         method="previous", source_valid=[Y, N, Y])
    case("source_valid_nearest", "nearest: its one row decides",
         [1, 2], [0, 10], [0, 5, 6, 10], [1, 1, 2, 2], [Y, Y, N, N], method="nearest",
         source_valid=[Y, N])
    case("source_valid_equal_times", "of equal times the hit is the last row, and so is its mask",
         [1, 2, 3], [0, 0, 10], [0], [2], [N], source_valid=[Y, N, Y])
    case("source_valid_and_max_gap", "either alone clears the mask",
         [0, 8, 16, 32], [0, 8, 16, 32], [4, 12, 24], [4, 12, 24], [N, Y, N], source_valid=[N, Y, Y,
         Y], max_gap=8)
    case("source_valid_batched", "a mask of its own for each batch row",
         [[0], [8]], [0, 8], [4], [[[4]], [[4]]], [[Y], [N]], source_valid=[[Y, Y], [Y, N]])
    case("source_lengths", "rows past the length do not exist, whatever they hold",
         [[[1], [3], ["nan"]], [[5], [7], [9]]], [[0, 2, -99], [0, 2, 4]], [1, 2, 3], [[[2], [3],
         [3]], [[6], [7], [8]]], [[Y, Y, N], [Y, Y, Y]], lengths=[2, 3])
    case("source_lengths_int32", "lengths as int32, times shared by the batch",
         [[[1], [3]], [[5], [7]]], [0, 2], [1], [[[1]], [[6]]], [[N], [Y]], lengths=[1, 2],
         lengths_dtype="int32")
    case("source_lengths_shared", "one length without a batch keeps the output unbatched",
         [1, 3, 100], [0, 2, 4], [1, 3], [2, 3], [Y, N], lengths=Tensor("int64", (), [2]))
    case("source_lengths_give_the_batch", "lengths alone may bring the batch",
         [1, 3, 5], [0, 2, 4], [3], [[[0]], [[1]], [[3]], [[4]]], [[N], [N], [N], [Y]], lengths=[0,
         1, 2, 3])
    case("source_lengths_extrapolate", "the last two rows are those within the length",
         [[[0], [1], [9]], [[0], [1], [9]]], [0, 2, 4], [6], [[[3]], [[17]]], [[N], [N]],
         lengths=[2, 3], outside="extrapolate")
    case("source_lengths_nearest", "a row past the length is not the nearest",
         [1, 2, 3], [0, 10, 20], [19], [2], [N], method="nearest", lengths=Tensor("int64", (), [2]))


def batches() -> None:
    case("batch_everything", "values, sources and targets of their own",
         [[[0], [4]], [[10], [20]]], [[0, 4], [0, 10]], [[1, 2], [5, 10]], [[[1], [2]], [[15],
         [20]]], [[Y, Y], [Y, Y]])
    case("batch_shared_times", "times shared by the batch",
         [[[0], [4]], [[10], [20]]], [0, 4], [1, 2], [[[1], [2]], [[12.5], [15]]], [[Y, Y], [Y, Y]])
    case("batch_shared_values", "values shared, sources of their own",
         [0, 4], [[0, 4], [0, 8]], [2], [[[2]], [[1]]], [[Y], [Y]])
    case("batch_shared_sources", "values and sources shared, targets of their own",
         [0, 4], [0, 4], [[1], [9]], [[[1]], [[4]]], [[Y], [N]])
    case("batch_of_one", "a batch of one stays a batch",
         [[[0], [4]]], [0, 4], [1], [[[1]]], [[Y]])
    case("no_targets", "T = 0",
         [[1, 2]], [0], [], Tensor("float32", (0, 2), []), [])
    case("no_channels", "D = 0 still has a mask",
         Tensor("float32", (2, 0), []), [0, 2], [1, 3], Tensor("float32", (2, 0), []), [Y, N])
    case("no_batch_rows", "B = 0",
         Tensor("float32", (0, 2, 3), []), [0, 2], [1], Tensor("float32", (0, 1, 3), []),
         Tensor("bool", (0, 1), []))


def dtypes() -> None:
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        case(f"dtype_{dtype}", "each floating type, by exact numbers",
             [[0, -4], [8, 4]], [0, 8], [0, 1, 4, 8, 9], [[0, -4], [1, -3], [4, 0], [8, 4], [8, 4]],
             [Y, Y, Y, Y, N], dtype=dtype)
    case("uint8_ties_to_even", "uint8 rounds once, ties to even",
         [0, 2, 5, 8], [0, 4, 6, 8], [1, 3, 5, 7], [0, 2, 4, 6], [Y] * 4, dtype="uint8")
    case("uint8_downwards", "uint8 differences are negative where they should be",
         [255, 0], [0, 255], [0, 1, 254, 255], [255, 254, 1, 0], [Y] * 4, dtype="uint8")
    case("uint8_from_float32", "float32 into uint8: saturates, ties to even, NaN is 0",
         [[-1, 0.5, 1.5, 254.5, 255.5], [300, "inf", "-inf", "nan", -0.0]], [0, 1], [0, 1], [[0, 0,
         2, 254, 255], [255, 255, 0, 0, 0]], [Y, Y], out_dtype="uint8")
    case("uint8_from_float64", "float64 into uint8 rounds once",
         [[0.5 - 2.0**-54, 2.5, 254.5 + 2.0**-30]], [0], [0], [[0, 2, 255]], [Y], dtype="float64",
         out_dtype="uint8")
    case("uint8_normalised", "uint8 pixels to float32 in one pass",
         [0, 128, 255], [0, 1, 2], [0, 1, 2], [-1, 0, Fraction(127, 128)], [Y] * 3, dtype="uint8",
         subtract=[128], multiply=[Fraction(1, 128)], out_dtype="float32")
    case("uint8_to_uint8_scaled", "uint8 scaled into uint8, saturated after multiply",
         [100, 100], [0, 1], [0], [200], [Y], dtype="uint8", multiply=[2], out_dtype="uint8")
    case("uint8_keeps_fraction", "uint8 to float32 keeps what interpolation gives",
         [0, 1], [0, 4], [1, 2, 3], [0.25, 0.5, 0.75], [Y] * 3, dtype="uint8", out_dtype="float32")
    step = Fraction(1, 128)  # bfloat16 after 1
    case("bfloat16_ties_to_even", "bfloat16: half-way between two neighbours the even one",
         [[1, 1 + step], [1 + step, 1 + 2 * step]], [0, 2], [1], [[1, 1 + 2 * step]], [Y],
         dtype="bfloat16")
    case("bfloat16_computes_in_float32", "bfloat16: only the result is rounded to bfloat16",
         [1, 256], [0, 3], [1, 2], [rounded(lerp(1, 256, 1, 3), "bfloat16"), rounded(lerp(1, 256, 2,
         3), "bfloat16")], [Y, Y], dtype="bfloat16")
    case("bfloat16_normalised", "bfloat16: subtract and multiply before the one rounding",
         [256, 258], [0, 2], [1], [3], [Y], dtype="bfloat16", subtract=[256], multiply=[3])
    step = Fraction(1, 1024)  # float16 after 1
    case("float16_ties_to_even", "float16: half-way between two neighbours the even one",
         [[1, 1 + step], [1 + step, 1 + 2 * step]], [0, 2], [1], [[1, 1 + 2 * step]], [Y],
         dtype="float16")
    case("float16_from_float32", "float32 into float16: overflow to infinity, subnormals rounded",
         [[65504, 65519, 65520, -70000, Fraction(1, 2**24), Fraction(1, 2**25), Fraction(3, 2**25),
         "nan"]], [0], [0], [[65504, 65504, "inf", "-inf", Fraction(1, 2**24), 0, Fraction(2,
         2**24), "nan"]], [Y], out_dtype="float16")
    case("bfloat16_from_float32", "float32 into bfloat16: to nearest even, overflow to infinity",
         [[1 + Fraction(1, 256), 1 + Fraction(3, 256), 1 + Fraction(1, 256) + Fraction(1, 2**23),
         2**128 - 2**104, "nan", "-inf", -0.0]], [0], [0], [[1, 1 + Fraction(4, 256), 1 +
         Fraction(2, 256), "inf", "nan", "-inf", -0.0]], [Y], out_dtype="bfloat16")
    case("float16_overflow_inside", "float16: an intermediate beyond float16 is no overflow",
         [65504, -65504], [0, 4], [1, 2], [32752, 0], [Y, Y], dtype="float16")
    case("float32_to_float64", "a float64 output computes in float64",
         [1, 8], [0, 3], [1], [lerp(1, 8, 1, 3, "float64")], [Y], out_dtype="float64")
    case("float64_to_float32", "float64 values compute in float64, then round once",
         [1, 8], [0, 3], [1], [f32(lerp(1, 8, 1, 3, "float64"))], [Y], dtype="float64",
         out_dtype="float32")
    case("bfloat16_to_float32", "a wider output keeps the digits",
         [1, 2], [0, 256], [1], [1 + Fraction(1, 256)], [Y], dtype="bfloat16", out_dtype="float32")


def normalisation() -> None:
    case("subtract_then_multiply", "(x - subtract) * multiply, channel by channel",
         [[10, 20, 30], [20, 30, 40]], [0, 2], [1], [[10, -10, 0.25]], [Y], subtract=[5, 30, 34.75],
         multiply=[1, 2, 1])
    case("subtract_alone", "subtract without multiply",
         [1, 3], [0, 2], [1], [-8], [Y], subtract=[10])
    case("multiply_alone", "multiply without subtract",
         [1, 3], [0, 2], [1], [-4], [Y], multiply=[-2])
    tenth = f32(0.1)
    case("subtract_float64_under_float32", "subtract and multiply are taken into the compute type",
         [1, 3], [0, 2], [1], [f32(f32(2 - tenth) * f32(0.3))], [Y], subtract=[0.1],
         subtract_dtype="float64", multiply=[0.3], multiply_dtype="float64")
    case("subtract_half_types", "subtract and multiply may be of other types than the values",
         [1, 3], [0, 2], [1], [1.5], [Y], subtract=[1.5], subtract_dtype="bfloat16", multiply=[3],
         multiply_dtype="float16")
    case("subtract_float64_values", "float64 throughout",
         [0.1, 0.1], [0, 2], [1], [rounded(rounded(Fraction(0.1) - Fraction(0.3), "float64") *
         Fraction(0.7), "float64")], [Y], dtype="float64", subtract=[0.3], subtract_dtype="float64",
         multiply=[0.7], multiply_dtype="float64")
    x, m = f32(lerp(1, 8, 1, 3)), f32(0.7)
    s = f32(0.3)
    case("normalisation_rounds_each_operation", "subtract and multiply each round to float32",
         [1, 8], [0, 3], [1], [f32(f32(x - s) * m)], [Y], subtract=[s], multiply=[m])
    case("normalisation_of_hits", "hits are normalised too",
         [1, 3], [0, 2], [0, 2], [0, 4], [Y, Y], subtract=[1], multiply=[2])
    case("normalisation_previous", "previous and nearest are normalised too",
         [[1, 1], [3, 3]], [0, 4], [3], [[0, 4]], [Y], method=[("previous", 1), ("nearest", 1)],
         subtract=[1, 1], multiply=[2, 2])


# fmt: on
def encode() -> str:
    """One case a line: small in a diff, and still a plain JSON document."""
    lines = ",\n".join(json.dumps(c, allow_nan=False) for c in CASES)
    return f'{{"format": 1, "cases": [\n{lines}\n]}}\n'


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the file, write nothing")
    arguments = parser.parse_args()
    for group in (
        times,
        rows,
        quaternions,
        angles,
        layouts,
        outside,
        masks,
        batches,
        dtypes,
        normalisation,
    ):
        group()
    text = encode()
    if arguments.check:
        same = PATH.exists() and PATH.read_text() == text
        print(f"{PATH.name}: {'up to date' if same else 'differs from what make_cases.py writes'}")
        return 0 if same else 1
    PATH.write_text(text)
    print(f"{PATH.name}: {len(CASES)} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
