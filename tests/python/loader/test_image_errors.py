"""Wrong options of images: the whole message of each."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from image_stores import write_store

import robocache as rc

pytest.importorskip("PIL")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("images") / "store")


# Options of rc.Image for the stream "front", 36 x 48 of 3 colors, with the error's message.
WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"resize": (0, 8)}, ValueError,
     ".resize: expected outputs of 1 to 4096 pixels in height and width, got 0 x 8"),
    ({"resize": (8, -1)}, ValueError,
     ".resize: expected outputs of 1 to 4096 pixels in height and width, got 8 x -1"),
    ({"resize": (8, 4097)}, ValueError,
     ".resize: expected outputs of 1 to 4096 pixels in height and width, got 8 x 4097"),
    ({"resize": 224}, TypeError, ".resize: expected (height, width) in pixels, got 224"),
    ({"resize": (8.0, 8)}, TypeError, ".resize: expected (height, width) in pixels, got (8.0, 8)"),
    ({"resize": (True, 8)}, TypeError,
     ".resize: expected (height, width) in pixels, got (True, 8)"),
    ({"resize": (1, 2, 3)}, TypeError,
     ".resize: expected (height, width) in pixels, got (1, 2, 3)"),
    ({"resize": "ab"}, TypeError, ".resize: expected (height, width) in pixels, got 'ab'"),
    ({"mode": "fill", "resize": (8, 8)}, ValueError,
     ".mode: expected stretch, pad or crop, got 'fill'"),
    ({"mode": "pad"}, ValueError, ".mode: expected 'stretch' without resize, got 'pad'"),
    ({"filter": "bicubic"}, ValueError,
     ".filter: expected bilinear, nearest or masked, got 'bicubic'"),
    ({"crop": (37, 48)}, ValueError,
     ".crop: expected a height of 1 to 36 and a width of 1 to 48, those of the image, got 37 x 48"),
    ({"crop": (0, 8)}, ValueError,
     ".crop: expected a height of 1 to 36 and a width of 1 to 48, those of the image, got 0 x 8"),
    ({"crop": (30, 0, 8, 8)}, ValueError,
     ".crop: expected a top of 0 to 28 and a left of 0 to 40, so that 8 x 8 pixels lie within the "
     "image, got 30 and 0"),
    ({"crop": (0, -1, 8, 8)}, ValueError,
     ".crop: expected a top of 0 to 28 and a left of 0 to 40, so that 8 x 8 pixels lie within the "
     "image, got 0 and -1"),
    ({"crop": (1, 2, 3)}, TypeError,
     ".crop: expected (height, width) or (top, left, height, width) in pixels, got (1, 2, 3)"),
    ({"channels_first": 1}, TypeError, ".channels_first: expected a bool, got int"),
    ({"dtype": torch.float64}, TypeError,
     ".dtype: expected uint8, float32, float16 or bfloat16 of front U8[36,48,3], got "
     "float64"),
    ({"dtype": torch.uint8, "normalize": "imagenet"}, ValueError,
     ".dtype: expected a floating type for normalized values, got uint8"),
    ({"channels_first": False, "normalize": "imagenet"}, ValueError,
     ".dtype: expected a floating type for normalized values, got None (channels_first=True has "
     "float32)"),
    ({"normalize": "imgnet"}, ValueError,
     ".normalize: expected imagenet, minus_one_to_one, mean_std, min_max, quantiles, quantile10, "
     "identity or (mean, std), got 'imgnet'"),
    ({"normalize": 0.5}, TypeError,
     ".normalize: expected imagenet, minus_one_to_one, a mode of rc.normalization or (mean, std), "
     "got 0.5"),
    ({"normalize": (0.5, 0.0)}, ValueError, ".normalize: expected deviations above 0, got 0.0"),
    ({"normalize": ((0.5, 0.5), 1.0)}, ValueError,
     ".normalize: expected 1 or 3 finite numbers for mean and for std, got (0.5, 0.5)"),
    ({"normalize": (float("nan"), 1.0)}, ValueError,
     ".normalize: expected 1 or 3 finite numbers for mean and for std, got nan"),
    ({"normalize": ("a", 1.0)}, ValueError,
     ".normalize: expected 1 or 3 finite numbers for mean and for std, got 'a'"),
]  # fmt: skip


def refused(store: rc.EpisodeStore, windows: Any, **options: Any) -> tuple[type[Exception], str]:
    with pytest.raises((TypeError, ValueError)) as caught:
        rc.Loader(store, 4, windows, anchor="q", device="cpu", **options)
    return caught.type, str(caught.value)


@pytest.mark.parametrize(("options", "error", "message"), WRONG, ids=[w[2][:60] for w in WRONG])
def test_options_of_images(
    store: rc.EpisodeStore, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    windows = {"q": None, "front": rc.Window([0.0], image=rc.Image(**options))}
    assert refused(store, windows) == (error, f"image['front']{message}")


def test_streams_without_images(store: rc.EpisodeStore) -> None:
    image = rc.Image(resize=(8, 8))
    assert refused(store, {"q": rc.Window([0.0], image=image)}) == (
        ValueError,
        "image['q']: expected a stream of images, [H,W] or [H,W,C] of uint8, uint16, float16 or "
        "float32 with at most 4 channels, got q F32[3]",
    )
    wrong: Any = "pad"
    assert refused(store, {"q": None, "front": rc.Window([0.0], image=wrong)}) == (
        TypeError,
        "image['front']: expected a rc.Image, got 'pad'",
    )
    for name, normalize in (
        ("gray", "imagenet"),
        ("depth", "imagenet"),
        ("depth", "minus_one_to_one"),
    ):
        named: Any = normalize
        window = rc.Window([0.0], method="previous", image=rc.Image(normalize=named))
        kind, message = refused(store, {"q": None, name: window})
        of = " of 3 colors" if normalize == "imagenet" else ""
        assert kind is ValueError
        assert message.startswith(
            f"image['{name}'].normalize: expected uint8 images{of} for '{normalize}', got {name} "
        )


def test_options_that_do_not_fit_each_other(store: rc.EpisodeStore) -> None:
    def message(options: dict[str, Any], **more: Any) -> str:
        window = rc.Window([0.0], image=rc.Image(normalize="imagenet"), **options)
        return refused(store, {"q": None, "front": window}, **more)[1]

    assert message({"normalize": "mean_std"}) == (
        "normalize['front']: expected None beside image (rc.Image(normalize=) takes its place), "
        "got 'mean_std'"
    )
    assert message({"dtype": torch.float16}) == (
        "dtype['front']: expected None beside image (rc.Image(dtype=) takes its place), got "
        "torch.float16"
    )
    assert message({"channels_first": True}) == (
        "channels_first['front']: expected False beside image (rc.Image(channels_first=) takes its "
        "place), got True"
    )
    assert message({"relative_to": "wrist"}) == (
        "relative_to['front']: expected None beside image, got 'wrist'"
    )
    assert message({"outside": "nan"}) == (
        "outside['front']: expected 'hold', 'zero' or 'extrapolate' beside image, got 'nan'"
    )
    assert message({}, normalize={"front": "mean_std"}) == (
        "normalize['front']: expected a mode in the image or in the loader's normalize, got "
        "'imagenet' and 'mean_std'"
    )
    assert message(
        {}, normalize=rc.Normalizer({"q": rc.Normalization(*torch.ones(2, 3).numpy())})
    ) == (
        "normalize['front']: expected None in the window, since the loader's normalize is a "
        "Normalizer, got 'imagenet'"
    )
    window = rc.Window([0.0], image=rc.Image(resize=(8, 8)))
    relative = rc.Relative("front", channels=[0, 1, 2])
    assert refused(store, {"q": rc.Window([0.0], relative_to=relative), "front": window})[1] == (
        "relative_to['q'].stream: expected a stream without image, got \"front\""
    )


@pytest.mark.parametrize("is_jpeg", [False, True])
def test_methods_that_mix_frames(tmp_path_factory: pytest.TempPathFactory, is_jpeg: bool) -> None:
    folder = tmp_path_factory.mktemp("methods")
    window = rc.Window([-0.03, 0.0], method="linear", image=rc.Image(crop=(20, 20)))
    message = refused(write_store(folder / "store", is_jpeg), {"q": None, "front": window})[1]
    assert message == (
        'method[\'front\']: expected "previous" or "nearest" with image, whose frames are not '
        'mixed, got "linear"'
    )


def test_unknown_options(store: rc.EpisodeStore) -> None:
    with pytest.raises(TypeError) as caught:
        rc.Loader(store, 4, image=rc.Image())  # type: ignore[call-arg]
    assert str(caught.value) == (
        "image: expected an option of rc.Loader, got 'image' (it is an option of a window: "
        "windows={'state': rc.Window([0.0], image=...)})"
    )
    with pytest.raises(TypeError) as caught:
        rc.Window([0.0], augment=[])  # type: ignore[call-arg]
    assert str(caught.value) == (
        "augment: expected an option of rc.Window, got 'augment' (it is an option of rc.Loader)"
    )
