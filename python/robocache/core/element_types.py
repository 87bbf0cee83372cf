"""The table of element types, without torch, from which all other lists of types derive."""

from __future__ import annotations

from typing import NamedTuple


class ElementType(NamedTuple):
    """An element type of tensors and stores."""

    name: str  # in torch, and in NumPy if it has the type
    stored: str  # in safetensors, manifests and policy specs
    bits: str  # the NumPy type whose elements have the same bytes


# By the number of robocache::DataType
ELEMENT_TYPES = (
    ElementType("float16", "F16", "<f2"),
    ElementType("bfloat16", "BF16", "<u2"),  # which NumPy lacks
    ElementType("float32", "F32", "<f4"),
    ElementType("float64", "F64", "<f8"),
    ElementType("uint8", "U8", "|u1"),
    ElementType("bool", "BOOL", "|b1"),
    ElementType("int32", "I32", "<i4"),
    ElementType("int64", "I64", "<i8"),
    ElementType("int8", "I8", "|i1"),
    ElementType("int16", "I16", "<i2"),
    ElementType("uint16", "U16", "<u2"),
    ElementType("uint32", "U32", "<u4"),
    ElementType("uint64", "U64", "<u8"),
)
COMPUTED = 5  # alignment computes with the first five, and copies rows of the others
