"""Types of values and output, rounding, subtract and multiply."""

from __future__ import annotations

from fractions import Fraction

from arithmetic import f32, lerp, rounded
from encoding import N, Y
from resampling import case

# The tables below keep a case to a few lines.
# fmt: off


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
    case("uint8_normalized", "uint8 pixels to float32 in one pass",
         [0, 128, 255], [0, 1, 2], [0, 1, 2], [-1, 0, Fraction(127, 128)], [Y] * 3, dtype="uint8",
         subtract=[128], multiply=[Fraction(1, 128)], out_dtype="float32")
    case("uint8_to_uint8_scaled", "uint8 scaled into uint8, saturated after multiply",
         [100, 100], [0, 1], [0], [200], [Y], dtype="uint8", multiply=[2], out_dtype="uint8")
    case("uint8_keeps_fraction", "uint8 to float32 keeps what interpolation gives",
         [0, 1], [0, 4], [1, 2, 3], [0.25, 0.5, 0.75], [Y] * 3, dtype="uint8", out_dtype="float32")
    step = Fraction(1, 128)  # bfloat16 after 1
    case("bfloat16_ties_to_even", "bfloat16: half-way between two neighbors the even one",
         [[1, 1 + step], [1 + step, 1 + 2 * step]], [0, 2], [1], [[1, 1 + 2 * step]], [Y],
         dtype="bfloat16")
    case("bfloat16_computes_in_float32", "bfloat16: only the result is rounded to bfloat16",
         [1, 256], [0, 3], [1, 2], [rounded(lerp(1, 256, 1, 3), "bfloat16"), rounded(lerp(1, 256, 2,
         3), "bfloat16")], [Y, Y], dtype="bfloat16")
    case("bfloat16_normalized", "bfloat16: subtract and multiply before the one rounding",
         [256, 258], [0, 2], [1], [3], [Y], dtype="bfloat16", subtract=[256], multiply=[3])
    step = Fraction(1, 1024)  # float16 after 1
    case("float16_ties_to_even", "float16: half-way between two neighbors the even one",
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


def normalization() -> None:
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
    case("normalization_rounds_each_operation", "subtract and multiply each round to float32",
         [1, 8], [0, 3], [1], [f32(f32(x - s) * m)], [Y], subtract=[s], multiply=[m])
    case("normalization_of_hits", "hits are normalized too",
         [1, 3], [0, 2], [0, 2], [0, 4], [Y, Y], subtract=[1], multiply=[2])
    case("normalization_previous", "previous and nearest are normalized too",
         [[1, 1], [3, 3]], [0, 4], [3], [[0, 4]], [Y], method=[("previous", 1), ("nearest", 1)],
         subtract=[1, 1], multiply=[2, 2])
