"""Sizes of the pages of a Parquet file, read from their own headers.

pyarrow allocates what the header of a page states, whatever the file's metadata say of the column.
A header is a structure of Thrift's compact protocol (https://parquet.apache.org, PageHeader).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from robocache.readers.varint import read_varint

_HEAD_BYTES = (1 << 10, 1 << 14, 1 << 24)  # read for a header: more where statistics are long
_PLAIN_DICTIONARY, _DELTA_BYTE_ARRAY, _RLE_DICTIONARY = 2, 7, 8  # encodings
_DATA, _DICTIONARY, _DATA_V2 = 5, 7, 8  # fields of a header, by kind of page


class Pages(NamedTuple):
    """The pages of one column in one row group."""

    size: int
    """Bytes of all pages, decompressed."""
    values: int
    """Values of all pages, or of a dictionary if that is more."""
    largest: int
    """Bytes of the largest page, decompressed."""
    texts: int
    """The most bytes that texts of the pages can have: encodings repeat parts of them."""


def read_pages(file: BinaryIO, begin: int, length: int) -> Pages:
    """The pages in a part of a file.

    Args:
        file: A Parquet file.
        begin: Offset of the first page.
        length: Bytes of the pages with their headers.

    Raises:
        ValueError: If one of the headers is damaged.
    """
    size = values = largest = texts = dictionary = entries = 0
    for header in _headers(file, begin, begin + length):
        stated = header.get(2, 0)
        size += stated
        largest = max(largest, stated)
        if _DICTIONARY in header:
            dictionary = max(dictionary, stated)
            entries = max(entries, header[_DICTIONARY].get(1, 0))
        for kind, encoding_field in ((_DATA, 2), (_DATA_V2, 4)):
            if kind not in header:
                continue
            count = header[kind].get(1, 0)
            encoding = header[kind].get(encoding_field, 0)
            values += count
            if encoding in (_PLAIN_DICTIONARY, _RLE_DICTIONARY):
                texts += count * dictionary
            elif encoding == _DELTA_BYTE_ARRAY:
                texts += count * stated
            else:
                texts += stated
    return Pages(size, max(values, entries), largest, texts)


def _headers(file: BinaryIO, at: int, end: int) -> Iterator[dict[int, Any]]:
    """The headers of pages: fields by their numbers, structures as dictionaries."""
    while at < end:
        header, length = _header(file, at, end)
        yield header
        if min(header.get(2, 0), header.get(3, 0)) < 0:
            raise ValueError(f"a page of negative size at byte {at:,}")
        at += length + header.get(3, 0)


def _header(file: BinaryIO, at: int, end: int) -> tuple[dict[int, Any], int]:
    for most in _HEAD_BYTES:
        file.seek(at)
        data = file.read(min(most, end - at))
        try:
            header, length = _struct(data, 0, 0)
        except IndexError:
            continue  # longer, or cut off
        if 2 in header and 3 in header:
            return header, length
        break
    raise ValueError(f"bytes that are no header of a page at byte {at:,}")


# ---- Thrift --------------------------------------------------------------------------------------

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_MAX_DEPTH = 20


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """The fields of a structure by number, and the offset after it.

    Raises:
        IndexError: If the data end before it.
        ValueError: For other bytes than those of a structure.
    """
    if depth > _MAX_DEPTH:
        raise ValueError("structures nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while True:
        head = data[at]
        at += 1
        if head == 0:
            return fields, at
        if head >> 4:
            number += head >> 4
        else:
            number, at = _zigzag(data, at)
        kind = head & 15
        if kind in (_TRUE, _FALSE):
            fields[number] = kind == _TRUE
        else:
            fields[number], at = _value(data, at, kind, depth)


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    """A value and the offset after it; None for a kind that no field in use has."""
    if kind == _STRUCT:
        return _struct(data, at, depth + 1)
    if kind in (_TRUE, _FALSE, _BYTE):
        return data[at], at + 1
    if kind < _DOUBLE:
        return _zigzag(data, at)
    if kind == _DOUBLE:
        data[at + 7]  # IndexError behind the end
        return None, at + 8
    if kind == _BINARY:
        length, at = read_varint(data, at)
        return None, at + length
    if kind in (_LIST, _SET):
        count, item = data[at] >> 4, data[at] & 15
        at += 1
        if count == 15:
            count, at = read_varint(data, at)
        for _ in range(count):
            _, at = _value(data, at, item, depth + 1)
        return None, at
    if kind == _MAP:
        count, at = read_varint(data, at)
        kinds = data[at] if count else 0
        at += count > 0
        for _ in range(count):
            _, at = _value(data, at, kinds >> 4, depth + 1)
            _, at = _value(data, at, kinds & 15, depth + 1)
        return None, at
    raise ValueError(f"a field of kind {kind}")


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    number, at = read_varint(data, at)
    return (number >> 1) ^ -(number & 1), at
