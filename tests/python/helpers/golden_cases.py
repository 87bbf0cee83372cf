"""The golden cases (tests/golden) as tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).parents[2] / "golden"


def tensor(encoded: dict[str, Any] | None) -> torch.Tensor | None:
    if encoded is None:
        return None
    dtype = getattr(torch, encoded["dtype"])
    data = encoded["data"]
    if dtype.is_floating_point:
        return (
            torch.tensor([float(x) for x in data], dtype=torch.float64)
            .to(dtype)
            .reshape(encoded["shape"])
        )
    return torch.tensor(data, dtype=dtype).reshape(encoded["shape"])
