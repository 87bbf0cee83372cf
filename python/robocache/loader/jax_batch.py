"""`jax_batch`: a loader's batch as JAX arrays, without a wrong integer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

_INT32 = torch.iinfo(torch.int32)


def jax_batch(batch: Mapping[str, Any]) -> dict[str, Any]:
    """A batch as JAX arrays on the same device; each array is a copy.

    Without ``jax_enable_x64`` JAX reads int64 as int32 and wraps around without a warning. There
    ``timestamp_ns``, which never fits, is left out (``timestamp`` has seconds), and other int64
    values become int32 after a check that they fit, for which the host waits; float64 is rounded to
    float32, as everywhere in JAX.

    Args:
        batch: Tensors by key, dicts of them too; other values stay as they are.

    Raises:
        ValueError: int64 values that do not fit: `<key>: expected ..., got ...`.
        ImportError: JAX is not installed.

    Example:
        >>> for batch in loader:
        ...     state = update(state, rc.jax_batch(batch))
    """
    try:
        import jax
    except ModuleNotFoundError:
        raise ImportError("jax_batch needs JAX: pip install jax") from None
    has_int64 = bool(jax.config.jax_enable_x64)
    found: dict[str, Any] = {}
    for key, values in batch.items():
        if isinstance(values, Mapping):
            found[key] = jax_batch(values)
        elif not isinstance(values, Tensor):
            found[key] = values
        elif has_int64 or key != "timestamp_ns":
            narrow = values if has_int64 or values.dtype != torch.int64 else _as_int32(key, values)
            copy = narrow.detach().clone(memory_format=torch.contiguous_format)
            found[key] = jax.dlpack.from_dlpack(copy)
    return found


def _as_int32(key: str, values: Tensor) -> Tensor:
    if values.numel() > 0:
        low, high = (int(end) for end in values.aminmax())
        if low < _INT32.min or high > _INT32.max:
            raise ValueError(
                f"{key}: expected int64 values that fit int32, got {low} to {high} "
                "(jax.config.update('jax_enable_x64', True) keeps int64; or leave the key out)"
            )
    return values.to(torch.int32)
