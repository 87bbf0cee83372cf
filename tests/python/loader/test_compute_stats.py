"""rc.compute_stats: statistics of the windows that a loader gives."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loader_options import keyed_loader
from loader_stores import write_store
from normalizing import WINDOWS, make
from support import assert_near, assert_same_bits

import robocache as rc
from robocache.statistics.quantiles import QUANTILES


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("normalizer") / "store")


def of_windows(values: torch.Tensor, is_pad: torch.Tensor) -> np.ndarray:
    kept: np.ndarray = values[~is_pad].double().numpy()
    return kept


def test_statistics_of_windows(store: rc.EpisodeStore, device: str) -> None:
    """They equal those of all steps that are not padded; the loader's position stays."""
    loader = make(store, device, shuffle=True, seed=3)
    loader.next()
    before = loader.state_dict()
    found = rc.compute_stats(loader)
    assert loader.state_dict() == before
    assert sorted(found) == sorted(WINDOWS)
    batch = make(store).gather(range(len(loader.dataset)))
    for key in WINDOWS:
        rows = of_windows(batch[key], batch[key + "_is_pad"])
        assert (found[key].count == len(rows)).all()
        for name, expected in {
            "mean": rows.mean(0), "std": rows.std(0), "min": rows.min(0), "max": rows.max(0)
        }.items():  # fmt: skip
            np.testing.assert_allclose(getattr(found[key], name), expected, rtol=1e-9, atol=1e-12)
        for rank in QUANTILES:
            expected = np.quantile(rows, rank, axis=0)
            np.testing.assert_allclose(found[key].quantiles[rank], expected, rtol=1e-9)
        assert found[key].exact_quantiles


def test_statistics_normalize(store: rc.EpisodeStore) -> None:
    """Given to a loader with modes, or by a normalizer: the same, and the windows' range is 1."""
    found = rc.compute_stats(make(store))
    by_modes = make(store, normalize={"action": "min_max"}, statistics=found)
    normalizer = rc.Normalizer.from_statistics(found, {"action": "min_max"})
    by_normalizer = make(store, normalize=normalizer)
    everything = range(len(by_modes.dataset))
    batch = by_modes.gather(everything)
    assert_same_bits(batch["action"], by_normalizer.gather(everything)["action"])
    rows = of_windows(batch["action"], batch["action_is_pad"])
    np.testing.assert_allclose(rows.min(0), -1, atol=1e-6)
    np.testing.assert_allclose(rows.max(0), 1, atol=1e-6)


@pytest.mark.parametrize("channels_first", [False, True])
def test_statistics_of_images(store: rc.EpisodeStore, channels_first: bool) -> None:
    options: Any = {"delta_timestamps": {"camera": [0.0]}, "anchor": "joints"}
    found = rc.compute_stats(make(store, channels_first=channels_first, **options))["camera"]
    batch = make(store, **options).gather(range(len(make(store, **options).dataset)))
    pixels = of_windows(batch["camera"], batch["camera_is_pad"]).reshape(-1, 3) / 255
    np.testing.assert_allclose(found.mean, pixels.mean(0), rtol=1e-6)
    np.testing.assert_allclose(found.std, pixels.std(0), rtol=1e-6)
    normal = make(
        store, channels_first=True, normalize={"camera": "mean_std"},
        statistics=rc.WindowStatistics(
            {"camera": found}, {"camera": (3, 1, 1)}), **options,
    )  # fmt: skip
    floats = normal.gather(range(len(normal.dataset)))
    rows = floats["camera"][~floats["camera_is_pad"]].movedim(1, -1).reshape(-1, 3)
    assert_near(rows.mean(0), torch.zeros(3), 1e-4)
    assert_near(rows.std(0), torch.ones(3), 1e-3)


def test_statistics_of_what_stands_side_by_side_and_of_transforms(store: rc.EpisodeStore) -> None:
    def squared(batch: Any, generator: Any) -> Any:
        return batch | {"square": batch["action"] ** 2, "square_is_pad": batch["action_is_pad"]}

    windows = WINDOWS | {"joints": [0.0]}
    options: Any = {"delta_timestamps": windows, "transforms": [squared]}
    beside = rc.compute_stats(make(store, concat={"obs": ["joints", "pose"]}, **options))
    alone = rc.compute_stats(make(store, **options))
    assert sorted(beside) == sorted(alone) == sorted([*windows, "square"])
    for key, summary in alone.items():
        np.testing.assert_allclose(beside[key].mean, summary.mean, rtol=1e-12)
    assert (alone["square"].min >= 0).all()


def test_statistics_of_a_group_that_a_transform_changed(store: rc.EpisodeStore) -> None:
    options: Any = {"delta_timestamps": WINDOWS | {"joints": [0.0]}}
    options["concat"] = {"obs": ["joints", "pose"]}
    six = rc.transforms.ConvertRotation("obs", "quaternion_xyzw", "rotation_6d", 7)
    loader = make(store, **options, transforms=[six])
    stats = rc.compute_stats(loader)
    assert "obs" in stats and not {"joints", "pose"} & set(stats)
    assert stats["obs"].mean.shape == (13,)
    batches = [loader.next() for _ in range(len(loader))]
    rows = torch.cat([b["obs"][~(b["joints_is_pad"] | b["pose_is_pad"])] for b in batches])
    np.testing.assert_allclose(stats["obs"].mean, rows.double().mean(0).cpu(), rtol=1e-6, atol=1e-6)

    def wider(batch: Any, generator: Any) -> Any:
        return batch | {"obs": torch.cat([batch["obs"], batch["obs"]], -1)}

    with pytest.raises(ValueError, match=r"^loader: expected obs of 11 columns, those of joints, "):
        rc.compute_stats(make(store, **options, transforms=[wider]))


def test_statistics_of_relative_windows(store: rc.EpisodeStore) -> None:
    """They are of what is left when the reference is subtracted, and normalize that."""
    options: Any = {
        "delta_timestamps": {"state": None, "action": [0.0, 0.02, 0.04]},
        "relative_to": {"action": rc.Relative("state", channels=[0, 1, 2, None, None])},
        "causal": True,  # all are by rows, of which that says nothing
    }
    plain = make(store, **options)
    found = rc.compute_stats(plain)
    everything = range(len(plain.dataset))
    batch = plain.gather(everything)
    rows = of_windows(batch["action"], batch["action_is_pad"])
    np.testing.assert_allclose(found["action"].mean, rows.mean(0), rtol=1e-9)
    assert not np.allclose(found["action"].std[0], store.statistics["action"].std[0], rtol=0.1)
    normalizer = rc.Normalizer.from_statistics(found, {"action": "mean_std"})
    for fused in (
        make(store, normalize=normalizer, **options),
        make(store, normalize={"action": "mean_std"}, statistics=found, **options),
    ):
        got = fused.gather(everything)["action"]
        assert_same_bits(normalizer.normalize("action", batch["action"]), got)


def test_statistics_of_a_film_without_steps(store: rc.EpisodeStore) -> None:
    """LeRobot's films have none where one offset is asked for, but a mask of one step."""

    def squeezed(batch: Any, generator: Any) -> Any:
        return batch | {"camera": batch["camera"].squeeze(1)}

    options: Any = {
        "delta_timestamps": {"camera": [0.0]}, "anchor": "joints", "channels_first": True
    }  # fmt: skip
    expected = rc.compute_stats(make(store, **options))["camera"]
    found = rc.compute_stats(make(store, transforms=[squeezed], **options))
    np.testing.assert_allclose(found["camera"].mean, expected.mean, rtol=1e-12)
    assert found.shapes["camera"] == (3, 1, 1)
    again = pickle.loads(pickle.dumps(found))
    assert again.shapes == found.shapes and list(again) == ["camera"]
    nested = make(store, transforms=[lambda batch, generator: {"obs": batch}], **options)
    with pytest.raises(ValueError, match="expected batches of tensors, got a dict of 'obs'"):
        rc.compute_stats(nested)


def test_some_batches(store: rc.EpisodeStore) -> None:
    loader = make(store)
    one, all_of_them = rc.compute_stats(loader, batches=1), rc.compute_stats(loader)
    rows = of_windows(*(make(store).gather(range(32))[k] for k in ("action", "action_is_pad")))
    np.testing.assert_allclose(one["action"].mean, rows.mean(0), rtol=1e-9)
    assert one["action"].count[0] == len(rows) < all_of_them["action"].count[0]
    more = rc.compute_stats(loader, batches=2 * len(loader))  # an epoch: each sample counts once
    assert more["action"].count[0] == all_of_them["action"].count[0]


def test_errors_of_compute_stats(store: rc.EpisodeStore) -> None:
    two = make(store, rank=0, world_size=2)
    for loader, options, kind, message in (
        (3, {}, TypeError, "loader: expected a rc.Loader, got int"),
        (make(store, normalize={"action": "min_max"}), {}, ValueError,
         "loader: expected one without normalize (statistics describe values before it), got "
         "one that normalizes action"),
        (two, {}, ValueError,
         "loader: expected one of all samples (rank=0, world_size=1), got one of 2 ranks"),
        (rc.Loader.mixture([make(store)], [1], 8, 4), {}, ValueError,
         "loader: expected a loader of one store, got a mixture (each of its loaders has "
         "statistics)"),
        (make(store), {"batches": 0}, ValueError, "batches: expected 1 or more, got 0"),
    ):  # fmt: skip
        with pytest.raises(kind) as error:
            rc.compute_stats(loader, **options)  # type: ignore[arg-type]
        assert str(error.value) == message


def test_statistics_of_nothing_normalize_nothing(tmp_path: Path) -> None:
    """Every step of a stream whose held rows are too old is padded, at the anchors of another."""
    with rc.StoreWriter(tmp_path / "s") as writer, writer.episode() as episode:
        times = np.arange(5) * 20_000_000
        episode.add("action", times, np.ones((5, 1), np.float32))
        episode.add("late", times + 1, np.ones((5, 1), np.float32))
    options: dict[str, Any] = {
        "anchor": "action",
        "tolerance_s": 0.0,
        "max_gap_s": 0.0,
        "device": "cpu",
        "is_quiet": True,  # it is never valid
    }
    statistics = rc.compute_stats(keyed_loader(tmp_path / "s", 5, {"late": [0.0]}, **options))
    assert statistics["late"].count.tolist() == [0]
    message = (
        r"^statistics\['late'\]: expected some values, got a count of 0: there are no rows, or"
    )
    with pytest.raises(ValueError, match=message):
        keyed_loader(
            tmp_path / "s", 5, {"late": [0.0]}, **options,
            normalize={"late": "mean_std"}, statistics=statistics,
        )  # fmt: skip


def test_statistics_of_an_image_alone(store: rc.EpisodeStore) -> None:
    """They know that they are of a batch, whatever they are kept in."""
    options: dict[str, Any] = {
        "channels_first": True,
        "causal": False,
        "device": "cpu",
        "shuffle": False,
    }
    statistics = rc.compute_stats(keyed_loader(store, 4, {"camera": None}, **options))
    batches = [
        keyed_loader(
            store, 4, {"camera": None}, **options,
            normalize={"camera": "mean_std"}, statistics=given,
        ).next()
        for given in (statistics, {"camera": statistics["camera"]})
    ]  # fmt: skip
    assert torch.equal(batches[0]["camera"], batches[1]["camera"])
