"""Integer and bool streams: `previous` and `nearest` copy their rows exactly, beside any others."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from support import Backend, assert_same_bits

import robocache as rc

DTYPES = (
    torch.bool, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.uint16, torch.uint32, torch.uint64,
)  # fmt: skip
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
LARGE = 2**63 - 1  # no float64 holds it


def drawn(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Values from the whole range of a dtype."""
    rng = np.random.default_rng(3)
    if dtype == torch.bool:
        return torch.from_numpy(rng.integers(0, 2, shape).astype(bool))
    info = np.iinfo(str(dtype).removeprefix("torch."))
    return torch.from_numpy(rng.integers(info.min, info.max, shape, info.dtype, endpoint=True))


def chosen(times: np.ndarray, targets: np.ndarray, method: str) -> tuple[np.ndarray, np.ndarray]:
    """The row that each target takes, and how far away it is; outside the recording it holds."""
    last = np.searchsorted(times, targets, "right") - 1
    row = last.clip(0, len(times) - 1)
    if method == "nearest":
        after = (last + 1).clip(0, len(times) - 1)
        row = np.where(abs(times[after] - targets) < abs(times[row] - targets), after, row)
    return row, abs(targets - times[row])


@pytest.mark.parametrize("method", ["previous", "nearest"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_against_numpy(backend: Backend, dtype: torch.dtype, method: str) -> None:
    """Values, masks and ages of episodes of their own lengths, with rows that are not valid."""
    rng = np.random.default_rng(1)
    batch, rows, channels, offset, max_gap = 3, 20, 5, 4, 11
    values = drawn(dtype, batch, rows, channels)
    times = np.sort([rng.choice(300, rows, replace=False) for _ in range(batch)], -1)
    is_valid = rng.random((batch, rows)) < 0.8
    lengths = np.array([rows, 7, 0])
    targets = np.arange(-10, 320, 7)
    stream: Any = {
        "method": method,
        "max_gap": max_gap,
        "clock_offset": offset,
        "lengths": torch.from_numpy(lengths),
        "valid": torch.from_numpy(is_valid),
    }
    out, valid, age = backend.fuse(
        [rc.Stream(values, torch.from_numpy(times), **stream)],
        torch.from_numpy(targets),
        return_valid=True,
        return_age=True,
    )
    assert out.dtype == dtype and out.is_contiguous() and out.shape == (3, len(targets), channels)
    for b, length in enumerate(lengths):
        if length == 0:
            assert not out[b].to(torch.float32).any() and not valid[b].any() and not age[b].any()
            continue
        own = times[b, :length] + offset
        row, distance = chosen(own, targets, method)
        assert_same_bits(out[b].cpu(), values[b][torch.from_numpy(row)])
        inside = (targets >= own[0]) & (targets <= own[-1])
        want = inside & is_valid[b][row] & (distance <= max_gap)
        np.testing.assert_array_equal(valid[b, :, 0].cpu().numpy(), want)
        np.testing.assert_array_equal(age[b, :, 0].cpu().numpy(), targets - own[row])


def test_beside_floats(backend: Backend) -> None:
    """The columns keep their places and the float ones their bits, gradients and masks."""
    torch.manual_seed(0)
    times = torch.arange(9) * 10
    targets = torch.arange(-5, 95, 4)
    leaf = torch.randn(2, 9, 3).to(backend.device).requires_grad_()
    streams = [
        backend.stream(drawn(torch.int16, 9, 2), times, method="nearest", max_gap=3),
        backend.stream(leaf, times + 1, max_gap=10),
        backend.stream(drawn(torch.bool, 2, 9, 1), times + 2, method="previous", clock_offset=-3),
        backend.stream(drawn(torch.uint8, 9, 4), times, method="linear"),
        backend.stream(
            drawn(torch.int64, 9, 3), times, method=[("previous", 2), ("nearest", 1)], max_gap=4
        ),
    ]
    options: Any = {"return_valid": True, "return_age": True, "backend": backend.backend}
    targets = backend.put(targets)
    out, valid, age = rc.fuse(streams, targets, **options)
    assert out.dtype == torch.float32 and out.shape == (2, 25, 13) and valid.shape == (2, 25, 5)
    start = 0
    for i, stream in enumerate(streams):
        width = stream.values.size(-1)
        one, mask, one_age = rc.fuse([stream], targets, **options)
        if stream.values.dtype == torch.uint8:  # computed in the result's dtype, as beside floats
            one = rc.fuse([stream], targets, out_dtype=torch.float32, backend=backend.backend)
        want = one.to(torch.float32).expand(2, -1, -1)
        assert_same_bits(out[..., start : start + width].detach(), want.detach(), f"stream {i}")
        assert_same_bits(valid[..., i : i + 1], mask.expand(2, -1, -1), f"mask {i}")
        assert_same_bits(age[..., i : i + 1], one_age.expand(2, -1, -1), f"age {i}")
        start += width
    out.sum().backward()
    assert leaf.grad is not None
    gradient = leaf.grad.clone()
    leaf.grad = None
    rc.fuse([streams[1]], targets, backend=backend.backend).sum().backward()
    assert_same_bits(gradient, leaf.grad)


def test_the_common_dtype(backend: Backend) -> None:
    """That of `torch.cat`; for unsigned dtypes that torch promotes with no other, NumPy's."""
    times = torch.arange(3)
    for one in (*DTYPES, torch.uint8, *FLOATS):
        for other in (*DTYPES, torch.uint8, *FLOATS):
            values = [torch.ones(3, 1).to(one), torch.ones(3, 1).to(other)]
            streams = [rc.Stream(x, times, method="previous") for x in values]
            try:
                want = torch.cat(values, -1).dtype
                torch.promote_types(one, other)
            except RuntimeError:
                arrays = [x.numpy() for x in values]
                want = getattr(torch, np.concatenate(arrays, -1).dtype.name)
            out = backend.fuse(streams, times)
            assert out.dtype == want, (one, other)
            assert (out.to(torch.float64) == 1).all()


def test_arrays_have_the_dtype_of_concatenate() -> None:
    times = np.arange(3)
    names = ("bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
    for one in names:
        for other in names:
            values = [np.ones((3, 1), one), np.ones((3, 2), other)]
            out = rc.fuse([rc.Stream(x, times, method="previous") for x in values], times)
            want = np.concatenate(values, -1)
            assert out.dtype == want.dtype, (one, other)
            np.testing.assert_array_equal(out, want)


def test_large_integers_stay_exact(backend: Backend) -> None:
    values = torch.tensor([[LARGE], [-LARGE - 1]])
    stream = rc.Stream(values, torch.tensor([0, 10]), method="previous")
    small = rc.Stream(torch.tensor([[1], [2]], dtype=torch.int8), stream.times, method="nearest")
    out = backend.fuse([stream, small], torch.tensor([3, 10]))
    assert out.dtype == torch.int64 and out.tolist() == [[LARGE, 1], [-LARGE - 1, 2]]
    beside = rc.Stream(torch.zeros(2, 1, dtype=torch.float64), stream.times)
    out = backend.fuse([stream, beside], torch.tensor([3]))
    assert out.dtype == torch.float64 and out[0, 0].item() == 2.0**63  # rounded once


def test_out_dtype(backend: Backend) -> None:
    values = torch.tensor([[-3], [7], [300], [2**40]])
    times = torch.arange(4)
    stream = rc.Stream(values, times, method="previous")
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        assert_same_bits(backend.fuse([stream], times, out_dtype=dtype).cpu(), values.to(dtype))
    out = backend.fuse([stream], times, out_dtype=torch.uint8)
    assert out.squeeze(1).tolist() == [0, 7, 255, 255]  # saturates
    out = backend.fuse([stream], times, out_dtype=torch.float16)
    assert out.squeeze(1).tolist() == [-3, 7, 300, float("inf")]


def test_literals(backend: Backend) -> None:
    """0 and NaN where no row stands, as for uint8."""
    for dtype in (torch.int32, torch.bool, torch.uint8):
        stream = rc.Stream(torch.ones(2, 1).to(dtype), torch.tensor([0.0, 1.0]), method="previous")
        targets = torch.tensor([-1.0, float("nan"), 0.5, 2.0])
        for outside, want in (("hold", [1, 0, 1, 1]), ("zero", [0, 0, 1, 0]),
                              ("extrapolate", [1, 0, 1, 1])):  # fmt: skip
            out, valid = backend.fuse([stream], targets, outside=outside, return_valid=True)
            assert out.dtype == dtype and out.squeeze(1).tolist() == want
            assert valid.squeeze(1).tolist() == [False, False, True, False]
        for outside, expected in (("hold", ["1", "nan", "1", "1"]),
                                  ("nan", ["nan", "nan", "1", "nan"])):  # fmt: skip
            out = backend.fuse([stream], targets, outside=outside, out_dtype=torch.float32)
            assert [f"{x:g}" for x in out.squeeze(1).tolist()] == expected
    empty = rc.Stream(torch.zeros(0, 2, dtype=torch.int32), torch.zeros(0), method="nearest")
    assert backend.fuse([empty], targets).tolist() == [[0, 0]] * 4
    out = backend.fuse([empty], targets, outside="nan", out_dtype=torch.float32)
    assert out.tolist() == [[0, 0]] * 4


def test_times_are_promoted_over_all_streams(backend: Backend) -> None:
    """float32 targets beside float64 times: as where both streams are floats."""
    times = torch.tensor([0.0, 0.1], dtype=torch.float64)
    targets = torch.tensor([0.1])  # a little more than 0.1 in float64
    flags = rc.Stream(torch.tensor([[False], [True]]), times, method="previous")
    numbers = rc.Stream(torch.zeros(2, 1), times.float(), method="previous")
    for streams in ([flags, numbers], [numbers, flags]):
        _, age = backend.fuse(streams, targets, return_age=True)
        assert age.dtype == torch.float64
        want = [targets.double().item() - s.times.double()[1].item() for s in streams]
        assert age.tolist() == [want]


def test_resample_copies_integers(backend: Backend) -> None:
    values = drawn(torch.int64, 2, 6, 3).transpose(1, 2).contiguous().transpose(1, 2)  # strided
    times, targets = torch.arange(6) * 10, torch.tensor([[4, 16], [50, 60]])
    out, valid = backend.resample(values, times, targets, method="nearest", return_valid=True)
    want = torch.stack([values[0][torch.tensor([0, 2])], values[1][torch.tensor([5, 5])]])
    assert_same_bits(out.cpu(), want)
    assert out.is_contiguous() and valid.tolist() == [[True, True], [True, False]]
    array = rc.resample_trajectories(
        values.numpy(), times.numpy(), targets.numpy(), method="nearest"
    )
    np.testing.assert_array_equal(array, want.numpy())


def test_rows_of_an_episode(tmp_path: Any) -> None:
    with rc.StoreWriter(tmp_path / "store") as writer:
        writer.declare("mode", method="previous")
        with writer.episode() as new:
            new.add("mode", np.arange(3), np.array([LARGE, 1, 2]))
            new.add("open", np.arange(3), np.array([False, True, True]))
    episode = rc.EpisodeStore(tmp_path / "store")[0]
    assert rc.fuse([episode["mode"]], torch.tensor([0, 2])).tolist() == [[LARGE], [2]]
    stream = rc.Stream.from_rows(episode["open"], method="nearest")
    assert rc.fuse([stream], torch.tensor([0, 2])).tolist() == [[False], [True]]


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool], ids=str)
def test_one_graph(backend: Backend, dtype: torch.dtype) -> None:
    """torch.compile(fullgraph=True) traces such streams, alone and beside floats."""

    def call(values: Any, flags: Any, times: Any, targets: Any) -> Any:
        copied = rc.Stream(flags, times, method="previous")
        floats = rc.Stream(values, times)
        both = rc.fuse([copied, floats], targets, return_valid=True, backend=backend.backend)
        return rc.fuse([copied], targets, backend=backend.backend), *both

    torch.compiler.reset()
    fast = torch.compile(call, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows, count in ((5, 7), (9, 4)):
        tensors = backend.put({
            "values": torch.randn(2, rows, 3),
            "flags": drawn(dtype, 2, rows, 4),
            "times": torch.arange(rows) * 10,
            "targets": torch.arange(count) * 8,
        })  # fmt: skip
        for got, want in zip(fast(**tensors), call(**tensors), strict=True):
            assert_same_bits(got, want)
    torch.compiler.reset()


# ---- errors --------------------------------------------------------------------------------------

TIMES = torch.arange(4)
FLOAT = rc.Stream(torch.zeros(4, 2), TIMES)


def stream(dtype: torch.dtype = torch.int32, **options: Any) -> rc.Stream:
    options = {"values": torch.zeros(4, 2, dtype=dtype), "times": TIMES,
               "method": "previous"} | options  # fmt: skip
    return rc.Stream(options.pop("values"), options.pop("times"), **options)


# (streams, options of fuse, class, message)
# fmt: off
CASES: list[tuple[list[rc.Stream], dict[str, Any], type[Exception], str]] = [
    ([FLOAT, stream(method="linear")], {}, ValueError,
     "streams[1].method: expected previous or nearest for int32 values, got 'linear'"),
    ([FLOAT, stream(torch.bool, method=[("nearest", 1), ("mean", 1)], mean_window=3)], {},
     ValueError,
     "streams[1].method: expected previous or nearest for bool values, got 'mean'"),
    ([FLOAT, stream(torch.uint16, multiply=torch.ones(2))], {}, ValueError,
     "streams[1].multiply: expected None for uint16 values, which are copied, got a tensor "
     "(pass floating values)"),
    ([FLOAT, stream(values=torch.zeros(4, 2, dtype=torch.complex64))], {}, TypeError,
     "streams[1].values: expected float16, bfloat16, float32, float64, an integer dtype or "
     "bool, got complex64"),
    ([FLOAT, stream(values=torch.zeros(4, dtype=torch.int32))], {}, ValueError,
     "streams[1].values: expected [B,S,D] or [S,D], got [4]"),
    ([FLOAT, stream(times=TIMES[:3])], {}, ValueError,
     "streams[1].times: expected [S=4], got [3]"),
    ([rc.Stream(torch.zeros(2, 4, 1), TIMES),
      stream(values=torch.zeros(3, 4, 1, dtype=torch.int8))], {}, ValueError,
     "streams[1].values: expected [B=2,S,D], got [3,4,1]"),
    ([FLOAT, stream(), stream(times=TIMES.double())], {}, TypeError,
     "streams[2].times: expected int64 like streams[0].times, got float64"),
    ([FLOAT, stream(), stream(times=TIMES.flip(0))], {}, ValueError,
     "streams[2].times: expected ascending times, got 2 after 3 at [1]"),
    ([stream(), rc.Stream(torch.zeros(4, 2), TIMES.flip(0))], {}, ValueError,
     "streams[1].times: expected ascending times, got 2 after 3 at [1]"),
    ([FLOAT, stream(), stream(lengths=torch.tensor(5))], {}, ValueError,
     "streams[2].lengths: expected 0 to S=4, got 5 at []"),
    ([stream(), stream(torch.int64)], {"outside": "nan"}, ValueError,
     "outside: expected hold, zero or extrapolate for int64 output, got 'nan'"),
    ([stream(), stream(torch.uint8, subtract=torch.ones(2))], {}, ValueError,
     "out_dtype: expected a dtype with subtract or multiply of uint8 values, got None"),
    ([stream()], {"out_dtype": torch.int64}, TypeError,
     "out_dtype: expected float16, bfloat16, float32, float64 or uint8, got int64"),
]
# fmt: on


@pytest.mark.parametrize(("streams", "options", "error", "message"), CASES)
def test_errors(
    backend: Backend, streams: list[rc.Stream], options: Any, error: type[Exception], message: str
) -> None:
    with rc.config(validate=True), pytest.raises(error, match=f"^{re.escape(message)}$"):
        backend.fuse(streams, TIMES, **options)


def test_errors_of_resampling_and_of_three_streams(backend: Backend) -> None:
    values = torch.zeros(4, 2, dtype=torch.int32)
    message = "method: expected previous or nearest for int32 values, got 'linear'"
    with pytest.raises(ValueError, match=f"^{message}$"):
        backend.resample(values, TIMES, TIMES)
    message = "method of force: expected previous or nearest for int32 values, got 'linear'"
    floats = torch.zeros(4, 1)
    tensors = backend.put({"a": floats, "times": TIMES, "c": values})
    a, times, c = tensors.values()
    with pytest.raises(ValueError, match=f"^{message}$"):
        rc.fuse_multimodal(a, times, a, times, c, times, times, backend=backend.backend)
