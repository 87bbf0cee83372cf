"""Several streams side by side, and clocks that differ."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from arithmetic import INT64_MAX, INT64_MIN, UNIX, f32, lerp
from encoding import N, Tensor, Y
from fusing import case, stream

# The tables below keep a case to a few lines.
# fmt: off


def clock_offsets() -> None:
    two: dict[str, Any] = {"values": [0, 10], "source_times": [0, 10]}
    case("clock_offset", "added to the stream's times before the search",
         stream(**two, clock_offset=5), [4, 5, 10, 15, 16], [0, 0, 5, 10, 10], [N, Y, Y, Y, N])
    case("clock_offset_negative", "it may be negative",
         stream(**two, clock_offset=-5), [-5, 0, 5, 6], [0, 5, 10, 10], [Y, Y, Y, N])
    case("clock_offset_unix_nanoseconds", "exact, of integers",
         stream([0, 8], [UNIX, UNIX + 8], clock_offset=3), [UNIX + 3, UNIX + 4, UNIX + 11],
         [0, 1, 8], [Y] * 3)
    case("clock_offset_past_int64",
         "times that would pass the range of int64 are as far out as it goes",
         stream(**two, clock_offset=INT64_MIN), [0], [10], [N])
    case("clock_offset_past_int64_before", "at either end",
         stream(**two, clock_offset=INT64_MAX), [-10], [0], [N])
    case("clock_offset_whole_range", "an offset that leaves them within it loses nothing",
         stream([0, 8], [INT64_MIN, INT64_MIN + 8], clock_offset=INT64_MAX), [-1, 0, 7], [0, 1, 8],
         [Y] * 3)
    big = 2**24
    case("clock_offset_float32", "of floating times, each sum is rounded to their type",
         stream([1, 2, 5], [big, big + 2, big + 8], times="float32", clock_offset=1),
         [big, big + 4, big + 6], [1, 2, 3.5], [Y] * 3, times="float32")
    case("clock_offset_float64", "in seconds",
         stream([0, 8], [0, 1], times="float64", clock_offset=-0.25), [-0.25, 0, 0.75], [0, 2, 8],
         [Y] * 3, times="float64")
    case("clock_offset_takes_the_times_type", "float32 0.1 for float32 times",
         stream([1, 2], [0, 1], times="float32", clock_offset=0.1), [f32(0.1)], [1], [Y],
         times="float32")
    case("clock_offset_max_gap_tolerance", "distances from the moved rows",
         stream(**two, clock_offset=3, tolerance=1, max_gap=9), [2, 4, 5, 12], [0, 0, 2, 10],
         [Y, Y, N, Y])
    case("clock_offset_mean", "means go by the moved rows",
         stream([1, 2, 4], [0, 2, 4], method="mean", mean_window=2, clock_offset=10), [11, 14],
         [1.5, 4], [Y, Y])
    case("clock_offset_sum", "and so do sums, at every target",
         stream([1, 2, 4], [0, 2, 4], method="sum", clock_offset=10), [10, 13, 14], [1, 2, 4],
         [Y] * 3)
    case("clock_offset_extrapolate", "and extrapolation",
         stream(**two, clock_offset=100), [90, 120], [-10, 20], [N, N], outside="extrapolate")


def streams() -> None:
    pixels = stream([0, 100, 200], [0, 10, 20], dtype="uint8", method="nearest", max_gap=4)
    joints = stream([[0, 8], [8, 0]], [0, 16], valid=[Y, Y])
    force = stream([1, 2, 4, 8, 16], [0, 4, 8, 12, 16], method="mean", mean_window=8)
    case("fuse", "each stream by its own rows, method and gap, side by side; a mask column each",
         [pixels, joints, force], [0, 4, 5, 8, 18],
         [[0, 0, 8, 1.5], [0, 2, 6, f32(Fraction(7, 3))], [0, 2.5, 5.5, 3],
          [100, 4, 4, f32(Fraction(14, 3))], [200, 8, 0, 16]],
         [[Y, Y, Y], [Y, Y, Y], [N, Y, Y], [Y, Y, Y], [Y, N, N]],
         [[0, 0, -4], [4, -12, -4], [5, -11, -3], [-2, -8, -4], [-2, 2, 2]])
    case("fuse_one", "one stream",
         [joints], [4], [[2, 6]], [Y], [-12])
    case("fuse_same_twice", "one stream in two ways",
         [joints, stream([[0, 8], [8, 0]], [0, 16], method="previous")], [4], [[2, 6, 0, 8]],
         [[Y, Y]])
    odd = [stream([[k] * (k + 1), [k + 8] * (k + 1)], [0, 8]) for k in range(5)]
    case("fuse_odd_widths", "columns begin wherever the streams before them end",
         odd, [1, 8],
         [[k + 1 for k in range(5) for _ in range(k + 1)],
         [k + 8 for k in range(5) for _ in range(k + 1)]],
         [[Y] * 5] * 2)
    case("fuse_64", "as many as there may be",
         [stream([i, i + 64], [0, 64], method=("linear", "previous",
          "nearest")[i % 3]) for i in range(64)], [16],
         [[i + (16, 0, 0)[i % 3] for i in range(64)]], [[Y] * 64])
    case("fuse_types_promote", "uint8 beside float32 gives float32",
         [stream([0, 255], [0, 2], dtype="uint8"), stream([0, 1], [0, 2])], [1], [[127.5, 0.5]],
         [[Y, Y]])
    case("fuse_types_uint8", "uint8 alone stays uint8",
         [stream([0, 255], [0, 2], dtype="uint8"), stream([0, 1], [0, 2], dtype="uint8")], [1],
         [[128, 0]], [[Y, Y]])
    case("fuse_types_halves", "float16 beside bfloat16 gives float32",
         [stream([1, 1 + 2.0**-10], [0, 2], dtype="float16"),
          stream([1, 1 + 2.0**-7], [0, 2], dtype="bfloat16")],
         [1], [[1 + 2.0**-11, 1 + 2.0**-8]], [[Y, Y]])
    case("fuse_types_float64", "float64 beside anything gives float64, which all are computed in",
         [stream([1, 8], [0, 3], dtype="float64"), stream([1, 8], [0, 3]),
          stream([1, 8], [0, 3], dtype="uint8")],
         [1], [[lerp(1, 8, 1, 3, "float64")] * 3], [[Y] * 3])
    case("fuse_compute_type_of_each",
         "each stream is computed in its own type, then rounded to the output's",
         [stream([0.1, 0.7], [0, 3], dtype="float64"), stream([f32(0.1), f32(0.7)], [0, 3])],
         [2], [[f32(lerp(0.1, 0.7, 2, 3, "float64")), lerp(f32(0.1), f32(0.7), 2, 3)]], [[Y, Y]],
         out_dtype="float32")
    case("fuse_out_dtype", "one output type for all",
         [stream([0, 255], [0, 2], dtype="uint8"), stream([1, 1 + 2.0**-7], [0, 2])],
         [1], [[127.5, 1]], [[Y, Y]], out_dtype="bfloat16")
    case("fuse_scales", "subtract and multiply of each",
         [stream([0, 255], [0, 2], dtype="uint8", subtract=[127.5], multiply=[2]),
          stream([1, 3], [0, 2]),
          stream([1, 3], [0, 2], multiply=[4])],
         [0, 1], [[-255, 1, 4], [0, 2, 8]], [[Y] * 3] * 2)
    case("fuse_outside", "outside is one for all, what it does is each stream's own",
         [stream([0, 8], [0, 8]), stream([0, 8], [0, 8], method="previous"),
          stream([0, 8, 16], [0, 8, 16])],
         [12], [[12, 8, 12]], [[N, N, Y]], [[4, 4, -4]], outside="extrapolate")
    case("fuse_clock_offsets", "each stream has its own clock",
         [stream([0, 8], [0, 8], clock_offset=-2), stream([0, 8], [0, 8]),
          stream([0, 8], [100, 108], clock_offset=-100)],
         [2], [[4, 2, 2]], [[Y] * 3], [[-4, -6, -6]])
    case("fuse_tolerances", "and its own tolerance",
         [stream([0, 8], [0, 8], tolerance=2), stream([0, 8], [0, 8])],
         [2, 9], [[0, 2], [8, 8]], [[Y, Y], [Y, N]], [[2, -6], [1, 1]])
    case("fuse_sum_and_any_order", "equal targets ascend, for all streams",
         [stream([1, 2, 4], [0, 1, 2], method="sum"), stream([0, 8], [0, 8])],
         [1, 1, 2], [[3, 1], [0, 1], [4, 2]], [[Y, Y]] * 3, [[0, -7], [0, -7], [0, -6]])
    case("fuse_float_times", "float32 times beside float64 ones promote, and so does the age",
         [stream([0, 8], [0, 1], times="float32"), stream([0, 8], [0, 2], times="float64")],
         [0.25], [[2, 1]], [[Y, Y]], [[-0.75, -1.75]], times="float32")
    case("fuse_batch", "the batch comes from any stream; what has none is shared",
         [stream([[[0], [8]], [[8], [0]]], [0, 8]), stream([0, 8], [0, 8], method="previous"),
          stream([0, 8], [[0, 8], [0, 4]], lengths=[2, 1])],
         [2], [[[2, 0, 2]], [[6, 0, 0]]], [[[Y, Y, Y]], [[Y, Y, N]]], [[[-6, 2, -6]], [[-6, 2, 2]]])
    case("fuse_batch_of_targets", "or from the targets",
         [stream([0, 8], [0, 8]), stream([0, 16], [0, 8])],
         [[2], [9]], [[[2, 4]], [[8, 16]]], [[[Y, Y]], [[N, N]]])
    case("fuse_empty_episodes", "an empty stream beside a full one",
         [stream(Tensor("float32", (0, 2), []), []), stream([0, 8], [0, 8])],
         [2], [[0, 0, 2]], [[N, Y]], [[0, -6]])
    case("fuse_no_channels", "a stream without channels has a mask and an age",
         [stream(Tensor("float32", (2, 0), []), [0, 8]), stream([0, 8], [0, 8])],
         [2, 9], [[2], [8]], [[Y, Y], [N, N]], [[-6, -6], [1, 1]])
    case("fuse_nan_target", "a NaN target is one for all",
         [stream([0, 8], [0, 8], times="float64"),
          stream([0, 8], [0, 8], times="float64", method="sum"),
          stream([0, 8], [0, 8], times="float64", method="mean", mean_window=32)],
         ["nan", 8], [["nan"] * 3, [8, 8, 4]], [[N] * 3, [Y] * 3], [[0] * 3, [0] * 3],
         times="float64")
    case("fuse_no_targets", "T = 0",
         [stream([0, 8], [0, 8]), stream([0, 8], [0, 8])],
         [], Tensor("float32", (0, 2), []), Tensor("bool", (0, 2), []), Tensor("int64", (0, 2), []))
