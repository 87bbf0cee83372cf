"""Windows that are relative to another stream at the anchor; random ones: test_random.py."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import loader_reference as plain
import numpy as np
import pytest
import torch
from loader_options import keyed_loader
from loader_reference import Part, Window
from loader_stores import MS, START, write_humanoid, write_store
from support import assert_same_bits, needs_gpu

import robocache as rc
from robocache.loader.memory.tiers import together

DELTAS: dict[str, Any] = {"state": [-0.02, 0.0], "action": [0.0, 0.02, 0.04]}
CHANNELS = [2, None, 0, 1, 1]  # of state, for each of action's
COLUMNS = [2, -1, 0, 1, 1]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("relative") / "store", episodes=3, seed=4)


def to_state(**options: Any) -> rc.Relative:
    return rc.Relative("state", channels=CHANNELS, **options)


def make(store: rc.EpisodeStore, device: str, **options: Any) -> rc.Loader:
    given: dict[str, Any] = {"relative_to": {"action": to_state()}, "with_age": True} | options
    return keyed_loader(store, 16, DELTAS, anchor="action", device=device, **given)


def check(batch: dict[str, Any], key: str, expected: plain.Made) -> None:
    assert_same_bits(batch[key].cpu(), expected.values, key)
    assert_same_bits(batch[f"{key}_is_pad"].cpu(), expected.is_pad, "is_pad")
    assert_same_bits(batch[f"{key}_age"].cpu(), expected.age, "age")


# ---- values and masks ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [None, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("timeline", ["rows", "time"])
def test_actions_less_the_state(
    store: rc.EpisodeStore, device: str, timeline: str, dtype: torch.dtype | None
) -> None:
    by_rows = timeline == "rows"
    step = 1 if by_rows else 20 * MS
    to = Window("state", [-step, 0], by_rows=by_rows)
    window = Window(
        "action", [0, step, 2 * step], by_rows=by_rows, relative=(to, COLUMNS), dtype=dtype
    )
    loader = make(store, device, timeline=timeline, dtype={"action": dtype})
    anchors = plain.row_anchors(store, "action")
    batch = loader.gather(range(len(anchors)))
    check(batch, "action", plain.batch(store, window, anchors, range(len(anchors))))
    check(batch, "state", plain.batch(store, to, anchors, range(len(anchors))))
    check(loader.next(), "action", plain.batch(store, window, anchors, _drawn(loader)))


def _drawn(loader: rc.Loader) -> list[int]:
    """The samples of its first batch."""
    drawn = plain.draw(len(loader.dataset), 16)
    return next(drawn).indices


@pytest.mark.parametrize("timeline", ["rows", "time"])
def test_angles_go_the_short_way(tmp_path: Path, device: str, timeline: str) -> None:
    with rc.StoreWriter(tmp_path / "store") as writer:
        for name in ("action", "state"):
            writer.declare(name, rate=50, timeline=timeline, method=[("angle", 1), ("linear", 1)])
        with writer.episode() as episode:
            times = [START, START + 20 * MS]
            episode.add("action", times, np.array([[3, 3], [-3, -3]], np.float32))
            episode.add("state", times, np.array([[-3, -3], [3, 3]], np.float32))
    loader = keyed_loader(
        tmp_path / "store",
        2,
        {"action": None, "state": None},
        relative_to={"action": "state"},
        device=device,
        shuffle=False,
    )
    turn = 2 * np.pi
    expected = torch.tensor([[6 - turn, 6], [turn - 6, -6]])
    assert torch.allclose(loader.next()["action"].cpu(), expected.float(), atol=1e-6)


def test_held_references(tmp_path: Path, device: str) -> None:
    """A state that is never stamped at an anchor: the newest row, unless it is too old."""
    with rc.StoreWriter(tmp_path / "store") as writer, writer.episode() as episode:
        times = START + np.arange(6) * 20 * MS
        episode.add("action", times, np.full((6, 1), 5, np.float32))
        known = times[1:4] - 3 * MS
        episode.add(
            "state", known, np.array([[1], [2], [3]], np.float32), valid=[True, False, True]
        )
    steps = {"action": [0.0, 0.02], "state": None}
    options: dict[str, Any] = {
        "relative_to": {"action": "state"},
        "device": device,
        "shuffle": False,
    }
    batch = keyed_loader(tmp_path / "store", 6, steps, **options).next()
    assert batch["action"][:, 0, 0].tolist() == [5, 4, 3, 2, 2, 2]
    expected = [True, False, True, False, False, False]
    assert batch["state_is_pad"].tolist() == expected
    assert batch["action_is_pad"][:, 0].tolist() == expected
    assert batch["action_is_pad"][:, 1].tolist() == [*expected[:5], True]  # past the end
    batch = keyed_loader(tmp_path / "store", 6, steps, **options, max_gap_s={"state": 0.003}).next()
    assert batch["action_is_pad"][:, 0].tolist() == [True, False, True, False, True, True]
    batch = keyed_loader(tmp_path / "store", 6, steps, **options, outside={"state": "zero"}).next()
    assert batch["action"][:, 0, 0].tolist() == [5, 4, 3, 2, 2, 2]
    assert batch["action_is_pad"][:, 0].tolist() == expected


def test_missing_references_are_padding(tmp_path: Path, device: str) -> None:
    """No row yet for a causal state; a row that is not real; an episode without any."""
    with rc.StoreWriter(tmp_path / "store") as writer:
        for e in range(2):
            with writer.episode() as episode:
                times = START + np.arange(4) * 10 * MS
                episode.add("action", times, np.full((4, 1), 5, np.float32))
                if e == 0:
                    states = np.array([[1], [2], [4]], np.float32)
                    episode.add("state", times[1:], states, valid=[True, False, True])
    loader = keyed_loader(
        tmp_path / "store",
        8,
        {"action": None, "state": None},
        relative_to={"action": "state"},
        device=device,
        shuffle=False,
    )
    batch = loader.next()
    assert batch["action"][:, 0].tolist() == [5, 4, 3, 1, 5, 5, 5, 5]
    expected = [True, False, True, False, True, True, True, True]
    assert batch["action_is_pad"].tolist() == expected
    assert batch["state_is_pad"].tolist() == expected


def test_masks_and_widths(store: rc.EpisodeStore) -> None:
    """Without channels, elements go by their number; a mask leaves some out."""
    given = rc.Relative("state", mask=[True, False, True, False, False])
    loader = make(store, "cpu", relative_to={"action": given})
    same = make(
        store,
        "cpu",
        relative_to={"action": rc.Relative("state", channels=[0, None, 2, None, None])},
    )
    assert_same_bits(loader.next()["action"], same.next()["action"], "action")
    both = make(store, "cpu", relative_to={"action": to_state(mask=np.array([True] * 4 + [False]))})
    channels = rc.Relative("state", channels=[*CHANNELS[:4], None])
    other = make(store, "cpu", relative_to={"action": channels})
    assert_same_bits(both.next()["action"], other.next()["action"], "action")
    assert loader.relative == {"action": given}
    named = rc.Loader(store, 4, {"state": None, "pose": [0.0]}, device="cpu")
    assert named.relative == {}


def test_pickled(store: rc.EpisodeStore) -> None:
    loader = make(store, "cpu")
    loader.next()
    copy = pickle.loads(pickle.dumps(loader))
    assert copy.relative == loader.relative == {"action": to_state()}
    assert_same_bits(copy.next()["action"], loader.next()["action"], "action")


def test_specs(store: rc.EpisodeStore) -> None:
    streams = {stream.name: stream.relative_to for stream in make(store, "cpu").spec().streams}
    assert streams == {"state": None, "action": ("state", tuple(COLUMNS), True)}


# ---- normalization -------------------------------------------------------------------------------


def test_statistics_of_what_is_left(store: rc.EpisodeStore, device: str) -> None:
    raw = make(store, device)
    statistics = rc.compute_stats(raw)
    loader = make(store, device, normalize={"action": "min_max"}, statistics=statistics)
    scale = loader.normalization["action"]
    to = Window("state", [-1, 0], by_rows=True)
    window = Window("action", [0, 1, 2], by_rows=True, relative=(to, COLUMNS), **scale._asdict())
    anchors = plain.row_anchors(store, "action")
    batch = loader.gather(range(len(anchors)))
    check(batch, "action", plain.batch(store, window, anchors, range(len(anchors))))
    real = batch["action"][~batch["action_is_pad"]]
    assert real.min() >= -1 - 1e-5 and real.max() <= 1 + 1e-5
    by_normalizer = make(store, device, normalize=rc.Normalizer({"action": scale}))
    assert_same_bits(by_normalizer.next()["action"], loader.next()["action"], "action")


# ---- mixtures and tiers --------------------------------------------------------------------------


def test_mixtures_take_it_over(store: rc.EpisodeStore, tmp_path: Path, device: str) -> None:
    """Each part with its own, under the mixture's names; and one that has none."""
    walker = write_humanoid(tmp_path / "walker")
    mask = [True] * 5 + [False] * 4
    parts = [
        make(store, device),
        keyed_loader(
            walker,
            4,
            {"qpos": [-0.05, 0.0], "action": [0.0, 0.04, 0.08]},
            anchor="action",
            dtype={"qpos": torch.float32},
            relative_to={"action": rc.Relative("qpos", mask=mask)},
            with_age=True,
            device=device,
        ),
        make(store, device, relative_to=None),
    ]
    keys = [{}, {"qpos": "state"}, {}]
    mixture = rc.Loader.mixture(parts, [1, 1, 1], 50, 8, keys=keys)
    assert [part.relative for part in mixture.parts] == [
        {"action": to_state()},
        {"action": rc.Relative("state", mask=mask)},
        {},
    ]
    state = Window("state", [-1, 0], by_rows=True)
    qpos = Window("qpos", [-50 * MS, 0], dtype=torch.float32)
    action = Window("action", [0, 1, 2], by_rows=True)
    of_walker = [*range(5), -1, -1, -1, -1]
    anchors = plain.row_anchors(store, "action")
    expected = [
        Part(store, {"state": state, "action": _less(action, state, COLUMNS)}, anchors),
        Part(
            walker,
            {"state": qpos, "action": _less(action, qpos, of_walker)},
            plain.row_anchors(walker, "action"),
        ),
        Part(store, {"state": state, "action": action}, anchors),
    ]
    chosen = np.random.default_rng(0).permutation(len(mixture.dataset)).tolist()
    made = plain.mixed(expected, chosen)
    batch = mixture.gather(chosen)
    for key in ("action", "state", "action_is_pad", "state_is_pad", "action_age"):
        assert_same_bits(batch[key].cpu(), made[key], key)


def _less(window: Window, to: Window, columns: list[int]) -> Window:
    return Window(window.stream, window.steps, by_rows=True, relative=(to, columns))


def test_mixtures_count_relative_windows_twice(store: rc.EpisodeStore) -> None:
    loader = make(store, "cpu")
    rc.Loader.mixture([loader] * 21, [1] * 21, 50, 8)
    with pytest.raises(ValueError, match=r"^loaders: expected at most 64 windows in all, got 66: "):
        rc.Loader.mixture([loader] * 22, [1] * 22, 50, 8)


def test_what_is_placed_together(store: rc.EpisodeStore) -> None:
    """A stream, what it is relative to, and what stands beside either."""
    keys = ["gripper", "pose", "joints", "force", "state", "action"]
    loader = keyed_loader(
        store,
        4,
        dict.fromkeys(keys),
        relative_to={
            "joints": rc.Relative("force", mask=[True] * 3 + [False] * 4),
            "action": to_state(),
        },
        timeline="time",
        device="cpu",
    )
    groups = {"obs": ["pose", "joints"]}
    assert together(loader._contents.windows, groups) == [
        ("gripper",),
        ("pose", "joints", "force"),
        ("state", "action"),
    ]


def test_rows_on_disk(store: rc.EpisodeStore, tmp_path: Path) -> None:
    expected = make(store, "cpu")
    message = re.compile(r"expected at least (\d+) bytes")
    with pytest.raises(ValueError, match=message) as caught:
        make(store, "cpu", budget={"ram": 0})
    found = message.search(str(caught.value))
    assert found is not None
    loader = make(store, "cpu", budget={"ram": int(found[1])})
    for batch, other in zip(loader, expected, strict=True):
        assert_same_bits(batch["action"], other["action"], "action")
        assert_same_bits(batch["action_is_pad"], other["action_is_pad"], "action_is_pad")
    assert loader.stats().hit_shares == {"disk": 1}


@needs_gpu
@pytest.mark.parametrize("gpu", [0, 2_000, 5_000, 10_000, 20_000])
@pytest.mark.parametrize("pinned", ["100kB", "100MB"])
def test_tiers_of_a_gpu(store: rc.EpisodeStore, gpu: int, pinned: str) -> None:
    """From the least that will do on, over pinned memory and disk, to all on the GPU."""
    expected = make(store, "cpu")
    message = re.compile(r"expected at least (\d+) bytes")
    with pytest.raises(ValueError, match=message) as caught:
        make(store, "cuda", budget={"gpu": 0, "pinned": pinned})
    found = message.search(str(caught.value))
    assert found is not None
    loader = make(store, "cuda", budget={"gpu": int(found[1]) + gpu, "pinned": pinned})
    for batch, other in zip(loader, expected, strict=True):
        for key, values in other.items():
            assert_same_bits(batch[key].cpu(), values, key)


# ---- what is refused -----------------------------------------------------------------------------

MANY = "mask= leaves some out, channels= says which belong together"
LEAVE = "(rc.Relative(mask=) leaves elements as they are)"
CASES: list[tuple[Any, type[Exception], str]] = [
    ({"action": 3}, TypeError,
     "relative_to['action']: expected a stream's name or a rc.Relative, got int"),
    ({"action": "force"}, ValueError,
     "relative_to['action']: expected a stream of the batch (state, action, pose, counter, depth, "
     "image, wide), got 'force' (add it to windows)"),
    ({"action": "action"}, ValueError,
     "relative_to['action'].stream: expected a stream that is not relative itself, got "
     '"action"'),
    ({"action": to_state(), "state": "depth"}, ValueError,
     "relative_to['action'].stream: expected a stream that is not relative itself, got "
     '"state"'),
    ({"action": "state"}, ValueError,
     f"relative_to['action']: expected 5 elements in rows of 'state', as in its own ({MANY}), got "
     "3"),
    ({"counter": rc.Relative("state", channels=[0, 1])}, TypeError,
     "relative_to['counter'].stream: expected none for rows of \"I64\", got \"state\" (rows of "
     "float16, bfloat16, float32, float64 or uint8 can be relative)"),
    ({"state": rc.Relative("counter", mask=[True] * 2 + [False])}, TypeError,
     "relative_to['state'].stream: expected a stream of float16, bfloat16, float32, float64 or "
     'uint8, got "counter"'),
    ({"image": "state"}, ValueError,
     "channels_first['image']: expected false for a relative stream, got true"),
    ({"state": "image"}, ValueError,
     "relative_to['state'].stream: expected a stream without channels_first, got \"image\""),
    ({"depth": "state"}, TypeError,
     "out_dtype['depth']: expected F16, BF16, F32 or F64 for a relative stream, got \"U8\" "
     "(rc.Window(dtype=) changes it)"),
    ({"state": rc.Relative("wide", channels=[0, 1, 2])}, ValueError,
     "relative_to['state'].stream: expected a stream of at most 4096 elements in a row, not 4097, "
     'got "wide"'),
    ({"pose": "action"}, ValueError,
     f"relative_to['pose']: expected 4 elements in rows of 'action', as in its own ({MANY}), got "
     "5"),
    ({"pose": rc.Relative("action", mask=[False, True, True, True])}, ValueError,
     "relative_to['pose'].columns: expected -1 for a quaternion's elements, got [-1,1,2,3] "
     f"{LEAVE}"),
    ({"state": rc.Relative("pose", channels=[None, 1, 2])}, ValueError,
     "relative_to['state'].columns: expected elements of \"pose\" that are no quaternion's and no "
     f"sums, got [-1,1,2] {LEAVE}"),
    ({"action": rc.Relative("state", mask=[True] * 4)}, ValueError,
     "relative_to['action'].mask: expected 5, one for each element, got 4"),
    ({"action": rc.Relative("state", mask=[True] * 5)}, ValueError,
     "relative_to['action'].columns: expected -1 to 2, the elements of \"state\", got "
     f"[0,1,2,3,4] {LEAVE}"),
    ({"action": rc.Relative("state", mask="yes")}, TypeError,  # type: ignore[arg-type]
     "relative_to['action'].mask: expected a list, got str"),
    ({"action": rc.Relative("state", mask=[1, 0, 0, 0, 0])}, TypeError,  # type: ignore[list-item]
     "relative_to['action'].mask[0]: expected a bool, got int"),
    ({"action": rc.Relative("state", channels=[0, 1])}, ValueError,
     "relative_to['action'].channels: expected 5, one for each element, got 2"),
    ({"action": rc.Relative("state", channels=[0, 1, 2, 3, None])}, ValueError,
     "relative_to['action'].channels[3]: expected 0 to 2 (of 'state'), got 3"),
    ({"action": rc.Relative("state", channels=[0, -1, 2, 0, None])}, ValueError,
     "relative_to['action'].channels[1]: expected 0 to 2 (of 'state'), got -1"),
    ({"action": rc.Relative("state", channels=[0.5] * 5)}, TypeError,  # type: ignore[list-item]
     "relative_to['action'].channels[0]: expected an int or None, got float"),
]  # fmt: skip


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    with rc.StoreWriter(folder := tmp_path_factory.mktemp("errors") / "store") as writer:
        writer.declare("pose", method="slerp_xyzw")
        with writer.episode() as episode:
            rows = {
                "state": np.zeros((2, 3), np.float32),
                "action": np.zeros((2, 5), np.float32),
                "pose": np.ones((2, 4), np.float32),
                "counter": np.zeros((2, 2), np.int64),
                "depth": np.zeros((2, 3), np.uint8),
                "image": np.zeros((2, 1, 1, 3), np.uint8),
                "wide": np.zeros((2, 4097), np.float32),
            }
            for name, values in rows.items():
                episode.add(name, [START, START + 10 * MS], values)
    return rc.EpisodeStore(folder)


@pytest.mark.parametrize(("relative", "kind", "message"), CASES)
def test_messages(
    many: rc.EpisodeStore, relative: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        keyed_loader(many, 2, relative_to=relative, channels_first=True, device="cpu")


def test_sums_have_no_value_at_the_anchor(many: rc.EpisodeStore) -> None:
    message = (
        "relative_to['action'].columns: expected elements of \"state\" that are no "
        f"quaternion's and no sums, got [2,-1,0,1,1] {LEAVE}"
    )
    options: dict[str, Any] = {"device": "cpu", "relative_to": {"action": to_state()}}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        keyed_loader(many, 2, method={"state": "sum"}, **options)


def test_the_stores_statistics_are_of_others(store: rc.EpisodeStore) -> None:
    message = (
        "statistics['action']: expected those of the relative values, which the store does not "
        "have (rc.compute_stats of the same loader without normalize computes them), got None"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make(store, "cpu", normalize={"action": "mean_std"})
    make(store, "cpu", normalize={"action": "identity", "state": "mean_std"})


def test_too_many(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path / "store") as writer, writer.episode() as episode:
        for i in range(64):
            episode.add(f"s{i}", [START], np.zeros((1, 1), np.float32))
    message = (
        "streams: expected at most 64 windows, relative ones counted twice, got 64 and 1 relative "
        "ones"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        keyed_loader(tmp_path / "store", 1, relative_to={"s0": "s1"}, device="cpu")
