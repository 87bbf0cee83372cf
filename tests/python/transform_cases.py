"""Small transforms worked by hand: (call, arguments, the answer). Numbers are exact in float32 or
rounded from those that are written here."""

from __future__ import annotations

import math
from typing import Any

HALF = math.sqrt(0.5)
PI32 = 13176795 / 2**22  # pi rounded to float32, which is more

# Each rotation in every form: quaternion x, y, z, w; rotation vector; matrix.
ROTATIONS: dict[str, tuple[list[float], list[float], list[float]]] = {
    "none": ([0, 0, 0, 1], [0, 0, 0], [1, 0, 0, 0, 1, 0, 0, 0, 1]),
    "quarter about x": (
        [HALF, 0, 0, HALF],
        [math.pi / 2, 0, 0],
        [1, 0, 0, 0, 0, -1, 0, 1, 0],
    ),
    "quarter about y": (
        [0, HALF, 0, HALF],
        [0, math.pi / 2, 0],
        [0, 0, 1, 0, 1, 0, -1, 0, 0],
    ),
    "back about z": (
        [0, 0, -HALF, HALF],
        [0, 0, -math.pi / 2],
        [0, 1, 0, -1, 0, 0, 0, 0, 1],
    ),
    "third about all": (
        [0.5, 0.5, 0.5, 0.5],
        [2 * math.pi / 3 / math.sqrt(3)] * 3,
        [0, 0, 1, 1, 0, 0, 0, 1, 0],
    ),
    "half about x": ([1, 0, 0, 0], [math.pi, 0, 0], [1, 0, 0, 0, -1, 0, 0, 0, -1]),
    "half about y": ([0, 1, 0, 0], [0, math.pi, 0], [-1, 0, 0, 0, 1, 0, 0, 0, -1]),
    "half about z": ([0, 0, 1, 0], [0, 0, math.pi], [-1, 0, 0, 0, -1, 0, 0, 0, 1]),
    "half about x less z": (
        [HALF, 0, -HALF, 0],
        [math.pi * HALF, 0, -math.pi * HALF],
        [0, 0, -1, 0, -1, 0, -1, 0, 0],
    ),
    "tiny": (
        [5e-21, 0, -1e-20, 1],
        [1e-20, 0, -2e-20],
        [1, 2e-20, 0, -2e-20, 1, -1e-20, 0, 1e-20, 1],
    ),
}

# What is no rotation as it stands: (source, numbers, target, the answer)
READ: list[tuple[str, list[float], str, list[float]]] = [
    # Of any length, and each of the two quaternions of a rotation, whose sign stays
    ("quaternion_xyzw", [0, 0, 3, -4], "quaternion_xyzw", [0, 0, 0.6, -0.8]),
    ("quaternion_wxyz", [-4, 0, 0, 3], "quaternion_xyzw", [0, 0, 0.6, -0.8]),
    ("quaternion_xyzw", [0, 0, 3, -4], "quaternion_wxyz", [-0.8, 0, 0, 0.6]),
    ("quaternion_xyzw", [0, 0, 5, -5], "rotation_vector", [0, 0, -math.pi / 2]),
    ("quaternion_xyzw", [0, -1, 0, 0], "rotation_vector", [0, math.pi, 0]),
    # None at all
    ("quaternion_xyzw", [0, 0, 0, 0], "matrix", [0] * 9),
    ("quaternion_wxyz", [0, -0.0, 0, 0], "rotation_vector", [0, 0, 0]),
    ("rotation_6d", [0, 0, 0, 1, 2, 3], "quaternion_xyzw", [0] * 4),
    ("rotation_6d", [0, 2, 0, 0, -6, 0], "matrix", [0] * 9),
    ("rotation_6d", [0.1, 0.2, 0.3, 0.7, 1.4, 2.1], "rotation_6d", [0] * 6),
    ("rotation_6d", [3, 1, 4, 0, 0, 0], "rotation_vector", [0] * 3),
    ("matrix", [0] * 9, "rotation_6d", [0] * 6),
    # Rows that are not orthonormal: of the second what is left across the first, the third not read
    ("rotation_6d", [0, 3, 0, 0, 7, 2], "matrix", [0, 1, 0, 0, 0, 1, 1, 0, 0]),
    ("matrix", [2, 0, 0, 5, 4, 0, 9, 9, -9], "matrix", [1, 0, 0, 0, 1, 0, 0, 0, 1]),
    ("matrix", [1, 0, 0, 0, 1, 0, 0, 0, -1], "quaternion_xyzw", [0, 0, 0, 1]),
    ("matrix", [1, 0, 0, 0, 1, 0, math.nan, 0, 1], "quaternion_xyzw", [0, 0, 0, 1]),
    # Rotation vectors of half a turn, of either sign, and of more
    ("rotation_vector", [PI32, 0, 0], "rotation_vector", [math.pi, 0, 0]),
    ("rotation_vector", [0, -PI32, 0], "quaternion_xyzw", [0, 1, 0, 0]),
    ("rotation_vector", [0, -PI32, 0], "rotation_vector", [0, math.pi, 0]),
    ("rotation_vector", [0, 0, 1.5 * math.pi], "rotation_vector", [0, 0, -math.pi / 2]),
    ("rotation_vector", [0, 0, 2.5 * math.pi], "quaternion_wxyz", [HALF, 0, 0, HALF]),
    ("rotation_vector", [0, -40.5 * math.pi, 0], "rotation_vector", [0, -math.pi / 2, 0]),
    # NaN and infinity
    ("quaternion_xyzw", [math.nan, 0, 0, 1], "matrix", [math.nan] * 9),
    ("rotation_vector", [math.nan, 0, 0], "quaternion_xyzw", [math.nan] * 4),
    ("rotation_vector", [0, math.inf, 0], "rotation_vector", [math.nan] * 3),
    ("rotation_6d", [1, 0, math.nan, 0, 1, 0], "quaternion_xyzw", [math.nan] * 4),
]

# (form, the anchor's pose, a pose, relative to the anchor)
POSES: list[tuple[str, list[float], list[float], list[float]]] = [
    (
        "quaternion_xyzw",
        [1, 0, 0, 0, 0, HALF, HALF],  # looks along y
        [1, 2, 0, 0, 0, 0, 1],
        [2, 0, 0, 0, 0, -HALF, HALF],
    ),
    (
        "quaternion_wxyz",
        [0, 0, 5, HALF, HALF, 0, 0],
        [1, 2, 8, -0.5, -0.5, -0.5, 0.5],  # of the other sign: w comes out positive
        [1, 3, -2, HALF, 0, 0, -HALF],
    ),
    (
        "rotation_vector",
        [1, 1, 1, 0, math.pi / 2, 0],
        [1, 1, 0, 0, -math.pi / 4, 0],
        [1, 0, 0, 0, -0.75 * math.pi, 0],
    ),
    (
        "matrix",
        [1, 2, 3, 0, -1, 0, 1, 0, 0, 0, 0, 1],
        [2, 2, 3, 0, -1, 0, 1, 0, 0, 0, 0, 1],
        [0, -1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1],
    ),
    (
        "rotation_6d",
        [0, 0, 0, 1, 0, 0, 0, 0, -1],
        [0, 0, 2, 1, 0, 0, 0, 1, 0],
        [0, 2, 0, 1, 0, 0, 0, 0, 1],
    ),
    # An anchor without a rotation leaves nothing of a pose
    ("quaternion_xyzw", [1, 2, 3, 0, 0, 0, 0], [4, 5, 6, 0, 0, 0, 1], [0] * 7),
    ("rotation_6d", [1, 2, 3, 0, 0, 0, 0, 0, 0], [4, 5, 6, 1, 0, 0, 0, 1, 0], [0] * 9),
]

# (deltas, start, options, absolute)
DELTAS: list[tuple[list[float], float, dict[str, Any], list[float]]] = [
    ([1, 2, -4], 10, {}, [11, 13, 9]),
    ([1, 2, -4], 10, {"time_step": 0.5}, [10.5, 11.5, 9.5]),
    ([1, 2, -4], 0, {"times": [0, 500_000_000, 750_000_000, 1_750_000_000]}, [0.5, 1, -3]),
    ([8, 4], 1, {"times": [-0.25, 0.0, 0.5]}, [3, 5]),
    # Times of the year 2026, in nanoseconds: their differences lose nothing
    ([1e9], 0, {"times": [1_763_000_000_000_000_001, 1_763_000_000_000_000_003]}, [2]),
    ([1, math.nan, 1], 0, {}, [1, math.nan, math.nan]),
    ([1, math.inf, -1], 0, {}, [1, math.inf, math.inf]),
]
