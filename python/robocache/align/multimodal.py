"""The public function `fuse_multimodal`, which aligns three streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from robocache.align.call import MODALITIES, argument_name
from robocache.align.fuse import Stream, fuse_tensors, numpy_dtype
from robocache.core.arrays import ArrayT, call_with_arrays
from robocache.core.names import Backend, Method, Outside


def fuse_multimodal(
    vision: ArrayT,
    vision_times: ArrayT,
    proprio: ArrayT,
    proprio_times: ArrayT,
    force: ArrayT,
    force_times: ArrayT,
    target_times: ArrayT,
    *,
    method: Method | Sequence[Method] = "linear",
    max_gap: float | Sequence[float | None] | None = None,
    tolerance: float | Sequence[float] = 0,
    mean_window: float | Sequence[float | None] | None = None,
    lengths: ArrayT | Sequence[ArrayT | None] | None = None,
    valid: ArrayT | Sequence[ArrayT | None] | None = None,
    subtract: ArrayT | Sequence[ArrayT | None] | None = None,
    multiply: ArrayT | Sequence[ArrayT | None] | None = None,
    clock_offset: float | Sequence[float] = 0,
    outside: Outside = "hold",
    out_dtype: torch.dtype | None = None,
    return_valid: bool = False,
    return_age: bool = False,
    backend: Backend = "auto",
) -> ArrayT | tuple[ArrayT, ...]:
    """Aligns three streams as :func:`fuse` does: vision, proprioception and force, in this order.

    Each option of :class:`Stream` is one value for all three streams, or a list or tuple of three
    values. A list of (name, channels) pairs is one value of `method`.

    Pass all arrays as tensors, or all as NumPy arrays; the results are of the same kind.

    Args:
        vision: Values of the first stream, [B,S,D] or [S,D], as in :class:`Stream`. S and D may
            differ between the streams.
        vision_times: [B,S] or [S].
        proprio: Values of the second stream.
        proprio_times: [B,S] or [S].
        force: Values of the third stream.
        force_times: [B,S] or [S].
        target_times: The requested timeline, [B,T] or [T].
        method: As in :class:`Stream`, or three of them.
        max_gap: As in :class:`Stream`, or three of them.
        tolerance: As in :class:`Stream`, or three of them.
        mean_window: As in :class:`Stream`, or three of them. A single value applies to the streams
            whose method has a mean.
        lengths: As in :class:`Stream`, or three of them.
        valid: As in :class:`Stream`, or three of them.
        subtract: As in :class:`Stream`, or three of them.
        multiply: As in :class:`Stream`, or three of them.
        clock_offset: As in :class:`Stream`, or three of them.
        outside: As in :func:`fuse`.
        out_dtype: As in :func:`fuse`.
        return_valid: As in :func:`fuse`.
        return_age: As in :func:`fuse`.
        backend: As in :func:`fuse`.

    Returns:
        As :func:`fuse`: the values, [B,T,sum of D] or [T,sum of D], and if requested the mask and
        the age, [B,T,3] or [T,3].

    Raises:
        ValueError: As :func:`fuse`, and for a list of options whose length is not three.
        TypeError: As :func:`fuse`.
        torch.OutOfMemoryError: If the result does not fit in memory.
        RuntimeError: If a kernel launch fails, for example after a fault in another kernel.

    Example:
        >>> import torch, robocache as rc
        >>> MS = 1_000_000
        >>> frames, joints, force = torch.randn(3, 64), torch.randn(10, 7), torch.randn(100, 6)
        >>> out = rc.fuse_multimodal(
        ...     frames, torch.arange(3) * 33 * MS,
        ...     joints, torch.arange(10) * 10 * MS,
        ...     force, torch.arange(100) * MS,
        ...     torch.arange(0, 80, 20) * MS,
        ...     method=["nearest", "linear", "mean"],
        ...     mean_window=20 * MS,
        ... )
        >>> out.shape
        torch.Size([4, 77])
    """
    methods = _three("method", _one_layout(method))
    max_gaps = _three("max_gap", max_gap)
    tolerances = _three("tolerance", tolerance)
    windows = _three("mean_window", mean_window)
    if not isinstance(mean_window, (list, tuple)) and any(map(_has_mean, methods)):
        windows = [mean_window if _has_mean(method) else None for method in methods]
    all_lengths = _three("lengths", lengths)
    masks = _three("valid", valid)
    subtracts = _three("subtract", subtract)
    multiplies = _three("multiply", multiply)
    offsets = _three("clock_offset", clock_offset)
    streams = [
        Stream(
            values,
            times,
            method=methods[i],
            max_gap=max_gaps[i],
            tolerance=tolerances[i],
            mean_window=windows[i],
            lengths=all_lengths[i],
            valid=masks[i],
            subtract=subtracts[i],
            multiply=multiplies[i],
            clock_offset=offsets[i],
        )
        for i, (values, times) in enumerate(
            ((vision, vision_times), (proprio, proprio_times), (force, force_times))
        )
    ]
    arguments: dict[str, Any] = {
        "streams": streams,
        "prefixes": MODALITIES,
        "target_times": target_times,
        "outside": outside,
        "out_dtype": out_dtype,
        "return_valid": return_valid,
        "return_age": return_age,
        "backend": backend,
    }
    if isinstance(target_times, np.ndarray):
        arguments["out_dtype"] = out_dtype or numpy_dtype(streams)
        arrays: ArrayT | tuple[ArrayT, ...] = call_with_arrays(
            fuse_tensors, arguments, lambda i, part: argument_name(MODALITIES[i], part)
        )
        return arrays
    return fuse_tensors(**arguments)


def _one_layout(method: Any) -> Any:
    """Repeats a layout, one value, three times; returns all other methods unchanged."""
    if isinstance(method, (list, tuple)) and all(
        isinstance(run, (list, tuple)) and len(run) == 2 and isinstance(run[0], str)
        for run in method
    ):
        return (method,) * 3
    return method


def _has_mean(method: Any) -> bool:
    runs = method if isinstance(method, (list, tuple)) else [(method,)]
    return any(isinstance(run, (list, tuple)) and "mean" in run[:1] for run in runs)


def _three(name: str, option: Any) -> Any:
    """The option's value for each stream."""
    if not isinstance(option, (list, tuple)):
        return (option,) * 3
    if len(option) != 3:
        raise ValueError(f"{name}: expected one value or 3, got {len(option)}")
    return option
