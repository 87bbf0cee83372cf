"""rc.Normalizer: forward and back, beside the loader, its state and errors."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from loader_stores import write_store
from normalizing import MODES, WINDOWS, make
from support import assert_near, assert_same_bits

import robocache as rc


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("normalizer") / "store")


# ---- beside the loader ---------------------------------------------------------------------------


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
    """A loader rounds once; its normalizer starts from values that are already half precision."""
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


def test_float64_is_computed_in_float64(store: rc.EpisodeStore, device: str) -> None:
    normalizer = rc.Normalizer.from_store(store, {"force": "mean_std"})
    options: Any = {"delta_timestamps": {"force": [0.0]}, "anchor": "force"}
    plain = make(store, device, **options).gather(range(40))["force"]
    fused = make(store, device, normalize=normalizer, **options).gather(range(40))["force"]
    assert plain.dtype == torch.float64
    assert_same_bits(normalizer.normalize("force", plain).cpu(), fused.cpu())


def test_images(store: rc.EpisodeStore, device: str) -> None:
    """Channels first, from 0 to 1; the loader normalizes their bytes in one rounding."""
    normalizer = rc.Normalizer.from_store(store, {"camera": "mean_std"}, preset="lerobot")
    assert normalizer.normalization["camera"].subtract.shape == (3, 1, 1)
    options: Any = {"delta_timestamps": {"camera": [0.0, 0.1]}, "anchor": "joints"}
    plain = make(store, device, channels_first=True, **options).gather(range(40))["camera"]
    fused = make(store, device, channels_first=True, normalize=normalizer, **options)
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


def test_a_batch_keeps_what_is_not_normalized() -> None:
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
