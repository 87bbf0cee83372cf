"""Hypothesis strategies: calls of resample_trajectories and fuse, strides included."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import reference
import torch
from hypothesis import assume
from hypothesis import strategies as st
from support import DTYPES, FLOATS

EXACT = ("linear", "previous", "nearest")
SLERPS = ("slerp_xyzw", "slerp_wxyz")
WINDOWS = ("mean", "sum")
UNIX = 1_700_000_000_000_000_000
INT64 = (-(2**63), 2**63 - 1)
NUMPY = {torch.float32: np.float32, torch.float64: np.float64}
TIME_DTYPES = (
    *[(torch.int64, torch.int64)] * 4,
    (torch.float64, torch.float64),
    (torch.float32, torch.float32),
    (torch.float32, torch.float64),
    (torch.float64, torch.float32),
)


@dataclass
class StreamCall:
    """A stream, and its options as resample_trajectories has them."""

    values: torch.Tensor
    times: torch.Tensor
    layout: list[tuple[str, int]]
    named: bool  # method given as one name and not as a list
    options: dict[str, Any]

    @property
    def method(self) -> str | list[tuple[str, int]]:
        return self.layout[0][0] if self.named else self.layout


@dataclass
class Call(StreamCall):
    """A call of resample_trajectories; `options` are all of its own."""

    target_times: torch.Tensor

    @property
    def tensors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.values, self.times, self.target_times

    @property
    def out_dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.options["out_dtype"] or self.values.dtype
        return dtype


@dataclass
class FuseCall:
    """A call of fuse."""

    streams: list[StreamCall]
    target_times: torch.Tensor
    outside: str
    out_dtype: torch.dtype | None


@st.composite
def calls(
    draw: st.DrawFn,
    methods: Sequence[str] = EXACT,
    value_dtypes: Sequence[torch.dtype] = DTYPES,
    out_dtypes: Sequence[torch.dtype | None] = (None, *DTYPES),
    garbage_past_lengths: bool = True,
) -> Call:
    batch = draw(batches())
    source_dtype, target_dtype = draw(st.sampled_from(TIME_DTYPES))
    kind = torch.promote_types(source_dtype, target_dtype)
    stream = draw(streams(batch, source_dtype, kind, methods, value_dtypes, garbage_past_lengths))
    options = dict(stream.options)
    del options["clock_offset"]
    out_dtype = draw(st.sampled_from(out_dtypes))
    if stream.values.dtype == torch.uint8 and is_scaled(stream):
        out_dtype = out_dtype or torch.float32
    options |= {
        "outside": draw(outsides(out_dtype or stream.values.dtype)),
        "out_dtype": out_dtype,
    }
    targets = draw(target_times([stream], batch, target_dtype))
    return Call(
        draw(strided(stream.values)),
        draw(strided(stream.times)),
        stream.layout,
        stream.named,
        options,
        draw(strided(targets)),
    )


@st.composite
def fusions(draw: st.DrawFn, methods: Sequence[str], most: int = 4) -> FuseCall:
    batch = draw(batches())
    is_integer = draw(st.booleans())
    time_dtypes = [torch.int64] if is_integer else [torch.float64, torch.float32]
    dtypes = draw(st.lists(st.sampled_from(time_dtypes), min_size=2, max_size=most + 1))
    kind = functools.reduce(torch.promote_types, dtypes)
    drawn = [draw(streams(batch, dtype, kind, methods)) for dtype in dtypes[1:]]
    targets = draw(target_times(drawn, batch, dtypes[0]))
    promoted = functools.reduce(torch.promote_types, [stream.values.dtype for stream in drawn])
    out_dtype = draw(st.sampled_from([None, None, *DTYPES]))
    if promoted == torch.uint8 and any(is_scaled(stream) for stream in drawn):
        out_dtype = out_dtype or torch.float32
    for stream in drawn:
        stream.values = draw(strided(stream.values))
        stream.times = draw(strided(stream.times))
    outside = draw(outsides(out_dtype or promoted))
    return FuseCall(drawn, draw(strided(targets)), outside, out_dtype)


def expected_fusion(call: FuseCall) -> tuple[list[reference.Aligned], torch.dtype, list[int]]:
    """The reference's result for each stream, the output's dtype, and its shape without columns."""
    dtype, kind = call.streams[0].values.dtype, call.target_times.dtype
    batches: list[int | None] = []
    for stream in call.streams:
        dtype = torch.promote_types(dtype, stream.values.dtype)
        kind = torch.promote_types(kind, stream.times.dtype)
        lengths, valid = stream.options["source_lengths"], stream.options["source_valid"]
        batches.append(
            reference.batch_size(stream.values, stream.times, call.target_times, lengths, valid)
        )
    dtype = call.out_dtype or dtype
    batch = next((b for b in batches if b is not None), None)
    shape = [call.target_times.size(-1)] if batch is None else [batch, call.target_times.size(-1)]
    aligned = []
    for stream in call.streams:
        made = reference.align(
            stream.values,
            stream.times,
            call.target_times,
            layout=stream.layout,
            outside=call.outside,
            out_dtype=dtype,
            time_dtype=kind,
            **stream.options,
        )
        aligned.append(
            reference.Aligned(
                made.values.expand(*shape, -1), made.valid.expand(shape), made.age.expand(shape)
            )
        )
    return aligned, dtype, shape


def batches() -> st.SearchStrategy[int | None]:
    # Empty ones seldom: they say little about the rest.
    return st.sampled_from([None, None, 1, 2, 2, 3, 3, 0])


def is_scaled(stream: StreamCall) -> bool:
    return stream.options["subtract"] is not None or stream.options["multiply"] is not None


def outsides(out_dtype: torch.dtype) -> st.SearchStrategy[str]:
    literal_nan = ["nan"] if out_dtype != torch.uint8 else []
    return st.sampled_from(["hold", "zero", "extrapolate", *literal_nan])


@st.composite
def streams(
    draw: st.DrawFn,
    batch: int | None,
    time_dtype: torch.dtype,
    kind: torch.dtype,  # of all times of the call
    methods: Sequence[str],
    value_dtypes: Sequence[torch.dtype] = DTYPES,
    garbage_past_lengths: bool = True,
) -> StreamCall:
    rows = draw(st.sampled_from([2, 3, 4, 5, 6, 7, 1, 0]))
    layout, named = draw(layouts(methods))

    def batched() -> list[int]:
        return [] if batch is None or draw(st.booleans()) else [batch]

    times = draw(ascending(batched(), rows, time_dtype))
    values = draw(values_for(layout, [*batched(), rows], draw(st.sampled_from(value_dtypes))))
    for method, run in columns(layout):
        if method in SLERPS:
            assume_clear_sign(values[..., run])
    lengths = source_valid = None
    if draw(st.booleans()):
        shape = batched()
        count = math.prod(shape)
        a_length = st.sampled_from([rows, max(0, rows - 1), min(2, rows), min(1, rows), 0])
        lengths = torch.tensor(
            draw(st.lists(a_length, min_size=count, max_size=count)),
            dtype=draw(st.sampled_from([torch.int64, torch.int32])),
        ).reshape(shape)
        if garbage_past_lengths and times.dim() == 2 and lengths.dim() == 1:
            for b, length in enumerate(lengths.tolist()):
                times[b, length:] = draw(st.sampled_from([0, 1, -(2**40)]))
    if draw(st.booleans()):
        shape = [*batched(), rows]
        count = math.prod(shape)
        mostly_true = st.sampled_from([True, True, True, False])
        source_valid = torch.tensor(
            draw(st.lists(mostly_true, min_size=count, max_size=count)), dtype=torch.bool
        ).reshape(shape)
    has_mean = any(method == "mean" for method, _ in layout)
    return StreamCall(
        values,
        times,
        layout,
        named,
        {
            "max_gap": draw(st.none() | durations(kind)),
            "tolerance": draw(st.just(0) | durations(kind)),
            "mean_window": draw(durations(kind)) if has_mean else None,
            "source_lengths": None if lengths is None else draw(strided(lengths)),
            "source_valid": None if source_valid is None else draw(strided(source_valid)),
            "subtract": draw(st.none() | scale(values.size(-1))),
            "multiply": draw(st.none() | scale(values.size(-1))),
            "clock_offset": draw(st.just(0) | offsets(kind)),
        },
    )


@st.composite
def target_times(
    draw: st.DrawFn, drawn: Sequence[StreamCall], batch: int | None, dtype: torch.dtype
) -> torch.Tensor:
    """Near the streams' times; ascending, but for NaN, where one of them has a sum."""
    shape = [] if batch is None or draw(st.booleans()) else [batch]
    count = draw(st.sampled_from([2, 3, 4, 5, 6, 7, 1, 0]))
    known = torch.cat([stream.times.flatten() for stream in drawn])
    times = draw(near(known, shape, count, dtype))
    if any(method == "sum" for stream in drawn for method, _ in stream.layout):
        for row in times.view(-1, count) if count else []:
            numbers = ~row.isnan()
            row[numbers] = row[numbers].sort().values
    return times


@st.composite
def layouts(draw: st.DrawFn, methods: Sequence[str]) -> tuple[list[tuple[str, int]], bool]:
    """Runs, and whether the method is given as one name."""

    def run(width: st.SearchStrategy[int]) -> tuple[str, int]:
        method = draw(st.sampled_from(methods))
        return method, 4 if method in SLERPS else draw(width)

    if draw(st.booleans()):
        return [run(st.sampled_from([1, 2, 3, 4, 5, 8, 9, 0]))], True
    return [run(st.integers(1, 5)) for _ in range(draw(st.integers(1, 4)))], False


def columns(layout: Sequence[tuple[str, int]]) -> list[tuple[str, slice]]:
    ends = list(itertools.accumulate(width for _, width in layout))
    return [(m, slice(end - width, end)) for (m, width), end in zip(layout, ends, strict=True)]


# ---- times -------------------------------------------------------------------------------------


@st.composite
def ascending(draw: st.DrawFn, batch: list[int], rows: int, dtype: torch.dtype) -> torch.Tensor:
    """Source times: steps from a start, equal neighbors among them, or any sorted numbers."""
    lists: list[list[Any]] = []
    anything: st.SearchStrategy[Any]
    row: list[Any]
    for _ in range(math.prod(batch)):
        if dtype == torch.int64:
            step = draw(st.sampled_from([1, 10_000_000, 2**61]))
            first = draw(st.sampled_from([0, -7, UNIX, INT64[0], INT64[1] - 4, -(2**62)]))
            steps = draw(st.lists(st.integers(0, 4), min_size=rows, max_size=rows))
            row = [min(first + step * s, INT64[1]) for s in itertools.accumulate(steps)]
            anything = st.integers(*INT64)
        else:
            scalar = NUMPY[dtype]
            start = draw(st.sampled_from([0.0, -3.25, 1000.1, 1.7e9]))
            step_sizes = st.sampled_from([0.0, 0.25, 1.0, 0.01, 1 / 3, 1e-5])
            steps_float = draw(st.lists(step_sizes, min_size=rows, max_size=rows))
            row = [float(scalar(start + s)) for s in itertools.accumulate(steps_float)]
            anything = st.floats(
                allow_nan=False, allow_infinity=False, width=32 if dtype == torch.float32 else 64
            )
        if draw(st.integers(0, 7)) == 7:
            row = sorted(draw(st.lists(anything, min_size=rows, max_size=rows)))
        lists.append(row)
    return torch.tensor(lists, dtype=dtype).reshape([*batch, rows])


@st.composite
def near(
    draw: st.DrawFn, source: torch.Tensor, batch: list[int], count: int, dtype: torch.dtype
) -> torch.Tensor:
    """Target times on, beside and between source times, far from them, NaN and infinite."""
    known = source.flatten().tolist() or [0]
    if dtype == torch.int64:
        offset = st.sampled_from([0, 0, 1, -1, 2, 5_000_000, -2_000_000])
        element = st.builds(
            lambda t, d: max(INT64[0], min(t + d, INT64[1])), st.sampled_from(known), offset
        ) | st.builds(lambda a, b: (a + b) // 2, st.sampled_from(known), st.sampled_from(known))
        far: st.SearchStrategy[Any] = st.integers(*INT64)
    else:
        offset = st.sampled_from([0.0, 0.0, 0.125, -0.125, 1e-5, 0.3, -0.3])
        element = st.builds(lambda t, d: t + d, st.sampled_from(known), offset) | st.builds(
            lambda a, b: a / 2 + b / 2, st.sampled_from(known), st.sampled_from(known)
        )
        far = st.sampled_from([math.nan, math.inf, -math.inf, 1e30])
    shape = [*batch, count]
    size = math.prod(shape)
    times = draw(st.lists(element | element | far, min_size=size, max_size=size))
    return torch.tensor(times, dtype=dtype).reshape(shape)


def durations(kind: torch.dtype) -> st.SearchStrategy[Any]:
    if kind == torch.int64:
        return st.sampled_from([0, 1, 2, 5_000_000, 10_000_000, 20_000_000, 2**61, INT64[1]])
    return st.sampled_from([0.0, 0.125, 0.25, 0.3, 0.01, 1e-5, 1.0, 2, math.inf])


def offsets(kind: torch.dtype) -> st.SearchStrategy[Any]:
    if kind == torch.int64:
        return st.sampled_from([1, -1, 2_000_000, -5_000_000, 2**61, -(2**62), *INT64])
    return st.sampled_from([0.125, -0.125, 0.3, -1e-5, -2, 1e30])


# ---- values ------------------------------------------------------------------------------------


@st.composite
def values_for(
    draw: st.DrawFn, layout: Sequence[tuple[str, int]], shape: list[int], dtype: torch.dtype
) -> torch.Tensor:
    runs = []
    count = math.prod(shape)
    for method, width in layout:
        n = count * width
        if dtype == torch.uint8:
            most = 6 if method in SLERPS or method == "angle" else 255
            elements: st.SearchStrategy[Any] = st.integers(0, most)
        elif method in WINDOWS:  # no sum overflows, whatever its order
            elements = st.integers(-8, 8).map(float) | st.sampled_from(
                [0.1, -0.0, 0.7, 1e3, -3e-3, math.nan, math.inf, -math.inf]
            )
        elif method in EXACT:
            elements = numbers(dtype)
        elif method == "angle":
            # A grid, so that no difference is within rounding of pi without being pi.
            elements = st.integers(-200, 200).map(lambda i: i / 64) | st.sampled_from(
                [math.pi, -math.pi]
            )
        else:
            elements = st.integers(-3, 3)
        run = draw(st.lists(elements, min_size=n, max_size=n))
        runs.append(torch.tensor(run, dtype=torch.float64).to(dtype).reshape([*shape, width]))
    return torch.cat(runs, -1)


def numbers(dtype: torch.dtype) -> st.SearchStrategy[float]:
    """Any number of the type, small round ones more often, NaN, infinities and zeros."""
    width = {torch.float16: 16, torch.float64: 64}.get(dtype, 32)
    return (
        st.integers(-8, 8).map(float)
        | st.sampled_from([0.1, -0.0, 0.7, 1e4, -3e-3])
        | st.floats(width=width)  # type: ignore[arg-type]
    )


@st.composite
def scale(draw: st.DrawFn, channels: int) -> torch.Tensor:
    elements = st.sampled_from([0.0, 1.0, -2.0, 0.1, 0.75, 3.3])
    numbers = draw(st.lists(elements, min_size=channels, max_size=channels))
    return draw(strided(torch.tensor(numbers, dtype=draw(st.sampled_from(FLOATS)))))


def assume_clear_sign(quaternions: torch.Tensor) -> None:
    """Rejects neighbors whose dot product is 0 but for rounding: either sign is right there."""
    rows = quaternions.double()
    for i in range(rows.size(-2) - 1):
        products = rows[..., i, :] * rows[..., i + 1, :]
        is_zero = products.sum(-1) == 0
        assume(bool((~is_zero | (products == 0).all(-1)).all()))


# ---- strides -----------------------------------------------------------------------------------


@st.composite
def strided(draw: st.DrawFn, x: torch.Tensor) -> torch.Tensor:
    """Equal numbers with other strides: permuted, a slice of a larger tensor, or expanded."""
    how: Callable[[torch.Tensor], torch.Tensor] = draw(
        st.sampled_from([lambda t: t, permuted, sliced, offset, expanded_where_equal])
    )
    y = how(x)
    assert y.shape == x.shape and y.dtype == x.dtype
    return y


def permuted(x: torch.Tensor) -> torch.Tensor:
    backwards = list(reversed(range(x.dim())))
    return x.permute(backwards).contiguous().permute(backwards)


def sliced(x: torch.Tensor) -> torch.Tensor:
    """Every dimension takes every second element of a larger tensor that is 1 elsewhere."""
    larger = torch.ones([2 * n + 1 for n in x.shape], dtype=x.dtype)
    view = larger[tuple(slice(1, 2 * n + 1, 2) for n in x.shape)]
    view.copy_(x)
    return view


def offset(x: torch.Tensor) -> torch.Tensor:
    """Contiguous, but its first element is not where 16-byte loads would like it."""
    larger = torch.ones(x.numel() + 1, dtype=x.dtype)
    view = larger[1:].view(x.shape)
    view.copy_(x)
    return view


def expanded_where_equal(x: torch.Tensor) -> torch.Tensor:
    """Stride 0 along each dimension whose slices are all equal."""
    for dim in range(x.dim()):
        if x.size(dim) > 1:
            first = x.narrow(dim, 0, 1)
            if torch.equal(first.expand(x.shape), x):
                x = first.expand(x.shape)
    return x
