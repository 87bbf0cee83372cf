"""Torch's types of elements, and the codes and names that they have."""

from __future__ import annotations

import torch

# A dtype's code is its place in DTYPES plus one: 0 stands for the dtype of the values.
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.uint8)
DTYPE_CODES = {dtype: code for code, dtype in enumerate(DTYPES, 1)}
# Values that alignment copies and does not compute with; the codes of results continue with these.
COPIED_DTYPES = (
    torch.bool, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.uint16, torch.uint32, torch.uint64,
)  # fmt: skip
RESULT_DTYPES = (*DTYPES, *COPIED_DTYPES)
RESULT_CODES = {dtype: code for code, dtype in enumerate(RESULT_DTYPES, 1)}
# By the number of robocache::DataType.
STABLE_DTYPES = (
    *DTYPES, torch.bool, torch.int32, torch.int64, torch.int8, torch.int16, torch.uint16,
    torch.uint32, torch.uint64,
)  # fmt: skip
# The codes of voxelization's grids continue those of DTYPES with others.
GRID_DTYPES = (*DTYPES, torch.bool, torch.int32, torch.int64)


def compute_dtype(values_dtype: torch.dtype, out_dtype: torch.dtype) -> torch.dtype:
    """The dtype that values are combined in: float64 where either is, else float32."""
    is_wide = torch.float64 in (values_dtype, out_dtype)
    return torch.float64 if is_wide else torch.float32


def dtype_name(dtype: torch.dtype) -> str:
    """A dtype's name without ``torch.``."""
    return str(dtype).removeprefix("torch.")


def dtype_text(value: object) -> str:
    """The name of a dtype; of what is none, that of its type."""
    return dtype_name(value) if isinstance(value, torch.dtype) else type(value).__name__
