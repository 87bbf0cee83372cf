"""Random rotations and poses, in every form."""

from __future__ import annotations

import torch

import robocache as rc

WIDTHS = {
    "quaternion_xyzw": 4,
    "quaternion_wxyz": 4,
    "rotation_vector": 3,
    "matrix": 9,
    "rotation_6d": 6,
}
FORMS = tuple(WIDTHS)


def rotations(form: str, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Any rotations, exact up to rounding."""
    q = torch.randn(*shape, 4, dtype=torch.float64)
    return rc.convert_rotation(q, "quaternion_xyzw", form, backend="pytorch").to(dtype)  # type: ignore[arg-type]


def poses(form: str, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    position = torch.randn(*shape, 3, dtype=dtype)
    return torch.cat([position, rotations(form, *shape, dtype=dtype)], -1)


def matrices(x: torch.Tensor, form: str) -> torch.Tensor:
    """[...,9], for comparing rotations whatever the signs of their quaternions."""
    made: torch.Tensor = rc.convert_rotation(x.double(), form, "matrix", backend="pytorch")  # type: ignore[arg-type]
    return made
