"""Batches as JAX arrays: the values of torch, or an error, with and without 64 bits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from loader_stores import write_store

import robocache as rc


@pytest.fixture
def batch(tmp_path: Path) -> dict[str, Any]:
    store = write_store(tmp_path / "store", episodes=2)
    windows = {"joints": [-0.05, 0.0], "camera": None}
    return rc.Loader(store, 8, windows, device="cpu", anchor="joints").next()


class StandIn:
    """The part of JAX that `jax_batch` uses, with arrays of NumPy."""

    def __init__(self) -> None:
        self.config = SimpleNamespace(jax_enable_x64=False)
        self.dlpack = SimpleNamespace(from_dlpack=np.from_dlpack)

    @contextmanager
    def enable_x64(self, enabled: bool) -> Iterator[None]:
        self.config.jax_enable_x64 = enabled
        yield
        self.config.jax_enable_x64 = False


@pytest.fixture(params=["jax", "stand-in"])
def jax(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "jax":
        return pytest.importorskip("jax", reason="batches as JAX arrays need jax")
    stand_in = StandIn()
    monkeypatch.setitem(sys.modules, "jax", stand_in)
    return stand_in


def test_without_int64(jax: Any, batch: dict[str, Any]) -> None:
    with jax.enable_x64(False):
        found = rc.jax_batch({**batch, "obs": {"index": batch["index"]}, "task": ["push"]})
    assert set(found) == {*batch, "obs", "task"} - {"timestamp_ns"}
    assert found["task"] == ["push"]
    for key in set(batch) - {"timestamp_ns"}:
        np.testing.assert_array_equal(np.asarray(found[key]), batch[key].numpy())
    assert found["index"].dtype == found["obs"]["index"].dtype == np.int32
    batch["joints"].zero_()  # as a loader that reuses its buffers does
    assert np.asarray(found["joints"]).any()


def test_with_int64(jax: Any, batch: dict[str, Any]) -> None:
    with jax.enable_x64(True):
        found = rc.jax_batch(batch)
        assert set(found) == set(batch)
        for key, values in batch.items():
            assert found[key].dtype == values.numpy().dtype
            np.testing.assert_array_equal(np.asarray(found[key]), values.numpy())


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_what_does_not_fit(jax: Any, value: int) -> None:
    with pytest.raises(ValueError, match="force_age") as error:
        rc.jax_batch({"force_age": torch.tensor([0, value])})
    assert str(error.value) == (
        f"force_age: expected int64 values that fit int32, got {min(0, value)} to {max(0, value)} "
        "(jax.config.update('jax_enable_x64', True) keeps int64; or leave the key out)"
    )
    ends = torch.tensor([-(2**31), 2**31 - 1])
    np.testing.assert_array_equal(np.asarray(rc.jax_batch({"x": ends})["x"]), ends.numpy())
    assert rc.jax_batch({"x": ends[:0]})["x"].shape == (0,)


def test_without_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError) as error:
        rc.jax_batch({})
    assert str(error.value) == "jax_batch needs JAX: pip install jax"
