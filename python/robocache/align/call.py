"""A call of alignment: its streams, its timeline and its options.

Resampling is the fusion of one stream.

The public functions put the user's arguments into a :class:`Call`. `parse` checks types, names and
numbers, and converts numbers to Python's; `packing.pack` does the same while it packs the arguments
of the operator. `call_checks` checks shapes, dtypes and devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn, TypeAlias

import torch
from torch import Tensor

from robocache.align import options as _options
from robocache.align.options import METHODS
from robocache.core import tensor_checks

# The arguments of resample_trajectories, and of fuse_multimodal by modality; fuse has the names of
# Stream's fields after a prefix.
_RESAMPLE_NAMES = {
    "values": "data",
    "times": "source_times",
    "lengths": "source_lengths",
    "valid": "source_valid",
}
MODALITIES = ("vision", "proprio", "force")


class StreamArguments(NamedTuple):
    """One stream of a call. The operator's call path uses a plain tuple, which is faster."""

    # The prefix of the argument names in messages: "streams[1]."; a modality; "" for resampling
    prefix: str
    values: Tensor  # [B,S,D] or [S,D]
    times: Tensor  # [B,S] or [S]
    method: str | Sequence[tuple[str, int]]
    # Durations: nanoseconds for int64 times, seconds for floating ones
    max_gap: float | None
    tolerance: float
    mean_window: float | None
    lengths: Tensor | None  # [B] or []
    valid: Tensor | None  # [B,S] or [S]
    subtract: Tensor | None  # [D]
    multiply: Tensor | None  # [D]
    clock_offset: float


class Call(NamedTuple):
    """A call's streams, timeline and options; like StreamArguments often a plain tuple."""

    streams: Sequence[StreamArguments]
    target_times: Tensor  # [B,T] or [T]
    outside: str
    out_dtype: torch.dtype | None  # None: the dtype of the first stream's values
    return_valid: bool
    return_age: bool
    is_fusion: bool  # the mask and the age have a column for each stream


# A Call, or a plain tuple of its fields whose streams may be plain tuples too.
Arguments: TypeAlias = tuple[
    Sequence[tuple[Any, ...]], Tensor, str, torch.dtype | None, bool, bool, bool
]


# ---- checks of types, names and numbers ----------------------------------------------------------


def parse(arguments: Arguments) -> Call:
    """The call with Python's numbers, after checks of types, names and numbers.

    Raises:
        ValueError, TypeError: `<argument>: expected ..., got ...`.
    """
    streams, target_times, outside, out_dtype, return_valid, return_age, is_fusion = arguments
    parsed = [_parse_stream(StreamArguments(*stream)) for stream in streams]
    check_target_times(target_times, is_fusion)
    if outside != "hold":
        _options.outside_code(outside)
    return Call(parsed, target_times, outside, out_dtype, return_valid, return_age, is_fusion)


def _parse_stream(stream: StreamArguments) -> StreamArguments:
    prefix, times = stream.prefix, stream.times
    for part in ("values", "times"):
        if not isinstance(getattr(stream, part), Tensor):
            refuse_type(prefix, part, getattr(stream, part))
    if times.requires_grad:
        refuse_gradient(prefix, "times")
    for part in ("lengths", "valid"):
        tensor = getattr(stream, part)
        if tensor is not None and not isinstance(tensor, Tensor):
            refuse_type(prefix, part, tensor)
    for part in ("subtract", "multiply"):
        if getattr(stream, part) is not None:
            check_scale(prefix, part, getattr(stream, part))
    durations: dict[str, Any] = {}
    for part in ("max_gap", "tolerance", "mean_window", "clock_offset"):
        value = getattr(stream, part)
        if value is None and part in ("max_gap", "mean_window"):
            continue
        if type(value) is not int or value != 0 or part in ("max_gap", "mean_window"):
            durations[part] = parse_duration(prefix, part, value, times)
    method = stream.method
    if not isinstance(method, str) or method not in METHODS:
        method = parse_layout(prefix, method)
    return stream._replace(method=method, **durations)


def check_target_times(target_times: object, is_fusion: bool) -> None:
    """Checks that target times are a tensor without a gradient."""
    if not isinstance(target_times, Tensor):
        tensor_checks.check_type("target_times", target_times)
    elif target_times.requires_grad:
        tensor_checks.refuse_gradient("target_times", "the values" if is_fusion else "data")


def parse_duration(prefix: str, part: str, value: object, times: Tensor) -> float:
    """A duration in the unit of the times: an int of nanoseconds or a float of seconds."""
    may_be_negative = part == "clock_offset"
    return _options.parse_duration(argument_name(prefix, part), value, times.dtype, may_be_negative)


def parse_layout(prefix: str, method: Any) -> list[tuple[str, int]]:
    """The (name, width) pairs of a layout; raises ValueError for an unknown name."""
    name = argument_name(prefix, "method")
    if isinstance(method, str):  # an unknown name
        _options.refuse_name(name, method)
    return _options.parse_layout(name, method)


def check_scale(prefix: str, part: str, scale: object) -> None:
    """Checks that `subtract` or `multiply` is a tensor without a gradient."""
    if not isinstance(scale, Tensor):
        refuse_type(prefix, part, scale)
    if scale.requires_grad:
        refuse_gradient(prefix, part)


def refuse_type(prefix: str, part: str, got: object) -> NoReturn:
    """Raises TypeError for a part of a stream that is not a tensor."""
    name = argument_name(prefix, part)
    raise TypeError(f"{name}: expected a torch.Tensor, got {type(got).__name__}")


def refuse_gradient(prefix: str, part: str) -> NoReturn:
    """Raises ValueError for a part of a stream that must not require a gradient."""
    tensor_checks.refuse_gradient(argument_name(prefix, part), "the values" if prefix else "data")


# ---- names and parts -----------------------------------------------------------------------------


def name_of(stream: StreamArguments, part: str) -> str:
    """The name of a part of a stream in the public function that was called."""
    return argument_name(stream.prefix, part)


def argument_name(prefix: str, part: str) -> str:
    """The name of a part of a stream in the public function that was called."""
    if not prefix:
        return _RESAMPLE_NAMES.get(part, part)
    if prefix not in MODALITIES:
        return prefix + part
    if part == "values":
        return prefix
    return f"{prefix}_times" if part == "times" else f"{part} of {prefix}"


def runs_of(stream: StreamArguments) -> list[tuple[int, int]]:
    """(method, width) of each run of a parsed stream."""
    if isinstance(stream.method, str):
        return [(METHODS[stream.method], stream.values.size(-1))]
    return [(METHODS[name], width) for name, width in stream.method]


def out_dtype_of(call: Call) -> torch.dtype:
    """The dtype of a call's result."""
    return call.streams[0].values.dtype if call.out_dtype is None else call.out_dtype
