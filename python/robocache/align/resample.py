"""The public function `resample_trajectories`, which aligns one stream."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
import torch
from torch import Tensor

from robocache.align import copied_streams, ops
from robocache.align import options as _options
from robocache.align.call import refuse_type
from robocache.core import backends, dtypes
from robocache.core.arrays import ArrayT, call_with_arrays
from robocache.core.checks import check_bool
from robocache.core.names import Backend, Method, Outside


@overload
def resample_trajectories(
    data: ArrayT,
    source_times: ArrayT,
    target_times: ArrayT,
    *,
    method: Method = ...,
    outside: Outside = ...,
    max_gap: float | None = ...,
    tolerance: float = ...,
    mean_window: float | None = ...,
    source_lengths: ArrayT | None = ...,
    source_valid: ArrayT | None = ...,
    subtract: ArrayT | None = ...,
    multiply: ArrayT | None = ...,
    out_dtype: torch.dtype | None = ...,
    return_valid: Literal[False] = ...,
    backend: Backend = ...,
) -> ArrayT: ...
@overload
def resample_trajectories(
    data: ArrayT,
    source_times: ArrayT,
    target_times: ArrayT,
    *,
    method: Method = ...,
    outside: Outside = ...,
    max_gap: float | None = ...,
    tolerance: float = ...,
    mean_window: float | None = ...,
    source_lengths: ArrayT | None = ...,
    source_valid: ArrayT | None = ...,
    subtract: ArrayT | None = ...,
    multiply: ArrayT | None = ...,
    out_dtype: torch.dtype | None = ...,
    return_valid: Literal[True],
    backend: Backend = ...,
) -> tuple[ArrayT, ArrayT]: ...
@overload
def resample_trajectories(
    data: ArrayT,
    source_times: ArrayT,
    target_times: ArrayT,
    *,
    method: Method = ...,
    outside: Outside = ...,
    max_gap: float | None = ...,
    tolerance: float = ...,
    mean_window: float | None = ...,
    source_lengths: ArrayT | None = ...,
    source_valid: ArrayT | None = ...,
    subtract: ArrayT | None = ...,
    multiply: ArrayT | None = ...,
    out_dtype: torch.dtype | None = ...,
    return_valid: bool,
    backend: Backend = ...,
) -> ArrayT | tuple[ArrayT, ArrayT]: ...
def resample_trajectories(
    data: ArrayT,
    source_times: ArrayT,
    target_times: ArrayT,
    *,
    method: Method = "linear",
    outside: Outside = "hold",
    max_gap: float | None = None,
    tolerance: float = 0,
    mean_window: float | None = None,
    source_lengths: ArrayT | None = None,
    source_valid: ArrayT | None = None,
    subtract: ArrayT | None = None,
    multiply: ArrayT | None = None,
    out_dtype: torch.dtype | None = None,
    return_valid: bool = False,
    backend: Backend = "auto",
) -> ArrayT | tuple[ArrayT, ArrayT]:
    """Interpolates rows recorded at `source_times` to `target_times`.

    B episodes, S source rows, T targets, D channels. All episodes share an argument without the
    dimension B; the result has B if any argument has. All tensors are on the device of `data`.

    Times are int64 nanoseconds, or float32 or float64 seconds; source and target times are both
    integer or both floating. Durations (`max_gap`, `tolerance`, `mean_window`) have the unit of the
    times: an int of nanoseconds for int64 times, a number of seconds for floating ones.

    Pass all arrays as tensors, or all as NumPy arrays; the results are of the same kind.

    Args:
        data: The values, [B,S,D] or [S,D]; float16, bfloat16, float32, float64 or uint8; with
            methods ``"previous"`` and ``"nearest"`` also bool and any other integer dtype, whose
            rows are copied exactly. Any strides. Gradients flow to it. NaN and infinity are
            ordinary values.
        source_times: The time of each row, [B,S] or [S]. Ascending in each episode; equal
            neighbors are allowed.
        target_times: The requested timeline, [B,T] or [T], in any order. The result at a NaN target
            is NaN (0 in an integer or bool result) and not valid.
        method: How the rows around a target are combined; `lo` is the last row at or before it.

            - ``"linear"``: interpolation between `lo` and the row after it.
            - ``"previous"``: row `lo`.
            - ``"nearest"``: the closer of the two rows; a tie takes the earlier.
            - ``"slerp_xyzw"``, ``"slerp_wxyz"``: spherical interpolation of unit quaternions (4
              channels) on the shortest path, normalized. A zero quaternion results in zeros, not
              valid.
            - ``"angle"``: radians, interpolated the short way round, wrapped to (-pi, pi].
            - ``"mean"``: the mean of the valid rows within half of `mean_window` of the target,
              both ends included; without such a row, ``"linear"``.
            - ``"sum"``: the sum of the rows after the previous target, up to this one; for the
              first target, of all rows up to it. Rows that are not valid are not added, and make
              the result not valid. Targets must ascend.
            - A list of (name, channels) pairs, one for each run of channels, that sum to D:
              ``[("linear", 7), ("slerp_xyzw", 4), ("previous", 1)]``.

            Where a row's time equals the target's, the result is that row, except for ``"mean"``
            and ``"sum"``.
        outside: The result before the first row and after the last: ``"hold"`` repeats that row;
            ``"zero"`` and ``"nan"`` write these numbers, without `subtract` and `multiply` (no NaN
            in integer and bool results); ``"extrapolate"`` continues linear runs along the two rows
            at that end and holds the others. None of these results is valid.
        max_gap: The longest time between the two rows that a result is computed from (linear,
            slerp, angle), or from the row to the target (previous, nearest); beyond it the result
            is not valid. None: no limit. Does not apply to means and sums of rows.
        tolerance: If a row is at most this far from the target, the result is the nearest such row,
            also just outside the recording and across a gap. Does not apply to means and sums.
        mean_window: The length of the window of method ``"mean"``, which requires one; an error
            for other methods.
        source_lengths: The number of rows of each episode, [B] or []; int64 or int32, in [0,S].
            Rows past it are ignored. An empty episode results in zeros, not valid.
        source_valid: Which rows are valid, [B,S] or [S] bool. Means and sums leave out the others;
            other methods use them, and the result is not valid.
        subtract: [D], any floating dtype. The result is (x - subtract) * multiply, rounded once.
        multiply: [D], any floating dtype.
        out_dtype: The dtype of the result, float16, bfloat16, float32, float64 or uint8; by default
            that of `data`. uint8 rounds to nearest even and saturates. Required for uint8 data with
            `subtract` or `multiply`.
        return_valid: Whether to return the mask as well: True where the target lies within the
            recording and the result is computed from valid rows within `max_gap`.
        backend: ``"cuda"`` or ``"cpu"``, compiled kernels for tensors on that device;
            ``"pytorch"``, plain torch on any device; ``"auto"``, the backend that
            :class:`robocache.config` sets, by default the compiled kernels where they are usable.

    Returns:
        The values, [B,T,D] or [T,D], contiguous; with `return_valid` a tuple of the values and the
        mask, [B,T] or [T] bool.

    Raises:
        ValueError: For an invalid shape, device, name or number; for times or scales that require
            grad; for a backend that cannot run on the device. On the cpu backend, and on the others
            under ``config(validate=True)``, for source times that descend or are NaN and for
            lengths outside [0,S].
        TypeError: For an argument of a wrong type, and for a dtype that is not listed above.
        torch.OutOfMemoryError: If the result does not fit in memory.
        RuntimeError: If a kernel launch fails, for example after a fault in another kernel.

    Example:
        >>> import torch, robocache as rc
        >>> joints = torch.tensor([[0.0, 10.0], [1.0, 20.0], [2.0, 40.0]])  # 100 Hz
        >>> recorded = torch.tensor([0, 10_000_000, 20_000_000])  # ns
        >>> timeline = torch.tensor([5_000_000, 20_000_000, 25_000_000])
        >>> values, valid = rc.resample_trajectories(joints, recorded, timeline, return_valid=True)
        >>> values
        tensor([[ 0.5000, 15.0000],
                [ 2.0000, 40.0000],
                [ 2.0000, 40.0000]])
        >>> valid
        tensor([ True,  True, False])
    """
    if isinstance(data, np.ndarray):
        arrays: ArrayT | tuple[ArrayT, ArrayT] = call_with_arrays(resample_trajectories, locals())
        return arrays
    # A small call on a GPU takes little longer than a kernel launch, so this path is short: packing
    # checks names and numbers, the operator checks shapes and dtypes.
    if not isinstance(data, Tensor):
        refuse_type("", "values", data)
    stream = (
        "",
        data,
        source_times,
        method,
        max_gap,
        tolerance,
        mean_window,
        source_lengths,
        source_valid,
        subtract,
        multiply,
        0,
    )
    if return_valid is not False and return_valid is not True:
        check_bool("return_valid", return_valid)
    if out_dtype is not None:
        _options.check_out_dtype(out_dtype)
    elif (subtract is not None or multiply is not None) and data.dtype == torch.uint8:
        raise ValueError(
            "out_dtype: expected a dtype with subtract or multiply of uint8 data, got None"
        )
    native = backends.is_native("resample_trajectories", backend, data, "data")
    align = ops.align if data.dtype in dtypes.COMPUTED else copied_streams.align
    call = ((stream,), target_times, outside, out_dtype, return_valid, False, False)
    results = align(native, data.requires_grad, call)
    return (results[0], results[1]) if return_valid else results[0]
