"""Checks values for `config(validate=True)`: lengths lie in [0,S], and times ascend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import torch
from torch import Tensor

from robocache.align import options as _options
from robocache.align.call import Call, argument_name, runs_of
from robocache.align.call_checks import check_call
from robocache.core.tensor_checks import shape_text


def validated(call: Call) -> Tensor:
    """Returns `target_times` of a parsed call after checking the call's shapes and values.

    Checks that lengths lie in [0,S], that source times ascend, and that target times ascend if a
    stream has a sum. Synchronizes with the device once.
    """
    batch = check_call(call)
    streams = _times_of(call)
    if torch.compiler.is_compiling():
        copy: Tensor = _validated_copy(
            [stream.times for stream in streams],
            [stream.lengths for stream in streams],
            [stream.has_sum for stream in streams],
            ",".join(stream.prefix for stream in streams),
            call.target_times,
            batch,
        )
        return copy
    refuse_while_capturing(call.target_times)
    _check(streams, call.target_times, batch)
    return call.target_times


def check_values(call: Call) -> None:
    """Checks the values of a parsed call."""
    _check(_times_of(call), call.target_times, check_call(call))


class _Times(NamedTuple):
    """The parts of a stream that this module checks."""

    prefix: str
    times: Tensor
    lengths: Tensor | None
    has_sum: bool


def _times_of(call: Call) -> list[_Times]:
    return [
        _Times(
            stream.prefix,
            stream.times,
            stream.lengths,
            any(method == _options.SUM for method, _ in runs_of(stream)),
        )
        for stream in call.streams
    ]


# Compiled code cannot branch on values, but it can call an operator that does. The operator returns
# the times, so that later calls depend on it; a copy, since it may not return its argument.
@torch.library.custom_op("robocache::validated_copy", mutates_args=())
def _validated_copy(
    times: Sequence[Tensor],
    lengths: Sequence[Tensor | None],
    has_sum: Sequence[bool],
    prefixes: str,
    target_times: Tensor,
    batch: int | None,
) -> Tensor:
    refuse_while_capturing(target_times)
    streams = zip(prefixes.split(","), times, lengths, has_sum, strict=True)
    _check([_Times(*stream) for stream in streams], target_times, batch)
    return target_times.clone()


@_validated_copy.register_fake
def _(
    times: Sequence[Tensor],
    lengths: Sequence[Tensor | None],
    has_sum: Sequence[bool],
    prefixes: str,
    target_times: Tensor,
    batch: int | None,
) -> Tensor:
    return torch.empty_like(target_times)


def _check(streams: Sequence[_Times], target_times: Tensor, batch: int | None) -> None:
    if batch == 0 or target_times.is_meta:  # there are no values
        return
    faults = [_faults(stream, target_times) for stream in streams]
    flags = torch.stack([fault.any() for group in faults for fault in group]).tolist()
    if not any(flags):
        return
    for stream, (beyond, unordered, targets_unordered) in zip(streams, faults, strict=True):
        if stream.lengths is not None and beyond.any():
            at = beyond.nonzero()[0].tolist()
            rows = stream.times.size(-1)
            got = str(stream.lengths[tuple(at)].item())
            _refuse(argument_name(stream.prefix, "lengths"), f"0 to S={rows}", got, at)
        if unordered.any():
            name = argument_name(stream.prefix, "times")
            _refuse_order(name, "ascending times", stream.times, unordered)
        if targets_unordered.any():
            expected = "ascending times for method 'sum'"
            _refuse_order("target_times", expected, target_times, targets_unordered)


def refuse_while_capturing(tensor: Tensor) -> None:
    """Raises ValueError during the capture of a CUDA graph, which cannot include a wait.

    Reading the values of a GPU tensor waits for the GPU.
    """
    if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
        raise ValueError(
            "validate: expected False while a CUDA graph is captured (it waits for the GPU), "
            "got True"
        )


def _faults(stream: _Times, target_times: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Masks of lengths out of range, and of source times and target times out of order."""
    times, lengths = stream.times, stream.lengths
    unordered = times.isnan()
    unordered[..., 1:] |= times[..., 1:] < times[..., :-1]
    beyond = unordered.new_zeros(())
    if lengths is not None:
        rows = times.size(-1)
        beyond = (lengths < 0) | (lengths > rows)
        exists = torch.arange(rows, device=times.device) < lengths.unsqueeze(-1)
        if exists.dim() > times.dim():  # shared times: the rows of the longest episode
            exists = exists.any(0)
        unordered = unordered & exists
    targets_unordered = unordered.new_zeros(())
    if stream.has_sum and target_times.size(-1) > 0:
        targets_unordered = target_times < _latest_before(target_times)
    return beyond, unordered, targets_unordered


def _latest_before(times: Tensor) -> Tensor:
    """For each time the latest one before it, without NaN; for the first the dtype's minimum."""
    least = -math.inf if times.is_floating_point() else _options.MIN_INT64
    latest = torch.where(times.isnan(), least, times).cummax(-1).values
    return torch.nn.functional.pad(latest, (1, 0), value=least)[..., :-1]


def _refuse_order(name: str, expected: str, times: Tensor, unordered: Tensor) -> NoReturn:
    at = unordered.nonzero()[0].tolist()
    episode = times if times.dim() == 1 else times[at[0]]
    row = at[-1]
    got = _text(episode[row])
    if got != "nan":
        # NaN targets are ignored; a NaN source time before this one would be reported first.
        before = episode[:row]
        got += f" after {_text(before[~before.isnan()][-1])}" if row > 0 else ""
    _refuse(name, expected, got, at)


def _refuse(name: str, expected: str, got: str, at: Sequence[int]) -> NoReturn:
    raise ValueError(f"{name}: expected {expected}, got {got} at {shape_text(at)}")


def _text(time: Tensor) -> str:
    return f"{time.item():.9g}" if time.is_floating_point() else str(time.item())
