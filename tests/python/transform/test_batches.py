"""Transforms of batches: in a loader, undone, written down, and what is wrong with them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loader_options import keyed_loader
from rotations import matrices, poses
from support import assert_near, assert_same_bits

import robocache as rc
from robocache.transform.transforms import (
    AbsoluteToDelta,
    ConvertRotation,
    DeltaToAbsolute,
    Normalize,
    RelativePose,
    Transform,
    from_dict,
)

MS = 1_000_000


@pytest.fixture
def store(tmp_path: Path) -> rc.EpisodeStore:
    """Poses with a gripper (8 columns), and actions that are poses, at 50 Hz."""
    torch.manual_seed(3)
    with rc.StoreWriter(tmp_path / "store") as writer:
        for stream in ("pose", "action"):
            writer.declare(stream, rate=50, timeline="rows")
        for _ in range(2):
            with writer.episode() as episode:
                times = np.arange(40) * 20 * MS
                pose = torch.cat([poses("quaternion_xyzw", 40), torch.rand(40, 1).double()], -1)
                episode.add("pose", times, pose.float().numpy())
                episode.add("action", times, poses("quaternion_xyzw", 40).float().numpy())
    return rc.EpisodeStore(tmp_path / "store")


def make_loader(store: rc.EpisodeStore, *transforms: Transform, **options: Any) -> rc.Loader:
    windows = {"pose": [-0.02, 0.0], "action": [0.0, 0.02, 0.04]}
    options = {"shuffle": False, "device": "cpu"} | options
    return keyed_loader(store, 8, windows, transforms=transforms, **options)


RELATIVE = RelativePose("action", "pose", "quaternion_xyzw")
TO_6D = ConvertRotation("action", "quaternion_xyzw", "rotation_6d", 3)
OBSERVED = ConvertRotation("pose", "quaternion_xyzw", "rotation_vector", 3)


def test_what_a_loader_gives(store: rc.EpisodeStore) -> None:
    plain, batch = make_loader(store).next(), make_loader(store, RELATIVE, TO_6D, OBSERVED).next()
    relative = rc.relative_pose(plain["action"], plain["pose"][:, -1, :7], "quaternion_xyzw")
    six = rc.convert_rotation(relative[..., 3:], "quaternion_xyzw", "rotation_6d")
    assert_same_bits(batch["action"], torch.cat([relative[..., :3], six], -1))
    assert batch["pose"].shape == (8, 2, 7)
    assert_same_bits(batch["pose"][..., :3], plain["pose"][..., :3])
    assert_same_bits(batch["pose"][..., 6:], plain["pose"][..., 7:])
    assert plain["action"].shape == (8, 3, 7) and list(batch) == list(plain)


def test_undone(store: rc.EpisodeStore) -> None:
    """With normalization behind it, by the statistics of what transforms make."""
    steps = [RELATIVE, TO_6D, OBSERVED]
    statistics = rc.compute_stats(make_loader(store, *steps))
    modes: dict[str, Any] = {"action": "mean_std", "pose": "min_max"}
    steps.append(Normalize(rc.Normalizer.from_statistics(statistics, modes)))
    plain, batch = make_loader(store).next(), make_loader(store, *steps).next()
    assert batch["pose"].abs().max() <= 1 + 1e-5
    for transform in reversed(steps):
        batch = transform.inverse(batch)
    for key in ("action", "pose"):
        got, want = batch[key], plain[key]
        assert_near(got[..., :3], want[..., :3], 1e-5)
        form = "quaternion_xyzw"
        assert_near(matrices(got[..., 3:7], form), matrices(want[..., 3:7], form), 1e-5)
        assert_near(got[..., 7:], want[..., 7:], 1e-5)


def test_an_action_alone(store: rc.EpisodeStore) -> None:
    """Undone by what the transforms took, as on a robot, where there is no action yet."""
    plain, batch = make_loader(store).next(), make_loader(store, RELATIVE, TO_6D).next()
    action = {"action": batch["action"]}
    for transform in reversed((RELATIVE, TO_6D, OBSERVED)):
        action = transform.inverse(action, plain)
    assert list(action) == ["action"]
    assert_near(action["action"][..., :3], plain["action"][..., :3], 1e-5)


def test_relative_to_itself() -> None:
    """Past and future poses of one stream, relative to the present one, without an axis too."""
    x = poses("rotation_vector", 4, 5).float()
    transform = RelativePose("pose", "pose", "rotation_vector", step=2)
    batch = transform({"pose": x})
    want = rc.relative_pose(x, x[:, 2], "rotation_vector")
    assert_same_bits(batch["pose"], want)
    assert_near(transform.inverse(batch, {"pose": x})["pose"][..., :3], x[..., :3], 1e-5)
    now = RelativePose("action", "pose", "rotation_vector")({"action": x[:, 0], "pose": x[:, 2]})
    assert_same_bits(now["action"], want[:, 0])


def test_columns_and_types() -> None:
    x = torch.cat([torch.rand(2, 3, 1), poses("matrix", 2, 3).float(), torch.rand(2, 3, 2)], -1)
    state = torch.cat([torch.rand(2, 4), poses("matrix", 2).float()], -1)
    transform = RelativePose("action", "state", "matrix", at=1, to_at=4)
    got = transform({"action": x.bfloat16(), "state": state})["action"]
    assert got.dtype == torch.bfloat16
    want = rc.relative_pose(x.bfloat16().float()[..., 1:13], state[:, 4:], "matrix")
    assert_same_bits(got[..., 1:13], want.bfloat16())
    assert_same_bits(got[..., [0, 13, 14]], x.bfloat16()[..., [0, 13, 14]])


def test_deltas() -> None:
    batch = {
        "action": torch.tensor([[[1.0], [2.0], [4.0]]]),
        "state": torch.tensor([[[9.0], [0.5]]]),
        "action_is_pad": torch.tensor([[False, True, False]]),
        "state_is_pad": torch.tensor([[True, False]]),
    }
    to_delta = AbsoluteToDelta("action", "state", time_step=0.5)
    deltas = to_delta(batch)
    assert deltas["action"].flatten().tolist() == [1, 2, 4]
    assert deltas["action_is_pad"].tolist() == [[False, True, True]]
    assert_same_bits(to_delta.inverse(deltas)["action"], batch["action"])
    to_absolute = DeltaToAbsolute("action", "state", step=0)
    added = to_absolute(batch)
    assert added["action"].flatten().tolist() == [10, 12, 16]
    assert added["action_is_pad"].tolist() == [[True, True, True]]  # the start is
    assert to_absolute.inverse(added)["action"].flatten().tolist() == [1, 2, 4]
    del batch["state_is_pad"]  # the start is valid then
    assert to_delta(batch)["action_is_pad"].tolist() == [[False, True, True]]
    assert to_absolute(batch)["action_is_pad"].tolist() == [[False, True, True]]
    batch["state_is_pad"] = torch.tensor([[True, False]])
    relative = RelativePose("action", "state", "rotation_vector")
    masks = {name: batch[name] for name in ("action_is_pad", "state_is_pad")}
    x = poses("rotation_vector", 1, 3)
    made = relative({"action": x, "state": x[:, :2], **masks})
    assert made["action_is_pad"].tolist() == [[False, True, False]]


# ---- written down --------------------------------------------------------------------------------


def all_of_them() -> list[Transform]:
    scale = rc.Normalization(np.array([0.1, 1 / 3]), np.array([1e-300, 7.0]))
    return [
        RelativePose("action", "pose", "rotation_6d", at=2, to_at=1, step=0),
        TO_6D,
        DeltaToAbsolute("action", "state"),
        AbsoluteToDelta("action", "state", time_step=0.1, step=1),
        Normalize(rc.Normalizer({"action": scale})),
    ]


@pytest.mark.parametrize("transform", all_of_them(), ids=lambda transform: transform.type)
def test_written_down(transform: Transform) -> None:
    again = from_dict(json.loads(json.dumps(transform.to_dict())))
    assert again == transform and hash(again) == hash(transform)
    assert type(again) is type(transform) and again.to_dict() == transform.to_dict()


def test_in_a_policy_spec(store: rc.EpisodeStore, tmp_path: Path) -> None:
    steps = [RELATIVE, TO_6D]
    make_loader(store, *steps).spec().save(tmp_path / "policy_spec.json")
    spec = rc.PolicySpec.load(tmp_path / "policy_spec.json")
    assert [from_dict(fields) for fields in spec.transforms] == steps


def test_on_the_robot(store: rc.EpisodeStore) -> None:
    """The aligner gives what training gave, and takes the action back to the robot's frame."""
    steps: list[Transform] = [RELATIVE, TO_6D, OBSERVED]
    modes: dict[str, Any] = {"action": "mean_std", "pose": "min_max"}
    statistics = rc.compute_stats(make_loader(store, *steps))
    steps.append(Normalize(rc.Normalizer.from_statistics(statistics, modes)))
    loader = make_loader(store, *steps)
    aligner = rc.LiveAligner(loader.spec())
    rows = store.episodes[0]["pose"].values
    for i in range(6):
        aligner.push("pose", i * 20 * MS, rows[i])
    seen, trained = aligner.query(100 * MS), loader.next()
    assert_same_bits(seen["pose"][0], trained["pose"][5])
    action = aligner.undo("action", trained["action"][5], seen)
    want = torch.from_numpy(store.episodes[0]["action"].values[5:8].copy())
    assert isinstance(action, torch.Tensor) and action.shape == want.shape
    assert_near(action[:, :3], want[:, :3], 1e-5)
    form = "quaternion_xyzw"
    assert_near(matrices(action[:, 3:], form), matrices(want[:, 3:], form), 1e-5)


WRITTEN = RELATIVE.to_dict()
KNOWN = "key, to, form, at, to_at, step of relative_pose"


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([], TypeError, "transforms[1]: expected a mapping, got list"),
        ({}, ValueError, "transforms[1].type: expected one of convert_rotation, relative_pose, "
         "delta_to_absolute, absolute_to_delta, normalize, got None"),
        (WRITTEN | {"type": "relative"}, ValueError, "transforms[1].type: expected one of "
         "convert_rotation, relative_pose, delta_to_absolute, absolute_to_delta, normalize, "
         "got 'relative'"),
        (WRITTEN | {"frame": 1}, ValueError, f"transforms[1]: expected {KNOWN}, got 'frame'"),
        ({k: v for k, v in WRITTEN.items() if k != "to"}, ValueError,
         f"transforms[1]: expected {KNOWN}, got no to"),
        (WRITTEN | {"key": 3}, TypeError,
         "transforms[1].key: expected the name of a key, got 3"),
        (WRITTEN | {"at": -1}, ValueError,
         "transforms[1].at: expected a column, 0 or more, got -1"),
        (WRITTEN | {"step": 0.5}, TypeError, "transforms[1].step: expected an int, got 0.5"),
        (WRITTEN | {"form": "euler"}, ValueError,
         "transforms[1].form: expected quaternion_xyzw, quaternion_wxyz, rotation_vector, matrix "
         "or rotation_6d, got 'euler'"),
        ({"type": "delta_to_absolute", "key": "a", "start": "b", "step": -1, "time_step": -1},
         ValueError,
         "transforms[1].time_step: expected a positive finite number of seconds, got -1"),
        ({"type": "normalize", "normalization": {"a": {"subtract": [0]}}}, ValueError,
         "transforms[1].normalization['a']: expected subtract and multiply, "
         "got {'subtract': [0]}"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_fields(given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        from_dict(given, "transforms[1]")


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        ({"pose": torch.zeros(2, 7)}, ValueError, "action: expected in the batch, got pose"),
        ({"action": torch.zeros(2, 7)}, ValueError, "pose: expected in the batch, got action"),
        ({"action": torch.zeros(2, 7).int()}, TypeError,
         "action: expected floats [...,D], got int32 [2, 7]"),
        ({"action": None}, TypeError, "action: expected a torch.Tensor, got NoneType"),
        ({"action": torch.zeros(2, 6), "pose": torch.zeros(2, 7)}, ValueError,
         "action: expected [...,7] or wider, got [2, 6]"),
        ({"action": torch.zeros(2, 7), "pose": torch.zeros(2, 0, 7)}, ValueError,
         "step: expected one of the 0 of pose, got -1"),
        ({"action": torch.zeros(2, 7), "pose": torch.zeros(3, 7)}, ValueError,
         "pose: expected [B=2,7] like action, got [3, 7]"),
        ({"action": torch.zeros(2, 1, 1, 7), "pose": torch.zeros(2, 7)}, ValueError,
         "action: expected [B,K,D] or [B,D], got [2, 1, 1, 7]"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_batch(
    batch: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        RELATIVE(batch)


def test_a_loader_that_normalizes_first_is_refused(store: rc.EpisodeStore) -> None:
    message = (
        "normalize: expected none of action, which transforms[0] changes after it "
        "(rc.transforms.Normalize normalizes behind a transform), got some"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_loader(store, TO_6D, normalize={"action": "min_max"})
    message = message.replace("of action", "of pose").replace("changes", "reads")
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_loader(store, RELATIVE, normalize={"pose": "min_max"})
    make_loader(store, TO_6D, normalize={"pose": "min_max"}).next()
    loader = make_loader(store, normalize={"pose": "min_max"})
    with pytest.raises(
        ValueError, match=r"^normalize: expected none of pose, which transforms\[1\]"
    ):
        rc.Loader.mixture([loader], [1], 10, 4, transforms=[TO_6D, RELATIVE])
