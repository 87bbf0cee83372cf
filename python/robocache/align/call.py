"""A call of the operator `align`: resampling is the fusion of one stream.

The operator takes (tensors, target_times, streams, options). `tensors` are each stream's values,
times, and those of lengths, valid, subtract and multiply that it has; `streams` and `options` are
the integers of align/options.py. `pack_stream` makes them of the user's options; `unpack` gives
the parts their names again, for the checks, the fake kernels and the pytorch backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from torch import Tensor

from robocache.align import options as _options
from robocache.align.options import METHODS
from robocache.core import config, tensor_checks

# What resample_trajectories calls the parts of its stream; fuse has the names of Stream's.
_RESAMPLE_NAMES = {
    "values": "data",
    "times": "source_times",
    "lengths": "source_lengths",
    "valid": "source_valid",
}

# Parts of a stream that may be there, in the order in which the operator takes them
_OPTIONAL_TENSORS = {
    "lengths": _options.HAS_LENGTHS,
    "valid": _options.HAS_VALID,
    "subtract": _options.HAS_SUBTRACT,
    "multiply": _options.HAS_MULTIPLY,
}
_DURATIONS = {
    "max_gap": _options.HAS_MAX_GAP,
    "tolerance": _options.HAS_TOLERANCE,
    "mean_window": _options.HAS_MEAN_WINDOW,
    "clock_offset": _options.HAS_CLOCK_OFFSET,
}


# ---- packing ---------------------------------------------------------------------------------


def pack_stream(
    tensors: list[Tensor],
    streams: list[int],
    prefix: str,
    values: Tensor,
    times: Tensor,
    method: str | Sequence[tuple[str, int]],
    max_gap: float | None,
    tolerance: float,
    mean_window: float | None,
    lengths: Tensor | None,
    valid: Tensor | None,
    subtract: Tensor | None,
    multiply: Tensor | None,
    clock_offset: float,
) -> int:
    """Adds a stream to `tensors` and `streams`, and returns its flags.

    Checks what only Python can: types, names, the kind of durations, and that nothing requires grad
    but the values. Short on purpose: on a GPU a call is to cost little more than one launch.
    """
    if not isinstance(values, Tensor):
        _refuse_type(prefix, "values", values)
    if not isinstance(times, Tensor):
        _refuse_type(prefix, "times", times)
    if times.requires_grad:
        _refuse_gradient(prefix, "times")
    tensors.append(values)
    tensors.append(times)
    flags = 0
    if lengths is not None:
        if not isinstance(lengths, Tensor):
            _refuse_type(prefix, "lengths", lengths)
        tensors.append(lengths)
        flags |= _options.HAS_LENGTHS
    if valid is not None:
        if not isinstance(valid, Tensor):
            _refuse_type(prefix, "valid", valid)
        tensors.append(valid)
        flags |= _options.HAS_VALID
    if subtract is not None:
        _check_scale(prefix, "subtract", subtract)
        tensors.append(subtract)
        flags |= _options.HAS_SUBTRACT
    if multiply is not None:
        _check_scale(prefix, "multiply", multiply)
        tensors.append(multiply)
        flags |= _options.HAS_MULTIPLY

    at = len(streams)
    streams.append(0)
    if max_gap is not None:
        streams.append(_options.pack_duration(prefix + "max_gap", max_gap, times.dtype))
        flags |= _options.HAS_MAX_GAP
    if type(tolerance) is not int or tolerance != 0:
        streams.append(_options.pack_duration(prefix + "tolerance", tolerance, times.dtype))
        flags |= _options.HAS_TOLERANCE
    if mean_window is not None:
        streams.append(_options.pack_duration(prefix + "mean_window", mean_window, times.dtype))
        flags |= _options.HAS_MEAN_WINDOW
    if type(clock_offset) is not int or clock_offset != 0:
        name = prefix + "clock_offset"
        streams.append(_options.pack_duration(name, clock_offset, times.dtype, True))
        flags |= _options.HAS_CLOCK_OFFSET

    if isinstance(method, str):
        code = METHODS.get(method, -1)
        if code < 0:
            _options.refuse_name(prefix + "method", method)
        flags |= code
    else:
        layout = _options.pack_layout(prefix + "method", method)
        flags |= len(layout) // 2 << _options.RUNS_SHIFT
        streams += layout
    streams[at] = flags
    return flags


def pack_call(target_times: Tensor, outside: str, return_valid: bool, values: str = "data") -> int:
    """The integer of a call's options, its dtype not among them; checks them and target times.

    `values` is what the user calls the tensors to which gradients flow.
    """
    if not isinstance(target_times, Tensor):
        tensor_checks.check_type("target_times", target_times)
    if target_times.requires_grad:
        tensor_checks.refuse_gradient("target_times", values)
    options = 0
    if outside != "hold":
        options = _options.outside_code(outside)
    if return_valid is True:
        options |= _options.WANTS_VALID
    elif return_valid is not False:
        config.check_bool("return_valid", return_valid)
    return options


def _check_scale(prefix: str, part: str, scale: object) -> None:
    if not isinstance(scale, Tensor):
        _refuse_type(prefix, part, scale)
    if scale.requires_grad:
        _refuse_gradient(prefix, part)


def _refuse_type(prefix: str, part: str, got: object) -> NoReturn:
    name = _name(prefix, part)
    raise TypeError(f"{name}: expected a torch.Tensor, got {type(got).__name__}")


def _refuse_gradient(prefix: str, part: str) -> NoReturn:
    tensor_checks.refuse_gradient(_name(prefix, part), "the values" if prefix else "data")


# ---- unpacking -------------------------------------------------------------------------------


class StreamArguments(NamedTuple):
    """One stream of a call."""

    prefix: str  # of its arguments' names: "streams[1]."; "" in resample_trajectories
    values: Tensor  # [B,S,D] or [S,D]
    times: Tensor  # [B,S] or [S]
    lengths: Tensor | None  # [B] or []
    valid: Tensor | None  # [B,S] or [S]
    subtract: Tensor | None  # [D]
    multiply: Tensor | None  # [D]
    layout: Sequence[int] | None  # method, width, method, width, ...
    method: int  # where there is no layout
    # Durations, as _options.pack_duration packs them
    max_gap: int | None
    tolerance: int
    mean_window: int | None
    clock_offset: int
    packed: Sequence[int]  # its integers


class Call(NamedTuple):
    """Streams and the timeline that they are aligned to."""

    streams: Sequence[StreamArguments]
    target_times: Tensor  # [B,T] or [T]
    options: int


def unpack(
    tensors: Sequence[Tensor], target_times: Tensor, streams: Sequence[int], options: int
) -> Call:
    """The call that an operator's arguments stand for."""
    unpacked: list[StreamArguments] = []
    at_tensor, at = 0, 0
    while at < len(streams):
        begin, flags = at, streams[at]
        at += 1
        values, times = tensors[at_tensor : at_tensor + 2]
        at_tensor += 2
        optional: dict[str, Tensor | None] = {}
        for part, has in _OPTIONAL_TENSORS.items():
            optional[part] = tensors[at_tensor] if flags & has else None
            at_tensor += 1 if flags & has else 0
        durations: dict[str, int | None] = {}
        for part, has in _DURATIONS.items():
            durations[part] = streams[at] if flags & has else None
            at += 1 if flags & has else 0
        runs = flags >> _options.RUNS_SHIFT
        layout = list(streams[at : at + 2 * runs]) if runs else None
        at += 2 * runs
        unpacked.append(
            StreamArguments(
                prefix=f"streams[{len(unpacked)}]." if options & _options.IS_FUSION else "",
                values=values,
                times=times,
                lengths=optional["lengths"],
                valid=optional["valid"],
                subtract=optional["subtract"],
                multiply=optional["multiply"],
                layout=layout,
                method=flags & 15,
                max_gap=durations["max_gap"],
                tolerance=durations["tolerance"] or 0,
                mean_window=durations["mean_window"],
                clock_offset=durations["clock_offset"] or 0,
                packed=streams[begin:at],
            )
        )
    return Call(unpacked, target_times, options)


def name_of(stream: StreamArguments, part: str) -> str:
    """What the user calls a part of a stream."""
    return _name(stream.prefix, part)


def _name(prefix: str, part: str) -> str:
    return prefix + part if prefix else _RESAMPLE_NAMES.get(part, part)


def optional_tensors(stream: StreamArguments) -> list[Tensor]:
    """Its tensors after values and times, those that are there, in the operator's order."""
    parts = (stream.lengths, stream.valid, stream.subtract, stream.multiply)
    return [part for part in parts if part is not None]


def runs_of(stream: StreamArguments) -> list[tuple[int, int]]:
    """(method, width) of every run."""
    if stream.layout is None:
        return [(stream.method, stream.values.size(-1))]
    return list(zip(stream.layout[::2], stream.layout[1::2], strict=True))
