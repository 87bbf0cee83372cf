"""The public function that converts depth images to points."""

from __future__ import annotations

import math
import numbers

import numpy as np
import torch
from torch import Tensor

from robocache.core.arrays import ArrayT, call_with_arrays
from robocache.core.checks import number_text, to_float
from robocache.core.tensor_checks import (
    FLOATS,
    check_dense,
    check_device,
    check_type,
    refuse_dtype,
    refuse_shape,
    shape_text,
)

_DEPTHS = (torch.uint16, torch.int16, torch.int32, *FLOATS)


def unproject(
    depth: ArrayT,
    intrinsics: ArrayT,
    pose: ArrayT | None = None,
    *,
    depth_scale: float = 1.0,
) -> ArrayT:
    """Converts depth images to points, one for each pixel.

    The pixel in row v and column u, both counted from 0, with depth z becomes, as in OpenCV, ROS
    and Open3D, the point

        ``((u - cx) / fx * z, (v - cy) / fy * z, z)``

    in the frame of the camera: x to the right, y down, z forward. The center of a pixel has integer
    coordinates. z is the distance along the optical axis, as depth cameras give it, not along the
    ray. With `pose`, points are in the world's frame.

    It is elementwise arithmetic of plain torch, on any device: ``torch.compile`` makes one kernel
    of it. Gradients flow to depth, intrinsics and pose. A pixel without a measurement (zero,
    negative, NaN or infinite depth) gives NaN, with zero gradients: voxelization drops and counts
    such points, and :func:`sample_farthest` never chooses them.

    Pass all arrays as tensors, or all as NumPy arrays; the result is of the same kind.

    Args:
        depth: [...,H,W]; uint16, int16, int32, float16, bfloat16, float32 or float64. Any strides.
        intrinsics: [...,3,3], floating: the camera matrix ``[[fx, 0, cx], [0, fy, cy], [0, 0, 1]]``
            in pixels. Its other elements are not read: rectify images of cameras with skew or
            distortion first.
        pose: [...,4,4], floating: the pose of the camera in the world, the transform from camera
            to world coordinates. Its last row is not read. None: points stay in the camera's frame.
        depth_scale: The unit of depth in that of the points: 0.001 for millimeters, the unit of
            most depth cameras' uint16.

    Returns:
        The points, [...,H*W,3], row by row. float64 if the depth is float64, else float32; other
        arguments are converted to it. The leading dimensions are those of the arguments, broadcast.

    Raises:
        ValueError: For an invalid shape, device or number.
        TypeError: For an argument of a wrong type, and for a dtype that is not listed above.

    Example:
        >>> import torch, robocache as rc
        >>> depth = torch.tensor([[1000, 0], [2000, 4000]], dtype=torch.uint16)  # millimeters
        >>> intrinsics = torch.tensor([[2.0, 0.0, 0.5], [0.0, 2.0, 0.5], [0.0, 0.0, 1.0]])
        >>> rc.unproject(depth, intrinsics, depth_scale=0.001)
        tensor([[-0.2500, -0.2500,  1.0000],
                [    nan,     nan,     nan],
                [-0.5000,  0.5000,  2.0000],
                [ 1.0000,  1.0000,  4.0000]])
    """
    if isinstance(depth, np.ndarray):
        arrays: ArrayT = call_with_arrays(unproject, locals())
        return arrays
    _check(depth, intrinsics, pose)
    scale = _check_scale(depth_scale)
    compute = torch.float64 if depth.dtype == torch.float64 else torch.float32
    height, width = depth.shape[-2:]
    camera = intrinsics.to(compute)
    fx, fy, cx, cy = (camera[..., i, j, None] for i, j in ((0, 0), (1, 1), (0, 2), (1, 2)))
    z = depth.to(compute) * scale
    measured = (z > 0) & (z < math.inf)
    # Arithmetic with NaN would make gradients of pose and intrinsics NaN.
    z = torch.where(measured, z, 0.0)
    right = (torch.arange(width, dtype=compute, device=depth.device) - cx) / fx
    down = (torch.arange(height, dtype=compute, device=depth.device) - cy) / fy
    axes = torch.broadcast_tensors(right.unsqueeze(-2) * z, down.unsqueeze(-1) * z, z)
    if pose is not None:
        # Not a matrix product, which torch may compute in TF32.
        rows = pose.to(compute)[..., :3, :, None, None].unbind(-4)
        axes = tuple(
            row[..., 0, :, :] * axes[0]
            + row[..., 1, :, :] * axes[1]
            + row[..., 2, :, :] * axes[2]
            + row[..., 3, :, :]
            for row in rows
        )
    points = torch.where(measured.unsqueeze(-1), torch.stack(axes, -1), math.nan)
    return points.flatten(-3, -2)


def _check(depth: Tensor, intrinsics: Tensor, pose: Tensor | None) -> None:
    """Checks types, shapes, dtypes and devices."""
    check_type("depth", depth)
    check_dense("depth", depth)
    if depth.dtype not in _DEPTHS:
        refuse_dtype("depth", "uint16, int16, int32, float16, bfloat16, float32 or float64", depth)
    if depth.dim() < 2:
        refuse_shape("depth", "[...,H,W]", depth)
    leading = {"depth": depth.shape[:-2]}
    matrices = [("intrinsics", intrinsics, 3)]
    if pose is not None:
        matrices.append(("pose", pose, 4))
    for name, matrix, size in matrices:
        check_type(name, matrix)
        check_dense(name, matrix)
        if matrix.dtype not in FLOATS:
            refuse_dtype(name, "float16, bfloat16, float32 or float64", matrix)
        if matrix.dim() < 2 or matrix.shape[-2:] != (size, size):
            refuse_shape(name, f"[...,{size},{size}]", matrix)
        check_device(name, matrix, depth, "depth")
        leading[name] = matrix.shape[:-2]
    try:
        torch.broadcast_shapes(*leading.values())
    except RuntimeError:
        got = ", ".join(f"{shape_text(shape)} of {name}" for name, shape in leading.items())
        raise ValueError(
            f"depth: expected leading dimensions that broadcast with the others', got {got}"
        ) from None


def _check_scale(depth_scale: object) -> float:
    if isinstance(depth_scale, bool) or not isinstance(depth_scale, numbers.Real):
        raise TypeError(f"depth_scale: expected a number, got {type(depth_scale).__name__}")
    scale = to_float(depth_scale)
    if not 0 < scale < math.inf:
        raise ValueError(
            f"depth_scale: expected a positive finite number, got {number_text(depth_scale)}"
        )
    return scale
