"""Policy specs of mixtures: the robot of one data set gets the batches of training, bit for bit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from jsonschema import Draft202012Validator
from loader_mixtures import mix
from loader_stores import write_humanoid, write_store
from support import assert_same_bits

import robocache as rc

MS = 1_000_000
METADATA = {
    "index", "episode_index", "frame_index", "task_index", "timestamp_ns", "timestamp",
}  # fmt: skip
SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "policy_spec.schema.json").read_text())


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[rc.EpisodeStore, rc.EpisodeStore]:
    folder = tmp_path_factory.mktemp("mixture")
    return write_store(folder / "arm", episodes=3, seed=1), write_humanoid(folder / "humanoid")


def reload(spec: rc.PolicySpec, folder: Path) -> rc.PolicySpec:
    """The spec in a file, which a robot reads."""
    spec.save(folder / "policy_spec.json")
    found = rc.PolicySpec.load(folder / "policy_spec.json")
    assert found == spec
    Draft202012Validator(SCHEMA).validate(json.loads(spec.to_json()))
    return found


def arrivals_of(rows: Any, by_rows: bool, latency_ns: int) -> Any:
    """When rows arrived; windows by rows do not depend on it."""
    if by_rows:
        return rows.times
    received = rows.times if rows.received is None else rows.received
    return np.maximum(received, rows.times + latency_ns)


def drive(mixture: Any, part: int, spec: rc.PolicySpec) -> tuple[Any, Any]:
    """The robot's batches at all anchors of a part, and those of the mixture, transformed."""
    of = mixture.parts[part]
    batch = mixture.gather(of.indices)
    for transform in mixture._transforms:
        batch = transform(batch)
    aligner = rc.LiveAligner(spec)
    made, last = [], -1
    for episode, now in zip(
        batch["episode_index"].tolist(), batch["timestamp_ns"].tolist(), strict=True
    ):
        if episode != last:
            aligner.reset()
            last, pushed = episode, dict.fromkeys(aligner.rows, 0)
        for name in aligner.rows:
            stream, rows = spec.stream(name), of.store.episodes[episode][name]
            arrived = arrivals_of(rows, stream.by_rows, stream.latency_ns)
            order = np.argsort(arrived, kind="stable")
            while pushed[name] < len(order) and arrived[order[pushed[name]]] <= now:
                row = order[pushed[name]]
                valid = rows.valid is None or bool(rows.valid[row])
                value = np.asarray(rows.values[row]).reshape(stream.shape)
                aligner.push(name, int(rows.times[row]), value, valid=valid)
                pushed[name] += 1
        made.append(aligner.query(now))
    return {key: torch.cat([one[key] for one in made]) for key in made[0]}, batch


def expect_the_same(mixture: Any, part: int, folder: Path) -> rc.PolicySpec:
    """Batches, their keys and the replay's count of differing bits."""
    spec = reload(mixture.spec(part), folder)
    live, batch = drive(mixture, part, spec)
    ahead = set()
    for stream in spec.streams:
        if stream.reaches_ahead:
            key = spec.key_of(stream)
            ahead |= {key, f"{key}_is_pad", f"{key}_age"}
    ahead |= {key for key, names in spec.concat.items() if spec.stream(names[0]).reaches_ahead}
    assert set(live) == set(batch) - METADATA - ahead
    for key, values in live.items():
        assert_same_bits(values, batch[key], key)
    found = rc.replay_store(mixture.parts[part].store, spec)
    assert (found.differing_bits, found.anchors) == (0, len(mixture.parts[part].indices))
    return spec


@pytest.mark.parametrize("part", [0, 1])
def test_the_robot_gets_the_batches_of_its_part(stores: Any, part: int, tmp_path: Path) -> None:
    """Windows by time and by rows, renamed, padded and missing; images; ages."""
    mixture = mix(stores, "cpu")
    spec = expect_the_same(mixture, part, tmp_path)
    assert spec.mixture is not None
    widths = {"joints": 7, "action": 9, "counter": 3}
    if part == 0:
        assert spec.mixture == type(spec.mixture)(0, {}, widths, ("gripper",))
        assert [spec.lacks(stream) for stream in spec.streams] == [False] * 4 + [True]
    else:
        widths["qpos"] = widths.pop("joints")
        assert spec.mixture == type(spec.mixture)(1, {"qpos": "joints"}, widths, ("camera",))


def test_images_with_colors_first(stores: Any, tmp_path: Path) -> None:
    pictures = rc.Window([0.0], channels_first=True)
    loaders = [
        rc.Loader(stores[0], 4, windows={"camera": pictures, "joints": [-0.02, 0.0]}, device="cpu"),
        rc.Loader(stores[1], 4, windows={"qpos": rc.Window([0.0, 0.0], dtype=torch.float32)},
                  device="cpu"),
    ]  # fmt: skip
    mixture = rc.Loader.mixture(loaders, [1, 1], 10, 4, keys=[{}, {"qpos": "joints"}])
    for part in (0, 1):
        expect_the_same(mixture, part, tmp_path)


@pytest.fixture(scope="module")
def simple(tmp_path_factory: pytest.TempPathFactory) -> list[rc.EpisodeStore]:
    """Two robots with vectors of several widths, at 50 Hz."""
    folder = tmp_path_factory.mktemp("simple")
    generator = np.random.default_rng(5)
    widths: list[dict[str, int]] = [
        {"state": 3, "grip": 1, "action": 3},
        {"state": 5, "base": 2, "action": 6},
    ]
    for name, robot in zip("ab", widths, strict=True):
        with rc.StoreWriter(folder / name) as writer:
            for _ in range(2):
                with writer.episode() as episode:
                    for key, width in robot.items():
                        rows = generator.standard_normal((12, width), np.float32)
                        episode.add(key, np.arange(12) * 20 * MS, rows)
    return [rc.EpisodeStore(folder / name) for name in "ab"]


def loaders_of(stores: list[rc.EpisodeStore], normalizes: bool = True) -> list[rc.Loader]:
    """Loaders with relative actions, normalized by different scales."""
    past, chunks = [-0.02, 0.0], [0.0, 0.02, 0.04]
    scale = rc.Normalization(np.array([0.5]), np.array([2.0]))
    given: list[dict[str, Any]] = [
        {"normalize": {"state": "mean_std", "action": "mean_std"}, "statistics": {"action": scale}},
        {"normalize": {"state": "min_max"}},
    ]
    relative = [rc.Relative("state"), rc.Relative("state", channels=[0, 1, 2, 3, 4, None])]
    return [
        rc.Loader(
            store,
            4,
            windows={
                "state": rc.Window(past),
                other: rc.Window(past),
                "action": rc.Window(chunks, relative_to=to),
            },
            anchor="state",
            device="cpu",
            **(options if normalizes else {}),
        )
        for store, other, to, options in zip(stores, ("grip", "base"), relative, given, strict=True)
    ]


def both(stores: list[rc.EpisodeStore], normalizes: bool = True, **options: Any) -> Any:
    return rc.Loader.mixture(loaders_of(stores, normalizes), [1, 1], 20, 4, **options)


@pytest.mark.parametrize("part", [0, 1])
def test_concatenated_keys(simple: Any, part: int, tmp_path: Path) -> None:
    """Each robot lacks one of the members, and has another narrower."""
    mixture = both(simple, concat={"obs": ["state", "grip", "base"]})
    spec = expect_the_same(mixture, part, tmp_path)
    assert spec.concat == {"obs": ("state", "grip", "base")}
    assert rc.LiveAligner(spec).query(0)["obs"].shape == (1, 2, 5 + 1 + 2)


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("concat", [None, {"obs": ["state", "grip", "base"]}])
def test_transforms_see_padded_rows(simple: Any, part: int, concat: Any, tmp_path: Path) -> None:
    key = "state" if concat is None else "obs"
    width = 5 if concat is None else 8
    transforms = [
        rc.transforms.Normalize(
            rc.Normalizer(
                {
                    key: rc.Normalization(np.arange(width) + 0.5, np.arange(width) + 1.0),
                    "action": rc.Normalization(np.arange(6) / 8, np.arange(6) / 64 + 0.125),
                }
            )
        ),
        rc.transforms.ConvertRotation(key, "rotation_vector", "quaternion_wxyz", at=2),
        rc.transforms.ConvertRotation("action", "rotation_vector", "quaternion_xyzw", at=3),
    ]
    mixture = both(simple, False, concat=concat, transforms=transforms)
    spec = expect_the_same(mixture, part, tmp_path)
    # A policy returns the batch that it was trained on: undone, the recorded actions.
    store = simple[part]
    own = store.streams["action"].shape[0]
    aligner = rc.LiveAligner(spec)
    rows, of_state = store.episodes[0]["action"], store.episodes[0]["state"]
    aligner.push_many("state", of_state.times[:5], of_state.values[:5])
    now = int(of_state.times[4])
    seen = aligner.query(now)
    number = mixture.parts[part].indices[4]
    batch = mixture.gather([number])
    for transform in transforms:
        batch = transform(batch)
    assert batch["action"].shape == (1, 3, 7)
    undone = aligner.undo("action", batch["action"], seen)
    assert undone.shape == (1, 3, own)
    np.testing.assert_allclose(undone[0], rows.values[4:7], atol=1e-5)


def test_undo_drops_padded_elements(simple: Any, tmp_path: Path) -> None:
    """The rest has the bits of the undo of the loader's own spec."""
    mixture = both(simple)
    spec = reload(mixture.spec(0), tmp_path)
    aligner, alone = rc.LiveAligner(spec), rc.LiveAligner(loaders_of(simple)[0].spec())
    seen = []
    for each in (aligner, alone):
        each.push("state", 0, [0.1, 0.2, 0.3])
        seen.append(each.query(0))
    answer = torch.randn(1, 2, 6, generator=torch.Generator().manual_seed(3))
    assert_same_bits(
        aligner.undo("action", answer, seen[0]), alone.undo("action", answer[..., :3], seen[1])
    )
    assert aligner.undo("action", answer.numpy()[0], seen[0]).shape == (2, 3)
    message = "action: expected [R=1,K,6], got [1, 2, 3]"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        aligner.undo("action", answer[..., :3], seen[0])


def test_a_mixture_of_one_loader_needs_no_part(simple: Any) -> None:
    mixture = rc.Loader.mixture(loaders_of(simple)[:1], [1], 10, 4)
    assert mixture.spec() == mixture.spec(0)


def test_undo_of_concatenated_actions(simple: Any) -> None:
    """Elements of missing streams of a group are dropped, too."""
    ahead = [0.0, 0.02]
    loaders = [
        rc.Loader(simple[0], 4, {"action": ahead, "grip": ahead}, device="cpu"),
        rc.Loader(simple[1], 4, {"action": ahead, "base": ahead}, device="cpu"),
    ]
    mixture = rc.Loader.mixture(
        loaders, [1, 1], 10, 4, concat={"actions": ["base", "action", "grip"]}
    )
    answer = torch.arange(9.0)[None]  # base 2, action 6, grip 1
    robots = [rc.LiveAligner(mixture.spec(part)) for part in (0, 1)]
    assert robots[0].undo("actions", answer).tolist() == [[2, 3, 4, 8]]
    assert robots[1].undo("actions", answer).tolist() == [[0, 1, 2, 3, 4, 5, 6, 7]]
    assert "actions" not in robots[0].query(0)
    assert robots[0].query(0)["action_dim_is_pad"].tolist() == [[False] * 3 + [True] * 3]


def test_a_missing_key_in_the_name_of_a_stream(simple: Any, tmp_path: Path) -> None:
    """The first robot's state has another key, and it lacks the key "state"."""
    loaders = [
        rc.Loader(simple[0], 4, {"state": [0.0]}, device="cpu"),
        rc.Loader(simple[1], 4, {"state": [0.0]}, device="cpu"),
    ]
    mixture = rc.Loader.mixture(loaders, [1, 1], 10, 4, keys=[{"state": "proprio"}, {}])
    spec = expect_the_same(mixture, 0, tmp_path)
    assert [stream.name for stream in spec.streams] == ["state", "state (missing)"]
    assert "state as proprio" in spec._repr_html_()
    assert "state (missing)" in spec._repr_html_()
    aligner = rc.LiveAligner(spec)
    aligner.push("state", 0, [1, 2, 3])
    batch = aligner.query(0)
    assert batch["proprio"].tolist() == [[[1, 2, 3]]]
    assert batch["state"].tolist() == [[[0] * 5]]
    assert (batch["proprio_is_pad"].tolist(), batch["state_is_pad"].tolist()) == (
        [[False]],
        [[True]],
    )


def test_several_robots_and_reused_buffers(simple: Any) -> None:
    """Constants are written for every robot, in every query."""
    mixture = both(simple)
    aligner = rc.LiveAligner(mixture.spec(0), robots=3, reuse_buffers=True)
    for robot in range(3):
        aligner.push("state", 0, [1.0, 2.0, 3.0], robot)
    for _ in range(2):
        batch = aligner.query(0)
        assert batch["dataset_index"].tolist() == [0, 0, 0]
        assert batch["state_dim_is_pad"].tolist() == [[False] * 3 + [True] * 2] * 3
        assert batch["base_is_pad"].all()
        assert batch["base"].shape == (3, 2, 2)
        assert not batch["base"].any()
        assert not batch["state"][..., 3:].any()
        for values in batch.values():
            values.fill_(1)
    assert repr(aligner) == "LiveAligner(3 robots on cpu: state, grip, base)"


@pytest.mark.parametrize(
    ("keys", "arrays"),
    [
        (["state"], ["state", "state_is_pad", "state_dim_is_pad", "dataset_index"]),
        (["base", "grip"], ["base", "base_is_pad", "grip", "grip_is_pad", "dataset_index"]),
    ],
)
def test_queries_of_some_keys(simple: Any, keys: list[str], arrays: list[str]) -> None:
    aligner = rc.LiveAligner(both(simple).spec(0), reuse_buffers=True)
    aligner.push("state", 0, [1.0, 2.0, 3.0])
    aligner.push("grip", 0, [4.0])
    expected = {key: values.clone() for key, values in aligner.query(0).items()}
    for values in aligner.query(0).values():
        values.fill_(1)
    batch = aligner.query(0, keys)
    assert sorted(batch) == sorted(arrays)
    for key, values in batch.items():
        assert_same_bits(values, expected[key], key)


# ---- errors --------------------------------------------------------------------------------------


def refused(kind: type[Exception], message: str) -> Any:
    return pytest.raises(kind, match=f"^{re.escape(message)}$")


def test_the_part_is_named(simple: Any) -> None:
    mixture = both(simple)
    with refused(
        ValueError,
        "part: expected 0 to 1, the index of the loader whose robot it is for, got None",
    ):
        mixture.spec()
    for part, got in ((2, "2"), (-1, "-1")):
        with refused(ValueError, f"part: expected 0 to 1, got {got}"):
            mixture.spec(part)
    with refused(TypeError, "part: expected an int, got str"):
        mixture.spec("a")


def test_streams_that_a_robot_lacks(simple: Any) -> None:
    spec = both(simple).spec(0)
    aligner = rc.LiveAligner(spec)
    lacks = "which this robot lacks (batches have zeros for it, all padded)"
    message = f"stream: expected one whose rows windows are made of, got 'base', {lacks}"
    with refused(ValueError, message):
        aligner.push("base", 0, [1, 2])
    with refused(ValueError, message):
        aligner.push_many("base", np.zeros(1, np.int64), np.zeros((1, 2), np.float32))
    message = f"now: expected a stream that has rows at control time, got 'base', {lacks}"
    with refused(ValueError, message):
        aligner.query("base")
    with refused(ValueError, "key: expected one that this robot has, got base"):
        aligner.undo("base", torch.zeros(1, 1, 2))
    assert set(aligner.stats()) == {"state", "grip"}


def test_a_loader_needs_the_mixture(simple: Any) -> None:
    with refused(
        ValueError,
        "spec: expected one of a loader of one store, got one of a mixture's part (make "
        "rc.Loader.mixture again)",
    ):
        rc.Loader.from_spec(simple[0], both(simple).spec(0), 4, device="cpu")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keys": {"nobody": "a"}},
         "mixture.keys.\"nobody\": expected one of the streams' names, got \"a\""),
        ({"keys": {"state": ""}},
         "mixture.keys.\"state\": expected a name without control characters, other than "
         "\"episode\", got \"\""),
        ({"keys": {"state": "grip"}},
         "streams: expected keys of the output that differ, got 'grip' twice"),
        ({"padded_widths": {"state": 2}},
         "mixture.padded_widths['state']: expected 3 elements to 2^26, got 2"),
        ({"padded_widths": {"state": 0}},
         "mixture.padded_widths.\"state\": expected 1 or more, got 0"),
        ({"missing": ["nobody"]},
         "mixture.missing[0]: expected one of the streams' names, got \"nobody\""),
        ({"missing": ["state"]},
         "mixture.missing['state']: expected a stream without normalization, got one with it"),
        ({"dataset_index": -1},
         "mixture.dataset_index: expected a whole number from 0 to 9223372036854775807, got -1"),
        ({"more": 1}, "mixture.\"more\": expected no such field in version 2, got 1"),
    ],
)  # fmt: skip
def test_files_that_are_wrong(simple: Any, change: Any, message: str) -> None:
    fields = json.loads(both(simple).spec(0).to_json())
    fields["mixture"] |= change
    with refused(ValueError, f"spec: {message}"):
        rc.PolicySpec.from_json(json.dumps(fields), "spec")


def test_files_without_the_field_are_of_one_data_set(simple: Any) -> None:
    spec = rc.Loader(simple[0], 4, {"state": [0.0]}, device="cpu").spec()
    fields = json.loads(spec.to_json())
    assert fields.pop("mixture") is None
    assert rc.PolicySpec.from_json(json.dumps(fields)) == spec
