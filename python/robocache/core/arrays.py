"""Operations on NumPy arrays, with NumPy arrays as results.

An operation whose first array is a NumPy array calls itself with tensors that share the memory, and
returns arrays. Operations never write to their arguments, so tensors share read-only arrays too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ArrayT = TypeVar("ArrayT", Tensor, NDArray[Any])
"""The arrays of a call: all are tensors, or all are NumPy's."""

_TAKEN_AS_NUMBERS = ("voxel_size", "origin")


def _stream_argument(i: int, part: str) -> str:
    return f"streams[{i}].{part}"


def call_with_arrays(
    operation: Callable[..., Any],
    arguments: dict[str, Any],
    stream_argument: Callable[[int, str], str] = _stream_argument,
) -> Any:
    """Calls an operation of tensors with NumPy arrays; returns NumPy arrays.

    Args:
        operation: A function of tensors.
        arguments: Its arguments by name, streams among them.
        stream_argument: The name of a part of stream i, for messages.

    Raises:
        TypeError: `<name>: expected ..., got ...`: a tensor beside arrays, a dtype that torch or
            NumPy lacks.
        Exception: What the operation raises.
    """
    shared: list[Tensor] = []
    converted = {
        name: value if name in _TAKEN_AS_NUMBERS else _tensors(name, value, shared)
        for name, value in arguments.items()
    }
    if isinstance(arguments.get("streams"), (list, tuple)):
        converted["streams"] = [
            _stream(partial(stream_argument, i), stream, shared)
            for i, stream in enumerate(arguments["streams"])
        ]
    if arguments.get("out_dtype") is not None:
        converted["out_dtype"] = _dtype(arguments["out_dtype"])
    owned = {tensor.untyped_storage().data_ptr() for tensor in shared}
    result = operation(**converted)
    if isinstance(result, Tensor):
        return _array(result, owned)
    arrays = [part if part is None else _array(part, owned) for part in result]
    return type(result)(*arrays) if hasattr(result, "_fields") else tuple(arrays)


def _tensors(name: str, value: Any, shared: list[Tensor]) -> Any:
    """Converts an argument from an array to a tensor, and adds the tensor to `shared`."""
    if isinstance(value, Tensor):
        raise TypeError(
            f"{name}: expected a numpy.ndarray as the other arrays are, got Tensor "
            "(torch.from_numpy makes tensors of those)"
        )
    if isinstance(value, np.ndarray):
        shared.append(share(name, value))
        return shared[-1]
    return value


def _stream(name_of: Callable[[str], str], stream: Any, shared: list[Tensor]) -> Any:
    """Converts a `robocache.Stream` of arrays to tensors; an episode's rows are unchanged."""
    if not hasattr(stream, "clock_offset"):
        return stream
    parts = {field.name: getattr(stream, field.name) for field in dataclasses.fields(stream)}
    return dataclasses.replace(
        stream, **{part: _tensors(name_of(part), value, shared) for part, value in parts.items()}
    )


class _Unlocked:
    """An array that may not be written to, for those that only read and ask for one that may."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array  # kept alive
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface


def share(name: str, array: NDArray[Any]) -> Tensor:
    """A tensor that shares the memory of an array, to be read; a copy if torch cannot address it.

    Raises:
        TypeError: `<name>: expected ..., got ...`: torch lacks the array's dtype.
    """
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if any(stride < 0 or stride % array.itemsize for stride in array.strides):
        array = array.copy()
    if not array.flags.writeable:
        array = np.asarray(_Unlocked(array))  # torch warns of a read-only array
    try:
        return torch.from_numpy(array)
    except TypeError:
        raise TypeError(
            f"{name}: expected an array of numbers that torch has, got {array.dtype}"
        ) from None


def _dtype(dtype: Any) -> Any:
    """Converts a NumPy dtype to a torch dtype; returns other values unchanged."""
    if isinstance(dtype, torch.dtype):
        if dtype == torch.bfloat16:
            raise TypeError("out_dtype: expected a dtype that NumPy has, got bfloat16")
        return dtype
    try:
        return share("out_dtype", np.empty(0, dtype)).dtype
    except TypeError:
        return dtype


def _array(tensor: Tensor, owned: set[int]) -> NDArray[Any]:
    """Converts a result to an array that shares no memory with an argument."""
    if tensor.numel() > 0 and tensor.untyped_storage().data_ptr() in owned:
        tensor = tensor.clone()
    return tensor.numpy()
