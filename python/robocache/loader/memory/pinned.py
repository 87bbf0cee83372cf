"""Pinned host memory: a GPU reads it over the link, and copies out of it without the host."""

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

_still_pinned: list[mmap.mmap] = []  # what CUDA did not take back: pages that must stay


_PAGE = 4096


def pinned_bytes(count: int) -> int:
    """Bytes of pinned memory for a tensor: whole pages."""
    return max(-(-count // _PAGE), 1) * _PAGE


def pinned_empty(count: int) -> Tensor:
    """So many bytes [count] of pinned memory, for the current device.

    Torch's own pinned memory comes in powers of two, and stays in its cache; this is as much as
    :func:`pinned_bytes` says, and is given back when nobody has it.

    Raises:
        torch.OutOfMemoryError: They can't be had.
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
        torch.cuda.synchronize(index)  # whoever reads it still
    finally:
        cudart: Any = torch.cuda.cudart()
        if int(cudart.cudaHostUnregister(address)) != 0:
            _still_pinned.append(memory)


def _clear_error() -> None:
    # What fails in the runtime is told again by whoever launches next.
    with contextlib.suppress(RuntimeError):
        torch.ones(1, device="cuda")
