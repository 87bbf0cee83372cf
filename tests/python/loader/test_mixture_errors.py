"""Mixtures that can't be: messages that say what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loader_options import keyed_loader
from loader_stores import MS, write_humanoid, write_store

import robocache as rc


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[rc.EpisodeStore, rc.EpisodeStore]:
    folder = tmp_path_factory.mktemp("mixture-errors")
    return write_store(folder / "arm", episodes=2), write_humanoid(folder / "humanoid", episodes=2)


ARM: dict[str, Any] = {"delta_timestamps": {"action": [0.0, 0.02], "state": [0.0, 0.02]}}
HUMANOID: dict[str, Any] = {"delta_timestamps": {"action": [0.0, 0.04]}}


def transform(batch: Any, generator: torch.Generator) -> Any:
    return batch


# Options of the first loader, of the second, and of the mixture.
CASES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], type[Exception], str]] = [
    # ---- loaders
    ({}, {}, {"loaders": []}, ValueError, "loaders: expected at least 1, got none"),
    ({}, {}, {"loaders": 3}, TypeError, "loaders: expected a list of rc.Loader, got int"),
    ({}, {}, {"loaders": ["arm.store"]}, TypeError, "loaders[0]: expected a rc.Loader, got str"),
    ({"with_age": True}, {}, {}, ValueError,
     "loaders[1]: expected with_age=True like loaders[0], got False"),
    ({}, {"transforms": [transform]}, {}, ValueError,
     "loaders[1]: expected no transforms (the mixture takes some), got one with them"),
    ({"concat": {"obs": ["state"]}}, {}, {}, ValueError,
     "loaders[0]: expected no concat (the mixture takes some), got one with them"),
    ({}, {"budget": {"ram": "1GB"}}, {}, ValueError,
     "loaders[1]: expected no budget (all streams of a mixture live on its device), got one with "
     "it"),
    ({}, {"finish": dict}, {}, ValueError,
     "loaders[1]: expected a loader with batches of its own (rc.Loader(loader.store, ...) makes "
     "one of the same data set), got one with those of another library"),
    # ---- weights and samples
    ({}, {}, {"weights": 1}, TypeError, "weights: expected a list of numbers, got 1"),
    ({}, {}, {"weights": "12"}, TypeError, "weights: expected a list of numbers, got '12'"),
    ({}, {}, {"weights": [1, 2, 3]}, ValueError,
     "weights: expected 2, one for each loader, got 3"),
    ({}, {}, {"weights": [1, "2"]}, TypeError, "weights[1]: expected a number, got str"),
    ({}, {}, {"weights": [True, 1]}, TypeError, "weights[0]: expected a number, got bool"),
    ({}, {}, {"weights": [1, -0.5]}, ValueError,
     "weights[1]: expected a finite number, 0 or more, got -0.5"),
    ({}, {}, {"weights": [float("nan"), 1]}, ValueError,
     "weights[0]: expected a finite number, 0 or more, got nan"),
    ({}, {}, {"weights": [1, float("inf")]}, ValueError,
     "weights[1]: expected a finite number, 0 or more, got inf"),
    ({}, {}, {"weights": [0, 0.0]}, ValueError,
     "weights: expected one above 0, got zeros alone"),
    ({}, {}, {"samples": 0}, ValueError, f"samples: expected 1 to {2**62}, got 0"),
    ({}, {}, {"samples": 2**63}, ValueError, f"samples: expected 1 to {2**62}, got {2**63}"),
    ({}, {}, {"samples": 10.0}, TypeError, "samples: expected an int, got float"),
    ({}, {}, {"samples": 3, "rank": 0, "world_size": 4}, ValueError,
     "world_size: expected at most the 3 samples, got 4"),
    ({}, {}, {"samples": 3, "drop_last": True}, ValueError,
     "batch_size: expected at most 3 with drop_last=True, 3 samples and 1 ranks, got 4"),
    ({}, {}, {"drop_last": 1}, TypeError, "drop_last: expected a bool, got int"),
    ({}, {}, {"name": 3}, TypeError, "name: expected a str, got int"),
    # ---- keys
    ({}, {}, {"keys": {"action": "a"}}, TypeError,
     "keys: expected a mapping for each loader, as in [{'qpos': 'state'}, {}], got dict"),
    ({}, {}, {"keys": [{}]}, ValueError, "keys: expected 2, one for each loader, got 1"),
    ({}, {}, {"keys": [{}, None]}, TypeError,
     "keys[1]: expected a mapping, as in {'qpos': 'state'}, got None"),
    ({}, {}, {"keys": [{}, {"qpos": "state"}]}, ValueError,
     "keys[1]: expected action, got 'qpos'"),
    ({}, {}, {"keys": [{}, {"action": 1}]}, TypeError,
     "keys[1]['action']: expected a key, got 1"),
    ({}, {}, {"keys": [{"state": "action"}, {}]}, ValueError,
     "keys[0]: expected a key for each stream, got 'action' of 'action' and of 'state'"),
    ({}, {}, {"keys": [{"state": "action_is_pad"}, {}]}, ValueError,
     "keys: expected keys that are no stream's mask or age, got 'action_is_pad' beside 'action'"),
    ({}, {}, {"keys": [{"state": "action_dim_is_pad"}, {}]}, ValueError,
     "keys: expected keys that are no stream's mask or age, got 'action_dim_is_pad' beside "
     "'action'"),
    # ---- windows
    ({"delta_timestamps": {"action": None}}, {}, {}, ValueError,
     "loaders[1]: action: expected no axis of steps like loaders[0], got 2 steps (a name of its "
     "own in keys= keeps it apart)"),
    ({"delta_timestamps": {"action": [0.0]}}, {}, {}, ValueError,
     "loaders[1]: action: expected 1 steps like loaders[0], got 2 (a name of its own in keys= "
     "keeps it apart)"),
    ({}, {"dtype": torch.bfloat16}, {}, ValueError,
     "loaders[1]: action: expected float32 like loaders[0], got bfloat16 "
     "(rc.Window(dtype=) changes it)"),
    ({"delta_timestamps": {"camera": None}}, {"delta_timestamps": {"camera": None},
      "channels_first": True, "dtype": torch.float32}, {}, ValueError,
     "loaders[1]: camera: expected uint8 like loaders[0], got float32 "
     "(rc.Window(dtype=) changes it)"),
    ({"delta_timestamps": {"camera": None}, "dtype": torch.float32},
     {"delta_timestamps": {"camera": None}, "channels_first": True}, {}, ValueError,
     "loaders[1]: camera: expected rows of shape [4, 6, 3] like loaders[0], got [3, 4, 6] "
     "(rc.convert(resize=) makes pictures of a size; a name of its own in keys= keeps it apart)"),
    ({"delta_timestamps": {"gripper": None}}, {"delta_timestamps": {"counter": None}},
     {"keys": [{}, {"counter": "gripper"}]}, ValueError,
     "loaders[1]: gripper: expected bool like loaders[0], got int64 (a name of its own in keys= "
     "keeps it apart)"),
    ({"delta_timestamps": {"camera": [0.0, 0.1]}}, {"dtype": torch.uint8},
     {"keys": [{"camera": "action"}, {}]}, ValueError,
     "loaders[1]: action: expected rows of shape [4, 6, 3] like loaders[0], got [9] "
     "(rc.convert(resize=) makes pictures of a size; a name of its own in keys= keeps it apart)"),
    # ---- side by side
    ({}, {}, {"concat": {"obs": ["qpos"]}}, ValueError,
     "concat['obs']: expected streams of the batch (action, state), got 'qpos'"),
    ({}, {}, {"concat": {"dataset_index": ["action"]}}, ValueError,
     "concat: expected keys that the batch has not, got 'dataset_index'"),
    ({}, {}, {"concat": {"action_dim_is_pad": ["action"]}}, ValueError,
     "concat: expected keys that the batch has not, got 'action_dim_is_pad'"),
    ({"delta_timestamps": {"action": [0.0, 0.02], "state": [0.0, 0.04]}}, {},
     {"concat": {"obs": ["action", "state"]}}, ValueError,
     "loaders[0]: concat['obs']: expected the offsets of 'action', got others of 'state'"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "two", "options", "kind", "message"), CASES,
                         ids=[case[4][:60] for case in CASES])  # fmt: skip
def test_messages(
    stores: Any,
    one: dict[str, Any],
    two: dict[str, Any],
    options: dict[str, Any],
    kind: type[Exception],
    message: str,
) -> None:
    loaders = [
        keyed_loader(stores[0], **({"batch_size": 4, "device": "cpu"} | ARM | one)),
        keyed_loader(stores[1], **({"batch_size": 4, "device": "cpu"} | HUMANOID | two)),
    ]
    arguments = {"loaders": loaders, "weights": [1, 2], "samples": 10, "batch_size": 4} | options
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        rc.Loader.mixture(**arguments)


def test_a_mixture_of_mixtures(stores: Any) -> None:
    loader = rc.Loader(stores[0], 4, {"action": None}, device="cpu")
    mixture = rc.Loader.mixture([loader], [1], 10, 4)
    with pytest.raises(
        ValueError,
        match=r"^loaders\[1\]: expected a loader of one store \(those of a mixture can be mixed "
        r"with it\), got a mixture$",
    ):
        rc.Loader.mixture([loader, mixture], [1, 1], 10, 4)


def test_loaders_on_several_devices(stores: Any) -> None:
    loaders = [rc.Loader(stores[0], 4, {"action": None}, device="cpu") for _ in range(2)]
    loaders[1].device = torch.device("cuda", 1)
    with pytest.raises(
        ValueError, match=r"^loaders\[1\]: expected device cpu like loaders\[0\], got cuda:1$"
    ):
        rc.Loader.mixture(loaders, [1, 1], 10, 4)


def test_at_most_64_windows(stores: Any) -> None:
    loaders = [
        rc.Loader(stores[0], 4, {"action": None}, device="cpu"),
        rc.Loader(stores[1], 4, {"action": None}, device="cpu"),
    ] * 25
    # 25 of them are narrower, none beside another such: 50 + 25 + 1.
    with pytest.raises(
        ValueError, match=r"^loaders: expected at most 64 windows in all, got 76: .* 50 loaders, .*"
    ):
        rc.Loader.mixture(loaders, [1] * 50, 10, 4)
    # Side by side their zeros are one stream: 62 + 1 + 1.
    many = loaders[0::2] + loaders[0:12:2] + loaders[1::2] + loaders[1:12:2]
    mixture = rc.Loader.mixture(many, [1] * 62, 500, 500)
    batch = mixture.next()
    assert set(batch["dataset_index"].tolist()) == set(range(62))
    widths = (~batch["action_dim_is_pad"]).sum(1)
    assert torch.equal(widths == 5, batch["dataset_index"] < 31)


def test_rows_that_are_numbers(tmp_path: Path) -> None:
    """Beside vectors: another number of axes."""
    for name, width in (("a", ()), ("b", (1,))):
        with rc.StoreWriter(tmp_path / name) as writer, writer.episode() as episode:
            episode.add("x", np.arange(3) * MS, np.zeros((3, *width), np.float32))
    loaders = [rc.Loader(tmp_path / name, 2, device="cpu") for name in "ab"]
    with pytest.raises(
        ValueError,
        match=r"^loaders\[1\]: x: expected rows of shape \[\] like loaders\[0\], got \[1\] \(a ",
    ):
        rc.Loader.mixture(loaders, [1, 1], 10, 4)
