"""Slerp and angles."""

from __future__ import annotations

import math

from arithmetic import PI32, ULP32, ULP64
from encoding import N, Y
from resampling import case

# The tables below keep a case to a few lines.
# fmt: off


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
    case("slerp_normalizes", "rows are normalized before, hits and held rows too",
         [[0, 0, 0, 2], [0, 0, 3, 4], [0, 5, 0, 0]], [0, 10, 20], [-5, 0, 10, 15, 25], [identity,
         identity, [0, 0, 0.6, 0.8], [0, half, half * 0.6, half * 0.8], [0, 1, 0, 0]], [N, Y, Y, Y,
         N], method="slerp_xyzw", atol=ULP32)
    case("slerp_zero_quaternion",
         "a zero quaternion, as neighbor or hit, gives zeros and an invalid row",
         [[0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0]], [0, 10, 20, 30], [0, 5, 10, 15,
         20, 25], [identity, [0] * 4, [0] * 4, [0] * 4, z180, z180], [Y, N, N, N, Y, Y],
         method="slerp_xyzw", atol=ULP32)
    case("slerp_zero_quaternion_normalized_output",
         "subtract and multiply apply to the zeros of a zero quaternion",
         [[0, 0, 0, 0], [0, 0, 0, 1]], [0, 10], [0, 5, 10], [[0, 0, 0, -2], [0, 0, 0, -2], [0, 0, 0,
         0]], [N, N, Y], method="slerp_xyzw", subtract=[0, 0, 0, 1], multiply=[1, 1, 1, 2],
         atol=ULP32)
    case("slerp_outside_extrapolate", "slerp does not extrapolate: the end is held, normalized",
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
