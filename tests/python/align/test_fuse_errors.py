"""Bad calls of fuse: class and whole message, alike on every backend."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
import torch
from support import Backend

import robocache as rc

B, T = 4, 50
FLOATS = "float16, bfloat16, float32 or float64"
RESULTS = "float16, bfloat16, float32, float64 or uint8"
VALUES = "float16, bfloat16, float32, float64, an integer dtype or bool"
NO_GRAD = "expected no requires_grad (gradients flow to the values only), got requires_grad=True"


def ns(rows: int = 100) -> torch.Tensor:
    return torch.arange(rows).repeat(B, 1)


def first() -> rc.Stream:
    return rc.Stream(torch.zeros(B, 100, 7), ns())


def second(**changes: Any) -> rc.Stream:
    arguments: dict[str, Any] = {"values": torch.zeros(B, 30, 3), "times": ns(30)} | changes
    return rc.Stream(arguments.pop("values"), arguments.pop("times"), **arguments)


def pair(**changes: Any) -> dict[str, Any]:
    """A good stream, and one with these changes."""
    return {"streams": [first(), second(**changes)]}


def pixels(**changes: Any) -> dict[str, Any]:
    values = torch.zeros(3, 2, dtype=torch.uint8)
    return {"streams": [rc.Stream(values, torch.arange(3), **changes)] * 2}


SLERPS = [("slerp_xyzw", 4)] * 129

# (arguments of fuse, class, message)
# fmt: off
CASES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"streams": []}, ValueError, "streams: expected 1 to 64, got 0"),
    ({"streams": [first()] * 65}, ValueError, "streams: expected 1 to 64, got 65"),
    ({"streams": first()}, TypeError, "streams: expected a list of Streams, got Stream"),
    ({"streams": [first(), torch.zeros(3)]}, TypeError,
     "streams[1]: expected a robocache.Stream or the rows of an episode, got Tensor"),
    ({"target_times": 3}, TypeError, "target_times: expected a torch.Tensor, got int"),
    ({"return_valid": None}, TypeError, "return_valid: expected a bool, got NoneType"),
    ({"return_age": 1}, TypeError, "return_age: expected a bool, got int"),
    # One stream's name has its number too.
    ({"streams": [second(times=ns(29))]}, ValueError,
     "streams[0].times: expected [B=4,S=30], got [4,29]"),
    # Types
    (pair(values=[1.0]), TypeError, "streams[1].values: expected a torch.Tensor, got list"),
    (pair(times=None), TypeError, "streams[1].times: expected a torch.Tensor, got NoneType"),
    (pair(lengths=3), TypeError, "streams[1].lengths: expected a torch.Tensor, got int"),
    (pair(valid=[True]), TypeError, "streams[1].valid: expected a torch.Tensor, got list"),
    (pair(subtract=0.5), TypeError, "streams[1].subtract: expected a torch.Tensor, got float"),
    (pair(multiply=2), TypeError, "streams[1].multiply: expected a torch.Tensor, got int"),
    (pair(values=torch.zeros(B, 30, 3, dtype=torch.int32)), ValueError,
     "streams[1].method: expected previous or nearest for int32 values, got 'linear'"),
    (pair(values=torch.zeros(B, 30, 3).to(torch.float8_e4m3fn)), TypeError,
     f"streams[1].values: expected {VALUES}, got float8_e4m3fn"),
    (pair(values=torch.zeros(B, 30, 3).to_sparse()), TypeError,
     "streams[1].values: expected a dense tensor, got a sparse_coo one"),
    (pair(times=ns(30).int()), TypeError,
     "streams[1].times: expected int64, float32 or float64, got int32"),
    (pair(times=ns(30).double()), TypeError,
     "streams[1].times: expected int64 like streams[0].times, got float64"),
    ({"target_times": torch.zeros(T)}, TypeError,
     "target_times: expected int64 like streams[0].times, got float32"),
    (pair(valid=torch.zeros(B, 30)), TypeError, "streams[1].valid: expected bool, got float32"),
    (pair(subtract=torch.zeros(3, dtype=torch.int64)), TypeError,
     f"streams[1].subtract: expected {FLOATS}, got int64"),
    # Shapes
    (pair(values=torch.zeros(3)), ValueError,
     "streams[1].values: expected [B,S,D] or [S,D], got [3]"),
    (pair(values=torch.zeros(1, 1, 1, 1, 1, 1, 1, 1, 1)), ValueError,
     "streams[1].values: expected [B,S,D] or [S,D], got [1,1,1,1,1,1,1,1,1]"),
    (pair(values=torch.zeros(3, 30, 3)), ValueError,
     "streams[1].values: expected [B=4,S,D], got [3,30,3]"),
    (pair(times=ns(30)[:3]), ValueError,
     "streams[1].times: expected [B=4,S=30], got [3,30]"),
    (pair(times=torch.arange(29)), ValueError, "streams[1].times: expected [S=30], got [29]"),
    (pair(lengths=torch.zeros(5, dtype=torch.int64)), ValueError,
     "streams[1].lengths: expected [B=4], got [5]"),
    (pair(valid=torch.zeros(29, dtype=torch.bool)), ValueError,
     "streams[1].valid: expected [S=30], got [29]"),
    (pair(multiply=torch.zeros(7)), ValueError, "streams[1].multiply: expected [D=3], got [7]"),
    ({"target_times": torch.zeros(3, T, dtype=torch.int64)}, ValueError,
     "target_times: expected [B=4,T], got [3,50]"),
    # Options
    (pair(method="cubic"), ValueError,
     "streams[1].method: expected linear, previous, nearest, slerp_xyzw, slerp_wxyz, angle, mean "
     "or sum, got 'cubic'"),
    (pair(method=[("linear", 2)]), ValueError,
     "streams[1].method: expected runs that sum to D=3, got 2"),
    (pair(method="slerp_xyzw"), ValueError,
     "streams[1].method: expected a run of 4 channels for slerp_xyzw, got 3"),
    (pair(method="mean"), ValueError,
     "streams[1].mean_window: expected a duration for method 'mean', got None"),
    (pair(mean_window=3), ValueError,
     "streams[1].mean_window: expected None without a run of method 'mean', got a duration"),
    (pair(max_gap=0.5), TypeError,
     "streams[1].max_gap: expected an int (nanoseconds) for int64 times, got float"),
    (pair(tolerance=-1), ValueError, "streams[1].tolerance: expected 0 or more, got -1"),
    (pair(mean_window=True), TypeError,
     "streams[1].mean_window: expected an int (nanoseconds) for int64 times, got bool"),
    (pair(clock_offset=0.5), TypeError,
     "streams[1].clock_offset: expected an int (nanoseconds) for int64 times, got float"),
    (pair(clock_offset=-(2**63) - 1), ValueError,
     "streams[1].clock_offset: expected at least -9223372036854775808, got -9223372036854775809"),
    (pair(clock_offset=2**63), ValueError,
     "streams[1].clock_offset: expected at most 9223372036854775807, got 9223372036854775808"),
    (pair(times=ns(30).double(), clock_offset=math.inf), ValueError,
     "streams[1].clock_offset: expected a finite number, got inf"),
    ({"outside": "wrap"}, ValueError,
     "outside: expected hold, zero, nan or extrapolate, got 'wrap'"),
    (pixels() | {"outside": "nan"}, ValueError,
     "outside: expected hold, zero or extrapolate for uint8 output, got 'nan'"),
    ({"out_dtype": torch.int32}, TypeError, f"out_dtype: expected {RESULTS}, got int32"),
    (pixels(subtract=torch.zeros(2)), ValueError,
     "out_dtype: expected a dtype with subtract or multiply of uint8 values, got None"),
    ({"streams": [rc.Stream(torch.zeros(2, 516), torch.arange(2), method=SLERPS)] * 4}, ValueError,
     "streams: expected at most 512 runs in all, got 516"),
    # Gradients
    (pair(times=ns(30).double().requires_grad_()), ValueError, f"streams[1].times: {NO_GRAD}"),
    (pair(subtract=torch.zeros(3).requires_grad_()), ValueError,
     f"streams[1].subtract: {NO_GRAD}"),
    ({"target_times": torch.zeros(T).requires_grad_()}, ValueError, f"target_times: {NO_GRAD}"),
    # Which of two faults is told: the first stream's, the targets', the next stream's
    ({"streams": [second(lengths=torch.zeros(9, dtype=torch.int64)), second(times=ns(9))]},
     ValueError, "streams[0].lengths: expected [B=4], got [9]"),
    (pair(times=ns(9)) | {"target_times": torch.zeros(3, T, dtype=torch.int64)}, ValueError,
     "target_times: expected [B=4,T], got [3,50]"),
    (pair(times=ns(9), method=[("linear", 9)]), ValueError,
     "streams[1].times: expected [B=4,S=30], got [4,9]"),
    # A backend
    ({"backend": "gpu"}, ValueError, "backend: expected auto, cuda, cpu or pytorch, got 'gpu'"),
]
# fmt: on


def fails(
    backend: Backend, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments = {"streams": [first()], "target_times": torch.arange(T)} | arguments
    arguments = {"backend": backend.backend} | arguments
    streams = arguments.pop("streams")
    if isinstance(streams, list):
        moved = [
            backend.stream(**{name: getattr(stream, name) for name in rc.Stream.__slots__})
            if isinstance(stream, rc.Stream)
            else stream
            for stream in streams
        ]
        streams = moved
    targets = backend.put(arguments.pop("target_times"))
    with pytest.raises(error, match="^" + re.escape(message) + "$") as caught:
        rc.fuse(streams, targets, **arguments)
    assert type(caught.value) is error and "\n" not in str(caught.value)
    out = backend.fuse([rc.Stream(torch.ones(1, 1), torch.zeros(1))], torch.zeros(1))
    assert out.tolist() == [[1.0]], "the next call works"


@pytest.mark.parametrize(
    ("arguments", "error", "message"), CASES, ids=[f"{i}-{c[2][:40]}" for i, c in enumerate(CASES)]
)
def test_message(
    backend: Backend, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    fails(backend, arguments, error, message)


@pytest.mark.parametrize("part", ["values", "times", "lengths", "valid", "multiply"])
def test_device(backend: Backend, part: str) -> None:
    shape, dtype = {
        "values": ((B, 30, 3), torch.float32),
        "times": ((B, 30), torch.int64),
        "lengths": ((B,), torch.int64),
        "valid": ((B, 30), torch.bool),
        "multiply": ((3,), torch.float32),
    }[part]
    other = "meta" if backend.device == "cpu" else "cpu"
    streams = [
        backend.stream(torch.zeros(B, 5, 2), ns(5)),
        backend.stream(torch.zeros(B, 30, 3), ns(30)),
    ]
    setattr(streams[1], part, torch.zeros(shape, dtype=dtype, device=other))
    own = "cuda:0" if backend.device == "cuda" else "cpu"
    message = f"streams[1].{part}: expected device {own} like streams[0].values, got {other}"
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        rc.fuse(streams, backend.put(torch.arange(T)), backend=backend.backend)


# fmt: off
VALUE_CASES: list[tuple[dict[str, Any], str]] = [
    (pair(times=torch.tensor([0, 2, 1] + [5] * 27)),
     "streams[1].times: expected ascending times, got 1 after 2 at [2]"),
    (pair(lengths=torch.tensor([3, 31, 2, 1])),
     "streams[1].lengths: expected 0 to S=30, got 31 at [1]"),
    (pair(method="sum") | {"target_times": torch.tensor([0, 5, 4])},
     "target_times: expected ascending times for method 'sum', got 4 after 5 at [2]"),
    # All of one stream's before the next stream's
    ({"streams": [second(times=torch.tensor([0, 2, 1] + [5] * 27)),
                  second(lengths=torch.tensor([3, 31, 2, 1]))]},
     "streams[0].times: expected ascending times, got 1 after 2 at [2]"),
]
# fmt: on


@pytest.mark.parametrize(
    ("arguments", "message"), VALUE_CASES, ids=[c[1][:40] for c in VALUE_CASES]
)
def test_values(backend: Backend, arguments: dict[str, Any], message: str) -> None:
    """The cpu backend always looks at times and lengths, the others under validation."""
    if backend.backend == "cpu":
        fails(backend, arguments, ValueError, message)
    with rc.config(validate=True):
        fails(backend, arguments, ValueError, message)
