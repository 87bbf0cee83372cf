"""`ImageStage`: makes the images of a batch of source frames, which plan and decoder have made."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from robocache.core import dtypes
from robocache.image import library as _library
from robocache.image.augment import CameraAugment
from robocache.image.plan import AugmentPlan
from robocache.loader.plan import BatchMetadata
from robocache.loader.window_spec import WindowSpec

EVERY_DATA_SET = -1
"""The `dataset_index` of windows of a loader of one store."""


class ImageWindow(NamedTuple):
    """A window of images of a batch, or of a part of a mixture."""

    key: str
    spec: WindowSpec  # with `image`
    augment: AugmentPlan | None  # the random steps
    dataset_index: int = EVERY_DATA_SET  # whose samples it makes the images of

    def in_mixture(self, key: str, dataset_index: int, seed: int) -> ImageWindow:
        """The window of a loader's part of a mixture, which draws by the mixture's seed."""
        augment = None
        if self.augment is not None:
            augment = AugmentPlan.from_buffer_copy(self.augment)
            augment.seed = seed
        return self._replace(key=key, augment=augment, dataset_index=dataset_index)


class Places(NamedTuple):
    """The addresses of a window in a batch."""

    frames: int
    is_pad: int
    images: int


class _Arguments:
    """The arguments of a call, with the addresses of a batch."""

    def __init__(self, template: Any) -> None:
        self.windows = type(template).from_buffer_copy(template)
        self.address = ctypes.addressof(self.windows)
        self.samples = _library.Samples()
        self.epoch: int | None = None
        self.workspace = self.workspace_bytes = 0


class ImageStage:
    """Resizes, augments, normalizes and casts the images of batches.

    Args:
        windows: All windows of images of a batch.
        device: Where batches are made.

    Attributes:
        windows: As above.
        is_random: Whether a window has random steps.
    """

    def __init__(self, windows: Sequence[ImageWindow], device: torch.device) -> None:
        self.windows = tuple(windows)
        self.is_random = any(window.augment is not None for window in windows)
        self._is_cuda = device.type == "cuda"
        self._numbers = {window.key: number for number, window in enumerate(windows)}
        self._template = (_library.Window * len(self.windows))()
        for to, window in zip(self._template, self.windows, strict=True):
            _set_window(to, window)
        self._process = _library.load().robocache_process_images

    def number_of(self, key: str) -> int:
        """The index of a window among `windows`."""
        return self._numbers[key]

    def workspace_bytes(self, size: int) -> int:
        """Bytes of the workspace for a batch of `size` samples."""
        return _library.workspace_bytes(self._template, size, self._is_cuda)

    def make_arguments(self) -> _Arguments:
        """Arguments of :meth:`run`, whose addresses :meth:`set_arguments` sets."""
        return _Arguments(self._template)

    def set_arguments(
        self,
        arguments: Any,
        places: Sequence[Places],
        metadata: BatchMetadata,
        workspace: int,
        workspace_bytes: int,
    ) -> None:
        """Sets the addresses of a batch.

        Args:
            arguments: The result of :meth:`make_arguments`.
            places: Of each window.
            metadata: Of the batch's samples.
            workspace: The address of memory of `workspace_bytes`.
            workspace_bytes: As :meth:`workspace_bytes` returns, or more.
        """
        for window, (frames, is_pad, images) in zip(arguments.windows, places, strict=True):
            window.frames, window.is_pad, window.out = frames, is_pad, images
        samples = arguments.samples
        samples.dataset_index = metadata.dataset_index
        samples.episode_index = metadata.episode_index
        samples.frame_index = metadata.frame_index
        arguments.epoch = metadata.epoch
        arguments.workspace, arguments.workspace_bytes = workspace, workspace_bytes

    def run(self, arguments: Any, size: int, stream: int, is_random: bool) -> None:
        """Makes the images of a batch.

        Args:
            arguments: The result of :meth:`make_arguments`, with addresses.
            size: B.
            stream: The CUDA stream; 0 on the CPU.
            is_random: Whether random steps apply, and not their centered counterpart.
        """
        arguments.samples.epoch = arguments.epoch if is_random else None
        status = self._process(
            arguments.address,
            len(self.windows),
            size,
            arguments.samples,
            arguments.workspace,
            arguments.workspace_bytes,
            self._is_cuda,
            stream,
        )
        _library.check(status)


def make_stage(
    windows: Sequence[WindowSpec], augments: Mapping[str, CameraAugment], device: torch.device
) -> ImageStage | None:
    """The stage of a loader's windows; None without any image that is processed.

    Args:
        windows: All windows of a batch.
        augments: The random steps of some.
        device: Where batches are made.
    """
    images = [
        ImageWindow(
            window.name, window, augments[window.name].plan if window.name in augments else None
        )
        for window in windows
        if window.image is not None
    ]
    return ImageStage(images, device) if images else None


def _set_window(to: Any, window: ImageWindow) -> None:
    """Sets the fields of a structure that do not depend on the batch."""
    spec, image = window.spec, window.spec.image
    assert image is not None
    _library.set_spec(to, image)
    to.subtract[:], to.multiply[:] = [0.0] * 4, [1.0] * 4
    if spec.normalization is not None:
        for name, numbers in spec.normalization._asdict().items():
            getattr(to, name)[: spec.image_channels] = numbers.tolist()
    if window.augment is not None:
        to.augment = ctypes.addressof(window.augment)
    to.frames_per_sample = len(spec.offsets)
    to.height, to.width = spec.shape[:2]
    to.channels = spec.image_channels
    to.out_height, to.out_width = image.output_size(*spec.shape[:2])
    to.dtype = dtypes.NUMBERS[spec.torch_dtype]
    to.out_dtype = dtypes.NUMBERS[spec.torch_out_dtype]
    to.channels_first = spec.channels_first
    to.dataset_index = window.dataset_index
