"""The compiled operators: fake kernels, autograd, and how calls reach them.

The arguments of `align` are those of a call, (tensors, target_times, streams, options), as
align/call.py says. It returns a list: the values, the mask where it is wanted, the age where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from robocache.align import options as _options
from robocache.align import validation
from robocache.align.call import (
    Call,
    StreamArguments,
    name_of,
    optional_tensors,
    runs_of,
    unpack,
)
from robocache.align.call_checks import check_call
from robocache.align.pytorch import align as _pytorch
from robocache.core import config, dtypes, errors, library

# ---- fake kernels: shapes and dtypes, for torch.compile and torch.export -----------------------


def _fake_align(
    tensors: Sequence[Tensor], target_times: Tensor, streams: Sequence[int], options: int
) -> list[Tensor]:
    call = unpack(tensors, target_times, streams, options)
    batch = check_call(call)
    shape = [target_times.size(-1)] if batch is None else [batch, target_times.size(-1)]
    first = call.streams[0].values
    channels = sum(stream.values.size(-1) for stream in call.streams)
    results = [
        first.new_empty([*shape, channels], dtype=_options.out_dtype_of(options, first.dtype))
    ]
    if options & _options.IS_FUSION:
        shape = [*shape, len(call.streams)]
    if options & _options.WANTS_VALID:
        results.append(first.new_empty(shape, dtype=torch.bool))
    if options & _options.WANTS_AGE:
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
    options: int,
    values_shape: Sequence[int],
) -> Tensor:
    return grad.new_empty(values_shape, dtype=_options.values_dtype_of(options))


# ---- the operators ---------------------------------------------------------------------------

_align = library.operator("align", _fake_align)
_align_backward = library.operator("align_backward", _fake_align_backward)


def align(
    native: bool,
    needs_grad: bool,
    tensors: list[Tensor],
    target_times: Tensor,
    streams: list[int],
    options: int,
) -> Sequence[Tensor]:
    """A call, on the library's own backend or on pytorch: values, and mask and age where wanted.

    Raises what is wrong with it as ValueError, TypeError and torch.OutOfMemoryError.
    """
    # The cpu backend always validates.
    if config.validate and not (native and target_times.is_cpu):
        target_times = validation.validated(tensors, target_times, streams, options)
    if not native:
        return _align_pytorch(tensors, target_times, streams, options)
    results: Sequence[Tensor]
    try:
        if needs_grad and torch.is_grad_enabled():
            results = _Differentiable.apply(target_times, streams, options, *tensors)
        else:
            results = _align(tensors, target_times, streams, options)
    except (RuntimeError, ValueError) as error:
        failure = _failure(error, tensors, target_times, streams, options)
        if failure is None:
            raise
        raise failure from None
    return results


def _failure(
    error: Exception, tensors: list[Tensor], target_times: Tensor, streams: list[int], options: int
) -> Exception | None:
    """What to raise in place of an error of the operator's; None: the same.

    What is wrong with the arguments, in the words that all backends share, if these have words for
    it; else what the operator said.
    """
    try:
        call = unpack(tensors, target_times, streams, options)
        check_call(call)
    except (TypeError, ValueError) as refusal:
        return refusal
    named = {name_of(stream, "values"): stream.values for stream in call.streams}
    named["target_times"] = target_times
    return errors.translated(
        error,
        lambda *_: _align(tensors, target_times, streams, options),
        tuple(named.values()),
        {name: i for i, name in enumerate(named)},
    )


def _align_pytorch(
    tensors: list[Tensor], target_times: Tensor, streams: list[int], options: int
) -> Sequence[Tensor]:
    results = _pytorch.align(unpack(tensors, target_times, streams, options))
    if options & _options.IS_FUSION:
        return results
    return [results[0], *[column.squeeze(-1) for column in results[1:]]]


# ---- autograd --------------------------------------------------------------------------------


class _Differentiable(torch.autograd.Function):
    """The operator with a gradient to the values of every stream.

    A Function that is only applied where a gradient is wanted, since an autograd kernel registered
    for the operator would cost every call 5 microseconds.
    """

    @staticmethod
    def forward(
        ctx: Any, target_times: Tensor, streams: list[int], options: int, *tensors: Tensor
    ) -> Any:
        call = unpack(tensors, target_times, streams, options)
        ctx.save_for_backward(target_times, *_kept(call))
        ctx.streams = [list(stream.packed) for stream in call.streams]
        ctx.needs_values = [_depends_on_values(stream) for stream in call.streams]
        ctx.optional = [len(optional_tensors(stream)) for stream in call.streams]
        ctx.values_are_batched = [stream.values.dim() == 3 for stream in call.streams]
        ctx.widths = [stream.values.size(-1) for stream in call.streams]
        ctx.options = [
            options & 3 | dtypes.DTYPE_CODES[stream.values.dtype] << _options.VALUES_DTYPE_SHIFT
            for stream in call.streams
        ]
        results = tuple(_align(list(tensors), target_times, streams, options))
        ctx.mark_non_differentiable(*results[1:])
        return results

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *more: Tensor) -> tuple[Tensor | None, ...]:
        # Said here and not by once_differentiable: that looks at `grad` alone, where a slerp's
        # gradient depends on the values too, and lets allow_unused take its refusal for a zero.
        if torch.is_grad_enabled() and (any(ctx.needs_values) or grad.requires_grad):
            errors.refuse_second_derivatives(grad)
        return _Differentiable.first_order(ctx, grad, *more)

    @staticmethod
    @once_differentiable
    def first_order(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        target_times, *kept = ctx.saved_tensors
        if grad.dim() == 3 and target_times.dim() == 1:
            # The batch may come from another stream, which the operator is not given here.
            target_times = target_times.expand(grad.size(0), -1)
        grads: list[Tensor | None] = [None, None, None]
        column = 0
        for i, packed in enumerate(ctx.streams):
            values, *tensors = kept[: 2 + ctx.optional[i]]
            kept = kept[2 + ctx.optional[i] :]
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
                    ctx.options[i],
                    shape,
                )
            grads += [grad_values, *[None] * len(tensors)]
            column += width
        return tuple(grads)


def _depends_on_values(stream: StreamArguments) -> bool:
    return any(method in _options.SLERPS for method, _ in runs_of(stream))


def _kept(call: Call) -> list[Tensor | None]:
    """What the backward pass needs: of values, only those that its gradient depends on."""
    kept: list[Tensor | None] = []
    for stream in call.streams:
        kept.append(stream.values if _depends_on_values(stream) else None)
        kept += [stream.times, *optional_tensors(stream)]
    return kept


def _backward(*arguments: Any) -> Tensor:
    try:
        grad_values: Tensor = _align_backward(*arguments)
    except (RuntimeError, ValueError) as error:
        errors.raise_translated(error, _align_backward, arguments, {"grad": 0})
    return grad_values
