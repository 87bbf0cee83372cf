"""Checks of arguments of built-in types, and their text in messages."""

from __future__ import annotations

import math
import numbers
from typing import Any


def check_integer(name: str, value: object, least: int, most: int | None = None) -> int:
    """Converts an integer, also of NumPy, to an int and checks its range.

    Raises:
        TypeError, ValueError: `<name>: expected ..., got ...`.
    """
    error = f"{name}: expected an int, got {type(value).__name__}"
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(error)
    try:
        number: int = value.__index__()
    except TypeError:  # an array of several elements
        raise TypeError(error) from None
    if number < least or (most is not None and number > most):
        limit = f"{least} or more" if most is None else f"{least} to {most}"
        raise ValueError(f"{name}: expected {limit}, got {number}")
    return number


def check_bool(name: str, value: object) -> None:
    """Raises TypeError for a value that is not a bool."""
    if not isinstance(value, bool):
        kind = type(value)  # named with its module, since NumPy has a type bool too
        where = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        raise TypeError(f"{name}: expected a bool, got {where}{kind.__qualname__}")


def check_text(name: str, value: object) -> str | None:
    """The value, if it is a string or None; raises TypeError otherwise."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name}: expected a str, got {type(value).__name__}")
    return value


def check_functions(name: str, value: object) -> None:
    """Raises TypeError for a value that is not a list or tuple of callables."""
    if not isinstance(value, (list, tuple)) or not all(map(callable, value)):
        raise TypeError(f"{name}: expected a list of functions (batch, generator), got {value!r}")


def to_float(number: Any) -> float:
    """Converts a real number to a float; an integer beyond the range of floats to infinity."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def number_text(number: Any) -> str:
    """A number as text; for an integer of over 40 digits, the number of digits."""
    if isinstance(number, numbers.Integral) and abs(int(number)) >= 10**40:
        sign = "negative " if int(number) < 0 else ""
        return f"a {sign}number of {int(math.log10(abs(int(number)))) + 1} digits"
    return str(number)


def nanoseconds_of(seconds: float) -> int:
    """Finite seconds as nanoseconds, rounded to nearest even."""
    return round(seconds * 1e9)
