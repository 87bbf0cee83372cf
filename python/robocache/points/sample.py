"""The public function that samples point clouds."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
import torch
from torch import Tensor

from robocache.core import backends, config
from robocache.core.arrays import ArrayT, call_with_arrays
from robocache.core.checks import check_bool, check_integer
from robocache.core.names import Backend
from robocache.core.tensor_checks import check_type
from robocache.points import ops, pytorch
from robocache.points.checks import check_sampling
from robocache.voxel.checks import validated


@overload
def sample_farthest(
    points: ArrayT,
    n: int,
    *,
    offsets: ArrayT | None = ...,
    start: int = ...,
    return_points: Literal[False] = ...,
    backend: Backend = ...,
) -> ArrayT: ...
@overload
def sample_farthest(
    points: ArrayT,
    n: int,
    *,
    offsets: ArrayT | None = ...,
    start: int = ...,
    return_points: Literal[True],
    backend: Backend = ...,
) -> tuple[ArrayT, ArrayT]: ...
@overload
def sample_farthest(
    points: ArrayT,
    n: int,
    *,
    offsets: ArrayT | None = ...,
    start: int = ...,
    return_points: bool,
    backend: Backend = ...,
) -> ArrayT | tuple[ArrayT, ArrayT]: ...
def sample_farthest(
    points: ArrayT,
    n: int,
    *,
    offsets: ArrayT | None = None,
    start: int = 0,
    return_points: bool = False,
    backend: Backend = "auto",
) -> ArrayT | tuple[ArrayT, ArrayT]:
    """Samples points of each cloud by farthest-point sampling.

    The first sample is the point `start`; each next one is the point whose distance to the nearest
    earlier sample is the largest. B clouds with N points each, or P points in total. All tensors
    are on the device of `points`.

    The squared distance is ``dx*dx + dy*dy + dz*dz``, each operation rounded to float32, or to
    float64 for points of float64; of points at equal distance, the one of the lowest index is the
    sample. All backends give the same indices in every run. NaN and infinite points are never
    samples. A cloud with fewer than n different points gives all of them, and then repeats its
    finite point of the lowest index.

    Pass all arrays as tensors, or all as NumPy arrays; the results are of the same kind.

    Args:
        points: The coordinates x, y, z: [B,N,3], clouds of equal size; or [P,3], one cloud, or
            several with `offsets`. float16, bfloat16, float32 or float64. Any strides.
        n: The number of samples of each cloud, at least 1.
        offsets: [B+1], int64 or int32, with points [P,3]: cloud b has the points offsets[b] to
            offsets[b+1] - 1. Offsets start at 0, do not descend, and end at P.
        start: The index of the first sample within its cloud. In a cloud that has no such point
            (possible with offsets), or where it is NaN or infinite, the first sample is the finite
            point of the lowest index.
        return_points: Whether to return the samples' coordinates as well. Gradients flow through
            them to `points`.
        backend: ``"cuda"`` or ``"cpu"``, compiled kernels for tensors on that device;
            ``"pytorch"``, plain torch on any device; ``"auto"``, the backend that
            :class:`robocache.config` sets, by default the compiled kernels where they are usable.

    Returns:
        The indices of the samples, [B,n] int64, or [n] for a single cloud (points [P,3] without
        offsets). They count within the cloud for points [B,N,3], and are rows of `points` for
        [P,3], also with offsets. -1 throughout for a cloud without finite points. With
        `return_points` a tuple of the indices and the points, [B,n,3] or [n,3] of the points'
        dtype; zeros where the index is -1.

    Raises:
        ValueError: For an invalid shape, device, name or number; for a backend that cannot run on
            the device. On the cpu backend, and on the others under ``config(validate=True)``, for
            offsets that do not start at 0, descend, or do not end at P.
        TypeError: For an argument of a wrong type, and for a dtype that is not listed above.
        torch.OutOfMemoryError: If the result does not fit in the memory of the device.
        RuntimeError: If a kernel launch fails, for example after a fault in another kernel.

    Example:
        >>> import torch, robocache as rc
        >>> points = torch.tensor([[0.0, 0, 0], [0.1, 0, 0], [5, 0, 0], [2, 0, 0]])
        >>> rc.sample_farthest(points, 3)
        tensor([0, 2, 3])
        >>> indices, samples = rc.sample_farthest(points, 2, start=1, return_points=True)
        >>> samples
        tensor([[0.1000, 0.0000, 0.0000],
                [5.0000, 0.0000, 0.0000]])
    """
    if isinstance(points, np.ndarray):
        arrays: ArrayT | tuple[ArrayT, ArrayT] = call_with_arrays(sample_farthest, locals())
        return arrays
    check_type("points", points)
    if offsets is not None:
        check_type("offsets", offsets)
    if type(n) is not int or n < 1:  # a symbolic size of torch.compile is neither
        n = check_integer("n", n, 1)
    if type(start) is not int or start < 0:
        start = check_integer("start", start, 0)
    if type(return_points) is not bool:
        check_bool("return_points", return_points)
    values = points.detach() if points.requires_grad else points  # indices have no gradient
    is_native = backends.is_native("sample_farthest", backend, values, "points")
    if offsets is not None and config.validate and not (is_native and points.is_cpu):
        check_sampling(values, offsets, start)
        offsets = validated(offsets, values)  # the cpu backend always does
    sample = ops.sample_farthest if is_native else pytorch.sample_farthest
    indices = sample(values, offsets, n, start)
    return (indices, _points_at(points, indices)) if return_points else indices


def _points_at(points: Tensor, indices: Tensor) -> Tensor:
    """The points at indices, [B,n,3] or [n,3]; zeros where an index is -1."""
    if points.size(-2) == 0:
        return points.new_zeros((*indices.shape, 3))
    at = indices.clamp(min=0).unsqueeze(-1)
    if points.dim() == 3:
        samples = points.gather(1, at.expand(-1, -1, 3))
    else:
        samples = points[at.squeeze(-1)]
    return torch.where(indices.unsqueeze(-1) >= 0, samples, torch.zeros_like(samples))
