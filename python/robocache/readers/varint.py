"""Integers of 7 bits a byte, as in Thrift's compact protocol and in protocol buffers.

A module of its own, since the readers of Parquet and TFRecord files share it.
"""

from __future__ import annotations


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """The unsigned integer at an offset, and the offset after it.

    Raises:
        IndexError: If the data end before it.
        ValueError: If it has more than 64 bits.
    """
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
