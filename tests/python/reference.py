"""A plain sequential resample in NumPy: what the design says, one target at a time.

It shares nothing with the library. Integer times are Python integers, so no difference overflows;
floating times stay in their own type; values are combined in the compute type, one rounded
operation after the other. Slerp and the wrap of angles are worked in extended precision and rounded
at the end: the library may differ from them by a few units in the last place of 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

Time = Any  # a Python int, or a NumPy float of the times' type
Array = np.ndarray[Any, Any]

PI = np.longdouble("3.14159265358979323846264338327950288")
COMPUTE_METHODS = ("slerp_xyzw", "slerp_wxyz", "angle")  # not bit-exact


def compute_dtype(values: torch.dtype, out: torch.dtype) -> torch.dtype:
    return torch.float64 if torch.float64 in (values, out) else torch.float32


def resample(
    values: torch.Tensor,
    source_times: torch.Tensor,
    target_times: torch.Tensor,
    *,
    layout: Sequence[tuple[str, int]],
    outside: str = "hold",
    max_gap: float | None = None,
    tolerance: float = 0,
    source_lengths: torch.Tensor | None = None,
    source_valid: torch.Tensor | None = None,
    subtract: torch.Tensor | None = None,
    multiply: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """CPU tensors in; out comes the output in the compute type (see `rounded`), and the mask.

    Zero and NaN that are written outside are in the output already; rounding keeps them.
    """
    out_dtype = out_dtype or values.dtype
    compute = compute_dtype(values.dtype, out_dtype)
    batch = batch_size(values, source_times, target_times, source_lengths, source_valid)
    row_count, channels = values.shape[-2:]
    target_count = target_times.shape[-1]

    def rows_of(tensor: torch.Tensor | None, rank: int, b: int) -> Any:
        """Batch row b of a tensor that may be shared by the batch."""
        if tensor is None:
            return None
        return tensor[b] if tensor.dim() > rank else tensor

    out = torch.zeros((batch or 1, target_count, channels), dtype=compute)
    valid = torch.zeros((batch or 1, target_count), dtype=torch.bool)
    scale = {
        "subtract": None if subtract is None else subtract.to(compute).numpy(),
        "multiply": None if multiply is None else multiply.to(compute).numpy(),
    }
    time_dtype = torch.promote_types(source_times.dtype, target_times.dtype)
    for b in range(1 if batch is None else batch):
        length = rows_of(source_lengths, 0, b)
        n = row_count if length is None else int(length)
        data = rows_of(values, 2, b)[:n].to(compute).numpy()
        times = time_list(rows_of(source_times, 1, b)[:n], time_dtype)
        row_valid = rows_of(source_valid, 1, b)
        for i, t in enumerate(time_list(rows_of(target_times, 1, b), time_dtype)):
            row, ok = one_target(
                data,
                times,
                [True] * n if row_valid is None else [bool(v) for v in row_valid[:n]],
                t,
                layout,
                outside,
                None if max_gap is None else duration(max_gap, time_dtype),
                duration(tolerance, time_dtype),
                scale["subtract"],
                scale["multiply"],
                integer_output=out_dtype == torch.uint8,
            )
            out[b, i] = torch.from_numpy(row)
            valid[b, i] = ok
    if batch is None:
        return out[0], valid[0]
    return out[:batch], valid[:batch]


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


def one_target(
    data: Array,
    times: list[Time],
    row_valid: list[bool],
    t: Time,
    layout: Sequence[tuple[str, int]],
    outside: str,
    max_gap: Time | None,
    tolerance: Time,
    subtract: Array | None,
    multiply: Array | None,
    integer_output: bool,
) -> tuple[Array, bool]:
    """The output row [D] in the compute type, and whether it is valid."""
    compute = data.dtype.type
    n = len(times)
    row = np.zeros(data.shape[1], data.dtype)
    if n == 0:
        return row, False
    if t != t:
        row[:] = 0 if integer_output else np.nan
        return row, False

    lo = -1  # the last row with time <= t
    for i in range(n):
        if times[i] <= t:
            lo = i
    hi = lo + 1
    hit = find_hit(times, t, lo, tolerance)
    inside = lo >= 0 and (hi < n or times[lo] == t)
    if hit is None and not inside and outside in ("zero", "nan"):
        row[:] = 0 if outside == "zero" else np.nan
        return row, False

    ok = True
    start = 0
    with np.errstate(all="ignore"):
        for method, width in layout:
            run = slice(start, start + width)
            start += width
            if hit is not None:
                row[run], run_ok = copied(method, data[hit, run])
                ok = ok and run_ok and row_valid[hit]
            elif not inside:
                row[run] = beyond(method, data[:, run], times, t, lo, outside)
                ok = False
            elif method in ("previous", "nearest"):
                chosen = lo
                if method == "nearest" and times[hi] - t < t - times[lo]:
                    chosen = hi
                row[run] = data[chosen, run]
                near = max_gap is None or abs(t - times[chosen]) <= max_gap
                ok = ok and near and row_valid[chosen]
            else:
                w = weight(t, times[lo], times[hi], compute)
                row[run], run_ok = combine(method, data[lo, run], data[hi, run], w)
                near = max_gap is None or times[hi] - times[lo] <= max_gap
                ok = ok and near and run_ok and row_valid[lo] and row_valid[hi]
        if subtract is not None:
            row = row - subtract
        if multiply is not None:
            row = row * multiply
    return row, bool(ok)


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


def beyond(method: str, data: Array, times: list[Time], t: Time, lo: int, outside: str) -> Array:
    """Before the first row (lo is -1) or after the last: held, or a linear run extrapolated."""
    before = lo < 0
    a, b = (0, 1) if before else (len(times) - 2, len(times) - 1)
    if outside == "extrapolate" and method == "linear" and len(times) > 1 and times[a] != times[b]:
        return combine(method, data[a], data[b], weight(t, times[a], times[b], data.dtype.type))[0]
    return copied(method, data[0] if before else data[-1])[0]


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
    """A hit or a held row: angles wrap and quaternions are normalised here too."""
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
    # To float32 first, towards the odd neighbour when inexact: then the second rounding is right.
    single = x.float()
    inexact = (single.double() != x) & torch.isfinite(single) & torch.isfinite(x)
    bits = single.view(torch.int32)
    toward_zero = torch.where(single.double().abs() > x.abs(), bits - 1, bits)
    odd = torch.where(inexact, toward_zero | 1, bits).view(torch.float32)
    overflow = torch.isinf(single) & torch.isfinite(x)
    return torch.where(overflow, single, odd).to(dtype)
