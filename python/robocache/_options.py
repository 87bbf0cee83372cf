"""Options as users write them, and as the integers that the operators take.

options    bits 0-3 method, 4-5 outside, 8-11 output dtype, 12-15 values dtype (backward only)
layout     method, width, method, width, ...; None where one method serves all channels
durations  nanoseconds and seconds; the pair that does not fit the times is (-1, 0)
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import NoReturn

import torch

LINEAR, PREVIOUS, NEAREST, SLERP_XYZW, SLERP_WXYZ, ANGLE = range(6)
METHODS = {
    "linear": LINEAR,
    "previous": PREVIOUS,
    "nearest": NEAREST,
    "slerp_xyzw": SLERP_XYZW,
    "slerp_wxyz": SLERP_WXYZ,
    "angle": ANGLE,
}
METHOD_NAMES = tuple(METHODS)
SLERPS = (SLERP_XYZW, SLERP_WXYZ)

HOLD, ZERO, NAN, EXTRAPOLATE = range(4)
OUTSIDES = {"hold": HOLD, "zero": ZERO, "nan": NAN, "extrapolate": EXTRAPOLATE}

# A dtype's code is its place in DTYPES plus one: 0 stands for the dtype of the values.
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.uint8)
DTYPE_CODES = {dtype: code for code, dtype in enumerate(DTYPES, 1)}
# Those of voxelization go on from there.
GRID_DTYPES = (*DTYPES, torch.bool, torch.int32, torch.int64)

OUTSIDE_SHIFT, OUT_DTYPE_SHIFT, VALUES_DTYPE_SHIFT = 4, 8, 12
MAX_INT64 = 2**63 - 1
MAX_WIDTH = 2**50


# ---- packing ---------------------------------------------------------------------------------


def refuse_name(got: str) -> NoReturn:
    raise ValueError(
        f"method: expected linear, previous, nearest, slerp_xyzw, slerp_wxyz or angle, got {got!r}"
    )


def pack_layout(method: Sequence[tuple[str, int]]) -> list[int]:
    """[("linear", 7), ("slerp_xyzw", 4)] as [0, 7, 3, 4]. That they sum to D is checked later."""
    if not isinstance(method, (list, tuple)):
        _refuse_runs(method)
    if not method:
        raise ValueError("method: expected at least 1 run, got 0")
    layout: list[int] = []
    for run in method:
        if not isinstance(run, (list, tuple)) or len(run) != 2:
            _refuse_runs(run)
        name, width = run
        if not isinstance(name, str) or not _is_integer(width):
            _refuse_runs(run)
        code = METHODS.get(name)
        if code is None:
            refuse_name(name)
        if width < 1:
            raise ValueError(f"method: expected runs of at least 1 channel, got {width}")
        layout.append(code)
        # What does not fit an int64, also when summed, is too wide either way.
        layout.append(int(width) if width < MAX_WIDTH else MAX_WIDTH)
    return layout


def _refuse_runs(got: object) -> NoReturn:
    raise TypeError(f"method: expected a name or a list of (name, channels) pairs, got {got!r}")


def outside_code(outside: str) -> int:
    code = OUTSIDES.get(outside) if isinstance(outside, str) else None
    if code is None:
        raise ValueError(f"outside: expected hold, zero, nan or extrapolate, got {outside!r}")
    return code


def out_dtype_code(dtype: torch.dtype) -> int:
    code = DTYPE_CODES.get(dtype) if isinstance(dtype, torch.dtype) else None
    if code is None:
        got = dtype_name(dtype) if isinstance(dtype, torch.dtype) else type(dtype).__name__
        raise TypeError(
            f"out_dtype: expected float16, bfloat16, float32, float64 or uint8, got {got}"
        )
    return code


def pack_duration(
    name: str, value: object, times_dtype: torch.dtype, absent: int
) -> tuple[int, float]:
    """A duration as (nanoseconds, seconds), `absent` in the place that does not fit the times."""
    if times_dtype == torch.int64:
        if not _is_integer(value):
            raise TypeError(
                f"{name}: expected an int (nanoseconds) for int64 times, got {type(value).__name__}"
            )
        nanoseconds = int(value)  # type: ignore[call-overload]
        if nanoseconds < 0:
            raise ValueError(f"{name}: expected 0 or more, got {value}")
        if nanoseconds > MAX_INT64:
            raise ValueError(f"{name}: expected at most {MAX_INT64}, got {value}")
        return nanoseconds, float(absent)
    if times_dtype.is_floating_point:
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            raise TypeError(
                f"{name}: expected a number (seconds) for floating times, "
                f"got {type(value).__name__}"
            )
        try:
            seconds = float(value)
        except OverflowError:  # an integer beyond every float
            seconds = math.inf if value >= 0 else -math.inf  # type: ignore[operator]
        if not seconds >= 0:  # NaN is refused too
            raise ValueError(f"{name}: expected 0 or more, got {value}")
        return absent, seconds
    return absent, float(absent)  # times that the operator refuses


def _is_integer(value: object) -> bool:
    # The first test is the fast one; the others are for NumPy's integers.
    return type(value) is int or (
        isinstance(value, numbers.Integral) and not isinstance(value, bool)
    )


# ---- unpacking -------------------------------------------------------------------------------


def runs(layout: Sequence[int] | None, options: int, channels: int) -> list[tuple[int, int]]:
    """(method, width) of every run."""
    if layout is None:
        return [(options & 15, channels)]
    return list(zip(layout[::2], layout[1::2], strict=True))


def outside_of(options: int) -> int:
    return (options >> OUTSIDE_SHIFT) & 3


def out_dtype_of(options: int, values_dtype: torch.dtype) -> torch.dtype:
    code = (options >> OUT_DTYPE_SHIFT) & 15
    return DTYPES[code - 1] if code else values_dtype


def compute_dtype(values_dtype: torch.dtype, out_dtype: torch.dtype) -> torch.dtype:
    is_wide = torch.float64 in (values_dtype, out_dtype)
    return torch.float64 if is_wide else torch.float32


def values_dtype_of(options: int) -> torch.dtype:
    return DTYPES[((options >> VALUES_DTYPE_SHIFT) & 15) - 1]


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
