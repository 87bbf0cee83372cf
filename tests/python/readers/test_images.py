"""Images: their size after resizing, and the decoding of files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jpegs import encoded
from numpy.typing import NDArray

from robocache.readers import ReadOptions, RecordingError, images
from robocache.readers.encoded_images import image_rows
from robocache.readers.rows import Rows

pytest.importorskip("PIL.Image", reason="images need Pillow")


# ---- sizes ---------------------------------------------------------------------------------------


def fitted(pixels: NDArray[Any], size: tuple[int, int], fit: Any) -> NDArray[Any]:
    out = images.fit(pixels, ReadOptions(resize=size, fit=fit))
    assert out.shape == (size[1], size[0], pixels.shape[2]) and out.dtype == pixels.dtype
    return out


def test_pad_keeps_all_of_the_image() -> None:
    white = np.full((40, 80, 3), 255, np.uint8)
    out = fitted(white, (20, 20), "pad")
    assert (out[5:15] == 255).all() and (out[:5] == 0).all() and (out[15:] == 0).all()
    assert (fitted(white, (80, 40), "pad") == white).all()


def test_crop_cuts_off_both_sides_equally() -> None:
    wide = np.repeat(np.arange(80, dtype=np.uint8)[None, :, None], 40, 0).repeat(3, 2)
    out = fitted(wide, (40, 40), "crop")
    assert (out[:, :, 0] == np.arange(20, 60)).all()


def test_stretch_changes_the_aspect() -> None:
    halves = np.concatenate([np.zeros((40, 40, 3)), np.full((40, 40, 3), 200)], 1).astype(np.uint8)
    out = fitted(halves, (8, 4), "stretch")
    assert (out[:, :3] == 0).all() and (out[:, 5:] == 200).all()


def test_reducing_does_not_alias() -> None:
    """A board of single pixels is gray from afar; taking every n-th pixel makes it black."""
    board = (np.indices((96, 96)).sum(0) % 2 * 255).astype(np.uint8)[:, :, None].repeat(3, 2)
    out = fitted(board, (12, 12), "stretch").astype(float)
    assert np.abs(out - 127.5).max() < 2


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 6])
def test_channels_are_resized_alike(channels: int) -> None:
    random = np.random.default_rng(0).integers(0, 256, (30, 40, channels), np.uint8)
    if channels == 4:
        random[..., 3] = 255  # opaque: colors are weighted by it
    out = fitted(random, (10, 10), "pad")
    for channel in range(channels):
        alone = fitted(random[:, :, channel : channel + 1], (10, 10), "pad")
        assert (out[:, :, channel] == alone[:, :, 0]).all()


def test_depth_takes_the_nearest_pixel() -> None:
    depth = np.arange(16, dtype=np.uint16).reshape(4, 4, 1) * 1000
    assert fitted(depth, (2, 2), "stretch")[:, :, 0].tolist() == [[5000, 7000], [13000, 15000]]
    assert fitted(depth, (8, 8), "stretch")[::2, ::2, 0].tolist() == depth[:, :, 0].tolist()


# ---- files ------------------------------------------------------------------------------------


def test_pictures_are_decoded() -> None:
    random = np.random.default_rng(0)
    for channels in (1, 3, 4):
        pixels = random.integers(0, 256, (20, 30, channels), np.uint8)
        assert (images.decode(encoded(pixels, "PNG"), "a") == pixels).all()
    depth = random.integers(0, 65536, (20, 30, 1), np.uint16)
    found = images.decode(encoded(depth, "PNG"), "a")
    assert found.dtype == np.uint16 and (found == depth).all()
    gray = np.full((20, 30, 3), 90, np.uint8)
    assert np.abs(images.decode(encoded(gray, "JPEG"), "a").astype(int) - 90).max() <= 1
    with pytest.raises(RecordingError, match="pixels from 70000 to 70000, beyond 16 bits"):
        images.decode(encoded(np.full((2, 2, 1), 70000, np.int32), "TIFF"), "a")
    with pytest.raises(RecordingError, match="floating pixels"):
        images.decode(encoded(np.full((2, 2, 1), 0.25, np.float32), "TIFF"), "a")


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_damaged_pictures(kind: str) -> None:
    data = encoded(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8), kind)
    for size in (0, 4, 30, len(data) // 2):
        with pytest.raises(RecordingError) as error:
            images.decode(data[:size], "file, row 3 of camera")
        expected = "file, row 3 of camera: expected an image (JPEG, PNG, WEBP, BMP, TIFF), got "
        expected += f"{size:,} bytes that begin with {data[:size][:8]!r}" if size else "no bytes"
        message = str(error.value)
        assert message.startswith(f"{expected}: " if size > 30 else expected)
        assert message == expected or size > 4


@pytest.mark.parametrize(
    ("frame", "depth", "text"),
    [
        (0xC1, 12, "a JPEG whose samples do not have 8 bits"),
        (0xC3, 8, "a lossless or hierarchical JPEG"),
    ],
)
def test_kinds_of_jpeg_that_no_decoder_reads_are_named(frame: int, depth: int, text: str) -> None:
    data = bytearray(encoded(np.zeros((16, 16, 3), np.uint8), "JPEG"))
    begin = data.index(b"\xff\xc0")
    data[begin + 1], data[begin + 4] = frame, depth
    with pytest.raises(RecordingError) as error:
        images.decode(bytes(data), "row 3 of camera")
    expected = f"row 3 of camera: expected an image (JPEG, PNG, WEBP, BMP, TIFF), got {text}"
    assert str(error.value).startswith(expected)


def test_pictures_of_several_sizes(tmp_path: Path) -> None:
    sizes = [(20, 30), (20, 30), (10, 10)]
    files = [encoded(np.full((*size, 3), row, np.uint8), "PNG") for row, size in enumerate(sizes)]

    def rows_of(options: ReadOptions) -> list[Rows]:
        where = "row {}".format
        return [*image_rows("camera", np.arange(3), files, where, tmp_path, Counter(), options)]

    with pytest.raises(RecordingError) as error:
        rows_of(ReadOptions())
    assert str(error.value) == (
        f"{tmp_path}: expected images of one size in camera, got 30x20x3 uint8 and, in row 2, "
        "10x10x3 uint8 (resize makes them one)"
    )
    (rows,) = rows_of(ReadOptions(resize=(12, 12), fit="stretch"))
    assert rows.values[:, 0, 0, 0].tolist() == [0, 1, 2]


def test_what_is_an_image() -> None:
    u8, f4 = np.dtype("u1"), np.dtype("f4")
    assert images.is_image((8, 8, 3), u8) and images.is_image((480, 640, 1), u8)
    assert not images.is_image((8, 8, 3), f4)
    assert not images.is_image((7, 8, 3), u8) and not images.is_image((8, 8), u8)
    assert not images.is_image((8, 8, 2), u8)
    notes: Counter[str] = Counter()
    images.leave_out("camera", notes)
    images.leave_out("camera", notes)
    assert notes == {"streams of images left out (camera)": 1}
