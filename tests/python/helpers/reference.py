"""A plain sequential alignment in NumPy: what the design says, one target at a time.

It shares nothing with the library. Integer times are Python integers, so no difference overflows;
floating times stay in their own type; values are combined in the compute type, one rounded
operation after the other; means and sums add rows in order. Slerp and the wrap of angles are worked
in extended precision and rounded at the end: the library may differ from them by a few units in the
last place of 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

Time = Any  # a Python int, or a NumPy float of the times' type
Array = np.ndarray[Any, Any]

PI = np.longdouble("3.14159265358979323846264338327950288")
COMPUTE_METHODS = ("slerp_xyzw", "slerp_wxyz", "angle")  # not bit-exact


def compute_dtype(values: torch.dtype, out: torch.dtype) -> torch.dtype:
    return torch.float64 if torch.float64 in (values, out) else torch.float32


class Aligned(NamedTuple):
    values: torch.Tensor  # [B,T,D] in the compute type (see `rounded`)
    valid: torch.Tensor  # [B,T]
    age: torch.Tensor  # [B,T], in the times' type


def resample(*args: Any, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """`align`, without the age."""
    aligned = align(*args, **options)
    return aligned.values, aligned.valid


def align(
    values: torch.Tensor,
    source_times: torch.Tensor,
    target_times: torch.Tensor,
    *,
    layout: Sequence[tuple[str, int]],
    outside: str = "hold",
    max_gap: float | None = None,
    tolerance: float = 0,
    mean_window: float | None = None,
    source_lengths: torch.Tensor | None = None,
    source_valid: torch.Tensor | None = None,
    subtract: torch.Tensor | None = None,
    multiply: torch.Tensor | None = None,
    clock_offset: float = 0,
    out_dtype: torch.dtype | None = None,
    time_dtype: torch.dtype | None = None,
    holds_newest: bool = False,
) -> Aligned:
    """CPU tensors in; out come the values in the compute type, the mask and the age.

    With `holds_newest`, a target after the last row holds it, and is valid within `max_gap` of it:
    so the loader's causal windows do with the rows that had arrived.

    Zero and NaN that are written outside are in the values already; rounding keeps them.
    """
    out_dtype = out_dtype or values.dtype
    compute = compute_dtype(values.dtype, out_dtype)
    batch = batch_size(values, source_times, target_times, source_lengths, source_valid)
    row_count, channels = values.shape[-2:]
    target_count = target_times.shape[-1]
    time_dtype = time_dtype or torch.promote_types(source_times.dtype, target_times.dtype)

    def rows_of(tensor: torch.Tensor | None, rank: int, b: int) -> Any:
        """Batch row b of a tensor that may be shared by the batch."""
        if tensor is None:
            return None
        return tensor[b] if tensor.dim() > rank else tensor

    out = torch.zeros((batch or 1, target_count, channels), dtype=compute)
    valid = torch.zeros((batch or 1, target_count), dtype=torch.bool)
    age = torch.zeros((batch or 1, target_count), dtype=time_dtype)
    rules = Rules(
        layout=layout,
        outside=outside,
        max_gap=None if max_gap is None else duration(max_gap, time_dtype),
        tolerance=duration(tolerance, time_dtype),
        half_window=None if mean_window is None else half(duration(mean_window, time_dtype)),
        subtract=None if subtract is None else subtract.to(compute).numpy(),
        multiply=None if multiply is None else multiply.to(compute).numpy(),
        integer_output=out_dtype == torch.uint8,
        holds_newest=holds_newest,
    )
    offset = duration(clock_offset, time_dtype)
    for b in range(1 if batch is None else batch):
        length = rows_of(source_lengths, 0, b)
        n = row_count if length is None else int(length)
        row_valid = rows_of(source_valid, 1, b)
        episode = Episode(
            rows_of(values, 2, b)[:n].to(compute).numpy(),
            [shifted(t, offset) for t in time_list(rows_of(source_times, 1, b)[:n], time_dtype)],
            [True] * n if row_valid is None else [bool(v) for v in row_valid[:n]],
        )
        previous = None
        for i, t in enumerate(time_list(rows_of(target_times, 1, b), time_dtype)):
            if isinstance(
                t, int
            ):  # the offset is exact, but for a target that it takes off the end
                t = max(-(2**63), min(t - offset, 2**63 - 1))
            row, valid[b, i], newest = one_target(episode, t, previous, rules)
            out[b, i] = torch.from_numpy(row)
            with np.errstate(invalid="ignore"):  # of two infinite times
                # + 0: of equal times +0, whatever their signs of zero are.
                age[b, i] = 0 if newest is None else wrapped(t - episode.times[newest]) + 0
            previous = t if t == t else previous
    if batch is None:
        return Aligned(out[0], valid[0], age[0])
    return Aligned(out[:batch], valid[:batch], age[:batch])


def batch_size(
    values: torch.Tensor,
    source_times: torch.Tensor,
    target_times: torch.Tensor,
    source_lengths: torch.Tensor | None,
    source_valid: torch.Tensor | None,
) -> int | None:
    """B from the first argument that has it; None where nothing has it."""
    for tensor, rank in (
        (values, 2),
        (source_times, 1),
        (target_times, 1),
        (source_lengths, 0),
        (source_valid, 1),
    ):
        if tensor is not None and tensor.dim() > rank:
            return int(tensor.shape[0])
    return None


def time_list(times: torch.Tensor, dtype: torch.dtype) -> list[Time]:
    if dtype == torch.int64:
        return [int(t) for t in times]
    return list(times.to(dtype).numpy())


def duration(value: float, dtype: torch.dtype) -> Time:
    if dtype == torch.int64:
        return int(value)
    return np.float32(value) if dtype == torch.float32 else np.float64(value)


def half(window: Time) -> Time:
    return window // 2 if isinstance(window, int) else window / window.dtype.type(2)


def shifted(row_time: Time, offset: Time) -> Time:
    """A row's time by the targets' clock; of integers the target is shifted instead."""
    return row_time if isinstance(row_time, int) else row_time + offset


def wrapped(difference: Time) -> Any:
    """Integers modulo 2^64."""
    if not isinstance(difference, int):
        return float(difference)
    return (difference + 2**63) % 2**64 - 2**63


class Episode(NamedTuple):
    data: Array  # [S,D] in the compute type
    times: list[Time]
    valid: list[bool]


class Rules(NamedTuple):
    layout: Sequence[tuple[str, int]]
    outside: str
    max_gap: Time | None
    tolerance: Time
    half_window: Time | None
    subtract: Array | None
    multiply: Array | None
    integer_output: bool
    holds_newest: bool


class Place(NamedTuple):
    """Where a target stands."""

    t: Time
    previous: Time | None  # the target before it that is not NaN
    lo: int  # the last row with time <= t; -1 before the first
    inside: bool  # from the first row to the last
    held: bool  # after the last row, which it holds
    hit: int | None  # the row that alone answers


class Run(NamedTuple):
    values: Array
    valid: bool
    newest: int  # the latest row that was used, or that hold would use
    literal: bool  # zero or NaN, which subtract and multiply leave alone


def one_target(
    episode: Episode, t: Time, previous: Time | None, rules: Rules
) -> tuple[Array, bool, int | None]:
    """The output row [D] in the compute type, whether it is valid, and its newest row."""
    data, times, _ = episode
    n = len(times)
    row = np.zeros(data.shape[1], data.dtype)
    if n == 0:
        return row, False, None
    if t != t:
        row[:] = 0 if rules.integer_output else np.nan
        return row, False, None

    lo = -1
    for i in range(n):
        if times[i] <= t:
            lo = i
    inside = lo >= 0 and (lo + 1 < n or times[lo] == t)
    held = rules.holds_newest and lo >= 0 and not inside
    place = Place(t, previous, lo, inside, held, find_hit(times, t, lo, rules.tolerance))
    ok, newest, start = True, 0, 0
    with np.errstate(all="ignore"):
        for method, width in rules.layout:
            columns = slice(start, start + width)
            start += width
            of_run = episode._replace(data=data[:, columns])
            make = window_run if method in ("mean", "sum") else pair_run
            run = make(method, of_run, place, rules)
            row[columns] = run.values
            if rules.subtract is not None and not run.literal:
                row[columns] = row[columns] - rules.subtract[columns]
            if rules.multiply is not None and not run.literal:
                row[columns] = row[columns] * rules.multiply[columns]
            ok = ok and run.valid
            newest = max(newest, run.newest)
    return row, bool(ok), newest


def pair_run(method: str, episode: Episode, place: Place, rules: Rules) -> Run:
    """A method that is made from lo and the row after it."""
    data, times, row_valid = episode
    t, lo, hi, hit = place.t, place.lo, place.lo + 1, place.hit
    if hit is not None:
        values, ok = copied(method, data[hit])
        return Run(values, ok and row_valid[hit], hit, False)
    if place.held:
        values, ok = copied(method, data[lo])
        return Run(values, ok and held_is_valid(episode, place, rules), lo, False)
    if not place.inside:
        return beyond(method, episode, place, rules)
    if method in ("previous", "nearest"):
        chosen = lo
        if method == "nearest" and times[hi] - t < t - times[lo]:
            chosen = hi
        near = rules.max_gap is None or abs(t - times[chosen]) <= rules.max_gap
        return Run(data[chosen], near and row_valid[chosen], chosen, False)
    w = weight(t, times[lo], times[hi], data.dtype.type)
    values, ok = combine(method, data[lo], data[hi], w)
    near = rules.max_gap is None or times[hi] - times[lo] <= rules.max_gap
    return Run(values, ok and near and row_valid[lo] and row_valid[hi], hi, False)


def window_run(method: str, episode: Episode, place: Place, rules: Rules) -> Run:
    """A mean or a sum."""
    data, times, row_valid = episode
    if not place.inside and not place.held:
        return beyond(method, episode, place, rules)
    rows = []
    for i, time in enumerate(times):
        if method == "sum":
            is_in = i <= place.lo and (place.previous is None or time > place.previous)
        else:
            is_in = time == place.t or abs(time - place.t) <= rules.half_window
        if is_in:
            rows.append(i)
    used = [i for i in rows if row_valid[i]]
    if method == "mean" and not used:
        return pair_run("linear", episode, place, rules)
    total = np.zeros(data.shape[1], data.dtype)
    for i in used:
        total = total + data[i]
    if method == "mean":
        return Run(total / data.dtype.type(len(used)), True, used[-1], False)
    ok = used == rows and (not place.held or held_is_valid(episode, place, rules))
    return Run(total, ok, used[-1] if used else place.lo, False)


def held_is_valid(episode: Episode, place: Place, rules: Rules) -> bool:
    """Whether the last row stands for a target after it."""
    near = rules.max_gap is None or place.t - episode.times[place.lo] <= rules.max_gap
    return bool(near and episode.valid[place.lo])


def find_hit(times: list[Time], t: Time, lo: int, tolerance: Time) -> int | None:
    """The row that alone answers: of equal time, else the nearest of lo and hi within tolerance."""
    if lo >= 0 and times[lo] == t:
        return lo
    best = None
    with np.errstate(all="ignore"):
        for i in (lo, lo + 1):  # the earlier first, so that it keeps a tie
            if not 0 <= i < len(times) or not abs(times[i] - t) <= tolerance:
                continue
            if best is None or abs(times[i] - t) < abs(times[best] - t):
                best = i
    return best


def beyond(method: str, episode: Episode, place: Place, rules: Rules) -> Run:
    """Before the first row (lo is -1) or after the last: held, a literal, or linear goes on."""
    data, times, _ = episode
    before = place.lo < 0
    held = 0 if before else len(times) - 1
    if rules.outside in ("zero", "nan"):
        literal = np.full(data.shape[1], 0 if rules.outside == "zero" else np.nan, data.dtype)
        return Run(literal, False, held, True)
    a, b = (0, 1) if before else (len(times) - 2, len(times) - 1)
    goes_on = rules.outside == "extrapolate" and method == "linear" and len(times) > 1
    if goes_on and times[a] != times[b]:
        w = weight(place.t, times[a], times[b], data.dtype.type)
        return Run(combine(method, data[a], data[b], w)[0], False, b, False)
    return Run(copied(method, data[held])[0], False, held, False)


def weight(t: Time, a: Time, b: Time, compute: Any) -> Any:
    """(t - a) / (b - a): differences in the times' type, converted, then divided."""
    return converted(t - a, compute) / converted(b - a, compute)


def converted(difference: Time, compute: Any) -> Any:
    if isinstance(difference, int):  # up to 2**64 - 1: rounded once, not by way of a double
        magnitude = np.array([abs(difference)], np.uint64).astype(compute)[0]
        return magnitude if difference >= 0 else -magnitude
    return compute(difference)


def combine(method: str, a: Array, b: Array, w: Any) -> tuple[Array, bool]:
    if method == "linear":
        return a + w * (b - a), True
    if method == "angle":
        return wrap(a + w * wrap(b - a)), True
    return slerp(a, b, w)


def copied(method: str, row: Array) -> tuple[Array, bool]:
    """A hit or a held row: angles wrap and quaternions are normalized here too."""
    if method == "angle":
        return wrap(row), True
    if method in ("slerp_xyzw", "slerp_wxyz"):
        return slerp(row, row, row.dtype.type(0))
    return row, True


def wrap(x: Array) -> Array:
    """Into (-pi, pi], pi being the compute type's."""
    pi = x.dtype.type(PI)
    exact = x.astype(np.longdouble)
    turned = (exact - 2 * PI * np.rint(exact / (2 * PI))).astype(x.dtype)
    turned = np.clip(turned, -pi, pi)
    inside = (-pi <= x) & (x <= pi)
    result = np.where(inside, x, turned)
    return np.asarray(np.where(result == -pi, pi, result), dtype=x.dtype)


def slerp(a: Array, b: Array, w: Any) -> tuple[Array, bool]:
    zero = np.zeros_like(a)
    p, q = a.astype(np.longdouble), b.astype(np.longdouble)
    if not p.any() or not q.any():
        return zero, False
    p, q = p / np.sqrt(np.sum(p * p)), q / np.sqrt(np.sum(q * q))
    if np.sum(p * q) < 0:
        q = -q
    angle = 2 * np.arctan2(np.sqrt(np.sum((p - q) ** 2)), np.sqrt(np.sum((p + q) ** 2)))
    if angle == 0:
        return p.astype(a.dtype), True
    part = np.longdouble(w)
    mixed = (np.sin((1 - part) * angle) * p + np.sin(part * angle) * q) / np.sin(angle)
    return (mixed / np.sqrt(np.sum(mixed * mixed))).astype(a.dtype), True


def rounded(x: torch.Tensor, dtype: torch.dtype) -> list[torch.Tensor]:
    """The accepted roundings of compute-type numbers to the output's type.

    There is one, except from float64 to a half type, which may go by way of float32.
    """
    if dtype == torch.uint8:
        clipped = np.clip(np.nan_to_num(x.numpy(), nan=0.0, posinf=255.0, neginf=0.0), 0, 255)
        return [torch.from_numpy(np.rint(clipped).astype(np.uint8))]
    if x.dtype == torch.float64 and dtype in (torch.float16, torch.bfloat16):
        return [x.float().to(dtype), directly_to_half(x, dtype)]
    return [x.to(dtype)]


def directly_to_half(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """float64 to a half type in one rounding, whatever route torch takes."""
    if dtype == torch.float16:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # overflow to infinity is meant
            return torch.from_numpy(x.numpy().astype(np.float16))
    # To float32 first, toward the odd neighbor when inexact: then the second rounding is right.
    single = x.float()
    inexact = (single.double() != x) & torch.isfinite(single) & torch.isfinite(x)
    bits = single.view(torch.int32)
    toward_zero = torch.where(single.double().abs() > x.abs(), bits - 1, bits)
    odd = torch.where(inexact, toward_zero | 1, bits).view(torch.float32)
    overflow = torch.isinf(single) & torch.isfinite(x)
    return torch.where(overflow, single, odd).to(dtype)
