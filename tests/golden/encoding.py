"""Tensors and cases as the files of golden cases have them (README.md says how).

A flat list of values or of expected values is one channel, [S,1] or [T,1]. An element is an int, a
float, a Fraction or one of "nan", "inf", "-inf"; it must be exact in its dtype, so that no case
depends on how a reader rounds its input.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

from arithmetic import FLOATS, INT64_MAX, INT64_MIN, rounded

SPECIAL = ("nan", "inf", "-inf")
Y, N = True, False  # valid, not valid


class Tensor:
    """A dtype, a shape and flat elements, checked to be exact in the dtype."""

    def __init__(self, dtype: str, shape: tuple[int, ...], data: list[Any], exact: bool = True):
        self.dtype, self.shape = dtype, shape
        assert len(data) == math.prod(shape), (dtype, shape, data)
        self.data = [self._element(x, exact) for x in data]

    def _element(self, x: Any, exact: bool) -> Any:
        if self.dtype == "bool":
            assert isinstance(x, bool), x
            return x
        if self.dtype in FLOATS:
            if isinstance(x, str):
                assert x in SPECIAL, x
                return x
            if isinstance(x, float) and x == 0:
                return x  # keeps the sign of zero
            if not exact:
                return float(rounded(x, self.dtype))
            assert rounded(x, self.dtype) == Fraction(x), f"{x!r} is not exact in {self.dtype}"
            return float(x)
        low, high = {
            "int64": (INT64_MIN, INT64_MAX),
            "int32": (-(2**31), 2**31 - 1),
            "uint8": (0, 255),
        }[self.dtype]
        assert isinstance(x, int) and low <= x <= high, x
        return x

    def json(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "shape": list(self.shape), "data": self.data}


def tensor(dtype: str, nested: Any, column: bool = False, exact: bool = True) -> Tensor:
    """A nested list as a Tensor; with `column`, a flat list becomes one channel."""
    if isinstance(nested, Tensor):
        return nested
    shape: list[int] = []
    level = nested
    while isinstance(level, list):
        shape.append(len(level))
        if not level:
            break
        level = level[0]

    def flatten(x: Any) -> list[Any]:
        return [e for part in x for e in flatten(part)] if isinstance(x, list) else [x]

    data = flatten(nested)
    if column and len(shape) == 1:
        shape.append(1)
    return Tensor(dtype, tuple(shape), data, exact)


def encode(cases: list[dict[str, Any]]) -> str:
    """One case a line: small in a diff, and still a plain JSON document."""
    lines = ",\n".join(json.dumps(c, allow_nan=False) for c in cases)
    return f'{{"format": 1, "cases": [\n{lines}\n]}}\n'
