"""Cases of transforms: what transforms.json holds. All are worked by hand."""

from __future__ import annotations

import itertools
import math
from typing import Any

from encoding import Tensor, tensor

CASES: list[dict[str, Any]] = []

NAN, INF = "nan", "inf"
HALF = math.sqrt(0.5)
PI = math.pi
PI32 = 13176795 / 2**22  # pi rounded to float32, which is more
EPS = {"float32": 2.0**-23, "float64": 2.0**-52}
FORMS = ("quaternion_xyzw", "quaternion_wxyz", "rotation_vector", "matrix", "rotation_6d")

# Each rotation in three forms: quaternion x, y, z, w; rotation vector; matrix.
THIRD = 2 * PI / 3 / math.sqrt(3)
# fmt: off
ROTATIONS: list[tuple[list[float], list[float], list[float]]] = [
    ([0, 0, 0, 1], [0, 0, 0], [1, 0, 0, 0, 1, 0, 0, 0, 1]),
    ([HALF, 0, 0, HALF], [PI / 2, 0, 0], [1, 0, 0, 0, 0, -1, 0, 1, 0]),
    ([0, HALF, 0, HALF], [0, PI / 2, 0], [0, 0, 1, 0, 1, 0, -1, 0, 0]),
    ([0, 0, -HALF, HALF], [0, 0, -PI / 2], [0, 1, 0, -1, 0, 0, 0, 0, 1]),
    ([0.5, 0.5, 0.5, 0.5], [THIRD, THIRD, THIRD], [0, 0, 1, 1, 0, 0, 0, 1, 0]),
    # Half turns: the axis has the sign that makes its first number positive
    ([1, 0, 0, 0], [PI, 0, 0], [1, 0, 0, 0, -1, 0, 0, 0, -1]),
    ([0, 1, 0, 0], [0, PI, 0], [-1, 0, 0, 0, 1, 0, 0, 0, -1]),
    ([0, 0, 1, 0], [0, 0, PI], [-1, 0, 0, 0, -1, 0, 0, 0, 1]),
    ([HALF, 0, -HALF, 0], [PI * HALF, 0, -PI * HALF], [0, 0, -1, 0, -1, 0, -1, 0, 0]),
]


def rotations() -> None:
    for source, target, dtype in itertools.product(FORMS, FORMS, EPS):
        add(f"{source}_to_{target}_{dtype}", "every form of the same rotations",
            "convert_rotation", source, dtype, [in_form(r, source) for r in ROTATIONS],
            [in_form(r, target) for r in ROTATIONS], target=target, ulps=4)


def tiny_rotations() -> None:
    for source, x in (("quaternion_xyzw", [5e-21, 0, -1e-20, 1]),
                      ("rotation_vector", [1e-20, 0, -2e-20])):
        add(f"tiny_{source}", "small angles lose nothing", "convert_rotation", source, "float32",
            [x], [[1e-20, 0, -2e-20]], target="rotation_vector", atol=1e-26)


def no_exact_rotations() -> None:
    def read(name: str, reason: str, source: str, x: list[Any], target: str,
             expected: list[Any], ulps: float = 4) -> None:
        add(name, reason, "convert_rotation", source, "float32", [x], [expected], target=target,
            ulps=ulps)

    # Quaternions of any length, and either of the two of a rotation, whose sign stays
    read("length", "quaternions may have any length", "quaternion_xyzw", [0, 0, 3, -4],
         "quaternion_xyzw", [0, 0, 0.6, -0.8])
    read("order_read", "w first", "quaternion_wxyz", [-4, 0, 0, 3], "quaternion_xyzw",
         [0, 0, 0.6, -0.8])
    read("order_written", "w first", "quaternion_xyzw", [0, 0, 3, -4], "quaternion_wxyz",
         [-0.8, 0, 0, 0.6])
    read("shorter_way", "rotation vectors are at most pi long", "quaternion_xyzw", [0, 0, 5, -5],
         "rotation_vector", [0, 0, -PI / 2])
    read("half_turn_sign", "at pi the first number that is not 0 is positive", "quaternion_xyzw",
         [0, -1, 0, 0], "rotation_vector", [0, PI, 0])
    # None at all
    for name, source, x, target in (
        ("zero", "quaternion_xyzw", [0, 0, 0, 0], "matrix"),
        ("negative_zero", "quaternion_wxyz", [0, -0.0, 0, 0], "rotation_vector"),
        ("first_row_zero", "rotation_6d", [0, 0, 0, 1, 2, 3], "quaternion_xyzw"),
        ("second_row_zero", "rotation_6d", [3, 1, 4, 0, 0, 0], "rotation_vector"),
        ("opposite_rows", "rotation_6d", [0, 2, 0, 0, -6, 0], "matrix"),
        ("parallel_rows", "rotation_6d", [0.1, 0.2, 0.3, 0.7, 1.4, 2.1], "rotation_6d"),
        ("zero_matrix", "matrix", [0] * 9, "rotation_6d"),
    ):
        read(f"none_{name}", "what has no direction gives zeros", source, x, target,
             [0] * len(in_form(ROTATIONS[0], target)), 0)
    # Rows that are not orthonormal
    read("rows_6d", "of the second row counts what is across the first", "rotation_6d",
         [0, 3, 0, 0, 7, 2], "matrix", [0, 1, 0, 0, 0, 1, 1, 0, 0], 0)
    read("rows_matrix", "the third row follows from the others", "matrix",
         [2, 0, 0, 5, 4, 0, 9, 9, -9], "matrix", [1, 0, 0, 0, 1, 0, 0, 0, 1], 0)
    read("reflection", "a reflection is read by its first two rows", "matrix",
         [1, 0, 0, 0, 1, 0, 0, 0, -1], "quaternion_xyzw", [0, 0, 0, 1], 0)
    read("third_row_nan", "the third row is not read", "matrix", [1, 0, 0, 0, 1, 0, NAN, 0, 1],
         "quaternion_xyzw", [0, 0, 0, 1], 0)
    # Vectors of half a turn, of either sign, and of more
    read("vector_pi", "half a turn", "rotation_vector", [PI32, 0, 0], "rotation_vector",
         [PI, 0, 0])
    read("vector_minus_pi", "half a turn, and back is the same", "rotation_vector", [0, -PI32, 0],
         "rotation_vector", [0, PI, 0])
    read("vector_minus_pi_quaternion", "half a turn has no w", "rotation_vector", [0, -PI32, 0],
         "quaternion_xyzw", [0, 1, 0, 0])
    read("vector_three_quarters", "more than half a turn goes the other way", "rotation_vector",
         [0, 0, 1.5 * PI], "rotation_vector", [0, 0, -PI / 2])
    read("vector_and_a_quarter", "whole turns do not count", "rotation_vector", [0, 0, 2.5 * PI],
         "quaternion_wxyz", [HALF, 0, 0, HALF])
    read("vector_many_turns", "many whole turns do not", "rotation_vector", [0, -40.5 * PI, 0],
         "rotation_vector", [0, -PI / 2, 0], 100)
    # NaN and infinity
    read("nan_quaternion", "NaN gives NaN", "quaternion_xyzw", [NAN, 0, 0, 1], "matrix",
         [NAN] * 9)
    read("nan_vector", "NaN gives NaN", "rotation_vector", [NAN, 0, 0], "quaternion_xyzw",
         [NAN] * 4)
    read("infinite_vector", "infinity gives NaN", "rotation_vector", [0, INF, 0],
         "rotation_vector", [NAN] * 3)
    read("nan_6d", "NaN gives NaN", "rotation_6d", [1, 0, NAN, 0, 1, 0], "quaternion_xyzw",
         [NAN] * 4)


def poses() -> None:
    def pose(name: str, reason: str, form: str, anchor: list[Any], absolute: list[Any],
             relative: list[Any], back: list[Any] | None) -> None:
        for dtype in EPS:
            add(f"relative_{name}_{dtype}", reason, "relative_pose", form, dtype, [[absolute]],
                [[relative]], row=[anchor], ulps=8)
            if back is not None:
                add(f"absolute_{name}_{dtype}", reason, "absolute_pose", form, dtype, [[relative]],
                    [[back]], row=[anchor], ulps=16)

    along_y = [1, 0, 0, 0, 0, HALF, HALF]
    pose("xyzw", "in the frame of the anchor", "quaternion_xyzw", along_y, [1, 2, 0, 0, 0, 0, 1],
         [2, 0, 0, 0, 0, -HALF, HALF], [1, 2, 0, 0, 0, 0, 1])
    pose("wxyz", "a relative quaternion has w >= 0; an absolute one the product's sign",
         "quaternion_wxyz", [0, 0, 5, HALF, HALF, 0, 0], [1, 2, 8, -0.5, -0.5, -0.5, 0.5],
         [1, 3, -2, HALF, 0, 0, -HALF], [1, 2, 8, 0.5, 0.5, 0.5, -0.5])
    pose("vector", "turns about one axis add up", "rotation_vector", [1, 1, 1, 0, PI / 2, 0],
         [1, 1, 0, 0, -PI / 4, 0], [1, 0, 0, 0, -0.75 * PI, 0], [1, 1, 0, 0, -PI / 4, 0])
    turned = [0, -1, 0, 1, 0, 0, 0, 0, 1]
    pose("matrix", "of one rotation none is left", "matrix", [1, 2, 3, *turned],
         [2, 2, 3, *turned], [0, -1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1], [2, 2, 3, *turned])
    pose("6d", "by rows", "rotation_6d", [0, 0, 0, 1, 0, 0, 0, 0, -1],
         [0, 0, 2, 1, 0, 0, 0, 1, 0], [0, 2, 0, 1, 0, 0, 0, 0, 1], [0, 0, 2, 1, 0, 0, 0, 1, 0])
    pose("no_anchor", "an anchor without a rotation leaves nothing", "quaternion_xyzw",
         [1, 2, 3, 0, 0, 0, 0], [4, 5, 6, 0, 0, 0, 1], [0] * 7, None)
    pose("no_anchor_6d", "an anchor without a rotation leaves nothing", "rotation_6d",
         [1, 2, 3, 0, 0, 0, 0, 0, 0], [4, 5, 6, 1, 0, 0, 0, 1, 0], [0] * 9, None)


def deltas() -> None:
    def delta(name: str, reason: str, steps: list[Any], start: float, absolute: list[Any],
              time_step: float | None = None, times: Tensor | None = None,
              goes_back: bool = True) -> None:
        x, y = [[[s] for s in steps]], [[[a] for a in absolute]]
        options: dict[str, Any] = {"row": [[start]], "time_step": time_step, "times": times}
        add(f"sum_{name}", reason, "delta_to_absolute", None, "float32", x, y, **options)
        if goes_back:
            add(f"difference_{name}", reason, "absolute_to_delta", None, "float32", y, x, **options)

    delta("plain", "row after row", [1, 2, -4], 10, [11, 13, 9])
    delta("velocity", "velocities times seconds", [1, 2, -4], 10, [10.5, 11.5, 9.5], 0.5)
    delta("times_ns", "the seconds between times", [1, 2, -4], 0, [0.5, 1, -3],
          times=tensor("int64", [0, 500_000_000, 750_000_000, 1_750_000_000]))
    delta("times_s", "floating times are seconds", [8, 4], 1, [3, 5],
          times=tensor("float64", [-0.25, 0, 0.5]))
    delta("times_unix", "differences of Unix times lose nothing", [1e9], 0, [2],
          times=tensor("int64", [1_763_000_000_000_000_001, 1_763_000_000_000_000_003]))
    delta("nan", "NaN stays from where it is on", [1, NAN, 1], 0, [1, NAN, NAN], goes_back=False)
    delta("infinity", "as infinity does", [1, INF, -1], 0, [1, INF, INF], goes_back=False)
    add("difference_one_time", "a velocity without a duration", "absolute_to_delta", None,
        "float32", [[[1], [1]]], [[[INF], [NAN]]], row=[[0]], times=tensor("int64", [5, 5, 5]))
# fmt: on


def in_form(rotation: tuple[list[float], list[float], list[float]], form: str) -> list[float]:
    quaternion, vector, matrix = rotation
    return {
        "quaternion_xyzw": quaternion,
        "quaternion_wxyz": [quaternion[3], *quaternion[:3]],
        "rotation_vector": vector,
        "matrix": matrix,
        "rotation_6d": matrix[:6],
    }[form]


def add(
    name: str,
    reason: str,
    operation: str,
    form: str | None,
    dtype: str,
    x: list[Any],
    expected: list[Any],
    *,
    target: str | None = None,
    row: list[Any] | None = None,
    time_step: float | None = None,
    times: Tensor | None = None,
    ulps: float = 0,
    atol: float | None = None,
) -> None:
    """Inputs are rounded to the dtype; `ulps` are units in the last place of 1."""
    assert all(c["name"] != name for c in CASES), name
    CASES.append(
        {
            "name": name,
            "reason": reason,
            "operation": operation,
            "form": form,
            "target": target,
            "x": tensor(dtype, x, exact=False).json(),
            "row": None if row is None else tensor(dtype, row, exact=False).json(),
            "time_step": time_step,
            "times": None if times is None else times.json(),
            "expected": tensor(dtype, expected, exact=False).json(),
            "atol": ulps * EPS[dtype] if atol is None else atol,
        }
    )
