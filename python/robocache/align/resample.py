"""Resampling of one stream: the public function."""

from __future__ import annotations

from typing import Literal, overload

import numpy as np
import torch
from torch import Tensor

from robocache.align import copied_streams, ops
from robocache.align import options as _options
from robocache.align.call import refuse_type
from robocache.core import backends, dtypes
from robocache.core.arrays import ArrayT, of_arrays
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
    """Values with their own timestamps in, values on a requested timeline out.

    B episodes, S source rows, T targets, D channels. What is given without B is shared by the
    batch; the result has no B only if nothing has. All tensors are on the device of `data`.

    Times are int64 nanoseconds, or float32 or float64 seconds; source and target times are both
    integer or both floating. Durations (`max_gap`, `tolerance`, `mean_window`) have the unit of the
    times: an int of nanoseconds for int64 times, a number of seconds for floating ones.

    NumPy arrays in, NumPy arrays out: all arrays of a call are tensors, or all are NumPy's.

    Args:
        data: The values, [B,S,D] or [S,D]; float16, bfloat16, float32, float64 or uint8; with
            methods ``"previous"`` and ``"nearest"`` also bool and any other integer dtype, whose
            rows are copied exactly. Any strides. Gradients flow to it. NaN and infinity in it are
            data.
        source_times: When each row was recorded, [B,S] or [S]. Ascending in each episode; equal
            neighbors are allowed.
        target_times: The requested timeline, [B,T] or [T], in any order. A NaN target gives NaN
            (0 where the result is of integers or bool) and is not valid.
        method: How the rows around a target combine, where `lo` is the last row at or before it.

            - ``"linear"``: between `lo` and the row after it.
            - ``"previous"``: row `lo`.
            - ``"nearest"``: the closer of the two rows; a tie takes the earlier.
            - ``"slerp_xyzw"``, ``"slerp_wxyz"``: unit quaternions, 4 channels, on the shortest
              path, normalized. A zero quaternion gives zeros and is not valid.
            - ``"angle"``: radians, the short way round; the result lies in (-pi, pi].
            - ``"mean"``: the mean of the valid rows within half of `mean_window` of the target,
              both ends included; as ``"linear"`` where there is none.
            - ``"sum"``: the sum of the rows after the previous target, up to this one; the first
              target's from the first row on. Rows that are not valid are left out and clear the
              mask. Targets must ascend.
            - A list of (name, channels) pairs that sum to D, where channels differ:
              ``[("linear", 7), ("slerp_xyzw", 4), ("previous", 1)]``.

            A row whose time equals the target's is the answer alone, except in means and sums.
        outside: What a target before the first or after the last row becomes: ``"hold"`` that row,
            ``"zero"`` or ``"nan"`` (literally: `subtract` and `multiply` do not apply; no NaN in
            integers and bool), or ``"extrapolate"`` (linear runs go on along the two rows at that
            end, others hold). It is not valid in any case.
        max_gap: Targets made from rows farther apart than this (linear, slerp, angle) or from a row
            farther away than this (previous, nearest) are not valid. None: no limit. Means and sums
            of rows have none.
        tolerance: A row this close to a target, the nearest such, is the answer alone, even just
            outside the recording and across a gap. Means and sums know no tolerance.
        mean_window: The length of the window of method ``"mean"``, which needs one; an error
            without it.
        source_lengths: How many rows each episode has, [B] or []; int64 or int32, in [0,S]. Rows
            past it do not exist. An empty episode gives zeros, not valid.
        source_valid: Which rows are real, [B,S] or [S] bool. Rows that are not still give values,
            and the mask tells.
        subtract: [D], any floating dtype. The result is (x - subtract) * multiply, rounded once.
        multiply: [D], any floating dtype.
        out_dtype: The dtype of the result, float16, bfloat16, float32, float64 or uint8; that of
            `data` by default. uint8 rounds to nearest even and saturates. uint8 data with
            `subtract` or `multiply` need one.
        return_valid: Whether to return the mask as well: True where the target lies within the
            recording, and is made from valid rows within `max_gap`.
        backend: ``"cuda"`` or ``"cpu"``, the library's own for tensors there; ``"pytorch"``, plain
            torch on any device; ``"auto"``, as :class:`robocache.config` says, and without that the
            library's own where it can be used.

    Returns:
        The values, [B,T,D] or [T,D], contiguous; with `return_valid` a tuple of them and the mask,
        [B,T] or [T] bool.

    Raises:
        ValueError: For a shape, device, name or number that does not fit; for times or scales that
            require grad; for a backend that does not fit the device. On the cpu backend, and on the
            others under ``config(validate=True)``, for source times that do not ascend or are NaN
            and for lengths outside [0,S].
        TypeError: For an argument of a wrong type, and a dtype that is not listed above.
        torch.OutOfMemoryError: If the result does not fit in memory.
        RuntimeError: If the GPU refuses a launch, as after a fault in another kernel.

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
        return of_arrays(resample_trajectories, locals())  # type: ignore[no-any-return]
    # On a GPU a small call costs little more than a launch, so this path is short: packing checks
    # names and numbers, the operator checks shapes and dtypes.
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
    if return_valid is not True and return_valid is not False:
        check_bool("return_valid", return_valid)
    if out_dtype is not None:
        _options.check_out_dtype(out_dtype)
    elif data.dtype == torch.uint8 and (subtract is not None or multiply is not None):
        raise ValueError(
            "out_dtype: expected a dtype with subtract or multiply of uint8 data, got None"
        )
    native = backends.is_native("resample_trajectories", backend, data, "data")
    align = ops.align if data.dtype in dtypes.COMPUTED else copied_streams.align
    call = ((stream,), target_times, outside, out_dtype, return_valid, False, False)
    results = align(native, data.requires_grad, call)
    return (results[0], results[1]) if return_valid else results[0]
