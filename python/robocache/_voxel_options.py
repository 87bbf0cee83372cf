"""Options of voxelization as users write them, and as what the operators take.

options    bits 0-3 mode, 8-11 output dtype, 12-15 features dtype (backward only); see _options.py
geometry   the three sizes of a voxel, then the three numbers of the origin
"""

from __future__ import annotations

import functools
import math
import numbers
import os
from collections.abc import Sequence
from typing import Any

import torch

from robocache import _options
from robocache._options import MAX_INT64, OUT_DTYPE_SHIFT

OCCUPANCY, COUNT, MEAN, SUM, MAX, MIN = range(6)
MODES = {
    "occupancy": OCCUPANCY,
    "count": COUNT,
    "mean": MEAN,
    "sum": SUM,
    "max": MAX,
    "min": MIN,
}
MODE_NAMES = tuple(MODES)
REDUCTIONS = MODE_NAMES[MEAN:]

# The output's dtypes by mode, the default first; without a default it is that of the features.
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_OUT_DTYPES = (
    (*_FLOATS, torch.uint8, torch.int32, torch.bool),
    (torch.int32, torch.int64, torch.float32, torch.float64),
    *[_options.DTYPES] * 4,
)
_CODES = {dtype: code for code, dtype in enumerate(_options.GRID_DTYPES, 1)}
_DEFAULTS = (
    OCCUPANCY | _CODES[torch.float32] << OUT_DTYPE_SHIFT,
    COUNT | _CODES[torch.int32] << OUT_DTYPE_SHIFT,
    MEAN,
    SUM,
    MAX,
    MIN,
)

# A grid of fewer bytes than this is not compared with the memory that there is.
SMALL_GRID = 2**28


# ---- packing ---------------------------------------------------------------------------------


def pack_mode(mode: object, out_dtype: object) -> int:
    """`options` of a dense voxelization."""
    code = MODES.get(mode) if isinstance(mode, str) else None
    if code is None:
        raise ValueError(f"mode: expected {_one_of(MODE_NAMES)}, got {mode!r}")
    if out_dtype is None:
        return _DEFAULTS[code]
    if not isinstance(out_dtype, torch.dtype) or out_dtype not in _OUT_DTYPES[code]:
        is_dtype = isinstance(out_dtype, torch.dtype)
        got = _options.dtype_name(out_dtype) if is_dtype else type(out_dtype).__name__  # type: ignore[arg-type]
        expected = _one_of([_options.dtype_name(dtype) for dtype in _OUT_DTYPES[code]])
        raise TypeError(f"out_dtype: expected {expected}, got {got}")
    return code | _CODES[out_dtype] << OUT_DTYPE_SHIFT


def pack_reduce(reduce: object) -> int:
    """`options` of a sparse voxelization."""
    if not isinstance(reduce, str) or reduce not in REDUCTIONS:
        raise ValueError(f"reduce: expected {_one_of(REDUCTIONS)}, got {reduce!r}")
    return MODES[reduce]


def pack_grid_size(grid_size: object) -> list[int]:
    sizes = _three(grid_size, numbers.Integral)
    if sizes is None:
        raise TypeError(f"grid_size: expected three integers, got {grid_size!r}")
    if min(sizes) < 1:
        raise ValueError(f"grid_size: expected sizes of at least 1, got {_text(sizes)}")
    return [int(size) for size in sizes]


def pack_geometry(voxel_size: object, origin: object, grid_size: Sequence[int]) -> list[float]:
    """Without an origin, the corner from which a grid of `grid_size` has its centre at zero."""
    if isinstance(voxel_size, numbers.Real) and not isinstance(voxel_size, bool):
        sizes = [_float(voxel_size)] * 3
    else:
        given = _three(voxel_size, numbers.Real)
        if given is None:
            raise TypeError(f"voxel_size: expected a number or three, got {voxel_size!r}")
        sizes = [_float(size) for size in given]
    for size in sizes:
        if not 0 < size < math.inf:  # NaN neither
            raise ValueError(f"voxel_size: expected positive finite sizes, got {_text(sizes)}")
    if origin is None:
        corner = [-(count * size) / 2 for count, size in zip(grid_size, sizes, strict=True)]
    else:
        given = _three(origin, numbers.Real)
        if given is None:
            raise TypeError(f"origin: expected three numbers, got {origin!r}")
        corner = [_float(x) for x in given]
    for x in corner:
        if not -math.inf < x < math.inf:
            raise ValueError(f"origin: expected finite numbers, got {_text(corner)}")
    return [*sizes, *corner]


def check_features(options: int, has_features: bool) -> None:
    """That a mode has features if it needs them, and none if it does not."""
    mode = mode_of(options)
    if has_features != (mode >= MEAN):
        expected, got = ("some", "none") if mode >= MEAN else ("none", "some")
        raise ValueError(f"features: expected {expected} for mode {MODE_NAMES[mode]!r}, got {got}")


def _three(given: object, kind: type) -> list[float] | None:
    """Three numbers of a kind; None if they are not."""
    try:
        found = list(given)  # type: ignore[call-overload]
    except TypeError:
        return None
    is_number = [isinstance(x, kind) and not isinstance(x, bool) for x in found]
    return found if is_number == [True] * 3 else None


def _float(x: Any) -> float:
    try:
        return float(x)
    except OverflowError:  # an integer beyond every float
        return math.inf if x > 0 else -math.inf


def _one_of(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _text(three: Sequence[float]) -> str:
    return "[" + ",".join(str(x) if isinstance(x, int) else f"{x:.9g}" for x in three) + "]"


# ---- memory ----------------------------------------------------------------------------------


def check_room(
    grid_size: Sequence[int],
    batch: int,
    channels: int | None,
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    """That a grid can be numbered, and is not larger than all the memory of its device.

    Said before anything is allocated: on a CPU an allocation that can never be used often succeeds,
    and the process is killed later.
    """
    size = math.prod(grid_size) * batch * (1 if channels is None else channels) * dtype.itemsize
    shape = f"{_text(grid_size)} for B={batch}" + (f" and C={channels}" if channels else "")
    if size > MAX_INT64:
        raise ValueError(
            f"grid_size: expected a grid of less than 2^63 bytes, got {shape} "
            f"of {_options.dtype_name(dtype)}"
        )
    memory = _memory(device)
    if memory is not None and size > memory:
        raise torch.OutOfMemoryError(
            f"grid_size: expected a grid within the {memory} bytes of memory of {device}, "
            f"got {size} bytes for {shape} of {_options.dtype_name(dtype)}"
        )


@functools.cache
def _memory(device: torch.device) -> int | None:
    if device.type == "cuda":
        memory: int = torch.cuda.get_device_properties(device).total_memory
        return memory
    if device.type == "cpu":
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


# ---- unpacking -------------------------------------------------------------------------------


def mode_of(options: int) -> int:
    return options & 15


def out_dtype_of(options: int, features: torch.Tensor | None) -> torch.dtype:
    code = (options >> OUT_DTYPE_SHIFT) & 15
    if code:
        return _options.GRID_DTYPES[code - 1]
    assert features is not None
    return features.dtype
