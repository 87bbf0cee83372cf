"""Against programs that nobody here wrote: numpy.interp, SciPy's Slerp, pandas' merge_asof, rolling
and groupby, numpy.cumsum."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation, Slerp
from support import Backend

MILLISECOND = 1_000_000
START = 1_700_000_000_000_000_000


@st.composite
def recordings(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Ascending source times, equal ones among them, and sorted targets within and beyond them."""
    steps = draw(st.lists(st.integers(0, 12), min_size=1, max_size=40))
    source = np.cumsum(steps).tolist()
    targets = draw(st.lists(st.integers(-5, source[-1] + 5), max_size=40))
    return source, sorted(targets)


@given(recordings(), st.data())
def test_linear_is_numpy_interp(
    backend: Backend, recording: tuple[list[int], list[int]], data: st.DataObject
) -> None:
    source, targets = recording
    source = sorted(set(source))  # at equal times numpy.interp is not defined
    channels = data.draw(st.integers(1, 5))
    number = st.floats(-1e3, 1e3)
    values = np.array(
        data.draw(
            st.lists(
                st.lists(number, min_size=channels, max_size=channels),
                min_size=len(source),
                max_size=len(source),
            )
        )
    )
    for times in (torch.int64, torch.float64):
        out = backend.resample(
            torch.from_numpy(values),
            torch.tensor(source, dtype=times),
            torch.tensor(targets, dtype=times),
        )
        expected = np.stack(
            [np.interp(targets, source, values[:, d]) for d in range(channels)], axis=-1
        )
        np.testing.assert_allclose(out.cpu().numpy(), expected, rtol=1e-12, atol=1e-10)


@given(recordings(), st.integers(0, 2**32 - 1))
def test_slerp_is_scipy(
    backend: Backend, recording: tuple[list[int], list[int]], seed: int
) -> None:
    source = sorted(set(recording[0]))
    if len(source) < 2:
        source = [0, 7]
    targets = [t for t in recording[1] if source[0] <= t <= source[-1]]
    rng = np.random.default_rng(seed)
    rotations = Rotation.from_quat(rng.normal(size=(len(source), 4)))
    quaternions = rotations.as_quat()  # xyzw, signs as they come
    expected = Slerp(source, rotations)(targets).as_quat() if targets else np.zeros((0, 4))
    for method, order in (("slerp_xyzw", [0, 1, 2, 3]), ("slerp_wxyz", [3, 0, 1, 2])):
        out = backend.resample(
            torch.from_numpy(quaternions[:, order]),
            torch.tensor(source),
            torch.tensor(targets, dtype=torch.int64),
            method=method,
        )
        got = out.cpu().numpy()
        same = np.abs(np.sum(got * expected[:, order], axis=-1))  # q and -q are one rotation
        np.testing.assert_allclose(same, 1, atol=1e-13)
        np.testing.assert_allclose(np.linalg.norm(got, axis=-1), 1, atol=1e-14)
        rows = np.searchsorted(source, targets, side="right") - 1
        signs = np.sum(got * quaternions[rows][:, order], axis=-1)
        assert (signs >= 0).all(), "a keeps its own sign on the shortest path"


@given(recordings(), st.integers(0, 15) | st.none())
def test_previous_and_nearest_are_merge_asof(
    backend: Backend, recording: tuple[list[int], list[int]], max_gap: int | None
) -> None:
    """Within the recording; merge_asof's tolerance is max_gap here."""
    source, targets = recording
    left = pd.DataFrame({"time": np.array(targets, np.int64)})
    right = pd.DataFrame({"time": np.array(source, np.int64), "row": np.arange(len(source)) + 0.0})
    inside = np.array([source[0] <= t <= source[-1] for t in targets], bool)
    for method, direction in (("previous", "backward"), ("nearest", "nearest")):
        merged = pd.merge_asof(left, right, on="time", direction=direction, tolerance=max_gap)
        row = merged["row"].to_numpy(np.float64)
        unlimited = pd.merge_asof(left, right, on="time", direction=direction)["row"].to_numpy()
        out, valid = backend.resample_to_cpu(
            torch.arange(len(source), dtype=torch.float64).unsqueeze(-1),
            torch.tensor(source) * MILLISECOND + START,
            torch.tensor(targets, dtype=torch.int64) * MILLISECOND + START,
            method=method,
            max_gap=None if max_gap is None else max_gap * MILLISECOND,
        )
        np.testing.assert_array_equal(valid.numpy(), inside & ~np.isnan(row), method)
        np.testing.assert_array_equal(out[:, 0].numpy()[inside], unlimited[inside], method)


@given(recordings(), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_mean_is_pandas_rolling(
    backend: Backend, recording: tuple[list[int], list[int]], half: int, seed: int
) -> None:
    """A centered rolling mean over time, both ends counted, at the rows' own times."""
    source = sorted(set(recording[0]))
    values = np.random.default_rng(seed).integers(-50, 50, len(source)).astype(float)
    values[1:-1:4] = np.nan  # pandas leaves NaN out, as the mask does for invalid rows
    series = pd.Series(values, index=pd.to_datetime(source, unit="ms"))
    rolling = series.rolling(f"{2 * half}ms", center=True, closed="both", min_periods=1).mean()
    want = rolling.to_numpy()
    out, valid = backend.resample_to_cpu(
        torch.from_numpy(np.nan_to_num(values)).unsqueeze(-1),
        torch.tensor(source) * MILLISECOND + START,
        torch.tensor(source) * MILLISECOND + START,
        method="mean",
        mean_window=2 * half * MILLISECOND,
        source_valid=torch.from_numpy(~np.isnan(values)),
    )
    has_rows = ~np.isnan(want)
    np.testing.assert_allclose(out[:, 0].numpy()[has_rows], want[has_rows], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(valid.numpy(), has_rows)


@given(recordings(), st.integers(0, 2**32 - 1))
def test_sum_is_pandas_groupby_and_cumsum(
    backend: Backend, recording: tuple[list[int], list[int]], seed: int
) -> None:
    """Rows grouped by the first target that is not before them; differences of running sums."""
    source = recording[0]
    targets = sorted({t for t in recording[1] if source[0] <= t <= source[-1]})
    values = np.random.default_rng(seed).integers(-50, 50, len(source)).astype(float)
    out, valid = backend.resample_to_cpu(
        torch.from_numpy(values).unsqueeze(-1),
        torch.tensor(source) * MILLISECOND + START,
        torch.tensor(targets, dtype=torch.int64) * MILLISECOND + START,
        method="sum",
    )
    group = np.searchsorted(targets, source, side="left")
    sums = pd.Series(values).groupby(group).sum().reindex(range(len(targets)), fill_value=0.0)
    np.testing.assert_array_equal(out[:, 0].numpy(), sums.to_numpy())
    assert valid.all()
    running = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.searchsorted(source, targets, side="right")
    np.testing.assert_array_equal(out[:, 0].numpy(), np.diff(running[ends], prepend=0.0))
