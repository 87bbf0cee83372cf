"""Bad input to voxelization: class and whole message, alike on every backend."""

from __future__ import annotations

import itertools
import math
import re
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from support import Backend

import robocache as rc

B, N, P, C = 2, 5, 10, 4


def dense(**changes: Any) -> dict[str, Any]:
    return {"points": torch.zeros(B, N, 3), "grid_size": (2, 3, 4), "voxel_size": 0.5} | changes


def mean(**changes: Any) -> dict[str, Any]:
    return dense(mode="mean", features=torch.zeros(B, N, C)) | changes


def ragged(offsets: Any, **changes: Any) -> dict[str, Any]:
    return dense(points=torch.zeros(P, 3), offsets=torch.as_tensor(offsets)) | changes


def sparse(**changes: Any) -> dict[str, Any]:
    return {"points": torch.zeros(B, N, 3), "voxel_size": 0.5} | changes


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


def many(rows: int, columns: int = 3) -> torch.Tensor:
    """So many points, in the memory of one number."""
    return torch.zeros(1, 1).expand(rows, columns)


FLOATS = "float16, bfloat16, float32 or float64"
VALUES = "float16, bfloat16, float32, float64 or uint8"
MODES = "occupancy, count, mean, sum, max or min"
OCCUPANCY = "float16, bfloat16, float32, float64, uint8, int32 or bool"
NO_GRAD = "expected no requires_grad (gradients flow to features only), got requires_grad=True"
INT32 = (
    "expected voxel coordinates from -2147483648 to 2147483647 (a larger voxel_size or an origin "
    "nearer the points makes them smaller)"
)
INT64 = torch.int64

# Errors of both functions: (arguments, class, message); B=2, N=5, P=10, C=4
# fmt: off
SHARED: list[tuple[dict[str, Any], type[Exception], str]] = [
    # Points
    ({"points": [1, 2, 3]}, TypeError, "points: expected a torch.Tensor, got list"),
    ({"points": None}, TypeError, "points: expected a torch.Tensor, got NoneType"),
    ({"points": zeros(B, N, 3, dtype=INT64)}, TypeError, f"points: expected {FLOATS}, got int64"),
    ({"points": zeros(N, 3, dtype=torch.uint8)}, TypeError,
     f"points: expected {FLOATS}, got uint8"),
    ({"points": zeros(3)}, ValueError, "points: expected [B,N,3] or [P,3], got [3]"),
    ({"points": zeros(5, 4)}, ValueError, "points: expected [B,N,3] or [P,3], got [5,4]"),
    ({"points": zeros(B, N, 2)}, ValueError, "points: expected [B,N,3] or [P,3], got [2,5,2]"),
    ({"points": zeros(1, B, N, 3)}, ValueError,
     "points: expected [B,N,3] or [P,3], got [1,2,5,3]"),
    ({"points": zeros(B, N, 3).requires_grad_()}, ValueError, f"points: {NO_GRAD}"),
    # Offsets
    ({"offsets": [0, 10]}, TypeError, "offsets: expected a torch.Tensor, got list"),
    ({"offsets": torch.tensor([0, 10])}, ValueError,
     "points: expected [P,3] with offsets, got [2,5,3]"),
    ({"points": zeros(P, 3), "offsets": torch.tensor([0.0, 10.0])}, TypeError,
     "offsets: expected int64 or int32, got float32"),
    ({"points": zeros(P, 3), "offsets": zeros(0, dtype=INT64)}, ValueError,
     "offsets: expected [B+1], got [0]"),
    ({"points": zeros(P, 3), "offsets": zeros(1, 2, dtype=INT64)}, ValueError,
     "offsets: expected [B+1], got [1,2]"),
    # Voxel size
    ({"voxel_size": 0}, ValueError, "voxel_size: expected positive finite sizes, got [0,0,0]"),
    ({"voxel_size": -0.1}, ValueError,
     "voxel_size: expected positive finite sizes, got [-0.1,-0.1,-0.1]"),
    ({"voxel_size": (0.1, 0.2, math.nan)}, ValueError,
     "voxel_size: expected positive finite sizes, got [0.1,0.2,nan]"),
    ({"voxel_size": [math.inf, 1, 1]}, ValueError,
     "voxel_size: expected positive finite sizes, got [inf,1,1]"),
    ({"voxel_size": 10**400}, ValueError,
     "voxel_size: expected positive finite sizes, got ["
     + ",".join(["a number of 401 digits"] * 3) + "]"),
    ({"voxel_size": (0.1, 0.1)}, TypeError,
     "voxel_size: expected a number or three, got (0.1, 0.1)"),
    ({"voxel_size": "0.1"}, TypeError, "voxel_size: expected a number or three, got '0.1'"),
    ({"voxel_size": True}, TypeError, "voxel_size: expected a number or three, got True"),
    ({"voxel_size": None}, TypeError, "voxel_size: expected a number or three, got None"),
    ({"voxel_size": zeros(2)}, TypeError,
     "voxel_size: expected a number or three, got [0.0, 0.0]"),
    ({"voxel_size": zeros(4)}, TypeError, "voxel_size: expected a number or three, got shape [4]"),
    ({"voxel_size": zeros(3).requires_grad_()}, ValueError, f"voxel_size: {NO_GRAD}"),
    ({"voxel_size": zeros(1).to_sparse()}, TypeError,
     "voxel_size: expected a dense tensor, got a sparse_coo one"),
    ({"origin": torch.empty(3, device="meta")}, ValueError,
     "origin: expected numbers or a CPU tensor (.tolist() makes them, and waits for the device), "
     "got a tensor on meta"),
    # Origin
    ({"origin": 0.0}, TypeError, "origin: expected three numbers, got 0.0"),
    ({"origin": (0, 0)}, TypeError, "origin: expected three numbers, got (0, 0)"),
    ({"origin": (0, "0", 0)}, TypeError, "origin: expected three numbers, got (0, '0', 0)"),
    ({"origin": (0, 0, math.nan)}, ValueError, "origin: expected finite numbers, got [0,0,nan]"),
    ({"origin": (-math.inf, 1.5, 0)}, ValueError,
     "origin: expected finite numbers, got [-inf,1.5,0]"),
]

DENSE: list[tuple[dict[str, Any], type[Exception], str]] = [
    *[(dense(**changes), error, message) for changes, error, message in SHARED],
    # Grid
    (dense(grid_size=(2, 0, 4)), ValueError,
     "grid_size: expected sizes of at least 1, got [2,0,4]"),
    (dense(grid_size=(2, 2, -4)), ValueError,
     "grid_size: expected sizes of at least 1, got [2,2,-4]"),
    (dense(grid_size=128), TypeError, "grid_size: expected three integers, got 128"),
    (dense(grid_size=(2, 2)), TypeError, "grid_size: expected three integers, got (2, 2)"),
    (dense(grid_size=(2.0, 2, 2)), TypeError,
     "grid_size: expected three integers, got (2.0, 2, 2)"),
    (dense(grid_size=(2, True, 2)), TypeError,
     "grid_size: expected three integers, got (2, True, 2)"),
    (dense(grid_size=np.ones((3, 4), int)), TypeError,
     "grid_size: expected three integers, got shape [3,4]"),
    (dense(grid_size=torch.ones(3)), TypeError,
     "grid_size: expected three integers, got [1.0, 1.0, 1.0]"),
    (dense(grid_size=(2**62, 1, 1), voxel_size=1e300), ValueError,
     "grid_size: expected a grid that ends at finite numbers, "
     "got [4611686018427387904,1,1] cells of [1e+300,1e+300,1e+300]"),
    (dense(grid_size=(1, 10**400, 1)), ValueError,
     "grid_size: expected a grid that ends at finite numbers, "
     "got [1,a number of 401 digits,1] cells of [0.5,0.5,0.5]"),
    # Mode
    (dense(mode="average"), ValueError, f"mode: expected {MODES}, got 'average'"),
    (dense(mode=3), ValueError, f"mode: expected {MODES}, got 3"),
    # Features
    (mean(features=None), ValueError, "features: expected some for mode 'mean', got none"),
    (mean(mode="max", features=None), ValueError,
     "features: expected some for mode 'max', got none"),
    (mean(mode="occupancy"), ValueError, "features: expected none for mode 'occupancy', got some"),
    (mean(mode="count"), ValueError, "features: expected none for mode 'count', got some"),
    (mean(features=[0.0]), TypeError, "features: expected a torch.Tensor, got list"),
    (mean(features=zeros(B, N, C, dtype=INT64)), TypeError,
     f"features: expected {VALUES}, got int64"),
    (mean(features=zeros(B, N, C, dtype=torch.complex64)), TypeError,
     f"features: expected {VALUES}, got complex64"),
    (mean(features=zeros(B, N)), ValueError, "features: expected [B=2,N=5,C], got [2,5]"),
    (mean(features=zeros(B * N, C)), ValueError, "features: expected [B=2,N=5,C], got [10,4]"),
    (mean(features=zeros(B, 4, C)), ValueError, "features: expected [B=2,N=5,C], got [2,4,4]"),
    (mean(features=zeros()), ValueError, "features: expected [B=2,N=5,C], got []"),
    (ragged([0, 10], mode="sum", features=zeros(9, C)), ValueError,
     "features: expected [P=10,C], got [9,4]"),
    # Output type
    (dense(out_dtype=INT64), TypeError, f"out_dtype: expected {OCCUPANCY}, got int64"),
    (dense(out_dtype="bool"), TypeError, f"out_dtype: expected {OCCUPANCY}, got str"),
    (dense(mode="count", out_dtype=torch.float16), TypeError,
     "out_dtype: expected int32, int64, float32 or float64, got float16"),
    (mean(out_dtype=torch.int32), TypeError, f"out_dtype: expected {VALUES}, got int32"),
    # Sizes
    (dense(points=many(2**31), mode="count"), ValueError,
     "points: expected at most 2147483647 points for 'count', got 2147483648"),
    (dense(points=many(2**31), mode="sum", features=many(2**31, 1)), ValueError,
     "points: expected at most 2147483647 points for 'sum', got 2147483648"),
    (dense(grid_size=(2**30, 2**20, 2**10)), ValueError,
     "grid_size: expected a grid of less than 2^63 bytes, got [1073741824,1048576,1024] "
     "for B=2 of float32"),
    (mean(grid_size=(2**70, 1, 1)), ValueError,
     "grid_size: expected a grid of less than 2^63 bytes, got [1180591620717411303424,1,1] "
     "for B=2 and C=4 of float32"),
    # An empty output too has a grid whose cells can be numbered.
    (mean(grid_size=(2**62, 2**33, 3), features=zeros(B, N, 0)), ValueError,
     "grid_size: expected a grid of less than 2^63 bytes, got [4611686018427387904,8589934592,3] "
     "for B=2 and C=0 of float32"),
    (mean(grid_size=(2**63, 1, 1), features=zeros(B, N, 0)), ValueError,
     "grid_size: expected a grid of less than 2^63 bytes, got [9223372036854775808,1,1] "
     "for B=2 and C=0 of float32"),
    (dense(grid_size=(2**31, 2**31, 1), points=zeros(0, N, 3)), ValueError,
     "grid_size: expected a grid of less than 2^63 bytes, got [2147483648,2147483648,1] "
     "for B=0 of float32"),
    # Which of two errors is told
    (dense(points=zeros(3), mode="average"), ValueError, f"mode: expected {MODES}, got 'average'"),
    (mean(features=zeros(B, 4, C), points=zeros(B, N, 3, dtype=INT64)), TypeError,
     f"points: expected {FLOATS}, got int64"),
    (ragged([[0]], features=zeros(3, dtype=INT64), mode="sum"), ValueError,
     "offsets: expected [B+1], got [1,1]"),
    (dense(points=zeros(B, N, 2), grid_size=(2**20, 2**20, 2**20)), ValueError,
     "points: expected [B,N,3] or [P,3], got [2,5,2]"),
]

SPARSE: list[tuple[dict[str, Any], type[Exception], str]] = [
    *[(sparse(**changes), error, message) for changes, error, message in SHARED],
    (sparse(reduce="count"), ValueError,
     "reduce: expected mean, sum, max or min, got 'count'"),
    (sparse(reduce=None), ValueError, "reduce: expected mean, sum, max or min, got None"),
    (sparse(origin=None), TypeError, "origin: expected three numbers, got None"),
    (sparse(features=zeros(B, 4, C)), ValueError, "features: expected [B=2,N=5,C], got [2,4,4]"),
    (sparse(points=many(2**31)), ValueError,
     "points: expected at most 2147483647 points for sparse voxels, got 2147483648"),
    # Errors that depend on the data
    (sparse(points=torch.tensor([[0.0, 0, 0], [0, 2.0**31, 0], [0, -(2.0**40), 0]]),
            voxel_size=1), ValueError,
     f"points: {INT32}, got y = 2147483648 for point 1"),
    (sparse(points=torch.tensor([[[0.0, 0, 0]] * 2, [[0.0, 0, 0], [0, -(2.0**31) - 256, 1e30]]]),
            voxel_size=1), ValueError,
     f"points: {INT32}, got y = -2147483904 for point 1 of cloud 1"),
    (sparse(points=torch.tensor([[0.0, 0, 0], [0, 0, 0], [0, 0, 2.0**40]]), voxel_size=1,
            offsets=torch.tensor([0, 1, 3])), ValueError,
     f"points: {INT32}, got z = 1099511627776 for point 1 of cloud 1"),
    (sparse(points=torch.tensor([[3e38, 0, 0]]), voxel_size=1e-300), ValueError,
     f"points: {INT32}, got x = inf for point 0"),
    (sparse(points=torch.tensor([[-(2.0**31), 0, 0], [2.0**30, 0, 0], [0, 2.0**30, 2.0**10]]),
            voxel_size=1), ValueError,
     "points: expected fewer than 2^63 - 1 cells in the box around all of them, times B (a larger "
     "voxel_size, no outliers or fewer clouds make it smaller), "
     "got B=1 x 3221225473 x 1073741825 x 1025 from [-2147483648,0,0]"),
]
# fmt: on


def call(backend: Backend, arguments: dict[str, Any], function: Any) -> Any:
    """On this backend; numbers in tensors stay where they are."""
    numbers = ("voxel_size", "origin", "grid_size")
    moved = {
        name: value if name in numbers else backend.put(value) for name, value in arguments.items()
    }
    return function(**moved, backend=backend.backend)


def fails(
    backend: Backend,
    arguments: dict[str, Any],
    function: Any,
    error: type[Exception],
    message: str,
) -> None:
    """The call raises this, and the next call works."""
    kinds: list[dict[str, Any]] = [{}]
    if function is rc.voxelize_point_cloud:
        kinds.append({"return_dropped": True})
    for kind in kinds:
        with pytest.raises(error, match="^" + re.escape(message) + "$") as caught:
            call(backend, arguments | kind, function)
        assert type(caught.value) is error
        assert "\n" not in str(caught.value), "one line, and no C++ stack"
    works(backend)


def works(backend: Backend) -> None:
    points = torch.tensor([[0.5, 0.5, 0.5]])
    assert backend.voxelize(points, (1, 1, 1), 1, origin=(0, 0, 0)).tolist() == [[[1.0]]]
    assert backend.voxelize_sparse(points, 1).counts.tolist() == [1]


@pytest.mark.parametrize(
    ("arguments", "error", "message"), DENSE, ids=[f"{i}-{c[2][:40]}" for i, c in enumerate(DENSE)]
)
def test_dense_message(
    backend: Backend, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    fails(backend, arguments, rc.voxelize_point_cloud, error, message)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    SPARSE,
    ids=[f"{i}-{c[2][:40]}" for i, c in enumerate(SPARSE)],
)
def test_sparse_message(
    backend: Backend, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    fails(backend, arguments, rc.voxelize_sparse, error, message)


@pytest.mark.parametrize("function", [rc.voxelize_point_cloud, rc.voxelize_sparse])
@pytest.mark.parametrize("name", ["features", "offsets"])
def test_device(backend: Backend, name: str, function: Any) -> None:
    """Every tensor argument must be where the points are."""
    other = torch.device("meta" if backend.device == "cpu" else "cpu")
    arguments: dict[str, Any] = {"points": zeros(P, 3), "features": zeros(P, C), "voxel_size": 1}
    arguments["offsets"] = torch.tensor([0, 4, P])
    if function is rc.voxelize_point_cloud:
        arguments |= {"mode": "sum", "grid_size": (2, 2, 2)}
    moved = {key: backend.put(value) for key, value in arguments.items()}
    moved[name] = moved[name].to(other)
    own = "cuda:0" if backend.device == "cuda" else "cpu"
    message = f"{name}: expected device {own} like points, got {other}"
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        function(**moved, backend=backend.backend)
    works(backend)


@pytest.mark.parametrize("function", [rc.voxelize_point_cloud, rc.voxelize_sparse])
@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ({"offsets": (3,), "features": (9, C)}, "offsets: expected device"),
        ({"offsets": (2, 2), "features": (P, C)}, "offsets: expected [B+1], got [2,2]"),
        ({"points": (P, 3), "offsets": (2, 2)}, "offsets: expected [B+1], got [2,2]"),
    ],
)
def test_order_of_faults(
    backend: Backend, faults: dict[str, tuple[int, ...]], message: str, function: Any
) -> None:
    """All that is wrong with one tensor, its device last, comes before the next tensor."""
    arguments = {"points": zeros(P, 3), "features": zeros(P, C), "offsets": torch.tensor([0, 4, P])}
    arguments = {name: backend.put(value) for name, value in arguments.items()}
    for name, shape in faults.items():
        device = backend.device if name == "points" else "meta"
        dtype = INT64 if name == "offsets" else torch.float32
        arguments[name] = torch.zeros(shape, dtype=dtype, device=device)
    options = {} if function is rc.voxelize_sparse else {"mode": "sum", "grid_size": (2, 2, 2)}
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        function(**arguments, voxel_size=1, backend=backend.backend, **options)
    works(backend)


def test_points_without_values() -> None:
    """On the device meta there are shapes alone: enough for a grid, and nothing to validate."""
    points, offsets = zeros(P, 3).to("meta"), torch.tensor([0, P]).to("meta")
    with rc.config(validate=True):
        grid = rc.voxelize_point_cloud(points, (2, 2, 2), 1, offsets=offsets)
        times = torch.zeros(P, device="meta")
        assert rc.resample_trajectories(points, times, times).shape == points.shape
    assert grid.is_meta and grid.shape == (1, 2, 2, 2)
    message = "points: expected values, which decide the number of voxels, got meta"
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        rc.voxelize_sparse(points, 1)


@pytest.mark.parametrize("function", [rc.voxelize_point_cloud, rc.voxelize_sparse])
def test_backend_name(backend: Backend, function: Any) -> None:
    points = backend.put(zeros(P, 3))
    with pytest.raises(
        ValueError, match=re.escape("backend: expected auto, cuda, cpu or pytorch, got 'gpu'")
    ):
        function(points, voxel_size=1, backend="gpu")
    own, other, device = (
        ("cpu", "cuda", "cpu") if backend.device == "cpu" else ("cuda", "cpu", "cuda:0")
    )
    message = f"backend: expected {own} or pytorch for points on {device}, got '{other}'"
    with pytest.raises(ValueError, match=re.escape(message)):
        function(points, voxel_size=1, backend=other)
    works(backend)


def nested() -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it is a prototype
        return torch.nested.nested_tensor([torch.zeros(P, 3)])


@pytest.mark.parametrize("function", [rc.voxelize_point_cloud, rc.voxelize_sparse])
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"points": zeros(P, 3).to_sparse()}, TypeError,
         "points: expected a dense tensor, got a sparse_coo one"),
        ({"points": nested()}, TypeError, "points: expected a dense tensor, got a nested one"),
        ({"features": zeros(P, C).to_sparse()}, TypeError,
         "features: expected a dense tensor, got a sparse_coo one"),
        ({"offsets": torch.tensor([0, P]).to_sparse()}, TypeError,
         "offsets: expected a dense tensor, got a sparse_coo one"),
        ({"points": zeros(1, 1, 1, 1, 1, 1, 1, 1, 3)}, ValueError,
         "points: expected [P,3] with offsets, got [1,1,1,1,1,1,1,1,3]"),
        ({"features": zeros(P, 1, 1, 1, 1, 1, 1, 1, 1)}, ValueError,
         "features: expected [P=10,C], got [10,1,1,1,1,1,1,1,1]"),
        ({"points": zeros(P, 3).to(torch.float8_e4m3fn)}, TypeError,
         f"points: expected {FLOATS}, got float8_e4m3fn"),
        ({"offsets": torch.tensor([0, P]).to(torch.uint16)}, TypeError,
         "offsets: expected int64 or int32, got uint16"),
    ],
)  # fmt: skip
def test_tensors_that_torch_keeps_apart(
    backend: Backend, changes: dict[str, Any], error: type[Exception], message: str, function: Any
) -> None:
    """Sparse, nested, of many dimensions, of rare types: the same words on every backend."""
    arguments: dict[str, Any] = {"points": zeros(P, 3), "features": zeros(P, C), "voxel_size": 1}
    arguments["offsets"] = torch.tensor([0, P])
    if function is rc.voxelize_point_cloud:
        arguments |= {"mode": "sum", "grid_size": (2, 2, 2)}
    moved = {
        name: value.to(backend.device) if isinstance(value, torch.Tensor) else value
        for name, value in (arguments | changes).items()
    }
    with pytest.raises(error, match="^" + re.escape(message) + "$") as caught:
        function(**moved, backend=backend.backend)
    assert type(caught.value) is error
    works(backend)


# ---- grids larger than memory ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "size", "shape"),
    [
        (dense(grid_size=(2**14, 2**14, 2**14)), 2**45, "[16384,16384,16384] for B=2 of float32"),
        (
            dense(points=zeros(P, 3), grid_size=(2**21, 2**11, 2**10), out_dtype=torch.bool),
            2**42,
            "[2097152,2048,1024] for B=1 of bool",
        ),
        (
            mean(grid_size=(2**13, 2**13, 2**13), out_dtype=torch.float64),
            2**45,
            "[8192,8192,8192] for B=2 and C=4 of float64",
        ),
    ],
    ids=["occupancy", "one cloud", "features"],
)
def test_larger_than_memory(
    backend: Backend, arguments: dict[str, Any], size: int, shape: str
) -> None:
    """Said before anything is allocated, with the bytes."""
    own = "cuda:0" if backend.device == "cuda" else "cpu"
    message = (
        rf"^grid_size: expected a grid within the \d+ bytes of memory of {own}, "
        + re.escape(f"got {size} bytes for {shape}")
        + "$"
    )
    with pytest.raises(torch.OutOfMemoryError, match=message):
        call(backend, arguments, rc.voxelize_point_cloud)
    works(backend)


# ---- offsets -----------------------------------------------------------------------------------

OFFSETS = [
    ([1, 4, 10], "offsets: expected 0 first, got 1"),
    ([-1, 4, 10], "offsets: expected 0 first, got -1"),
    ([0, 7, 4, 10], "offsets: expected ascending offsets, got 4 after 7 at [2]"),
    ([0, 12, 10], "offsets: expected ascending offsets, got 10 after 12 at [2]"),
    ([0, 4, 9], "offsets: expected P=10 last, got 9"),
    ([0, 4, 11], "offsets: expected P=10 last, got 11"),
    ([0], "offsets: expected P=10 last, got 0"),
]


@pytest.mark.parametrize(("offsets", "message"), OFFSETS, ids=[str(c[0]) for c in OFFSETS])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_offsets(backend: Backend, offsets: list[int], message: str, dtype: torch.dtype) -> None:
    """The cpu backend always looks at them, the others under validation."""
    given = torch.tensor(offsets, dtype=dtype)
    for arguments, function in (
        (ragged(given), rc.voxelize_point_cloud),
        (ragged(given, mode="mean", features=zeros(P, C)), rc.voxelize_point_cloud),
        (sparse(points=zeros(P, 3), offsets=given), rc.voxelize_sparse),
    ):
        if backend.backend == "cpu":
            fails(backend, arguments, function, ValueError, message)
        with rc.config(validate=True):
            fails(backend, arguments, function, ValueError, message)


@pytest.mark.parametrize(("offsets", "message"), OFFSETS, ids=[str(c[0]) for c in OFFSETS])
def test_offsets_unchecked(backend: Backend, offsets: list[int], message: str) -> None:
    """Unchecked: points that no cloud has are left out, and there is never a crash."""
    if backend.backend == "cpu":
        pytest.skip("the cpu backend always checks")
    bounds = torch.tensor(offsets)
    batch = len(offsets) - 1
    points, features = torch.zeros(P, 3), torch.ones(P, 2)
    grid, dropped = backend.voxelize(
        points, (1, 1, 1), 1, mode="count", offsets=bounds, return_dropped=True
    )
    assert grid.shape == (batch, 1, 1, 1) and 0 <= grid.sum() <= P and dropped.sum() == 0
    total = backend.voxelize(points, (1, 1, 1), 1, mode="sum", features=features, offsets=bounds)
    assert total.shape == (batch, 2, 1, 1, 1)
    if "ascending" not in message:
        counts = [max(0, min(b, P) - max(a, 0)) for a, b in itertools.pairwise(offsets)]
        assert grid.flatten().tolist() == counts
        assert total[:, 0].flatten().tolist() == counts
    voxels = backend.voxelize_sparse(points, 1, features=features, offsets=bounds)
    assert voxels.offsets.shape == (batch + 1,)
    assert int(voxels.counts.sum()) == int((voxels.point_to_voxel >= 0).sum()) <= P
    works(backend)


def test_return_dropped_is_a_bool(backend: Backend) -> None:
    with pytest.raises(TypeError, match=r"^return_dropped: expected a bool, got int$"):
        backend.voxelize(zeros(P, 3), return_dropped=1)
