"""Mixtures of loaders whose cameras differ in size, encoding and augmentation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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

SMALL = {"front": (18, 22, 3), "wrist": (16, 20, 3)}
EXACT = {"front": (16, 20, 3)}
IMAGE = rc.Image(resize=(16, 20))
STEPS: list[Any] = [rc.RandomCrop(0.9), rc.ColorJitter(brightness=0.3)]


def window(image: rc.Image | None, outside: Any = "hold") -> rc.Window:
    return rc.Window([-0.1, 0.0], method="previous", image=image, outside=outside)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, rc.EpisodeStore]:
    folder = tmp_path_factory.mktemp("mixture")
    return {
        "large_jpeg": write_store(folder / "large_jpeg", True),
        "small": write_store(folder / "small", sizes=SMALL),
        "small_jpeg": write_store(folder / "small_jpeg", True, sizes=SMALL),
        "exact": write_store(folder / "exact", sizes=EXACT),
        "exact_jpeg": write_store(folder / "exact_jpeg", True, sizes=EXACT),
    }


def make(store: rc.EpisodeStore, windows: dict[str, rc.Window], **options: Any) -> rc.Loader:
    options = {"batch_size": 4, "anchor": "q", "device": "cpu"} | options
    return rc.Loader(store, windows={"q": rc.Window([0.0])} | windows, **options)


def loaders(stores: dict[str, rc.EpisodeStore], device: str, augment: Any = None) -> list[Any]:
    """Parts: resized JPEG and raw frames, frames as they are, and one without cameras."""
    both = {"front": window(IMAGE, "zero"), "wrist": window(IMAGE)}
    front = {"front": window(rc.Image())}
    return [
        make(stores["large_jpeg"], both, device=device, augment=augment),
        make(stores["small"], both, device=device, augment=augment),
        make(stores["exact"], front, device=device),
        make(stores["exact_jpeg"], front, device=device),
        make(stores["small"], {}, device=device),
        make(stores["small_jpeg"], {"front": window(IMAGE)}, device=device),
    ]


def check_batch(batch: Any, parts: list[Any], mixture: Any) -> None:
    """That each sample has the values of its own loader, and zeros for keys that it lacks."""
    for b, (part, index) in enumerate(
        zip(batch["dataset_index"].tolist(), batch["index"].tolist(), strict=True)
    ):
        own = parts[part].gather([index - mixture.parts[part].indices.start])
        for key in ("front", "wrist", "q"):
            for name in (key, key + "_is_pad"):
                if name in own:
                    assert_same_bits(batch[name][b], own[name][0], name)
                elif name.endswith("_is_pad"):
                    assert batch[name][b].all()
                else:
                    assert not batch[name][b].any()


def test_parts_of_any_size(stores: dict[str, rc.EpisodeStore], device: str) -> None:
    parts = loaders(stores, device)
    mixture = rc.Loader.mixture(parts, [1, 2, 1, 1, 1, 1], 200, batch_size=16, seed=1)
    assert mixture.next()["front"].shape == (16, 2, 3, 16, 20)
    for _ in range(3):
        check_batch(mixture.next(), parts, mixture)
    every = mixture.gather(range(0, len(mixture.dataset), 3))
    assert len(set(every["dataset_index"].tolist())) == len(parts)
    check_batch(every, parts, mixture)
    kept = rc.Loader.mixture(
        parts, [1, 2, 1, 1, 1, 1], 200, batch_size=16, seed=1, reuse_buffers=True
    )
    again = rc.Loader.mixture(parts, [1, 2, 1, 1, 1, 1], 200, batch_size=16, seed=1)
    for _ in range(len(kept) + 1):
        assert_same_batch(kept.next(), again.next())


def test_raw_parts_alone(stores: dict[str, rc.EpisodeStore], device: str) -> None:
    parts = [loaders(stores, device)[i] for i in (1, 2, 4)]
    mixture = rc.Loader.mixture(parts, [1, 1, 1], 60, batch_size=16)
    check_batch(mixture.gather(range(0, len(mixture.dataset), 5)), parts, mixture)


def test_jpeg_parts_alone(stores: dict[str, rc.EpisodeStore], device: str) -> None:
    parts = [loaders(stores, device)[i] for i in (0, 5, 4)]
    mixture = rc.Loader.mixture(parts, [1, 1, 1], 60, batch_size=16)
    check_batch(mixture.gather(range(0, len(mixture.dataset), 5)), parts, mixture)


def test_parts_draw_as_their_loaders_do(stores: dict[str, rc.EpisodeStore], device: str) -> None:
    """By the mixture's seed and the loader's number: loader 0 draws as it does alone."""
    parts = loaders(stores, device, STEPS)
    mixture = rc.Loader.mixture(parts, [1, 1, 1, 1, 0, 0], 200, batch_size=16, seed=0)
    alone = parts[0]
    images = {}
    for _ in range(len(alone)):
        batch = alone.next()
        for b, index in enumerate(batch["index"].tolist()):
            images[index] = batch["front"][b], batch["wrist"][b]
    compared = 0
    for _ in range(len(mixture)):
        batch = mixture.next()
        drawn = mixture.augmentation(batch["index"], epoch=0)
        assert set(drawn) == {"front", "wrist"}
        for b, (part, index) in enumerate(
            zip(batch["dataset_index"].tolist(), batch["index"].tolist(), strict=True)
        ):
            if part != 0:
                continue
            compared += 1
            front, wrist = images[index]
            assert_same_bits(batch["front"][b], front)
            assert_same_bits(batch["wrist"][b], wrist)
    assert compared > 20
    check_batch(mixture.gather(batch["index"]), parts, mixture)


def test_specs_of_parts(stores: dict[str, rc.EpisodeStore]) -> None:
    parts = loaders(stores, "cpu", STEPS)
    mixture = rc.Loader.mixture(parts, [1] * 6, 60, batch_size=4)
    image = mixture.spec(1).stream("front").image
    assert image is not None and image.size == (16, 20) and image.center == 0.9
    assert mixture.spec(2).stream("front").image is None
    lacking = mixture.spec(4).stream("front")
    assert lacking.image is None and lacking.shape == (3, 16, 20)
    assert [each.images for each in mixture.summary().streams if each.key == "front"] == [
        "36 x 48 to 16 x 20, center 0.9", "18 x 22 to 16 x 20, center 0.9", None, None,
        "18 x 22 to 16 x 20",
    ]  # fmt: skip


def test_errors(stores: dict[str, rc.EpisodeStore], tmp_path: Path) -> None:
    a = make(stores["small"], {"front": window(IMAGE)})
    b = make(stores["exact"], {"front": window(rc.Image(resize=(8, 8)))})
    with pytest.raises(ValueError, match="like loaders") as caught:
        rc.Loader.mixture([a, b], [1, 1], 10, batch_size=2)
    assert str(caught.value) == (
        "loaders[1]: front: expected rows of shape [3, 16, 20] like loaders[0], got [3, 8, 8] "
        "(rc.Window(image=rc.Image(resize=...)) makes them alike; a name of its own in keys= keeps "
        "it apart)"
    )
    half = make(stores["exact"], {"front": window(rc.Image(dtype=torch.float16))})
    with pytest.raises(ValueError, match="like loaders") as caught:
        rc.Loader.mixture([a, half], [1, 1], 10, batch_size=2)
    assert str(caught.value) == (
        "loaders[1]: front: expected float32 like loaders[0], got float16 (rc.Window(dtype=) "
        "changes it)"
    )
    with pytest.raises(TypeError) as wrong:
        rc.Loader.mixture([a], [1], 10, batch_size=2, augment=STEPS)  # type: ignore[call-arg]
    assert str(wrong.value) == (
        "augment: expected an option of rc.Loader.mixture, got 'augment' (it is an option of each "
        "of the loaders: rc.Loader(..., augment=...))"
    )
