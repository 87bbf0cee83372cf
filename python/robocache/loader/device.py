"""The device of a loader, and forks of its process."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import torch

from robocache.core import library

forks = 0
"""The number of forks between the first process and this one."""


def _note_fork() -> None:
    global forks
    forks += 1


os.register_at_fork(after_in_child=_note_fork)


def find_device(device: torch.device | str | None) -> torch.device:
    """The device of a loader: by default "cuda" if a GPU is usable.

    Raises:
        ValueError: `device` is neither a CPU nor a usable GPU.
        TypeError: `device` is not a device.
    """
    if device is None:
        usable = torch.cuda.is_available() and (
            library.cuda_problem(torch.cuda.current_device()) is None
        )
        device = "cuda" if usable else "cpu"
    if not isinstance(device, (str, torch.device)):
        raise TypeError(f"device: expected a torch.device or its name, got {type(device).__name__}")
    try:
        found = torch.device(device)
    except RuntimeError:
        raise ValueError(f"device: expected cpu or cuda, got {device!r}") from None
    if found.type == "cpu":
        return torch.device("cpu")
    if found.type != "cuda":
        raise ValueError(f"device: expected cpu or cuda, got {str(found)!r}")
    if not torch.cuda.is_available():
        raise ValueError("device: expected 'cpu' where torch finds no GPU, got 'cuda'")
    index = torch.cuda.current_device() if found.index is None else found.index
    if index >= torch.cuda.device_count():
        raise ValueError(f"device: expected one of {torch.cuda.device_count()} GPUs, got {index}")
    problem = library.cuda_problem(index)
    if problem is not None:
        raise ValueError(f"device: expected a usable CUDA build for 'cuda', got {problem}")
    return torch.device("cuda", index)


def on_device(device: torch.device) -> Any:
    """A context in which a GPU is the current device; for a CPU, it does nothing."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()
