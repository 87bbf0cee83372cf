"""Mixtures of loaders against the plain reference: what is drawn, and what samples are made of."""

from __future__ import annotations

import gc
import json
import pickle
import weakref
from collections.abc import Sequence
from fractions import Fraction
from itertools import islice
from typing import Any

import loader_reference as plain
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loader_reference import Part, Window
from loader_stores import MS, write_humanoid, write_store
from support import assert_same_bits, find_backends

import robocache as rc
from robocache.loader.mixture_parts import check_weights, make_thresholds

DEVICES = [b.device for b in find_backends()[0] if b.name in ("cpu", "cuda")]
KEYS: list[dict[str, str]] = [{}, {"qpos": "joints"}]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[rc.EpisodeStore, rc.EpisodeStore]:
    folder = tmp_path_factory.mktemp("mixture")
    return write_store(folder / "arm", episodes=3, seed=1), write_humanoid(folder / "humanoid")


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def scale_of(store: rc.EpisodeStore, key: str, mode: Any) -> dict[str, Any]:
    subtract, multiply = rc.normalization(store.statistics[key], mode)
    return {"subtract": subtract, "multiply": multiply}


def arm(store: rc.EpisodeStore, device: str, **options: Any) -> rc.Loader:
    """Joints 7 wide at 100 Hz, actions 5 wide at 50 Hz, pictures, counters 2 wide."""
    deltas = {"joints": [-0.02, 0.0], "action": [0.0, 0.02, 0.04], "camera": [0.0], "counter": None}
    given: dict[str, Any] = {"with_age": True, "normalize": {"action": "min_max"}} | options
    return rc.Loader(store, 4, deltas, anchor="action", device=device, **given)


def test_numpy_counts_are_ints(stores: tuple[rc.EpisodeStore, rc.EpisodeStore]) -> None:
    loader = arm(stores[0], "cpu")
    mixture = rc.Loader.mixture([loader], [1], np.uint8(10), 4)
    state = mixture.state_dict()
    assert [len(batch["index"]) for batch in mixture] == [4, 4, 2]
    assert json.loads(json.dumps(state)) == rc.Loader.mixture([loader], [1], 10, 4).state_dict()


def part_of_arm(store: rc.EpisodeStore) -> Part:
    windows = {
        "joints": Window("joints", [-20 * MS, 0]),
        "action": Window("action", [0, 1, 2], by_rows=True, **scale_of(store, "action", "min_max")),
        "camera": Window("camera", [0]),
        "counter": Window("counter", [0]),
    }
    return Part(store, windows, plain.row_anchors(store, "action"))


def humanoid(store: rc.EpisodeStore, device: str, **options: Any) -> rc.Loader:
    """Joints 5 wide at 60 Hz, called qpos; actions 9 wide at 25 Hz, counters 3 wide, a gripper."""
    deltas = {"qpos": [-0.05, 0.0], "action": [0.0, 0.04, 0.08], "counter": None, "gripper": [0.1]}
    given: dict[str, Any] = {"with_age": True, "normalize": {"qpos": "mean_std"}} | options
    types = {"qpos": torch.float32}
    return rc.Loader(store, 4, deltas, anchor="action", dtype=types, device=device, **given)


def part_of_humanoid(store: rc.EpisodeStore) -> Part:
    scale = scale_of(store, "qpos", "mean_std")
    windows = {
        "joints": Window("qpos", [-50 * MS, 0], dtype=torch.float32, **scale),
        "action": Window("action", [0, 1, 2], by_rows=True),
        "counter": Window("counter", [0]),
        "gripper": Window("gripper", [100 * MS]),
    }
    return Part(store, windows, plain.row_anchors(store, "action"))


def mix(stores: Sequence[rc.EpisodeStore], device: str, **options: Any) -> Any:
    loaders = [arm(stores[0], device), humanoid(stores[1], device)]
    given: dict[str, Any] = {"weights": [1, 2.5], "samples": 100, "batch_size": 8} | options
    return rc.Loader.mixture(loaders, keys=KEYS, **given)


def small(store: rc.EpisodeStore, device: str = "cpu", **options: Any) -> rc.Loader:
    """A loader of one key, that is made quickly."""
    return rc.Loader(store, 4, {"action": None}, device=device, **options)


def counts(mixture: Any) -> list[int]:
    return [len(part.indices) for part in mixture.parts]


def indices(batch: dict[str, torch.Tensor]) -> list[int]:
    return [int(i) for i in batch["index"].tolist()]


def check(batch: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    """That a batch has all that the reference has, but for masks of widths that do not differ."""
    for key, values in expected.items():
        if key.endswith("_dim_is_pad") and key not in batch:
            continue
        values = values.reshape(batch[key].shape)  # without the axis of one step
        assert_same_bits(batch[key].cpu(), values, key)


# ---- what samples are made of --------------------------------------------------------------------


def test_samples_are_the_references(stores: Any, device: str) -> None:
    mixture = mix(stores, device)
    parts = [part_of_arm(stores[0]), part_of_humanoid(stores[1])]
    assert counts(mixture) == [len(part.anchors) for part in parts]
    chosen = np.random.default_rng(0).permutation(len(mixture.dataset)).tolist()
    check(mixture.gather(chosen), plain.mixed(parts, chosen))


def test_three_loaders_of_two_stores(stores: Any, device: str) -> None:
    """What is missing at the beginning, in the middle and at the end; two of one store."""
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
    """Colours first, beside a loader that has no pictures."""
    loaders = [
        rc.Loader(stores[0], 4, {"camera": [0.0], "action": None}, anchor="action",
                  images="float", device=device),
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
            rc.Loader(stores[0], 4, deltas[0], anchor="action", timeline="time", device=device),
            rc.Loader(stores[1], 4, deltas[1], anchor="action", timeline="time", device=device,
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


def test_the_gpu_marks_indices_out_of_range(stores: Any) -> None:
    if "cuda" not in DEVICES:
        pytest.skip("no GPU here")
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


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 3), st.sets(st.sampled_from("xyz"), min_size=1)),
                min_size=1, max_size=7))  # fmt: skip
def test_any_parts(simple: Any, device: str, chosen: list[tuple[int, set[str]]]) -> None:
    """Whatever each has or lacks: its own samples, with zeros to the right and masks."""
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


# ---- what is drawn -------------------------------------------------------------------------------


@pytest.mark.parametrize("drop_last", [True, False])
def test_epochs_are_the_references(stores: Any, device: str, drop_last: bool) -> None:
    mixture = mix(stores, device, seed=2**64 - 1, drop_last=drop_last)
    drawing = plain.Mixture([Fraction(1), Fraction(5, 2)], counts(mixture))
    drawn = plain.draw(100, 8, seed=2**64 - 1, drop_last=drop_last, mixture=drawing)
    assert len(mixture) == (12 if drop_last else 13)
    for _ in range(2):
        assert [indices(b) for b in mixture] == [
            d.indices for d in islice(drawn, len(mixture))
        ]  # fmt: skip


@settings(max_examples=25)
@given(
    st.lists(st.integers(0, 2**70) | st.floats(0, 1e300), min_size=1, max_size=6).filter(any),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**62),
    st.integers(1, 2**62),
)
def test_any_weights(
    stores: Any, weights: list[float], seed: int, epoch: int, samples: int
) -> None:
    loaders = [small(stores[0]), small(stores[0], episodes=[1])] * 3
    mixture = rc.Loader.mixture(loaders[: len(weights)], weights, samples, 64, seed=seed)
    state = mixture.state_dict()
    mixture.load_state_dict(state | {"epoch": epoch, "position": samples // 2})
    drawing = plain.Mixture([Fraction(w) for w in weights], counts(mixture))
    drawn = plain.draw(samples, 64, seed=seed, epoch=epoch, position=samples // 2, mixture=drawing)
    for _ in range(2):
        assert indices(mixture.next()) == next(drawn).indices


def test_parts_come_by_weight(stores: Any) -> None:
    """Counts are binomial: five deviations off is a chance of one in a million."""
    weights = [0.5, 0, 1.5, 3]
    loaders = [
        small(stores[0]),
        small(stores[1]),
        small(stores[1]),
        small(stores[0], tasks="task 1"),
    ]
    samples = 50_000
    mixture = rc.Loader.mixture(loaders, weights, samples, samples)
    batch = mixture.next()
    seen = np.bincount(batch["dataset_index"].numpy(), minlength=4)
    for n, weight in zip(seen, weights, strict=True):
        p = weight / 5
        assert abs(n - samples * p) <= 5 * np.sqrt(samples * p * (1 - p))
    for part, n in zip(mixture.parts, seen, strict=True):
        if n == 0:
            continue
        of_anchor = np.bincount(batch["index"].numpy())[part.indices.start : part.indices.stop]
        mean = n / len(part.indices)
        chi2 = float(((of_anchor - mean) ** 2 / mean).sum())
        degrees = len(part.indices) - 1
        assert abs(chi2 - degrees) < 5 * np.sqrt(2 * degrees)


@pytest.mark.parametrize("none", [0, 1, 2])
def test_no_weight_is_never_drawn(stores: Any, none: int) -> None:
    weights = [1e-3, 5, 5]
    weights[none] = 0
    mixture = rc.Loader.mixture([small(stores[0])] * 3, weights, 2000, 2000)
    assert none not in mixture.next()["dataset_index"].tolist()
    assert mixture.gather(mixture.parts[none].indices)["dataset_index"].unique().tolist() == [none]


@given(st.lists(st.fractions(0, 10) | st.floats(0, 1e9), min_size=1, max_size=20).filter(any))
def test_thresholds_are_exact(weights: list[Any]) -> None:
    shares = check_weights(weights, len(weights))
    assert sum(shares) == 1
    thresholds = make_thresholds(shares)
    exact = [Fraction(w) for w in weights]
    for m, threshold in enumerate(thresholds):
        assert threshold == 2**64 * sum(exact[: m + 1]) // sum(exact)
    assert thresholds[-1] == 2**64 and not any(weights[len(thresholds) :])


def test_weights_of_any_kind() -> None:
    third = [Fraction(1, 3), Fraction(2, 3)]
    for weights in ([1, 2], (0.5, 1.0), np.array([3, 6], np.uint8), torch.tensor([0.25, 0.5]),
                    [np.float32(2), np.int64(4)], third):  # fmt: skip
        assert check_weights(weights, 2) == third
    if np.isfinite(np.longdouble("1e4000")):  # where it is wider than float64
        large, small = check_weights([np.longdouble("1e4000"), 1], 2)
        assert large + small == 1 and 0 < small < Fraction(1, 10**3999)


# ---- ranks and states ----------------------------------------------------------------------------


def test_ranks_take_places_in_turn(stores: Any, device: str) -> None:
    whole = [i for batch in mix(stores, device, batch_size=100) for i in indices(batch)]
    taken: dict[int, int] = {}
    for rank in range(3):
        part = mix(stores, device, rank=rank, world_size=3)
        drawing = plain.Mixture([Fraction(1), Fraction(5, 2)], counts(part))
        drawn = plain.draw(100, 8, rank=rank, ranks=3, mixture=drawing)
        place = rank
        for batch in part:
            assert indices(batch) == next(drawn).indices
            for index in indices(batch):
                assert place not in taken
                taken[place] = index
                place += 3
    assert [taken[place] for place in sorted(taken)] == whole and sorted(taken) == list(range(100))


def test_resumed_on_other_ranks(stores: Any, device: str) -> None:
    """The global order stays, and with the same global batch the batches are the same bits."""
    one = mix(stores, device, seed=3)
    for _ in range(4):
        one.next()
    state = json.loads(json.dumps(one.state_dict()))
    assert all(type(value) is int for value in state.values())
    parts = [mix(stores, device, seed=3, batch_size=4, rank=r, world_size=2) for r in range(2)]
    for part in parts:
        part.load_state_dict(state)
    for _ in range(3):
        expected, (a, b) = one.next(), (part.next() for part in parts)
        for key in expected:
            together = torch.stack([a[key], b[key]], 1).flatten(0, 1)
            assert_same_bits(together.cpu(), expected[key].cpu(), key)


def test_pickles(stores: Any, device: str) -> None:
    mixture = mix(stores, device, concat={"obs": ["joints"]}, name="two")
    mixture.next()
    other = pickle.loads(pickle.dumps(mixture))
    assert str(other) == str(mixture) and other.name == "two"
    for _ in range(2):
        expected, got = mixture.next(), other.next()
        for key, values in expected.items():
            assert_same_bits(got[key].cpu(), values.cpu(), key)


def test_set_epoch(stores: Any, device: str) -> None:
    mixture = mix(stores, device)
    mixture.set_epoch(5)
    drawing = plain.Mixture([Fraction(1), Fraction(5, 2)], counts(mixture))
    assert indices(mixture.next()) == next(plain.draw(100, 8, epoch=5, mixture=drawing)).indices


def test_states_of_others_are_refused(stores: Any) -> None:
    state = mix(stores, "cpu").state_dict()
    mix(stores, "cpu", weights=[2, 5]).load_state_dict(state)  # the same shares
    mix(stores, "cpu", batch_size=3, drop_last=True).load_state_dict(state)
    for options in ({"weights": [2, 4]}, {"weights": [0, 1]}):
        with pytest.raises(
            ValueError, match=r"^state\['fingerprint'\]: expected \d+, got \d+ \(an"
        ):
            mix(stores, "cpu", **options).load_state_dict(state)
    with pytest.raises(ValueError, match=r"^state\['samples'\]: expected 99, got 100 \(another"):
        mix(stores, "cpu", samples=99).load_state_dict(state)
    with pytest.raises(ValueError, match=r"^state\['shuffle'\]|^state\['samples'\]"):
        arm(stores[0], "cpu").load_state_dict(state)
    swapped = rc.Loader.mixture(
        [humanoid(stores[1], "cpu"), arm(stores[0], "cpu")], [2.5, 1], 100, 8, keys=KEYS[::-1]
    )
    with pytest.raises(ValueError, match=r"^state\['fingerprint'\]"):
        swapped.load_state_dict(state)


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
    assert str(mixture) == (
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
    addresses = {s.values.data_ptr() for loader in loaders for s in loader._plan.streams}
    assert addresses <= {s.values.data_ptr() for s in mixture._plan.streams}  # and not copied
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


def test_a_captured_graph_goes_on(stores: Any) -> None:
    if "cuda" not in DEVICES:
        pytest.skip("no GPU here")
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


@pytest.mark.parametrize("device", [d for d in DEVICES if d == "cuda"])
def test_both_devices_draw_alike(stores: Any, device: str) -> None:
    on_gpu, on_cpu = mix(stores, device, seed=9), mix(stores, "cpu", seed=9)
    for a, b in zip(on_gpu, on_cpu, strict=True):
        for key, values in b.items():
            assert_same_bits(a[key].cpu(), values, key)
