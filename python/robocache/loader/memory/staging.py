"""Copies of arrays to tensors; those to a GPU go through a staging buffer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

STAGING_BYTES = 1 << 26


def make_staging(size: int, is_bounded: bool) -> Tensor:
    """A staging buffer of `size` bytes.

    Args:
        size: Its size.
        is_bounded: Whether a budget exists, which pinned memory would exceed.
    """
    staging = torch.empty(size, dtype=torch.uint8, device="cpu")
    return staging if is_bounded or not size else staging.pin_memory()


def fill(storage: Tensor, pieces: Iterable[NDArray[Any]], is_bounded: bool) -> None:
    """Copies arrays, one after the other, into a tensor of bytes.

    Args:
        storage: The tensor, on the CPU or a GPU.
        pieces: The arrays.
        is_bounded: Whether a budget exists, which pinned memory would exceed.
    """
    staging = None
    if storage.is_cuda:
        staging = make_staging(min(len(storage), STAGING_BYTES), is_bounded)
    begin = 0
    for piece in pieces:
        source = piece.reshape(-1).view(np.uint8)
        if staging is None:
            np.copyto(storage[begin : begin + len(source)].numpy(), source)
        else:
            for at in range(0, len(source), len(staging)):
                part = source[at : at + len(staging)]
                np.copyto(staging[: len(part)].numpy(), part)
                storage[begin + at : begin + at + len(part)].copy_(staging[: len(part)])
        begin += len(source)
