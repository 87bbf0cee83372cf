"""Mixtures of loaders against the plain reference: what samples are made of."""

from __future__ import annotations

import gc
import json
import weakref
from fractions import Fraction
from itertools import islice
from typing import Any

import loader_reference as plain
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loader_mixtures import KEYS, arm, check, counts, humanoid, mix, part_of_arm, part_of_humanoid
from loader_options import keyed_loader
from loader_reference import Part, Window
from loader_stores import MS, write_humanoid, write_store
from support import assert_same_bits, needs_gpu

import robocache as rc


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[rc.EpisodeStore, rc.EpisodeStore]:
    folder = tmp_path_factory.mktemp("mixture")
    return write_store(folder / "arm", episodes=3, seed=1), write_humanoid(folder / "humanoid")


# ---- what samples are made of --------------------------------------------------------------------


def test_samples_are_the_references(stores: Any, device: str) -> None:
    mixture = mix(stores, device)
    parts = [part_of_arm(stores[0]), part_of_humanoid(stores[1])]
    assert counts(mixture) == [len(part.anchors) for part in parts]
    chosen = np.random.default_rng(0).permutation(len(mixture.dataset)).tolist()
    check(mixture.gather(chosen), plain.mixed(parts, chosen))


def test_three_loaders_of_two_stores(stores: Any, device: str) -> None:
    """Keys are missing in the first, the middle and the last loader; two share a store."""
    mixture = rc.Loader.mixture(
        [
            rc.Loader(stores[1], 4, {"action": None}, episodes=[1], device=device),
            arm(stores[0], device, with_age=False),
            humanoid(stores[1], device, with_age=False),
        ],
        [3, 1, 0],
        200,
        32,
        keys=[{"action": "act"}, {"camera": "front"}, {"qpos": "joints"}],
        seed=8,
    )
    first = Part(
        stores[1],
        {"act": Window("action", [0], by_rows=True)},
        plain.row_anchors(stores[1], "action", [1]),
    )
    second = part_of_arm(stores[0])
    second.windows["front"] = second.windows.pop("camera")
    parts = [first, second, part_of_humanoid(stores[1])]
    drawing = plain.Mixture([Fraction(3), Fraction(1), Fraction(0)], counts(mixture))
    for drawn in islice(plain.draw(200, 32, seed=8, mixture=drawing), len(mixture)):
        expected = plain.mixed(parts, drawn.indices)
        check(mixture.next(), {k: v for k, v in expected.items() if not k.endswith("_age")})
    last = list(mixture.parts[2].indices)[-20:]  # of no weight, and there all the same
    expected = plain.mixed(parts, last)
    check(mixture.gather(last), {k: v for k, v in expected.items() if not k.endswith("_age")})


def test_keys_shapes_and_types(stores: Any, device: str) -> None:
    batch = mix(stores, device).next()
    got = {key: (tuple(x.shape), x.dtype) for key, x in batch.items() if not key.endswith("_age")}
    assert list(got.items()) == [
        ("joints", ((8, 2, 7), torch.float32)),
        ("action", ((8, 3, 9), torch.float32)),
        ("camera", ((8, 1, 4, 6, 3), torch.uint8)),
        ("counter", ((8, 3), torch.int64)),
        ("gripper", ((8, 1), torch.bool)),
        ("joints_dim_is_pad", ((8, 7), torch.bool)),
        ("action_dim_is_pad", ((8, 9), torch.bool)),
        ("counter_dim_is_pad", ((8, 3), torch.bool)),
        ("joints_is_pad", ((8, 2), torch.bool)),
        ("action_is_pad", ((8, 3), torch.bool)),
        ("camera_is_pad", ((8, 1), torch.bool)),
        ("counter_is_pad", ((8,), torch.bool)),
        ("gripper_is_pad", ((8, 1), torch.bool)),
        ("index", ((8,), torch.int64)),
        ("episode_index", ((8,), torch.int64)),
        ("frame_index", ((8,), torch.int64)),
        ("task_index", ((8,), torch.int64)),
        ("timestamp_ns", ((8,), torch.int64)),
        ("dataset_index", ((8,), torch.int64)),
        ("timestamp", ((8,), torch.float32)),
    ]
    assert all(x.device.type == device and x.is_contiguous() for x in batch.values())


def test_one_loader_is_itself(stores: Any, device: str) -> None:
    loader = arm(stores[0], device)
    mixture = rc.Loader.mixture([loader], [0.1], 10, 4)
    expected, got = loader.gather(range(20)), mixture.gather(range(20))
    for key, values in expected.items():
        assert_same_bits(got[key].cpu(), values.cpu(), key)
    assert set(got) - set(expected) == {"dataset_index"}


def test_pictures_as_floats(stores: Any, device: str) -> None:
    """Colors first, beside a loader that has no pictures."""
    loaders = [
        keyed_loader(stores[0], 4, {"camera": [0.0], "action": None}, anchor="action",
                  channels_first=True, device=device),
        rc.Loader(stores[1], 4, {"action": None}, device=device),
    ]  # fmt: skip
    mixture = rc.Loader.mixture(loaders, [1, 1], 10, 4)
    n = len(loaders[0].dataset)
    got = mixture.gather(range(n + 5))["camera"].cpu()
    assert_same_bits(got[:n], loaders[0].gather(range(n))["camera"].cpu())
    assert got.shape[1:] == (1, 3, 4, 6) and not got[n:].any()


def test_side_by_side(stores: Any, device: str) -> None:
    def made(**options: Any) -> Any:
        deltas = [{"joints": None, "pose": None}, {"qpos": None, "action": None}]
        loaders = [
            keyed_loader(stores[0], 4, deltas[0], anchor="action", timeline="time", device=device),
            keyed_loader(stores[1], 4, deltas[1], anchor="action", timeline="time", device=device,
                      dtype=torch.float32),
        ]  # fmt: skip
        names = [{}, {"qpos": "joints", "action": "pose"}]
        return rc.Loader.mixture(loaders, [1, 1], 10, 4, keys=names, **options)

    chosen = [0, 70, 3, 80, 95]
    apart, together = made().gather(chosen), made(concat={"obs": ["pose", "joints"]}).gather(chosen)
    assert_same_bits(together["obs"].cpu(), torch.cat([apart["pose"], apart["joints"]], -1).cpu())
    assert set(apart) - set(together) == {"joints", "pose"}
    for key in set(apart) & set(together):
        assert_same_bits(apart[key].cpu(), together[key].cpu(), key)


def test_statistics_of_each(stores: Any) -> None:
    mixture = mix(stores, "cpu")
    assert [set(part.normalization) for part in mixture.parts] == [{"action"}, {"joints"}]
    scale = rc.normalization(stores[1].statistics["qpos"], "mean_std")
    np.testing.assert_array_equal(mixture.parts[1].normalization["joints"].multiply, scale.multiply)
    assert [part.store.path for part in mixture.parts] == [store.path for store in stores]
    assert [part.share for part in mixture.parts] == [2 / 7, 5 / 7]
    assert mixture.parts[0].indices[-1] + 1 == mixture.parts[1].indices[0]


def test_one_sample(stores: Any, device: str) -> None:
    mixture = mix(stores, device)
    sample, batch = mixture.dataset[-1], mixture.gather([len(mixture.dataset) - 1])
    assert int(sample["dataset_index"]) == 1
    for key, value in sample.items():
        assert_same_bits(value.cpu(), batch[key][0].cpu(), key)


@needs_gpu
def test_the_gpu_marks_indices_out_of_range(stores: Any) -> None:
    mixture = mix(stores, "cuda")
    batch = mixture.gather(torch.tensor([0, -1, len(mixture.dataset)], device="cuda"))
    assert batch["index"].tolist() == [0, -1, -1]
    for key in ("joints", "action", "camera", "counter", "gripper"):
        assert not batch[key][1:].any() and batch[f"{key}_is_pad"][1:].all()


WIDTHS = {"x": (2, 3, 1, 3), "y": (4, 4, 2, 1), "z": (1, 1, 1, 1)}


@pytest.fixture(scope="module")
def simple(tmp_path_factory: pytest.TempPathFactory) -> list[rc.EpisodeStore]:
    """Four stores of the same streams in several widths."""
    folder, rng = tmp_path_factory.mktemp("simple"), np.random.default_rng(2)
    for i in range(4):
        with rc.StoreWriter(folder / str(i)) as writer:
            for n in (3, 5)[: 1 + i % 2]:
                with writer.episode() as episode:
                    for key, widths in WIDTHS.items():
                        episode.add(key, np.arange(n) * MS, rng.normal(size=(n, widths[i])))
    return [rc.EpisodeStore(folder / str(i)) for i in range(4)]


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 3), st.sets(st.sampled_from("xyz"), min_size=1)),
                min_size=1, max_size=7))  # fmt: skip
def test_any_parts(simple: Any, device: str, chosen: list[tuple[int, set[str]]]) -> None:
    """Each part keeps its samples, padded with zeros on the right, with masks for missing keys."""
    loaders = [
        rc.Loader(simple[i], 4, {key: [0.0] for key in sorted(keys)}, device=device)
        for i, keys in chosen
    ]
    mixture = rc.Loader.mixture(loaders, [1] * len(loaders), 10, 4)
    got = mixture.gather(range(len(mixture.dataset)))
    for part, loader, (i, keys) in zip(mixture.parts, loaders, chosen, strict=True):
        own = loader.gather(range(len(loader.dataset)))
        for key in set().union(*(keys for _, keys in chosen)):
            widths = {WIDTHS[key][number] for number, keys in chosen if key in keys}
            values, is_pad = (got[name][part.indices] for name in (key, f"{key}_is_pad"))
            width = WIDTHS[key][i] if key in keys else 0
            if width:
                assert_same_bits(values[..., :width], own[key], key)
            assert values.shape[-1] == max(widths) and not values[..., width:].any()
            assert torch.equal(is_pad, own[f"{key}_is_pad"] if width else torch.ones_like(is_pad))
            assert (f"{key}_dim_is_pad" in got) == (len(widths) > 1)
            if len(widths) > 1:
                dims = torch.arange(max(widths), device=device) >= width
                assert (got[f"{key}_dim_is_pad"][part.indices] == dims).all()


# ---- as any loader -------------------------------------------------------------------------------


def test_buffers_and_transforms(stores: Any, device: str) -> None:
    def noise(batch: Any, generator: torch.Generator) -> Any:
        drawn = torch.rand(8, generator=generator, device=generator.device)
        return {**batch, "noise": drawn[: len(batch["index"])]}

    kept = list(mix(stores, device, transforms=[noise]))
    again = mix(stores, device, transforms=[noise], reuse_buffers=True)
    addresses = set()
    for batch, other in zip(kept, again, strict=True):
        for key, values in batch.items():
            assert_same_bits(other[key].cpu(), values.cpu(), key)
        addresses.add((len(batch["index"]), other["action_dim_is_pad"].data_ptr()))
    assert len(addresses) == 2


def test_what_it_says_of_itself(stores: Any) -> None:
    mixture = mix(stores, "cpu")
    assert repr(mixture) == (
        f"Loader.mixture(2 loaders, 100 samples an epoch of {len(mixture.dataset)}, 13 batches of "
        "8 on cpu: joints, action, camera, counter, gripper)"
    )
    batch = mixture.next()
    mixture.gather([1, 2])
    stats = mixture.stats()
    assert (stats.batches, stats.samples, stats.gathered) == (1, 8, 2)
    assert stats.bytes == 10 * sum(values[:1].nbytes for values in batch.values())
    loaders = [arm(stores[0], "cpu"), humanoid(stores[1], "cpu")]
    theirs = sum(loader.stats().resident_bytes["ram"] for loader in loaders)
    own = stats.resident_bytes["ram"] - theirs  # zeros, and masks of dimensions
    assert 0 < own < 1500
    assert mixture.name == "arm+humanoid" and "arm+humanoid" in rc.metrics().loaders


def test_the_loaders_are_not_kept(stores: Any) -> None:
    loaders = [arm(stores[0], "cpu"), humanoid(stores[1], "cpu")]
    mixture = rc.Loader.mixture(loaders, [1, 1], 10, 4, keys=KEYS)
    expected = {key: values.clone() for key, values in mixture.gather(range(40)).items()}
    addresses = {s.values.data_ptr() for loader in loaders for s in loader._plan.data}
    assert addresses <= {s.values.data_ptr() for s in mixture._plan.data}  # and not copied
    there = weakref.ref(loaders[0])
    gc.disable()  # which would find cycles
    try:
        loaders.clear()
        assert there() is None
    finally:
        gc.enable()
    got = mixture.gather(range(40))
    for key, values in expected.items():
        assert_same_bits(got[key], values, key)


@needs_gpu
def test_a_captured_graph_goes_on(stores: Any) -> None:
    options: dict[str, Any] = {"drop_last": True, "seed": 6}
    mixture = mix(stores, "cuda", reuse_buffers=True, **options)
    expected = list(islice(iter(mix(stores, "cuda", **options)), 6))
    mixture.next()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        batch = mixture.next()
    for i in range(1, 6):
        graph.replay()
        for key, values in expected[i].items():
            assert_same_bits(batch[key].cpu(), values.cpu(), key)
    assert mixture.state_dict()["position"] == 6 * 8


@needs_gpu
def test_both_devices_draw_alike(stores: Any) -> None:
    on_gpu, on_cpu = mix(stores, "cuda", seed=9), mix(stores, "cpu", seed=9)
    for a, b in zip(on_gpu, on_cpu, strict=True):
        for key, values in b.items():
            assert_same_bits(a[key].cpu(), values, key)


def test_numpy_counts_are_ints(stores: tuple[rc.EpisodeStore, rc.EpisodeStore]) -> None:
    loader = arm(stores[0], "cpu")
    mixture = rc.Loader.mixture([loader], [1], np.uint8(10), 4)
    state = mixture.state_dict()
    assert [len(batch["index"]) for batch in mixture] == [4, 4, 2]
    assert json.loads(json.dumps(state)) == rc.Loader.mixture([loader], [1], 10, 4).state_dict()
