"""What `config(validate=True)` asks for: looking at the values of times and lengths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NoReturn

import torch
from torch import Tensor

from robocache.align import options as _options
from robocache.align.call import StreamArguments, name_of, runs_of, unpack
from robocache.align.call_checks import check_call
from robocache.core.tensor_checks import shape_text


def validated(
    tensors: Sequence[Tensor], target_times: Tensor, streams: Sequence[int], options: int
) -> Tensor:
    """`target_times` of a call (align/call.py) whose lengths lie in [0,S] and whose times ascend.

    Target times must ascend where a stream has a sum, source times always. Synchronizes once.
    """
    if torch.compiler.is_compiling():
        copy: Tensor = _validated_copy(tensors, target_times, streams, options)
        return copy
    _check(tensors, target_times, streams, options)
    return target_times


# Compiled code cannot branch on values, but it can call an operator that does. It returns the times
# so that the calls after it depend on it, and a copy since an operator may not return its argument.
@torch.library.custom_op("robocache::validated_copy", mutates_args=())
def _validated_copy(
    tensors: Sequence[Tensor], target_times: Tensor, streams: Sequence[int], options: int
) -> Tensor:
    _check(tensors, target_times, streams, options)
    return target_times.clone()


@_validated_copy.register_fake
def _(
    tensors: Sequence[Tensor], target_times: Tensor, streams: Sequence[int], options: int
) -> Tensor:
    check_call(unpack(tensors, target_times, streams, options))
    return torch.empty_like(target_times)


def _check(
    tensors: Sequence[Tensor], target_times: Tensor, streams: Sequence[int], options: int
) -> None:
    call = unpack(tensors, target_times, streams, options)
    batch = check_call(call)
    refuse_while_capturing(target_times)
    if batch == 0 or target_times.is_meta:  # there are no values to look at
        return
    looks = [_look(stream, target_times) for stream in call.streams]
    wrong = torch.stack([fault.any() for look in looks for fault in look]).tolist()
    if not any(wrong):
        return
    for stream, look in zip(call.streams, looks, strict=True):
        beyond, unordered, targets_unordered = look
        if stream.lengths is not None and beyond.any():
            at = beyond.nonzero()[0].tolist()
            rows = stream.times.size(-1)
            got = str(stream.lengths[tuple(at)].item())
            _refuse(name_of(stream, "lengths"), f"0 to S={rows}", got, at)
        if unordered.any():
            _refuse_order(name_of(stream, "times"), "ascending times", stream.times, unordered)
        if targets_unordered.any():
            expected = "ascending times for method 'sum'"
            _refuse_order("target_times", expected, target_times, targets_unordered)


def refuse_while_capturing(tensor: Tensor) -> None:
    """Looking at the values of a tensor on a GPU waits for it, which a graph cannot."""
    if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
        raise ValueError(
            "validate: expected False while a CUDA graph is captured (it waits for the GPU), "
            "got True"
        )


def _look(stream: StreamArguments, target_times: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Where lengths are out of range, source times and target times out of order."""
    times, lengths = stream.times, stream.lengths
    unordered = times.isnan()
    unordered[..., 1:] |= times[..., 1:] < times[..., :-1]
    beyond = unordered.new_zeros(())
    if lengths is not None:
        rows = times.size(-1)
        beyond = (lengths < 0) | (lengths > rows)
        exists = torch.arange(rows, device=times.device) < lengths.unsqueeze(-1)
        if exists.dim() > times.dim():  # times that the batch shares: of the longest episode
            exists = exists.any(0)
        unordered = unordered & exists
    targets_unordered = unordered.new_zeros(())
    if target_times.size(-1) > 0 and any(m == _options.SUM for m, _ in runs_of(stream)):
        targets_unordered = target_times < _latest_before(target_times)
    return beyond, unordered, targets_unordered


def _latest_before(times: Tensor) -> Tensor:
    """The latest of the times before each, NaN passed over; at the first the least there is."""
    least = -math.inf if times.is_floating_point() else _options.MIN_INT64
    latest = torch.where(times.isnan(), least, times).cummax(-1).values
    return torch.nn.functional.pad(latest, (1, 0), value=least)[..., :-1]


def _refuse_order(name: str, expected: str, times: Tensor, unordered: Tensor) -> NoReturn:
    at = unordered.nonzero()[0].tolist()
    episode = times if times.dim() == 1 else times[at[0]]
    row = at[-1]
    got = _text(episode[row])
    if got != "nan":
        # Of targets NaN is passed over; of source times, one before would have been refused.
        before = episode[:row]
        got += f" after {_text(before[~before.isnan()][-1])}" if row > 0 else ""
    _refuse(name, expected, got, at)


def _refuse(name: str, expected: str, got: str, at: Sequence[int]) -> NoReturn:
    raise ValueError(f"{name}: expected {expected}, got {got} at {shape_text(at)}")


def _text(time: Tensor) -> str:
    return f"{time.item():.9g}" if time.is_floating_point() else str(time.item())
