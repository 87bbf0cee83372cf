"""rc.Normalizer and rc.compute_stats: forward and back, beside the loader, from files."""

from __future__ import annotations

import copy
import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loader_stores import write_store
from support import assert_near, assert_same_bits, find_backends

import robocache as rc
from robocache.store.quantiles import QUANTILES

HAS_GPU = any(backend.name == "cuda" for backend in find_backends()[0])
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not HAS_GPU, reason="no GPU here"))]
WINDOWS: dict[str, Any] = {
    "joints": [-0.02, 0.0], "action": [0.0, 0.02, 0.04], "state": None, "pose": [0.0],
}  # fmt: skip
MODES: dict[str, Any] = {"joints": "mean_std", "action": "min_max", "state": "quantiles"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("normalizer") / "store")


def make(store: rc.EpisodeStore, device: str = "cpu", **options: Any) -> rc.Loader:
    """Not causal: where no row has arrived a loader writes zeros, normalised or not."""
    given = {"delta_timestamps": WINDOWS, "anchor": "state", "shuffle": False, "causal": False}
    given |= options
    return rc.Loader(store, 32, device=device, **given)


# ---- beside the loader ---------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("preset", "modes"),
    [
        ("robocache", MODES),
        ("lerobot", MODES | {"joints": "quantile10"}),
        ("openpi", MODES | {"action": "quantiles"}),
        ("robomimic", MODES | {"state": "min_max"}),
        ("diffusion_policy", MODES | {"state": "mean_std"}),
    ],
)
def test_the_bits_of_the_loader(
    store: rc.EpisodeStore, device: str, preset: Any, modes: Any
) -> None:
    normalizer = rc.Normalizer.from_store(store, modes, preset=preset)
    plain = make(store, device).gather(range(40))
    fused = make(store, device, normalize=normalizer).gather(range(40))
    got = normalizer.forward(plain)
    assert list(got) == list(fused)
    for key, values in fused.items():
        assert got[key].device == values.device
        assert_same_bits(got[key].cpu(), values.cpu(), key)
    assert not torch.equal(got["action"], plain["action"])
    back = normalizer.inverse(got)
    for key in modes:
        assert_near(back[key].cpu(), plain[key].cpu(), 1e-5)


def test_modes_of_the_loader_are_a_preset(store: rc.EpisodeStore) -> None:
    by_mode = make(store, normalize=MODES)
    normalizer = rc.Normalizer.from_store(store, MODES)
    for key, scale in by_mode.normalization.items():
        for ours, theirs in zip(normalizer.normalization[key], scale, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_halves_are_rounded_once(store: rc.EpisodeStore) -> None:
    """Of a batch in half precision the loader has seen more than its after-the-fact normalizer."""
    normalizer = rc.Normalizer.from_store(store, {"action": "min_max"})
    plain = make(store).gather(range(40))["action"]
    for dtype in (torch.float16, torch.bfloat16):
        fused = make(store, normalize=normalizer, dtype={"action": dtype}).gather(range(40))
        assert_same_bits(normalizer.normalize("action", plain).to(dtype), fused["action"])
        got = normalizer.normalize("action", plain.to(dtype))
        assert got.dtype == dtype
        scale = normalizer.normalization["action"]
        wide = (plain.to(dtype).float() - torch.tensor(scale.subtract).float()) * torch.tensor(
            scale.multiply
        ).float()
        assert_same_bits(got, wide.to(dtype))


@pytest.mark.parametrize("device", DEVICES)
def test_float64_is_computed_in_float64(store: rc.EpisodeStore, device: str) -> None:
    normalizer = rc.Normalizer.from_store(store, {"force": "mean_std"})
    options: Any = {"delta_timestamps": {"force": [0.0]}, "anchor": "force"}
    plain = make(store, device, **options).gather(range(40))["force"]
    fused = make(store, device, normalize=normalizer, **options).gather(range(40))["force"]
    assert plain.dtype == torch.float64
    assert_same_bits(normalizer.normalize("force", plain).cpu(), fused.cpu())


@pytest.mark.parametrize("device", DEVICES)
def test_images(store: rc.EpisodeStore, device: str) -> None:
    """Channels first, from 0 to 1; the loader normalises their bytes in one rounding."""
    normalizer = rc.Normalizer.from_store(store, {"camera": "mean_std"}, preset="lerobot")
    assert normalizer.normalization["camera"].subtract.shape == (3, 1, 1)
    options: Any = {"delta_timestamps": {"camera": [0.0, 0.1]}, "anchor": "joints"}
    plain = make(store, device, images="float", **options).gather(range(40))["camera"]
    fused = make(store, device, images="float", normalize=normalizer, **options)
    got = normalizer.normalize("camera", plain)
    assert got.shape == (40, 2, 3, 4, 6)
    assert_near(got.cpu(), fused.gather(range(40))["camera"].cpu(), 1e-5)
    again = rc.Normalizer.from_loader(fused).normalization["camera"]
    for ours, theirs in zip(again, normalizer.normalization["camera"], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-14)


def test_from_a_loader_side_by_side(store: rc.EpisodeStore) -> None:
    options: Any = {"concat": {"obs": ["joints", "pose"]}}
    options["delta_timestamps"] = WINDOWS | {"joints": [0.0]}
    plain = make(store, **options).gather(range(40))
    fused = make(store, normalize={"joints": "min_max", "action": "mean_std"}, **options)
    normalizer = rc.Normalizer.from_loader(fused)
    assert sorted(normalizer.normalization) == ["action", "obs"]
    got, expected = normalizer.forward(plain), fused.gather(range(40))
    for key in ("obs", "action"):
        assert_same_bits(got[key], expected[key], key)
    with pytest.raises(ValueError, match="got a mixture"):
        rc.Normalizer.from_loader(rc.Loader.mixture([make(store)], [1], 8, 4))


def test_a_pickled_loader_keeps_it(store: rc.EpisodeStore) -> None:
    loader = make(store, normalize=rc.Normalizer.from_store(store, MODES), causal=True)
    again = pickle.loads(pickle.dumps(loader))
    assert_same_bits(again.gather([3])["action"], loader.gather([3])["action"])
    assert again.spec().streams[0].normalization is not None


# ---- tensors and arrays --------------------------------------------------------------------------


def simple() -> rc.Normalizer:
    return rc.Normalizer(
        {
            "a": rc.Normalization(np.array([1.0, 2.0]), np.array([0.5, 4.0])),
            "n": rc.Normalization(np.array([1.0]), np.array([2.0])),
            "i": rc.Normalization(np.ones((3, 1, 1)), np.full((3, 1, 1), 2.0)),
        }
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(2,), (5, 2), (4, 3, 2), (0, 2)])
def test_types_and_shapes(dtype: str, shape: tuple[int, ...]) -> None:
    x = torch.linspace(-3, 3, int(np.prod(shape))).reshape(shape).to(getattr(torch, dtype))
    compute = torch.float64 if dtype == "float64" else torch.float32
    expected = (x.to(compute) - torch.tensor([1, 2]).to(compute)) * torch.tensor([0.5, 4]).to(
        compute
    )
    got = simple().normalize("a", x)
    assert_same_bits(got, expected.to(x.dtype))
    assert_near(simple().unnormalize("a", got), x, 0.03 if "16" in dtype else 1e-6)
    if dtype != "bfloat16":
        array = simple().normalize("a", x.numpy())
        assert isinstance(array, np.ndarray)
        assert_same_bits(torch.from_numpy(array), got)


def test_numbers_and_images() -> None:
    for shape in [(), (4,), (4, 3)]:
        x = np.full(shape, 3, np.float32)
        got = simple().normalize("n", x)
        assert got.shape == shape and (got == 4).all()
    assert simple().normalize("i", torch.zeros(2, 5, 3, 4, 6)).unique().tolist() == [-2.0]


def test_gradients_flow_also_after_inference_mode() -> None:
    normalizer = simple()
    x = torch.zeros(3, 2, requires_grad=True)
    with torch.inference_mode():
        normalizer.normalize("a", torch.zeros(3, 2))
    normalizer.normalize("a", x).sum().backward()
    assert x.grad is not None and x.grad[0].tolist() == [0.5, 4.0]


def test_a_batch_keeps_what_is_not_normalised() -> None:
    batch = {"a": np.zeros((1, 2), np.float32), "task": ["push"], "a_is_pad": np.zeros(1, bool)}
    got = simple().forward(batch)
    assert list(got) == list(batch)
    assert got["task"] is batch["task"] and got["a_is_pad"] is batch["a_is_pad"]
    assert got["a"].tolist() == [[-0.5, -8.0]] and not batch["a"].any()


# ---- its state -----------------------------------------------------------------------------------


def test_state(store: rc.EpisodeStore) -> None:
    normalizer = rc.Normalizer.from_store(store, MODES | {"camera": "min_max"})
    file = io.BytesIO()
    torch.save(normalizer.state_dict(), file)
    file.seek(0)
    other = rc.Normalizer({})
    other.load_state_dict(torch.load(file, weights_only=True))
    for got in (other, copy.deepcopy(normalizer), pickle.loads(pickle.dumps(normalizer))):
        assert list(got.normalization) == list(normalizer.normalization)
        for key, scale in normalizer.normalization.items():
            for ours, theirs in zip(got.normalization[key], scale, strict=True):
                assert ours.shape == theirs.shape
                np.testing.assert_array_equal(ours, theirs)
    assert repr(other) == "Normalizer(joints, action, state, camera)"


# ---- statistics of windows -----------------------------------------------------------------------


def of_windows(values: torch.Tensor, is_pad: torch.Tensor) -> np.ndarray:
    kept: np.ndarray = values[~is_pad].double().numpy()
    return kept


@pytest.mark.parametrize("device", DEVICES)
def test_statistics_of_windows(store: rc.EpisodeStore, device: str) -> None:
    """Those of all steps that are not padded, gathered at once; the loader is left where it was."""
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


def test_statistics_normalise(store: rc.EpisodeStore) -> None:
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


@pytest.mark.parametrize("images", ["stored", "float"])
def test_statistics_of_images(store: rc.EpisodeStore, images: Any) -> None:
    options: Any = {"delta_timestamps": {"camera": [0.0]}, "anchor": "joints"}
    found = rc.compute_stats(make(store, images=images, **options))["camera"]
    batch = make(store, **options).gather(range(len(make(store, **options).dataset)))
    pixels = of_windows(batch["camera"], batch["camera_is_pad"]).reshape(-1, 3) / 255
    np.testing.assert_allclose(found.mean, pixels.mean(0), rtol=1e-6)
    np.testing.assert_allclose(found.std, pixels.std(0), rtol=1e-6)
    normal = make(
        store, images="float", normalize={"camera": "mean_std"}, statistics=rc.WindowStatistics(
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
    """They are of what is left when the reference is subtracted, and normalise that."""
    options: Any = {
        "delta_timestamps": {"state": None, "action": [0.0, 0.02, 0.04]},
        "relative": {"action": rc.Relative("state", channels=[0, 1, 2, None, None])},
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
        "delta_timestamps": {"camera": [0.0]}, "anchor": "joints", "images": "float"
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
    more = rc.compute_stats(loader, batches=2 * len(loader))  # two epochs
    assert more["action"].count[0] == 2 * all_of_them["action"].count[0]


# ---- files ---------------------------------------------------------------------------------------

LEROBOT = {
    "action": {"min": [-1.0, 0.0], "max": [1.0, 4.0], "mean": [0.25, 2.0], "std": [0.5, 1.0],
               "q01": [-0.9, 0.1], "q99": [0.9, 3.9], "q25": [0.0, 1.0], "count": [100]},
    "observation.images.top": {"mean": [[[0.5]], [[0.4]], [[0.3]]],
                               "std": [[[0.2]], [[0.2]], [[0.1]]], "count": [100]},
    "timestamp": {"min": [0.0], "max": [9.9], "mean": [5.0], "std": [2.9], "count": [100]},
}  # fmt: skip
OPENPI = {
    "norm_stats": {
        "state": {"mean": [0.0, 1.0], "std": [1.0, 2.0], "q01": None, "q99": None},
        "actions": {"mean": [0.5], "std": [0.25], "q01": [0.0], "q99": [1.0]},
    }
}


def test_a_lerobot_file(tmp_path: Path) -> None:
    (tmp_path / "meta").mkdir()
    file = tmp_path / "meta" / "stats.json"
    file.write_text(json.dumps(LEROBOT))
    modes: Any = {"action": "quantiles", "observation.images.top": "mean_std"}
    modes["timestamp"] = "min_max"
    for path in (file, tmp_path, str(tmp_path / "meta")):
        normalizer = rc.Normalizer.from_file(path, modes)
        pictures = normalizer.normalize("observation.images.top", np.ones((2, 3, 4, 4), np.float32))
        np.testing.assert_allclose(pictures[0, :, 0, 0], [2.5, 3, 7], rtol=1e-6)
        action = normalizer.normalize("action", torch.tensor([[-0.9, 3.9]]))
        np.testing.assert_allclose(action, [[-1, 1]], atol=1e-6)
        assert normalizer.normalize("timestamp", torch.tensor([9.9])).item() == pytest.approx(1)
    openpi = rc.Normalizer.from_file(file, {"action": "mean_std"}, preset="openpi")
    assert openpi.normalization["action"].multiply[0] == 1 / (0.5 + 1e-6)


def test_an_openpi_file(tmp_path: Path) -> None:
    (tmp_path / "norm_stats.json").write_text(json.dumps(OPENPI))
    normalizer = rc.Normalizer.from_file(tmp_path, {"state": "mean_std", "actions": "quantiles"})
    assert normalizer.normalization["state"].multiply.tolist() == [1 / (1 + 1e-6), 1 / (2 + 1e-6)]
    np.testing.assert_allclose(
        normalizer.normalize("actions", np.array([0.0, 1.0])), [-1, 1], atol=2.1e-6
    )


def test_the_episodes_of_a_lerobot_file(tmp_path: Path) -> None:
    """v2.1 has statistics of each episode: together those of all rows."""
    random = np.random.default_rng(0)
    parts = [random.normal(e, 1 + e, (10 + 7 * e, 3)) for e in range(4)]
    lines = [
        {"episode_index": e, "stats": {"action": {
            "min": rows.min(0).tolist(), "max": rows.max(0).tolist(),
            "mean": rows.mean(0).tolist(), "std": rows.std(0).tolist(), "count": [len(rows)]}}}
        for e, rows in enumerate(parts)
    ]  # fmt: skip
    file = tmp_path / "episodes_stats.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    rows = np.concatenate(parts)
    scale = rc.Normalizer.from_file(file, {"action": "mean_std"}).normalization["action"]
    np.testing.assert_allclose(scale.subtract, rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(scale.multiply, 1 / (rows.std(0) + 1e-8), rtol=1e-12)
    scale = rc.Normalizer.from_file(file, {"action": "min_max"}).normalization["action"]
    np.testing.assert_allclose(scale.subtract, (rows.min(0) + rows.max(0)) / 2, rtol=1e-12)
    with pytest.raises(ValueError, match="expected q01 and q99 for mode quantiles, got mean, std"):
        rc.Normalizer.from_file(file, {"action": "quantiles"})


def test_a_real_lerobot_data_set() -> None:
    root = Path(__file__).parents[3] / "shared" / "data" / "lerobot_v21_g1"
    if not root.is_dir():
        pytest.skip(f"{root} is not there")
    normalizer = rc.Normalizer.from_file(root, {"action": "min_max"})
    assert normalizer.normalization["action"].subtract.shape == (26,)


def test_statistics_of_lerobot_for_a_store_of_it(store: rc.EpisodeStore) -> None:
    """By LeRobot's own words a loader of a store gets LeRobot's picture: from 0 to 1."""
    statistics: Any = {"camera": LEROBOT["observation.images.top"]}
    normalizer = rc.Normalizer.from_statistics(statistics, {"camera": "mean_std"}, preset="lerobot")
    options: Any = {"delta_timestamps": {"camera": [0.0]}, "anchor": "joints", "images": "float"}
    plain = make(store, **options).gather(range(40))["camera"]
    fused = make(store, normalize=normalizer, **options).gather(range(40))["camera"]
    assert_near(normalizer.normalize("camera", plain), fused, 1e-5)


# ---- bad input -----------------------------------------------------------------------------------

ONES = np.ones(2)


@pytest.mark.parametrize(
    ("make_it", "kind", "message"),
    [
        (lambda: rc.Normalizer([1]), TypeError,  # type: ignore[arg-type]
         "normalization: expected a Normalization for each key, got list"),
        (lambda: rc.Normalizer({"a": (0, 1)}), TypeError,  # type: ignore[dict-item]
         "normalization['a']: expected a Normalization, got tuple"),
        (lambda: rc.Normalizer({"a": rc.Normalization(ONES, np.ones(3))}), ValueError,
         "normalization['a']: expected as many numbers to multiply with as to subtract, got [3] "
         "and [2]"),
        (lambda: rc.Normalizer({"a": rc.Normalization(ONES, np.array([1, np.nan]))}), ValueError,
         "normalization['a'].multiply: expected finite numbers, got nan of channel 1"),
        (lambda: rc.Normalizer({"a": rc.Normalization(ONES, np.array([1.0, 0.0]))}), ValueError,
         "normalization['a'].multiply: expected numbers other than 0, which has no inverse"),
        (lambda: simple().normalize("b", ONES), ValueError, "key: expected a, n, i, got 'b'"),
        (lambda: simple().normalize("a", [1.0, 2.0]), TypeError,
         "a: expected a tensor or a NumPy array, got list"),
        (lambda: simple().normalize("a", torch.ones(2, dtype=torch.uint8)), TypeError,
         "a: expected floats, got uint8"),
        (lambda: simple().normalize("a", np.ones(2, np.int64)), TypeError,
         "a: expected floats, got int64"),
        (lambda: simple().normalize("a", torch.ones(4, 3)), ValueError,
         "a: expected [...,2], got [4, 3]"),
        (lambda: simple().normalize("i", torch.ones(2, 4, 6, 3)), ValueError,
         "i: expected [...,3,*,*], got [2, 4, 6, 3]"),
        (lambda: simple().forward([1]), TypeError,  # type: ignore[arg-type]
         "batch: expected a mapping of tensors or arrays, got list"),
        (lambda: simple().forward({"b": ONES}), ValueError,
         "batch: expected at least one of a, n, i, got b"),
        (lambda: simple().load_state_dict({"a.scale": ONES}), ValueError,
         "state: expected names that end in .subtract or .multiply, got 'a.scale'"),
        (lambda: simple().load_state_dict({"a.subtract": ONES}), ValueError,
         "state: expected a.subtract and a.multiply, got a.subtract alone"),
        (lambda: rc.Normalizer.from_statistics({}, {"a": "min_max"}), ValueError,
         "modes: expected none, got 'a'"),
        (lambda: rc.Normalizer.from_statistics({"a": {"mean": [0.0], "std": [1.0]}},
                                               {"a": "min_max"}), ValueError,
         "statistics['a']: expected min and max for mode min_max, got mean, std"),
        (lambda: rc.Normalizer.from_statistics({"a": {"mean": [0.0], "std": [1.0]}},
                                               {"a": "mean_std"}, preset="diffusion_policy"),
         ValueError,
         "normalize['a']: statistics.count: expected one (the deviation of preset diffusion_policy "
         "is that of a sample), got none"),
        (lambda: rc.Normalizer.from_statistics({"a": {}}, "min_max"),  # type: ignore[arg-type]
         TypeError, "modes: expected a mode for each key, as in {'action': 'min_max'}, got "
         "'min_max'"),
    ],
)  # fmt: skip
def test_errors(make_it: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as error:
        make_it()
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"statistics": {}}, ValueError,
         "statistics: expected None where normalize is a Normalizer, which has its numbers, got "
         "dict"),
        ({"delta_timestamps": {"joints": [0.0]}, "anchor": "joints"}, ValueError,
         "normalize: expected joints, got 'action'"),
    ],
)  # fmt: skip
def test_errors_of_the_loader(
    store: rc.EpisodeStore, options: Any, kind: type[Exception], message: str
) -> None:
    normalizer = rc.Normalizer.from_store(store, {"action": "min_max"})
    with pytest.raises(kind) as error:
        make(store, normalize=normalizer, **options)
    assert str(error.value) == message
    with pytest.raises(TypeError, match=r"got Normalizer \(normalize= takes it\)"):
        make(store, normalize={"action": "min_max"}, statistics=normalizer)


def test_errors_of_from_store(store: rc.EpisodeStore) -> None:
    for modes, message in (
        ({"force": "max"}, "modes['force']: expected mean_std, min_max, quantiles, quantile10 or "
                           "identity, got 'max'"),
        ({"hand": "min_max"}, f"modes: expected {', '.join(store.streams)}, got 'hand'"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r".") as error:
            rc.Normalizer.from_store(store, modes)  # type: ignore[arg-type]
        assert str(error.value) == message


def test_errors_of_compute_stats(store: rc.EpisodeStore) -> None:
    two = make(store, rank=0, world_size=2)
    for loader, options, kind, message in (
        (3, {}, TypeError, "loader: expected a rc.Loader, got int"),
        (make(store, normalize={"action": "min_max"}), {}, ValueError,
         "loader: expected one without normalize (statistics are of what that takes), got one that "
         "normalises action"),
        (two, {}, ValueError,
         "loader: expected one of all samples (rank=0, world_size=1), got one of 2 ranks"),
        (rc.Loader.mixture([make(store)], [1], 8, 4), {}, ValueError,
         "loader: expected one of one store (each of a mixture's), got a mixture"),
        (make(store), {"batches": 0}, ValueError, "batches: expected 1 or more, got 0"),
    ):  # fmt: skip
        with pytest.raises(kind) as error:
            rc.compute_stats(loader, **options)  # type: ignore[arg-type]
        assert str(error.value) == message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "expected JSON, got "),
        ("[1]", "expected statistics of LeRobot (of each feature mean, std, min, max) or openpi "
                "(norm_stats), got list of another form"),
        ('{"a": {"scale": [1]}}', "expected one of mean, std, min, max, q01, q10, q50, q90, q99 of "
                                  "a feature, got none"),
    ],
)  # fmt: skip
def test_foreign_files(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "stats.json"
    file.write_text(content)
    with pytest.raises(ValueError, match=r".") as error:
        rc.Normalizer.from_file(file, {})
    assert str(error.value).startswith(f"{file}: {message}")


def test_files_of_episodes_that_lack_something(tmp_path: Path) -> None:
    file = tmp_path / "episodes_stats.jsonl"
    for line, message in (
        ('{"episode_index": 0}', "line 1: expected the stats of an episode"),
        ('{"stats": {"a": {"mean": [0]}}}', "line 1: a: expected mean, std, min, max, count, got "
                                            "no std"),
        ("", "expected the statistics of at least 1 episode, got none"),
    ):  # fmt: skip
        file.write_text(line)
        with pytest.raises(ValueError, match=r".") as error:
            rc.Normalizer.from_file(tmp_path, {})
        assert str(error.value).startswith(f"{file}: {message}")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(FileNotFoundError, match=r"expected one of meta/stats\.json"):
        rc.Normalizer.from_file(empty, {})
