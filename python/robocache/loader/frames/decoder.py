"""`FrameDecoder`: decodes the JPEG frames of a batch, whose numbers a plan has written."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from robocache.loader.frames import library as _library
from robocache.loader.frames.conversion import make_stream
from robocache.loader.window_spec import WindowSpec

STREAM_BYTES = 1 << 13
"""The most bytes of a robocache::JpegStream, of which a decoder has one for each stream."""


class FrameStream(NamedTuple):
    """Frames of one data set, for one window of a batch."""

    window: WindowSpec  # of the decoded images
    arrays: _library.Arrays
    layout: _library.Layout


class FrameWindow(NamedTuple):
    """A window of JPEG frames in a batch: the streams that its numbers select from."""

    key: str
    steps: int  # K
    streams: Sequence[FrameStream]
    image: int | None = None  # the window of the ImageStage whose source frames these are


class FrameDecoder:
    """Decodes windows of JPEG frames.

    Args:
        windows: All such windows of a batch.
        device: Where batches are made.
        kept: Owners of the memory of the windows' arrays.
        damaged: The counter of another decoder of this device, which counts for both; None: a new
            counter.

    Attributes:
        windows: As above.
        damaged: [1] int64, the number of frames without an image so far.
    """

    def __init__(
        self,
        windows: Sequence[FrameWindow],
        device: torch.device,
        kept: Any,
        damaged: Tensor | None = None,
    ) -> None:
        library = _library.load()
        self.windows = tuple(windows)
        if damaged is None:
            damaged = torch.zeros(1, dtype=torch.int64, device=device)
        self.damaged = damaged
        self._is_cuda = device.type == "cuda"
        self._kept = kept
        # Outputs of a group share a launch: those with one layout and one kind of pixels.
        groups: dict[tuple[Any, ...], list[tuple[int, list[bytes]]]] = {}
        structures: dict[tuple[Any, ...], tuple[_library.Layout, _library.Pixels]] = {}
        for number, window in enumerate(windows):
            for stream in window.streams:
                made, pixels = make_stream(stream.window, stream.arrays)
                kind = (*_members(stream.layout), *_members(pixels))
                structures[kind] = stream.layout, pixels
                outputs = groups.setdefault(kind, [])
                if not outputs or outputs[-1][0] != number:
                    outputs.append((number, []))
                outputs[-1][1].append(made)
        streams: list[bytes] = []
        outputs_of: list[tuple[int, int, int]] = []  # (window, first stream, streams)
        self._groups = (_library.Group * len(groups))()
        for group, (kind, outputs) in zip(self._groups, groups.items(), strict=True):
            group.layout, group.pixels = structures[kind]
            group.output_count = len(outputs)
            for number, of_window in outputs:
                outputs_of.append((number, len(streams), len(of_window)))
                streams += of_window
        joined = np.frombuffer(b"".join(streams), np.uint8).copy()
        self._streams = torch.from_numpy(joined).to(device)
        self._outputs = outputs_of
        self._decode = library.robocache_decode_frames

    def make_outputs(self) -> Any:
        """A ctypes array for :meth:`decode`, whose addresses :meth:`set_outputs` sets."""
        array = (_library.Output * len(self._outputs))()
        for output, (_, first, count) in zip(array, self._outputs, strict=True):
            output.first_stream, output.stream_count = first, count
        return array

    def set_outputs(self, array: Any, size: int, places: Sequence[tuple[int, int, int]]) -> None:
        """Sets the addresses of a batch.

        Args:
            array: The result of :meth:`make_outputs`.
            size: B, the samples of the batch.
            places: For each window the addresses of numbers [B,K], values and padding mask [B,K].
        """
        for output, (number, _, _) in zip(array, self._outputs, strict=True):
            output.numbers, output.values, output.is_pad = places[number]
            output.count = size * self.windows[number].steps

    def workspace_bytes(self, size: int) -> int:
        """Bytes of the workspace for a batch of `size` samples."""
        most, begin = 0, 0
        for group in self._groups:
            outputs = self._outputs[begin : begin + group.output_count]
            begin += group.output_count
            count = sum(size * self.windows[number].steps for number, _, _ in outputs)
            most = max(most, _library.workspace_bytes(group.layout, count, self._is_cuda))
        return most

    def decode(self, outputs: Any, workspace: Tensor | None, stream: int) -> None:
        """Decodes the frames of a batch.

        Args:
            outputs: An array of :meth:`make_outputs`, with addresses.
            workspace: Of :meth:`workspace_bytes`, or None.
            stream: The CUDA stream; 0 on the CPU.
        """
        status = self._decode(
            self._streams.data_ptr(),
            ctypes.addressof(self._groups),
            len(self._groups),
            ctypes.addressof(outputs),
            self.damaged.data_ptr(),
            None if workspace is None else workspace.data_ptr(),
            0 if workspace is None else workspace.nbytes,
            self._is_cuda,
            stream,
        )
        _library.check(status)


def _members(structure: ctypes.Structure) -> tuple[Any, ...]:
    return tuple(getattr(structure, field[0]) for field in structure._fields_)
