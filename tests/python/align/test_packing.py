"""Packing of a call for the operator `align`, by the bit fields that the library defines."""

from __future__ import annotations

import random
import struct
from itertools import combinations

import pytest
import torch

from robocache.align import packing
from robocache.align.call import Call, StreamArguments
from robocache.core import dtypes, library

CALL = ("outside", "return_valid", "return_age", "is_fusion", "out_dtype")


def test_fields_are_disjoint() -> None:
    fields = library.align_fields()
    groups = [CALL, [name for name in fields if name not in CALL]]
    assert set(CALL) < set(fields)
    for group in groups:
        masks = [((1 << fields[name][1]) - 1) << fields[name][0] for name in group]
        assert all(a & b == 0 for a, b in combinations(masks, 2))


def test_bits_of_seconds() -> None:
    numbers = [0.0, 1.0, -1.0, 0.1, 5e-324, 2.2e-308, 1.8e308, float("inf"), -3.5e-310]
    numbers += [random.Random(seed).uniform(-1e9, 1e9) for seed in range(100)]
    for number in numbers:
        assert packing.bits_of_seconds(number) == struct.unpack("<q", struct.pack("<d", number))[0]


@pytest.mark.parametrize("dtype", [None, *dtypes.DTYPES])
@pytest.mark.parametrize("outside", ["hold", "zero", "nan", "extrapolate"])
def test_packed_calls_are_read_back(dtype: torch.dtype | None, outside: str) -> None:
    """The fake kernel reads the packed call, except for values of durations."""
    values, times = torch.zeros(2, 5, 6), torch.arange(5)
    plain = ("", values, times, "slerp_wxyz", None, 0, None, None, None, None, None, 0)
    layout = [("mean", 1), ("sum", 5)]
    lengths, valid, scale = torch.tensor([1, 2]), torch.ones(5).bool(), torch.ones(6)
    full = ("", values, times, layout, 7, 3, 9, lengths, valid, scale, scale, -4)
    targets = torch.zeros(3)
    for streams, is_fusion in (([plain], False), ([plain, full, plain], True)):
        for flags in ((False, False), (True, False), (False, True)):
            call = (streams, targets, outside, dtype, *flags, is_fusion)
            tensors, integers, options = packing.pack(call)
            got = packing.read(tensors, targets, integers, options)
            assert got[1:] == (targets, outside, dtype, *flags, is_fusion)
            for i, (one, stream) in enumerate(zip(got.streams, streams, strict=True)):
                want = StreamArguments(*stream)._replace(tolerance=0, clock_offset=0)
                if want.max_gap is not None:
                    want = want._replace(max_gap=0, mean_window=0)
                prefix = f"streams[{i}]." if is_fusion else ""
                assert same(one, want._replace(prefix=prefix))


def same(one: StreamArguments, other: StreamArguments) -> bool:
    return all(a is b or a == b for a, b in zip(one, other, strict=True))


def test_call_is_what_is_packed() -> None:
    """A parsed Call and the plain tuples of the fast path give the same integers."""
    values, times = torch.zeros(5, 2), torch.arange(5.0)
    stream = ("", values, times, "mean", 1.5, 0.25, 2, None, None, None, None, -0.5)
    call = Call([StreamArguments(*stream)], times, "zero", torch.uint8, True, False, False)
    assert packing.pack(call)[1:] == packing.pack(tuple(call))[1:]
