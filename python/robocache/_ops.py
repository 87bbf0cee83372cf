"""The compiled operators: fake kernels, autograd, and how they are reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from robocache import _checks, _errors, _library, _options

# ---- fake kernels: shapes and dtypes, for torch.compile and torch.export -----------------------


def _fake_resample_valid(
    values: Tensor,
    source_times: Tensor,
    target_times: Tensor,
    source_lengths: Tensor | None,
    source_valid: Tensor | None,
    subtract: Tensor | None,
    multiply: Tensor | None,
    layout: Sequence[int] | None,
    options: int,
    max_gap_ns: int,
    tolerance_ns: int,
    max_gap_s: float,
    tolerance_s: float,
) -> tuple[Tensor, Tensor]:
    batch = _checks.check_tensors(
        values,
        source_times,
        target_times,
        source_lengths,
        source_valid,
        subtract,
        multiply,
        layout,
        options,
    )
    shape = [target_times.size(-1)] if batch is None else [batch, target_times.size(-1)]
    out_dtype = _options.out_dtype_of(options, values.dtype)
    return (
        values.new_empty([*shape, values.size(-1)], dtype=out_dtype),
        values.new_empty(shape, dtype=torch.bool),
    )


def _fake_resample(*arguments: Any) -> Tensor:
    return _fake_resample_valid(*arguments)[0]


def _fake_resample_backward(
    grad: Tensor,
    values: Tensor | None,
    source_times: Tensor,
    target_times: Tensor,
    source_lengths: Tensor | None,
    multiply: Tensor | None,
    layout: Sequence[int] | None,
    options: int,
    tolerance_ns: int,
    tolerance_s: float,
    values_shape: Sequence[int],
) -> Tensor:
    return grad.new_empty(values_shape, dtype=_options.values_dtype_of(options))


# ---- the operators ---------------------------------------------------------------------------

try:
    _library.load()
except ImportError as error:
    # The pytorch backend goes without the library; whatever needs it says what is wrong.
    _problem = str(error)

    def _missing(*arguments: Any) -> NoReturn:
        raise ImportError(_problem)

    resample: Any = _missing
    resample_valid: Any = _missing
    _resample_backward: Any = _missing
else:
    resample = torch.ops.robocache.resample.default
    resample_valid = torch.ops.robocache.resample_valid.default
    _resample_backward = torch.ops.robocache.resample_backward.default
    torch.library.register_fake("robocache::resample", _fake_resample)
    torch.library.register_fake("robocache::resample_valid", _fake_resample_valid)
    torch.library.register_fake("robocache::resample_backward", _fake_resample_backward)


# ---- autograd --------------------------------------------------------------------------------


class _Differentiable(torch.autograd.Function):
    """The operators with a gradient to the values.

    A Function that is only applied where a gradient is wanted, since an autograd kernel registered
    for the operators would cost every call 5 microseconds.
    """

    @staticmethod
    def forward(
        ctx: Any,
        operator: Any,
        values: Tensor,
        source_times: Tensor,
        target_times: Tensor,
        source_lengths: Tensor | None,
        source_valid: Tensor | None,
        subtract: Tensor | None,
        multiply: Tensor | None,
        layout: Sequence[int] | None,
        options: int,
        max_gap_ns: int,
        tolerance_ns: int,
        max_gap_s: float,
        tolerance_s: float,
    ) -> Any:
        # Only a slerp's gradient depends on the values: nothing else keeps them alive.
        methods = [options & 15] if layout is None else layout[::2]
        needs_values = any(method in _options.SLERPS for method in methods)
        ctx.save_for_backward(
            values if needs_values else None, source_times, target_times, source_lengths, multiply
        )
        ctx.needs_values = needs_values
        ctx.layout = layout
        values_code = _options.DTYPE_CODES[values.dtype]
        ctx.options = options | values_code << _options.VALUES_DTYPE_SHIFT
        ctx.tolerance_ns = tolerance_ns
        ctx.tolerance_s = tolerance_s
        ctx.values_have_batch = values.dim() == 3
        result = operator(
            values,
            source_times,
            target_times,
            source_lengths,
            source_valid,
            subtract,
            multiply,
            layout,
            options,
            max_gap_ns,
            tolerance_ns,
            max_gap_s,
            tolerance_s,
        )
        if isinstance(result, tuple):
            ctx.mark_non_differentiable(result[1])
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *more: Tensor) -> tuple[Tensor | None, ...]:
        # Said here and not by once_differentiable: that looks at `grad` alone, where a slerp's
        # gradient depends on the values too, and lets allow_unused take its refusal for a zero.
        if torch.is_grad_enabled() and (ctx.needs_values or grad.requires_grad):
            raise ValueError(
                "backend: expected 'pytorch' for second derivatives (create_graph=True), "
                f"got {grad.device.type!r}"
            )
        return _Differentiable.first_order(ctx, grad, *more)

    @staticmethod
    @once_differentiable
    def first_order(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        values, source_times, target_times, source_lengths, multiply = ctx.saved_tensors
        shape = [source_times.size(-1), grad.size(-1)]
        if ctx.values_have_batch:
            shape.insert(0, grad.size(0))
        elif grad.dim() == 3 and target_times.dim() == 1:
            # The batch may come from the source's mask, which the operator is not given here.
            target_times = target_times.expand(grad.size(0), -1)
        arguments = (
            grad,
            values,
            source_times,
            target_times,
            source_lengths,
            multiply,
            ctx.layout,
            ctx.options,
            ctx.tolerance_ns,
            ctx.tolerance_s,
            shape,
        )
        try:
            grad_values = _resample_backward(*arguments)
        except (RuntimeError, ValueError) as error:
            translated = _errors.translated(
                error, _resample_backward, arguments, {"grad": 0, "source_times": 2}
            )
            if translated is None:
                raise
            raise translated from None
        return None, grad_values, *[None] * 12


def differentiable(operator: Any, *arguments: Any) -> Any:
    """`operator(*arguments)`, with a gradient to the values."""
    return _Differentiable.apply(operator, *arguments)
