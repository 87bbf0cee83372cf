"""Queries of some keys: the tensors that a query of all keys has for them, and no others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from live_specs import ACTION, MS, make_stream

import robocache as rc
from robocache.loader.window_spec import RelativeTo

RELATIVE = replace(ACTION, normalization=None, relative_to=RelativeTo("joints", (0, 1)))
SPEC = rc.PolicySpec(
    [
        make_stream("joints"),
        make_stream("camera", dtype="U8", out_dtype="U8", shape=(4, 6, 3), offsets=(0,)),
        make_stream("force"),
        RELATIVE,
    ],
    anchor="joints",
    concat={"obs": ("joints", "force")},
    with_age=True,
)
OBS = ["obs", "joints_is_pad", "force_is_pad", "joints_age", "force_age"]
CAMERA = ["camera", "camera_is_pad", "camera_age"]


def push(aligner: rc.LiveAligner, i: int) -> None:
    aligner.push("joints", i * MS, [i, -i])
    aligner.push("force", i * MS, [10 * i, 0])
    aligner.push("camera", i * MS, np.full((4, 6, 3), i, np.uint8))


@pytest.mark.parametrize(("keys", "arrays"), [(["obs"], OBS), (("camera",), CAMERA)])
def test_some_keys(keys: Any, arrays: list[str]) -> None:
    some, whole = rc.LiveAligner(SPEC), rc.LiveAligner(SPEC)
    for i in range(3):
        push(some, i)
        push(whole, i)
        batch, expected = some.query(i * MS, keys), whole.query(i * MS)
        assert isinstance(batch, rc.LiveBatch) and sorted(batch) == sorted(arrays)
        for key, values in batch.items():
            assert torch.equal(values, expected[key]), key
        absolute = some.undo("action", np.zeros((1, 2)), batch)
        assert absolute.tolist() == [[i, -i]]
    unseen = "camera" if keys == ["obs"] else "force"
    assert some.stats()[unseen].taken == 0 and some.stats()["joints"].taken == 3


def test_tensors_that_are_used_again_keep_the_other_keys() -> None:
    aligner = rc.LiveAligner(SPEC, reuse_buffers=True)
    push(aligner, 1)
    batch = aligner.query(MS)
    push(aligner, 2)
    fast = aligner.query(2 * MS, ["obs"])
    assert fast["obs"].data_ptr() == batch["obs"].data_ptr()
    assert batch["obs"][0, -1].tolist() == [2, -2, 20, 0]
    assert (batch["camera"] == 1).all()
    assert (aligner.query(2 * MS)["camera"] == 2).all()


def test_keys_that_do_not_fit() -> None:
    aligner = rc.LiveAligner(SPEC)

    def expect(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
        with pytest.raises(error) as caught:
            call()
        assert str(caught.value) == message

    def query(keys: Any) -> Callable[[], Any]:
        return lambda: aligner.query(0, keys)

    known = "keys: expected keys that a query returns (obs, camera), got"
    for key in ("arm", "joints", "action", "obs_is_pad"):
        expect(ValueError, f"{known} '{key}'", query([key]))
    expect(ValueError, "keys: expected one key or more, got none", query([]))
    expect(TypeError, "keys: expected a list of keys, got str", query("obs"))
    expect(TypeError, "keys: expected names of keys, got int", query(["obs", 3]))
