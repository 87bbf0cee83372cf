"""The compiled operators of alignment: calls, fake kernels and autograd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from robocache.align import options as _options
from robocache.align import packing, validation
from robocache.align.call import (
    Arguments,
    Call,
    StreamArguments,
    name_of,
    out_dtype_of,
    parse,
    runs_of,
)
from robocache.align.call_checks import check_call
from robocache.align.pytorch import align as _pytorch
from robocache.core import config, dtypes, errors, library

# ---- fake kernels: shapes and dtypes, for torch.compile and torch.export -----------------------


def _fake_align(
    tensors: Sequence[Tensor], target_times: Tensor, streams: Sequence[int], options: int
) -> list[Tensor]:
    call = packing.read(tensors, target_times, streams, options)
    batch = check_call(call)
    shape = [target_times.size(-1)] if batch is None else [batch, target_times.size(-1)]
    first = call.streams[0].values
    channels = sum(stream.values.size(-1) for stream in call.streams)
    results = [first.new_empty([*shape, channels], dtype=out_dtype_of(call))]
    if call.is_fusion:
        shape = [*shape, len(call.streams)]
    if call.return_valid:
        results.append(first.new_empty(shape, dtype=torch.bool))
    if call.return_age:
        time_dtype = target_times.dtype
        for stream in call.streams:
            time_dtype = torch.promote_types(time_dtype, stream.times.dtype)
        results.append(first.new_empty(shape, dtype=time_dtype))
    return results


def _fake_align_backward(
    grad: Tensor,
    values: Tensor | None,
    tensors: Sequence[Tensor],
    target_times: Tensor,
    stream: Sequence[int],
    outside: int,
    values_dtype: int,
    values_shape: Sequence[int],
) -> Tensor:
    return grad.new_empty(values_shape, dtype=dtypes.ALL_DTYPES[values_dtype])


# ---- the operators ---------------------------------------------------------------------------

_align = library.operator("align", _fake_align)
_align_backward = library.operator("align_backward", _fake_align_backward)


def align(native: bool, needs_grad: bool, call: Arguments) -> Sequence[Tensor]:
    """Runs a call on the cpu or cuda backend, or on pytorch.

    Returns the values, then the mask and the age, each if requested.

    Raises:
        ValueError, TypeError: `<argument>: expected ..., got ...`.
        torch.OutOfMemoryError: The result does not fit in memory.
    """
    if not native:
        call = parse(call)
        if config.validate:
            call = call._replace(target_times=validation.validated(call))
        return _align_pytorch(call)
    if config.validate:
        call = parse(call)
        if not call.target_times.is_cpu:  # the cpu backend always validates
            call = call._replace(target_times=validation.validated(call))
    if needs_grad and torch.is_grad_enabled():
        return _differentiable(parse(call))
    tensors, streams, options = packing.pack(call)
    results: Sequence[Tensor]
    try:
        results = _align(tensors, call[1], streams, options)
    except (RuntimeError, ValueError) as error:
        _raise_translated(error, parse(call))
    return results


def _raise_translated(error: Exception, call: Call) -> NoReturn:
    """Raises an operator's error with the names of the caller's arguments, as other backends."""
    check_call(call)
    if call.target_times.is_cpu and errors.is_value_error(error):
        validation.check_values(call)
    named = {name_of(stream, "values"): stream.values for stream in call.streams}
    named["target_times"] = call.target_times
    tensors, streams, options = packing.pack(call)
    errors.raise_translated(
        error,
        lambda *_: _align(tensors, call.target_times, streams, options),
        tuple(named.values()),
        {name: i for i, name in enumerate(named)},
    )


def _align_pytorch(call: Call) -> Sequence[Tensor]:
    results = _pytorch.align(call)
    if call.is_fusion:
        return results
    return [results[0], *[column.squeeze(-1) for column in results[1:]]]


# ---- autograd --------------------------------------------------------------------------------


def _differentiable(call: Call) -> Sequence[Tensor]:
    _, _, options = packing.pack(call)
    packed = [packing.pack(call._replace(streams=[stream])) for stream in call.streams]
    results: Sequence[Tensor]
    try:
        results = _Differentiable.apply(
            call.target_times,
            [integers for _, integers, _ in packed],
            options,
            _options.OUTSIDES[call.outside],
            [len(tensors) for tensors, *_ in packed],
            [_depends_on_values(stream) for stream in call.streams],
            *[tensor for tensors, *_ in packed for tensor in tensors],
        )
    except (RuntimeError, ValueError) as error:
        _raise_translated(error, call)
    return results


class _Differentiable(torch.autograd.Function):
    """The operator with a gradient to the values of every stream.

    Applied only if a gradient is needed: an autograd kernel registered for the operator would cost
    every call 5 microseconds.
    """

    @staticmethod
    def forward(
        ctx: Any,
        target_times: Tensor,
        streams: list[list[int]],  # the packed integers of each stream
        options: int,
        outside: int,
        counts: list[int],  # the number of each stream's tensors
        needs_values: list[bool],  # whether the gradient depends on the values
        *tensors: Tensor,
    ) -> Any:
        saved: list[Tensor | None] = []
        values_of_streams = []
        at = 0
        for count, needed in zip(counts, needs_values, strict=True):
            values, *others = tensors[at : at + count]
            values_of_streams.append(values)
            saved += [values if needed else None, *others]
            at += count
        ctx.save_for_backward(target_times, *saved)
        ctx.streams, ctx.outside, ctx.counts, ctx.needs_values = (
            streams, outside, counts, needs_values,
        )  # fmt: skip
        ctx.values_are_batched = [values.dim() == 3 for values in values_of_streams]
        ctx.widths = [values.size(-1) for values in values_of_streams]
        ctx.dtypes = [dtypes.number_of(values.dtype) for values in values_of_streams]
        integers = [integer for stream in streams for integer in stream]
        results = tuple(_align(list(tensors), target_times, integers, options))
        ctx.mark_non_differentiable(*results[1:])
        return results

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *more: Tensor) -> tuple[Tensor | None, ...]:
        # once_differentiable checks `grad` alone, although a slerp's gradient depends on the values
        # too, and allow_unused turns its error into a zero.
        if torch.is_grad_enabled() and (any(ctx.needs_values) or grad.requires_grad):
            errors.refuse_second_derivatives(grad)
        return _Differentiable.first_order(ctx, grad, *more)

    @staticmethod
    @once_differentiable
    def first_order(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        target_times, *saved = ctx.saved_tensors
        if grad.dim() == 3 and target_times.dim() == 1:
            # B may be the batch size of another stream, which this operator does not receive.
            target_times = target_times.expand(grad.size(0), -1)
        grads: list[Tensor | None] = [None] * 6
        column = at = 0
        for i, packed in enumerate(ctx.streams):
            values, *tensors = saved[at : at + ctx.counts[i]]
            at += ctx.counts[i]
            width = ctx.widths[i]
            grad_values = None
            if ctx.needs_input_grad[len(grads)]:
                shape = [tensors[0].size(-1), width]
                if ctx.values_are_batched[i]:
                    shape.insert(0, grad.size(0))
                grad_values = _backward(
                    grad.narrow(-1, column, width),
                    values,
                    tensors,
                    target_times,
                    packed,
                    ctx.outside,
                    ctx.dtypes[i],
                    shape,
                )
            grads += [grad_values, *[None] * len(tensors)]
            column += width
        return tuple(grads)


def _depends_on_values(stream: StreamArguments) -> bool:
    return any(method in _options.SLERPS for method, _ in runs_of(stream))


def _backward(*arguments: Any) -> Tensor:
    try:
        grad_values: Tensor = _align_backward(*arguments)
    except (RuntimeError, ValueError) as error:
        errors.raise_translated(error, _align_backward, arguments, {"grad": 0})
    return grad_values
