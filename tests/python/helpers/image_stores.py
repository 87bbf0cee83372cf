"""Stores of cameras and depth, random options for their images, and a plain torch reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

import robocache as rc

MS = 1_000_000
SIZES = {"front": (36, 48, 3), "wrist": (34, 50, 3), "gray": (17, 20, 1)}
"""The shapes of the cameras' frames, (height, width, channels)."""
ROWS, COLUMNS = 15, 22  # of depth

IMAGENET = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])


def scene(seed: int, height: int, width: int, channels: int) -> NDArray[np.uint8]:
    """A frame with edges and noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    ramp = np.stack([x * 4, y * 5, (x + y) * 2], axis=2)[:, :, :channels]
    frame = ramp + rng.integers(0, 40, ramp.shape)
    frame[seed % height :: 7, 3:8] = 255
    return frame.clip(0, 255).astype(np.uint8)


def write_store(folder: Path, is_jpeg: bool = False, sizes: Any = None) -> rc.EpisodeStore:
    """A store of three episodes with cameras and depth, and one without.

    Args:
        folder: Its folder.
        is_jpeg: Whether cameras are JPEG frames; else they are the pixels that these decode to.
        sizes: As SIZES, which it is by default.
    """
    sizes = sizes or SIZES
    with rc.StoreWriter(folder) as writer:
        for number in range(3):
            with writer.episode(source=str(number)) as episode:
                _add_cameras(episode, number, is_jpeg, sizes)
        with writer.episode(source="3") as episode:
            episode.add("q", np.arange(20) * 10 * MS, np.ones((20, 3), np.float32))
    return rc.EpisodeStore(folder)


def _add_cameras(episode: Any, number: int, is_jpeg: bool, sizes: Any) -> None:
    rng = np.random.default_rng(number)
    for key, (height, width, channels) in sizes.items():
        count = 12 + number
        frames = rc.JpegFrames.encode(
            np.stack([scene(50 * number + i, height, width, channels) for i in range(count)]),
            90,
            full_chroma=key == "front",
        )
        times = np.cumsum(rng.integers(20, 60, count)) * MS
        received = times + rng.integers(0, 15, count).cumsum() * MS // 10
        valid = rng.random(count) > 0.2
        values = frames if is_jpeg else np.asarray(frames)
        more = {"received": received} if key == "wrist" else {}
        episode.add(key, times, values, valid=valid, **more)
    times = np.arange(11) * 55 * MS
    depth = rng.integers(0, 4000, (11, ROWS, COLUMNS)).astype(np.uint16)
    depth[rng.random(depth.shape) < 0.2] = 0
    episode.add("depth", times, depth)
    lidar = rng.random((11, ROWS, COLUMNS, 1)).astype(np.float32)
    lidar[rng.random(lidar.shape) < 0.1] = np.nan
    episode.add("lidar", times, lidar)
    episode.add("q", np.arange(60) * 10 * MS, rng.random((60, 3)).astype(np.float32))


def random_image(rng: np.random.Generator, shape: tuple[int, ...], is_depth: bool) -> rc.Image:
    """Options of an image of source frames of a shape."""
    height, width = shape[:2]
    options: dict[str, Any] = {}
    kind = rng.integers(4)
    if kind == 1:
        options["crop"] = (int(rng.integers(1, height + 1)), int(rng.integers(1, width + 1)))
    elif kind == 2:
        rows, columns = int(rng.integers(1, height)), int(rng.integers(1, width))
        top, left = int(rng.integers(height - rows + 1)), int(rng.integers(width - columns + 1))
        options["crop"] = (top, left, rows, columns)
    if rng.random() < 0.8:
        options["resize"] = (int(rng.integers(1, 60)), int(rng.integers(1, 60)))
        options["mode"] = str(rng.choice(["stretch", "pad", "crop"]))
    if rng.random() < 0.5:
        options["filter"] = str(rng.choice(["bilinear", "nearest", "masked"]))
    options["channels_first"] = bool(rng.random() < 0.6)
    if rng.random() < 0.6:
        floats = [torch.float32, torch.float16, torch.bfloat16]
        options["dtype"] = floats[rng.integers(3)]
        names: list[Any] = [None, (0.4, 0.3)]
        if not is_depth:
            names += ["minus_one_to_one"] + ["imagenet"] * (shape[2] == 3)
        options["normalize"] = names[rng.integers(len(names))]
    elif rng.random() < 0.5 and not is_depth:
        options["dtype"] = torch.uint8
    return rc.Image(**options)


def random_options(seed: int) -> dict[str, Any]:
    """Options of a loader of such a store, with images of every kind."""
    rng = np.random.default_rng(seed)
    windows: dict[str, rc.Window] = {"q": rc.Window([0.0])}
    shapes = {**SIZES, "depth": (ROWS, COLUMNS), "lidar": (ROWS, COLUMNS, 1)}
    for key, shape in shapes.items():
        if rng.random() < 0.2:
            continue
        is_depth = key not in SIZES
        options: dict[str, Any] = {"method": str(rng.choice(["previous", "nearest"]))}
        options["outside"] = str(rng.choice(["hold", "zero", "extrapolate"]))
        options["causal"] = bool(rng.random() < 0.6)
        if rng.random() < 0.5:
            options["max_gap_s"] = 0.045
        if rng.random() < 0.8:
            options["image"] = random_image(rng, shape, is_depth)
        elif not is_depth:
            options["channels_first"] = True
        offsets = [[0.0], [-0.1, 0.0], [-0.03, -0.02, 0.1], None][rng.integers(4)]
        windows[key] = rc.Window(offsets, **options)
    return {
        "batch_size": int(rng.integers(1, 9)),
        "windows": windows,
        "anchor": "q",
        "seed": seed,
        "with_age": bool(rng.random() < 0.5),
        "reuse_buffers": bool(rng.random() < 0.5),
    }


def expected_images(frames: torch.Tensor, image: rc.Image) -> torch.Tensor:
    """Images of source frames [...,H,W,C] of uint8 by plain torch, float32 [...,C,h,w]."""
    leading = frames.shape[:-3]
    x = frames.flatten(0, -4).movedim(-1, 1).float()
    height, width = x.shape[2:]
    if image.crop is not None:
        rows, columns = image.crop[-2:]
        top, left = (
            image.crop[:2]
            if len(image.crop) == 4
            else ((height - rows) // 2, (width - columns) // 2)
        )
        x = x[:, :, top : top + rows, left : left + columns]
    if image.resize is not None:
        x = _resized(x, image.resize, image.mode)
    x = x / 255
    if image.normalize is not None:
        mean, std = {"imagenet": IMAGENET, "minus_one_to_one": (torch.tensor(0.5),) * 2}[
            str(image.normalize)
        ]
        x = (x - mean.reshape(-1, 1, 1)) / std.reshape(-1, 1, 1)
    return x.reshape(*leading, *x.shape[1:])


def _resized(x: torch.Tensor, size: tuple[int, int], mode: str) -> torch.Tensor:
    height, width = x.shape[2:]
    ratios = height / size[0], width / size[1]
    to = size
    if mode == "pad":  # openpi's resize_with_pad
        to = int(height / max(ratios)), int(width / max(ratios))
    elif mode == "crop":
        to = round(height / min(ratios)), round(width / min(ratios))
    x = functional.interpolate(x, to, mode="bilinear", antialias=True, align_corners=False)
    above, left = (size[0] - to[0]) // 2, (size[1] - to[1]) // 2  # negative: cropped
    return functional.pad(x, (left, size[1] - to[1] - left, above, size[0] - to[0] - above))
