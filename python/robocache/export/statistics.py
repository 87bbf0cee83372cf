"""Statistics of an exported feature, in the shapes that LeRobot has them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.store.dtypes import stored
from robocache.store.statistics import StreamStatistics

# LeRobot's names of quantiles.
QUANTILES = {"0.01": "q01", "0.1": "q10", "0.5": "q50", "0.9": "q90", "0.99": "q99"}
WHITE = 255.0  # LeRobot's statistics are of pixels divided by it


class FeatureStatistics:
    """Statistics of the frames of a feature, added in pieces."""

    def __init__(self, is_image: bool) -> None:
        self._is_image = is_image
        self._frames = 0
        self._statistics: StreamStatistics | None = None

    def add(self, values: NDArray[Any]) -> None:
        """Adds frames [n,...]."""
        dtype, rows = stored("values", values)
        if self._statistics is None:
            self._statistics = StreamStatistics(dtype, rows.shape[1:])
        self._statistics.update(rows)
        self._frames += len(rows)

    def merge(self, other: FeatureStatistics) -> None:
        """Adds the frames of another."""
        self._frames += other._frames
        if self._statistics is None:
            self._statistics = other._statistics
        elif other._statistics is not None:
            self._statistics = self._statistics.merged(other._statistics)

    def as_json(self) -> dict[str, Any]:
        """Numbers in a row's shape, or of images in [0,1] as [C,1,1]; `count` is that of frames."""
        assert self._statistics is not None
        summary = self._statistics.summary()
        numbers = {name: summary[name] for name in ("min", "max", "mean", "std")}
        numbers |= {name: summary["quantiles"][key] for key, name in QUANTILES.items()}
        shaped: dict[str, Any] = {}
        for name, value in numbers.items():
            array = np.array(value, dtype=np.float64)
            if self._is_image:
                array = array[:, None, None] / WHITE
            elif array.size == math.prod(self._statistics.shape):
                array = array.reshape(self._statistics.shape or 1)
            shaped[name] = array.tolist()
        return {**shaped, "count": [self._frames]}
