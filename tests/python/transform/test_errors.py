"""Bad input to transforms: class and whole message, alike on every backend."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch
from support import Backend

import robocache as rc

FLOATS = "float16, bfloat16, float32 or float64"
FORMS = "quaternion_xyzw, quaternion_wxyz, rotation_vector, matrix or rotation_6d"
INT64 = torch.int64


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


ROTATION = {"x": zeros(5, 4), "source": "quaternion_xyzw", "target": "matrix"}
POSE = {"poses": zeros(2, 3, 7), "anchor": zeros(2, 7), "form": "quaternion_wxyz"}
DELTA = {"deltas": zeros(2, 3, 5), "start": zeros(2, 5)}
TIMES = zeros(2, 4, dtype=INT64)

# (function, arguments, class, message)
# fmt: off
CASES: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("convert_rotation", ROTATION | {"x": [0, 0, 0, 1]}, TypeError,
     "x: expected a torch.Tensor, got list"),
    ("convert_rotation", ROTATION | {"x": zeros(5, 4, dtype=INT64)}, TypeError,
     f"x: expected {FLOATS}, got int64"),
    ("convert_rotation", ROTATION | {"x": zeros(5, 4).to_sparse()}, TypeError,
     "x: expected a dense tensor, got a sparse_coo one"),
    ("convert_rotation", ROTATION | {"x": zeros(4, 5)}, ValueError,
     "x: expected [...,4], got [4,5]"),
    ("convert_rotation", ROTATION | {"x": zeros()}, ValueError, "x: expected [...,4], got []"),
    ("convert_rotation", ROTATION | {"x": zeros(3, 3), "source": "matrix"}, ValueError,
     "x: expected [...,9], got [3,3]"),
    ("convert_rotation", ROTATION | {"source": "quaternion"}, ValueError,
     f"source: expected {FORMS}, got 'quaternion'"),
    ("convert_rotation", ROTATION | {"target": None}, ValueError,
     f"target: expected {FORMS}, got None"),
    ("relative_pose", POSE | {"poses": None}, TypeError,
     "poses: expected a torch.Tensor, got NoneType"),
    ("relative_pose", POSE | {"poses": zeros(7)}, ValueError,
     "poses: expected [...,K,P=7], got [7]"),
    ("relative_pose", POSE | {"poses": zeros(2, 3, 4)}, ValueError,
     "poses: expected [...,K,P=7], got [2,3,4]"),
    ("relative_pose", POSE | {"anchor": zeros(3, 7)}, ValueError,
     "anchor: expected [2,P=7] or [P=7], got [3,7]"),
    ("relative_pose", POSE | {"anchor": zeros(1, 7)}, ValueError,
     "anchor: expected [2,P=7] or [P=7], got [1,7]"),
    ("relative_pose", POSE | {"anchor": zeros(2, 3, 7)}, ValueError,
     "anchor: expected [2,P=7] or [P=7], got [2,3,7]"),
    ("relative_pose", POSE | {"poses": zeros(3, 7), "anchor": zeros(3, 7)}, ValueError,
     "anchor: expected [P=7], got [3,7]"),
    ("absolute_pose", POSE | {"anchor": zeros(2, 7, dtype=torch.float64)}, TypeError,
     "anchor: expected float32 like poses, got float64"),
    ("absolute_pose", POSE | {"form": "6d"}, ValueError, f"form: expected {FORMS}, got '6d'"),
    ("absolute_pose", POSE | {"form": "rotation_6d"}, ValueError,
     "poses: expected [...,K,P=9], got [2,3,7]"),
    ("delta_to_absolute", DELTA | {"deltas": zeros(5)}, ValueError,
     "deltas: expected [...,K,D], got [5]"),
    ("delta_to_absolute", DELTA | {"deltas": zeros(2, 3, 5, dtype=torch.uint8)}, TypeError,
     f"deltas: expected {FLOATS}, got uint8"),
    ("delta_to_absolute", DELTA | {"start": zeros(2, 4)}, ValueError,
     "start: expected [2,D=5] or [D=5], got [2,4]"),
    ("delta_to_absolute", DELTA | {"start": zeros(2, 5).half()}, TypeError,
     "start: expected float32 like deltas, got float16"),
    ("delta_to_absolute", DELTA | {"time_step": 0}, ValueError,
     "time_step: expected a positive finite number of seconds, got 0"),
    ("delta_to_absolute", DELTA | {"time_step": math.nan}, ValueError,
     "time_step: expected a positive finite number of seconds, got nan"),
    ("delta_to_absolute", DELTA | {"time_step": 10**400}, ValueError,
     "time_step: expected a positive finite number of seconds, got inf"),
    ("delta_to_absolute", DELTA | {"time_step": "0.1"}, TypeError,
     "time_step: expected a number of seconds, got str"),
    ("delta_to_absolute", DELTA | {"time_step": True}, TypeError,
     "time_step: expected a number of seconds, got bool"),
    ("delta_to_absolute", DELTA | {"time_step": 0.1, "times": TIMES}, ValueError,
     "time_step: expected None with times, got 0.1"),
    ("delta_to_absolute", DELTA | {"times": [0, 1, 2, 3]}, TypeError,
     "times: expected a torch.Tensor, got list"),
    ("delta_to_absolute", DELTA | {"times": zeros(2, 3, dtype=INT64)}, ValueError,
     "times: expected [2,K+1=4] or [K+1=4], got [2,3]"),
    ("delta_to_absolute", DELTA | {"times": zeros(3, 4, dtype=INT64)}, ValueError,
     "times: expected [2,K+1=4] or [K+1=4], got [3,4]"),
    ("delta_to_absolute", DELTA | {"times": zeros(4, dtype=torch.int32)}, TypeError,
     "times: expected int64, float32 or float64, got int32"),
    ("delta_to_absolute", DELTA | {"times": zeros(4).requires_grad_()}, ValueError,
     "times: expected no requires_grad (gradients flow to deltas and start only), "
     "got requires_grad=True"),
    ("absolute_to_delta", {"values": zeros(3), "start": zeros(3)}, ValueError,
     "values: expected [...,K,D], got [3]"),
    ("absolute_to_delta", {"values": zeros(1, 3), "start": zeros(1, 3)}, ValueError,
     "start: expected [D=3], got [1,3]"),
]
# fmt: on


@pytest.mark.parametrize(("function", "arguments", "error", "message"), CASES)
def test_message(
    backend: Backend,
    function: str,
    arguments: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        getattr(rc, function)(**backend.put(arguments), backend=backend.backend)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((zeros(3), zeros(3)), ValueError, "x: expected [...,K,D], got [3]"),
        ((zeros(2, 3), zeros(2)), ValueError, "reference: expected [D=3], got [2]"),
        ((zeros(2, 3), zeros(3).double()), TypeError,
         "reference: expected float32 like x, got float64"),
        ((zeros(2, 3), zeros(3), [True] * 3), TypeError,
         "mask: expected a torch.Tensor, got list"),
        ((zeros(2, 3), zeros(3), zeros(3)), TypeError, "mask: expected bool, got float32"),
        ((zeros(2, 3), zeros(3), zeros(4, dtype=torch.bool)), ValueError,
         "mask: expected [D=3], got [4]"),
    ],
)  # fmt: skip
def test_message_of_relative_to(
    arguments: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    for function in (rc.relative_to, rc.absolute_from):
        with pytest.raises(error, match=f"^{re.escape(message)}$"):
            function(*arguments)


def test_devices() -> None:
    far = torch.empty(2, 7, device="meta")
    with pytest.raises(ValueError, match=r"^anchor: expected device cpu like poses, got meta$"):
        rc.relative_pose(zeros(2, 3, 7), far, "quaternion_xyzw")
    with pytest.raises(ValueError, match=r"^backend: expected cpu or pytorch for x on cpu, got"):
        rc.convert_rotation(zeros(4), "quaternion_xyzw", "matrix", backend="cuda")
