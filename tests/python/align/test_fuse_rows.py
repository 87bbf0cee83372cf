"""Rows of a store's episode carry their stored method into `rc.fuse`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation, Slerp

import robocache as rc

MS = 1_000_000


@pytest.fixture
def episode(tmp_path: Path) -> object:
    """A turning pose at 10 Hz, of which a row is not valid, and a gripper."""
    rng = np.random.default_rng(0)
    turns = Rotation.from_rotvec(np.cumsum(rng.normal(scale=0.6, size=(20, 3)), 0))
    quaternions = turns.as_quat() * np.where(np.arange(20) % 3 == 0, -1, 1)[:, None]
    with rc.StoreWriter(tmp_path / "store") as writer:
        writer.declare("pose", method="slerp_xyzw")
        writer.declare("gripper", method="previous")
        with writer.episode() as new:
            times = np.arange(20) * 100 * MS
            new.add("pose", times, quaternions, valid=np.arange(20) != 7)
            new.add("gripper", times, np.arange(20, dtype=np.float32))
    return rc.EpisodeStore(tmp_path / "store")[0]


def test_rows_are_fused_by_their_stored_method(episode: rc.EpisodeStore) -> None:
    pose, gripper = episode["pose"], episode["gripper"]
    assert pose.method == "slerp_xyzw" and pose[3:].method == "slerp_xyzw"
    assert repr(pose) == "StreamRows(float64[20, 4], times, valid, method='slerp_xyzw')"
    targets = np.arange(0, 1900, 37) * MS
    values, valid = rc.fuse([pose, gripper], torch.from_numpy(targets), return_valid=True)
    seconds = pose.times / 1e9
    turn = Slerp(seconds, Rotation.from_quat(pose.values))(targets / 1e9).as_matrix()
    fused = values[:, :4].double().numpy()
    np.testing.assert_allclose(np.linalg.norm(fused, axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(Rotation.from_quat(fused).as_matrix(), turn, atol=1e-9)
    np.testing.assert_array_equal(values[:, 4].numpy(), targets // (100 * MS))
    touched = (targets > 600 * MS) & (targets < 800 * MS)
    np.testing.assert_array_equal(valid[:, 0].numpy(), ~touched)
    assert valid[:, 1].all()


def test_options_of_a_stream_from_rows(episode: rc.EpisodeStore) -> None:
    stream = rc.Stream.from_rows(episode["pose"], max_gap=50 * MS, clock_offset=MS)
    assert (stream.method, stream.max_gap, stream.clock_offset) == ("slerp_xyzw", 50 * MS, MS)
    assert stream.valid is not None and stream.valid.sum() == 19
    held = rc.Stream.from_rows(episode["pose"], method="previous", valid=None)
    assert held.method == "previous" and held.valid is None
    assert tuple(rc.Stream.from_rows(episode["gripper"]).values.shape) == (20, 1)
    stream.values[0] = 0  # a copy: the store's files are read-only
    assert (episode["pose"].values[0] != 0).any()


def test_bfloat16_rows(tmp_path: Path) -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    with rc.StoreWriter(tmp_path / "store") as writer, writer.episode() as new:
        new.add("x", np.arange(3) * MS, np.array([[0.0], [1.0], [3.0]], bfloat16))
    rows = rc.EpisodeStore(tmp_path / "store")[0]["x"]
    out = rc.fuse([rows], torch.tensor([MS // 2, 2 * MS]))
    assert out.dtype == torch.bfloat16 and out[:, 0].tolist() == [0.5, 3.0]
