"""Streams of encoded images: decoded, or kept as the recording's JPEG files.

A stream is pixels or JPEG frames, as its first image decides. Baseline JPEG that is upright is kept
byte for byte; JPEG of other kinds is rewritten with the same pixels; what cannot be (turned by
EXIF, CMYK, or no JPEG) is encoded again, with a note. A frame that is damaged keeps its bytes, and
its row is not valid.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from robocache.core.extras import require
from robocache.core.ragged import RaggedArray
from robocache.jpeg import encoded as encoded_frames
from robocache.jpeg import library as jpeg_library
from robocache.jpeg.frames import JpegFrames
from robocache.jpeg.library import MCUS_PER_ENTRY, UPRIGHT
from robocache.readers.errors import RecordingError
from robocache.readers.images import FORMATS, Pixels, decode, fit, fitted_bytes, pool
from robocache.readers.options import ReadOptions
from robocache.readers.rows import CHUNK_BYTES, Rows, Times, rows_per_chunk

AGAIN_QUALITY = 95
"""The quality of frames of a JPEG stream that must be encoded again, with color at full size."""

_BEGINS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")
_JPEG_BEGINS = _BEGINS[0][:2]
_LEAST_BYTES = 100  # of a row that may be a file; no JPEG or PNG is smaller
_PEEKED_ROWS = 16


@dataclass(frozen=True)
class JpegFile:
    """A frame as a file of baseline JPEG."""

    data: NDArray[np.uint8]
    shape: tuple[int, int, int]
    """[H,W,C] of the decoded frame."""
    change: Literal["rewritten", "encoded"] | None = None
    """Whether the file is another than the recording's: of the same pixels, or encoded again."""
    error: float = 0.0
    """Mean squared error of a file that was encoded again."""
    is_valid: bool = True
    """Whether the file has an image; others keep the recording's bytes."""

    @property
    def dtype(self) -> np.dtype[np.uint8]:
        """Element type of the decoded frame."""
        return np.dtype(np.uint8)

    @property
    def nbytes(self) -> int:
        """Size of the file."""
        return len(self.data)

    def decode(self) -> Pixels:
        """The pixels."""
        out = np.empty(self.shape, np.uint8)
        jpeg_library.decode(self.data, out)
        return out


Image = Pixels | JpegFile


def is_encoded(data: bytes) -> bool:
    """Whether bytes begin as a JPEG or PNG file does."""
    return data.startswith(_BEGINS)


def may_be_files(dtype: np.dtype[Any], shape: Sequence[int]) -> bool:
    """Whether rows of an array of this type and shape may be files, padded to one length."""
    if dtype == np.uint8:
        return len(shape) == 2 and shape[1] >= _LEAST_BYTES
    is_bytes = dtype.kind in "SV" and dtype.names is None and dtype.subdtype is None
    return is_bytes and len(shape) == 1 and dtype.itemsize >= _LEAST_BYTES


def left_out(kind: str, dtype: np.dtype[Any], may_be_files: bool, name: str) -> str:
    """The note on "arrays" or "datasets" of a type that is no stream's, nor files of images."""
    rows = "rows of bytes that are no images" if may_be_files else f"type {dtype}"
    return f"{kind} of {rows} left out ({name})"


def unpadded(row: Any) -> bytes:
    """The file in a row of bytes, which zeros pad to the length of others."""
    data: bytes = row if isinstance(row, bytes) else row.tobytes()
    return data.rstrip(b"\0")


def first_file(files: Iterable[bytes]) -> bytes:
    """The first file that has bytes, of the first rows; none if they are empty."""
    return next(filter(None, islice(files, _PEEKED_ROWS)), b"")


def frame_bytes(file: bytes, options: ReadOptions) -> int:
    """Bytes of the pixels of a file at the size of `options`, by its header; 0 if it has none."""
    image_module = require("PIL.Image", "images", "images")
    try:
        with image_module.open(io.BytesIO(file), formats=FORMATS) as image:
            channels = 1 if image.mode in ("L", "1") else 4 if "A" in image.mode else 3
            return fitted_bytes((image.height, image.width, channels), 1, options)
    except Exception:  # Pillow raises anything; reading the rows reports it
        return 0


def read(data: bytes, name: str, options: ReadOptions) -> Image:
    """An encoded image as the options ask for it: its pixels at their size, or a file.

    Raises:
        RecordingError, MissingLibrary: As :func:`images.decode`.
    """
    if options.keeps_files and data[:2] == _JPEG_BEGINS:
        file = np.frombuffer(data, np.uint8)
        kept = _kept(file, None)
        if kept is None and (rewritten := jpeg_library.rewrite(file)) is not None:
            # EXIF is left out of a rewritten file: that of the recording's counts.
            is_upright = jpeg_library.inspect_file(file)["orientation"] == UPRIGHT
            kept = _kept(np.frombuffer(rewritten, np.uint8), "rewritten") if is_upright else None
        if kept is not None:
            return kept
        if options.encoding.kind == "keep":
            return encoded(decode(data, name))
    return fit(decode(data, name), options)


def _kept(file: NDArray[np.uint8], change: Literal["rewritten"] | None) -> JpegFile | None:
    frame = jpeg_library.inspect_file(file)
    if frame["status"] != jpeg_library.OK:
        return None
    shape = int(frame["height"]), int(frame["width"]), int(frame["components"])
    return JpegFile(file, shape, change)


def encoded(pixels: Pixels) -> Image:
    """Pixels as JPEG; themselves if JPEG has no such images."""
    if pixels.dtype != np.uint8 or pixels.shape[2] not in (1, 3):
        return pixels
    data = jpeg_library.encode(np.ascontiguousarray(pixels), AGAIN_QUALITY, full_chroma=True)
    file = JpegFile(np.frombuffer(data, np.uint8), (*pixels.shape[:2], pixels.shape[2]), "encoded")
    error = encoded_frames.squared_error(pixels, file.decode())
    return JpegFile(file.data, file.shape, file.change, error)


@dataclass(frozen=True)
class Damaged:
    """An image that cannot be decoded."""

    data: bytes
    error: RecordingError


def try_read(data: bytes, name: str, options: ReadOptions) -> Image | Damaged:
    """As :func:`read`; where files are kept, an image that cannot be decoded is no error yet."""
    try:
        return read(data, name, options)
    except RecordingError as error:
        if not options.keeps_files:
            raise
        return Damaged(data, error)


class Unifier:
    """Makes the images of a stream all files, or all pixels, as the first one is."""

    def __init__(self) -> None:
        self._shape: tuple[int, int, int] | None = None  # of files
        self._is_first = True
        self._error: RecordingError | None = None  # of an image before the first one

    def take(self, image: Image | Damaged) -> Image | None:
        """The next image, encoded or decoded if it is not what the first one was.

        None for a damaged image before the first one.

        Raises:
            RecordingError: An image is damaged in a stream of pixels.
        """
        if isinstance(image, Damaged):
            if self._shape is not None:
                return JpegFile(np.frombuffer(image.data, np.uint8), self._shape, is_valid=False)
            if not self._is_first:
                raise image.error
            self._error = self._error or image.error
            return None
        if self._is_first:
            self._is_first = False
            self._shape = image.shape if isinstance(image, JpegFile) else None
            if self._shape is None and self._error is not None:
                raise self._error
        if self._shape is None:
            return image.decode() if isinstance(image, JpegFile) else image
        return image if isinstance(image, JpegFile) else encoded(image)

    def finish(self) -> None:
        """Ends the stream.

        Raises:
            RecordingError: All images are damaged.
        """
        if self._is_first and self._error is not None:
            raise self._error


def joined(
    images: Sequence[Image], stream: str, notes: Counter[str]
) -> tuple[NDArray[Any] | JpegFrames, NDArray[np.bool_] | None]:
    """Images of one shape and kind as values of rows, and whether each is valid; None: all.

    Args:
        images: Pixels [H,W,C], or files; at least one.
        stream: Their stream.
        notes: Of the recording.
    """
    files = [image for image in images if isinstance(image, JpegFile)]
    if not files:
        return np.stack([np.asarray(image) for image in images]), None
    frames = JpegFrames(RaggedArray.from_rows([file.data for file in files]), files[0].shape)
    rewritten = sum(file.change == "rewritten" for file in files)
    if rewritten:
        notes[f"images of {stream} rewritten as baseline JPEG of the same pixels"] += rewritten
    again = np.array([file.error for file in files if file.change == "encoded"])
    if len(again):
        notes[
            f"images of {stream} encoded again as JPEG of quality {AGAIN_QUALITY}: only upright "
            "baseline JPEG of gray or of 4:4:4, 4:2:2, 4:4:0 or 4:2:0 color is kept"
        ] += len(again)
        channels = frames.frame_shape[2]
        frames.encoded = encoded_frames.record(len(again), AGAIN_QUALITY, channels, True, again)
    return frames, _validity(frames, np.array([f.is_valid for f in files]), stream, notes)


def _validity(
    frames: JpegFrames, valid: NDArray[np.bool_], stream: str, notes: Counter[str]
) -> NDArray[np.bool_] | None:
    valid = valid & (frames.indexed(MCUS_PER_ENTRY)[1] == jpeg_library.OK)
    damaged = len(valid) - int(np.count_nonzero(valid))
    if damaged:
        notes[
            f"images of {stream} that are damaged, their bytes kept and their rows marked as not "
            "valid"
        ] += damaged
    return valid if damaged else None


def image_rows(
    stream: str,
    times: Times,
    files: Iterable[bytes],
    where: Callable[[int], str],
    path: Path,
    notes: Counter[str],
    options: ReadOptions,
) -> Iterator[Rows]:
    """The rows of a stream of encoded images, in chunks of bounded size, read on all cores.

    Args:
        stream: Its name.
        times: [n] nanoseconds.
        files: The file of each row, in order.
        where: The place of a row, for errors.
        path: For errors: the recording.
        notes: Of the recording.
        options: How to read images.

    Raises:
        RecordingError: For an image that cannot be decoded, if the stream is pixels; and for images
            of several sizes where no `resize` is asked.
    """
    remaining = iter(files)
    unifier = Unifier()
    early: list[bytes] = []  # damaged, before the first image
    first: Image | None = None
    for row, data in enumerate(remaining):
        first = unifier.take(try_read(data, where(row), options))
        early.append(data)
        if first is not None:
            break
    unifier.finish()
    if first is None:
        return
    remaining, at = chain(early, remaining), 0
    while chunk := _chunk(remaining, first):
        found = _plain_files(chunk, first) if isinstance(first, JpegFile) else None
        if found is None:

            def load(i: int, chunk: list[bytes] = chunk, at: int = at) -> Image | Damaged:
                return try_read(chunk[i], where(at + i), options)

            images = []
            for i, image in enumerate(pool().map(load, range(len(chunk)))):
                taken = unifier.take(image)
                assert taken is not None
                if taken.shape != first.shape or taken.dtype != first.dtype:
                    raise RecordingError(
                        f"{path}: expected images of one size in {stream}, got "
                        f"{_size(first)} and, in row {at + i}, {_size(taken)} "
                        f"({_way_out(first, taken)})"
                    )
                images.append(taken)
            values, valid = joined(images, stream, notes)
        else:
            values = found
            valid = _validity(found, np.ones(len(found), np.bool_), stream, notes)
        yield Rows(stream, times[at : at + len(chunk)], values, valid=valid)
        at += len(chunk)


def _chunk(files: Iterator[bytes], first: Image) -> list[bytes]:
    """The next files, for a chunk of rows of about `CHUNK_BYTES` at most."""
    if not isinstance(first, JpegFile):
        return list(islice(files, rows_per_chunk(first.nbytes)))
    chunk, size = [], 0
    for data in files:
        chunk.append(data)
        size += len(data)
        if size >= CHUNK_BYTES:
            break
    return chunk


def _plain_files(files: Sequence[bytes], first: JpegFile) -> JpegFrames | None:
    """Files as frames, if all are upright baseline JPEG of the size of the first one."""
    # NumPy's arrays are in huge pages, which take the system a tenth of the time to provide.
    items = np.concatenate([np.frombuffer(file, np.uint8) for file in files])
    offsets = np.zeros(len(files) + 1, np.int64)
    np.cumsum([len(file) for file in files], out=offsets[1:])
    frames = jpeg_library.inspect(items, offsets)
    is_plain = (frames["status"] == jpeg_library.OK) & (frames["orientation"] == UPRIGHT)
    height, width, components = first.shape
    is_plain &= (frames["height"] == height) & (frames["width"] == width)
    is_plain &= frames["components"] == components
    return JpegFrames(RaggedArray(items, offsets), first.shape) if is_plain.all() else None


def _way_out(a: Image, b: Image) -> str:
    """How to convert a recording whose stream has images of two shapes or types."""
    if (a.shape[2], a.dtype) == (b.shape[2], b.dtype):
        return "resize makes them one"
    return "--no-images, or images=False, leaves images out"


def _size(image: Image) -> str:
    return f"{image.shape[1]}x{image.shape[0]}x{image.shape[2]} {image.dtype}"
