"""What the operators throw, as the exceptions that Python users expect."""

from __future__ import annotations

import re
from typing import Any

import torch

# The operators name the class in the text, since torch versions differ in the class that they make
# of a C++ exception; some add text before it or a C++ stack after it.
_NAMED = re.compile(r"robocache\.(ValueError|TypeError): ([^\n]*)")
_CLASSES = {"ValueError": ValueError, "TypeError": TypeError}


def translated(error: Exception, operator: Any, arguments: tuple[Any, ...]) -> Exception | None:
    """The exception to raise in place of `error`, which `operator(*arguments)` raised, or None."""
    named = _NAMED.search(str(error))
    if named:
        return _CLASSES[named[1]](named[2])
    if isinstance(error, torch.OutOfMemoryError):
        return None
    device = arguments[0].device
    if device.type != "cuda" or torch.compiler.is_compiling():
        return None
    # A failed allocation reaches us as a RuntimeError that may not say so. The allocator counts its
    # failures: does one more come with another try?
    failures = _allocation_failures(device)
    try:
        operator(*arguments)
    except RuntimeError:
        if _allocation_failures(device) > failures:
            return torch.OutOfMemoryError(
                f"CUDA out of memory on {device}, "
                f"{torch.cuda.mem_get_info(device)[0] / 2**30:.2f} GiB free: {error}"
            )
    return None


def _allocation_failures(device: torch.device) -> int:
    count: int = torch.cuda.memory_stats(device).get("num_ooms", 0)
    return count
