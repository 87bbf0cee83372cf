"""Images of batches: resized, cropped and normalized as plain torch does, whatever the path."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from image_stores import SIZES, expected_images, random_options, write_store
from support import assert_same_batch, assert_same_bits

import robocache as rc

pytest.importorskip("PIL")

pytestmark = [
    pytest.mark.filterwarnings("ignore:Loader. padding in more than half"),
    pytest.mark.filterwarnings("ignore:Loader. valid values across silences"),
]

STEPS = [-0.1, 0.0]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[rc.EpisodeStore, rc.EpisodeStore]:
    """A store of JPEG frames, and one of their pixels."""
    folder = tmp_path_factory.mktemp("images")
    return write_store(folder / "jpeg", True), write_store(folder / "raw")


@pytest.fixture(scope="module")
def store(stores: tuple[rc.EpisodeStore, rc.EpisodeStore]) -> rc.EpisodeStore:
    """The store of pixels."""
    return stores[1]


def window(image: rc.Image | None = None, **options: Any) -> rc.Window:
    return rc.Window(STEPS, method="previous", image=image, **options)


def make(store: rc.EpisodeStore, windows: dict[str, rc.Window], **options: Any) -> rc.Loader:
    options = {"batch_size": 7, "anchor": "q", "seed": 3, "device": "cpu"} | options
    return rc.Loader(store, windows=windows, **options)


def all_samples(loader: rc.Loader) -> dict[str, torch.Tensor]:
    return {key: x.cpu() for key, x in loader.gather(range(len(loader.dataset))).items()}


# ---- against plain torch -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "image",
    [
        rc.Image(resize=(18, 24)),
        rc.Image(resize=(24, 24)),
        rc.Image(resize=(50, 70)),
        rc.Image(resize=(24, 24), mode="pad"),
        rc.Image(resize=(31, 20), mode="pad"),
        rc.Image(resize=(24, 24), mode="crop"),
        rc.Image(crop=(20, 30)),
        rc.Image(crop=(3, 5, 20, 30)),
        rc.Image(resize=(10, 15), crop=(3, 5, 20, 30)),
        rc.Image(resize=(18, 24), normalize="imagenet"),
        rc.Image(resize=(24, 24), mode="pad", normalize="minus_one_to_one"),
        rc.Image(normalize="imagenet"),
    ],
    ids=repr,
)
def test_images_are_those_of_plain_torch(
    store: rc.EpisodeStore, device: str, image: rc.Image
) -> None:
    frames = all_samples(make(store, {"front": window()}))["front"]
    assert frames.shape[1:] == (2, *SIZES["front"]) and frames.dtype == torch.uint8
    batch = all_samples(make(store, {"front": window(image)}, device=device))
    made, expected = batch["front"], expected_images(frames, image)
    exists = frames.flatten(2).any(2)  # other steps are zeros, of the plan also where normalized
    made, expected = made[exists], expected[exists]
    assert made.dtype == torch.float32 and made.shape == expected.shape
    assert len(made) > 200
    unit = 1 / (255 * 0.224) if image.normalize == "imagenet" else 1 / 255
    assert (made - expected).abs().max() < unit * (2 if image.normalize else 1) * 1.001


def test_layouts_and_types(store: rc.EpisodeStore, device: str) -> None:
    def made(image: rc.Image) -> torch.Tensor:
        return all_samples(make(store, {"front": window(image)}, device=device))["front"]

    first = made(rc.Image(resize=(20, 26)))
    assert_same_bits(
        made(rc.Image(resize=(20, 26), channels_first=False, dtype=torch.float32)),
        first.movedim(-3, -1).contiguous(),
    )
    for dtype in (torch.float16, torch.bfloat16):
        other = made(rc.Image(resize=(20, 26), dtype=dtype))
        assert other.dtype == dtype
        # Both are rounded once from float64.
        assert ((other.float() - first).abs() <= first * torch.finfo(dtype).eps).all()
    for is_first in (True, False):
        other = made(rc.Image(resize=(20, 26), dtype=torch.uint8, channels_first=is_first))
        rounded = (first * 255).round().to(torch.uint8)
        assert_same_bits(other, rounded if is_first else rounded.movedim(-3, -1).contiguous())
    default = made(rc.Image(resize=(20, 26), channels_first=False))
    assert default.dtype == torch.uint8 and default.shape[2:] == (20, 26, 3)


@pytest.mark.parametrize("key", list(SIZES))
def test_identity_has_the_bits_of_frames(store: rc.EpisodeStore, device: str, key: str) -> None:
    """Without geometry, the plan makes the images; with an identity, the image step does."""
    height, width, channels = SIZES[key]
    for options in (
        {}, {"dtype": torch.bfloat16}, {"dtype": torch.float16}, {"normalize": "mean_std"},
        {"normalize": (0.3, 0.7)}, {"dtype": torch.uint8, "channels_first": False},
    ):  # fmt: skip
        plain = rc.Image(**options)
        same = rc.Image(crop=(0, 0, height, width), **options)
        loaders = [make(store, {key: window(i)}, device=device) for i in (plain, same)]
        specs = [loader.spec().stream(key).image for loader in loaders]
        assert specs == [None, None]
        augmented = make(
            store, {key: window(plain)}, device=device, augment=[rc.RandomHorizontalFlip(0.0)]
        )
        spec = augmented.spec().stream(key).image
        assert spec is not None and spec.size == (height, width) and spec.center == 1
        expected, made = all_samples(loaders[0]), all_samples(augmented)
        assert_same_batch(all_samples(loaders[1]), expected)
        # Without a frame, the plan writes zeros, and the image step a black image, normalized.
        frames = all_samples(make(store, {key: window()}))[key]
        exists = frames.flatten(2).any(2) | ("normalize" not in options)
        assert exists.sum() > 200
        assert_same_bits(made[key][exists], expected[key][exists])
    windows = {key: window(channels_first=True)}
    as_window = all_samples(make(store, windows, device=device))
    assert_same_batch(all_samples(make(store, {key: window(rc.Image())}, device=device)), as_window)
    assert as_window[key].shape[2:] == (channels, height, width)


def test_depth(store: rc.EpisodeStore, device: str) -> None:
    def made(key: str, image: rc.Image | None) -> torch.Tensor:
        return all_samples(make(store, {key: window(image)}, device=device))[key]

    depth = made("depth", None)
    assert depth.dtype == torch.uint16 and depth.shape[2:] == (15, 22)
    same = made("depth", rc.Image())
    assert same.dtype == torch.float32 and same.shape[2:] == (1, 15, 22)
    assert_same_bits(same[:, :, 0], depth.float())
    resized = made("depth", rc.Image(resize=(5, 11), channels_first=False))
    assert resized.dtype == torch.uint16
    # The middle pixel of three rows; of two columns, the center lies on the second one's edge.
    assert_same_bits(resized, depth[:, :, 1::3, 1::2].contiguous())
    masked = made("depth", rc.Image(resize=(5, 11), filter="masked"))
    assert ((masked > 0) | (masked == 0)).all() and masked.max() <= depth.float().max()
    meters = made("depth", rc.Image(resize=(5, 11), normalize=(0.0, 1000.0)))
    assert (meters[:, :, 0] - resized.float() / 1000).abs().max() < 1e-6
    lidar = made("lidar", rc.Image(resize=(5, 11), filter="masked", channels_first=False))
    assert lidar.shape[2:] == (5, 11, 1) and not lidar.isnan().any()


# ---- paths ---------------------------------------------------------------------------------------


def assert_same_batches(a: rc.Loader, b: rc.Loader, count: int) -> None:
    for _ in range(count):
        got, expected = a.next(), b.next()
        assert_same_batch(
            {key: x.cpu() for key, x in got.items()}, {key: x.cpu() for key, x in expected.items()}
        )


@pytest.mark.parametrize("seed", range(16))
def test_jpeg_has_the_images_of_pixels(
    stores: tuple[rc.EpisodeStore, rc.EpisodeStore], device: str, seed: int
) -> None:
    options = random_options(seed)
    if seed % 2:
        options["augment"] = {"front": "lerobot"} if "front" in options["windows"] else None
    jpeg, raw = (rc.Loader(store, device=device, **options) for store in stores)
    assert_same_batches(jpeg, raw, len(raw) + 1)
    for indices in ([], [3], [5, 0, 5, 7]):
        assert_same_batch(jpeg.gather(indices), raw.gather(indices))


@pytest.mark.parametrize("seed", range(100, 108))
def test_pickles_and_specs_make_the_same_images(store: rc.EpisodeStore, seed: int) -> None:
    options = random_options(seed) | {"device": "cpu", "with_age": False}
    options["windows"] = {
        key: given for key, given in options["windows"].items() if given.causal or key == "q"
    }
    loader = rc.Loader(store, **options)
    expected = [{k: x.clone() for k, x in loader.next().items()} for _ in range(3)]
    again = pickle.loads(pickle.dumps(loader))
    assert_same_batch(again.next(), loader.next())
    spec = rc.PolicySpec.from_json(loader.spec().to_json())
    of_spec = rc.Loader.from_spec(store, spec, options["batch_size"], seed=seed, device="cpu")
    for batch in expected:
        assert_same_batch(of_spec.next(), batch)
    assert of_spec.spec() == spec


def test_concat_ages_and_scalars_stay(store: rc.EpisodeStore, device: str) -> None:
    windows = {"q": rc.Window(STEPS), "front": window(rc.Image(resize=(8, 8)))}
    plain = make(store, windows | {"front": window()}, with_age=True, device=device)
    batch, expected = (
        {key: x.cpu() for key, x in loader.next().items()}
        for loader in (make(store, windows, with_age=True, device=device), plain)
    )
    assert batch.pop("front").shape == (7, 2, 3, 8, 8)
    del expected["front"]
    assert_same_batch(batch, expected)


def test_a_window_named_like_metadata(tmp_path: Path, device: str) -> None:
    """A window named like a column of the metadata takes its place; draws read the column."""
    sizes = {"frame_index": (12, 14, 3), "front": (12, 14, 3)}
    store = write_store(tmp_path / "store", sizes=sizes)
    image = rc.Image(resize=(6, 7))
    augment = {"front": [rc.RandomHorizontalFlip(0.5)]}
    options: dict[str, Any] = {"device": device, "augment": augment}
    one = make(store, {"front": window(image)}, **options)
    both = make(store, {"front": window(image), "frame_index": window(image)}, **options)
    for _ in range(3):
        assert_same_bits(both.next()["front"], one.next()["front"])
    assert both.next()["frame_index"].shape[1:] == (2, 3, 6, 7)


def test_normalization_of_the_loader(store: rc.EpisodeStore) -> None:
    size = rc.Image(resize=(8, 8), dtype=torch.float32)
    by_image = make(store, {"front": window(rc.Image(resize=(8, 8), normalize="mean_std"))})
    by_loader = make(store, {"front": window(size)}, normalize={"front": "mean_std"})
    assert_same_batch(by_image.next(), by_loader.next())
    assert by_image.spec().stream("front").normalize == "mean_std"
    normalizer = by_image.normalizer()
    plain = make(store, {"front": window(size)}).next()["front"]
    batch = by_image.gather(by_image.next()["index"])
    restored = normalizer.inverse({"front": batch["front"]})["front"]
    expected = make(store, {"front": window(size)}).gather(batch["index"])["front"]
    assert (restored - expected).abs().max() < 1e-5 and plain.shape == restored.shape
    last = make(store, {"front": window(rc.Image(channels_first=False, dtype=torch.float32,
                                                 normalize="mean_std"))})  # fmt: skip
    batch = last.next()
    restored = last.normalizer().inverse({"front": batch["front"]})["front"]
    raw = make(store, {"front": window()}).gather(batch["index"])["front"]
    assert (restored * 255 - raw).abs().max() < 1e-3
    fixed = make(store, {"front": window(rc.Image(normalize="imagenet"))})
    assert fixed.spec().stream("front").normalize == "imagenet"
    assert "front" in fixed.normalization


def test_statistics_are_of_the_images(store: rc.EpisodeStore) -> None:
    for is_first in (True, False):
        image = rc.Image(crop=(20, 20), channels_first=is_first, dtype=torch.float32)
        windows = {"front": window(image)}
        found = rc.compute_stats(make(store, windows), progress=False)
        assert found["front"].mean.shape == (3,)
        assert found["front"].mean.min() > 0 and found["front"].max.max() <= 1
        loader = make(store, windows, normalize={"front": "mean_std"}, statistics=found)
        batch = all_samples(loader)
        values = batch["front"][~batch["front_is_pad"]]
        assert values.mean().abs() < 1e-3


def test_summary(store: rc.EpisodeStore) -> None:
    image = rc.Image(resize=(8, 10), mode="pad", crop=(20, 30))
    loader = make(
        store, {"q": rc.Window([0.0]), "front": window(image)}, augment=[rc.RandomCrop(0.9)]
    )
    text = str(loader.summary())
    assert "36 x 48 to 8 x 10, pad, of 20 x 30, center 0.9" in text
    assert "images" in text.splitlines()[0]
    plain = str(make(store, {"q": rc.Window([0.0])}).summary())
    assert "images" not in plain.splitlines()[0]


def test_repr() -> None:
    image = rc.Image(resize=(8, 10), mode="pad")
    assert repr(image) == "Image(resize=(8, 10), mode='pad')"
    assert repr(rc.Window([0.0], image=image)) == (
        "Window(offsets=(0.0,), image=Image(resize=(8, 10), mode='pad'))"
    )
    assert "the whole image" in str(image) and "<table" in image._repr_html_()
