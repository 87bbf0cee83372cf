"""Packs a call into the arguments of the operator `align`, and unpacks them for its fake kernel.

The operator takes (tensors, target_times, streams, options). `tensors` holds each stream's values
and times, then its optional tensors; `streams` and `options` are integers of bit fields, which
bindings/torch/align_fields.h defines for C++ and Python. Packing is the last step before the
operator: all other Python code takes the :class:`Call`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from robocache.align import options as _options
from robocache.align.call import (
    Arguments,
    Call,
    StreamArguments,
    check_scale,
    check_target_times,
    parse_duration,
    parse_layout,
    refuse_gradient,
    refuse_type,
)
from robocache.align.options import METHOD_NAMES, METHODS
from robocache.core import dtypes, library

# {name: (shift, bits)}; empty without the compiled library, where no call is packed.
_FIELDS = library.align_fields()


def _shift(name: str) -> int:
    return _FIELDS[name][0] if _FIELDS else 0


def _flag(name: str) -> int:
    return 1 << _shift(name)


def _mask(name: str) -> int:
    return (1 << _FIELDS[name][1]) - 1 if _FIELDS else 0


_OUTSIDE, _OUT_DTYPE = _shift("outside"), _shift("out_dtype")
_RETURN_VALID, _RETURN_AGE = _flag("return_valid"), _flag("return_age")
_IS_FUSION = _flag("is_fusion")
_METHOD, _RUNS = _shift("method"), _shift("runs")
_LENGTHS, _VALID = _flag("lengths"), _flag("valid")
_SUBTRACT, _MULTIPLY = _flag("subtract"), _flag("multiply")
_MAX_GAP, _TOLERANCE = _flag("max_gap"), _flag("tolerance")
_MEAN_WINDOW, _CLOCK_OFFSET = _flag("mean_window"), _flag("clock_offset")
_METHOD_FLAGS = {name: code << _METHOD for name, code in METHODS.items()}
_ZERO = 0  # the default of durations, compared by identity, which is faster than a comparison


def pack(call: Arguments) -> tuple[list[Tensor], list[int], int]:
    """Packs a call into `tensors`, `streams` and `options`; checks it as `call.parse` does.

    One pass over the arguments, for speed: a small call on a GPU takes little longer than a launch.
    """
    streams, target_times, outside, out_dtype, return_valid, return_age, is_fusion = call
    tensors: list[Tensor] = []
    integers: list[int] = []
    for (
        prefix, values, times, method, max_gap, tolerance, mean_window,
        lengths, valid, subtract, multiply, clock_offset,
    ) in streams:  # fmt: skip
        if not isinstance(times, Tensor):
            refuse_type(prefix, "times", times)
        if times.requires_grad:
            refuse_gradient(prefix, "times")
        tensors += (values, times)
        flags = 0
        if lengths is not None:
            if not isinstance(lengths, Tensor):
                refuse_type(prefix, "lengths", lengths)
            tensors.append(lengths)
            flags |= _LENGTHS
        if valid is not None:
            if not isinstance(valid, Tensor):
                refuse_type(prefix, "valid", valid)
            tensors.append(valid)
            flags |= _VALID
        if subtract is not None:
            check_scale(prefix, "subtract", subtract)
            tensors.append(subtract)
            flags |= _SUBTRACT
        if multiply is not None:
            check_scale(prefix, "multiply", multiply)
            tensors.append(multiply)
            flags |= _MULTIPLY

        at = len(integers)
        integers.append(0)
        if max_gap is not None:
            integers.append(_packed(parse_duration(prefix, "max_gap", max_gap, times)))
            flags |= _MAX_GAP
        if tolerance is not _ZERO:
            integers.append(_packed(parse_duration(prefix, "tolerance", tolerance, times)))
            flags |= _TOLERANCE
        if mean_window is not None:
            integers.append(_packed(parse_duration(prefix, "mean_window", mean_window, times)))
            flags |= _MEAN_WINDOW
        if clock_offset is not _ZERO:
            duration = parse_duration(prefix, "clock_offset", clock_offset, times)
            integers.append(_packed(duration))
            flags |= _CLOCK_OFFSET

        if isinstance(method, str):
            if method not in _METHOD_FLAGS:
                parse_layout(prefix, method)
            flags |= _METHOD_FLAGS[method]
        else:
            layout = parse_layout(prefix, method)
            flags |= len(layout) << _RUNS
            for name, width in layout:
                integers.append(METHODS[name])
                integers.append(width)
        integers[at] = flags

    if not isinstance(target_times, Tensor) or target_times.requires_grad:
        check_target_times(target_times, is_fusion)
    options = 0
    if outside != "hold":
        options = _options.outside_code(outside) << _OUTSIDE
    if return_valid:
        options |= _RETURN_VALID
    if return_age:
        options |= _RETURN_AGE
    if is_fusion:
        options |= _IS_FUSION
    if out_dtype is not None:
        # 0 stands for the default. The operator refuses values of a dtype without a code.
        options |= (dtypes.NUMBERS.get(out_dtype, -1) + 1) << _OUT_DTYPE
    return tensors, integers, options


def _packed(duration: float) -> int:
    return duration if type(duration) is int else bits_of_seconds(duration)


def bits_of_seconds(seconds: float) -> int:
    """The bits of a float64: ``struct.unpack("<q", struct.pack("<d", seconds))[0]``.

    Computed by arithmetic, because torch.compile does not trace struct.
    """
    if seconds < 0:
        return bits_of_seconds(-seconds) + _options.MIN_INT64
    if seconds == 0:
        return 0
    if seconds == math.inf:
        return 0x7FF << 52
    mantissa, exponent = math.frexp(seconds)
    biased = exponent + 1022
    if biased <= 0:  # subnormal
        return int(math.ldexp(seconds, 1074))
    return (biased << 52) + int(math.ldexp(mantissa, 53)) - (1 << 52)


# ---- for the fake kernel -------------------------------------------------------------------------


def read(
    tensors: Sequence[Tensor], target_times: Tensor, streams: Sequence[int], options: int
) -> Call:
    """Unpacks a call from the operator's arguments, with 0 for each duration that is present.

    A fake kernel returns shapes and dtypes, which do not depend on a duration's value.
    """
    is_fusion = bool(options & _IS_FUSION)
    next_tensor, next_integer = iter(tensors), iter(streams)
    read_streams: list[StreamArguments] = []
    for flags in next_integer:
        values, times = next(next_tensor), next(next_tensor)
        lengths, valid, subtract, multiply = (
            next(next_tensor) if flags & flag else None
            for flag in (_LENGTHS, _VALID, _SUBTRACT, _MULTIPLY)
        )
        durations = []
        for flag in (_MAX_GAP, _TOLERANCE, _MEAN_WINDOW, _CLOCK_OFFSET):
            if flags & flag:
                next(next_integer)
            durations.append(0 if flags & flag else None)
        runs = flags >> _RUNS & _mask("runs")
        layout = [(METHOD_NAMES[next(next_integer)], next(next_integer)) for _ in range(runs)]
        read_streams.append(
            StreamArguments(
                prefix=f"streams[{len(read_streams)}]." if is_fusion else "",
                values=values,
                times=times,
                method=layout or METHOD_NAMES[flags >> _METHOD & _mask("method")],
                max_gap=durations[0],
                tolerance=0,
                mean_window=durations[2],
                lengths=lengths,
                valid=valid,
                subtract=subtract,
                multiply=multiply,
                clock_offset=0,
            )
        )
    code = options >> _OUT_DTYPE & _mask("out_dtype")
    return Call(
        streams=read_streams,
        target_times=target_times,
        outside=_options.OUTSIDE_NAMES[options >> _OUTSIDE & _mask("outside")],
        out_dtype=dtypes.ALL_DTYPES[code - 1] if code else None,
        return_valid=bool(options & _RETURN_VALID),
        return_age=bool(options & _RETURN_AGE),
        is_fusion=is_fusion,
    )
