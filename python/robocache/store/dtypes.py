"""Element types: safetensors' names of them, and the same in NumPy."""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import numpy as np

from robocache.core.element_types import ELEMENT_TYPES

# NumPy has no bfloat16: its elements travel as uint16, under their own name.
STORAGE: dict[str, np.dtype[Any]] = {each.stored: np.dtype(each.bits) for each in ELEMENT_TYPES}
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

FLOATS = ("F16", "BF16", "F32", "F64")
_NAMES = {dtype: name for name, dtype in STORAGE.items() if name != "BF16"}


def stored(name: str, values: object) -> tuple[str, Array]:
    """`values` as they are stored: the name of their type, and contiguous little-endian elements.

    Takes NumPy arrays (ml_dtypes' bfloat16 among them), torch tensors on the CPU, and what
    `numpy.asarray` takes. Copies only where bytes have to move.

    Raises:
        TypeError: `<name>: expected ..., got <dtype>`, for a type that a store does not have.
        ValueError: Elements are masked.
    """
    torch: Any = sys.modules.get("torch")  # a tensor can't come from anywhere else
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
    if array.dtype in _NAMES:  # nearly always
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
    """`values` as an array. A NumPy mask has no place in a store, which knows valid rows alone.

    Raises:
        ValueError: Elements are masked: `numpy.asarray` would take what lies below the mask.
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
    # ascontiguousarray by itself would make a vector of a scalar.
    contiguous: Array = np.ascontiguousarray(array).reshape(array.shape)
    return contiguous


def widened(dtype: str, elements: Array) -> Array:
    """Elements as numbers that NumPy computes with: bfloat16's bits become float32."""
    if dtype == "BF16":
        bits: Array = elements.astype(np.uint32) << np.uint32(16)
        return bits.view(np.float32)
    return elements
