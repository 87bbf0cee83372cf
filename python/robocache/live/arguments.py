"""Checks a LiveAligner's arguments and converts them for the library."""

from __future__ import annotations

import math
import operator
import os
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robocache.core import dtypes
from robocache.core.checks import nanoseconds_of
from robocache.loader.policy_spec import PolicySpec
from robocache.loader.window_spec import WindowSpec
from robocache.store.dtypes import STORAGE, stored

Values: TypeAlias = Any
"""NumPy arrays, torch tensors on the CPU, and arguments of `numpy.asarray`."""


def load_spec(spec: PolicySpec | str | os.PathLike[str]) -> tuple[PolicySpec, str]:
    """A policy spec, which may be the path of its file; and its name in the library's errors."""
    if isinstance(spec, PolicySpec):
        return spec, "spec"
    if not isinstance(spec, (str, os.PathLike)):
        kind = type(spec).__name__
        raise TypeError(f"spec: expected a PolicySpec or its file, got {kind}")
    return PolicySpec.load(spec), os.fspath(spec)


def rows_of(name: str, stream: WindowSpec, values: Values, shape: tuple[int, ...]) -> NDArray[Any]:
    """Values converted for the library: a contiguous array of the stream's dtype."""
    if not isinstance(values, (np.ndarray, Tensor)):
        try:
            values = np.asarray(values)
        except ValueError:
            got = "lists of several lengths"
            raise ValueError(f"{name}: expected {list(shape)}, got {got}") from None
    kind, array = stored(name, values)
    if array.shape != shape:
        raise ValueError(f"{name}: expected {list(shape)}, got {list(array.shape)}")
    if kind == stream.dtype:
        return array
    if kind == "BF16":  # the array holds its bits, the upper half of a float32's
        array = (array.astype(np.uint32) << 16).view(np.float32)
    to = np.dtype(np.float32) if stream.dtype == "BF16" else STORAGE[stream.dtype]
    if not _may_be_cast(array, to):
        expected = str(dtypes.BY_STORED_NAME[stream.dtype]).removeprefix("torch.")
        got = str(dtypes.BY_STORED_NAME[kind]).removeprefix("torch.")
        raise TypeError(f"{name}: expected {expected}, got {got}")
    with np.errstate(over="ignore"):
        cast = array.astype(to)
        rounded = torch.from_numpy(cast).to(torch.bfloat16) if stream.dtype == "BF16" else None
    finite = np.isfinite(cast) if rounded is None else rounded.isfinite().numpy()
    if to.kind == "f" and not finite.all() and np.isfinite(array[~finite]).any():
        expected = str(dtypes.BY_STORED_NAME[stream.dtype]).removeprefix("torch.")
        got = f"up to {np.abs(array[~finite]).max()}"
        raise ValueError(f"{name}: expected numbers that {expected} has, got {got}")
    return cast if rounded is None else rounded.view(torch.int16).numpy().view(np.uint16)


def floats(name: str, array: NDArray[Any]) -> Tensor:
    """An array of floats as a tensor; copies an array whose memory torch cannot share."""
    if array.dtype.kind != "f" or array.dtype.itemsize > 8:
        raise TypeError(f"{name}: expected floats, got {array.dtype}")
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return torch.from_numpy(np.require(native, requirements=["C", "W"]))


def as_array(values: NDArray[Any] | Tensor) -> NDArray[Any]:
    """An array or tensor as a NumPy array on the host."""
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def integers(name: str, values: Any, count: int | None = None) -> NDArray[np.int64]:
    """[N] integers as a contiguous int64 array."""
    array = as_array(values)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name}: expected integers, got {array.dtype}")
    expected = "[N]" if count is None else f"[{count}]"
    if array.ndim != 1 or count not in (None, len(array)):
        raise ValueError(f"{name}: expected {expected}, got {list(array.shape)}")
    if array.dtype == np.uint64 and len(array) and array.max() >= 2**63:
        raise ValueError(f"{name}: expected ints of 64 bits with a sign, got {array.max()}")
    return np.ascontiguousarray(array, np.int64)


def flags(name: str, values: Any, count: int) -> NDArray[np.bool_]:
    """[N] bools as a contiguous array."""
    array = np.ascontiguousarray(as_array(values))
    if array.dtype != np.bool_ or array.shape != (count,):
        got = f"{array.dtype} {list(array.shape)}"
        raise ValueError(f"{name}: expected bool [N={count}], got {got}")
    return array


def _may_be_cast(array: NDArray[Any], to: np.dtype[Any]) -> bool:
    """Whether a cast is allowed: to floats from any number, to other dtypes without loss."""
    return np.can_cast(array.dtype, to, "same_kind" if to.kind == "f" else "safe")


def parse_time(time_ns: Any, name: str = "time_ns") -> int:
    """A time in nanoseconds as an int; raises TypeError or ValueError for an invalid time."""
    try:
        number = operator.index(time_ns)
    except TypeError:
        kind = type(time_ns).__name__
        raise TypeError(f"{name}: expected an int (nanoseconds), got {kind}") from None
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{name}: expected an int of 64 bits (nanoseconds), got {number}")
    return number


def nanoseconds(name: str, seconds: Any) -> int:
    """Seconds as nanoseconds; raises TypeError or ValueError for an invalid duration."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float, np.floating)):
        raise TypeError(f"{name}: expected a number (s), got {type(seconds).__name__}")
    if not 0 <= seconds < 2**33:  # NaN is refused too
        raise ValueError(f"{name}: expected 0 to 2^33 s, got {seconds}")
    return nanoseconds_of(float(seconds))


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of a contiguous array."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
