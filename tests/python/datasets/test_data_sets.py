"""Loaders of other libraries' data sets: what the code around the windows does.

That their samples are those of LeRobot, robomimic and diffusion-policy is proved with these
libraries, in tests/parity.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from data_sets import write_buffer, write_demonstrations, write_lerobot

import robocache as rc
from robocache.readers import RecordingError

for library in ("h5py", "pyarrow", "zarr"):
    pytest.importorskip(library, reason=f"data sets need {library}")


@pytest.fixture(scope="module")
def lerobot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lerobot(tmp_path_factory.mktemp("lerobot"))


@pytest.fixture(scope="module")
def demonstrations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_demonstrations(tmp_path_factory.mktemp("robomimic"))


@pytest.fixture(scope="module")
def buffer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_buffer(tmp_path_factory.mktemp("diffusion_policy"))


# ---- what batches are like -----------------------------------------------------------------------


def test_lerobot(lerobot: Path, device: str) -> None:
    deltas = {"state": [-0.1, 0.0], "camera": [0.0]}
    loader = rc.Loader.from_lerobot(lerobot, deltas, batch_size=5, shuffle=False, device=device)
    batch = next(iter(loader))
    assert set(batch) == {
        "state", "state_is_pad", "camera", "camera_is_pad", "count", "timestamp", "frame_index",
        "episode_index", "index", "task_index", "task",
    }  # fmt: skip
    assert batch["state"][..., 0].tolist() == [[0, 0], [0, 1], [1, 2], [10, 10], [10, 11]]
    assert batch["state_is_pad"].tolist() == [
        [first, False] for first in (True, False, False, True, False)
    ]
    assert batch["count"].tolist() == [0, 1, 2, 10, 11] and batch["count"].dtype == torch.int64
    assert batch["camera"].shape == (5, 1, 3, 8, 9) and (batch["camera"] == 51 / 255).all()
    assert batch["task"] == ["push"] * 3 + ["pull"] * 2
    assert batch["index"].tolist() == [0, 1, 2, 3, 4]
    some = rc.Loader.from_lerobot(lerobot, batch_size=1, episodes=[1], device=device)
    assert some.gather([0, 1])["index"].tolist() == [3, 4]
    assert loader.dataset[4]["task"] == "pull"


def test_lerobots_actions_less_the_state(tmp_path: Path, device: str) -> None:
    """As openpi has them: under a mask, of a chunk of actions, from the state of its first."""
    rng = np.random.default_rng(0)
    with rc.StoreWriter(tmp_path / "source") as writer:
        for n in (4, 6):
            with writer.episode("push") as episode:
                times = np.arange(n, dtype=np.int64) * 100_000_000
                episode.add("observation.state", times, rng.normal(size=(n, 3)).astype(np.float32))
                episode.add("action", times, rng.normal(size=(n, 2)).astype(np.float32))
    root = tmp_path / "set"
    rc.export_lerobot(tmp_path / "source", root, 10, video=False)
    deltas = {"action": [0.0, 0.1, 0.2]}
    options: dict[str, Any] = {"batch_size": 10, "shuffle": False, "device": device}
    plain = rc.Loader.from_lerobot(root, deltas, **options).next()
    to = rc.Relative("observation.state", mask=[True, False])
    deltas["action"] = rc.Window(deltas["action"], relative_to=to)
    batch = rc.Loader.from_lerobot(root, deltas, **options).next()
    expected = plain["action"].clone()
    expected[..., 0] -= plain["observation.state"][:, None, 0]
    assert torch.equal(batch["action"], expected)
    assert torch.equal(batch["action_is_pad"], plain["action_is_pad"])


@pytest.mark.parametrize("kind", ["mapping", "normalization", "normalizer"])
def test_lerobots_statistics_of_images(lerobot: Path, device: str, kind: str) -> None:
    """They are of values from 0 to 1, [C,1,1], and come with those of all other features."""
    mean, std = np.array([0.25, 0.5, 0.75]), np.array([0.5, 0.25, 0.125])
    images: Any = {"mean": mean[:, None, None], "std": std[:, None, None], "count": np.array([5])}
    if kind == "normalization":
        images = rc.Normalization(mean, 1 / std)
    modes: Any = {"camera": "mean_std", "state": "mean_std"}
    statistics = {
        "camera": images,
        "state": {"mean": [10.0, 0.0], "std": [2.0, 1.0]},
        "index": {"mean": [0.0], "std": [1.0]},
    }
    options: Any = {"normalize": modes, "statistics": statistics}
    if kind == "normalizer":
        options = {"normalize": rc.Normalizer.from_statistics(statistics, modes)}
    loader = rc.Loader.from_lerobot(lerobot, batch_size=2, device=device, **options)
    batch = loader.gather([0, 3])
    expected = torch.tensor((51 / 255 - mean) / std, dtype=torch.float32)
    torch.testing.assert_close(batch["camera"][:, :, 2, 5].cpu(), expected.expand(2, 3))
    torch.testing.assert_close(batch["state"][:, 0].cpu(), torch.tensor([-5.0, 0.0]))


def test_a_single_task(lerobot: Path, tmp_path: Path, device: str) -> None:
    import pyarrow.parquet as pq

    root = shutil.copytree(lerobot, tmp_path / "set")
    table = pq.read_table(root / "meta/tasks.parquet")
    pq.write_table(table.slice(0, 1), root / "meta/tasks.parquet")
    loader = rc.Loader.from_lerobot(root, batch_size=2, device=device, episodes=[0])
    assert loader.next()["task"] == ["push", "push"]


def test_robomimic(demonstrations: Path, device: str) -> None:
    loader = rc.Loader.from_robomimic(
        demonstrations, 2, 2, batch_size=1, get_pad_mask=True, goal_mode="last", device=device
    )
    batch = loader.gather([0, 4])
    assert set(batch) == {"actions", "dones", "obs", "next_obs", "goal_obs", "pad_mask"}
    assert batch["actions"].squeeze(-1).tolist() == [[0, 0, 1], [10, 11, 11]]
    assert batch["actions"].dtype == batch["dones"].dtype == torch.float32
    assert batch["next_obs"]["arm"].squeeze(-1).tolist() == [[1, 1, 2], [11, 12, 12]]
    assert batch["goal_obs"]["arm"].tolist() == [[3], [12]]
    assert batch["pad_mask"].squeeze(-1).tolist() == [[False, True, True], [True, True, False]]
    assert loader.dataset[4]["obs"]["arm"].squeeze(-1).tolist() == [10, 11, 11]


def test_diffusion_policy(buffer: Path, device: str) -> None:
    def starts(**options: Any) -> list[list[float]]:
        loader = rc.Loader.from_diffusion_policy(buffer, 2, batch_size=1, device=device, **options)
        count = len(loader.dataset)
        found: list[list[float]] = loader.gather(range(count))["action"].squeeze(-1).tolist()
        return found

    assert starts() == [[0, 1], [1, 2], [3, 4]]
    assert starts(pad_before=1) == [[0, 0], [0, 1], [1, 2], [3, 3], [3, 4]]
    assert starts(pad_before=1, pad_after=1) == [
        [0, 0], [0, 1], [1, 2], [2, 2], [3, 3], [3, 4], [4, 4],
    ]  # fmt: skip
    parts = [starts(val_ratio=0.5, validation=part) for part in (False, True)]
    assert sorted(parts, key=len) == [[[3, 4]], [[0, 1], [1, 2]]]


def test_they_pickle_and_transform(
    lerobot: Path, demonstrations: Path, buffer: Path, device: str
) -> None:
    makers = (
        lambda **o: rc.Loader.from_lerobot(lerobot, {"state": [0.1]}, batch_size=2, **o),
        lambda **o: rc.Loader.from_robomimic(
            demonstrations, 2, batch_size=2, goal_mode="last", get_pad_mask=True, **o
        ),
        lambda **o: rc.Loader.from_diffusion_policy(buffer, 2, pad_after=1, batch_size=2, **o),
    )
    for make in makers:
        loader = make(device=device, seed=3)
        first = loader.next()
        again = pickle.loads(pickle.dumps(loader))
        assert repr(again.next()) == repr(loader.next())
        transformed = make(device=device, seed=3, transforms=[lambda batch, _: {"whole": batch}])
        assert repr(transformed.next()["whole"]) == repr(first)


def test_they_take_a_budget(lerobot: Path, demonstrations: Path, buffer: Path) -> None:
    makes: dict[str, Callable[..., rc.Loader]] = {
        "camera": partial(rc.Loader.from_lerobot, lerobot, {"state": [0.0, 0.1]}),
        "actions": partial(
            rc.Loader.from_robomimic, demonstrations, seq_length=2, get_pad_mask=True
        ),
        "action": partial(rc.Loader.from_diffusion_policy, buffer, 2),
    }
    for key, make in makes.items():
        options: dict[str, Any] = {"batch_size": 2, "seed": 3, "device": "cpu"}
        with pytest.raises(ValueError, match=r"^budget\['ram'\]: expected at least ") as caught:
            make(**options, budget={"ram": 0})
        least = int(str(caught.value).split()[4])
        loader = make(**options, budget={"ram": least})
        for batch, other in zip(loader, make(**options), strict=True):
            assert torch.equal(batch[key], other[key])
        assert loader.stats().hit_shares["disk"] > 0


# ---- the store beside a data set -----------------------------------------------------------------


def test_the_store_is_made_once(lerobot: Path, tmp_path: Path) -> None:
    root = shutil.copytree(lerobot, tmp_path / "set")
    rc.Loader.from_lerobot(root, batch_size=1, device="cpu")
    made = tmp_path / "set.robocache"
    files = {file: file.stat().st_mtime_ns for file in made.iterdir() if file.name != ".lock"}
    assert len(files) >= 2
    rc.Loader.from_lerobot(str(root), batch_size=1, device="cpu")
    rc.Loader.from_lerobot(root, batch_size=1, device="cpu", store=made)
    assert files == {file: file.stat().st_mtime_ns for file in files}
    rc.Loader.from_lerobot(root, batch_size=1, device="cpu", store=tmp_path / "other")
    assert rc.EpisodeStore(tmp_path / "other").streams.keys() >= {"index", "timestamp"}


def test_progress_of_the_conversion(
    lerobot: Path, demonstrations: Path, buffer: Path, tmp_path: Path
) -> None:
    """A function is called with the episodes, where the store is made, and not where it is."""
    for number, load in enumerate(
        [
            lambda **options: rc.Loader.from_lerobot(lerobot, **options),
            lambda **options: rc.Loader.from_robomimic(demonstrations, **options),
            lambda **options: rc.Loader.from_diffusion_policy(buffer, 1, **options),
        ]
    ):
        calls: list[tuple[int, int]] = []
        options = {"batch_size": 1, "device": "cpu", "store": tmp_path / str(number)}
        load(progress=lambda *done, calls=calls: calls.append(done), **options)
        assert calls[0] == (0, 2) and calls[-1] == (2, 2)
        load(progress=lambda *done: pytest.fail("there is nothing to convert"), **options)
    message = "progress: expected a bool or a function of (done, total), got 'yes'"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        rc.Loader.from_lerobot(
            lerobot, batch_size=1, device="cpu", store=tmp_path / "n", progress="yes"
        )


def test_a_data_set_that_was_written_again(lerobot: Path, tmp_path: Path) -> None:
    root = shutil.copytree(lerobot, tmp_path / "set")
    rc.Loader.from_lerobot(root, batch_size=1, device="cpu")
    manifest = tmp_path / "set.robocache/manifest.json"
    later = manifest.stat().st_mtime_ns + 1
    (root / ".cache").mkdir()
    (root / ".cache/download").touch()
    os.utime(root / ".cache/download", ns=(later, later))
    rc.Loader.from_lerobot(root, batch_size=1, device="cpu")
    os.utime(root / "meta/info.json", ns=(later, later))
    with pytest.raises(rc.StoreError) as error:
        rc.Loader.from_lerobot(root, batch_size=1, device="cpu")
    assert str(error.value) == (
        f"{manifest.parent}: expected a store that is newer than its data set, got one that is "
        f"older than {root}/meta/info.json (remove it, and it is made again)"
    )


def test_a_store_that_has_others(demonstrations: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.hdf5", "b.hdf5")]
    for file in files:
        shutil.copy(demonstrations, file)
    rc.convert(files, tmp_path / "store", rate=1.0, topics=("*", "next_obs/*"))
    with pytest.raises(rc.StoreError) as error:
        rc.Loader.from_robomimic(files[0], batch_size=1, store=tmp_path / "store", device="cpu")
    assert str(error.value) == (
        f"{tmp_path}/store: expected a store of {files[0]} alone, got one with 2 other episodes, "
        f"such as '{files[1]}#demo_0' (remove it, and it is made again)"
    )


def test_a_store_that_lacks_streams(lerobot: Path, tmp_path: Path) -> None:
    rc.convert(lerobot, tmp_path / "store")
    with pytest.raises(rc.StoreError) as error:
        rc.Loader.from_lerobot(lerobot, batch_size=1, store=tmp_path / "store")
    assert str(error.value) == (
        f"{tmp_path}/store: expected a store of all streams of {lerobot}, got one without "
        "episode_index, frame_index, index, task_index, timestamp (remove it, and it is made again)"
    )


def test_lerobot_without_its_videos(lerobot: Path, tmp_path: Path) -> None:
    root = shutil.copytree(lerobot, tmp_path / "set")
    info = json.loads((root / "meta/info.json").read_text())
    info["features"]["camera"]["dtype"] = "video"
    (root / "meta/info.json").write_text(json.dumps(info))
    if info["codebase_version"] == "v3.0":
        pq = pytest.importorskip("pyarrow.parquet")
        (index,) = root.glob("meta/episodes/*/*.parquet")
        table = pq.read_table(index)
        for column in ("chunk_index", "file_index", "from_timestamp"):
            table = table.append_column(f"videos/camera/{column}", [[0] * len(table)])
        pq.write_table(table, index)
    rest = "--no-images, or images=False, reads the rest"
    with pytest.raises(RecordingError) as error:
        rc.Loader.from_lerobot(root, batch_size=1, device="cpu")
    assert str(error.value) == (
        f"{root}: expected an episode with all its videos, got none with that of camera ({rest})"
    )
    batch = rc.Loader.from_lerobot(root, batch_size=2, device="cpu", images=False).gather([0, 1])
    expected = rc.Loader.from_lerobot(lerobot, batch_size=2, device="cpu").gather([0, 1])
    assert batch.keys() == expected.keys() - {"camera"}
    assert torch.equal(batch["state"], expected["state"])
    assert (tmp_path / "set.no-images.robocache").is_dir()
    # A store that has images is one for its other streams too.
    some = {"store": tmp_path / "store", "device": "cpu", "batch_size": 2}
    rc.Loader.from_lerobot(lerobot, **some)
    assert "camera" not in rc.Loader.from_lerobot(lerobot, images=False, **some).gather([0])


# ---- errors --------------------------------------------------------------------------------------


def test_errors_of_lerobot(lerobot: Path, tmp_path: Path) -> None:
    def message(*arguments: Any, **options: Any) -> str:
        with pytest.raises(ValueError, match=r"expected") as error:
            rc.Loader.from_lerobot(*arguments, batch_size=1, device="cpu", **options)
        return str(error.value)

    assert message(lerobot, episodes=[7]) == (
        "episodes: expected numbers of the 2 episodes that are there (0 to 1), got 7"
    )
    assert message(lerobot, {"arm": [0.0]}).startswith(
        "delta_timestamps: expected features of numbers or images (state, count, "
    )
    assert message(lerobot, {"task_index": [0.0, 0.1]}) == (
        "delta_timestamps['task_index']: expected 1 offset (`task` is that row's), got 2"
    )
    assert message(lerobot, {"state": []}) == "offsets['state']: expected at least 1 offset, got 0"
    window = rc.Window([0.0], timeline="time")
    assert message(lerobot, {"state": window}) == (
        "timeline['state']: expected None (from_lerobot decides it), got 'time'"
    )
    assert message(lerobot, {"state": [0.05]}).startswith("offsets['state']: ")
    assert message(tmp_path / "none") == (
        f"{tmp_path}/none: expected a folder with meta/info.json (LeRobot), "
        "got no such file or folder"
    )


def test_errors_of_robomimic(demonstrations: Path, tmp_path: Path) -> None:
    import h5py

    def message(path: Path, *arguments: Any, **options: Any) -> str:
        with pytest.raises(ValueError, match=r"expected") as error:
            rc.Loader.from_robomimic(path, *arguments, batch_size=1, device="cpu", **options)
        return str(error.value)

    file = demonstrations
    assert message(file, obs_keys=["leg"]) == "obs_keys: expected some of arm; got 'leg'"
    assert message(file, dataset_keys=["obs/arm"]) == (
        "dataset_keys: expected some of actions, dones; got 'obs/arm'"
    )
    assert message(file, obs_keys=[], dataset_keys=[]).startswith("obs_keys: expected at least 1")
    assert message(file, 0) == "seq_length: expected 1 or more, got 0"
    assert message(file, 1, 0) == "frame_stack: expected 1 or more, got 0"
    assert message(file, goal_mode="first") == "goal_mode: expected last or None, got 'first'"
    assert message(file, goal_mode="last", load_next_obs=False) == (
        "load_next_obs: expected True for goal_mode='last', got False"
    )
    assert message(file, filter_by_attribute="valid") == "subset: expected 'train', got 'valid'"
    assert message(file, 3, pad_seq_length=False) == (
        "seq_length: expected demonstrations of 3 rows or more, which windows take without "
        f"padding, got 2 in {file}#demo_1"
    )
    with h5py.File(tmp_path / "bare.hdf5", "w") as bare:
        bare["data/demo_0/actions"] = np.zeros((2, 1))
    assert message(tmp_path / "bare.hdf5") == (
        f"load_next_obs: expected False, since {tmp_path}/bare.hdf5 has no next_obs, got True"
    )
    (tmp_path / "text.hdf5").write_text("text")
    assert message(tmp_path / "text.hdf5").startswith(
        f"{tmp_path}/text.hdf5: expected an HDF5 file (robomimic HDF5), got "
    )


def test_errors_of_diffusion_policy(buffer: Path) -> None:
    def message(*arguments: Any, **options: Any) -> str:
        with pytest.raises(ValueError, match=r"expected") as error:
            rc.Loader.from_diffusion_policy(
                buffer, *arguments, batch_size=1, device="cpu", **options
            )
        return str(error.value)

    assert message(2, keys=["arm"]) == "keys: expected some of action; got 'arm'"
    assert message(0) == "horizon: expected 1 or more, got 0"
    assert message(2, val_ratio=2) == "val_ratio: expected a share from 0 to 1, got 2"
    assert message(2, max_train_episodes=0) == "max_train_episodes: expected 1 or more, got 0"
    assert message(9) == "horizon: expected a window in at least 1 of 2 episodes, got none"
    for name, given in (("drop_n_last_frames", 1), ("time_ranges", [(0, 1)])):
        assert message(2, episodes=rc.Episodes(**{name: given})) == (
            f"{name}: expected none, since pad_before and pad_after choose windows here, "
            f"got {given}"
        )
    assert message(2, validation=True).startswith("episodes: expected at least 1 ")


def test_relative_values_of_other_libraries(demonstrations: Path, buffer: Path) -> None:
    """The actions of a row are 10, 11 and so on, and so is the arm at the anchor."""
    own: dict[str, Any] = {"batch_size": 1, "device": "cpu", "shuffle": False}
    batch = rc.Loader.from_robomimic(
        demonstrations, 2, relative_to={"actions": "obs/arm"}, **own
    ).gather([3])
    assert batch["actions"][0, :, 0].tolist() == [0.0, 1.0]
    for given, kind, message in (
        ({"arm": "obs/arm"}, ValueError,
         "relative_to: expected keys of the batch (action), got 'arm'"),
        (["action"], TypeError, "relative_to: expected a reference for each relative key, as in "
         "{'action': 'state'}, got list"),
        ({"action": "action"}, ValueError,
         "relative_to['action'].stream: expected a stream that is not relative itself, got "
         '"action"'),
    ):  # fmt: skip
        with pytest.raises(kind, match=f"^{re.escape(message)}$"):
            rc.Loader.from_diffusion_policy(buffer, 2, relative_to=given, **own)


def test_options_that_a_data_set_decides(lerobot: Path, demonstrations: Path, buffer: Path) -> None:
    """Each is refused, before or after the conversion, and names the function that decides it."""
    own: dict[str, Any] = {"batch_size": 1, "device": "cpu"}
    subset = rc.Episodes(subset="train")
    for make, name in (
        (lambda **options: rc.Loader.from_lerobot(lerobot, **own, **options), "from_lerobot"),
        (
            lambda **options: rc.Loader.from_robomimic(demonstrations, **own, **options),
            "from_robomimic",
        ),
        (
            lambda **options: rc.Loader.from_diffusion_policy(buffer, 2, **own, **options),
            "from_diffusion_policy",
        ),
    ):
        message = f"windows: expected none ({name} decides it), got one"
        with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
            make(windows={})
        if name == "from_diffusion_policy":  # whose batches have the keys of the loader
            batch = make(concat={"all": ["action"]}, with_age=True).next()
            assert {"all", "action_is_pad", "action_age"} <= set(batch)
            continue
        for option, given in {"concat": {"all": ["action"]}, "with_age": True}.items():
            message = f"{option}: expected none ({name} decides it), got one"
            with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
                make(**{option: given})
    message = "episodes.subset: expected None (from_robomimic decides it), got 'train'"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        rc.Loader.from_robomimic(demonstrations, episodes=subset, **own)
    message = "episodes.indices: expected None (from_diffusion_policy decides it), got [0]"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        rc.Loader.from_diffusion_policy(buffer, 2, episodes=rc.Episodes([0]), **own)
    chosen = rc.Episodes([1], drop_n_last_frames=1)
    whole = rc.Loader.from_lerobot(lerobot, episodes=[1], **own)
    assert len(rc.Loader.from_lerobot(lerobot, episodes=chosen, **own).dataset) == (
        len(whole.dataset) - 1
    )


# ---- on the robot --------------------------------------------------------------------------------


def test_the_spec_of_lerobots_batches(lerobot: Path, tmp_path: Path) -> None:
    """Its own columns and small integers are left out, and replays give the store's bits."""
    loader = rc.Loader.from_lerobot(
        lerobot, {"state": [-0.1, 0.0]}, batch_size=2, store=tmp_path / "s", device="cpu"
    )
    spec = loader.spec()
    assert [stream.name for stream in spec.streams] == ["state", "camera"]
    assert spec.stream("camera").channels_first and not spec.stream("camera").has_axis
    batch, live = loader.gather([0]), rc.LiveAligner(spec).query(0)
    for key in ("state", "camera"):
        assert (live[key].shape, live[key].dtype) == (batch[key].shape, batch[key].dtype)
    assert rc.replay_store(loader.store, spec).differing_bits == 0


def test_the_spec_of_robomimics_batches(demonstrations: Path, tmp_path: Path) -> None:
    loader = rc.Loader.from_robomimic(
        demonstrations, 2, batch_size=2, store=tmp_path / "s", device="cpu"
    )
    with pytest.raises(ValueError, match=r"^spec: expected a loader with batches of its own, got"):
        loader.spec()
