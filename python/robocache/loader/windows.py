"""Converts the user's offsets and options to validated windows."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import torch

from robocache.align import options as _options
from robocache.core import dtypes
from robocache.core.names import Method, Outside
from robocache.loader.stream_normalization import spread
from robocache.loader.window_spec import TORCH_DTYPES, TYPE_NAMES, Layout, WindowSpec
from robocache.normalization.formulas import Normalization
from robocache.store.stream_info import MAX_COLORS, StreamInfo, is_image

T = TypeVar("T")
PerKey: TypeAlias = T | Mapping[str, T]
"""One value for all streams, or a mapping of some; what it leaves out has the default."""
Timeline: TypeAlias = Literal["time", "rows"]
Images: TypeAlias = Literal["stored", "float"]
Offsets: TypeAlias = Sequence[float] | None

TOLERANCE_S = 1e-4  # LeRobot's
MAX_WINDOWS = 64  # of a launch
SUMMED = ("mean", "sum")  # methods of any number of rows
SLERPS = ("slerp_xyzw", "slerp_wxyz")
COPIES = ("previous", "nearest")  # methods that copy a row


class WindowOptions(NamedTuple):
    """Options of :class:`robocache.Loader` that say what windows are like."""

    timeline: PerKey[Timeline] | None
    method: PerKey[Method] | None
    outside: PerKey[Outside]
    max_gap_s: PerKey[float | None]
    tolerance_s: PerKey[float | None]
    mean_window_s: PerKey[float | None]
    latency_s: PerKey[float]
    causal: PerKey[bool]
    dtype: PerKey[torch.dtype | None]
    images: PerKey[Images]


# What holds for a stream that a mapping leaves out.
_DEFAULTS = WindowOptions(None, None, "hold", None, None, None, 0.0, True, None, "stored")


# What says nothing of rows that are counted.
_OF_TIMES = ("method", "max_gap_s", "mean_window_s", "latency_s", "causal")


class Steps(NamedTuple):
    """Offsets of a key as users gave them; None: at the anchor, without an axis."""

    name: str  # of the option and its key
    offsets: Sequence[float] | None
    is_ns: bool


def all_steps(
    streams: Mapping[str, StreamInfo],
    delta_timestamps: Mapping[str, Offsets] | None,
    delta_ns: Mapping[str, Sequence[int] | None] | None,
) -> dict[str, Steps]:
    """The keys of the batch, with their offsets; without any, every stream at the anchor.

    Raises:
        TypeError, ValueError: An unknown stream, one that is in both, or no offsets at all.
    """
    steps: dict[str, Steps] = {}
    for option, given in (("delta_timestamps", delta_timestamps), ("delta_ns", delta_ns)):
        if given is None:
            continue
        if not isinstance(given, Mapping):
            raise TypeError(
                f"{option}: expected offsets for each stream, as in {{'action': [0.0, 0.1]}}, "
                f"got {type(given).__name__}"
            )
        for key, offsets in given.items():
            if key not in streams:
                raise ValueError(
                    f"{option}: expected streams of the store ({', '.join(streams)}), got {key!r}"
                )
            if key in steps:
                raise ValueError(
                    f"delta_ns: expected keys that delta_timestamps has not, got {key!r}"
                )
            steps[key] = Steps(f"{option}[{key!r}]", offsets, option == "delta_ns")
    if delta_timestamps is None and delta_ns is None:
        steps = {key: Steps(key, None, True) for key in streams}
    if not steps:
        raise ValueError("delta_timestamps: expected at least 1 stream, got none")
    return steps


def make_window(
    info: StreamInfo,
    steps: Steps,
    options: WindowOptions,
    scale: Normalization | None,
    has_rows: bool,
) -> WindowSpec:
    """One window.

    Args:
        info: The stream.
        steps: Its offsets.
        options: Those of all streams.
        scale: How it is normalized: [C] of its channels, or None.
        has_rows: Whether anchors are rows of a stream, and not ticks.

    Raises:
        TypeError, ValueError: `<option>: <stream>: expected ..., got ...`.
    """
    key = info.name
    dtype = TORCH_DTYPES[info.type_name]
    timeline = _of(options, "timeline", key)
    if timeline is None:
        timeline = info.timeline if has_rows else "time"
    if timeline not in ("time", "rows"):
        raise ValueError(f"timeline: {key}: expected time or rows, got {timeline!r}")
    by_rows = timeline == "rows"
    if by_rows and not has_rows:
        raise ValueError(
            f"timeline: {key}: expected time where anchors have a rate (rows are counted from an "
            "anchor's row), got 'rows'"
        )
    if by_rows:
        _refuse_named(options, key)
    tolerance_s = _of(options, "tolerance_s", key)
    tolerance_ns = _duration(
        "tolerance_s", key, TOLERANCE_S if tolerance_s is None else tolerance_s
    )
    causal = is_causal(options, key)
    offsets = _row_steps(info, steps, tolerance_ns) if by_rows else _time_steps(steps)
    max_gap_s = _of(options, "max_gap_s", key)
    channels_first, out_dtype, scale = _output(info, dtype, options, scale)
    method = _method(info, _of(options, "method", key))
    mean_window_ns = None
    if not by_rows and "mean" in ([method] if isinstance(method, str) else dict(method)):
        mean_window_ns = _mean_window(key, _of(options, "mean_window_s", key))
    elif isinstance(options.mean_window_s, Mapping) and key in options.mean_window_s:
        raise ValueError(f"mean_window_s: {key}: expected none without method mean, got one")
    outside = _options.outside_code(_of(options, "outside", key))
    window = WindowSpec(
        name=key,
        dtype=info.type_name,
        shape=info.shape,
        rate=info.rate,
        timeline=timeline,
        offsets=offsets,
        has_axis=steps.offsets is not None,
        causal=causal and not by_rows and max(offsets) <= 0,
        method=method,
        outside=_options.OUTSIDE_NAMES[outside],
        max_gap_ns=None if by_rows or max_gap_s is None else _duration("max_gap_s", key, max_gap_s),
        tolerance_ns=0 if by_rows else tolerance_ns,
        mean_window_ns=mean_window_ns,
        latency_ns=_duration("latency_s", key, _of(options, "latency_s", key)),
        normalization=scale,
        normalize=None,
        out_dtype=TYPE_NAMES[out_dtype],
        channels_first=channels_first,
        relative_to=None,
    )
    _check(window)
    return window


def is_causal(options: WindowOptions, key: str) -> bool:
    """The option `causal` of a stream, which windows into the future and by rows leave unused.

    Raises:
        TypeError: `causal: <stream>: expected a bool, got ...`.
    """
    causal = _of(options, "causal", key)
    if type(causal) is not bool:
        raise TypeError(f"causal: {key}: expected a bool, got {type(causal).__name__}")
    return causal


def default_tolerances(streams: Sequence[str], options: WindowOptions) -> frozenset[str]:
    """The streams without a `tolerance_s`: the default gives way to rows that are close."""
    return frozenset(key for key in streams if _of(options, "tolerance_s", key) is None)


def check_keys(streams: Sequence[str], options: WindowOptions) -> None:
    """That mappings name streams of the batch only.

    Raises:
        ValueError: `<option>: expected ..., got ...`.
    """
    for name, option in zip(options._fields, options, strict=True):
        for key in option if isinstance(option, Mapping) else ():
            if key not in streams:
                raise ValueError(
                    f"{name}: expected streams of the batch ({', '.join(streams)}), got {key!r}"
                )


def check_count(count: int) -> None:
    """That a launch can make them.

    Raises:
        ValueError: There are more than 64.
    """
    if count > MAX_WINDOWS:
        raise ValueError(
            f"delta_timestamps: expected at most {MAX_WINDOWS} streams, got {count} (all of the "
            "store, where neither delta_timestamps nor delta_ns says which)"
        )


def check_used(windows: Sequence[WindowSpec], options: WindowOptions) -> None:
    """That what is given for all streams says something of one of them.

    Raises:
        ValueError: `<option>: expected ..., got ...`.
    """
    by_rows = all(window.by_rows for window in windows)
    for name in _OF_TIMES if by_rows else ():
        option = getattr(options, name)
        if not isinstance(option, Mapping) and option != getattr(_DEFAULTS, name):
            raise ValueError(
                f"{name}: expected none where all streams have the timeline 'rows', got {option!r}"
            )
    window_s = options.mean_window_s
    is_needless = all(window.mean_window_ns is None for window in windows)
    if window_s is not None and not isinstance(window_s, Mapping) and is_needless:
        raise ValueError(f"mean_window_s: expected none without method mean, got {window_s!r}")


def _of(options: WindowOptions, name: str, key: str) -> Any:
    option = getattr(options, name)
    return option.get(key, getattr(_DEFAULTS, name)) if isinstance(option, Mapping) else option


def _refuse_named(options: WindowOptions, key: str) -> None:
    """That options which say nothing of rows that are counted are not given to such a stream."""
    for name in _OF_TIMES:
        option = getattr(options, name)
        if isinstance(option, Mapping) and key in option:
            raise ValueError(f"{name}: {key}: expected none with timeline 'rows', got one")


# ---- offsets -------------------------------------------------------------------------------------


def _time_steps(steps: Steps) -> tuple[int, ...]:
    if steps.offsets is None:
        return (0,)
    found = []
    for offset in _numbers(steps):
        ns = int(offset) if steps.is_ns else _options.to_float(offset) * 1e9
        if abs(ns) > _options.MAX_INT64:
            got = _options.number_text(offset)
            raise ValueError(f"{steps.name}: expected offsets within 2^63 ns, got {got}")
        found.append(round(ns))
    return tuple(found)


def _row_steps(info: StreamInfo, steps: Steps, tolerance_ns: int) -> tuple[int, ...]:
    """Seconds as rows: `round(offset * rate)`, for offsets that are near a whole number of them."""
    if steps.offsets is None:
        return (0,)
    rate = info.rate
    if rate is None:
        raise ValueError(
            f"timeline: {info.name}: expected a stream with a nominal rate for 'rows', got one "
            "without (StoreWriter.declare gives it one; timeline='time' needs none)"
        )
    found = []
    for offset in _numbers(steps):
        rows = _options.to_float(offset) * (1e-9 if steps.is_ns else 1.0) * rate
        if abs(rows) >= 2**31:
            got = _options.number_text(offset)
            raise ValueError(f"{steps.name}: expected offsets within 2^31 rows, got {got}")
        if abs(rows - round(rows)) / rate * 1e9 > tolerance_ns:
            raise ValueError(
                f"{steps.name}: expected multiples of {1 / rate:g} s (rows of {rate:g} Hz) within "
                f"tolerance_s={tolerance_ns * 1e-9:g}, got {offset!r}"
            )
        found.append(round(rows))
    return tuple(found)


def _numbers(steps: Steps) -> list[Any]:
    """The offsets, at least one, each a finite number; integers where they are nanoseconds."""
    given: Any = steps.offsets
    if hasattr(given, "tolist"):  # an array or a tensor
        given = given.tolist()
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise TypeError(f"{steps.name}: expected a list of numbers, got {given!r}")
    if not given:
        raise ValueError(f"{steps.name}: expected at least 1 offset, got none")
    kind = numbers.Integral if steps.is_ns else numbers.Real
    for offset in given:
        if not isinstance(offset, kind) or isinstance(offset, bool):
            unit = "ints (nanoseconds)" if steps.is_ns else "numbers (seconds)"
            raise TypeError(f"{steps.name}: expected {unit}, got {offset!r}")
        if not isinstance(offset, numbers.Rational) and not math.isfinite(offset):
            raise ValueError(f"{steps.name}: expected finite numbers, got {offset!r}")
    return list(given)


def _mean_window(key: str, seconds: object) -> int:
    if seconds is None:
        raise ValueError(f"mean_window_s: {key}: expected one for method mean, got None")
    return _duration("mean_window_s", key, seconds)


def _duration(name: str, key: str, seconds: object) -> int:
    """Seconds as nanoseconds."""
    if not isinstance(seconds, numbers.Real) or isinstance(seconds, bool):
        raise TypeError(f"{name}: {key}: expected a number (s), got {type(seconds).__name__}")
    number, got = _options.to_float(seconds), _options.number_text(seconds)
    if not number >= 0:  # NaN is refused too
        raise ValueError(f"{name}: {key}: expected 0 or more, got {got}")
    if number >= 2**33:  # years
        none = " (None: no limit)" if name == "max_gap_s" else ""
        raise ValueError(f"{name}: {key}: expected less than 2^33 s{none}, got {got}")
    return round(number * 1e9)


# ---- methods and types ---------------------------------------------------------------------------


def _method(info: StreamInfo, method: Any) -> str | Layout:
    name, elements = f"method: {info.name}", math.prod(info.shape)
    chosen: Any = info.method if method is None else method
    if isinstance(chosen, str):
        if chosen not in _options.METHODS:
            _options.refuse_name(name, chosen)
        return chosen
    packed = _options.pack_layout(name, chosen)
    names = (_options.METHOD_NAMES[code] for code in packed[::2])
    layout = tuple(zip(names, packed[1::2], strict=True))
    if sum(width for _, width in layout) != elements:
        raise ValueError(
            f"{name}: expected runs that sum to {elements} for rows of shape {list(info.shape)}, "
            f"got {sum(width for _, width in layout)}"
        )
    return layout[0][0] if len(layout) == 1 else layout


def _output(
    info: StreamInfo, dtype: torch.dtype, options: WindowOptions, scale: Normalization | None
) -> tuple[bool, torch.dtype, Normalization | None]:
    """Whether colors come first, the type of the output, and the scale that it needs."""
    key = info.name
    images = _of(options, "images", key)
    if images not in ("stored", "float"):
        raise ValueError(f"images: {key}: expected stored or float, got {images!r}")
    is_float_image = images == "float" and is_image(info)
    named = isinstance(options.images, Mapping) and key in options.images
    if images == "float" and named and not is_float_image:
        raise ValueError(
            f"images: {key}: expected uint8 rows [H,W,C] of at most {MAX_COLORS} colors for "
            f"'float', got {info}"
        )
    wanted = _of(options, "dtype", key)
    if wanted is not None and wanted not in dtypes.DTYPE_CODES:
        raise TypeError(
            f"dtype: {key}: expected float16, bfloat16, float32, float64 or uint8, "
            f"got {dtypes.dtype_text(wanted)}"
        )
    if dtype not in dtypes.DTYPE_CODES:
        named = isinstance(options.dtype, Mapping) and key in options.dtype
        if wanted is not None and named:
            raise ValueError(f"dtype: {key}: expected none for {info}, which is copied as it is")
        if scale is not None:
            raise ValueError(f"normalize[{key!r}]: expected floats or uint8, got {info}")
        return False, dtype, None
    if is_float_image:
        if wanted == torch.uint8:
            raise ValueError(f"dtype: {key}: expected floats with images='float', got uint8")
        if scale is None and wanted == torch.float64:
            raise ValueError(
                f"dtype: {key}: expected float32, float16 or bfloat16 with images='float', whose "
                "division by 255 is exact for them, got float64"
            )
        if scale is None:
            scale = Normalization(np.zeros(1), np.full(1, 1 / 255))
        return True, wanted or torch.float32, spread(f"normalize[{key!r}]", scale, info.shape[2:])
    if scale is not None and wanted is None and dtype == torch.uint8:
        raise ValueError(f"dtype: {key}: expected one with normalize of uint8 values, got None")
    if scale is not None:
        scale = spread(f"normalize[{key!r}]", scale, info.shape)
    return False, wanted or dtype, scale


def _check(window: WindowSpec) -> None:
    """Validates method, types and timeline against each other."""
    key = window.name
    if window.by_rows:
        if window.outside != "hold":
            got = window.outside
            raise ValueError(f"outside: {key}: expected hold with timeline 'rows', got {got!r}")
        return
    for method, width in window.runs:
        if window.is_copied and method not in COPIES:
            raise ValueError(
                f"method: {key}: expected previous or nearest for "
                f"{dtypes.dtype_name(window.torch_dtype)} values, got {method!r}"
            )
        if window.channels_first and (method not in ("linear", *COPIES) or len(window.runs) > 1):
            raise ValueError(
                f"method: {key}: expected linear, previous or nearest with images='float', "
                f"got {method!r}"
            )
        if method in SLERPS and width != 4:
            raise ValueError(f"method: {key}: expected {method} of 4 channels, got {width}")
    if window.outside == "nan" and not window.torch_out_dtype.is_floating_point:
        raise ValueError(
            f"outside: {key}: expected hold, zero or extrapolate for "
            f"{dtypes.dtype_name(window.torch_out_dtype)} output, got 'nan'"
        )
    if "sum" in window.methods and list(window.offsets) != sorted(window.offsets):
        raise ValueError(f"delta_timestamps[{key!r}]: expected ascending offsets for method sum")
