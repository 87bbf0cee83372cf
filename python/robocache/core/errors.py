"""Converts errors of the operators to the exceptions that Python users expect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn

import torch

# The operators write the class into the text (bindings/torch/errors.h), since the class that torch
# makes of a C++ exception depends on its version; some versions add text before it or a C++ stack
# after it.
_NAMED = re.compile(r"robocache\.(ValueError|TypeError|RuntimeError): ([^\n]*)")
_CLASSES = {"ValueError": ValueError, "TypeError": TypeError, "RuntimeError": RuntimeError}


def translated(
    error: Exception, operator: Any, arguments: tuple[Any, ...], sizes: Mapping[str, int]
) -> Exception | None:
    """The exception to raise in place of `error` of `operator(*arguments)`; None: `error` itself.

    `sizes` are the positions, by name, of the arguments that determine the output's size.
    """
    text = str(error)
    named = _NAMED.search(text)
    device = arguments[0].device
    if named and named[1] == "RuntimeError" and "out of memory" in named[2]:
        return torch.OutOfMemoryError(f"CUDA out of memory on {device}: {named[2]}")
    if named:
        return _CLASSES[named[1]](named[2])
    if isinstance(error, torch.OutOfMemoryError):
        return None
    if device.type == "cpu" and "aoti_torch_empty_strided" in text:
        shapes = " and ".join(f"{name} {list(arguments[i].shape)}" for name, i in sizes.items())
        return torch.OutOfMemoryError(f"out of memory on cpu: the output for {shapes} does not fit")
    if device.type != "cuda":
        return None
    if "out of memory" in text or _fails_to_allocate(operator, arguments, device):
        return torch.OutOfMemoryError(f"CUDA out of memory on {device}: {text}")
    return None


def is_value_error(error: Exception) -> bool:
    """Whether an operator has thrown the library's ValueError."""
    named = _NAMED.search(str(error))
    return named is not None and named[1] == "ValueError"


def raise_translated(
    error: Exception, operator: Any, arguments: tuple[Any, ...], sizes: Mapping[str, int]
) -> NoReturn:
    """Raises the exception that :func:`translated` names, or `error` itself."""
    better = translated(error, operator, arguments, sizes)
    if better is None:
        raise error
    raise better from None


def refuse_second_derivatives(grad: torch.Tensor) -> NoReturn:
    """Raises ValueError for a second derivative of a native operator."""
    raise ValueError(
        "backend: expected 'pytorch' for second derivatives (create_graph=True), "
        f"got {grad.device.type!r}"
    )


def _fails_to_allocate(operator: Any, arguments: tuple[Any, ...], device: torch.device) -> bool:
    # Some torch versions drop the text of an allocator's error inside an operator. The allocator
    # counts its failures, so a second try tells whether memory was the cause.
    failures = _allocation_failures(device)
    try:
        operator(*arguments)
    except RuntimeError:
        return _allocation_failures(device) > failures
    return False


def _allocation_failures(device: torch.device) -> int:
    try:
        count: int = torch.cuda.memory_stats(device)["num_ooms"]
    except (RuntimeError, KeyError):  # an allocator without a count
        return 0
    return count
