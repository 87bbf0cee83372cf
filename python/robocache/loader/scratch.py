"""`Scratch`: memory that a call needs beside its batch, and the steps that use it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from robocache.loader.frames.decoder import FrameDecoder
from robocache.loader.images.stage import ImageStage, Places
from robocache.loader.plan import BatchMetadata

_ALIGNMENT = 256  # bytes between source frames of different windows
Allocator: TypeAlias = Callable[[Sequence[int], Sequence[int], torch.dtype], Tensor]


class Writer(NamedTuple):
    """Where a stream of a plan writes, if not all of a window is its own."""

    key: str  # the window's
    column: int = 0  # the first element of a row
    has_mask: bool = True  # whether it writes mask and age too
    is_numbers: bool = False  # whether it writes numbers of frames, and not values
    image: int | None = None  # the window of the ImageStage whose source frames it writes


class Empty(NamedTuple):
    """A tensor to be allocated, as torch's allocating function takes it."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype

    @classmethod
    def of(cls, shape: tuple[int, ...], dtype: torch.dtype) -> Empty:
        """A contiguous tensor."""
        return cls(shape, torch.empty(shape, device="meta").stride(), dtype)


class AddressBlock:
    """The addresses of one batch's tensors, as a call of the plan reads them; for one call.

    Args:
        template: A ctypes array of WindowOutput with the row strides, which is copied.
        scratch: The memory beside the batch.

    Attributes:
        slots: The elements of its array of WindowOutput.
        metadata: Its BatchMetadata.
        windows_address: The address of that array.
        metadata_address: The address of that BatchMetadata.
        is_kept: Whether it is of a batch that is reused, and keeps that batch's addresses.
        scratch: Memory that the call needs beside the batch, and the steps after it: numbers of
            frames, source frames of images and workspaces.
        numbers: The address of the numbers of each window of frames, by key.
        source_frames: The address of the source frames of each window of the ImageStage.
        frames: Outputs of the decoder; None without one.
        images: Arguments of the ImageStage; None without one.
    """

    def __init__(self, template: Any, scratch: Scratch) -> None:
        self._array = type(template).from_buffer_copy(template)
        self.slots = list(self._array)
        self.metadata = BatchMetadata()
        self.windows_address = ctypes.addressof(self._array)
        self.metadata_address = ctypes.addressof(self.metadata)
        self.is_kept = False
        self.scratch: list[Tensor] = []
        self.numbers: dict[str, int] = {}
        self.source_frames: list[int] = []
        self.frames = None if scratch.decoder is None else scratch.decoder.make_outputs()
        self.images = None if scratch.images is None else scratch.images.make_arguments()


class ScratchSizes(NamedTuple):
    """The tensors beside a batch of some size."""

    numbers: Empty | None  # of the frames of all windows, one after the other
    workspace: Empty | None  # of the decoder
    images: Empty | None  # source frames, one window's after the other's, workspace and epoch
    frame_begins: tuple[int, ...]  # bytes before the source frames of each window
    workspace_begin: int  # bytes before the workspace of the ImageStage
    epoch_begin: int

    @property
    def all(self) -> list[Empty]:
        """The tensors that batches need."""
        found = (self.numbers, self.workspace, self.images)
        return [each for each in found if each is not None]


class Scratch:
    """Allocates the memory beside batches, and runs the steps after the plan: frames and images.

    Args:
        windows: The number of offsets of each window, by key.
        frame_keys: Windows whose streams write numbers of JPEG frames.
        slots: The writers, with indices of their WindowOutputs.
        decoder: Decodes frames; None: nothing does.
        images: Makes images of source frames; None: there are none.
    """

    def __init__(
        self,
        windows: Mapping[str, int],
        frame_keys: Sequence[str],
        slots: Sequence[tuple[Writer, int]],
        decoder: FrameDecoder | None,
        images: ImageStage | None,
    ) -> None:
        self.decoder, self.images = decoder, images
        self._steps = {key: windows[key] for key in frame_keys}
        self._number_slots = {
            key: [i for writer, i in slots if writer.key == key and writer.is_numbers]
            for key in frame_keys
        }
        count = 0 if images is None else len(images.windows)
        self._frame_slots = [
            [i for writer, i in slots if writer.image == number and not writer.is_numbers]
            for number in range(count)
        ]

    @property
    def is_used(self) -> bool:
        """Whether batches need any."""
        return bool(self._steps) or self.images is not None

    def sizes(self, size: int) -> ScratchSizes:
        """The tensors of a batch of `size` samples."""
        numbers = workspace = images = None
        begins: list[int] = []
        end = workspace_begin = epoch_begin = 0
        if self._steps:
            numbers = Empty.of((size * sum(self._steps.values()),), torch.int64)
        if self.decoder is not None:
            workspace = Empty.of((self.decoder.workspace_bytes(size),), torch.uint8)
        if self.images is not None:
            for window in self.images.windows:
                begins.append(end)
                end += _aligned(size * window.spec.sample_bytes)
            workspace_begin = end
            epoch_begin = end + _aligned(self.images.workspace_bytes(size))
            images = Empty.of((epoch_begin + 8,), torch.uint8)
        return ScratchSizes(numbers, workspace, images, tuple(begins), workspace_begin, epoch_begin)

    def fill(
        self,
        size: int,
        block: AddressBlock,
        wanted: ScratchSizes,
        empty: Allocator,
        addresses: Callable[[str], tuple[int, int]],
    ) -> None:
        """Allocates the tensors of a batch, and sets the addresses of its block.

        Args:
            size: B.
            block: The batch's, with the addresses of the metadata.
            wanted: The result of :meth:`sizes`.
            empty: Allocates them.
            addresses: The addresses of a window's values and mask, by key.
        """
        block.scratch, block.numbers, block.source_frames = [], {}, []
        if self.images is not None:
            self._fill_images(size, block, wanted, empty, addresses)
        if wanted.numbers is not None:
            block.scratch.append(empty(*wanted.numbers))
            address = block.scratch[-1].data_ptr()
            for key, slots in self._number_slots.items():
                for i in slots:
                    block.slots[i].values = address
                block.numbers[key] = address
                address += 8 * size * self._steps[key]
        if self.decoder is not None:
            assert wanted.workspace is not None
            # Last, where `complete` finds it.
            block.scratch.append(empty(*wanted.workspace))
            places = []
            for window in self.decoder.windows:
                values, is_pad = addresses(window.key)
                if window.image is not None:
                    values = block.source_frames[window.image]
                places.append((block.numbers[window.key], values, is_pad))
            self.decoder.set_outputs(block.frames, size, places)

    def _fill_images(
        self,
        size: int,
        block: AddressBlock,
        wanted: ScratchSizes,
        empty: Allocator,
        addresses: Callable[[str], tuple[int, int]],
    ) -> None:
        assert self.images is not None and wanted.images is not None
        memory = empty(*wanted.images)
        block.scratch.append(memory)
        begin = memory.data_ptr()
        block.source_frames = [begin + offset for offset in wanted.frame_begins]
        places = []
        for number, window in enumerate(self.images.windows):
            for i in self._frame_slots[number]:
                block.slots[i].values = block.source_frames[number]
            values, is_pad = addresses(window.key)
            places.append(Places(block.source_frames[number], is_pad, values))
        metadata = block.metadata
        metadata.epoch = begin + wanted.epoch_begin if self.images.is_random else None
        self.images.set_arguments(
            block.images,
            places,
            metadata,
            begin + wanted.workspace_begin,
            wanted.epoch_begin - wanted.workspace_begin,
        )

    def source_frames(self, size: int, block: AddressBlock, key: str) -> Tensor:
        """The source frames of a window of a batch: [B,K,...], or without the axis."""
        assert self.images is not None
        number = self.images.number_of(key)
        spec, memory = self.images.windows[number].spec, block.scratch[0]
        begin = block.source_frames[number] - memory.data_ptr()
        frames = memory[begin : begin + size * spec.sample_bytes].view(spec.torch_dtype)
        steps = (len(spec.offsets),) if spec.has_axis else ()
        return frames.view(size, *steps, *spec.shape)

    def decode(self, block: AddressBlock, stream: int) -> None:
        """Decodes the JPEG frames of a batch, after the call that wrote their numbers.

        Args:
            block: The batch's.
            stream: The CUDA stream; 0 on the CPU.
        """
        if self.decoder is not None:
            self.decoder.decode(block.frames, block.scratch[-1], stream)

    def make_images(self, block: AddressBlock, size: int, stream: int, is_random: bool) -> None:
        """Makes the images of a batch, whose source frames and masks are complete.

        Args:
            block: The batch's.
            size: B.
            stream: The CUDA stream; 0 on the CPU.
            is_random: Whether random steps apply, with the epoch that the plan wrote.
        """
        if self.images is not None:
            self.images.run(block.images, size, stream, is_random)


def _aligned(count: int) -> int:
    return -(-count // _ALIGNMENT) * _ALIGNMENT
