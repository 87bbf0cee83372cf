"""fuse and fuse_multimodal against the sequential NumPy reference, and against resampling."""

from __future__ import annotations

from typing import Any

import pytest
import reference
import torch
from hypothesis import given
from strategies import (
    EXACT,
    SLERPS,
    WINDOWS,
    Call,
    FuseCall,
    StreamCall,
    calls,
    columns,
    expected_fusion,
    fusions,
)
from support import DTYPES, Backend, assert_near, assert_same_bits, find_backends, same_bits

import robocache as rc

MS = 1_000_000


def stream_of(drawn: StreamCall) -> rc.Stream:
    options = dict(drawn.options)
    options["lengths"] = options.pop("source_lengths")
    options["valid"] = options.pop("source_valid")
    return rc.Stream(drawn.values, drawn.times, method=drawn.method, **options)


def check_window(
    backend: Backend,
    got: torch.Tensor,
    want: torch.Tensor,
    accepted: list[torch.Tensor],
    stream: StreamCall,
    run: slice,
) -> None:
    """A mean or a sum: the reference's bits, on pytorch within rounding."""
    right = torch.stack([same_bits(got, a) for a in accepted]).any(0)
    if right.all():
        return
    if backend.backend != "pytorch":
        assert_same_bits(got, accepted[0], backend.name)
    values = stream.values[..., run].double()
    values = values[values.isfinite()].abs()
    largest = float(values.max()) if values.numel() else 0.0
    unit = torch.finfo(want.dtype).eps
    allowed = 2 * unit * stream.values.size(-2) ** 2 * max(largest, 1.0)
    subtract, multiply = stream.options["subtract"], stream.options["multiply"]
    if subtract is not None:
        allowed += unit * float(subtract[run].abs().max())
    if multiply is not None:
        allowed *= float(multiply[run].abs().max())
    size = want.double().abs().nan_to_num(posinf=0.0, neginf=0.0)
    if got.dtype == torch.uint8:
        assert_near(got, accepted[0], 1.0, backend.name)
        return
    out = torch.finfo(got.dtype)
    assert_near(got, accepted[0], allowed + out.eps * size.clamp(min=out.tiny), backend.name)


@given(fusions((*EXACT, *WINDOWS)))
def test_fusion(call: FuseCall) -> None:
    """Values, masks and ages of streams of every kind, side by side, on every backend."""
    aligned, dtype, shape = expected_fusion(call)
    streams = [stream_of(stream) for stream in call.streams]
    for backend in find_backends()[0]:
        out, valid, age = backend.fuse(
            streams,
            call.target_times,
            outside=call.outside,
            out_dtype=call.out_dtype,
            return_valid=True,
            return_age=True,
        )
        out, valid, age = out.cpu(), valid.cpu(), age.cpu()
        width = sum(stream.values.size(-1) for stream in call.streams)
        assert out.dtype == dtype and list(out.shape) == [*shape, width]
        assert_same_bits(valid, torch.stack([a.valid for a in aligned], -1), backend.name)
        assert_same_bits(age, torch.stack([a.age for a in aligned], -1), f"{backend.name}: age")
        start = 0
        for stream, want in zip(call.streams, aligned, strict=True):
            accepted = reference.rounded(want.values, dtype)
            for method, run in columns(stream.layout):
                got = out[..., start + run.start : start + run.stop]
                rounded = [a[..., run] for a in accepted]
                if method in WINDOWS:
                    check_window(backend, got, want.values[..., run], rounded, stream, run)
                    continue
                right = torch.stack([same_bits(got, a) for a in rounded]).any(0)
                if not right.all():
                    assert_same_bits(got, rounded[0], f"{backend.name}: {method}")
            start += stream.values.size(-1)
        alone = backend.fuse(
            streams, call.target_times, outside=call.outside, out_dtype=call.out_dtype
        )
        assert_same_bits(alone.cpu(), out, f"{backend.name}: without mask and age")


def test_the_age_of_equal_times_is_positive_zero() -> None:
    """The sign of zero does not show in an age, with or without a clock offset."""
    zeros = torch.tensor([0.0, -0.0], dtype=torch.float64)
    for backend in find_backends()[0]:
        for time in zeros:
            streams: list[dict[str, Any]] = [
                {"values": torch.ones(1, 1), "times": time[None], "clock_offset": offset}
                for offset in (0.0, 1.0)
            ]
            for count in (1, 2):  # alone, and beside a stream with an offset
                _, age = backend.fuse(
                    [rc.Stream(**stream) for stream in streams[:count]], zeros, return_age=True
                )
                assert_same_bits(age[:, 0].cpu(), torch.zeros(2, dtype=torch.float64), backend.name)


@given(fusions((*EXACT, *SLERPS, "angle", *WINDOWS), most=3))
def test_masks_and_ages_of_all_methods(call: FuseCall) -> None:
    """Native backends and pytorch agree for any values, and the columns are resampling's."""
    aligned, dtype, _ = expected_fusion(call)
    streams = [stream_of(stream) for stream in call.streams]
    for backend in find_backends()[0]:
        out, valid, age = (
            result.cpu()
            for result in backend.fuse(
                streams,
                call.target_times,
                outside=call.outside,
                out_dtype=dtype,
                return_valid=True,
                return_age=True,
            )
        )
        assert_same_bits(valid, torch.stack([a.valid for a in aligned], -1), backend.name)
        assert_same_bits(age, torch.stack([a.age for a in aligned], -1), f"{backend.name}: age")
        start = 0
        for i, stream in enumerate(call.streams):
            stop = start + stream.values.size(-1)
            if stream.options["clock_offset"] == 0 and age.dtype == stream.times.dtype:
                options = {k: v for k, v in stream.options.items() if k != "clock_offset"}
                one, mask = backend.resample_to_cpu(
                    stream.values,
                    stream.times,
                    call.target_times,
                    method=stream.method,
                    outside=call.outside,
                    out_dtype=dtype,
                    **options,
                )
                assert_same_bits(out[..., start:stop], one.expand(*out.shape[:-1], -1))
                assert_same_bits(valid[..., i], mask.expand(valid.shape[:-1]))
            start = stop


@given(calls((*EXACT, *WINDOWS)))
def test_windows_of_one_stream(call: Call) -> None:
    """resample_trajectories with means and sums among its runs."""
    want, mask = reference.resample(*call.tensors, layout=call.layout, **call.options)
    accepted = reference.rounded(want, call.out_dtype)
    for backend in find_backends()[0]:
        out, valid = backend.resample_to_cpu(*call.tensors, method=call.method, **call.options)
        assert_same_bits(valid, mask, backend.name)
        for method, run in columns(call.layout):
            rounded = [a[..., run] for a in accepted]
            if method in WINDOWS:
                check_window(backend, out[..., run], want[..., run], rounded, call, run)


# ---- what fusion is for --------------------------------------------------------------------------


def test_streams_of_every_kind_side_by_side(backend: Backend) -> None:
    """Five types, columns at odd places, rows and methods of their own, shared and batched."""
    torch.manual_seed(7)
    targets = torch.arange(0, 100, 7) * MS
    streams, wants = [], []
    for i, (dtype, width) in enumerate(zip(DTYPES, (3, 1, 17, 2, 5), strict=True)):
        rows = 10 + 7 * i
        values = (torch.rand(4, rows, width) * 200).to(dtype)
        times = torch.arange(rows) * (100 * MS // rows)
        options: dict[str, Any] = {"method": ("linear", "previous", "nearest", "mean", "sum")[i]}
        if options["method"] == "mean":
            options["mean_window"] = 9 * MS
        if i % 2:
            values = values[0]
        streams.append(rc.Stream(values, times, **options))
        wants.append(backend.resample(values, times, targets, out_dtype=torch.float64, **options))
    out = backend.fuse(streams, targets)
    assert out.dtype == torch.float64 and out.shape == (4, 15, 28)
    assert_same_bits(out, torch.cat([want.expand(4, -1, -1) for want in wants], -1))


def test_most_streams(backend: Backend) -> None:
    streams = [
        rc.Stream(torch.full((2, 3, 1 + i % 5), float(i)), torch.arange(3) * 10, clock_offset=i)
        for i in range(64)
    ]
    out, valid, age = backend.fuse(
        streams, torch.tensor([21, 63]), return_valid=True, return_age=True
    )
    want = torch.cat([stream.values[:, :2] for stream in streams], -1)
    assert_same_bits(out.cpu(), want)
    inside = torch.tensor([[i <= 21 <= 20 + i, i <= 63 <= 20 + i] for i in range(64)]).T
    assert torch.equal(valid.cpu(), inside.expand(2, 2, 64))
    # At 63 the newest row is the last, of the pair before the end too.
    newest = torch.tensor([63 - (20 + i) if i <= 53 else 63 - (10 + i) for i in range(64)])
    newest = torch.where(torch.arange(64) < 53, newest, newest - 0)
    assert age.shape == (2, 2, 64) and age.dtype == torch.int64
    held = torch.arange(64) <= 43
    assert torch.equal(age[0, 1].cpu()[held], newest[held])


def test_wide_and_narrow(backend: Backend) -> None:
    """4096 channels beside 1; the second begins nowhere near 16 bytes."""
    narrow = rc.Stream(torch.arange(6, dtype=torch.uint8).unsqueeze(-1), torch.arange(6.0))
    wide = rc.Stream(torch.randn(9, 4096).to(torch.bfloat16), torch.arange(9.0) * 0.7)
    targets = torch.linspace(0, 5, 13)
    out = backend.fuse([narrow, wide, narrow], targets, out_dtype=torch.bfloat16).cpu()
    assert out.shape == (13, 4098)
    first = backend.resample(narrow.values, narrow.times, targets, out_dtype=torch.bfloat16)
    assert_same_bits(out[:, :1], first.cpu())
    assert_same_bits(out[:, -1:], first.cpu())
    second = backend.resample(wide.values, wide.times, targets)
    assert_same_bits(out[:, 1:-1], second.cpu())


def test_many_targets(backend: Backend) -> None:
    """So many that a GPU takes several streams, each cut up in another way, in several sweeps."""
    targets = torch.arange(20_000) * 7 + 3
    layout = [("linear", 64), ("angle", 1)]
    kinds: list[tuple[int, Any]] = [(1, "nearest"), (512, "linear"), (65, layout)]
    streams = [
        rc.Stream(torch.randn(500, width), torch.arange(500) * 300, method=method, max_gap=299 + i)
        for i, (width, method) in enumerate(kinds)
    ]
    values, valid, age = backend.fuse(streams, targets, return_valid=True, return_age=True)
    column = 0
    for i, stream in enumerate(streams):
        one = backend.fuse([stream], targets, return_valid=True, return_age=True)
        width = stream.values.size(1)
        assert_same_bits(values[:, column : column + width], one[0], f"values of stream {i}")
        assert_same_bits(valid[:, i : i + 1], one[1], f"mask of stream {i}")
        assert_same_bits(age[:, i : i + 1], one[2], f"age of stream {i}")
        column += width
    alone = backend.resample(
        streams[1].values, streams[1].times, targets, max_gap=300, return_valid=True
    )
    assert_same_bits(values[:, 1:513], alone[0], "resampling")
    assert alone[1].any() and valid[:, 0].any()


def test_clock_offset(backend: Backend) -> None:
    """A camera whose clock is 3 ms behind; exact on Unix time."""
    start = 1_700_000_000_000_000_000
    values = torch.arange(4.0).unsqueeze(-1)
    stream = rc.Stream(values, start + torch.arange(4) * 10 * MS, clock_offset=3 * MS)
    targets = start + torch.tensor([2, 3, 4, 33]) * MS
    out, valid, age = backend.fuse([stream], targets, return_valid=True, return_age=True)
    assert_near(out.cpu().flatten(), torch.tensor([0.0, 0.0, 0.1, 3.0]), 1e-6)
    assert valid.flatten().tolist() == [False, True, True, True]
    assert (age.flatten() // MS).tolist() == [-1, 0, -9, 0]


def test_results_asked_for(backend: Backend) -> None:
    streams = [rc.Stream(torch.zeros(2, 3), torch.tensor([0, 9]))] * 2
    targets = torch.tensor([0, 4])
    alone = backend.fuse(streams, targets)
    assert isinstance(alone, torch.Tensor) and alone.shape == (2, 6)
    with_valid = backend.fuse(streams, targets, return_valid=True)
    assert [tuple(r.shape) for r in with_valid] == [(2, 6), (2, 2)]
    assert with_valid[1].dtype == torch.bool
    with_age = backend.fuse(streams, targets, return_age=True)
    assert [tuple(r.shape) for r in with_age] == [(2, 6), (2, 2)]
    assert with_age[1].tolist() == [[0, 0], [-5, -5]]
    everything = backend.fuse(streams, targets, return_valid=True, return_age=True)
    assert [r.dtype for r in everything] == [torch.float32, torch.bool, torch.int64]
    assert all(r.is_contiguous() for r in everything)


def test_dtype_is_promoted(backend: Backend) -> None:
    def fused(*dtypes: torch.dtype) -> torch.dtype:
        streams = [rc.Stream(torch.ones(2, 1, dtype=d), torch.tensor([0, 1])) for d in dtypes]
        out: torch.Tensor = backend.fuse(streams, torch.tensor([0]))
        return out.dtype

    assert fused(torch.uint8, torch.uint8) == torch.uint8
    assert fused(torch.uint8, torch.bfloat16) == torch.bfloat16
    assert fused(torch.bfloat16, torch.float16) == torch.float32
    assert fused(torch.float16, torch.uint8, torch.float64) == torch.float64


# ---- fuse_multimodal -----------------------------------------------------------------------------


def three(backend: Backend) -> list[torch.Tensor]:
    return [
        backend.put(tensor)
        for tensor in (
            torch.randn(2, 4, 6),
            torch.arange(4) * 33 * MS,
            torch.randn(2, 11, 3),
            torch.arange(11) * 10 * MS,
            torch.randn(2, 101, 2),
            torch.arange(101) * MS,
            torch.arange(0, 100, 20) * MS,
        )
    ]


def test_multimodal_is_fuse(backend: Backend) -> None:
    tensors = three(backend)
    layout = [("linear", 1), ("previous", 1), ("nearest", 1)]  # three pairs, and one method
    scale = backend.put(torch.tensor([0.5, 2.0]))
    options: dict[str, Any] = {"outside": "zero", "return_valid": True, "return_age": True}
    got = rc.fuse_multimodal(
        *tensors,
        method=["nearest", layout, "mean"],
        max_gap=(40 * MS, None, 5 * MS),
        tolerance=0,
        mean_window=20 * MS,
        multiply=[None, None, scale],
        clock_offset=[5 * MS, 0, -MS],
        backend=backend.backend,
        **options,
    )
    streams = [
        rc.Stream(*tensors[:2], method="nearest", max_gap=40 * MS, clock_offset=5 * MS),
        rc.Stream(*tensors[2:4], method=layout),
        rc.Stream(
            *tensors[4:6],
            method="mean",
            max_gap=5 * MS,
            mean_window=20 * MS,
            multiply=scale,
            clock_offset=-MS,
        ),
    ]
    want = rc.fuse(streams, tensors[6], backend=backend.backend, **options)
    for mine, theirs in zip(got, want, strict=True):
        assert_same_bits(mine, theirs)


def test_multimodal_one_layout_for_all(backend: Backend) -> None:
    tensors = three(backend)
    for i in (0, 2, 4):
        tensors[i] = tensors[i][..., :2].contiguous()
    layout = [("linear", 1), ("previous", 1)]
    got = rc.fuse_multimodal(*tensors, method=layout, backend=backend.backend)
    want = rc.fuse_multimodal(*tensors, method=[layout] * 3, backend=backend.backend)
    assert_same_bits(got, want)


def test_multimodal_names_its_arguments(backend: Backend) -> None:
    tensors = three(backend)

    def message(**options: Any) -> str:
        with pytest.raises((TypeError, ValueError)) as caught:
            rc.fuse_multimodal(*tensors, backend=backend.backend, **options)
        return str(caught.value)

    assert message(max_gap=(1, 2)) == "max_gap: expected one value or 3, got 2"
    assert message(max_gap=-1) == "max_gap of vision: expected 0 or more, got -1"
    assert message(method=["linear", "linear", "mean"]) == (
        "mean_window of force: expected a duration for method 'mean', got None"
    )
    assert message(method=["linear", "cubic", "linear"]).startswith("method of proprio: expected")
    tensors[3] = tensors[3][:-1]
    assert message() == "proprio_times: expected [S=11], got [10]"
    tensors[2] = [1.0]  # type: ignore[call-overload]
    assert message() == "proprio: expected a torch.Tensor, got list"
