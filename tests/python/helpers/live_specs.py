"""Policy specs for tests of the LiveAligner: joints that are seen, and an action that is undone."""

from __future__ import annotations

from typing import Any

import numpy as np

import robocache as rc
from robocache.loader.window_spec import WindowSpec

MS = 1_000_000


def make_stream(name: str, **fields: Any) -> WindowSpec:
    given: dict[str, Any] = {
        "dtype": "F32", "shape": (2,), "rate": 100.0, "offsets": (-20 * MS, -10 * MS, 0)
    }  # fmt: skip
    return WindowSpec(name, **given | fields)


ACTION = make_stream(
    "action",
    offsets=(0, 20 * MS),
    causal=False,
    normalization=rc.Normalization(np.array([1.0, -2.0]), np.array([0.5, 4.0])),
    normalize="mean_std",
)
SPEC = rc.PolicySpec([make_stream("joints"), ACTION], anchor="joints")


def push_ramp(aligner: rc.LiveAligner, rows: int = 5, robot: int = 0) -> None:
    for i in range(rows):
        aligner.push("joints", i * 10 * MS, [i, -i], robot)
