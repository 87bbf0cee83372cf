"""Bad input to farthest-point sampling: class and whole message, alike on every backend."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from support import Backend

import robocache as rc

B, N, P = 2, 5, 10
INT64 = torch.int64
FLOATS = "float16, bfloat16, float32 or float64"


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


def ragged(offsets: Any) -> dict[str, Any]:
    return {"points": zeros(P, 3), "offsets": torch.as_tensor(offsets)}


# fmt: off
ERRORS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"points": [1, 2, 3]}, TypeError, "points: expected a torch.Tensor, got list"),
    ({"points": zeros(B, N, 3, dtype=INT64)}, TypeError, f"points: expected {FLOATS}, got int64"),
    ({"points": zeros(5, 4)}, ValueError, "points: expected [B,N,3] or [P,3], got [5,4]"),
    ({"points": zeros(1, B, N, 3)}, ValueError,
     "points: expected [B,N,3] or [P,3], got [1,2,5,3]"),
    ({"points": zeros(N, 3).to_sparse()}, TypeError,
     "points: expected a dense tensor, got a sparse_coo one"),
    ({"offsets": [0, 10]}, TypeError, "offsets: expected a torch.Tensor, got list"),
    ({"offsets": torch.tensor([0, 10])}, ValueError,
     "points: expected [P,3] with offsets, got [2,5,3]"),
    (ragged([0.0, 10.0]), TypeError, "offsets: expected int64 or int32, got float32"),
    (ragged(zeros(0, dtype=INT64)), ValueError, "offsets: expected [B+1], got [0]"),
    ({"n": 0}, ValueError, "n: expected 1 or more, got 0"),
    ({"n": 2.0}, TypeError, "n: expected an int, got float"),
    ({"n": True}, TypeError, "n: expected an int, got bool"),
    ({"start": -1}, ValueError, "start: expected 0 or more, got -1"),
    ({"start": None}, TypeError, "start: expected an int, got NoneType"),
    ({"start": N}, ValueError, "start: expected an index below N=5, got 5"),
    ({"points": zeros(N, 3), "start": 7}, ValueError, "start: expected an index below N=5, got 7"),
    ({"points": zeros(0, 3), "start": 1}, ValueError, "start: expected an index below N=0, got 1"),
    ({"return_points": 1}, TypeError, "return_points: expected a bool, got int"),
]

OFFSETS = [
    ([1, 10], "offsets: expected 0 first, got 1"),
    ([0, 9], "offsets: expected P=10 last, got 9"),
    ([0, 7, 3, 10], "offsets: expected ascending offsets, got 3 after 7 at [2]"),
]
# fmt: on


def fails(backend: Backend, changes: dict[str, Any], error: type[Exception], message: str) -> None:
    arguments: dict[str, Any] = {"points": zeros(B, N, 3), "n": 2} | changes
    arguments = {name: backend.put(value) for name, value in arguments.items()}
    with pytest.raises(error, match="^" + re.escape(message) + "$") as caught:
        rc.sample_farthest(**arguments, backend=backend.backend)
    assert type(caught.value) is error
    assert backend.sample_farthest(zeros(3, 3), 1).tolist() == [0], "the next call works"


@pytest.mark.parametrize(
    ("changes", "error", "message"), ERRORS, ids=[f"{i}-{c[2]}" for i, c in enumerate(ERRORS)]
)
def test_message(
    backend: Backend, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    fails(backend, changes, error, message)


@pytest.mark.parametrize(("offsets", "message"), OFFSETS)
def test_values_of_offsets(backend: Backend, offsets: list[int], message: str) -> None:
    with rc.config(validate=True):
        fails(backend, ragged(offsets), ValueError, message)
    if backend.name == "cpu":  # which always validates
        fails(backend, ragged(offsets), ValueError, message)
    else:
        indices = backend.sample_farthest(n=3, **ragged(offsets)).cpu()
        assert ((indices >= -1) & (indices < P)).all()


def test_device(backend: Backend) -> None:
    other = torch.device("meta" if backend.device == "cpu" else "cpu")
    own = "cuda:0" if backend.device == "cuda" else "cpu"
    arguments = backend.put(ragged([0, 4, P]))
    arguments["offsets"] = arguments["offsets"].to(other)
    message = f"offsets: expected device {own} like points, got {other}"
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        rc.sample_farthest(**arguments, n=2, backend=backend.backend)


def test_arrays() -> None:
    with pytest.raises(TypeError, match=r"^offsets: expected a numpy\.ndarray as the other arrays"):
        rc.sample_farthest(np.zeros((P, 3)), 2, offsets=torch.tensor([0, P]))  # type: ignore


def test_points_without_values() -> None:
    """On the device meta there are shapes alone."""
    points, offsets = zeros(P, 3).to("meta"), torch.tensor([0, 4, P]).to("meta")
    indices = rc.sample_farthest(points, 3, offsets=offsets)
    assert indices.is_meta and indices.shape == (2, 3) and indices.dtype == INT64
