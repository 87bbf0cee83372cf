"""ctypes bindings of process_images: bindings/torch/images.cpp."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_double, c_int, c_int32, c_int64, c_void_p

import torch
from torch import Tensor

from robocache.core import dtypes
from robocache.core import library as _library
from robocache.image.spec import RESIZE_FILTERS, RESIZE_MODES, ImageSpec


class Window(ctypes.Structure):
    """A window of images, `robocache::ImageWindow`; its arrays are contiguous."""

    _fields_ = (
        ("center", c_double),
        ("subtract", c_double * 4),
        ("multiply", c_double * 4),
        ("augment", c_void_p),
        ("frames", c_void_p),
        ("is_pad", c_void_p),
        ("out", c_void_p),
        ("frames_per_sample", c_int64),
        ("dataset_index", c_int64),
        ("size", c_int32 * 2),
        ("crop", c_int32 * 4),
        ("mode", c_int32),
        ("filter", c_int32),
        ("height", c_int32),
        ("width", c_int32),
        ("channels", c_int32),
        ("dtype", c_int32),
        ("out_dtype", c_int32),
        ("out_height", c_int32),
        ("out_width", c_int32),
        ("channels_first", c_int32),
    )


class Samples(ctypes.Structure):
    """The samples of a batch, `robocache::ImageSamples`: addresses, 0 where absent."""

    _fields_ = (
        ("dataset_index", c_void_p),
        ("episode_index", c_void_p),
        ("frame_index", c_void_p),
        ("epoch", c_void_p),
    )


@functools.cache
def load() -> ctypes.CDLL:
    """The library, with the types of the functions of images.

    Raises:
        ImportError: The library is missing, or of another version.
    """
    library = _library.load()
    structures: dict[str, type[ctypes.Structure]] = {
        "ImageWindow": Window,
        "ImageSamples": Samples,
    }
    _library.check_layout(library, "robocache_images_layout", structures)
    library.robocache_images_workspace.argtypes = [
        c_void_p, c_int32, c_int64, c_int32, POINTER(c_int64),
    ]  # fmt: skip
    library.robocache_images_workspace.restype = c_int
    library.robocache_process_images.argtypes = [
        c_void_p, c_int32, c_int64, POINTER(Samples), c_void_p, c_int64, c_int32, c_void_p,
    ]  # fmt: skip
    library.robocache_process_images.restype = c_int
    return library


def check(status: int) -> None:
    """Raises the exception of a status that is not 0."""
    if status:
        _library.raise_failure(status, load().robocache_error())


def workspace_bytes(windows: ctypes.Array[Window], batch: int, is_cuda: bool) -> int:
    """Bytes of the workspace for the windows of a batch of so many samples."""
    found = c_int64()
    check(load().robocache_images_workspace(windows, len(windows), batch, is_cuda, byref(found)))
    return found.value


def process(
    windows: ctypes.Array[Window],
    batch: int,
    samples: Samples,
    workspace: Tensor | None,
    stream: int | None,
) -> None:
    """Processes the images of a batch's windows; with a `stream`, on the current CUDA device."""
    check(
        load().robocache_process_images(
            windows,
            len(windows),
            batch,
            samples,
            None if workspace is None else workspace.data_ptr(),
            0 if workspace is None else workspace.nbytes,
            stream is not None,
            stream,
        )
    )


def set_spec(window: Window, spec: ImageSpec) -> None:
    """Writes the geometry of a window."""
    window.size[:] = spec.size or (0, 0)
    window.crop[:] = spec.crop or (0, 0, 0, 0)
    window.mode = RESIZE_MODES.index(spec.mode)
    window.filter = RESIZE_FILTERS.index(spec.filter)
    window.center = spec.center


def process_frames(
    frames: Tensor,
    spec: ImageSpec,
    *,
    dtype: torch.dtype | None = None,
    channels_first: bool = False,
    subtract: Sequence[float] = (),
    multiply: Sequence[float] = (),
    augment: ctypes.Structure | None = None,
    samples: Mapping[str, Tensor] | None = None,
    is_pad: Tensor | None = None,
    frames_per_sample: int = 1,
) -> Tensor:
    """Processes frames [N,H,W,C] of one window, on their device: for tests and benchmarks.

    Args:
        frames: The source.
        spec: The geometry.
        dtype: The type of the output; None: the source's.
        channels_first: Whether the output is [N,C,h,w].
        subtract: A number per channel; (): zeros.
        multiply: A number per channel; (): ones.
        augment: The steps of an `AugmentPlan`, as a structure of ctypes.
        samples: Tensors by the names of the fields of `Samples`.
        is_pad: [N] bool, frames that are not augmented.
        frames_per_sample: Consecutive frames of one sample.
    """
    frames = frames.contiguous()
    count, height, width, channels = frames.shape
    out_height, out_width = spec.output_size(height, width)
    shape = [count, out_height, out_width, channels]
    if channels_first:
        shape = [count, channels, out_height, out_width]
    device = frames.device
    out = torch.empty(shape, dtype=dtype or frames.dtype, device=device)
    windows = (Window * 1)()
    window = windows[0]
    set_spec(window, spec)
    for c in range(4):
        window.subtract[c] = subtract[c] if c < len(subtract) else 0.0
        window.multiply[c] = multiply[c] if c < len(multiply) else 1.0
    window.augment = None if augment is None else ctypes.addressof(augment)
    window.frames = frames.data_ptr()
    window.is_pad = None if is_pad is None else is_pad.data_ptr()
    window.out = out.data_ptr()
    window.frames_per_sample = frames_per_sample
    window.dataset_index = -1
    window.height, window.width, window.channels = height, width, channels
    window.dtype, window.out_dtype = dtypes.NUMBERS[frames.dtype], dtypes.NUMBERS[out.dtype]
    window.out_height, window.out_width = out_height, out_width
    window.channels_first = channels_first
    batch = count // frames_per_sample
    is_cuda = device.type == "cuda"
    with torch.cuda.device(device) if is_cuda else contextlib.nullcontext():
        stream = torch.cuda.current_stream().cuda_stream if is_cuda else None
        bytes_needed = workspace_bytes(windows, batch, is_cuda)
        workspace = torch.empty(bytes_needed, dtype=torch.uint8, device=device)
        drawn = Samples(**{name: tensor.data_ptr() for name, tensor in (samples or {}).items()})
        process(windows, batch, drawn, workspace, stream)
    return out
