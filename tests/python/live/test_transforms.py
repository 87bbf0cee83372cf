"""A policy spec's transforms in the LiveAligner: the loader's bits, and answers undone."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from live_specs import ACTION, MS, SPEC, make_stream, push_ramp
from loader_options import keyed_loader
from loader_stores import write_store

import robocache as rc
from robocache.loader.window_spec import RelativeTo
from robocache.transform import transforms
from robocache.transform.transforms import (
    AbsoluteToDelta,
    ConvertRotation,
    DeltaToAbsolute,
    RelativePose,
)


def normalize(key: str, *shape: int) -> transforms.Normalize:
    rng = np.random.default_rng(5)
    scale = rc.Normalization(rng.normal(size=shape), rng.uniform(0.5, 2, shape))
    return transforms.Normalize(rc.Normalizer({key: scale}))


CHAINS: dict[str, list[Any]] = {
    "one": [ConvertRotation("pose", "quaternion_xyzw", "rotation_6d")],
    "several": [
        ConvertRotation("pose", "quaternion_xyzw", "matrix"),
        normalize("pose", 9),
        AbsoluteToDelta("joints", "joints", 0.01),
        DeltaToAbsolute("joints", "joints"),
        normalize("joints", 1),
    ],
    "poses": [
        RelativePose("joints", "joints", "quaternion_wxyz"),
        RelativePose("obs", "joints", "rotation_vector", 0, 1),
        normalize("obs"),
    ],
    "a_group": [
        ConvertRotation("obs", "rotation_vector", "quaternion_wxyz", 2),
        AbsoluteToDelta("obs", "obs", step=0),
        ConvertRotation("obs", "quaternion_wxyz", "rotation_6d", 2),
    ],
    "at_the_first_step": [RelativePose("joints", "obs", "rotation_vector", 1, 0, step=0)],
    "pictures": [normalize("camera", 3, 1, 1)],
    "what_lies_ahead": [normalize("action", 5), normalize("pose", 4)],
}


@pytest.mark.parametrize("dtype", [None, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("chain", CHAINS)
def test_the_loaders_bits(tmp_path: Path, chain: str, dtype: torch.dtype | None) -> None:
    """Values and masks of every anchor of recordings, with holes and rows that are not real."""
    loader = keyed_loader(
        write_store(tmp_path / "s", episodes=3), 4,
        {
            "joints": [-0.02, -0.01, 0.0], "pose": None, "force": [0.0, -0.01],
            "state": [0.0, -0.01], "camera": None, "action": [0.0, 0.02],
        },
        anchor="action",
        timeline={"state": "time"},
        latency_s={"joints": 0.003},
        max_gap_s={"joints": 0.03},
        concat={"obs": ["force", "state"]},
        channels_first={"camera": True},
        dtype={"force": torch.float32} if dtype is None else dict.fromkeys(
            ("joints", "pose", "force", "state"), dtype
        ),
        transforms=CHAINS[chain],
        device="cpu",
    )  # fmt: skip
    found = rc.replay_store(loader.store, loader.spec())
    assert -(-found.anchors // 4) == len(loader)
    assert {name: s.differing_bits for name, s in found.streams.items() if s.differing_bits} == {}


def test_a_wrong_transform_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison above sees what transforms did."""
    store = write_store(tmp_path / "s", episodes=1)
    loader = rc.Loader(
        store, 4, {"pose": [0.0]}, transforms=[normalize("pose", 4)], anchor="action", device="cpu"
    )
    spec = loader.spec()
    forward = transforms.Normalize.__call__

    def one_more(self: Any, batch: Any, generator: Any = None) -> Any:
        batch = forward(self, batch, generator)
        return {**batch, "pose": batch["pose"].nextafter(torch.tensor(9.0))}

    monkeypatch.setattr(transforms.Normalize, "__call__", one_more)
    found = rc.replay_store(store, spec)
    assert found.streams["pose"].differing_bits >= 4 * found.anchors


@pytest.mark.parametrize("is_group", [False, True])
@pytest.mark.parametrize("hand_type", ["F32", "F64", "F16"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_answers_are_undone_as_transforms_undo_them(
    dtype: torch.dtype, hand_type: str, is_group: bool
) -> None:
    """Bit for bit what `inverse` of each gives, the last one first, and then the scale."""
    hand = make_stream("hand", shape=(7,), out_dtype=hand_type)
    arm = replace(ACTION, name="arm", shape=(7,), normalization=None)
    grip = replace(arm, name="grip", shape=(2,))
    chain: list[Any] = [
        RelativePose("act", "hand", "quaternion_xyzw"),
        ConvertRotation("act", "quaternion_xyzw", "rotation_6d", 3),
        normalize("act", 11 if is_group else 9),
    ]
    if not is_group:
        chain.insert(0, AbsoluteToDelta("act", "hand", 0.02))
        arm = replace(arm, name="act")
    spec = rc.PolicySpec(
        [hand, arm, grip] if is_group else [hand, arm],
        anchor="hand",
        concat={"act": ("arm", "grip")} if is_group else {},
        transforms=[transform.to_dict() for transform in chain],
    )
    rng = np.random.default_rng(0)
    aligner = rc.LiveAligner(spec, robots=3)
    for robot in range(3):
        aligner.push("hand", 0, rng.normal(size=7), robot)
    seen = aligner.query(0)
    answer = torch.from_numpy(rng.normal(size=(3, 4, 11 if is_group else 9))).to(dtype)
    expected = answer
    for transform in chain[::-1]:
        expected = transform.inverse({"act": expected}, seen)["act"]
    undone = aligner.undo("act", answer, seen)
    assert isinstance(undone, torch.Tensor) and undone.dtype == dtype
    assert torch.equal(undone, expected)


def test_transforms_are_done_and_undone(tmp_path: Path) -> None:
    """A policy that sees 6D rotations, and answers with poses relative to the hand's."""
    rng = np.random.default_rng(3)
    times = np.arange(40) * 20 * MS
    poses = rng.normal(size=(40, 7))
    poses[:, 3:] /= np.linalg.norm(poses[:, 3:], axis=1, keepdims=True)
    with rc.StoreWriter(tmp_path / "s") as writer:
        writer.declare("pose", method=[("linear", 3), ("slerp_xyzw", 4)])
        with writer.episode() as episode:
            episode.add("pose", times, poses)
            episode.add("action", times, np.roll(poses, -1, 0))
    steps = {"pose": [-0.02, 0.0], "action": [0.0, 0.02]}
    undone_by = [
        transforms.RelativePose("action", "pose", "quaternion_xyzw"),
        transforms.ConvertRotation("action", "quaternion_xyzw", "rotation_6d", 3),
        transforms.ConvertRotation("pose", "quaternion_xyzw", "rotation_6d", 3),
        transforms.Normalize(
            rc.Normalizer({"action": rc.Normalization(np.full(9, 0.5), np.full(9, 2.0))})
        ),
    ]
    loader = rc.Loader(tmp_path / "s", 40, steps, transforms=undone_by, shuffle=False, device="cpu")
    spec_file = tmp_path / "policy_spec.json"
    loader.spec().save(spec_file)
    batch = loader.next()
    aligner = rc.LiveAligner(spec_file)
    with pytest.raises(TypeError, match=r"^batch: .* since action is relative to pose, got None"):
        aligner.undo("action", batch["action"][:1])
    for row in range(39):
        aligner.push("pose", int(times[row]), poses[row])
        seen = aligner.query("pose")
        assert set(seen) == {"pose", "pose_is_pad"}
        assert torch.equal(seen["pose"][0], batch["pose"][row])
        undone = aligner.undo("action", batch["action"][row : row + 1], seen)
        expected = torch.from_numpy(np.roll(poses, -1, 0)[row : row + 2])
        same = torch.where((undone[0, :, 3:] * expected[:, 3:]).sum(-1, keepdim=True) < 0, -1, 1)
        assert torch.allclose(undone[0, :, :3], expected[:, :3], atol=1e-9, rtol=0)
        assert torch.allclose(undone[0, :, 3:] * same, expected[:, 3:], atol=1e-9, rtol=0)
    robot = aligner.undo("action", batch["action"][38].numpy(), seen)
    assert isinstance(robot, np.ndarray) and robot.shape == (2, 7)

    text = spec_file.read_text().replace("relative_pose", "relative_prose")
    spec_file.write_text(text)
    message = (
        rf"^{spec_file}: transforms\[0\].type: expected one of convert_rotation, relative_pose,"
    )
    with pytest.raises(ValueError, match=message):
        rc.LiveAligner(spec_file)


def test_what_transforms_are_relative_to() -> None:
    """No row, or a query before a reset, is an error, in place of zeros."""
    relative = transforms.AbsoluteToDelta("action", "joints").to_dict()
    aligner = rc.LiveAligner(replace(SPEC, transforms=(relative,)), robots=2)
    answer = np.ones((2, 1, 2))
    no_query = r"^batch: expected a query of this aligner since its last reset"
    no_row = r"^undo: expected a row of joints, which action is relative to"
    batch = aligner.query(0)
    assert set(batch) == {"joints", "joints_is_pad"}
    with pytest.raises(RuntimeError, match=no_row):
        aligner.undo("action", answer, batch)
    push_ramp(aligner)
    batch = aligner.query(40 * MS)
    with pytest.raises(RuntimeError, match=no_row):  # the other robot's
        aligner.undo("action", answer, batch)
    push_ramp(aligner, robot=1)
    batch = aligner.query(45 * MS)  # held
    undone = torch.as_tensor(aligner.undo("action", answer, batch))
    assert torch.allclose(undone[:, 0], torch.tensor([[11.0, -2.75], [11.0, -2.75]]).double())
    aligner.reset(1)
    with pytest.raises(RuntimeError, match=no_query):
        aligner.undo("action", answer, batch)
    batch = aligner.query(46 * MS)
    with pytest.raises(RuntimeError, match=no_row):
        aligner.undo("action", answer, batch)
    aligner.reset()
    with pytest.raises(RuntimeError, match=no_query):
        aligner.undo("action", answer, batch)


def test_references_that_are_padded_are_refused() -> None:
    """Training pads the samples whose reference is padded; so no answer is relative to one."""
    for method in ("linear", "sum"):
        joints = make_stream("joints", offsets=(0,), method=method)
        relative = AbsoluteToDelta("action", "joints").to_dict()
        spec = rc.PolicySpec([joints, ACTION], anchor="joints", transforms=(relative,))
        aligner = rc.LiveAligner(spec, buffer_rows={"joints": 8})
        aligner.push("joints", 5 * MS, [3, 4], valid=False)
        padded = aligner.query(5 * MS)
        aligner.push("joints", 5 * MS + 1, [5, 6])
        batch = aligner.query(5 * MS + 1)
        for action in (np.zeros((1, 2)), np.zeros((1, 0, 2))):
            with pytest.raises(RuntimeError) as caught:
                aligner.undo("action", action, padded)
            ticket = padded.ticket
            assert ticket is not None
            assert str(caught.value) == (
                "undo: expected a valid value of joints, which action is relative to, in query "
                f"{ticket.sequence} at 5000000 ns, got a padded one (in training such samples are "
                "padded)"
            )
        if method == "sum":  # since the episode's begin: of an invalid row too
            continue
        scale = ACTION.normalization
        assert scale is not None
        undone = torch.as_tensor(aligner.undo("action", np.zeros((1, 2)), batch))[0]
        expected = torch.tensor([5.0, 6.0]) / torch.tensor(scale.multiply)
        assert torch.equal(undone, expected + torch.tensor(scale.subtract))
        assert aligner.undo("action", np.zeros((1, 0, 2)), batch).shape == (1, 0, 2)


def test_transforms_and_relative_streams_of_a_group() -> None:
    """An answer is taken back through both, the transforms first."""
    joints = make_stream("joints", offsets=(0,))
    scale = rc.Normalization(np.array([1.0, 2.0]), np.array([2.0, 4.0]))
    arm = replace(
        ACTION, name="arm", relative_to=RelativeTo("joints", (1, -1)), normalization=scale
    )
    grip = replace(ACTION, name="grip", shape=(1,), normalization=None)
    of_group = rc.Normalization(np.array([0.5, 0.0, 1.0]), np.array([4.0, 1.0, 0.5]))
    chain = transforms.Normalize(rc.Normalizer({"act": of_group}))
    spec = rc.PolicySpec(
        [joints, arm, grip],
        anchor="joints",
        concat={"act": ("arm", "grip")},
        transforms=[chain.to_dict()],
    )
    aligner = rc.LiveAligner(spec)
    aligner.push("joints", 0, [10, 20])
    batch = aligner.query(0)
    undone = aligner.undo("act", np.array([[4.0, 8.0, 2.0]]), batch)
    # (4 / 4 + 0.5) / 2 + 1 + 20, (8 / 1 + 0) / 4 + 2, 2 / 0.5 + 1
    assert undone.tolist() == [[21.75, 4.0, 5.0]]


def test_replay_takes_transforms_as_the_robot_does(tmp_path: Path) -> None:
    """Replay depends neither on the set backend nor on a normalizer's keys that are not live."""
    loader = keyed_loader(
        write_store(tmp_path / "s", episodes=1), 4, {"pose": None, "state": None, "action": [0.02]},
        anchor="action", timeline={"state": "time"}, concat={"obs": ["pose", "state"]},
        transforms=[ConvertRotation("obs", "quaternion_xyzw", "rotation_vector")], device="cpu",
    )  # fmt: skip
    spec = loader.spec()
    scale = rc.Normalization(np.zeros(5), np.ones(5))
    of_both = transforms.Normalize(rc.Normalizer({"action": scale, "pose": scale})).to_dict()
    spec = replace(spec, transforms=(*spec.transforms, of_both))
    with rc.config(backend="pytorch"):
        found = rc.replay_store(loader.store, spec)
    assert found.differing_bits == 0 and found.anchors > 10


def test_a_small_file_takes_little_memory(tmp_path: Path) -> None:
    """However wide the rows that it speaks of."""
    wide = make_stream("wide", shape=(2**26,), offsets=(0,), normalization=rc.Normalization(
        np.zeros(1), np.ones(1)
    ))  # fmt: skip
    one = rc.Normalization(np.array(0.5), np.array(2.0))
    many = [transforms.Normalize(rc.Normalizer({"wide": one})).to_dict()] * 50
    path = tmp_path / "policy_spec.json"
    path.write_text(rc.PolicySpec([wide], anchor="wide", transforms=many).to_json())
    program = """
import resource, sys
from pathlib import Path
from robocache.store.library import policy_spec_windows
text = Path(sys.argv[1]).read_bytes()
policy_spec_windows(text, "warm")
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**26, used + 2**26))
policy_spec_windows(text, "spec")
"""
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)
