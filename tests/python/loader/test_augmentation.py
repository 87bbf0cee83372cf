"""Random steps of images in batches: a sample's pixels depend on seed, epoch and camera alone."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from image_stores import write_store
from support import assert_same_batch, assert_same_bits

import robocache as rc

pytest.importorskip("PIL")

pytestmark = [
    pytest.mark.filterwarnings("ignore:Loader. padding in more than half"),
    pytest.mark.filterwarnings("ignore:Loader. valid values across silences"),
]

STEPS: list[Any] = [
    rc.RandomCrop(0.9), rc.RandomRotation(5), rc.ColorJitter(brightness=0.3, contrast=0.4, hue=0.1),
    rc.RandomErasing(0.5), rc.GaussianNoise(0.02),
]  # fmt: skip
IMAGE = rc.Image(resize=(16, 20))
CAMERAS = ("front", "wrist")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("images") / "store")


def make(store: rc.EpisodeStore, **options: Any) -> rc.Loader:
    window = rc.Window([-0.1, 0.0], method="previous", image=IMAGE)
    defaults: dict[str, Any] = {
        "batch_size": 8, "windows": dict.fromkeys(CAMERAS, window), "anchor": "q", "seed": 3,
        "device": "cpu", "augment": STEPS,
    }  # fmt: skip
    return rc.Loader(store, **defaults | options)


def pixels(loader: rc.Loader, batches: int) -> dict[tuple[int, int], dict[str, torch.Tensor]]:
    """Images of the next batches by sample: (epoch, index)."""
    found = {}
    for _ in range(batches):
        epoch = loader.state_dict()["epoch"]
        batch = loader.next()
        for b, index in enumerate(batch["index"].tolist()):
            found[epoch, index] = {key: batch[key][b].cpu().clone() for key in CAMERAS}
    return found


def assert_same_pixels(a: Any, b: Any) -> None:
    assert a.keys() == b.keys() and len(a) > 0
    for sample, images in a.items():
        for key in CAMERAS:
            assert_same_bits(images[key], b[sample][key])


def test_pixels_do_not_depend_on_order_and_ranks(store: rc.EpisodeStore, device: str) -> None:
    count = len(make(store).dataset)
    expected = pixels(make(store, device=device), 2 * len(make(store)))
    assert len(expected) == 2 * count
    for options in ({"batch_size": 5}, {"shuffle": False}, {"reuse_buffers": True}):
        loader = make(store, device=device, **options)
        assert_same_pixels(pixels(loader, 2 * len(loader)), expected)
    for ranks in (2, 3):
        found: dict[Any, Any] = {}
        for rank in range(ranks):
            loader = make(store, device=device, rank=rank, world_size=ranks)
            found |= pixels(loader, 2 * len(loader))
        assert len(found) > 2 * (count - ranks)
        assert_same_pixels(found, {sample: expected[sample] for sample in found})


def test_a_resumed_run_has_the_same_pixels(store: rc.EpisodeStore, device: str) -> None:
    first, second = make(store, device=device), make(store, device=device)
    for _ in range(len(first) + 2):
        first.next()
    second.load_state_dict(first.state_dict())
    again = pickle.loads(pickle.dumps(first))
    for _ in range(len(first)):
        expected = {key: x.clone() for key, x in first.next().items()}
        assert_same_batch(second.next(), expected)
        assert_same_batch(again.next(), expected)


def test_seed_epoch_and_camera_decide(store: rc.EpisodeStore) -> None:
    loader = make(store)
    epochs = pixels(loader, 2 * len(loader))
    other = pixels(make(store, seed=4), len(loader))
    valid = loader.gather(range(len(loader.dataset)))
    differ = 0
    for (epoch, index), images in epochs.items():
        if epoch == 1 or bool(valid["front_is_pad"][index].any()):
            continue
        differ += 1
        assert not torch.equal(images["front"], epochs[1, index]["front"])
        assert not torch.equal(images["front"], other[0, index]["front"])
    assert differ > 20
    # Cameras of the same frames draw different parameters.
    drawn = loader.augmentation(range(8))
    assert (drawn["front"].noise_key != drawn["wrist"].noise_key).all()


def test_padded_frames_are_not_augmented(store: rc.EpisodeStore, device: str) -> None:
    loader = make(store, device=device)
    padded = 0
    for _ in range(len(loader)):
        batch = loader.next()
        plain = loader.gather(batch["index"])
        for key in CAMERAS:
            is_pad = batch[key + "_is_pad"]
            padded += int(is_pad.sum())
            assert_same_bits(batch[key][is_pad], plain[key][is_pad])
            assert not torch.equal(batch[key][~is_pad], plain[key][~is_pad])
    assert padded > 20


def test_gather_and_specs_have_the_counterpart(store: rc.EpisodeStore, device: str) -> None:
    loader = make(store, device=device)
    spec = loader.spec()
    for key in CAMERAS:
        image = spec.stream(key).image
        assert image is not None and image.center == 0.9
    of_spec = rc.Loader.from_spec(store, spec, 8, seed=3, device=device)
    for _ in range(3):
        batch = of_spec.next()
        assert_same_batch(loader.gather(batch["index"]), batch)
    sample = loader.dataset[5]
    assert_same_bits(sample["front"], loader.gather([5])["front"][0])
    augmented = rc.Loader.from_spec(store, spec, 8, seed=3, device=device, augment=STEPS)
    expected = make(store, device=device)
    for _ in range(3):
        assert_same_batch(augmented.next(), expected.next())
    assert augmented.spec() == spec


def test_only_some_cameras(store: rc.EpisodeStore, device: str) -> None:
    loader = make(store, device=device, augment={"front": STEPS})
    plain = make(store, device=device, augment=None)
    batch, expected = loader.next(), plain.next()
    assert_same_bits(batch["wrist"], expected["wrist"])
    assert not torch.equal(batch["front"], expected["front"])
    assert list(loader.augmentation([0])) == ["front"]
    assert plain.augmentation([0]) == {}


def test_windows_without_an_image(store: rc.EpisodeStore, device: str) -> None:
    """Random steps need no rc.Image; without draws the windows have the bits of plain ones."""
    windows = {
        "front": rc.Window([0.0], method="previous", channels_first=True, dtype=torch.bfloat16),
        "wrist": rc.Window([0.0], method="previous"),
        "gray": rc.Window(None, method="previous", dtype=torch.float32),
        "q": rc.Window([0.0]),
    }
    steps = [rc.ColorJitter(brightness=0.3)]
    loader = make(store, windows=windows, device=device, augment=steps)
    plain = make(store, windows=windows, device=device, augment=None)
    batch, expected = loader.next(), plain.next()
    for key in ("front", "wrist", "gray"):
        assert batch[key].dtype == expected[key].dtype
        assert batch[key].shape == expected[key].shape
        assert not torch.equal(batch[key], expected[key])
    indices = range(len(loader.dataset))
    assert_same_batch(loader.gather(indices), plain.gather(indices))


def test_flips_are_those_that_augmentation_names(store: rc.EpisodeStore, device: str) -> None:
    loader = make(store, device=device, augment=[rc.RandomHorizontalFlip(0.5)])
    flips = 0
    for _ in range(2 * len(loader)):
        batch = loader.next()
        before = loader.state_dict()["epoch"]
        plain = loader.gather(batch["index"])
        # The next batch may be of the next epoch.
        epoch = before if loader.state_dict()["position"] > 0 else before - 1
        drawn = loader.augmentation(batch["index"], epoch)
        assert drawn["front"].map.shape == (len(batch["index"]), 2, 2, 3)
        is_flipped = torch.from_numpy(drawn["front"].map[..., 0, 0] < 0).to(device)
        is_flipped &= ~batch["front_is_pad"]
        flips += int(is_flipped.sum())
        assert_same_bits(batch["front"][is_flipped], plain["front"][is_flipped].flip(-1))
        assert_same_bits(batch["front"][~is_flipped], plain["front"][~is_flipped])
    assert flips > 10


def test_the_next_batch_is_the_one_that_augmentation_describes(store: rc.EpisodeStore) -> None:
    loader = make(store)
    first = loader.augmentation([0, 3])["front"]
    np.testing.assert_array_equal(first.map, loader.augmentation([0, 3], epoch=0)["front"].map)
    for _ in range(len(loader)):
        loader.next()
    later = loader.augmentation(torch.tensor([0, 3]))["front"]
    np.testing.assert_array_equal(later.map, loader.augmentation([0, 3], epoch=1)["front"].map)
    assert (later.noise_key != first.noise_key).all()
    assert loader.augmentation([])["front"].map.shape == (0, 2, 2, 3)


def test_dropout_keeps_a_camera(store: rc.EpisodeStore, device: str) -> None:
    loader = make(store, device=device, augment=[rc.CameraDropout(0.9)])
    black = 0
    for _ in range(len(loader)):
        batch = loader.next()
        is_black = torch.stack([(batch[key] == 0).flatten(2).all(2) for key in CAMERAS])
        is_pad = torch.stack([batch[key + "_is_pad"] for key in CAMERAS])
        assert not (is_black & ~is_pad).all(0).any()
        black += int((is_black & ~is_pad).sum())
    assert black > 20


@pytest.mark.parametrize("preset", ["openpi", "octo", "lerobot", "diffusion_policy"])
def test_presets(store: rc.EpisodeStore, device: str, preset: str) -> None:
    loader = make(store, device=device, augment=preset)
    batch = loader.next()
    plain = loader.gather(batch["index"])
    assert batch["front"].shape == (8, 2, 3, 16, 20)
    assert batch["front"].min() >= 0 and batch["front"].max() <= 1
    assert not torch.equal(batch["front"], plain["front"])


def test_errors(store: rc.EpisodeStore) -> None:
    def message(error: type[Exception], **options: Any) -> str:
        with pytest.raises(error) as caught:
            make(store, **options)
        return str(caught.value)

    windows = {"q": rc.Window([0.0]), "depth": rc.Window([0.0], method="previous", image=IMAGE)}
    assert message(ValueError, augment={"q": STEPS}, windows=windows) == (
        "augment: expected cameras among none, got 'q' (augmentation is for uint8 images of 1 or 3 "
        "channels)"
    )
    assert message(ValueError, augment={"depth": STEPS}, windows=windows | {
        "front": rc.Window([0.0], method="previous")}) == (
        "augment: expected cameras among 'front', got 'depth' (augmentation is for uint8 images of "
        "1 or 3 channels)"
    )  # fmt: skip
    double = rc.Window([0.0], method="previous", dtype=torch.float64)
    assert message(ValueError, windows={"front": double}) == (
        "dtype['front']: expected float32, float16, bfloat16 or uint8 for images with augment, got "
        "float64"
    )
    relative = rc.Window([0.0], relative_to="wrist")
    assert "relative" in message(
        ValueError, windows={"front": relative, "wrist": rc.Window([0.0])}, augment=STEPS
    )
    loader = make(store)
    with pytest.raises(ValueError, match="center") as caught:
        rc.Loader.from_spec(store, loader.spec(), 8, augment=[rc.RandomCrop(0.8)], device="cpu")
    assert str(caught.value) == (
        "augment['front']: expected random crops with the spec's center 0.9, got 0.8 (a loader of "
        "windows= and augment= has a spec of its own)"
    )
    with pytest.raises(ValueError, match=r"^epoch: expected 0 or more, got -1$"):
        loader.augmentation([0], epoch=-1)
    with pytest.raises(ValueError, match=r"^indices\[0\]: expected 0 to \d+, got 100000$"):
        loader.augmentation([100000])
