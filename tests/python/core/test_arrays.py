"""Operations on NumPy arrays: what they give for tensors, as arrays, without copies or warnings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import robocache as rc

RNG = np.random.default_rng(5)
MS = 1_000_000
VALUES = RNG.standard_normal((2, 9, 4)).astype(np.float32)
TIMES = np.arange(9) * 10 * MS
TARGETS = np.arange(0, 95, 7) * MS
WINDOWS = RNG.standard_normal((3, 5, 7))
POINTS = RNG.standard_normal((50, 3)).astype(np.float32)
ROW = np.ones(7)


def streams(values: Any, times: Any, scale: Any) -> list[rc.Stream]:
    return [
        rc.Stream(values, times, max_gap=5, subtract=scale),
        rc.Stream(values[..., :2], times, method="previous", clock_offset=3),
    ]


OPERATIONS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "resample": (
        lambda v, s, t, n: rc.resample_trajectories(
            v, s, t, source_lengths=n, max_gap=5, return_valid=True
        ),
        [VALUES, TIMES, TARGETS, np.array([9, 4])],
    ),
    "fuse": (
        lambda v, s, t, m: rc.fuse(streams(v, s, m), t, return_valid=True, return_age=True),
        [VALUES, TIMES, TARGETS, np.ones(4)],
    ),
    "fuse_multimodal": (
        lambda v, s, t: rc.fuse_multimodal(v, s, v, s, v, s, t, method="nearest"),
        [VALUES, TIMES, TARGETS],
    ),
    "voxelize": (
        lambda p, f: rc.voxelize_point_cloud(
            p, (4, 4, 4), 0.5, mode="mean", features=f, return_dropped=True
        ),
        [POINTS, POINTS],
    ),
    "voxelize_sparse": (lambda p, o: rc.voxelize_sparse(p, 0.5, offsets=o),
                        [POINTS, np.array([0, 20, 50])]),
    "convert_rotation": (
        lambda x: rc.convert_rotation(x, "quaternion_xyzw", "rotation_6d"), [VALUES]),
    "convert_rotation to the same": (
        lambda x: rc.convert_rotation(x, "rotation_vector", "rotation_vector"), [POINTS]),
    "relative_pose": (lambda x, a: rc.relative_pose(x, a, "quaternion_xyzw"), [WINDOWS, ROW]),
    "absolute_pose": (lambda x, a: rc.absolute_pose(x, a, "quaternion_xyzw"), [WINDOWS, ROW]),
    "delta_to_absolute": (lambda x, s: rc.delta_to_absolute(x, s, time_step=0.1), [WINDOWS, ROW]),
    "absolute_to_delta": (
        lambda x, s, t: rc.absolute_to_delta(x, s, times=t),
        [WINDOWS, ROW, np.arange(6) * 10 * MS],
    ),
    "relative_to": (lambda x, r, m: rc.relative_to(x, r, m), [WINDOWS, ROW, ROW > 0]),
    "absolute_from": (lambda x, r: rc.absolute_from(x, r), [WINDOWS, ROW]),
}  # fmt: skip


def parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("name", OPERATIONS)
def test_arrays_in_arrays_out(name: str) -> None:
    """Read-only arrays too, with warnings as errors."""
    operation, arguments = OPERATIONS[name]
    expected = operation(*map(torch.from_numpy, arguments))
    locked = [argument.copy() for argument in arguments]
    for argument in locked:
        argument.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = operation(*locked)
    assert type(got) is type(expected) or isinstance(got, np.ndarray)
    for one, other in zip(parts(got), parts(expected), strict=True):
        if other is None:
            assert one is None
            continue
        assert isinstance(one, np.ndarray)
        assert one.dtype == other.numpy().dtype
        np.testing.assert_array_equal(one, other.numpy())
        assert one.flags.writeable
        assert not any(np.shares_memory(one, argument) for argument in locked)
    for argument, before in zip(locked, arguments, strict=True):
        np.testing.assert_array_equal(argument, before)


def test_arrays_of_any_layout() -> None:
    """Backwards, of the other order of bytes, fields of records, strided, empty."""
    expected = rc.resample_trajectories(VALUES, TIMES, TARGETS)
    records = np.zeros(VALUES.shape, [("a", np.int8), ("b", np.float32)])
    records["b"] = VALUES
    strided = np.zeros((2, 18, 4), np.float32)
    strided[:, ::2] = VALUES
    for values in (
        VALUES[:, ::-1].copy()[:, ::-1],
        VALUES.astype(">f4"),
        records["b"],
        strided[:, ::2],
        np.broadcast_to(VALUES, (1, *VALUES.shape))[0],
    ):
        np.testing.assert_array_equal(rc.resample_trajectories(values, TIMES, TARGETS), expected)
    empty = rc.resample_trajectories(np.zeros((0, 3)), np.zeros(0), np.zeros(2))
    np.testing.assert_array_equal(empty, np.zeros((2, 3)))


def test_out_dtype_is_numpys_or_torchs() -> None:
    for dtype in (np.float64, "float64", np.dtype("f8"), torch.float64):
        options: Any = {"out_dtype": dtype}
        assert rc.resample_trajectories(VALUES, TIMES, TARGETS, **options).dtype == np.float64
    grid = rc.voxelize_point_cloud(POINTS, (2, 2, 2), [1.0] * 3, out_dtype=np.bool_)  # type: ignore
    assert grid.dtype == np.bool_
    sizes = rc.voxelize_point_cloud(POINTS, (2, 2, 2), np.ones(3), origin=np.zeros(3))
    assert sizes.shape == (2, 2, 2)


def test_rows_of_an_episode_beside_arrays() -> None:
    rows: Any = SimpleNamespace(values=VALUES[0], times=TIMES, valid=None, method="linear")
    np.testing.assert_array_equal(
        rc.fuse([rows], TARGETS), rc.resample_trajectories(VALUES[0], TIMES, TARGETS)
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: rc.resample_trajectories(VALUES, torch.from_numpy(TIMES), TARGETS),  # type: ignore
            "source_times: expected a numpy.ndarray as the other arrays are, got Tensor "
            "(torch.from_numpy makes tensors of those)",
        ),
        (
            lambda: rc.fuse([rc.Stream(torch.from_numpy(VALUES), TIMES)], TARGETS),
            "streams[0].values: expected a numpy.ndarray as the other arrays are, got Tensor "
            "(torch.from_numpy makes tensors of those)",
        ),
        (
            lambda: rc.resample_trajectories(torch.from_numpy(VALUES), TIMES, TARGETS),  # type: ignore
            "source_times: expected a torch.Tensor, got ndarray",
        ),
        (
            lambda: rc.resample_trajectories(VALUES.astype(str), TIMES, TARGETS),
            "data: expected an array of numbers that torch has, got <U32",
        ),
        (
            lambda: rc.resample_trajectories(VALUES, TIMES, TARGETS, out_dtype=torch.bfloat16),
            "out_dtype: expected a dtype that NumPy has, got bfloat16",
        ),
        (
            lambda: rc.resample_trajectories(VALUES, TIMES.astype(np.int32), TARGETS),
            "source_times: expected int64, float32 or float64, got int32",
        ),
    ],
)
def test_arrays_that_do_not_fit(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError) as error:
        call()
    assert str(error.value) == message
