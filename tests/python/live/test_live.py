"""LiveAligner in Python: rows in, windows out, and actions back.

test_replay.py compares its bits with the loader's, test_errors.py has its counters and
messages.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
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

METADATA = {"index", "episode_index", "frame_index", "task_index", "timestamp_ns", "timestamp"}


# ---- in and out ----------------------------------------------------------------------------------


def test_a_window() -> None:
    aligner = rc.LiveAligner(SPEC)
    before = aligner.query(0)
    assert before["joints"].tolist() == [[[0, 0]] * 3]
    assert before["joints_is_pad"].tolist() == [[True] * 3]
    push_ramp(aligner)
    batch = aligner.query(40 * MS)
    assert list(batch) == ["joints", "joints_is_pad"]
    assert batch["joints"].tolist() == [[[2, -2], [3, -3], [4, -4]]]
    assert not batch["joints_is_pad"].any()
    between = aligner.query(45 * MS)
    assert between["joints"].tolist() == [[[2.5, -2.5], [3.5, -3.5], [4, -4]]]
    assert not between["joints_is_pad"].any()  # the newest row is held
    assert batch["joints"][0, 0, 0] == 2  # a batch is one's own
    assert aligner.now_ns() == 45 * MS
    assert repr(aligner) == "LiveAligner(cpu: joints)"


def test_now_is_a_streams_newest_row() -> None:
    aligner = rc.LiveAligner(replace(SPEC, with_age=True))
    assert aligner.query("joints")["joints_is_pad"].all()
    push_ramp(aligner)
    batch = aligner.query("joints")
    assert aligner.now_ns() == 40 * MS and batch["joints"][0, 2].tolist() == [4, -4]
    assert batch["joints_age"].tolist() == [[0, 0, 0]]


def test_keys_and_shapes_are_the_loaders(tmp_path: Path) -> None:
    store = write_store(tmp_path / "s")
    loader = keyed_loader(
        store, 4, {"joints": [-0.01, 0.0], "pose": [-0.01, 0.0], "camera": None, "counter": [0.0],
                   "gripper": None, "action": [0.0, 0.1]},
        concat={"obs": ["pose", "joints"]}, channels_first={"camera": True}, with_age=True,
        dtype={"camera": torch.bfloat16}, method={"counter": "previous"}, anchor="action",
        device="cpu",
    )  # fmt: skip
    path = tmp_path / "policy_spec.json"
    loader.spec().save(path)
    for robots in (1, 3):
        live = rc.LiveAligner(path, robots=robots).query(0)
        batch = loader.gather(range(robots))
        ahead = {"action", "action_is_pad", "action_age"}
        assert set(live) == set(batch) - METADATA - ahead
        for key, values in live.items():
            assert (values.shape, values.dtype) == (batch[key].shape, batch[key].dtype), key
            assert values.is_contiguous()


def test_robots_are_apart() -> None:
    aligner = rc.LiveAligner(SPEC, robots=3)
    push_ramp(aligner, robot=0)
    push_ramp(aligner, rows=3, robot=2)
    batch = aligner.query(np.array([40 * MS, 40 * MS, 20 * MS]))
    assert batch["joints"][:, 2].tolist() == [[4, -4], [0, 0], [2, -2]]
    assert batch["joints_is_pad"].tolist() == [[False] * 3, [True] * 3, [False] * 3]
    assert [aligner.now_ns(robot) for robot in range(3)] == [40 * MS, 40 * MS, 20 * MS]
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    aligner.push_many("joints", np.full(3, 50 * MS), rows, np.arange(3))
    assert aligner.query(50 * MS)["joints"][:, 2].tolist() == rows.tolist()
    assert aligner.stats(1)["joints"].pushed == 1
    assert aligner.stats()["joints"].pushed == 5 + 3 + 3
    aligner.reset(0)
    batch = aligner.query(50 * MS)
    assert batch["joints_is_pad"][0].all() and not batch["joints_is_pad"][2, 2]
    aligner.reset()
    assert aligner.query(50 * MS)["joints_is_pad"].all()


@pytest.mark.parametrize(
    "row",
    [
        [1, 2],
        np.array([1.0, 2.0]),
        np.array([1, 2]),
        np.array([[9, 1, 2, 9]], np.float16)[0, 1:3],
        torch.tensor([1.0, 2.0]),
        torch.tensor([1.0, 2.0], dtype=torch.float64),
    ],
    ids=["list", "float64", "int64", "strided float16", "tensor", "float64 tensor"],
)
def test_rows_of_many_kinds(row: Any) -> None:
    aligner = rc.LiveAligner(SPEC)
    aligner.push("joints", 0, row)
    assert aligner.query(0)["joints"][0, 2].tolist() == [1, 2]


def test_bfloat16_rows() -> None:
    streams = [make_stream("joints", dtype="BF16", out_dtype="BF16")]
    aligner = rc.LiveAligner(rc.PolicySpec(streams, anchor="joints"))
    aligner.push("joints", 0, torch.tensor([1.5, -2.5], dtype=torch.bfloat16))
    batch = aligner.query(0)["joints"]
    assert batch.dtype == torch.bfloat16 and batch[0, 2].tolist() == [1.5, -2.5]
    for i, row in enumerate(
        ([0.25, 3], np.array([0.25, 3.001]), torch.tensor([0.25, 3.001]).half())
    ):
        aligner.push("joints", i + 1, row)
        assert aligner.query("joints")["joints"][0, 2].tolist() == [0.25, 3.0]
    with pytest.raises(
        ValueError, match=r"^joints: values: expected numbers that bfloat16 has, got"
    ):
        aligner.push("joints", 9, np.array([0, 3.4e38]))
    wide = rc.LiveAligner(SPEC)
    wide.push("joints", 0, torch.tensor([1.5, -2.5], dtype=torch.bfloat16))
    assert wide.query(0)["joints"][0, 2].tolist() == [1.5, -2.5]


def test_rows_that_are_not_real() -> None:
    aligner = rc.LiveAligner(SPEC)
    aligner.push("joints", 0, [1, 2], valid=False)
    aligner.push("joints", 10 * MS, [3, 4])
    assert aligner.query(10 * MS)["joints_is_pad"].tolist() == [[True, True, False]]
    aligner.reset()
    times = np.array([0, 10 * MS])
    aligner.push_many("joints", times, np.ones((2, 2)), valid=np.array([True, False]))
    assert aligner.query(10 * MS)["joints_is_pad"].tolist() == [[True, False, True]]


def test_tensors_that_are_used_again() -> None:
    aligner = rc.LiveAligner(SPEC, reuse_buffers=True)
    first = aligner.query(0)
    push_ramp(aligner)
    second = aligner.query(40 * MS)
    assert first["joints"].data_ptr() == second["joints"].data_ptr()
    assert first["joints"][0, 2].tolist() == [4, -4]
    first.clear()
    assert list(aligner.query(40 * MS)) == ["joints", "joints_is_pad"]


def test_threads_push_while_another_asks() -> None:
    names = [f"s{i}" for i in range(4)]
    spec = rc.PolicySpec([make_stream(name, rate=1000.0) for name in names], anchor="s0")
    aligner = rc.LiveAligner(spec, ring_rows=dict.fromkeys(names, 4096))
    count = 2000

    def produce(name: str) -> None:
        for i in range(count):
            aligner.push(name, i * MS, [i, -i])

    threads = [threading.Thread(target=produce, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        batch = aligner.query("s0")
        for name in names:
            assert torch.equal(batch[name][..., 0], -batch[name][..., 1])
    aligner.query(count * MS)
    for name, stats in aligner.stats().items():
        assert (stats.pushed, stats.taken, stats.overwritten) == (count, count, 0), name


def test_threads_share_a_stream_and_the_asking() -> None:
    joints = make_stream("joints", rate=1000.0)
    action = replace(ACTION, relative_to=RelativeTo("joints", (0, 1)))
    count, producers = 4000, 3
    room = {"joints": count * producers}
    spec = rc.PolicySpec([joints, action], anchor="joints")
    # Threads wait for the interpreter while the others make hundreds of queries.
    aligner = rc.LiveAligner(spec, ring_rows=room, buffer_rows=room, kept_queries=2**16)
    aligner.push("joints", 0, [0, 0])
    is_over = threading.Event()

    def produce(first: int) -> None:
        for i in range(first, count * producers, producers):
            aligner.push("joints", i * MS, [i, -i])

    def ask() -> None:
        while not is_over.is_set():
            batch = aligner.query("joints")
            newest = batch["joints"][0, -1].double()
            assert newest[0] == -newest[1]
            # Others query at the same time: the answer is relative to this thread's batch.
            absolute = aligner.undo("action", np.zeros((1, 2)), batch)
            assert absolute.tolist() == [(newest + torch.tensor([1.0, -2.0])).tolist()]

    with ThreadPoolExecutor(2 * producers) as pool:
        asking = [pool.submit(ask) for _ in range(producers)]
        try:
            for pushed in [pool.submit(produce, 1 + first) for first in range(producers)]:
                pushed.result()
        finally:
            is_over.set()
        for asked in asking:
            asked.result()
    aligner.query("joints")
    stats = aligner.stats()["joints"]
    assert (stats.pushed, stats.taken, stats.held) == (count * producers,) * 3


def test_threads_forget_while_others_ask() -> None:
    aligner = rc.LiveAligner(rc.PolicySpec([make_stream("joints", rate=1000.0)], anchor="joints"))
    rounds = 2000

    def push() -> None:
        for i in range(rounds):
            aligner.push("joints", i * MS, [i, -i])

    def ask() -> None:
        for _ in range(rounds):
            joints = aligner.query("joints")["joints"]
            assert torch.equal(joints[..., 0], -joints[..., 1])

    def forget() -> None:
        for _ in range(rounds):
            aligner.reset()
            aligner.now_ns()

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work) for work in (push, ask, ask, forget)]:
            done.result()
    aligner.reset()
    aligner.push("joints", 7 * MS, [3, -3])
    assert aligner.query("joints")["joints"][0, -1].tolist() == [3, -3]


# ---- actions back --------------------------------------------------------------------------------


def test_actions_are_undone() -> None:
    aligner = rc.LiveAligner(SPEC)
    raw = torch.tensor([[3.0, 1.5], [-7.0, 0.25]], dtype=torch.float64)
    scale = SPEC.stream("action").normalization
    assert scale is not None
    seen = (raw - torch.from_numpy(scale.subtract)) * torch.from_numpy(scale.multiply)
    for given in (seen, seen[None], seen.float(), seen.numpy(), seen.bfloat16(), seen[:1]):
        undone = aligner.undo("action", given)
        assert type(undone) is type(given) and undone.dtype == given.dtype
        assert undone.shape == given.shape
        expected = raw[: given.shape[-2]].reshape(given.shape)
        assert torch.equal(torch.as_tensor(undone).double(), expected)
    assert torch.equal(torch.as_tensor(aligner.undo("action", seen[0])), raw[0])
    two = rc.LiveAligner(SPEC, robots=2).undo("action", torch.stack([seen, seen]))
    assert isinstance(two, torch.Tensor) and torch.equal(two, torch.stack([raw, raw]))


def test_actions_without_steps_are_undone() -> None:
    """As batches have them, of several robots too."""
    one = replace(ACTION, name="one", offsets=(0,), has_axis=False, causal=True)
    number = replace(one, name="number", shape=(), normalization=None)
    spec = rc.PolicySpec([one, number], anchor="one")
    for robots in (1, 3):
        aligner = rc.LiveAligner(spec, robots=robots)
        batch = aligner.query(0)
        undone = torch.as_tensor(aligner.undo("one", batch["one"]))
        assert torch.equal(undone, torch.tensor([[1.0, -2.0]] * robots))
        assert torch.equal(torch.as_tensor(aligner.undo("number", torch.arange(robots * 1.0))),
                           torch.arange(robots * 1.0))  # fmt: skip


def test_policies_that_see_nothing() -> None:
    aligner = rc.LiveAligner(rc.PolicySpec([ACTION], anchor="action"))
    assert aligner.query(0) == {}
    assert aligner.undo("action", np.zeros((1, 2))).tolist() == [[1, -2]]


def test_actions_side_by_side_are_undone() -> None:
    gripper = replace(
        ACTION, name="gripper", shape=(), normalization=rc.Normalization(np.ones(1), np.ones(1) * 2)
    )
    streams = [make_stream("joints"), gripper, ACTION]
    spec = rc.PolicySpec(streams, anchor="joints", concat={"act": ("action", "gripper")})
    undone = rc.LiveAligner(spec).undo("act", torch.tensor([[1.0, 4.0, 6.0]]))
    assert undone.tolist() == [[3.0, -1.0, 4.0]]


def test_relative_actions_are_made_absolute() -> None:
    joints = make_stream("joints", offsets=(0,))
    action = replace(ACTION, relative_to=RelativeTo("joints", (1, -1)))
    aligner = rc.LiveAligner(rc.PolicySpec([joints, action], anchor="joints"))
    zeros = np.zeros((2, 2), np.float32)
    batch = aligner.query(0)
    with pytest.raises(
        RuntimeError, match=r"^undo: expected a row of joints, which action is rela"
    ):
        aligner.undo("action", zeros, batch)
    aligner.push("joints", 0, [10, 20])
    batch = aligner.query(0)
    # x / multiply + subtract, then column 1 of the joints for the first channel
    assert aligner.undo("action", zeros, batch).tolist() == [[21, -2], [21, -2]]
    aligner.push("joints", MS, [0, 30])  # not seen by the query that the policy answered
    later = aligner.query(MS)
    assert aligner.undo("action", zeros, batch).tolist() == [[21, -2], [21, -2]]
    assert aligner.undo("action", zeros, later.ticket).tolist() == [[31, -2], [31, -2]]


@pytest.mark.parametrize("steps_of_state", [None, [0.0, 0.02]])
def test_what_training_did_is_undone(tmp_path: Path, steps_of_state: list[float] | None) -> None:
    """The loader's actions, relative and normalized, come back as the store has them.

    Also where the state has offsets past the anchor: the robot pushes its rows all the same.
    """
    store = write_store(tmp_path / "s")
    options: dict[str, Any] = {
        "anchor": "action", "device": "cpu", "shuffle": False, "episodes": [1],
        "relative_to": {"action": rc.Relative("state", channels=[2, None, 0, 1, None])},
    }  # fmt: skip
    steps = {"state": steps_of_state, "action": [0.0, 0.02, 0.04]}
    statistics = rc.compute_stats(keyed_loader(store, 4, steps, **options))
    normalize = {"action": "min_max"}
    loader = keyed_loader(store, 4, steps, **options, normalize=normalize, statistics=statistics)
    aligner = rc.LiveAligner(loader.spec())
    state, action = store[1]["state"], store[1]["action"]
    for row in range(len(action) - 2):
        aligner.push("state", int(state.times[row]), state.values[row])
        batch = aligner.query("state")
        undone = aligner.undo("action", loader.gather([row])["action"].double(), batch)
        expected = torch.from_numpy(action.values[row : row + 3].copy()).double()
        assert torch.allclose(torch.as_tensor(undone)[0], expected, atol=2e-6, rtol=0)


def test_actions_however_they_lie() -> None:
    aligner = rc.LiveAligner(SPEC)
    answer = np.arange(6.0).reshape(3, 2)
    expected = np.asarray(aligner.undo("action", answer))
    np.testing.assert_array_equal(aligner.undo("action", answer[::-1]), expected[::-1])
    np.testing.assert_array_equal(aligner.undo("action", answer.astype(">f8")), expected)
    answer.flags.writeable = False
    np.testing.assert_array_equal(aligner.undo("action", answer), expected)
