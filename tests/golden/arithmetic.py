"""Exact arithmetic in which each operation that the design names is rounded once."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

# Significand bits (the hidden one counted) and the exponent of the smallest normal number.
FORMATS = {
    "float16": (11, -14, 15),
    "bfloat16": (8, -126, 127),
    "float32": (24, -126, 127),
    "float64": (53, -1022, 1023),
}
FLOATS = tuple(FORMATS)
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
