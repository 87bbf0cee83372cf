"""Windows of JPEG streams: the numbers of their frames, and the elements of their pixels."""

from __future__ import annotations

import ctypes
from ctypes import byref
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robocache.core import dtypes
from robocache.loader.frames import library as _library
from robocache.loader.plan import BatchPlan, WindowData, WindowOutput
from robocache.loader.sampling.sampler import Order
from robocache.loader.window_spec import WindowSpec
from robocache.normalization.formulas import Normalization

_CPU = torch.device("cpu")
_SIDE = 16  # of an image of all 256 bytes
_SELECTING = ("previous", "nearest")  # the methods that copy rows


def check_window(window: WindowSpec) -> None:
    """Checks that a window selects frames and does not mix them.

    Raises:
        ValueError: `<option>[<stream>]: expected ..., got ...`.
    """
    key, method = window.name, window.method
    if not window.by_rows and method not in _SELECTING:
        raise ValueError(
            f"method[{key!r}]: expected previous or nearest of JPEG frames, which are selected "
            f"and not mixed, got {method!r}"
        )
    if window.outside == "nan":
        raise ValueError(
            f"outside[{key!r}]: expected 'hold', 'zero' or 'extrapolate' of JPEG frames, got 'nan'"
        )
    _scale_of_colors(window)


def numbers_window(window: WindowSpec) -> WindowSpec:
    """The window of the numbers of a JPEG stream's frames: row i has number i + 1.

    A step's number is that of the frame that the image window has there, and 0 where that is
    zeros.
    """
    return replace(
        window,
        dtype="I64",
        shape=(),
        out_dtype="I64",
        channels=None,
        channels_first=False,
        image=None,
        normalization=None,
        normalize=None,
        encoding=None,
    )


def make_stream(window: WindowSpec, arrays: _library.Arrays) -> tuple[bytes, _library.Pixels]:
    """A robocache::JpegStream of frames and their conversion for a window, and its pixels."""
    channels = window.shape[2]
    scale = _scale_of_colors(window)
    table = _byte_elements(window, scale)
    pixels = _library.Pixels(
        dtypes.NUMBERS[window.torch_out_dtype], window.channels_first, channels
    )
    library = _library.load()
    stream = ctypes.create_string_buffer(library.robocache_frame_stream_bytes())
    subtract = None if scale is None else np.ascontiguousarray(scale.subtract, np.float64)
    multiply = None if scale is None else np.ascontiguousarray(scale.multiply, np.float64)
    _library.check(
        library.robocache_frame_stream(
            byref(arrays),
            None if subtract is None else subtract.ctypes.data,
            None if multiply is None else multiply.ctypes.data,
            table.ctypes.data,
            byref(pixels),
            stream,
        )
    )
    return stream.raw, pixels


def _scale_of_colors(window: WindowSpec) -> Normalization | None:
    """The normalization with one number per color, [C]; None without one.

    Raises:
        ValueError: Pixels of one color have different numbers.
    """
    if window.normalization is None:
        return None
    colors = window.shape[2]

    def of_colors(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        array: NDArray[np.float64] = np.asarray(numbers, np.float64).reshape(-1)
        if len(array) == 1:
            array = np.repeat(array, colors)
        rows = array.reshape(-1, colors)
        if (rows != rows[0]).any():
            raise ValueError(
                f"normalize[{window.name!r}]: expected one number per color of JPEG frames, got "
                "one per pixel"
            )
        first: NDArray[np.float64] = rows[0].copy()
        return first

    return Normalization(*(of_colors(numbers) for numbers in window.normalization))


def _byte_elements(window: WindowSpec, scale: Normalization | None) -> NDArray[np.uint64]:
    """[C,256] the bits of the element that a window makes of each byte, as for raw images."""
    colors = window.shape[2]
    shape = (_SIDE, _SIDE, colors)
    spec = WindowSpec(
        name=window.name,
        dtype="U8",
        shape=shape,
        timeline="rows",
        causal=False,
        method="previous",
        out_dtype=window.out_dtype,
        channels_first=window.channels_first,
    )
    compute = torch.float64
    if not window.channels_first:
        compute = dtypes.compute_dtype(torch.uint8, window.torch_out_dtype)

    def vector(numbers: NDArray[np.float64] | None) -> Tensor | None:
        if numbers is None:
            return None
        count = 1 if window.channels_first else _SIDE * _SIDE
        return torch.from_numpy(np.tile(numbers, count)).to(compute)

    image = torch.arange(256, dtype=torch.uint8, device=_CPU).repeat_interleave(colors).view(1, -1)
    data = WindowData(
        values=image,
        times=None,
        row_offsets=torch.tensor([0, 1], device=_CPU),
        value_begins=None,
        received=None,
        valid=None,
        window_offsets=torch.zeros(1, dtype=torch.int64, device=_CPU),
        subtract=vector(None if scale is None else scale.subtract),
        multiply=vector(None if scale is None else scale.multiply),
        reference_columns=None,
    )
    anchors, episodes = (torch.zeros(1, n, dtype=torch.int64, device=_CPU) for n in (2, 4))
    order = Order(1, 1, 0, False, False, 0, 1)
    plan = BatchPlan([spec], [data], anchors, episodes, order)
    made = torch.empty(spec.out_shape, dtype=window.torch_out_dtype, device=_CPU)
    index = torch.zeros(1, dtype=torch.int64, device=_CPU)
    output = WindowOutput(made.data_ptr(), spec.elements)
    plan.gather(index.data_ptr(), 1, ctypes.addressof(output), 0, 0)
    size = made.itemsize
    unsigned = made.view(torch.uint8).numpy().view(f"u{size}").astype(np.uint64)
    is_first = window.channels_first
    by_color = unsigned.reshape(colors, -1) if is_first else unsigned.reshape(-1, colors).T
    return np.ascontiguousarray(by_color)
