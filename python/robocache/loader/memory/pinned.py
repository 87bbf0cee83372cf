"""Pinned host memory, which a GPU reads over the link and copies from without the host."""

from __future__ import annotations

import contextlib
import mmap
import os
import weakref
from typing import Any

import numpy as np
import torch
from torch import Tensor

from robocache.loader.memory.deferred_cuda import defer_until_cuda_allowed, run_deferred

_still_pinned: list[mmap.mmap] = []  # pages that CUDA failed to unpin, which must stay mapped


_PAGE = 4096


def pinned_bytes(count: int) -> int:
    """Pinned bytes of an allocation of `count` bytes: whole pages."""
    return max(-(-count // _PAGE), 1) * _PAGE


def pinned_empty(count: int) -> Tensor:
    """Allocates pinned memory for the current device: a tensor of `count` bytes.

    Torch rounds pinned memory up to powers of two and caches it. This takes the bytes that
    :func:`pinned_bytes` returns, and frees them with the last tensor that uses them.

    Raises:
        torch.OutOfMemoryError: The memory can't be allocated or pinned.
    """
    run_deferred()
    size = pinned_bytes(count)
    cudart: Any = torch.cuda.cudart()
    try:
        memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise torch.OutOfMemoryError(_refusal(size, str(error))) from None
    with contextlib.suppress(OSError):  # of a kernel without huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    array = np.frombuffer(memory, np.uint8)
    address = array.ctypes.data
    status = cudart.cudaHostRegister(address, size, 1)  # cudaHostRegisterPortable: of every GPU
    if int(status) != 0:
        _clear_error()
        raise torch.OutOfMemoryError(_refusal(size, cudart.cudaGetErrorString(status)))
    # It keeps the map, whose pages must not be pinned any more when they go.
    index = torch.cuda.current_device()
    weakref.finalize(array, _give_back, memory, address, index, os.getpid()).atexit = False
    return torch.from_numpy(array)[:count]


def _refusal(size: int, reason: str) -> str:
    return f"budget['pinned']: expected {size} bytes that can be pinned, got {reason}"


def _give_back(memory: mmap.mmap, address: int, index: int, process: int) -> None:
    if os.getpid() == process:  # not the child of a fork, which has no GPU
        defer_until_cuda_allowed(lambda: _unpin(memory, address, index))


def _unpin(memory: mmap.mmap, address: int, index: int) -> None:
    try:
        torch.cuda.synchronize(index)  # kernels may still read it
    finally:
        cudart: Any = torch.cuda.cudart()
        if int(cudart.cudaHostUnregister(address)) != 0:
            _still_pinned.append(memory)


def _clear_error() -> None:
    # The next launch would report the error of the runtime again.
    with contextlib.suppress(RuntimeError):
        torch.ones(1, device="cuda")
