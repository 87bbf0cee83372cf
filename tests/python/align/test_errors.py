"""Bad input: class and whole message, alike on every backend, and a usable process after it."""

from __future__ import annotations

import math
import re
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from support import CUDA, PYTORCH_CUDA, Backend, cuda_problem, find_backends

import robocache as rc

B, S, T, D = 4, 100, 50, 7


def good(**changes: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "data": torch.zeros(B, S, D),
        "source_times": torch.arange(S).repeat(B, 1),
        "target_times": torch.arange(T).repeat(B, 1),
    }
    return arguments | changes


def unbatched(**changes: Any) -> dict[str, Any]:
    return (
        good(data=torch.zeros(S, D), source_times=torch.arange(S), target_times=torch.arange(T))
        | changes
    )


def seconds(**changes: Any) -> dict[str, Any]:
    return (
        good(
            source_times=torch.arange(S).repeat(B, 1).double(),
            target_times=torch.arange(T).repeat(B, 1).float(),
        )
        | changes
    )


def quaternions(channels: int, **changes: Any) -> dict[str, Any]:
    return good(data=torch.zeros(B, S, channels)) | changes


def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


def nested(layout: torch.layout) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that they are a prototype
        rows = [torch.zeros(S, D), torch.zeros(S - 1, D)]
        return torch.nested.nested_tensor(rows, layout=layout)


def leaf(x: torch.Tensor) -> torch.Tensor:
    return x.requires_grad_()


FLOATS = "float16, bfloat16, float32 or float64"
RESULTS = "float16, bfloat16, float32, float64 or uint8"
VALUES = "float16, bfloat16, float32, float64, an integer dtype or bool"
NO_GRAD = "expected no requires_grad (gradients flow to data only), got requires_grad=True"
PAIRS = "method: expected a name or a list of (name, channels) pairs, got"
METHODS = "linear, previous, nearest, slerp_xyzw, slerp_wxyz, angle, mean or sum"

# (arguments, class, message); B=4, S=100, T=50, D=7
# fmt: off
CASES: list[tuple[dict[str, Any], type[Exception], str]] = [
    # Types
    (good(data=[1, 2]), TypeError, "data: expected a torch.Tensor, got list"),
    (good(source_times=None), TypeError, "source_times: expected a torch.Tensor, got NoneType"),
    (good(target_times=3.0), TypeError, "target_times: expected a torch.Tensor, got float"),
    (good(source_lengths=[3]), TypeError, "source_lengths: expected a torch.Tensor, got list"),
    (good(source_valid=True), TypeError, "source_valid: expected a torch.Tensor, got bool"),
    (good(subtract=1.0), TypeError, "subtract: expected a torch.Tensor, got float"),
    (good(multiply=2), TypeError, "multiply: expected a torch.Tensor, got int"),
    # Data
    (good(data=zeros(3, dtype=torch.float32)), ValueError,
     "data: expected [B,S,D] or [S,D], got [3]"),
    (good(data=zeros(1, 2, 3, 4, dtype=torch.float32)), ValueError,
     "data: expected [B,S,D] or [S,D], got [1,2,3,4]"),
    (good(data=zeros(B, S, D, dtype=torch.int32)), ValueError,
     "method: expected previous or nearest for int32 values, got 'linear'"),
    (good(data=zeros(B, S, D, dtype=torch.bool), method="angle"), ValueError,
     "method: expected previous or nearest for bool values, got 'angle'"),
    (good(data=zeros(B, S, D, dtype=torch.complex64)), TypeError,
     f"data: expected {VALUES}, got complex64"),
    # Times
    (good(source_times=zeros(1, 2, 3)), ValueError,
     "source_times: expected [B,S] or [S], got [1,2,3]"),
    (good(source_times=zeros()), ValueError, "source_times: expected [B,S] or [S], got []"),
    (good(target_times=zeros()), ValueError, "target_times: expected [B,T] or [T], got []"),
    (good(target_times=zeros(1, 2, 3)), ValueError,
     "target_times: expected [B,T] or [T], got [1,2,3]"),
    (good(source_times=zeros(B, S, dtype=torch.int32)), TypeError,
     "source_times: expected int64, float32 or float64, got int32"),
    (good(source_times=zeros(B, S, dtype=torch.float16)), TypeError,
     "source_times: expected int64, float32 or float64, got float16"),
    (good(target_times=zeros(B, T, dtype=torch.int32)), TypeError,
     "target_times: expected int64, float32 or float64, got int32"),
    (good(target_times=zeros(B, T, dtype=torch.float32)), TypeError,
     "target_times: expected int64 like source_times, got float32"),
    (seconds(target_times=zeros(B, T)), TypeError,
     "target_times: expected float32 or float64 like source_times, got int64"),
    (good(source_times=zeros(4, 99)), ValueError, "source_times: expected [B=4,S=100], got [4,99]"),
    (good(source_times=zeros(3, 100)), ValueError,
     "source_times: expected [B=4,S=100], got [3,100]"),
    (good(source_times=zeros(1, 100)), ValueError,
     "source_times: expected [B=4,S=100], got [1,100]"),
    (good(source_times=zeros(99)), ValueError, "source_times: expected [S=100], got [99]"),
    (good(target_times=zeros(3, 50)), ValueError, "target_times: expected [B=4,T], got [3,50]"),
    (good(target_times=zeros(1, 50)), ValueError, "target_times: expected [B=4,T], got [1,50]"),
    (unbatched(source_times=zeros(2, 100), target_times=zeros(3, 50)), ValueError,
     "target_times: expected [B=2,T], got [3,50]"),
    # Lengths and masks
    (good(source_lengths=zeros(B, dtype=torch.float32)), TypeError,
     "source_lengths: expected int64 or int32, got float32"),
    (good(source_lengths=zeros(3)), ValueError, "source_lengths: expected [B=4], got [3]"),
    (good(source_lengths=zeros(3, 1)), ValueError,
     "source_lengths: expected [B] or [], got [3,1]"),
    (good(source_valid=zeros(B, S, dtype=torch.float32)), TypeError,
     "source_valid: expected bool, got float32"),
    (good(source_valid=zeros(4, 99, dtype=torch.bool)), ValueError,
     "source_valid: expected [B=4,S=100], got [4,99]"),
    (good(source_valid=zeros(99, dtype=torch.bool)), ValueError,
     "source_valid: expected [S=100], got [99]"),
    (good(source_valid=zeros(1, 2, 3, dtype=torch.bool)), ValueError,
     "source_valid: expected [B,S] or [S], got [1,2,3]"),
    (unbatched(source_lengths=zeros(2), source_valid=zeros(3, 100, dtype=torch.bool)), ValueError,
     "source_valid: expected [B=2,S=100], got [3,100]"),
    # Subtract and multiply
    (good(subtract=zeros(D)), TypeError, f"subtract: expected {FLOATS}, got int64"),
    (good(multiply=zeros(D, dtype=torch.uint8)), TypeError,
     f"multiply: expected {FLOATS}, got uint8"),
    (good(subtract=torch.zeros(3)), ValueError, "subtract: expected [D=7], got [3]"),
    (good(multiply=torch.zeros(())), ValueError, "multiply: expected [D=7], got []"),
    (good(multiply=torch.zeros(1, 7)), ValueError, "multiply: expected [D=7], got [1,7]"),
    # Tensors that no backend reads: of many dimensions, sparse, nested, of rare types
    (good(data=torch.zeros(1, 1, 1, 1, 1, 1, 1, 1, 1)), ValueError,
     "data: expected [B,S,D] or [S,D], got [1,1,1,1,1,1,1,1,1]"),
    (good(source_times=zeros(1, 1, 1, 1, 1, 1, 1, 1, 2)), ValueError,
     "source_times: expected [B,S] or [S], got [1,1,1,1,1,1,1,1,2]"),
    (good(subtract=torch.zeros(1, 1, 1, 1, 1, 1, 1, 1, 1)), ValueError,
     "subtract: expected [D=7], got [1,1,1,1,1,1,1,1,1]"),
    (good(data=torch.zeros(B, S, D).to(torch.float8_e4m3fn)), TypeError,
     f"data: expected {VALUES}, got float8_e4m3fn"),
    (good(data=zeros(B, S, D, dtype=torch.uint16)), ValueError,
     "method: expected previous or nearest for uint16 values, got 'linear'"),
    (good(source_times=zeros(B, S, dtype=torch.uint64)), TypeError,
     "source_times: expected int64, float32 or float64, got uint64"),
    (good(data=torch.zeros(B, S, D).to_sparse()), TypeError,
     "data: expected a dense tensor, got a sparse_coo one"),
    (unbatched(data=torch.eye(S).to_sparse_csr()), TypeError,
     "data: expected a dense tensor, got a sparse_csr one"),
    (good(target_times=zeros(B, T).to_sparse()), TypeError,
     "target_times: expected a dense tensor, got a sparse_coo one"),
    (good(source_valid=torch.ones(B, S, dtype=torch.bool).to_sparse()), TypeError,
     "source_valid: expected a dense tensor, got a sparse_coo one"),
    (good(multiply=torch.ones(D).to_sparse()), TypeError,
     "multiply: expected a dense tensor, got a sparse_coo one"),
    (good(data=nested(torch.strided)), TypeError,
     "data: expected a dense tensor, got a nested one"),
    (good(data=nested(torch.jagged)), TypeError,
     "data: expected a dense tensor, got a nested one"),
    # Method
    (good(method="cubic"), ValueError, f"method: expected {METHODS}, got 'cubic'"),
    (good(method=[("linear", 6), ("slerp", 1)]), ValueError,
     f"method: expected {METHODS}, got 'slerp'"),
    (good(method=3), TypeError, f"{PAIRS} 3"),
    (good(method=["linear"]), TypeError, f"{PAIRS} 'linear'"),
    (good(method=[("linear", 7.0)]), TypeError, f"{PAIRS} ('linear', 7.0)"),
    (good(method=[("linear", 7, 1)]), TypeError, f"{PAIRS} ('linear', 7, 1)"),
    (good(method=[("linear", 8)]), ValueError, "method: expected runs that sum to D=7, got 8"),
    (good(method=[("linear", 2), ("slerp_xyzw", 4)]), ValueError,
     "method: expected runs that sum to D=7, got 6"),
    (good(method=[("slerp_xyzw", 3), ("linear", 4)]), ValueError,
     "method: expected a run of 4 channels for slerp_xyzw, got 3"),
    (quaternions(8, method="slerp_wxyz"), ValueError,
     "method: expected a run of 4 channels for slerp_wxyz, got 8"),
    (good(method=[("linear", 7), ("angle", 0)]), ValueError,
     "method: expected runs of at least 1 channel, got 0"),
    (good(method=[("linear", 8), ("angle", -1)]), ValueError,
     "method: expected runs of at least 1 channel, got -1"),
    (good(method=[("linear", 2**50), ("angle", 1)]), ValueError,
     "method: expected runs that sum to D=7, got 1125899906842625"),
    (good(method=[("linear", 2**50 + 1)]), ValueError,
     "method: expected runs of at most 1125899906842624 channels, got 1125899906842625"),
    (quaternions(257 * 4, method=[("slerp_xyzw", 4)] * 257), ValueError,
     "method: expected at most 256 runs, got 257"),
    # Outside
    (good(outside="wrap"), ValueError,
     "outside: expected hold, zero, nan or extrapolate, got 'wrap'"),
    (good(data=zeros(B, S, D, dtype=torch.uint8), outside="nan"), ValueError,
     "outside: expected hold, zero or extrapolate for uint8 output, got 'nan'"),
    (good(out_dtype=torch.uint8, outside="nan"), ValueError,
     "outside: expected hold, zero or extrapolate for uint8 output, got 'nan'"),
    # Durations
    (good(max_gap=0.1), TypeError,
     "max_gap: expected an int (nanoseconds) for int64 times, got float"),
    (good(tolerance=0.0), TypeError,
     "tolerance: expected an int (nanoseconds) for int64 times, got float"),
    (good(max_gap=True), TypeError,
     "max_gap: expected an int (nanoseconds) for int64 times, got bool"),
    (good(tolerance=False), TypeError,
     "tolerance: expected an int (nanoseconds) for int64 times, got bool"),
    (seconds(max_gap="1"), TypeError,
     "max_gap: expected a number (seconds) for floating times, got str"),
    (seconds(tolerance=None), TypeError,
     "tolerance: expected a number (seconds) for floating times, got NoneType"),
    (seconds(tolerance=True), TypeError,
     "tolerance: expected a number (seconds) for floating times, got bool"),
    (good(max_gap=-1), ValueError, "max_gap: expected 0 or more, got -1"),
    (good(tolerance=-5), ValueError, "tolerance: expected 0 or more, got -5"),
    (seconds(max_gap=-0.5), ValueError, "max_gap: expected 0 or more, got -0.5"),
    (seconds(max_gap=math.nan), ValueError, "max_gap: expected 0 or more, got nan"),
    (good(max_gap=2**63), ValueError,
     "max_gap: expected at most 9223372036854775807, got 9223372036854775808"),
    (good(method="mean"), ValueError,
     "mean_window: expected a duration for method 'mean', got None"),
    (good(method=[("linear", 6), ("mean", 1)]), ValueError,
     "mean_window: expected a duration for method 'mean', got None"),
    (good(mean_window=5), ValueError,
     "mean_window: expected None without a run of method 'mean', got a duration"),
    (good(method=[("linear", 6), ("sum", 1)], mean_window=5), ValueError,
     "mean_window: expected None without a run of method 'mean', got a duration"),
    (good(max_gap=10**400), ValueError,
     "max_gap: expected at most 9223372036854775807, got a number of 401 digits"),
    (seconds(max_gap=-(10**5000)), ValueError,
     "max_gap: expected 0 or more, got a negative number of 5001 digits"),
    (good(mean_window=0.5), TypeError,
     "mean_window: expected an int (nanoseconds) for int64 times, got float"),
    (good(mean_window=-2), ValueError, "mean_window: expected 0 or more, got -2"),
    # Output type
    (good(data=zeros(B, S, D, dtype=torch.uint8), subtract=torch.zeros(D)), ValueError,
     "out_dtype: expected a dtype with subtract or multiply of uint8 data, got None"),
    (good(data=zeros(B, S, D, dtype=torch.uint8), multiply=torch.zeros(D)), ValueError,
     "out_dtype: expected a dtype with subtract or multiply of uint8 data, got None"),
    (good(out_dtype=torch.int32), TypeError, f"out_dtype: expected {RESULTS}, got int32"),
    (good(out_dtype="float32"), TypeError, f"out_dtype: expected {RESULTS}, got str"),
    (good(return_valid=1), TypeError, "return_valid: expected a bool, got int"),
    (good(return_valid=np.True_), TypeError, "return_valid: expected a bool, got numpy.bool"),
    # Gradients
    (seconds(source_times=leaf(torch.zeros(B, S))), ValueError,
     f"source_times: {NO_GRAD}"),
    (seconds(target_times=leaf(torch.zeros(B, T))), ValueError,
     f"target_times: {NO_GRAD}"),
    (good(subtract=leaf(torch.zeros(D))), ValueError,
     f"subtract: {NO_GRAD}"),
    (good(multiply=leaf(torch.zeros(D))), ValueError,
     f"multiply: {NO_GRAD}"),
    # Which of two errors is told
    (good(source_times=zeros(1, 2, 3, dtype=torch.int32)), TypeError,
     "source_times: expected int64, float32 or float64, got int32"),
    (good(source_times=zeros(4, 99), target_times=zeros(3, 50)), ValueError,
     "source_times: expected [B=4,S=100], got [4,99]"),
    (good(target_times=zeros(3, 50), source_lengths=zeros(9)), ValueError,
     "target_times: expected [B=4,T], got [3,50]"),
    (good(source_lengths=zeros(3), source_valid=zeros(2, 2)), ValueError,
     "source_lengths: expected [B=4], got [3]"),
    (good(source_valid=zeros(2, 2), subtract=torch.zeros(3)), TypeError,
     "source_valid: expected bool, got int64"),
    (good(subtract=torch.zeros(3), multiply=torch.zeros(4)), ValueError,
     "subtract: expected [D=7], got [3]"),
    (good(subtract=torch.zeros(3), method=[("linear", 8)]), ValueError,
     "subtract: expected [D=7], got [3]"),
    (good(data=zeros(B, S, D, dtype=torch.uint8), method=[("linear", 8)], outside="nan"),
     ValueError, "method: expected runs that sum to D=7, got 8"),
    (good(method="cubic", data=torch.zeros(3)), ValueError,
     f"method: expected {METHODS}, got 'cubic'"),
]

# fmt: on


def fails(
    backend: Backend, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    """The call raises this, and the next call works."""
    arguments = dict(arguments)
    tensors = [arguments.pop(name) for name in ("data", "source_times", "target_times")]
    for options in (arguments, {"return_valid": True} | arguments):
        with pytest.raises(error, match="^" + re.escape(message) + "$") as caught:
            backend.resample(*tensors, **options)
        assert type(caught.value) is error
        assert "\n" not in str(caught.value), "one line, and no C++ stack"
    works(backend)


def works(backend: Backend) -> None:
    out = backend.resample(torch.tensor([[1.0], [3.0]]), torch.tensor([0, 2]), torch.tensor([1]))
    assert out.tolist() == [[2.0]]


@pytest.mark.parametrize(
    ("arguments", "error", "message"), CASES, ids=[f"{i}-{c[2][:40]}" for i, c in enumerate(CASES)]
)
def test_message(
    backend: Backend, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    fails(backend, arguments, error, message)


@pytest.mark.parametrize(
    "name",
    ["source_times", "target_times", "source_lengths", "source_valid", "subtract", "multiply"],
)
def test_device(backend: Backend, name: str) -> None:
    """Every tensor argument must be where the data is."""
    other = torch.device("meta" if backend.device == "cpu" else "cpu")
    shape, dtype = {
        "source_times": ((B, S), torch.int64),
        "target_times": ((B, T), torch.int64),
        "source_lengths": ((B,), torch.int64),
        "source_valid": ((B, S), torch.bool),
        "subtract": ((D,), torch.float32),
        "multiply": ((D,), torch.float32),
    }[name]
    moved = {key: backend.put(value) for key, value in good().items()}
    moved[name] = torch.zeros(shape, dtype=dtype, device=other)
    own = "cuda:0" if backend.device == "cuda" else "cpu"
    with pytest.raises(
        ValueError, match=re.escape(f"{name}: expected device {own} like data, got {other}")
    ):
        rc.resample_trajectories(**moved, backend=backend.backend)
    works(backend)


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ({"source_times": (B, S), "target_times": (3, T)}, "source_times: expected device"),
        ({"source_lengths": (B,), "source_valid": (B, 9)}, "source_lengths: expected device"),
        ({"source_lengths": (9,), "target_times": (B, T)}, "target_times: expected device"),
        ({"source_times": (B, 9), "source_valid": (B, S)}, "source_times: expected [B=4,S=100]"),
    ],
)
def test_order_of_faults(
    backend: Backend, faults: dict[str, tuple[int, ...]], message: str
) -> None:
    """All that is wrong with one tensor, its device last, comes before the next tensor."""
    arguments = {key: backend.put(value) for key, value in good().items()}
    for name, shape in faults.items():
        dtype = torch.bool if name == "source_valid" else torch.int64
        arguments[name] = torch.zeros(shape, dtype=dtype, device="meta")
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        rc.resample_trajectories(**arguments, backend=backend.backend)
    works(backend)


def descending(dtype: torch.dtype = torch.int64) -> torch.Tensor:
    times = torch.arange(S).repeat(B, 1).to(dtype)
    times[2, 2], times[2, 3] = 7, 5
    return times


def backwards(between: float | None = None) -> torch.Tensor:
    """Target times of which one is earlier than the one before, or than one with NaN between."""
    times = torch.arange(T).repeat(B, 1)
    times[2, 2], times[2, 3] = 7, 5
    if between is None:
        return times
    times = times.double()
    times[2, 1], times[2, 2] = 7, between
    return times


def with_nan() -> torch.Tensor:
    times = torch.arange(S).repeat(B, 1).double()
    times[2, 3] = math.nan
    return times


# fmt: off
VALUE_CASES: list[tuple[dict[str, Any], str]] = [
    (good(source_times=descending()),
     "source_times: expected ascending times, got 5 after 7 at [2,3]"),
    (good(source_times=descending()[2]),
     "source_times: expected ascending times, got 5 after 7 at [3]"),
    (seconds(source_times=descending(torch.float64)),
     "source_times: expected ascending times, got 5 after 7 at [2,3]"),
    (seconds(source_times=with_nan()), "source_times: expected ascending times, got nan at [2,3]"),
    (seconds(source_times=with_nan()[2]), "source_times: expected ascending times, got nan at [3]"),
    (good(source_lengths=torch.tensor([1, 2, 120, 4])),
     "source_lengths: expected 0 to S=100, got 120 at [2]"),
    (good(source_lengths=torch.tensor([1, -1, 120, 4], dtype=torch.int32)),
     "source_lengths: expected 0 to S=100, got -1 at [1]"),
    (good(source_lengths=torch.tensor(101)), "source_lengths: expected 0 to S=100, got 101 at []"),
    (good(source_times=descending(), source_lengths=torch.tensor([100, 100, 4, 100])),
     "source_times: expected ascending times, got 5 after 7 at [2,3]"),
    (good(source_times=descending(), source_lengths=torch.tensor([100, 100, 4, 101])),
     "source_lengths: expected 0 to S=100, got 101 at [3]"),
    (good(method="sum", target_times=backwards()),
     "target_times: expected ascending times for method 'sum', got 5 after 7 at [2,3]"),
    (good(method=[("linear", 6), ("sum", 1)], target_times=backwards()[2]),
     "target_times: expected ascending times for method 'sum', got 5 after 7 at [3]"),
    (seconds(method="sum", target_times=backwards(math.nan)),
     "target_times: expected ascending times for method 'sum', got 5 after 7 at [2,3]"),
    (good(method="sum", target_times=backwards(), source_times=descending()),
     "source_times: expected ascending times, got 5 after 7 at [2,3]"),
]
# fmt: on


@pytest.mark.parametrize(
    ("arguments", "message"),
    VALUE_CASES,
    ids=[c[1][:40] + str(i) for i, c in enumerate(VALUE_CASES)],
)
def test_values(backend: Backend, arguments: dict[str, Any], message: str) -> None:
    """The cpu backend always looks at the times and lengths, the others under validation."""
    if backend.backend == "cpu":
        fails(backend, arguments, ValueError, message)
    with rc.config(validate=True):
        fails(backend, arguments, ValueError, message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    VALUE_CASES,
    ids=[c[1][:40] + str(i) for i, c in enumerate(VALUE_CASES)],
)
def test_values_unchecked(backend: Backend, arguments: dict[str, Any], message: str) -> None:
    """Unchecked: some values or other, lengths clamped, and never a crash."""
    if backend.backend == "cpu":
        pytest.skip("the cpu backend always checks")
    arguments = dict(arguments)
    source, targets = arguments.pop("source_times"), arguments.pop("target_times")
    if "target_times" not in message:
        targets = torch.arange(-5, S + 5).to(targets.dtype)
    tensors = [torch.rand(B, S, D) + 1, source, targets]
    del arguments["data"]
    out, valid = backend.resample_to_cpu(*tensors, **arguments)
    assert out.shape == (B, targets.size(-1), D) and valid.shape == out.shape[:2]
    if "source_lengths" in arguments and "ascending" not in message:
        arguments["source_lengths"] = arguments["source_lengths"].clamp(0, S)
        clamped, clamped_valid = backend.resample_to_cpu(*tensors, **arguments)
        assert torch.equal(out, clamped) and torch.equal(valid, clamped_valid)
    works(backend)


def test_a_batch_of_none_reads_no_times(backend: Backend) -> None:
    """Shared source times that descend, with B = 0."""
    with rc.config(validate=True):
        out = backend.resample(torch.zeros(0, 3, 2), torch.tensor([0, 2, 1]), torch.tensor([1]))
    assert out.shape == (0, 1, 2)


def test_rows_past_the_length_are_not_checked(backend: Backend) -> None:
    with rc.config(validate=True):
        out = backend.resample(
            torch.arange(4.0).unsqueeze(-1).expand(2, 4, 1),
            torch.tensor([[0.0, 1.0, math.nan, -5.0], [0.0, 1.0, 2.0, -5.0]]),
            torch.tensor([0.5]),
            source_lengths=torch.tensor([2, 3]),
        )
    assert out.flatten().tolist() == [0.5, 0.5]


def test_backend_name(backend: Backend) -> None:
    arguments = {key: backend.put(value) for key, value in good().items()}
    with pytest.raises(
        ValueError, match=re.escape("backend: expected auto, cuda, cpu or pytorch, got 'gpu'")
    ):
        rc.resample_trajectories(**arguments, backend="gpu")
    with pytest.raises(
        ValueError, match=re.escape("backend: expected auto, cuda, cpu or pytorch, got 'gpu'")
    ):
        rc.config(backend="gpu")
    own, other, device = (
        ("cpu", "cuda", "cpu") if backend.device == "cpu" else ("cuda", "cpu", "cuda:0")
    )
    message = f"backend: expected {own} or pytorch for data on {device}, got '{other}'"
    with pytest.raises(ValueError, match=re.escape(message)):
        rc.resample_trajectories(**arguments, backend=other)
    with rc.config(backend=other), pytest.raises(ValueError, match=re.escape(message)):
        rc.resample_trajectories(**arguments)
    works(backend)


def test_cuda_without_cuda_says_the_way_out() -> None:
    """A GPU, but a library without CUDA: backend="cuda" is an error with the way out."""
    backends = find_backends()[0]
    if PYTORCH_CUDA not in backends:
        pytest.skip("no GPU is tested here")
    if CUDA in backends or cuda_problem() is None:
        pytest.skip("the library has CUDA here")
    arguments = {key: PYTORCH_CUDA.put(value) for key, value in good().items()}
    with pytest.raises(
        ValueError, match=re.escape("backend: expected a usable CUDA build for 'cuda', got ")
    ):
        rc.resample_trajectories(**arguments, backend="cuda")
    assert rc.resample_trajectories(**arguments).is_cuda  # auto goes on with pytorch
