"""Draws images.png for images.md: a generated camera frame as JPEG of three qualities.

Prints the bytes and PSNR of the page's first table. Run in the repository's root:
python docs/draw_images.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import robocache as rc
from robocache.demo import scene

QUALITIES = (80, 90, 95)
CUT = (slice(185, 275), slice(235, 355))  # of the frame: edges, a round shape, plain surfaces
ZOOM = 4
SEED = 3

Pixels = NDArray[np.uint8]


def frame() -> Pixels:
    """The generated depth camera's color image, [480,640,3]."""
    colors = scene.make_scene(np.random.default_rng(SEED)).colors
    pixels: Pixels = np.rint(colors.reshape(scene.HEIGHT, scene.WIDTH, 3) * 255).astype(np.uint8)
    return pixels


def small(pixels: Pixels) -> Pixels:
    """The frame at 224 x 224: the mean of the pixels of a square, by Pillow's filter."""
    from PIL import Image

    square = pixels[:, (scene.WIDTH - scene.HEIGHT) // 2 :][:, : scene.HEIGHT]
    resized: Pixels = np.asarray(Image.fromarray(square).resize((224, 224), Image.Resampling.BOX))
    return resized


def rows(pixels: Pixels) -> list[tuple[str, int, float | None]]:
    """The name, bytes and PSNR in dB of each form of a frame."""
    found: list[tuple[str, int, float | None]] = [("raw", pixels.nbytes, None)]
    for quality in QUALITIES:
        for full_chroma in (False, True):
            frames = rc.JpegFrames.encode(pixels[None], quality, full_chroma=full_chroma)
            assert frames.encoded is not None
            name = f"jpeg:{quality}" + ":444" * full_chroma
            found.append((name, frames.nbytes, frames.encoded.psnr))
    return found


def draw(path: Path) -> None:
    """Draws a part of the frame in each form, enlarged, side by side."""
    from matplotlib.figure import Figure

    pixels = frame()
    forms = [("raw", pixels)]
    for quality in QUALITIES:
        forms.append((f"jpeg:{quality}", rc.JpegFrames.encode(pixels[None], quality)[0]))
    figure = Figure(figsize=(9.8, 7.9), dpi=100)
    for place, (name, image) in enumerate(forms):
        axes = figure.add_subplot(2, 2, place + 1)
        axes.imshow(image[CUT].repeat(ZOOM, 0).repeat(ZOOM, 1), interpolation="none")
        axes.set_title(name, fontsize=10)
        axes.set_axis_off()
    figure.tight_layout(pad=0.4)
    figure.savefig(path, metadata={"Software": None})


def main() -> None:
    """Writes the figure and prints the table."""
    draw(Path(__file__).with_name("images.png"))
    whole = frame()
    print("| form | 224 × 224: bytes | PSNR, dB | 640 × 480: bytes | PSNR, dB |")
    print("|---|---:|---:|---:|---:|")
    for (name, size, psnr), (_, size_whole, psnr_whole) in zip(
        rows(small(whole)), rows(whole), strict=True
    ):
        cells = [f"{psnr:.1f}" if psnr else "-", f"{size_whole:,}"]
        print(f"| `{name}` | {size:,} | {cells[0]} | {cells[1]} | "
              f"{f'{psnr_whole:.1f}' if psnr_whole else '-'} |")  # fmt: skip


if __name__ == "__main__":
    main()
