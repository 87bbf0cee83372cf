"""The names that options take, for type checkers, editors and programs that hand them on.

Functions check them again as they run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

MethodName: TypeAlias = Literal[
    "linear", "previous", "nearest", "slerp_xyzw", "slerp_wxyz", "angle", "mean", "sum"
]
METHODS: tuple[MethodName, ...] = get_args(MethodName)
# The pairs of a layout hold any string: a list that is made before the call is inferred so.
Method: TypeAlias = MethodName | Sequence[tuple[str, int]]
Outside: TypeAlias = Literal["hold", "zero", "nan", "extrapolate"]
Backend: TypeAlias = Literal["auto", "cuda", "cpu", "pytorch"]
VoxelMode: TypeAlias = Literal["occupancy", "count", "mean", "sum", "max", "min"]
Reduction: TypeAlias = Literal["mean", "sum", "max", "min"]
RotationForm: TypeAlias = Literal[
    "quaternion_xyzw", "quaternion_wxyz", "rotation_vector", "matrix", "rotation_6d"
]
