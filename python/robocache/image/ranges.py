"""Checks of the arguments of augmentation steps: numbers, ranges and probabilities."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any, TypeAlias

from robocache.core.checks import number_text, to_float
from robocache.core.display import short

Range: TypeAlias = tuple[float, float]
"""The lowest and the highest value of a uniform draw."""


def check_number(name: str, value: Any, least: float, most: float = math.inf) -> float:
    """Converts a real number to a float, and checks its limits.

    Raises:
        TypeError, ValueError: `<name>: expected ..., got ...`.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}: expected a number, got {short(value)}")
    number = to_float(value)
    if not least <= number <= most or math.isinf(number):
        raise ValueError(f"{name}: expected {_limits(least, most)}, got {number_text(value)}")
    return number


def check_probability(value: Any) -> float:
    """Checks option `p`."""
    return check_number("p", value, 0, 1)


def check_range(name: str, value: Any, least: float, most: float = math.inf) -> Range:
    """Checks a pair (low, high) within limits.

    Raises:
        TypeError, ValueError: `<name>: expected ..., got ...`.
    """
    if not is_pair(value):
        raise TypeError(f"{name}: expected a pair (low, high), got {short(value)}")
    low, high = (check_number(f"{name}[{i}]", each, least, most) for i, each in enumerate(value))
    if low > high:
        raise ValueError(f"{name}: expected low <= high, got {short(tuple(value))}")
    return low, high


def range_around(
    name: str,
    value: Any,
    middle: float,
    least: float,
    most: float = math.inf,
    widest: float = math.inf,
) -> Range:
    """The range of a number, or of a pair (low, high), as torchvision's steps take it.

    A number d is the range middle - d to middle + d, cut off at `least`.

    Args:
        name: The option.
        value: The number, or the pair.
        middle: The middle of a number's range.
        least: The lowest value.
        most: The highest value of a pair.
        widest: The largest number.
    """
    if isinstance(value, Sequence) and not isinstance(value, str):
        return check_range(name, value, least, most)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}: expected a number or a pair (low, high), got {short(value)}")
    width = check_number(name, value, 0, widest)
    return max(middle - width, least), middle + width


def is_pair(value: Any) -> bool:
    """Whether a value is a list or tuple of two elements."""
    return isinstance(value, (list, tuple)) and len(value) == 2


def frozen(value: Any) -> Any:
    """A list as a tuple, so that changes by its owner have no effect."""
    return tuple(frozen(each) for each in value) if isinstance(value, list) else value


def _limits(least: float, most: float) -> str:
    if math.isinf(most):
        return f"{least:g} or more" if not math.isinf(least) else "a finite number"
    return f"{least:g} to {most:g}"
