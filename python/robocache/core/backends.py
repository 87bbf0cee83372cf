"""Selects the backend of a call."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from robocache.core import call_counts, config, library, torch_private

# Module variables, since every call needs them and attribute look-ups take time
_is_compiling = torch.compiler.is_compiling
_is_wrapped = torch_private.is_wrapped
_forward_level = torch_private.forward_level
_unpack_dual: Any = forward_ad.unpack_dual  # has no type annotations

_TRANSFORMS = "torch.func's transforms and forward-mode derivatives"


def is_native(operation: str, backend: str, first: Tensor, name: str, *more: Tensor | None) -> bool:
    """Whether a call runs on a native backend, cuda or cpu, rather than on pytorch.

    Counts the call, unless torch.compile is tracing it.

    Args:
        operation: The operation's name, for `metrics`.
        backend: The caller's `backend` argument.
        first: The tensor whose device decides, and to which derivatives may flow.
        name: The name of `first` in errors.
        more: Other tensors to which derivatives may flow.

    Raises:
        ValueError: For an unknown backend, and for one that the tensor's device or the build lacks.
    """
    is_cuda = first.is_cuda
    if backend == "auto":
        backend = config.backend
    if backend != "auto":
        native = _is_named_native(backend, first, name)
    elif is_cuda:
        native = _cuda_is_usable(first.get_device())
    else:
        native = first.is_cpu
    if _is_compiling():
        return native
    if not native:
        call_counts.calls[operation, "pytorch"] += 1
        if backend == "auto" and is_cuda:
            call_counts.fallbacks[str(_cuda_problem(first.get_device()))] += 1
        return False
    wrapped = _is_wrapped(first)
    if more:
        wrapped = wrapped or any(tensor is not None and _is_wrapped(tensor) for tensor in more)
    if (wrapped or _forward_level._current_level >= 0) and any(
        tensor is not None and _is_transformed(tensor) for tensor in (first, *more)
    ):
        if backend != "auto":
            raise ValueError(f"backend: expected 'pytorch' for {_TRANSFORMS}, got {backend!r}")
        call_counts.calls[operation, "pytorch"] += 1
        call_counts.fallbacks[_TRANSFORMS] += 1
        return False
    call_counts.calls[operation, "cuda" if is_cuda else "cpu"] += 1
    return True


def _is_named_native(backend: str, first: Tensor, name: str) -> bool:
    """Whether a backend other than "auto" is native; checks that the call can run on it."""
    config.check_backend(backend)
    if backend == "pytorch":
        return False
    if backend != first.device.type:
        own = f"{first.device.type} or " if first.is_cpu or first.is_cuda else ""
        raise ValueError(
            f"backend: expected {own}pytorch for {name} on {first.device}, got {backend!r}"
        )
    if backend == "cuda":
        problem = _cuda_problem(first.get_device())
        if problem is not None:
            raise ValueError(f"backend: expected a usable CUDA build for 'cuda', got {problem}")
    return True


def _is_transformed(tensor: Tensor) -> bool:
    """Whether a tensor has a tangent or a torch.func wrapper, which an operator would drop."""
    if _is_wrapped(tensor):
        return True
    return _forward_level._current_level >= 0 and _unpack_dual(tensor).tangent is not None


_cuda_usable: dict[int, bool] = {}


def _cuda_is_usable(device_index: int) -> bool:
    """Whether "auto" selects the cuda backend on a device; warns once with the reason if not."""
    usable = _cuda_usable.get(device_index)
    if usable is None:
        problem = _cuda_problem(device_index)
        usable = problem is None
        if not usable and False not in _cuda_usable.values():
            warnings.warn(
                f"robocache: backend 'auto' takes the pytorch backend for CUDA tensors: {problem}",
                RuntimeWarning,
                stacklevel=4,  # the caller of the public function
            )
        _cuda_usable[device_index] = usable
    return usable


def _cuda_problem(device_index: int) -> str | None:
    return library.cuda_problem(device_index)


# Their results are constant while the process runs, and torch.compile cannot trace them. This does
# what torch.compiler.assume_constant_result does without importing Dynamo, which takes seconds.
for _function in (_cuda_is_usable, _cuda_problem):
    torch_private.mark_constant(_function)
