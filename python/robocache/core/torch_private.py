"""Torch's private functions that robocache calls, each with a public one for versions without it.

The private ones save a call of the loader or of an operation a microsecond or more.
No other module of the package names a private function of torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad


def _private(path: str, public: Callable[..., Any]) -> Callable[..., Any]:
    """The function at a dotted path of torch, or the public one where this version lacks it."""
    function: Any = torch
    for name in path.split("."):
        function = getattr(function, name, None)
    return public if function is None else function


# ---- public replacements -------------------------------------------------------------------------


def _public_empty_strided_cpu(
    size: Sequence[int], stride: Sequence[int], dtype: torch.dtype
) -> Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device="cpu")


def _public_empty_strided_cuda(
    size: Sequence[int], stride: Sequence[int], dtype: torch.dtype
) -> Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


def _public_cuda_stream(device_index: int) -> int:
    stream: int = torch.cuda.current_stream(device_index).cuda_stream
    return stream


def _public_cuda_device() -> int:
    return torch.cuda.current_device()


def _public_is_capturing() -> bool:
    return torch.cuda.is_current_stream_capturing()


def _public_range_push(name: str) -> None:
    torch.cuda.nvtx.range_push(name)


def _public_range_pop() -> None:
    torch.cuda.nvtx.range_pop()


def _public_is_wrapped(tensor: Tensor) -> bool:
    # The wrappers of torch.func have no memory of their own.
    try:
        tensor.data_ptr()
    except RuntimeError:
        return True
    return False


class _AnyLevel:
    """Stands for forward_ad in versions that do not tell the level of forward-mode derivatives."""

    _current_level = 0


def _public_copy_each(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)


# ---- what the package calls ----------------------------------------------------------------------

# Allocate a tensor of (size, stride, dtype) on the CPU or the current CUDA device. Compiled code of
# torch allocates by them, in half the time of torch.empty.
empty_strided_cpu = _private("_C._dynamo.guards._empty_strided_cpu", _public_empty_strided_cpu)
empty_strided_cuda = _private("_C._dynamo.guards._empty_strided_cuda", _public_empty_strided_cuda)

# The index of the current device, the address of a device's current stream, and whether the current
# stream is being captured in a graph.
cuda_device = _private("_C._cuda_getDevice", _public_cuda_device)
cuda_stream = _private("_C._cuda_getCurrentRawStream", _public_cuda_stream)
is_capturing = _private("_C._cuda_isCurrentStreamCapturing", _public_is_capturing)

# A range in NVIDIA's profiler.
range_push = _private("_C._nvtx.rangePushA", _public_range_push)
range_pop = _private("_C._nvtx.rangePop", _public_range_pop)

# Whether a tensor is one of torch.func's wrappers, of vmap or grad.
is_wrapped = _private("_C._functorch.is_functorch_wrapped_tensor", _public_is_wrapped)

# Its `_current_level` is -1 where no forward-mode derivatives are computed.
forward_level: Any = forward_ad if hasattr(forward_ad, "_current_level") else _AnyLevel

# Copies each of some tensors into its target, on a GPU in one launch.
copy_each = _private("_foreach_copy_", _public_copy_each)


def mark_constant(function: Callable[..., Any]) -> None:
    """Has torch.compile take a function's result as a constant.

    As torch.compiler.assume_constant_result does, without importing Dynamo, which takes seconds.
    """
    function.__dict__["_dynamo_marked_constant"] = True


def register_mapping(
    kind: type, flatten: Callable[[Any], tuple[list[Any], Any]], unflatten: Callable[..., Any]
) -> None:
    """Has torch's pytrees look into a mapping type of this package, as they do into dicts.

    Args:
        kind: The type.
        flatten: Returns the values of a mapping, and its keys: a sequence that compares equal for
            mappings with the same keys.
        unflatten: Makes a mapping of values and keys.
    """
    register = _private("utils._pytree.register_pytree_node", lambda *_, **__: None)
    key_of = _private("utils._pytree.MappingKey", str)

    def flatten_with_keys(mapping: Any) -> tuple[list[tuple[Any, Any]], Any]:
        values, keys = flatten(mapping)
        return [(key_of(key), value) for key, value in zip(keys, values, strict=True)], keys

    register(
        kind,
        flatten,
        unflatten,
        serialized_type_name=f"{kind.__module__}.{kind.__qualname__}",
        flatten_with_keys_fn=flatten_with_keys,
    )
