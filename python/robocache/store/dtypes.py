"""Element types of a store: their safetensors names and their NumPy dtypes."""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import numpy as np

from robocache.core.element_types import ELEMENT_TYPES

# NumPy has no bfloat16: arrays hold its bits as uint16, and the type's name goes with them.
STORAGE: dict[str, np.dtype[Any]] = {each.stored: np.dtype(each.bits) for each in ELEMENT_TYPES}
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

FLOATS = ("F16", "BF16", "F32", "F64")
_NAMES = {dtype: name for name, dtype in STORAGE.items() if name != "BF16"}


def stored(name: str, values: object) -> tuple[str, Array]:
    """Converts `values` to their stored form: type name and contiguous little-endian elements.

    Accepts NumPy arrays (including ml_dtypes' bfloat16), torch tensors on the CPU, and anything
    that `numpy.asarray` accepts. Copies only where the layout or the byte order changes.

    Raises:
        TypeError: `<name>: expected ..., got <dtype>`, for a type that stores do not support.
        ValueError: An element is masked.
    """
    torch: Any = sys.modules.get("torch")  # a caller with a tensor has imported torch
    if torch is not None and isinstance(values, torch.Tensor):
        tensor: Any = values
        if tensor.device.type != "cpu":
            raise TypeError(f"{name}: expected a tensor on the CPU, got one on {tensor.device}")
        tensor = tensor.detach()
        if tensor.dtype == torch.bfloat16:
            bits: Array = tensor.contiguous().view(torch.uint16).numpy()
            return "BF16", bits
        values = tensor.numpy()
    array = without_mask(name, values)
    if array.dtype in _NAMES:  # the common case
        return _NAMES[array.dtype], _contiguous(array)
    if array.dtype.name == "bfloat16" and array.dtype.itemsize == 2:
        return "BF16", _contiguous(array).view(np.uint16)
    little = array.dtype.newbyteorder("<")
    if little not in _NAMES:
        raise TypeError(
            f"{name}: expected bool, integers of 8 to 64 bits, float16, bfloat16, float32 or "
            f"float64, got {array.dtype}"
        )
    return _NAMES[little], _contiguous(array.astype(little, copy=False))


def without_mask(name: str, values: object) -> Array:
    """Converts `values` to an array. A store marks rows as valid, not elements: it has no mask.

    Raises:
        ValueError: An element is masked: `numpy.asarray` would return the value under the mask.
    """
    if isinstance(values, np.ma.MaskedArray):
        count = int(np.count_nonzero(values.mask))
        if count:
            raise ValueError(
                f"{name}: expected no masked elements, got {count:,} (`valid` says which rows are "
                "real; numpy.ma.filled gives masked elements a value)"
            )
    return np.asarray(values)


def _contiguous(array: Array) -> Array:
    # np.ascontiguousarray turns a scalar into a vector of 1 element; reshape undoes that.
    contiguous: Array = np.ascontiguousarray(array).reshape(array.shape)
    return contiguous


def widened(dtype: str, elements: Array) -> Array:
    """Elements in a type that NumPy computes with: the bits of bfloat16 become float32."""
    if dtype == "BF16":
        bits: Array = elements.astype(np.uint32) << np.uint32(16)
        return bits.view(np.float32)
    return elements
