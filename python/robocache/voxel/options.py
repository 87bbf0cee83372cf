"""Parses the options of voxelization into arguments of the operators."""

from __future__ import annotations

import functools
import math
import numbers
import os
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from robocache.align.options import MAX_INT64
from robocache.core import dtypes
from robocache.core.checks import number_text, to_float
from robocache.core.tensor_checks import check_dense, refuse_gradient, shape_text

# The numbers of robocache::VoxelMode
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

# The dtypes of the grid by mode
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_OUT_DTYPES = (
    (*_FLOATS, torch.uint8, torch.int32, torch.bool),
    (torch.int32, torch.int64, torch.float32, torch.float64),
    *[dtypes.DTYPES] * 4,
)
# The default dtype by mode; None: the features' dtype
_DEFAULTS = (torch.float32, torch.int32, None, None, None, None)

# Bytes up to which a grid is not compared with the device's memory
SMALL_GRID = 2**28


class Array(Protocol):
    """A NumPy array or a tensor: an object with the method `tolist`."""

    def tolist(self) -> Any:
        """The elements as Python numbers."""


def parse_mode(mode: object, out_dtype: object) -> tuple[int, torch.dtype | None]:
    """The mode's number and the grid's dtype of a dense voxelization; None: the features' dtype."""
    code = MODES.get(mode) if isinstance(mode, str) else None
    if code is None:
        raise ValueError(f"mode: expected {_one_of(MODE_NAMES)}, got {mode!r}")
    if out_dtype is None:
        return code, _DEFAULTS[code]
    if not isinstance(out_dtype, torch.dtype) or out_dtype not in _OUT_DTYPES[code]:
        expected = _one_of([dtypes.dtype_name(dtype) for dtype in _OUT_DTYPES[code]])
        raise TypeError(f"out_dtype: expected {expected}, got {dtypes.dtype_text(out_dtype)}")
    return code, out_dtype


def parse_reduce(reduce: object) -> int:
    """The mode's number of a sparse voxelization."""
    if not isinstance(reduce, str) or reduce not in REDUCTIONS:
        raise ValueError(f"reduce: expected {_one_of(REDUCTIONS)}, got {reduce!r}")
    return MODES[reduce]


def parse_grid_size(grid_size: object) -> list[int]:
    """X, Y and Z as Python integers."""
    sizes = _three("grid_size", "three integers", grid_size, numbers.Integral)
    if min(sizes) < 1:
        raise ValueError(f"grid_size: expected sizes of at least 1, got {_text(sizes)}")
    return [int(size) for size in sizes]


def parse_geometry(voxel_size: object, origin: object, grid_size: Sequence[int]) -> list[float]:
    """The three sizes of a voxel, then the origin; by default the grid is centered on zero."""
    three = _three("voxel_size", "a number or three", voxel_size, numbers.Real, or_one=True)
    sizes = [to_float(size) for size in three]
    for size in sizes:
        if not 0 < size < math.inf:  # also refuses NaN
            raise ValueError(f"voxel_size: expected positive finite sizes, got {_text(three)}")
    if origin is None:
        corner = [-to_float(n) * size / 2 for n, size in zip(grid_size, sizes, strict=True)]
        if -math.inf in corner:
            raise ValueError(
                "grid_size: expected a grid that ends at finite numbers, "
                f"got {_text(grid_size)} cells of {_text(three)}"
            )
    else:
        three = _three("origin", "three numbers", origin, numbers.Real)
        corner = [to_float(x) for x in three]
        for x in corner:
            if not -math.inf < x < math.inf:
                raise ValueError(f"origin: expected finite numbers, got {_text(three)}")
    return [*sizes, *corner]


def check_features(mode: int, has_features: bool) -> None:
    """Checks that features are passed if and only if the mode requires them."""
    if has_features != (mode >= MEAN):
        expected, got = ("some", "none") if mode >= MEAN else ("none", "some")
        raise ValueError(f"features: expected {expected} for mode {MODE_NAMES[mode]!r}, got {got}")


def _three(name: str, expected: str, argument: Any, kind: type, or_one: bool = False) -> list[Any]:
    """Three numbers of type `kind` from a sequence, array or CPU tensor, or one for all three."""
    plain = _plain(name, argument)
    try:
        three = [x if type(x) in (int, float) else _plain(name, x) for x in plain]
    except TypeError:  # not a sequence
        three = [plain] * 3 if or_one else []
    if [isinstance(x, kind) and not isinstance(x, bool) for x in three] == [True] * 3:
        return three
    shape = getattr(argument, "shape", (3,))
    got = repr(plain) if len(shape) < 2 and math.prod(shape) <= 3 else f"shape {shape_text(shape)}"
    raise TypeError(f"{name}: expected {expected}, got {got}")


def _plain(name: str, argument: Any) -> Any:
    """Converts a tensor, NumPy array or NumPy number to Python lists and numbers."""
    if isinstance(argument, torch.Tensor):
        check_dense(name, argument)
        if argument.requires_grad:
            refuse_gradient(name, "features")
        if not argument.is_cpu:
            raise ValueError(
                f"{name}: expected numbers or a CPU tensor (.tolist() makes them, and waits for "
                f"the device), got a tensor on {argument.device}"
            )
    return argument.tolist() if hasattr(argument, "tolist") else argument


def _one_of(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _text(three: Sequence[float]) -> str:
    is_integer = [isinstance(x, numbers.Integral) for x in three]
    texts = [
        number_text(x) if whole else f"{x:.9g}" for x, whole in zip(three, is_integer, strict=True)
    ]
    return "[" + ",".join(texts) + "]"


# ---- memory ----------------------------------------------------------------------------------


def check_room(
    grid_size: Sequence[int],
    batch: int,
    channels: int | None,
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    """Checks that int64 can index the cells of a grid, and that the grid fits in its device.

    Both checks count at least 1 channel, since backends count the points of each cell too; the
    first counts at least 1 cloud. They run before any allocation: on a CPU an allocation beyond
    the memory often succeeds, and the process is killed when it writes to it.
    """
    cells = math.prod(grid_size) * (1 if channels is None else max(1, channels))
    size = cells * batch * dtype.itemsize
    shape = f"{_text(grid_size)} for B={batch}" + ("" if channels is None else f" and C={channels}")
    if max(size, cells * dtype.itemsize) >= MAX_INT64:
        raise ValueError(
            f"grid_size: expected a grid of less than 2^63 bytes, got {shape} "
            f"of {dtypes.dtype_name(dtype)}"
        )
    memory = _memory(device)
    if memory is not None and size > memory:
        raise torch.OutOfMemoryError(
            f"grid_size: expected a grid within the {memory} bytes of memory of {device}, "
            f"got {size} bytes for {shape} of {dtypes.dtype_name(dtype)}"
        )


@functools.cache
def _memory(device: torch.device) -> int | None:
    if device.type == "cuda":
        memory: int = torch.cuda.get_device_properties(device).total_memory
        return memory
    if device.type == "cpu":
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def out_dtype_of(out_dtype: torch.dtype | None, features: torch.Tensor | None) -> torch.dtype:
    """The grid's dtype: by default the features' dtype."""
    if out_dtype is not None:
        return out_dtype
    assert features is not None
    return features.dtype
