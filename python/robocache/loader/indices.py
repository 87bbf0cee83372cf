"""Validates user-supplied indices of samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def check_indices(indices: Any, count: int, device: torch.device) -> Tensor:
    """Indices [B] as contiguous int64 on the device; only those on the host are validated.

    Raises:
        TypeError, ValueError: `indices: expected ..., got ...`.
    """
    if isinstance(indices, Tensor):
        if indices.dtype not in _INTEGERS:
            raise TypeError(f"indices: expected integers, got {str(indices.dtype)[6:]}")
        if indices.dim() != 1:
            raise ValueError(f"indices: expected [B], got {list(indices.shape)}")
        if not indices.is_cpu:
            if indices.device != device:
                raise ValueError(f"indices: expected cpu or {device}, got {indices.device}")
            if indices.dtype == torch.int64 and indices.is_contiguous():
                return indices  # to() and contiguous() would change nothing, in microseconds
            return indices.to(torch.int64).contiguous()
        array = indices.numpy()
    else:
        try:
            array = np.asarray(indices)
        except ValueError as error:  # rows of different lengths
            raise ValueError(f"indices: expected [B], got {error}") from None
        if array.size == 0:
            array = array.astype(np.int64)
        if array.dtype.kind not in "iu":
            raise TypeError(f"indices: expected integers, got {array.dtype}")
        if array.ndim != 1:
            raise ValueError(f"indices: expected [B], got {list(array.shape)}")
    is_wrong = (array < 0) | (array >= count)
    if is_wrong.any():
        at = int(is_wrong.argmax())
        raise ValueError(f"indices[{at}]: expected 0 to {count - 1}, got {array[at]}")
    return torch.from_numpy(np.ascontiguousarray(array, np.int64)).to(device)
