"""Batches of the loader: shapes, types and keys, values against the plain reference, buffers."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import loader_reference as plain
import numpy as np
import pytest
import torch
from loader_options import keyed_loader
from loader_reference import Window
from loader_stores import MS, write_store
from loader_windows import FUTURE, PAST, check, ns, scale_of, to_cpu
from support import assert_near, assert_same_bits, needs_gpu

import robocache as rc


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("loader") / "store")


# ---- the batch -----------------------------------------------------------------------------------


def test_shapes_types_and_order_of_keys(store: rc.EpisodeStore, device: str) -> None:
    loader = rc.Loader(
        store,
        4,
        {"joints": [0.0, 0.01], "gripper": None, "counter": [0.0], "camera": [0.0, 0.1, 0.2]},
        device=device,
        with_age=True,
    )
    batch = next(iter(loader))
    got = {key: (tuple(x.shape), x.dtype) for key, x in batch.items()}
    assert list(got.items()) == [
        ("joints", ((4, 2, 7), torch.float32)),
        ("gripper", ((4,), torch.bool)),
        ("counter", ((4, 1, 2), torch.int64)),
        ("camera", ((4, 3, 4, 6, 3), torch.uint8)),
        ("joints_is_pad", ((4, 2), torch.bool)),
        ("gripper_is_pad", ((4,), torch.bool)),
        ("counter_is_pad", ((4, 1), torch.bool)),
        ("camera_is_pad", ((4, 3), torch.bool)),
        ("joints_age", ((4, 2), torch.int64)),
        ("gripper_age", ((4,), torch.int64)),
        ("counter_age", ((4, 1), torch.int64)),
        ("camera_age", ((4, 3), torch.int64)),
        ("index", ((4,), torch.int64)),
        ("episode_index", ((4,), torch.int64)),
        ("frame_index", ((4,), torch.int64)),
        ("task_index", ((4,), torch.int64)),
        ("timestamp_ns", ((4,), torch.int64)),
        ("timestamp", ((4,), torch.float32)),
    ]
    assert all(x.device.type == device and x.is_contiguous() for x in batch.values())


def test_metadata(store: rc.EpisodeStore, device: str) -> None:
    loader = rc.Loader(store, 8, {"joints": [0.0]}, episodes=[3, 1, 4], device=device)
    anchors = plain.row_anchors(store, "joints", [1, 3, 4])
    indices = [len(anchors) - 1, 0, 7, 7, len(store[1]["joints"]), 3]
    batch = to_cpu(loader.gather(indices))
    chosen = [anchors[i] for i in indices]
    seconds = [float(a.time - store[a.episode].start_ns) * 1e-9 for a in chosen]
    assert batch["index"].tolist() == indices
    assert batch["episode_index"].tolist() == [a.episode for a in chosen]
    assert batch["frame_index"].tolist() == [a.frame for a in chosen]
    assert batch["timestamp_ns"].tolist() == [a.time for a in chosen]
    assert batch["task_index"].tolist() == [
        store.tasks.index(store[a.episode].task or "") for a in chosen
    ]
    assert_same_bits(batch["timestamp"], torch.tensor(seconds, dtype=torch.float64).float())


def test_streams_in_the_place_of_metadata(tmp_path: Path, device: str) -> None:
    """All of them: no tensor of the batch has the memory that metadata would be written to."""
    names = ("index", "episode_index", "frame_index", "task_index", "timestamp_ns", "timestamp")
    with rc.StoreWriter(tmp_path / "store") as writer, writer.episode() as episode:
        for number, name in enumerate(names):
            rows = np.arange(5, dtype=np.float32) + 10 * number
            episode.add(name, np.arange(5) * 20 * MS, rows)
    loader = rc.Loader(tmp_path / "store", 5, shuffle=False, device=device)
    for _ in range(3):
        batch = loader.next()
        metadata = loader._outputs._spare[-1].metadata
        assert not any(getattr(metadata, name) for name in names)
        for number, name in enumerate(names):
            assert batch[name].tolist() == [10 * number + row for row in range(5)]


def test_without_offsets_every_stream_is_there(store: rc.EpisodeStore, device: str) -> None:
    loader = keyed_loader(store, 8, anchor="joints", timeline="time", device=device)
    batch = loader.next()
    assert set(store.streams) <= set(batch)
    assert batch["pose"].shape == (8, 4) and batch["pose_is_pad"].shape == (8,)


def test_one_sample(store: rc.EpisodeStore, device: str) -> None:
    loader = rc.Loader(store, 8, {"joints": PAST}, device=device)
    sample, batch = loader.dataset[-1], loader.gather([len(loader.dataset) - 1])
    assert list(sample) == list(batch)
    for key, value in sample.items():
        assert_same_bits(value.cpu(), batch[key][0].cpu(), key)
    with pytest.raises(IndexError, match="sample: expected below"):
        loader.dataset[len(loader.dataset)]


def test_gather_takes_any_integers(store: rc.EpisodeStore, device: str) -> None:
    loader = rc.Loader(store, 8, {"joints": PAST}, device=device)
    expected = to_cpu(loader.gather([3, 1, 2]))
    for indices in (
        np.array([3, 1, 2], np.uint16),
        np.array([3, 9, 1, 9, 2])[::2],
        torch.tensor([3, 1, 2], dtype=torch.int32),
        torch.tensor([3, 1, 2], device=device),
        (3, 1, 2),
    ):
        got = to_cpu(loader.gather(indices))
        for key in expected:
            assert_same_bits(got[key], expected[key], key)
    empty = loader.gather([])
    assert empty["joints"].shape == (0, 3, 7) and empty["index"].shape == (0,)


@needs_gpu
def test_the_gpu_marks_indices_out_of_range(store: rc.EpisodeStore) -> None:
    loader = rc.Loader(store, 8, {"joints": PAST}, device="cuda")
    batch = loader.gather(torch.tensor([0, -1, len(loader.dataset)], device="cuda"))
    assert batch["index"].tolist() == [0, -1, -1]
    assert not batch["joints"][1:].any() and batch["joints_is_pad"][1:].all()


# ---- types, scales, side by side -----------------------------------------------------------------


@pytest.mark.parametrize("mode", ["mean_std", "min_max", "quantiles", "quantile10"])
def test_normalized(store: rc.EpisodeStore, device: str, mode: Any) -> None:
    loader = keyed_loader(
        store,
        8,
        {"joints": FUTURE, "action": [0.0]},
        timeline="time",
        normalize={"joints": mode, "action": "identity"},
        device=device,
    )
    windows = {
        "joints": Window("joints", ns(FUTURE), **scale_of(store, "joints", mode)),
        "action": Window("action", [0]),
    }
    check(store, loader, windows, plain.row_anchors(store, "joints"))
    scale = loader.normalization["joints"]
    np.testing.assert_array_equal(scale.multiply, windows["joints"].multiply)


def test_normalized_by_rows_to_half(store: rc.EpisodeStore, device: str) -> None:
    loader = keyed_loader(
        store, 8, {"action": [0.0, 0.02]}, normalize={"action": "min_max"},
        dtype=torch.bfloat16, device=device,
    )  # fmt: skip
    window = Window("action", [0, 1], by_rows=True, dtype=torch.bfloat16,
                    **scale_of(store, "action", "min_max"))  # fmt: skip
    check(store, loader, {"action": window}, plain.row_anchors(store, "action"))


def test_given_statistics(store: rc.EpisodeStore, device: str) -> None:
    lerobot = {"mean": np.arange(7.0), "std": np.full(7, 2.0)}
    loader = rc.Loader(
        store, 8, {"joints": [0.0]}, normalize={"joints": "mean_std"},
        statistics={"joints": lerobot}, device=device,
    )  # fmt: skip
    window = Window("joints", [0], subtract=np.arange(7.0), multiply=np.full(7, 1 / (2 + 1e-8)))
    check(store, loader, {"joints": window}, plain.row_anchors(store, "joints"))


def test_a_given_deviation_of_0(store: rc.EpisodeStore) -> None:
    """Whoever gives no range too says so that the channel has no spread: it is not scaled."""
    given = {"mean": np.arange(7.0), "std": np.array([0.0] + [1.0] * 6), "count": [5]}
    loader = rc.Loader(
        store, 8, {"joints": [0.0]}, normalize={"joints": "mean_std"},
        statistics={"joints": given}, device="cpu",
    )  # fmt: skip
    subtract, multiply = loader.normalization["joints"]
    assert subtract.tolist() == list(range(7))
    assert multiply.tolist() == [1.0] + [1 / (1 + 1e-8)] * 6


def test_images_as_floats(store: rc.EpisodeStore, device: str) -> None:
    stored = rc.Loader(store, 8, {"camera": FUTURE[:3]}, anchor="joints", device=device)
    floats = keyed_loader(
        store, 8, {"camera": FUTURE[:3]}, anchor="joints", channels_first=True, device=device
    )
    indices = range(0, len(stored.dataset), 3)
    bytes_ = stored.gather(indices)["camera"].cpu()  # [B,K,H,W,C]
    got = floats.gather(indices)["camera"].cpu()
    assert_same_bits(got, (bytes_.float() / 255).permute(0, 1, 4, 2, 3).contiguous())


def test_normalized_images(store: rc.EpisodeStore, device: str) -> None:
    options: dict[str, Any] = {"delta_timestamps": {"camera": [0.0]}, "device": device}
    stored = keyed_loader(store, 8, **options)
    floats = keyed_loader(
        store, 8, channels_first=True, normalize={"camera": "mean_std"}, **options
    )
    bytes_ = stored.gather(range(40))["camera"].cpu().double()
    scale = [torch.from_numpy(x) for x in rc.normalization(store.statistics["camera"], "mean_std")]
    expected = ((bytes_ - scale[0]) * scale[1]).permute(0, 1, 4, 2, 3).float()
    expected[~bytes_.any(-1).any(-1).any(-1).any(-1)] = 0  # nothing had arrived
    assert_near(floats.gather(range(40))["camera"].cpu(), expected, 1e-6)


def test_normalized_images_as_stored(store: rc.EpisodeStore, device: str) -> None:
    loader = keyed_loader(
        store, 8, {"camera": [0.0, 0.1]}, normalize={"camera": "min_max"}, dtype=torch.float32,
        device=device,
    )  # fmt: skip
    scale = rc.normalization(store.statistics["camera"], "min_max")
    of_pixels = {"subtract": np.tile(scale.subtract, 24), "multiply": np.tile(scale.multiply, 24)}
    window = Window("camera", [0, 100 * MS], dtype=torch.float32, **of_pixels)
    check(store, loader, {"camera": window}, plain.row_anchors(store, "camera"))


def test_side_by_side(store: rc.EpisodeStore, device: str) -> None:
    deltas = {"joints": PAST, "force": PAST, "pose": PAST, "action": [0.0]}
    options: dict[str, Any] = {"timeline": "time", "device": device, "dtype": torch.float32}
    apart = keyed_loader(store, 8, deltas, **options)
    together = keyed_loader(
        store, 8, deltas, concat={"obs": ["pose", "joints", "force"]}, **options
    )
    indices = range(0, len(apart.dataset), 2)
    a, b = to_cpu(apart.gather(indices)), to_cpu(together.gather(indices))
    assert_same_bits(b["obs"], torch.cat([a["pose"], a["joints"], a["force"]], -1))
    assert set(a) - set(b) == {"joints", "force", "pose"}
    for key in set(a) & set(b):
        assert_same_bits(a[key], b[key], key)


def test_integers_side_by_side(store: rc.EpisodeStore, device: str) -> None:
    deltas = {"counter": [0.0, 0.1]}
    one = rc.Loader(store, 8, deltas, device=device).gather([5, 0])["counter"]
    two = rc.Loader(store, 8, deltas, concat={"c": ["counter"]}, device=device).gather([5, 0])["c"]
    assert_same_bits(one.cpu(), two.cpu())


# ---- buffers and transforms ----------------------------------------------------------------------


def test_batches_are_safe_to_keep_or_overwritten(store: rc.EpisodeStore, device: str) -> None:
    kept = list(rc.Loader(store, 16, {"joints": PAST}, device=device))
    again = rc.Loader(store, 16, {"joints": PAST}, device=device, reuse_buffers=True)
    addresses = set()
    for batch, other in zip(kept, again, strict=True):
        assert_same_bits(other["joints"].cpu(), batch["joints"].cpu())
        if len(other["joints"]) == 16:
            addresses.add(other["joints"].data_ptr())
    assert len(addresses) == 1


def test_the_one_batch_of_an_epoch_is_overwritten(store: rc.EpisodeStore) -> None:
    count = len(rc.Loader(store, 1, {"joints": PAST}, device="cpu").dataset)
    loader = rc.Loader(store, count, {"joints": PAST}, device="cpu", reuse_buffers=True)
    first = loader.next()
    loader.load_state_dict(loader.state_dict() | {"position": 2})
    rest, again = loader.next(), loader.next()
    assert [len(batch["joints"]) for batch in (first, rest, again)] == [count, count - 2, count]
    assert again["joints"].data_ptr() == first["joints"].data_ptr() != rest["joints"].data_ptr()


def add_noise(batch: Any, generator: torch.Generator) -> Any:
    noise = torch.rand(batch["joints"].shape, generator=generator, device=generator.device)
    return {**batch, "noisy": batch["joints"] + noise}


def test_samples_to_look_at_are_copies(store: rc.EpisodeStore, device: str) -> None:
    loader = rc.Loader(store, 1, {"joints": [0.0]}, reuse_buffers=True, device=device)
    assert [int(sample["index"]) for sample in list(loader.dataset)[:3]] == [0, 1, 2]


def test_transforms_are_seeded_by_position(store: rc.EpisodeStore, device: str) -> None:
    options: dict[str, Any] = {"transforms": [add_noise], "device": device}
    loader = keyed_loader(store, 16, {"joints": PAST}, **options)
    batches = [batch["noisy"].cpu() for batch in loader]
    other = keyed_loader(store, 16, {"joints": PAST}, **options)
    for _ in range(2):
        other.next()
    resumed = keyed_loader(store, 16, {"joints": PAST}, **options)
    resumed.load_state_dict(other.state_dict())
    assert_same_bits(resumed.next()["noisy"].cpu(), batches[2])
    assert not torch.equal(batches[0], batches[1])
    assert "noisy" not in loader.gather([0])


def test_stats(store: rc.EpisodeStore, device: str) -> None:
    loader = rc.Loader(store, 16, {"joints": PAST}, device=device)
    before = rc.metrics().calls.get("Loader.next", {}).get(device, 0)
    batches = list(loader)
    loader.gather([1, 2])
    stats = loader.stats()
    assert (stats.batches, stats.samples, stats.gathered) == (len(batches), len(loader.dataset), 2)
    sample = sum(value[:1].nbytes for value in batches[0].values())
    made = len(loader.dataset) + 2
    assert stats.bytes == sample * made
    joints, tier = store.streams["joints"], "gpu" if device == "cuda" else "ram"
    assert stats.resident_bytes[tier] >= joints.rows * (joints.row_bytes + 9)
    assert stats.read_bytes == {tier: made * len(PAST) * joints.row_bytes}
    assert stats.hit_shares == {tier: 1.0}
    assert (stats.waits, stats.waited_s, stats.wait_p50_s, stats.wait_p99_s) == (0, 0, 0, 0)
    assert stats.queue_depth == 0
    assert rc.metrics().calls["Loader.next"][device] - before == len(batches)


def test_metrics_of_loaders(store: rc.EpisodeStore) -> None:
    """Loaders of one name are summed; their counts stay after they are gone."""
    one = rc.Loader(store, 16, {"joints": PAST}, device="cpu", name="of test_metrics")
    two = rc.Loader(store, 8, {"action": [0.0]}, device="cpu", name="of test_metrics")
    one.next(), two.next(), two.gather([0])
    both = rc.metrics().loaders[one.name]
    assert (both.batches, both.samples, both.gathered) == (2, 24, 1)
    for part in ("bytes", "read_bytes", "resident_bytes"):
        parts = [getattr(loader.stats(), part) for loader in (one, two)]
        total = sum(parts) if part == "bytes" else {"ram": sum(p["ram"] for p in parts)}
        assert getattr(both, part) == total
    left = one.stats()
    del two
    after = rc.metrics().loaders[one.name]
    assert (after.batches, after.samples, after.bytes) == (2, 24, both.bytes)
    assert after.resident_bytes == left.resident_bytes
    assert rc.Loader(store, 16, {"joints": PAST}, device="cpu").name == Path(store.path).name
    with pytest.raises(TypeError, match=r"^name: expected a str, got int$"):
        rc.Loader(store, 16, {"joints": PAST}, device="cpu", name=3)  # type: ignore[arg-type]


def test_latency_is_the_least_that_arrivals_take(tmp_path: Path) -> None:
    """An episode without arrivals gets its times for them, beside one that has them."""
    times = np.arange(5) * 10_000_000
    with rc.StoreWriter(tmp_path / "s") as writer:
        for late in (None, 2_000_000):
            with writer.episode() as episode:
                received = None if late is None else times + late
                episode.add("x", times, np.arange(5, dtype=np.float32), received=received)
    loader = keyed_loader(tmp_path / "s", 10, {"x": [0.0]}, latency_s=0.025, device="cpu")
    seen = loader.gather(range(10))["x"][:, 0].reshape(2, 5)
    assert seen.tolist() == [[0, 0, 0, 0, 1], [0, 0, 0, 0, 1]]


def test_a_path_is_a_store(store: rc.EpisodeStore) -> None:
    loader = rc.Loader(Path(store.path), 4, {"joints": [0.0]}, device="cpu")
    assert loader.store.path == store.path
    assert repr(loader).startswith("Loader(")


def test_memory_is_free_when_nobody_has_the_loader(store: rc.EpisodeStore, device: str) -> None:
    loader = rc.Loader(store, 4, {"joints": [0.0]}, device=device)
    assert len(loader.dataset) > 0
    next(iter(loader))
    there = weakref.ref(loader)
    gc.disable()  # which would find cycles
    try:
        del loader
        assert there() is None
    finally:
        gc.enable()
