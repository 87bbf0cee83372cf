"""Unprojection against the reference, its gradients, and what follows it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import points_reference
import pytest
import torch
from scipy.spatial.transform import Rotation
from support import Backend, assert_near, assert_same_bits

import robocache as rc

DEPTHS = (
    torch.uint16,
    torch.int16,
    torch.int32,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)


def camera(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor([[60.0, 0.0, 4.5], [0.0, 55.0, 3.25], [0.0, 0.0, 1.0]], dtype=dtype)


def poses(count: int) -> torch.Tensor:
    pose = np.tile(np.eye(4), (count, 1, 1))
    pose[:, :3, :3] = Rotation.random(count, random_state=0).as_matrix()
    pose[:, :3, 3] = np.random.default_rng(0).normal(size=(count, 3))
    return torch.from_numpy(pose)


def images(count: int, dtype: torch.dtype, height: int = 7, width: int = 9) -> torch.Tensor:
    """Depth with zeros and, of signed and floating types, other pixels without a measurement."""
    depth = torch.randint(1, 4000, (count, height, width)).double()
    depth[:, 0, 1] = 0
    if dtype != torch.uint16:
        depth[:, 1, 2] = -5
    if dtype.is_floating_point:
        depth[:, 2, 3], depth[:, 3, 4], depth[:, 3, 5] = math.nan, math.inf, -math.inf
    return depth.to(dtype)


@pytest.mark.parametrize("has_pose", [False, True])
@pytest.mark.parametrize("dtype", DEPTHS, ids=str)
def test_reference(backend: Backend, dtype: torch.dtype, has_pose: bool) -> None:
    """Every dtype, a pose for each image; a strided image."""
    depth, pose = images(3, dtype), poses(3) if has_pose else None
    arguments = [backend.put(x) for x in (depth, camera(), pose)]
    points = rc.unproject(*arguments, depth_scale=0.001)
    compute = torch.float64 if dtype == torch.float64 else torch.float32
    assert points.shape == (3, 63, 3) and points.dtype == compute and points.is_contiguous()
    assert points.device.type == backend.device
    for i in range(3):
        want = points_reference.unproject(
            depth[i].double().numpy(),
            camera().numpy(),
            None if pose is None else pose[i].numpy(),
            0.001,
        )
        tolerance = 1e-12 if compute == torch.float64 else 1e-5
        assert_near(points[i].cpu(), torch.from_numpy(want), tolerance)
    strided = backend.put(depth.mT.contiguous()).mT
    assert_same_bits(rc.unproject(strided, *arguments[1:], depth_scale=0.001), points)


def test_formula(backend: Backend) -> None:
    """The operations, one by one, in float32."""
    depth = images(1, torch.float32)[0]
    points = rc.unproject(backend.put(depth), backend.put(camera())).cpu().reshape(7, 9, 3)
    z = torch.where((depth > 0) & (depth < math.inf), depth, math.nan)
    u, v = torch.arange(9.0), torch.arange(7.0)[:, None]
    x, y = (u - 4.5) / 60.0 * z, (v - 3.25) / 55.0 * z
    assert_same_bits(points, torch.stack([x, y, z], -1))


def test_leading_dimensions(backend: Backend) -> None:
    """Images of cameras and times, intrinsics of each camera, a pose for each time."""
    depth = backend.put(images(6, torch.float32).reshape(2, 3, 7, 9))
    cameras = backend.put(torch.stack([camera(), camera() + 1, camera() * 2]))
    pose = backend.put(poses(2))
    points = rc.unproject(depth, cameras, pose[:, None])
    for t in range(2):
        for c in range(3):
            assert_same_bits(points[t, c], rc.unproject(depth[t, c], cameras[c], pose[t]))
    many = rc.unproject(depth[0, 0], camera().to(depth.device), pose)
    assert many.shape == (2, 63, 3)
    assert_same_bits(many[1], rc.unproject(depth[0, 0], camera().to(depth.device), pose[1]))
    assert rc.unproject(depth[:0], cameras, pose[:1, None]).shape == (0, 3, 63, 3)
    assert rc.unproject(depth[..., :0], cameras).shape == (2, 3, 0, 3)


def test_gradients() -> None:
    """Gradients of depth, intrinsics and pose; zeros at pixels without a measurement."""
    depth = images(2, torch.float64).requires_grad_()
    matrix, pose = camera(torch.float64).requires_grad_(), poses(2).requires_grad_()

    def finite(*arguments: Any) -> torch.Tensor:
        return rc.unproject(*arguments).nan_to_num()

    clean = torch.rand(2, 3, 4, dtype=torch.float64).add(1).requires_grad_()
    assert torch.autograd.gradcheck(finite, (clean, matrix, pose))
    points = rc.unproject(depth, matrix, pose)
    loss = points.nansum()
    for grad in torch.autograd.grad(loss, (depth, matrix, pose)):
        assert grad.isfinite().all()
    (grad,) = torch.autograd.grad(rc.unproject(depth, matrix, pose).nansum(), depth)
    assert (grad[:, 0, 1] == 0).all() and (grad[:, 1, 2] == 0).all()
    assert (grad[:, 2, 3] == 0).all() and (grad[:, 2, 1] != 0).all()


def test_pipeline(backend: Backend) -> None:
    """Pixels without a measurement are dropped and counted by voxelization, and never sampled."""
    depth = backend.put(images(2, torch.uint16))
    points = rc.unproject(depth, backend.put(camera()), depth_scale=0.001)
    _, dropped = backend.voxelize(points, (8, 8, 8), 1.0, return_dropped=True)
    assert dropped.tolist() == [1, 1]
    _, samples = backend.sample_farthest(points, 62, return_points=True)
    assert samples.isfinite().all()


def test_arrays() -> None:
    depth = images(1, torch.uint16)[0].numpy()
    points = rc.unproject(depth, camera().numpy(), poses(1)[0].numpy(), depth_scale=1e-3)
    assert isinstance(points, np.ndarray) and points.dtype == np.float32
    want = rc.unproject(torch.from_numpy(depth), camera(), poses(1)[0], depth_scale=1e-3)
    np.testing.assert_array_equal(points, want.numpy())


@pytest.mark.parametrize("has_pose", [False, True])
def test_compile(backend: Backend, has_pose: bool) -> None:
    """One graph for all sizes, with and without gradients."""
    torch.compiler.reset()
    pose = backend.put(poses(1)[0]) if has_pose else None
    matrix = backend.put(camera())

    def call(depth: torch.Tensor) -> torch.Tensor:
        return rc.unproject(depth, matrix, pose, depth_scale=0.5)

    fast = torch.compile(call, fullgraph=True, dynamic=True, backend="aot_eager")
    for count, height, width in ((2, 5, 8), (3, 6, 7)):
        depth = backend.put(images(count, torch.float32, height, width))
        assert_same_bits(fast(depth), call(depth))
        leaf = depth.nan_to_num(1.0, 1.0, 1.0).requires_grad_()
        (got,) = torch.autograd.grad(fast(leaf).nansum(), leaf)
        (want,) = torch.autograd.grad(call(leaf).nansum(), leaf)
        assert_near(got, want, 1e-6)
    torch.compiler.reset()


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


DEPTH_TYPES = "uint16, int16, int32, float16, bfloat16, float32 or float64"
FLOAT_TYPES = "float16, bfloat16, float32 or float64"
# fmt: off
ERRORS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"depth": [[1.0]]}, TypeError, "depth: expected a torch.Tensor, got list"),
    ({"depth": zeros(4)}, ValueError, "depth: expected [...,H,W], got [4]"),
    ({"depth": zeros(4, 5, dtype=torch.uint8)}, TypeError,
     f"depth: expected {DEPTH_TYPES}, got uint8"),
    ({"depth": zeros(4, 5).to_sparse()}, TypeError,
     "depth: expected a dense tensor, got a sparse_coo one"),
    ({"intrinsics": None}, TypeError, "intrinsics: expected a torch.Tensor, got NoneType"),
    ({"intrinsics": zeros(3, 4)}, ValueError, "intrinsics: expected [...,3,3], got [3,4]"),
    ({"intrinsics": zeros(3)}, ValueError, "intrinsics: expected [...,3,3], got [3]"),
    ({"intrinsics": zeros(3, 3, dtype=torch.int64)}, TypeError,
     f"intrinsics: expected {FLOAT_TYPES}, got int64"),
    ({"intrinsics": torch.empty(3, 3, device="meta")}, ValueError,
     "intrinsics: expected device cpu like depth, got meta"),
    ({"pose": np.eye(4)}, TypeError, "pose: expected a torch.Tensor, got ndarray"),
    ({"pose": zeros(3, 4)}, ValueError, "pose: expected [...,4,4], got [3,4]"),
    ({"pose": zeros(4, 4, dtype=torch.int32)}, TypeError,
     f"pose: expected {FLOAT_TYPES}, got int32"),
    ({"depth": zeros(2, 4, 5), "intrinsics": zeros(3, 3, 3), "pose": zeros(4, 4)}, ValueError,
     "depth: expected leading dimensions that broadcast with the others', got [2] of depth, "
     "[3] of intrinsics, [] of pose"),
    ({"depth_scale": 0}, ValueError, "depth_scale: expected a positive finite number, got 0"),
    ({"depth_scale": math.nan}, ValueError,
     "depth_scale: expected a positive finite number, got nan"),
    ({"depth_scale": 10**400}, ValueError,
     "depth_scale: expected a positive finite number, got a number of 401 digits"),
    ({"depth_scale": "mm"}, TypeError, "depth_scale: expected a number, got str"),
    ({"depth_scale": True}, TypeError, "depth_scale: expected a number, got bool"),
]
# fmt: on


@pytest.mark.parametrize(
    ("changes", "error", "message"), ERRORS, ids=[message for _, _, message in ERRORS]
)
def test_errors(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    arguments: dict[str, Any] = {"depth": zeros(4, 5), "intrinsics": camera()} | changes
    with pytest.raises(error) as raised:
        rc.unproject(**arguments)
    assert type(raised.value) is error and str(raised.value) == message
