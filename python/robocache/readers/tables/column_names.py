"""Rules for the texts of a header: names of times, units, and the channels of one stream.

The tables `TIME_NAMES`, `PATTERNS` and `QUATERNION_WORDS` have all guesses from names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from robocache.readers.options import TIME_UNITS

# ---- units and times -----------------------------------------------------------------------------

TIME_NAMES = ("timestamp", "timestamps", "time_stamp", "time", "times", "stamp", "stamps", "t")
"""Names of columns of times. Capitals, marks before it (``#timestamp``, ``%time``, ``__time``) and
a unit behind it (``t_ns``, ``Time (Seconds)``) are allowed."""

_UNIT_WORDS = {
    "ns": ("ns", "nsec", "nsecs", "nanosec", "nanosecs", "nanosecond", "nanoseconds"),
    "us": ("us", "µs", "usec", "usecs", "microsec", "microsecs", "microsecond", "microseconds"),
    "ms": ("ms", "msec", "msecs", "millisec", "millisecs", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
}
_NANOSECONDS = {word: TIME_UNITS[unit] for unit, words in _UNIT_WORDS.items() for word in words}
_UNIT = rf"[ _]*[\[(_] *({'|'.join(_NANOSECONDS)}) *[\])]?"  # [ns], (s), _us
_TIME_NAME = re.compile(rf"(?:{'|'.join(TIME_NAMES)})(?:{_UNIT})?")
_ENDS_IN_UNIT = re.compile(rf".*[^ _]{_UNIT}")
COMMENT_MARKS = ("#", "%")


def without_marks(name: str) -> str:
    """A name without a leading comment mark: ``#timestamp [ns]``, ``%time``."""
    return name.strip().lstrip("".join(COMMENT_MARKS) + " ")


def is_number_text(text: str) -> bool:
    """Whether a text is a number of any size, NaN included."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_time_name(name: str) -> bool:
    """Whether a name is that of a column of times: ``t``, ``Time [s]``, ``#timestamp [ns]``."""
    return _TIME_NAME.fullmatch(without_marks(name).lower().lstrip("_")) is not None


def time_unit_of(name: str) -> int | None:
    """The unit of time that a name ends with, in nanoseconds: ``clock_us``, ``time [s]``."""
    match = _ENDS_IN_UNIT.fullmatch(name.strip().lower())
    return _NANOSECONDS[match[1]] if match else None


_BASE_AND_UNITS = re.compile(r"(.*\S)\s*(?:\[(?!\d+\])([^\[\]]*)\]|\((?!\d+\))([^()]*)\))")


def split_units(name: str) -> tuple[str, str | None]:
    """Splits the units in brackets off the end of a name: ``a_x [m s^-2]``, ``x (mm)``."""
    plain = name.strip()
    match = _BASE_AND_UNITS.fullmatch(plain)
    if match is None:
        return plain, None
    return match[1], (match[2] or match[3] or "").strip() or None


# ---- channels of one stream ----------------------------------------------------------------------


def _count(channels: Sequence[str]) -> bool:
    """Whether the channels are numbered from 0 or 1 on, without a gap."""
    numbers = [int(channel) for channel in channels]
    return numbers[0] in (0, 1) and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def _several(channels: Sequence[str]) -> bool:
    return len(channels) > 1


def _are_axes(channels: Sequence[str]) -> bool:
    """Whether the channels are x, y, z or w, x, y, z, in any order, all lower or all upper case."""
    letters = "".join(sorted(channels))
    return letters in ("xyz", "wxyz", "XYZ", "WXYZ")


class Pattern(NamedTuple):
    """A way to name the channels of a stream."""

    example: str
    regex: re.Pattern[str]
    """Matches a name without units: groups ``stream`` and ``channel``."""
    are_complete: Callable[[Sequence[str]], bool]
    """Whether these channels, in the order of the columns, make a stream."""
    is_guess: bool
    """Whether a note says what was read as one stream."""


_AXIS = "(?P<channel>[wxyzWXYZ])"
PATTERNS = (
    Pattern("joint[0], joint[1]", re.compile(r"(?P<stream>.+)\[(?P<channel>\d+)\]"), _count, False),
    Pattern("joint_0, joint_1", re.compile(r"(?P<stream>.+)_(?P<channel>\d+)"), _count, False),
    Pattern("q1, q2", re.compile(r"(?P<stream>.*[^\W\d_])(?P<channel>\d+)"), _count, True),
    Pattern("imu.a, imu.b", re.compile(r"(?P<stream>.+)[./](?P<channel>[^./]+)"), _several, False),
    Pattern("a_x, a_y, a_z", re.compile(rf"(?P<stream>.*\w)[_ -]{_AXIS}"), _are_axes, True),
    Pattern("ax, ay, az", re.compile(rf"(?P<stream>.*[^\W_]){_AXIS}"), _are_axes, True),
    Pattern("x, y, z", re.compile(rf"(?P<stream>){_AXIS}"), _are_axes, True),
)  # fmt: skip
"""In order of precedence: a pattern applies to columns that no earlier pattern has grouped."""

AXES = tuple(pattern for pattern in PATTERNS if pattern.are_complete is _are_axes)

QUATERNION_WORDS = ("q", "quat", "quaternion", "orientation", "ori", "rotation", "rot", "attitude")
"""Words of a stream's name that mark w, x, y and z as a quaternion."""


def says_quaternion(stream: str) -> bool:
    """Whether a stream's name contains one of `QUATERNION_WORDS`."""
    words = re.split(r"[\W_]+|(?<=[a-z])(?=[A-Z])", stream)
    return any(word.lower() in QUATERNION_WORDS for word in words)


def families(names: Sequence[str], patterns: Sequence[Pattern] = PATTERNS) -> list[Family]:
    """Groups columns into streams by their names, in the order of their first columns.

    Args:
        names: Of the columns, without units.
        patterns: The patterns to apply, in order of precedence.
    """
    grouped: list[Family] = []
    left = list(range(len(names)))
    for pattern in patterns:
        by_stream: dict[str, list[tuple[int, str]]] = {}
        for column in left:
            match = pattern.regex.fullmatch(names[column])
            if match is not None:
                by_stream.setdefault(match["stream"], []).append((column, match["channel"]))
        for stream, members in by_stream.items():
            channels = [channel for _, channel in members]
            if len(members) > 1 and pattern.are_complete(channels):
                grouped.append(Family(stream, pattern, dict(members)))
        taken = {column for family in grouped for column in family.channels}
        left = [column for column in left if column not in taken]
    return sorted(grouped, key=lambda family: min(family.channels))


class Family(NamedTuple):
    """Columns whose names make them channels of one stream."""

    stream: str
    """The common part of the names; empty for ``x, y, z``."""
    pattern: Pattern
    channels: dict[int, str]
    """The channel name of each column, by the column's number."""
