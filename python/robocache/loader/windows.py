"""Parses the windows of users into window specs: offsets and durations in ns, types, scales."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch

from robocache.align import options as _options
from robocache.core import dtypes
from robocache.core.checks import check_bool, nanoseconds_of, number_text, to_float
from robocache.image.spec import ImageSpec
from robocache.loader.images.options import ImageOutput, parse_image
from robocache.loader.stream_normalization import spread
from robocache.loader.window import Window
from robocache.loader.window_spec import Layout, WindowSpec
from robocache.normalization.formulas import Normalization
from robocache.store.stream_info import MAX_COLORS, StreamInfo, is_image

TOLERANCE_S = 1e-4  # LeRobot's
MAX_WINDOWS = 64  # of a launch
SUMMED = ("mean", "sum")  # methods of any number of rows
SLERPS = ("slerp_xyzw", "slerp_wxyz")

_OF_TIMES = ("method", "max_gap_s", "mean_window_s", "latency_s", "causal")  # no effect on rows


def parse_windows(
    streams: Mapping[str, StreamInfo], windows: object, delta_timestamps: object
) -> dict[str, Window]:
    """The window of each stream of a batch; every stream at the anchor, if none is given.

    Args:
        streams: The store's.
        windows: As :class:`robocache.Loader` takes them.
        delta_timestamps: The same under LeRobot's name.

    Raises:
        TypeError, ValueError: `windows: expected ..., got ...`.
    """
    option = "windows" if delta_timestamps is None else "delta_timestamps"
    if windows is not None and delta_timestamps is not None:
        raise ValueError(
            "delta_timestamps: expected None beside windows (two names of one option), got "
            f"{type(delta_timestamps).__name__}"
        )
    given = windows if delta_timestamps is None else delta_timestamps
    if given is None:
        check_count("windows", len(streams), " (all of the store; windows= chooses some)")
        return {key: Window() for key in streams}
    if not isinstance(given, Mapping):
        raise TypeError(
            f"{option}: expected a window for each stream, as in {{'action': [0.0, 0.1]}}, got "
            f"{type(given).__name__}"
        )
    for key in given:
        if key not in streams:
            raise ValueError(
                f"{option}: expected streams of the store ({', '.join(streams)}), got {key!r}"
            )
    if not given:
        raise ValueError(f"{option}: expected at least 1 stream, got 0")
    check_count(option, len(given))
    return {key: as_window(f"{option}[{key!r}]", window) for key, window in given.items()}


def as_window(name: str, given: Any) -> Window:
    """A window; of a list of seconds or None, the window that it stands for.

    Args:
        name: Its name in messages.
        given: What the user passed.

    Raises:
        TypeError: `<name>: expected ..., got ...`.
    """
    if isinstance(given, Window):
        return given
    is_list = hasattr(given, "tolist") or (
        isinstance(given, Sequence) and not isinstance(given, (str, bytes))
    )
    if given is not None and not is_list:
        raise TypeError(f"{name}: expected a rc.Window, a list of seconds or None, got {given!r}")
    return Window(given)


def with_decided(key: str, window: Window, by: str, **decided: Any) -> Window:
    """A user's window with the options that a data set decides.

    Args:
        key: Its stream.
        window: The user's.
        by: The function that decides.
        decided: The options and their values.

    Raises:
        ValueError: `<option>[<stream>]: expected ..., got ...`: the user chose one too.
    """
    for option in decided:
        given, default = getattr(window, option), getattr(Window, option)
        if given is not default and given != default:
            raise ValueError(
                f"{option}[{key!r}]: expected {default!r} ({by} decides it), got {given!r}"
            )
    return replace(window, **decided)


def check_count(option: str, count: int, hint: str = "") -> None:
    """Refuses more windows than a launch computes.

    Raises:
        ValueError: There are more than 64.
    """
    if count > MAX_WINDOWS:
        raise ValueError(f"{option}: expected at most {MAX_WINDOWS} streams, got {count}{hint}")


def make_spec(
    info: StreamInfo,
    window: Window,
    scale: Normalization | None,
    has_rows: bool,
    center: float | None = None,
) -> WindowSpec:
    """The spec of a window, without its reference, for the library to validate.

    Args:
        info: The stream.
        window: The user's window.
        scale: Its normalization: [C] of its channels, or None.
        has_rows: Whether anchors are rows of a stream, and not ticks.
        center: The counterpart of the random steps of its images; None: it has none.

    Raises:
        TypeError, ValueError: `<option>[<stream>]: expected ..., got ...`.
    """
    key = info.name
    if info.is_ragged:
        raise ValueError(
            f"windows[{key!r}]: expected a stream whose rows have one shape, got ragged rows "
            f"{info.row_text} (store[i][{key!r}].values has them)"
        )
    timeline = _timeline(info, window, has_rows)
    by_rows = timeline == "rows"
    if by_rows:
        _refuse_of_times(key, window)
    for option in fields(window):
        if isinstance(option.default, bool):
            check_bool(f"{option.name}[{key!r}]", getattr(window, option.name))
    tolerance_ns = _duration(
        "tolerance_s", key, TOLERANCE_S if window.tolerance_s is None else window.tolerance_s
    )
    offsets = _offsets(info, window, tolerance_ns if by_rows else None)
    max_gap_s = window.max_gap_s
    if window.image is not None:
        output = parse_image(info, window.image, scale, center)
    else:
        output = _output(info, window, scale, center)
    method = _method(info, window.method)
    spec = WindowSpec(
        name=key,
        dtype=info.type_name,
        shape=info.shape,
        rate=info.rate,
        timeline=timeline,
        offsets=offsets,
        has_axis=window.has_axis,
        causal=window.causal and not by_rows and max(offsets) <= 0,
        method=method,
        outside=_outside(key, window.outside),
        max_gap_ns=None if by_rows or max_gap_s is None else _duration("max_gap_s", key, max_gap_s),
        tolerance_ns=0 if by_rows else tolerance_ns,
        latency_ns=_duration("latency_s", key, window.latency_s),
        normalization=output.scale,
        out_dtype=dtypes.STORED_NAMES[output.dtype],
        channels_first=output.channels_first,
        image=output.geometry,
    )
    if not by_rows and "mean" in spec.methods:
        spec = replace(spec, mean_window_ns=_mean_window(key, window.mean_window_s))
    elif window.mean_window_s is not None:
        got = window.mean_window_s
        raise ValueError(f"mean_window_s[{key!r}]: expected None without method mean, got {got!r}")
    return spec


def _timeline(info: StreamInfo, window: Window, has_rows: bool) -> Any:
    timeline: Any = window.timeline
    if timeline is None:
        timeline = info.timeline if has_rows else "time"
    if timeline not in ("time", "rows"):
        raise ValueError(f"timeline[{info.name!r}]: expected time or rows, got {timeline!r}")
    if timeline == "rows" and not has_rows:
        raise ValueError(
            f"timeline[{info.name!r}]: expected time where anchors have a rate (rows are counted "
            "from an anchor's row), got 'rows'"
        )
    return timeline


def _refuse_of_times(key: str, window: Window) -> None:
    """Refuses options that have no effect on rows that are counted."""
    for name in _OF_TIMES:
        value, default = getattr(window, name), getattr(Window, name)
        if value is not default and value != default:
            raise ValueError(
                f"{name}[{key!r}]: expected {default!r} with timeline 'rows', got {value!r}"
            )


# ---- offsets -------------------------------------------------------------------------------------


def _offsets(info: StreamInfo, window: Window, tolerance_ns: int | None) -> tuple[int, ...]:
    """Offsets in ns; with a tolerance, in rows: `round(offset * rate)`, near a whole number."""
    key, is_ns = info.name, window.offsets_ns is not None
    name = f"offsets_ns[{key!r}]" if is_ns else f"offsets[{key!r}]"
    if is_ns and window.offsets is not None:
        raise ValueError(f"{name}: expected None beside offsets, got {window.offsets_ns!r}")
    given: Any = window.offsets_ns if is_ns else window.offsets
    if given is None:
        return (0,)
    numbers_of = _numbers(name, given, is_ns)
    if tolerance_ns is not None:
        return tuple(_row_offset(info, name, n, is_ns, tolerance_ns) for n in numbers_of)
    found = []
    for offset in numbers_of:
        ns = int(offset) if is_ns else to_float(offset) * 1e9
        if abs(ns) > _options.MAX_INT64:
            got = number_text(offset)
            raise ValueError(f"{name}: expected offsets within 2^63 ns, got {got}")
        found.append(round(ns))
    return tuple(found)


def _row_offset(info: StreamInfo, name: str, offset: Any, is_ns: bool, tolerance_ns: int) -> int:
    rate = info.rate
    if rate is None:
        raise ValueError(
            f"timeline[{info.name!r}]: expected a stream with a nominal rate for 'rows', got one "
            "without (StoreWriter.declare gives it one; timeline='time' needs none)"
        )
    rows = to_float(offset) * (1e-9 if is_ns else 1.0) * rate
    if abs(rows) >= 2**31:
        got = number_text(offset)
        raise ValueError(f"{name}: expected offsets within 2^31 rows, got {got}")
    if abs(rows - round(rows)) / rate * 1e9 > tolerance_ns:
        raise ValueError(
            f"{name}: expected multiples of {1 / rate:g} s (rows of {rate:g} Hz) within "
            f"tolerance_s={tolerance_ns * 1e-9:g}, got {offset!r}"
        )
    return round(rows)


def _numbers(name: str, given: Any, is_ns: bool) -> Sequence[Any]:
    """The offsets, at least one, each a finite number; integers where they are nanoseconds."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise TypeError(f"{name}: expected a list of numbers, got {given!r}")
    if not given:
        raise ValueError(f"{name}: expected at least 1 offset, got 0")
    kind = numbers.Integral if is_ns else numbers.Real
    for offset in given:
        if not isinstance(offset, kind) or isinstance(offset, bool):
            unit = "ints (nanoseconds)" if is_ns else "numbers (seconds)"
            raise TypeError(f"{name}: expected {unit}, got {offset!r}")
        if not isinstance(offset, numbers.Rational) and not math.isfinite(offset):
            raise ValueError(f"{name}: expected finite numbers, got {offset!r}")
    return given


def _mean_window(key: str, seconds: object) -> int:
    if seconds is None:
        raise ValueError(f"mean_window_s[{key!r}]: expected seconds for method mean, got None")
    return _duration("mean_window_s", key, seconds)


def _duration(option: str, key: str, seconds: object) -> int:
    """Seconds as nanoseconds."""
    name = f"{option}[{key!r}]"
    if not isinstance(seconds, numbers.Real) or isinstance(seconds, bool):
        raise TypeError(f"{name}: expected a number (s), got {type(seconds).__name__}")
    number, got = to_float(seconds), number_text(seconds)
    if not number >= 0:  # NaN is refused too
        raise ValueError(f"{name}: expected 0 or more, got {got}")
    if number >= 2**33:  # years
        none = " (None: no limit)" if option == "max_gap_s" else ""
        raise ValueError(f"{name}: expected less than 2^33 s, got {got}{none}")
    return nanoseconds_of(number)


# ---- methods and types ---------------------------------------------------------------------------


def _outside(key: str, outside: Any) -> Any:
    if not isinstance(outside, str) or outside not in _options.OUTSIDES:
        raise ValueError(
            f"outside[{key!r}]: expected hold, zero, nan or extrapolate, got {outside!r}"
        )
    return outside


def _method(info: StreamInfo, method: Any) -> str | Layout:
    name, elements = f"method[{info.name!r}]", math.prod(info.shape)
    chosen: Any = info.method if method is None else method
    if isinstance(chosen, str):
        if chosen not in _options.METHODS:
            _options.refuse_name(name, chosen)
        return chosen
    layout = tuple(_options.parse_layout(name, chosen))
    if sum(width for _, width in layout) != elements:
        raise ValueError(
            f"{name}: expected runs that sum to {elements} for rows of shape {list(info.shape)}, "
            f"got {sum(width for _, width in layout)}"
        )
    return layout[0][0] if len(layout) == 1 else layout


def _output(
    info: StreamInfo, window: Window, scale: Normalization | None, center: float | None
) -> ImageOutput:
    """How a window without `image` is written; with random steps, its images are processed."""
    key, dtype, wanted = info.name, dtypes.BY_STORED_NAME[info.type_name], window.dtype
    geometry = None
    if center is not None:
        geometry = ImageSpec((info.shape[0], info.shape[1]), center=center)
        if wanted == torch.float64:
            raise ValueError(
                f"dtype[{key!r}]: expected float32, float16, bfloat16 or uint8 for images with "
                "augment, got float64"
            )
    if window.channels_first and not is_image(info):
        raise ValueError(
            f"channels_first[{key!r}]: expected uint8 rows [H,W,C] of at most {MAX_COLORS} "
            f"colors, got {info}"
        )
    if wanted is not None and wanted not in dtypes.DTYPES:
        raise TypeError(
            f"dtype[{key!r}]: expected float16, bfloat16, float32, float64 or uint8, got "
            f"{dtypes.dtype_text(wanted)}"
        )
    if dtype not in dtypes.DTYPES:
        if wanted is not None:
            got = dtypes.dtype_name(wanted)
            raise ValueError(
                f"dtype[{key!r}]: expected None for {info}, whose rows are copied, got {got}"
            )
        if scale is not None:
            raise ValueError(f"normalize[{key!r}]: expected floats or uint8, got {info}")
        return ImageOutput(None, False, dtype, None)
    if window.channels_first:
        if wanted == torch.uint8:
            raise ValueError(f"dtype[{key!r}]: expected floats with channels_first, got uint8")
        if scale is None and wanted == torch.float64:
            raise ValueError(
                f"dtype[{key!r}]: expected float32, float16 or bfloat16 with channels_first, whose "
                "division by 255 is exact for them, got float64"
            )
        if scale is None:
            scale = Normalization(np.zeros(1), np.full(1, 1 / 255))
        scale = spread(f"normalize[{key!r}]", scale, info.shape[2:])
        return ImageOutput(geometry, True, wanted or torch.float32, scale)
    if scale is not None and wanted is None and dtype == torch.uint8:
        raise ValueError(
            f"dtype[{key!r}]: expected a floating type for normalized uint8 values, got None "
            "(channels_first=True has float32)"
        )
    if scale is not None:
        row = info.shape if geometry is None else info.shape[2:]
        scale = spread(f"normalize[{key!r}]", scale, row)
    return ImageOutput(geometry, False, wanted or dtype, scale)
