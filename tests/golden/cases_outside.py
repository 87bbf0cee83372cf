"""Outside the recording, NaN targets, empty episodes."""

from __future__ import annotations

from typing import Any

from arithmetic import lerp
from encoding import N, Tensor, Y
from resampling import case

# The tables below keep a case to a few lines.
# fmt: off


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
    case("outside_hold_is_normalized", "a held row goes through subtract and multiply",
         **two, target_times=[-5, 15], expected=[3, 9], valid=[N, N], subtract=[1], multiply=[3])
    case("outside_extrapolate_is_normalized", "so does an extrapolated one",
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
    case("nan_target", "a NaN target: NaN, not valid; its neighbors are untouched",
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
