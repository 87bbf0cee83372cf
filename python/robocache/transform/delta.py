"""The public functions that convert values to deltas or relative values, and back."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from robocache.core import backends
from robocache.core.arrays import ArrayT, call_with_arrays
from robocache.core.names import Backend
from robocache.transform import ops, pytorch
from robocache.transform.checks import (
    as_before,
    as_rows,
    as_windows,
    check_mask,
    check_shared,
    check_steps,
    check_timing,
)


def delta_to_absolute(
    deltas: ArrayT,
    start: ArrayT,
    *,
    time_step: float | None = None,
    times: ArrayT | None = None,
    backend: Backend = "auto",
) -> ArrayT:
    """Accumulates deltas or velocities, from a start.

    Row k is row k - 1 plus delta k, where row -1 is the start; additions are in this order. With
    `time_step` or `times`, `deltas` are velocities: each is multiplied by the duration of its step,
    in seconds.

    Pass all arrays as tensors, or all as NumPy arrays; the results are of the same kind.

    Args:
        deltas: [...,K,D], K steps of D channels for each window; float16, bfloat16, float32 or
            float64. Any strides. Gradients flow to it.
        start: [...,D], the start of each window, or [D], one for all; of the dtype of `deltas`.
            Gradients flow to it.
        time_step: The duration of a step, in seconds.
        times: The time of the start, then that of each row, [...,K+1] or [K+1], in place of
            `time_step`; int64 nanoseconds, or float32 or float64 seconds. Differences are computed
            in this dtype.
        backend: ``"cuda"`` or ``"cpu"``, compiled kernels for tensors on that device;
            ``"pytorch"``, plain torch on any device; ``"auto"``, the backend that
            :class:`robocache.config` sets, by default the compiled kernels where they are usable.

    Returns:
        [...,K,D], of the dtype of `deltas`; computed in float64 for float64, else in float32, and
        rounded once. cuda and cpu return the same bits; the order of pytorch's additions is
        unspecified.

    Raises:
        ValueError: For an invalid shape, device, number or backend; for times that require grad.
        TypeError: For an argument of a wrong type or dtype.

    Example:
        >>> import torch, robocache as rc
        >>> deltas = torch.tensor([[1.0], [2.0], [-4.0]])
        >>> rc.delta_to_absolute(deltas, torch.tensor([10.0])).flatten()
        tensor([11., 13.,  9.])
        >>> rc.delta_to_absolute(deltas, torch.tensor([10.0]), time_step=0.5).flatten()
        tensor([10.5000, 11.5000,  9.5000])
    """
    if isinstance(deltas, np.ndarray):
        array: ArrayT = call_with_arrays(delta_to_absolute, locals())
        return array
    return _convert("delta_to_absolute", "deltas", deltas, start, time_step, times, False, backend)


def absolute_to_delta(
    values: ArrayT,
    start: ArrayT,
    *,
    time_step: float | None = None,
    times: ArrayT | None = None,
    backend: Backend = "auto",
) -> ArrayT:
    """Computes the deltas or velocities between rows: the inverse of :func:`delta_to_absolute`.

    Delta k is row k minus row k - 1, where row -1 is the start. With `time_step` or `times` it is
    divided by the duration of the step, in seconds: equal times result in infinity or NaN.

    Pass all arrays as tensors, or all as NumPy arrays; the results are of the same kind.

    Args:
        values: [...,K,D], as the result of :func:`delta_to_absolute`. Gradients flow to it.
        start: [...,D] or [D], of the dtype of `values`. Gradients flow to it.
        time_step: The duration of a step, in seconds.
        times: The time of the start, then that of each row, [...,K+1] or [K+1], in place of
            `time_step`.
        backend: As in :func:`delta_to_absolute`.

    Returns:
        [...,K,D], of the dtype of `values`. All backends return the same bits.

    Raises:
        ValueError: For an invalid shape, device, number or backend; for times that require grad.
        TypeError: For an argument of a wrong type or dtype.

    Example:
        >>> import torch, robocache as rc
        >>> rc.absolute_to_delta(torch.tensor([[11.0], [13.0]]), torch.tensor([10.0])).flatten()
        tensor([1., 2.])
    """
    if isinstance(values, np.ndarray):
        array: ArrayT = call_with_arrays(absolute_to_delta, locals())
        return array
    return _convert("absolute_to_delta", "values", values, start, time_step, times, True, backend)


def relative_to(x: ArrayT, reference: ArrayT, mask: ArrayT | None = None) -> ArrayT:
    """Subtracts a reference from values, as ``Loader(relative=...)`` does within its one launch.

    Computed by plain torch, with the same bits on every device.

    Pass all arrays as tensors, or all as NumPy arrays; the results are of the same kind.

    Args:
        x: [...,K,D], K steps of D channels; float16, bfloat16, float32 or float64. Gradients flow
            to it.
        reference: [...,D], one for each window, or [D], one for all; of the dtype of `x`. Gradients
            flow to it.
        mask: [D] bool: the channels to subtract from; the others are unchanged. None: all.

    Returns:
        [...,K,D], of the dtype of `x`.

    Raises:
        ValueError: For an invalid shape or device.
        TypeError: For an argument of a wrong type or dtype.

    Example:
        >>> import torch, robocache as rc
        >>> actions, state = torch.tensor([[1.0, 5.0], [2.0, 6.0]]), torch.tensor([1.0, 4.0])
        >>> rc.relative_to(actions, state, torch.tensor([True, False]))
        tensor([[0., 5.],
                [1., 6.]])
    """
    if isinstance(x, np.ndarray):
        array: ArrayT = call_with_arrays(relative_to, locals())
        return array
    return x - _subtrahend(x, reference, mask)


def absolute_from(x: ArrayT, reference: ArrayT, mask: ArrayT | None = None) -> ArrayT:
    """Adds a reference to relative values: the inverse of :func:`relative_to`.

    Pass all arrays as tensors, or all as NumPy arrays; the results are of the same kind.

    Args:
        x: [...,K,D], relative to the reference in the channels of the mask.
        reference: [...,D] or [D], of the dtype of `x`.
        mask: [D] bool: which channels are relative. None: all.

    Returns:
        [...,K,D], of the dtype of `x`.

    Raises:
        ValueError: For an invalid shape or device.
        TypeError: For an argument of a wrong type or dtype.

    Example:
        >>> import torch, robocache as rc
        >>> rc.absolute_from(torch.tensor([[0.0], [1.0]]), torch.tensor([4.0])).flatten()
        tensor([4., 5.])
    """
    if isinstance(x, np.ndarray):
        array: ArrayT = call_with_arrays(absolute_from, locals())
        return array
    return x + _subtrahend(x, reference, mask)


def _subtrahend(x: Tensor, reference: Tensor, mask: Tensor | None) -> Tensor:
    """The reference, [...,1,D]; 0 in channels outside of the mask, even where it is NaN there."""
    check_steps("x", x)
    check_shared("reference", reference, x, "x", f"D={x.size(-1)}")
    check_mask(mask, x, "x")
    if mask is not None:
        reference = torch.where(mask, reference, 0.0)
    return reference.unsqueeze(-2)


def _convert(
    operation: str,
    name: str,
    x: Tensor,
    start: Tensor,
    time_step: float | None,
    times: Tensor | None,
    inverse: bool,
    backend: Backend,
) -> Tensor:
    check_steps(name, x)
    check_shared("start", start, x, name, f"D={x.size(-1)}")
    duration = check_timing(time_step, times, x, name)
    windows = as_windows(x)
    starts = as_rows(start, windows.size(0))
    if times is not None and times.dim() > 1:
        times = as_rows(times, windows.size(0))
    is_native = backends.is_native(operation, backend, x, name, start)
    call = ops.convert_delta if is_native else pytorch.convert_delta
    return as_before(call(windows, starts, times, duration, inverse), x.shape[:-2])
