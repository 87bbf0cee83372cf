"""`JpegFrames`: the frames of a camera as JPEG files, decoded when they are used."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robocache.core.checks import check_bool, check_integer
from robocache.core.ragged import ArraySequence, RaggedArray, of_checked_offsets
from robocache.core.threads import cores, thread_pool
from robocache.jpeg import library as jpeg_library
from robocache.jpeg.encoded import FRAMES_PER_MEASUREMENT, EncodedFrames, record, squared_error
from robocache.jpeg.library import FRAME, LARGEST_SIDE, UPRIGHT

Shape: TypeAlias = tuple[int, int, int]
T = TypeVar("T")


def _map(function: Callable[[int], T], count: int) -> list[T]:
    """`function` of 0 to count - 1, in threads if there are several."""
    if count < 2:
        return [function(i) for i in range(count)]
    return [*thread_pool("jpeg").map(function, range(count))]


class JpegFrames(ArraySequence):
    """Frames of one size, stored as JPEG: `frames[i]` decodes one, `numpy.asarray(frames)` all.

    Decoding is libjpeg-turbo's, with its default settings: the bytes that Pillow gives. Slices and
    index arrays are frames that are not decoded yet.

    Args:
        files: N rows of bytes: the files.
        shape: (H, W, C) of the decoded frames: at most 4096 pixels; C is 3 for RGB, 1 for gray.
        indices: Their indices, as a store has them.

    Raises:
        TypeError: The files are not rows of bytes, or a size is no integer.
        ValueError: The shape is not (H, W, C).

    Example:
        >>> frames = rc.JpegFrames.from_files([path.read_bytes() for path in paths])
        >>> frames.shape, frames[3].shape
        ((120, 480, 640, 3), (480, 640, 3))
    """

    def __init__(
        self, files: RaggedArray, shape: Sequence[int], indices: FrameIndices | None = None
    ) -> None:
        if not isinstance(files, RaggedArray):
            raise TypeError(
                f"files: expected a RaggedArray, got {type(files).__name__} (JpegFrames.from_files "
                "takes a list of files)"
            )
        if files.dtype != np.uint8 or files.item_shape:
            raise TypeError(f"files: expected rows of bytes, got {files}")
        if not files.items.flags.c_contiguous:
            files = of_checked_offsets(np.ascontiguousarray(files.items), files.offsets)
        self.files = files
        """The files: a RaggedArray of N rows of bytes."""
        self.frame_shape: Shape = _checked_shape(shape)
        """(H, W, C)."""
        self.indices = indices
        """The indices of frames in a store, by which a GPU decodes them; else None."""
        self.encoded: EncodedFrames | None = None
        """How :meth:`encode` encoded the frames; None: they are files of others. Slices lose it."""
        self._indexed: tuple[FrameIndices, NDArray[np.int32]] | None = None

    def indexed(self, mcus_per_entry: int) -> tuple[FrameIndices, NDArray[np.int32]]:
        """The indices and statuses of the frames by their files, computed on the first call."""
        if self._indexed is None or self._indexed[0].mcus_per_entry != mcus_per_entry:
            self._indexed = index_frames(self, mcus_per_entry)
        return self._indexed

    @classmethod
    def from_files(cls, files: Iterable[bytes | NDArray[np.uint8]]) -> JpegFrames:
        """Collects JPEG files of frames of one size.

        Raises:
            TypeError: A file is not bytes.
            ValueError: There are none, one is no upright baseline JPEG of 8 bits, or they differ in
                size or colors; the message has its index.
        """
        if isinstance(files, (bytes, bytearray, memoryview, str)):
            raise TypeError(
                f"files: expected a list of files, got {type(files).__name__} (one file is [file])"
            )
        rows = [_bytes_of(f"files[{i}]", file) for i, file in enumerate(files)]
        if not rows:
            raise ValueError("files: expected at least 1 frame, got none")
        shapes = [_inspected(f"files[{i}]", row) for i, row in enumerate(rows)]
        for i, shape in enumerate(shapes):
            if shape != shapes[0]:
                raise ValueError(
                    f"files[{i}]: expected {_text(shapes[0])}, as files[0], got {_text(shape)}"
                )
        return cls(RaggedArray.from_rows(rows), shapes[0])

    @classmethod
    def encode(
        cls, pixels: ArrayLike, quality: int = 95, *, full_chroma: bool = False
    ) -> JpegFrames:
        """Encodes frames as JPEG, by libjpeg-turbo.

        One frame in 16 is decoded again: `encoded` has its PSNR.

        Args:
            pixels: [N,H,W,C] uint8, C of 1 or 3; N of 1 or more.
            quality: 1 to 100.
            full_chroma: Color at full resolution (4:4:4) in place of half (4:2:0).

        Raises:
            TypeError: The pixels are not uint8, the quality is no int, or `full_chroma` no bool.
            ValueError: The shape or the quality is out of range.
        """
        array = np.asarray(pixels)
        if array.dtype != np.uint8:
            raise TypeError(f"pixels: expected uint8, got {array.dtype}")
        if array.ndim != 4 or 0 in array.shape or array.shape[3] not in (1, 3):
            raise ValueError(f"pixels: expected [N,H,W,C], C of 1 or 3, got {list(array.shape)}")
        quality = check_integer("quality", quality, 1, 100)
        check_bool("full_chroma", full_chroma)

        def encoded(i: int) -> NDArray[np.uint8]:
            frame = np.ascontiguousarray(array[i])
            return np.frombuffer(jpeg_library.encode(frame, quality, full_chroma), np.uint8)

        def error(i: int) -> float:
            row = i * FRAMES_PER_MEASUREMENT
            return squared_error(array[row], frames[row])

        frames = cls(RaggedArray.from_rows(_map(encoded, len(array))), array.shape[1:])
        errors = np.array(_map(error, -(-len(array) // FRAMES_PER_MEASUREMENT)))
        frames.encoded = record(len(array), quality, array.shape[3], full_chroma, errors)
        return frames

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(N, H, W, C) of the decoded frames."""
        return (len(self), *self.frame_shape)

    @property
    def dtype(self) -> np.dtype[np.uint8]:
        """Element type of the decoded frames: uint8."""
        return np.dtype(np.uint8)

    @property
    def ndim(self) -> int:
        """4."""
        return 4

    @property
    def nbytes(self) -> int:
        """Size of the files, in bytes."""
        return int(self.files.items.nbytes)

    def __len__(self) -> int:
        return len(self.files)

    @overload
    def __getitem__(self, index: int) -> NDArray[np.uint8]: ...

    @overload
    def __getitem__(self, index: slice | ArrayLike) -> JpegFrames: ...

    def __getitem__(self, index: Any) -> NDArray[np.uint8] | JpegFrames:
        """Decodes frame `index`; a slice or an array of indices gives frames without decoding.

        A frame that cannot be decoded is zeros; `decode` returns which ones are.

        Raises:
            IndexError: A frame is out of range.
            TypeError: `index` is no integer, slice, or array of integers or bool.
        """
        if isinstance(index, slice) or np.ndim(index):
            indices = None if self.indices is None else self.indices[index]
            return JpegFrames(self.files[index], self.frame_shape, indices)
        out = np.empty(self.frame_shape, np.uint8)
        jpeg_library.decode(self.files[operator.index(index)], out)
        return out

    def decode(self) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Decodes all frames, in threads.

        Returns:
            The pixels [N,H,W,C], and for each frame whether it has an image; others are zeros.
        """
        out = np.empty(self.shape, np.uint8)
        statuses = _map(lambda i: jpeg_library.decode(self.files[i], out[i]), len(self))
        return out, np.isin(statuses, (jpeg_library.OK, jpeg_library.DAMAGED))

    def chunks(self, chunk_bytes: int) -> Iterator[NDArray[np.uint8]]:
        """Decodes all frames, in chunks [n,H,W,C] of about `chunk_bytes` bytes."""
        step = max(1, chunk_bytes // math.prod(self.frame_shape))
        for begin in range(0, len(self), step):
            yield self[begin : begin + step].decode()[0]

    def sampled_bytes(self, step: int) -> NDArray[np.uint8]:
        """Decodes all frames, in threads, and keeps every `step`-th byte of each: [N, m].

        Raises:
            TypeError, ValueError: The step is no int of 1 or more.
        """
        step = check_integer("step", step, 1)
        out = np.empty((len(self), -(-math.prod(self.frame_shape) // step)), np.uint8)

        def sample(i: int) -> None:
            out[i] = self[i].reshape(-1)[::step]

        _map(sample, len(self))
        return out

    def __array__(
        self, dtype: np.dtype[Any] | None = None, copy: bool | None = None
    ) -> NDArray[Any]:
        """Decodes all frames: [N,H,W,C].

        Raises:
            ValueError: `copy` is False: the pixels are not in memory.
        """
        if copy is False:
            raise ValueError("copy: expected None or True for frames that are decoded, got False")
        return self.decode()[0].astype(dtype or np.uint8, copy=False)

    def __repr__(self) -> str:
        height, width, channels = self.frame_shape
        return f"JpegFrames({len(self)} of {width}x{height}x{channels}, {self.nbytes:,} bytes)"


@dataclass(frozen=True)
class FrameIndices:
    """The indices of frames, with which a GPU decodes them: robocache/jpeg.h describes an entry."""

    entries: RaggedArray
    """N rows of uint64; a frame without an index has none."""
    scan_bits: NDArray[np.uint32]
    """[N], the bits of each frame's plain scan."""
    mcus_per_entry: int
    """Minimum coded units per entry."""

    def __getitem__(self, index: Any) -> FrameIndices:
        """The indices of some frames: a slice, or an array of indices."""
        return FrameIndices(self.entries[index], self.scan_bits[index], self.mcus_per_entry)


def index_frames(frames: JpegFrames, mcus_per_entry: int) -> tuple[FrameIndices, NDArray[np.int32]]:
    """Computes the indices of frames, in threads.

    Returns:
        The indices, and the status of each frame.
    """
    items, offsets = frames.files.items, frames.files.offsets
    height, width, channels = frames.frame_shape
    parts = _parts(len(frames))

    def inspected(part: slice) -> NDArray[np.void]:
        begin, end = offsets[part.start], offsets[part.stop]
        return jpeg_library.inspect(
            items[begin:end], offsets[part.start : part.stop + 1], mcus_per_entry
        )

    found = np.concatenate(_map(lambda i: inspected(parts[i]), len(parts)) or [np.empty(0, FRAME)])
    statuses = found["status"].copy()
    fits = (found["height"] == height) & (found["width"] == width)
    fits &= found["components"] == channels
    statuses[(statuses == jpeg_library.OK) & ~fits] = jpeg_library.OTHER_SHAPE
    lengths = np.where(statuses == jpeg_library.OK, found["index_size"], 0)
    places = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    entries = np.empty(places[-1], np.uint64)
    scan_bits = np.zeros(len(frames), np.uint32)

    def index(part: slice) -> None:
        ends = slice(part.start, part.stop + 1)
        jpeg_library.index(
            items[offsets[part.start] : offsets[part.stop]],
            offsets[ends],
            mcus_per_entry,
            entries[places[part.start] : places[part.stop]],
            places[ends],
            scan_bits[part],
            statuses[part],
        )

    _map(lambda i: index(parts[i]), len(parts))
    is_indexed = (statuses == jpeg_library.OK) | (statuses == jpeg_library.DAMAGED)
    if not is_indexed[lengths > 0].all():
        entries = entries[np.repeat(is_indexed, lengths)]
        places = np.concatenate([[0], np.cumsum(lengths * is_indexed)])
    is_turned = found["orientation"] != UPRIGHT
    statuses[is_indexed & is_turned] = jpeg_library.NOT_UPRIGHT
    ragged = of_checked_offsets(entries, places)
    return FrameIndices(ragged, scan_bits, mcus_per_entry), statuses


def _parts(count: int) -> list[slice]:
    """Ranges that divide so many frames among the threads, some for each."""
    parts = min(count, 4 * cores())
    bounds = np.linspace(0, count, parts + 1).astype(int).tolist()
    return [slice(a, b) for a, b in pairwise(bounds)]


def _checked_shape(shape: Sequence[int]) -> Shape:
    """(H, W, C) as ints.

    Raises:
        TypeError: A size is no integer.
        ValueError: It is not (H, W, C), or a size is out of range.
    """
    if not isinstance(shape, Sequence) or len(shape) != 3 or shape[2] not in (1, 3):
        raise ValueError(f"shape: expected (H, W, C), C of 1 or 3, got {shape!r}")
    height, width = (check_integer(f"shape[{i}]", shape[i], 1, LARGEST_SIDE) for i in range(2))
    return height, width, int(shape[2])


def _bytes_of(name: str, file: object) -> NDArray[np.uint8]:
    """A file as an array.

    Raises:
        TypeError: It is not bytes.
    """
    got = type(file).__name__
    if isinstance(file, np.ndarray):
        if file.dtype == np.uint8 and file.ndim == 1:
            return np.ascontiguousarray(file)
        got = f"{file.dtype}{list(file.shape)}"
    elif isinstance(file, (bytes, bytearray, memoryview)):
        return np.frombuffer(file, np.uint8)
    raise TypeError(f"{name}: expected bytes, or an array [n] of uint8, got {got}")


def _inspected(name: str, file: NDArray[np.uint8]) -> Shape:
    """(H, W, C) of an upright baseline JPEG.

    Raises:
        ValueError: It is none.
    """
    frame = jpeg_library.inspect_file(file)
    status = int(frame["status"])
    if status != jpeg_library.OK:
        raise ValueError(
            f"{name}: expected baseline JPEG, got {jpeg_library.describe(status)} "
            "(JpegFrames.encode takes pixels)"
        )
    return int(frame["height"]), int(frame["width"]), int(frame["components"])


def _text(shape: Shape) -> str:
    height, width, channels = shape
    return f"{width}x{height}x{channels}"
