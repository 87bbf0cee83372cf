"""Parses `rc.Window(image=)` into geometry, layout, type and scale."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from robocache.core import dtypes
from robocache.core.checks import check_bool
from robocache.image.image import Image
from robocache.image.spec import MAX_SIDE, RESIZE_FILTERS, RESIZE_MODES, ImageSpec
from robocache.loader.window import Window
from robocache.normalization.formulas import MODES, Normalization
from robocache.normalization.normalizer import Normalizer
from robocache.store.stream_info import MAX_COLORS, StreamInfo, is_image

_TYPES = ("U8", "U16", "F16", "F32")  # of source frames
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_IN_PLACE_OF = ("normalize", "dtype", "channels_first")  # options of rc.Window


class ImageOutput(NamedTuple):
    """How the images of a window are written."""

    geometry: ImageSpec | None  # None: frames are written as they are
    channels_first: bool
    dtype: torch.dtype
    scale: Normalization | None  # [C]


def check_images(streams: Mapping[str, StreamInfo], windows: Mapping[str, Window]) -> None:
    """Checks that windows with `image` are of streams of images, and have no option twice.

    Raises:
        TypeError, ValueError: `<option>[<stream>]: expected ..., got ...`.
    """
    for key, window in windows.items():
        image: Any = window.image
        if image is None:
            continue
        if not isinstance(image, Image):
            raise TypeError(f"image[{key!r}]: expected a rc.Image, got {image!r}")
        info = streams[key]
        if not _is_raster(info):
            raise ValueError(
                f"image[{key!r}]: expected a stream of images, [H,W] or [H,W,C] of uint8, uint16, "
                f"float16 or float32 with at most {MAX_COLORS} channels, got {info}"
            )
        for option in _IN_PLACE_OF:
            value, default = getattr(window, option), getattr(Window, option)
            if value is not default and value != default:
                raise ValueError(
                    f"{option}[{key!r}]: expected {default!r} beside image (rc.Image({option}=) "
                    f"takes its place), got {value!r}"
                )
        if window.relative_to is not None:
            raise ValueError(
                f"relative_to[{key!r}]: expected None beside image, got {window.relative_to!r}"
            )
        if window.outside == "nan":
            raise ValueError(
                f"outside[{key!r}]: expected 'hold', 'zero' or 'extrapolate' beside image, got "
                "'nan'"
            )


def normalization_mode(window: Window) -> Any:
    """The mode of :func:`robocache.normalization` that a window declares, in either place."""
    if window.image is None:
        return window.normalize
    mode = window.image.normalize
    return mode if isinstance(mode, str) and mode in MODES else None


def fixed_scales(
    streams: Mapping[str, StreamInfo], windows: Mapping[str, Window], normalize: object
) -> dict[str, tuple[str | None, Normalization]]:
    """Name and scale of the windows whose images are normalized without statistics.

    Args:
        streams: Of the batch.
        windows: The user's.
        normalize: That of the loader.

    Raises:
        TypeError, ValueError: `image[<stream>].normalize: expected ..., got ...`.
    """
    found: dict[str, tuple[str | None, Normalization]] = {}
    for key, window in windows.items():
        given: Any = None if window.image is None else window.image.normalize
        if given is None or normalization_mode(window) is not None:
            continue
        name = f"image[{key!r}].normalize"
        if isinstance(given, str):
            found[key] = given, _named_scale(name, streams[key], given)
        else:
            found[key] = None, _scale_of_pair(name, streams[key], given)
        if isinstance(normalize, Normalizer):
            raise ValueError(
                f"normalize[{key!r}]: expected None in the window, since the loader's normalize is "
                f"a Normalizer, got {given!r}"
            )
        if isinstance(normalize, Mapping) and key in normalize:
            raise ValueError(
                f"normalize[{key!r}]: expected a mode in the image or in the loader's normalize, "
                f"got {given!r} and {normalize[key]!r}"
            )
    return found


def parse_image(
    info: StreamInfo, image: Image, scale: Normalization | None, center: float | None
) -> ImageOutput:
    """How the images of a window are written.

    Args:
        info: Its stream.
        image: The user's options.
        scale: Its normalization, or None.
        center: The counterpart of its random steps; None: it has none.

    Raises:
        TypeError, ValueError: `image[<stream>].<option>: expected ..., got ...`.
    """
    name = f"image[{info.name!r}]"
    check_bool(f"{name}.channels_first", image.channels_first)
    geometry = _geometry(name, info, image)
    dtype, scale = _type_and_scale(name, info, image, scale)
    is_first = image.channels_first
    if scale is not None:
        scale = _of_channels(f"{name}.normalize", scale, _channels(info))
    # Frames that stay as they are: the plan writes them without a step of their own. Its scales are
    # those of process_images only with channels first.
    is_simple = is_image(info) and (is_first if scale is not None else not is_first)
    height, width = info.shape[:2]
    is_whole = geometry.crop in (None, (0, 0, height, width))
    if center is None and is_simple and is_whole and geometry.size == (height, width):
        return ImageOutput(None, is_first, dtype, scale)
    return ImageOutput(geometry._replace(center=center or 1.0), is_first, dtype, scale)


def _is_raster(info: StreamInfo) -> bool:
    has_axes = len(info.shape) == 2 or (len(info.shape) == 3 and info.shape[2] <= MAX_COLORS)
    return info.type_name in _TYPES and has_axes and not info.is_ragged


def _channels(info: StreamInfo) -> int:
    return info.shape[2] if len(info.shape) == 3 else 1


# ---- geometry ------------------------------------------------------------------------------------


def _geometry(name: str, info: StreamInfo, image: Image) -> ImageSpec:
    """The geometry, with the size of the output."""
    height, width = info.shape[:2]
    mode, chosen = image.mode, image.filter
    if mode not in RESIZE_MODES:
        raise ValueError(f"{name}.mode: expected stretch, pad or crop, got {mode!r}")
    if mode != "stretch" and image.resize is None:
        raise ValueError(f"{name}.mode: expected 'stretch' without resize, got {mode!r}")
    if chosen is not None and chosen not in RESIZE_FILTERS:
        raise ValueError(f"{name}.filter: expected bilinear, nearest or masked, got {chosen!r}")
    crop = _crop(f"{name}.crop", image.crop, height, width)
    size = (height, width) if crop is None else crop[2:]
    option = "crop" if crop is not None else "resize"
    if image.resize is not None:
        given = _integers(f"{name}.resize", image.resize, (2,), "(height, width)")
        size, option = (given[0], given[1]), "resize"
    if not all(1 <= side <= MAX_SIDE for side in size):
        got = f"{size[0]} x {size[1]}"
        raise ValueError(
            f"{name}.{option}: expected outputs of 1 to {MAX_SIDE} pixels in height and width, got "
            f"{got}"
        )
    if chosen is None:
        chosen = "bilinear" if info.type_name == "U8" else "nearest"
    return ImageSpec(size, mode, chosen, crop)


def _crop(name: str, crop: Any, height: int, width: int) -> tuple[int, int, int, int] | None:
    """(top, left, height, width) of a crop, which lies within the image."""
    if crop is None:
        return None
    given = _integers(name, crop, (2, 4), "(height, width) or (top, left, height, width)")
    rows, columns = given[-2:]
    if not (1 <= rows <= height and 1 <= columns <= width):
        raise ValueError(
            f"{name}: expected a height of 1 to {height} and a width of 1 to {width}, those of the "
            f"image, got {rows} x {columns}"
        )
    top, left = given[:2] if len(given) == 4 else ((height - rows) // 2, (width - columns) // 2)
    if not (0 <= top <= height - rows and 0 <= left <= width - columns):
        raise ValueError(
            f"{name}: expected a top of 0 to {height - rows} and a left of 0 to {width - columns}, "
            f"so that {rows} x {columns} pixels lie within the image, got {top} and {left}"
        )
    return top, left, rows, columns


def _integers(name: str, given: Any, counts: Sequence[int], expected: str) -> tuple[int, ...]:
    is_list = isinstance(given, Sequence) and not isinstance(given, (str, bytes))
    if (
        not is_list
        or len(given) not in counts
        or any(isinstance(n, bool) or not isinstance(n, numbers.Integral) for n in given)
    ):
        raise TypeError(f"{name}: expected {expected} in pixels, got {given!r}")
    return tuple(int(number) for number in given)


# ---- types and scales ----------------------------------------------------------------------------


def _type_and_scale(
    name: str, info: StreamInfo, image: Image, scale: Normalization | None
) -> tuple[torch.dtype, Normalization | None]:
    """The type of the output, and the scale that it needs."""
    own, wanted = dtypes.BY_STORED_NAME[info.type_name], image.dtype
    known = (own, *(dtype for dtype in _FLOATS if dtype != own))
    if wanted is not None and wanted not in known:
        names = [dtypes.dtype_name(dtype) for dtype in known]
        raise TypeError(
            f"{name}.dtype: expected {', '.join(names[:-1])} or {names[-1]} of {info}, got "
            f"{dtypes.dtype_text(wanted)}"
        )
    dtype = wanted or (torch.float32 if image.channels_first else own)
    if dtype.is_floating_point:
        if scale is None and own == torch.uint8:
            scale = Normalization(np.zeros(1), np.full(1, 1 / 255))
    elif scale is not None:
        got = "None" if wanted is None else dtypes.dtype_name(wanted)
        raise ValueError(
            f"{name}.dtype: expected a floating type for normalized values, got {got}"
            + ("" if wanted is not None else " (channels_first=True has float32)")
        )
    return dtype, scale


def _named_scale(name: str, info: StreamInfo, given: str) -> Normalization:
    known = ("imagenet", "minus_one_to_one")
    if given not in known:
        expected = ", ".join((*known, *MODES[:-1])) + f", {MODES[-1]} or (mean, std)"
        raise ValueError(f"{name}: expected {expected}, got {given!r}")
    needed = 3 if given == "imagenet" else _channels(info)
    if info.type_name != "U8" or _channels(info) != needed:
        colors = " of 3 colors" if given == "imagenet" else ""
        raise ValueError(f"{name}: expected uint8 images{colors} for {given!r}, got {info}")
    if given == "minus_one_to_one":
        return Normalization(np.full(1, 127.5), np.full(1, 1 / 127.5))
    mean, std = map(np.array, _IMAGENET)
    return Normalization(mean * 255, 1 / (std * 255))


def _scale_of_pair(name: str, info: StreamInfo, given: Any) -> Normalization:
    """The scale of (mean, std): of values from 0 to 1 of bytes, of the values of other types."""
    is_pair = isinstance(given, Sequence) and not isinstance(given, (Normalization, bytes))
    if not is_pair or len(given) != 2:
        raise TypeError(
            f"{name}: expected imagenet, minus_one_to_one, a mode of rc.normalization or (mean, "
            f"std), got {given!r}"
        )
    channels = _channels(info)
    mean, std = (_vector(name, part, channels) for part in given)
    if not (std > 0).all():
        raise ValueError(f"{name}: expected deviations above 0, got {given[1]!r}")
    unit = 255 if info.type_name == "U8" else 1
    return Normalization(mean * unit, 1 / (std * unit))


def _vector(name: str, given: Any, channels: int) -> NDArray[np.float64]:
    """One number, or one of each channel."""
    try:
        found: NDArray[np.float64] = np.asarray(given, np.float64).reshape(-1)
    except (TypeError, ValueError):
        found = np.full(1, math.nan)
    if len(found) not in (1, channels) or not np.isfinite(found).all():
        of = "1 finite number" if channels == 1 else f"1 or {channels} finite numbers"
        raise ValueError(f"{name}: expected {of} for mean and for std, got {given!r}")
    return np.resize(found, channels)


def _of_channels(name: str, scale: Normalization, channels: int) -> Normalization:
    """A scale with a number for each channel, of one that may have one for all."""

    def spread(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        array: NDArray[np.float64] = np.asarray(numbers, np.float64).reshape(-1)
        if len(array) not in (1, channels):
            raise ValueError(
                f"{name}: expected {channels} channels of images, got {len(array)} numbers"
            )
        return np.resize(array, channels)

    return Normalization(*map(spread, scale))
