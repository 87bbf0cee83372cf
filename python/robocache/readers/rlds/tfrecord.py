"""TFRecord files and the `tf.train.Example` messages in them, without TensorFlow.

A record is its length (uint64), a checksum of those 8 bytes (uint32), the data and their checksum
(uint32), all little-endian. A checksum is a CRC-32C, masked: rotated right by 15 bits, plus a
constant (https://www.tensorflow.org/tutorials/load_data/tfrecord). An Example is a protocol buffer:
a map from names to lists of byte strings, of floats or of integers
(tensorflow/core/example/{example,feature}.proto); its wire format is small enough to read here
(https://protobuf.dev/programming-guides/encoding).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from robocache.core.extras import require
from robocache.readers.errors import RecordingError
from robocache.readers.varint import read_varint

Feature = list[bytes] | NDArray[np.float32] | NDArray[np.int64]

_LENGTH = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")

LEAST_RECORD = 16
"""Bytes of a record without data."""


# ---- records -------------------------------------------------------------------------------------


def masked_crc(data: bytes) -> int:
    """The checksum that a TFRecord has of some bytes."""
    library: Any = require("google_crc32c", "TFRecord", "rlds")
    crc: int = library.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record_offsets(path: Path) -> list[int]:
    """Where each record of a file begins. Reads the lengths only.

    Raises:
        RecordingError: For a file that is cut short or is not a TFRecord file.
    """
    offsets = []
    end = path.stat().st_size
    with path.open("rb") as file:
        at = 0
        while at < end:
            offsets.append(at)
            at += 16 + _read_length(file, path, at, end)
            file.seek(at)
    return offsets


def read_record(path: Path, offset: int) -> bytes:
    """The data of the record that begins at `offset`, by its checksums as they were written.

    Raises:
        RecordingError: For a record that is cut short or was altered.
    """
    end = path.stat().st_size
    with path.open("rb") as file:
        file.seek(offset)
        length = _read_length(file, path, offset, end)
        data = file.read(length)
        (checksum,) = _CHECKSUM.unpack(file.read(4))
    if masked_crc(data) != checksum:
        raise RecordingError(
            f"{path}: expected the record at byte {offset:,} to have the checksum {checksum:08x}, "
            f"got {masked_crc(data):08x}"
        )
    return data


def _read_length(file: BinaryIO, path: Path, offset: int, end: int) -> int:
    """The length of the record at `offset`, where the file is; it lies within the file."""
    head = file.read(12)
    if len(head) < 12:
        raise RecordingError(
            f"{path}: expected the 12 bytes before a record at byte {offset:,}, got {len(head)}"
        )
    length, checksum = _LENGTH.unpack(head)
    if masked_crc(head[:8]) != checksum:
        raise RecordingError(
            f"{path}: expected a TFRecord file, got no record at byte {offset:,} (the checksum of "
            "its length differs)"
        )
    if offset + 16 + length > end:
        raise RecordingError(
            f"{path}: expected a record of {length:,} bytes at byte {offset:,}, got a file that "
            f"ends {offset + 16 + length - end:,} bytes too early"
        )
    return int(length)


# ---- examples ------------------------------------------------------------------------------------

_VARINT, _I64, _BYTES, _I32 = 0, 1, 2, 5  # wire types


def parse_example(data: bytes) -> dict[str, Feature]:
    """The features of an Example: lists of byte strings, float32 arrays or int64 arrays.

    Raises:
        ValueError: For bytes that are no Example.
    """
    features: dict[str, Feature] = {}
    view = memoryview(data)
    for outer, message in _fields(view):
        if outer != 1:
            continue
        for inner, entry in _fields(message):
            if inner != 1:
                continue
            parts = dict(_fields(entry))
            name = bytes(parts.get(1, b"")).decode("utf-8")
            features[name] = _feature(parts.get(2, memoryview(b"")))
    return features


def _feature(message: memoryview) -> Feature:
    """A Feature: one of three kinds of list."""
    found: Feature = []
    for kind, values in _fields(message):
        if kind == 1:
            found = _strings(values)
        elif kind == 2:
            found = _floats(values)
        elif kind == 3:
            found = _integers(values)
    return found


def _strings(message: memoryview) -> list[bytes]:
    """`repeated bytes`. Without `_fields`, which takes longer than the copy of a small image."""
    found: list[bytes] = []
    at, end = 0, len(message)
    while at < end and message[at] == 1 << 3 | _BYTES:
        size, at = _varint(message, at + 1)
        if at + size > end:
            raise ValueError(f"a field of {size} bytes where {end - at} are left")
        found.append(bytes(message[at : at + size]))
        at += size
    return found + [bytes(value) for number, value in _fields(message[at:]) if number == 1]


def _floats(message: memoryview) -> NDArray[np.float32]:
    """`repeated float`, packed or one by one."""
    parts = [np.frombuffer(value, "<f4") for number, value in _fields(message) if number == 1]
    return _join(parts, np.float32)


def _integers(message: memoryview) -> NDArray[np.int64]:
    """`repeated int64`, packed or one by one."""
    parts = [_varints(value) for number, value in _fields(message) if number == 1]
    return _join(parts, np.int64)


def _join(parts: list[Any], dtype: Any) -> NDArray[Any]:
    if len(parts) == 1:
        return np.asarray(parts[0], dtype)
    return np.concatenate(parts).astype(dtype) if parts else np.empty(0, dtype)


def _varints(packed: memoryview) -> NDArray[np.int64]:
    """Integers of 7 bits a byte, the lowest first; the high bit says that more follow."""
    bytes_ = np.frombuffer(packed, np.uint8)
    ends = np.flatnonzero(bytes_ < 0x80)
    if len(bytes_) and (not len(ends) or ends[-1] != len(bytes_) - 1):
        raise ValueError("an integer that does not end")
    starts = np.concatenate([np.zeros(1, np.intp), ends[:-1] + 1]) if len(ends) else ends
    lengths = ends - starts + 1
    if len(lengths) and lengths.max() > 10:
        raise ValueError(f"an integer of {lengths.max()} bytes")
    values = np.zeros(len(ends), np.uint64)
    for k in range(int(lengths.max(initial=0))):
        has = lengths > k
        values[has] |= (bytes_[starts[has] + k] & np.uint8(0x7F)).astype(np.uint64) << np.uint64(
            7 * k
        )
    return values.view(np.int64)


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Number and bytes of each field of a message; of a varint, the bytes that encode it."""
    at, end = 0, len(message)
    while at < end:
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _BYTES:
            size, at = _varint(message, at)
        elif kind == _VARINT:
            size = _varint(message, at)[1] - at
        elif kind in (_I64, _I32):
            size = 8 if kind == _I64 else 4
        else:
            raise ValueError(f"a field of wire type {kind}")
        if at + size > end:
            raise ValueError(f"a field of {size} bytes where {end - at} are left")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """The unsigned integer at an offset, and the offset after it."""
    try:
        return read_varint(message, at)
    except IndexError:
        raise ValueError("an integer that does not end") from None
