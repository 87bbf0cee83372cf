"""Sizes, widths and time series that small random calls do not reach, against vectorized NumPy.

Seeds are drawn anew; a failure prints its seed, and ROBOCACHE_TEST_SEED brings it back.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from support import Backend, assert_same_bits

UNIX = 1_700_000_000_000_000_000


@pytest.fixture
def rng() -> np.random.Generator:
    seed = int(os.environ.get("ROBOCACHE_TEST_SEED", random.SystemRandom().getrandbits(32)))
    print(f"ROBOCACHE_TEST_SEED={seed}")  # shown where the test fails
    return np.random.default_rng(seed)


def expected_rows(source: np.ndarray, targets: np.ndarray, method: str) -> np.ndarray:
    """The row that previous or nearest takes, held outside."""
    lo = np.searchsorted(source, targets, side="right") - 1
    hi = np.clip(lo + 1, 0, len(source) - 1)
    lo = np.clip(lo, 0, None)
    if method == "previous":
        return lo
    to_hi = (source[hi].astype(object) - targets.astype(object)).astype(np.float64)
    from_lo = (targets.astype(object) - source[lo].astype(object)).astype(np.float64)
    return np.where((lo < hi) & (to_hi < from_lo) & (targets > source[0]), hi, lo)


SERIES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "even": lambda rng, n: np.arange(n) * 10_000_000 + UNIX,
    "jitter": lambda rng, n: np.sort(np.arange(n) * 10**7 + rng.integers(0, 8 * 10**6, n)) + UNIX,
    "one gap": lambda rng, n: np.where(np.arange(n) < n // 2, np.arange(n), np.arange(n) + 10**15),
    "bursts": lambda rng, n: np.sort(np.repeat(np.arange(n // 50 + 1) * 10**9, 50)[:n]),
    "all equal": lambda rng, n: np.full(n, 42),
    "all equal but the last": lambda rng, n: np.append(np.zeros(n - 1), 10**18),
    "all equal but the first": lambda rng, n: np.append(-(10**18), np.zeros(n - 1)),
    "geometric": lambda rng, n: np.sort(np.minimum(1.02 ** np.arange(n), 9e18).astype(np.int64)),
    "whole range": lambda rng, n: np.sort(
        np.append(rng.integers(-(2**63), 2**63 - 1, n - 2), [-(2**63), 2**63 - 1])
    ),
}


@pytest.mark.parametrize("rows", [2, 3, 33, 1000, 4097])
@pytest.mark.parametrize("series", SERIES)
def test_search(backend: Backend, series: str, rows: int, rng: np.random.Generator) -> None:
    """The search ends at the right row from any first guess."""
    source = SERIES[series](rng, rows).astype(np.int64)
    offsets = rng.integers(-2, 3, 300).astype(object)
    near = source[rng.integers(0, rows, 300)].astype(object) + offsets
    span = rng.uniform(float(source[0]), float(source[-1]), 300)
    targets = np.concatenate([near, span.astype(object), [-(2**63), 2**63 - 1, 0]])
    targets = np.array([min(max(int(t), -(2**63)), 2**63 - 1) for t in targets], dtype=np.int64)
    row_numbers = torch.arange(rows, dtype=torch.float64).unsqueeze(-1)
    for method in ("previous", "nearest"):
        out, valid = backend.resample_to_cpu(
            row_numbers, torch.from_numpy(source), torch.from_numpy(targets), method=method
        )
        rows_taken = expected_rows(source, targets, method)
        # Distances that doubles cannot tell apart are left to the tests with exact integers.
        clear = np.ones(len(targets), bool)
        if method == "nearest":
            lo = expected_rows(source, targets, "previous")
            hi = np.clip(lo + 1, 0, rows - 1)
            middle = (source[lo].astype(object) + source[hi].astype(object)) / 2
            clear = np.abs((targets.astype(object) - middle).astype(np.float64)) > 4096
        np.testing.assert_array_equal(out[:, 0].numpy()[clear], rows_taken[clear])
        np.testing.assert_array_equal(
            valid.numpy(), (targets >= source[0]) & (targets <= source[-1])
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_search_in_floats(backend: Backend, dtype: torch.dtype, rng: np.random.Generator) -> None:
    """Floating times whose span overflows, with infinite targets among the others."""
    number = np.float32 if dtype == torch.float32 else np.float64
    limit = np.finfo(number).max
    source = np.sort(np.append(rng.normal(size=500) * 100, [-limit, limit])).astype(number)
    targets = np.append(rng.normal(size=500) * 120, [-np.inf, np.inf, limit, 0]).astype(number)
    out, valid = backend.resample_to_cpu(
        torch.arange(502, dtype=torch.float64).unsqueeze(-1),
        torch.from_numpy(source),
        torch.from_numpy(targets),
        method="previous",
    )
    np.testing.assert_array_equal(out[:, 0].numpy(), expected_rows(source, targets, "previous"))
    np.testing.assert_array_equal(valid.numpy(), np.isfinite(targets))


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65, 130])
def test_widths(backend: Backend, channels: int, rng: np.random.Generator) -> None:
    """Every width of a vector load and every remainder of it, in one bit-exact comparison."""
    batch, rows, count = 3, 40, 29
    source = np.sort(rng.integers(0, 10**9, (batch, rows)), axis=-1)
    targets = rng.integers(-(10**7), 10**9 + 10**7, (batch, count))
    values = rng.normal(size=(batch, rows, channels)).astype(np.float32)
    out, _ = backend.resample_to_cpu(
        torch.from_numpy(values), torch.from_numpy(source), torch.from_numpy(targets)
    )
    assert_same_bits(out, torch.from_numpy(linear32(values, source, targets)))


@pytest.mark.parametrize(
    ("batch", "rows", "count", "channels"),
    [
        (1, 5, 100_000, 1),
        (1, 100_000, 1_000, 2),
        (70_000, 3, 2, 2),  # more batch rows than a CUDA grid has in y or z
        (2, 100, 300, 700),
        (65, 130, 67, 33),
    ],
)
def test_shapes(
    backend: Backend, batch: int, rows: int, count: int, channels: int, rng: np.random.Generator
) -> None:
    source = np.sort(rng.integers(0, 10**12, (batch, rows)), axis=-1)
    targets = rng.integers(-(10**7), 10**12 + 10**7, (batch, count))
    values = rng.normal(size=(batch, rows, channels)).astype(np.float32)
    out, _ = backend.resample_to_cpu(
        torch.from_numpy(values), torch.from_numpy(source), torch.from_numpy(targets)
    )
    assert_same_bits(out, torch.from_numpy(linear32(values, source, targets)))


def linear32(values: np.ndarray, source: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """[B,T,D] float32: each operation of a + w*(b - a) in float32, held outside."""
    out = np.empty((*targets.shape, values.shape[-1]), np.float32)
    for b in range(len(values)):
        lo = np.searchsorted(source[b], targets[b], side="right") - 1
        before, after = lo < 0, lo >= values.shape[1] - 1
        lo = np.clip(lo, 0, values.shape[1] - 1)
        hi = np.clip(lo + 1, 0, values.shape[1] - 1)
        alone = before | after | (source[b][lo] == targets[b])
        with np.errstate(invalid="ignore", divide="ignore"):
            w = (targets[b] - source[b][lo]).astype(np.float32) / (
                source[b][hi] - source[b][lo]
            ).astype(np.float32)
            mixed = values[b, lo] + w[:, None] * (values[b, hi] - values[b, lo])
        out[b] = np.where(alone[:, None], values[b, lo], mixed)
    return out


def test_many_runs(backend: Backend, rng: np.random.Generator) -> None:
    """A layout of many runs, whose boundaries fall anywhere in a vector load."""
    names = ("linear", "previous", "nearest")
    layout = [(names[i % 3], int(rng.integers(1, 6))) for i in range(60)]
    channels = sum(width for _, width in layout)
    values = torch.from_numpy(rng.normal(size=(2, 20, channels)).astype(np.float32))
    source = torch.from_numpy(np.sort(rng.integers(0, 10**9, (2, 20)), axis=-1))
    targets = torch.from_numpy(rng.integers(-(10**7), 10**9, (2, 50)))
    out, _ = backend.resample_to_cpu(values, source, targets, method=layout)
    whole = {m: backend.resample_to_cpu(values, source, targets, method=m)[0] for m in names}
    start = 0
    for method, width in layout:
        run = slice(start, start + width)
        assert_same_bits(out[..., run], whole[method][..., run], f"{method} at {start}")
        start += width


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.uint8])
def test_types_at_size(backend: Backend, dtype: torch.dtype, rng: np.random.Generator) -> None:
    """Types of less than 4 bytes over many rows: the float32 answer, rounded once."""
    batch, rows, count, channels = 2, 50, 77, 37
    source = np.sort(rng.integers(0, 10**9, (batch, rows)), axis=-1)
    targets = rng.integers(-(10**7), 10**9 + 10**7, (batch, count))
    if dtype == torch.uint8:
        values = torch.from_numpy(rng.integers(0, 256, (batch, rows, channels)).astype(np.uint8))
    else:
        values = torch.from_numpy(rng.normal(size=(batch, rows, channels))).to(dtype)
    out, _ = backend.resample_to_cpu(values, torch.from_numpy(source), torch.from_numpy(targets))
    exact = torch.from_numpy(linear32(values.float().numpy(), source, targets))
    expected = exact.round().to(dtype) if dtype == torch.uint8 else exact.to(dtype)
    assert_same_bits(out, expected)


def test_strided_input_is_not_copied(native: Backend) -> None:
    """Inputs of 2**44 rows by stride 0: reading them in place works, a copy cannot be allocated."""
    rows = 2**44
    out, valid = native.resample_to_cpu(
        torch.tensor([1.0, 2.0, 3.0]).expand(rows, 3),
        torch.zeros(1, dtype=torch.int64).expand(rows),
        torch.tensor([-1, 0, 1]),
        source_valid=torch.ones(1, dtype=torch.bool).expand(rows),
        source_lengths=torch.tensor(3),
    )
    assert_same_bits(out, torch.tensor([[1.0, 2.0, 3.0]] * 3))
    assert valid.tolist() == [False, True, False]
