"""The public functions that voxelize point clouds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, overload

import numpy as np
import torch
from torch import Tensor

from robocache.core import backends, config, dtypes, tensor_checks
from robocache.core.arrays import ArrayT, call_with_arrays
from robocache.core.checks import check_bool
from robocache.core.display import short_repr
from robocache.core.names import Backend, Reduction, VoxelMode
from robocache.voxel import checks, ops, pytorch
from robocache.voxel import options as _voxel_options
from robocache.voxel.options import Array

# A module variable, since every call needs it and attribute look-ups take time
_is_compiling = torch.compiler.is_compiling


class SparseVoxels(NamedTuple):
    """The voxels that contain points, as :func:`voxelize_sparse` returns them.

    V voxels of B clouds and P points, sorted by (cloud, x, y, z). All tensors are contiguous and on
    the device of the points. To load them from a file by :func:`torch.load`, first register the
    class: ``torch.serialization.add_safe_globals([robocache.SparseVoxels])``.
    """

    coordinates: Tensor
    """[V,3] int32: the cell (x, y, z) of each voxel, counted from the origin; may be negative."""
    counts: Tensor
    """[V] int32: the number of points in each voxel, 1 or more."""
    features: Tensor | None
    """[V,C], of the features' dtype: the reduced features of each voxel's points; None if the call
    had no features."""
    point_to_voxel: Tensor
    """[B,N] or [P] int64: the voxel of each point, -1 for a dropped point."""
    offsets: Tensor
    """[B+1] int64, [2] for a single cloud: cloud b's voxels are offsets[b] to offsets[b+1] - 1."""
    dropped: Tensor
    """[B] int64, [] for a single cloud: the number of dropped points."""

    def __repr__(self) -> str:
        return short_repr(self)


@overload
def voxelize_point_cloud(
    points: ArrayT,
    grid_size: Sequence[int] | Array = ...,
    voxel_size: float | Sequence[float] | Array = ...,
    *,
    origin: Sequence[float] | Array | None = ...,
    mode: VoxelMode = ...,
    features: ArrayT | None = ...,
    offsets: ArrayT | None = ...,
    out_dtype: torch.dtype | None = ...,
    return_dropped: Literal[False] = ...,
    backend: Backend = ...,
) -> ArrayT: ...
@overload
def voxelize_point_cloud(
    points: ArrayT,
    grid_size: Sequence[int] | Array = ...,
    voxel_size: float | Sequence[float] | Array = ...,
    *,
    origin: Sequence[float] | Array | None = ...,
    mode: VoxelMode = ...,
    features: ArrayT | None = ...,
    offsets: ArrayT | None = ...,
    out_dtype: torch.dtype | None = ...,
    return_dropped: Literal[True],
    backend: Backend = ...,
) -> tuple[ArrayT, ArrayT]: ...
@overload
def voxelize_point_cloud(
    points: ArrayT,
    grid_size: Sequence[int] | Array = ...,
    voxel_size: float | Sequence[float] | Array = ...,
    *,
    origin: Sequence[float] | Array | None = ...,
    mode: VoxelMode = ...,
    features: ArrayT | None = ...,
    offsets: ArrayT | None = ...,
    out_dtype: torch.dtype | None = ...,
    return_dropped: bool,
    backend: Backend = ...,
) -> ArrayT | tuple[ArrayT, ArrayT]: ...
def voxelize_point_cloud(
    points: ArrayT,
    grid_size: Sequence[int] | Array = (128, 128, 128),
    voxel_size: float | Sequence[float] | Array = 0.1,
    *,
    origin: Sequence[float] | Array | None = None,
    mode: VoxelMode = "occupancy",
    features: ArrayT | None = None,
    offsets: ArrayT | None = None,
    out_dtype: torch.dtype | None = None,
    return_dropped: bool = False,
    backend: Backend = "auto",
) -> ArrayT | tuple[ArrayT, ArrayT]:
    """Reduces points to the cells of a dense grid.

    B clouds with N points each, or P points in total; C channels of features; X × Y × Z cells. All
    tensors are on the device of `points`.

    The cell of a point is, along each axis, ``floor((p - origin) / voxel_size)``, computed in
    float64 for every dtype of the points: a cell includes its lower faces and excludes its upper
    ones. All backends use exactly this formula, also far from the origin. Points that are NaN,
    infinite or outside the grid are dropped and counted.

    Pass all arrays as tensors, or all as NumPy arrays; the results are of the same kind.

    Args:
        points: The coordinates x, y, z: [B,N,3], clouds of equal size; or [P,3], one cloud, or
            several with `offsets`. float16, bfloat16, float32 or float64. Any strides.
        grid_size: X, Y and Z, each at least 1. `grid_size`, `voxel_size` and `origin` are numbers,
            NumPy arrays or tensors on the CPU.
        voxel_size: The size of a cell, in the unit of the points: one number or three.
        origin: The lowest corner of the grid. None: ``-(grid_size * voxel_size) / 2``, which
            centers the grid on zero.
        mode: The value of a cell; 0 where it has no point.

            - ``"occupancy"``: 1 if it has a point.
            - ``"count"``: the number of its points.
            - ``"mean"``, ``"sum"``, ``"max"``, ``"min"``: this reduction of its points' features,
              per channel. Max and min are NaN if a feature is.
        features: [B,N,C] or [P,C] like the points; float16, bfloat16, float32, float64 or uint8,
            any strides. Required by the last four modes, and None for the others. Gradients flow
            to them; that of a maximum or minimum to the first point that has it.
        offsets: [B+1], int64 or int32, with points [P,3]: cloud b has the points offsets[b] to
            offsets[b+1] - 1. Offsets start at 0, do not descend, and end at P.
        out_dtype: The dtype of the grid. Occupancy: float32 by default, float16, bfloat16, float64,
            uint8, int32 or bool. Count: int32 by default, int64, float32 or float64. Other modes:
            the features' dtype by default, float16, bfloat16, float32, float64 or uint8 (rounded to
            nearest even, saturating).
        return_dropped: Whether to return the number of dropped points of each cloud as well.
        backend: ``"cuda"`` or ``"cpu"``, compiled kernels for tensors on that device;
            ``"pytorch"``, plain torch on any device; ``"auto"``, the backend that
            :class:`robocache.config` sets, by default the compiled kernels where they are usable.

    Returns:
        The grid, [B,X,Y,Z], or [B,C,X,Y,Z] in a mode with features; without the B for a single
        cloud (points [P,3] without offsets). Contiguous. With `return_dropped` a tuple of the grid
        and the numbers of dropped points, [B] int64, or [].

        The backends cuda and cpu return the same bits in every run: they add the features of a cell
        in the order of the points, in float64 if features or output are float64, else in float32.
        The order of pytorch's additions is unspecified.

    Raises:
        ValueError: For an invalid shape, device, name or number; for features that the mode
            requires or does not take; for points that require grad; for a backend that cannot run
            on the device. On the cpu backend, and on the others under ``config(validate=True)``,
            for offsets that do not start at 0, descend, or do not end at P; without this check,
            points outside all clouds are ignored.
        TypeError: For an argument of a wrong type, and for a dtype that is not listed above.
        torch.OutOfMemoryError: If the grid is larger than the memory of the device, raised before
            any allocation, or does not fit in the free memory.
        RuntimeError: If a kernel launch fails, for example after a fault in another kernel.

    Example:
        >>> import torch, robocache as rc
        >>> points = torch.tensor([[0.05, 0.05, 0.05], [0.07, 0.01, 0.02], [-0.01, 0.0, 0.9]])
        >>> grid, dropped = rc.voxelize_point_cloud(
        ...     points, (2, 2, 2), 0.1, mode="count", return_dropped=True
        ... )
        >>> grid[1, 1, 1], dropped
        (tensor(2, dtype=torch.int32), tensor(1))
        >>> height = points[:, 2:]  # [P,C=1]
        >>> rc.voxelize_point_cloud(points, (1, 1, 2), 0.5, mode="mean", features=height)
        tensor([[[[0.0000, 0.0350]]]])
    """
    if isinstance(points, np.ndarray):
        arrays: ArrayT | tuple[ArrayT, ArrayT] = call_with_arrays(voxelize_point_cloud, locals())
        return arrays
    _check_tensors(points, features, offsets)
    if type(return_dropped) is not bool:
        check_bool("return_dropped", return_dropped)
    code, dtype = _voxel_options.parse_mode(mode, out_dtype)
    sizes = _voxel_options.parse_grid_size(grid_size)
    geometry = _voxel_options.parse_geometry(voxel_size, origin, sizes)
    _voxel_options.check_features(code, features is not None)
    operation = "voxelize_point_cloud"
    is_native = backends.is_native(operation, backend, points, "points", features)
    if not _is_compiling():
        _check_room(points, features, offsets, sizes, code, dtype)
    if offsets is not None and config.validate and not (is_native and points.is_cpu):
        checks.check_grid(points, features, offsets, code, dtype)
        offsets = checks.validated(offsets, points)  # the cpu backend always does
    result: Tensor | tuple[Tensor, Tensor]
    if is_native:
        number = dtypes.number_of(_voxel_options.out_dtype_of(dtype, features))
        arguments = (points, features, offsets, sizes, geometry, code, number)
        operator = ops.voxelize_dropped if return_dropped else ops.voxelize
        result = ops.dense(operator, *arguments)
    elif return_dropped:
        result = pytorch.voxelize_dropped(points, features, offsets, sizes, geometry, code, dtype)
    else:
        result = pytorch.voxelize(points, features, offsets, sizes, geometry, code, dtype)
    return result


def voxelize_sparse(
    points: ArrayT,
    voxel_size: float | Sequence[float] | Array,
    *,
    origin: Sequence[float] | Array = (0, 0, 0),
    features: ArrayT | None = None,
    reduce: Reduction = "mean",
    offsets: ArrayT | None = None,
    backend: Backend = "auto",
) -> SparseVoxels:
    """Reduces points to a list of the voxels that contain points.

    B clouds with N points each, or P points in total; C channels of features; V voxels. Cells are
    computed as in :func:`voxelize_point_cloud`, but the grid is unbounded: only points that are NaN
    or infinite are dropped.

    V depends on the values of the points. A call therefore waits for the device once, and cannot be
    captured in a CUDA graph; ``torch.compile(fullgraph=True)`` traces it with
    ``torch._dynamo.config.capture_dynamic_output_shape_ops = True``.

    Pass all arrays as tensors, or all as NumPy arrays; the results are of the same kind.

    Args:
        points: The coordinates x, y, z: [B,N,3], clouds of equal size; or [P,3], one cloud, or
            several with `offsets`. float16, bfloat16, float32 or float64. Any strides. At most
            2^31 - 1 points.
        voxel_size: The size of a voxel, in the unit of the points: one number or three.
        origin: The lowest corner of voxel (0, 0, 0).
        features: [B,N,C] or [P,C] like the points; float16, bfloat16, float32, float64 or uint8,
            any strides. Gradients flow to them.
        reduce: The reduction of the features of a voxel's points, per channel: ``"mean"``,
            ``"sum"``, ``"max"`` or ``"min"``.
        offsets: [B+1], int64 or int32, with points [P,3]: cloud b has the points offsets[b] to
            offsets[b+1] - 1. Offsets start at 0, do not descend, and end at P.
        backend: As in :func:`voxelize_point_cloud`.

    Returns:
        The voxels. Their coordinates, counts and order are the same on every backend in every run;
        the bits of their features are the same on cuda and cpu, see :func:`voxelize_point_cloud`.

    Raises:
        ValueError: As :func:`voxelize_point_cloud`; and for a voxel whose coordinates do not fit
            int32, and if the number of clouds times the number of cells in the bounding box of all
            points does not fit 63 bits.
        TypeError: For an argument of a wrong type, and for a dtype that is not listed above.
        torch.OutOfMemoryError: If the voxels do not fit in the memory of the device.
        RuntimeError: If a kernel launch fails, for example after a fault in another kernel.

    Example:
        >>> import torch, robocache as rc
        >>> points = torch.tensor([[0.25, 0.0, 0.0], [-0.1, 0.0, 0.0], [0.3, 0.05, 0.0]])
        >>> voxels = rc.voxelize_sparse(points, 0.2, features=points)
        >>> voxels.coordinates
        tensor([[-1,  0,  0],
                [ 1,  0,  0]], dtype=torch.int32)
        >>> voxels.counts, voxels.point_to_voxel
        (tensor([1, 2], dtype=torch.int32), tensor([1, 0, 1]))
        >>> voxels.features
        tensor([[-0.1000,  0.0000,  0.0000],
                [ 0.2750,  0.0250,  0.0000]])
    """
    if isinstance(points, np.ndarray):
        arrays: SparseVoxels = call_with_arrays(voxelize_sparse, locals())
        return arrays
    _check_tensors(points, features, offsets)
    mode = _voxel_options.parse_reduce(reduce)
    if origin is None:
        raise TypeError("origin: expected three numbers, got None")
    geometry = _voxel_options.parse_geometry(voxel_size, origin, ())
    is_native = backends.is_native("voxelize_sparse", backend, points, "points", features)
    if offsets is not None and config.validate and not (is_native and points.is_cpu):
        checks.check_voxels(points, features, offsets)
        offsets = checks.validated(offsets, points)  # the cpu backend always does
    arguments = (points, features, offsets, geometry, mode)
    voxels = ops.sparse(*arguments) if is_native else pytorch.voxelize_sparse(*arguments)
    coordinates, counts, reduced, point_to_voxel, voxel_offsets, dropped = voxels
    return SparseVoxels(
        coordinates,
        counts,
        None if features is None else reduced,
        point_to_voxel,
        voxel_offsets,
        dropped,
    )


# ---- checks ----------------------------------------------------------------------------------


def _check_tensors(points: Tensor, features: Tensor | None, offsets: Tensor | None) -> None:
    """Checks types, and that points require no gradient; the operators check shapes."""
    if not isinstance(points, Tensor):
        tensor_checks.check_type("points", points)
    if features is not None:
        tensor_checks.check_type("features", features)
    if offsets is not None:
        tensor_checks.check_type("offsets", offsets)
    if points.requires_grad:
        tensor_checks.refuse_gradient("points", "features")


def _check_room(
    points: Tensor,
    features: Tensor | None,
    offsets: Tensor | None,
    grid_size: list[int],
    mode: int,
    out_dtype: torch.dtype | None,
) -> None:
    """Checks the shapes of a call with a large grid, and that the grid fits in its device."""
    dtype = _voxel_options.out_dtype_of(out_dtype, features)
    cells = grid_size[0] * grid_size[1] * grid_size[2]
    channels = 1 if features is None or features.dim() == 0 else features.size(-1)
    clouds = points.size(0) if points.dim() == 3 else 1
    if offsets is not None:
        clouds = offsets.numel() - 1
    if cells * max(1, channels) * max(1, clouds) * dtype.itemsize > _voxel_options.SMALL_GRID:
        checks.check_grid(points, features, offsets, mode, out_dtype)
        _voxel_options.check_room(
            grid_size, clouds, None if features is None else channels, dtype, points.device
        )
