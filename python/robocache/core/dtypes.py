"""Torch's element types: their numbers in the library, and which of them operations take."""

from __future__ import annotations

import torch

from robocache.core.element_types import COMPUTED as _COMPUTED
from robocache.core.element_types import ELEMENT_TYPES

# By the number of robocache::DataType
ALL_DTYPES: tuple[torch.dtype, ...] = tuple(getattr(torch, each.name) for each in ELEMENT_TYPES)
# The dtypes that alignment computes with, and those whose rows it copies.
DTYPES, COPIED_DTYPES = ALL_DTYPES[:_COMPUTED], ALL_DTYPES[_COMPUTED:]
COMPUTED = frozenset(DTYPES)
# By the name in a store and in a policy spec, and the names
BY_STORED_NAME = {each.stored: dtype for each, dtype in zip(ELEMENT_TYPES, ALL_DTYPES, strict=True)}
STORED_NAMES = {dtype: name for name, dtype in BY_STORED_NAME.items()}
NUMBERS = {dtype: number for number, dtype in enumerate(ALL_DTYPES)}
OTHER = 15  # the number of every other dtype, which operators refuse


def number_of(dtype: torch.dtype) -> int:
    """The number of robocache::DataType."""
    return NUMBERS.get(dtype, OTHER)


def compute_dtype(values_dtype: torch.dtype, out_dtype: torch.dtype) -> torch.dtype:
    """The dtype that values are combined in: float64 if either is, else float32."""
    return torch.float64 if torch.float64 in (values_dtype, out_dtype) else torch.float32


def dtype_name(dtype: torch.dtype) -> str:
    """A dtype's name without ``torch.``."""
    return str(dtype).removeprefix("torch.")


def dtype_text(value: object) -> str:
    """The name of a dtype; of any other value, the name of its type."""
    return dtype_name(value) if isinstance(value, torch.dtype) else type(value).__name__
