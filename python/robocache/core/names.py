"""The values of options that take names, as types for type checkers and editors.

Functions check them at run time too.
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
