"""Rules for names of columns: their units, times, and the streams that they belong to.

Everything that is guessed from a name is in the two tables here, `TIME_NAMES` and `PATTERNS`.
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
    """A name without the mark of a comment before it: ``#timestamp [ns]``, ``%time``."""
    return name.strip().lstrip("".join(COMMENT_MARKS) + " ")


def is_time_name(name: str) -> bool:
    """Whether a column of times is called so: ``t``, ``Time [s]``, ``#timestamp [ns]``."""
    return _TIME_NAME.fullmatch(without_marks(name).lower().lstrip("_")) is not None


def time_unit_of(name: str) -> int | None:
    """The unit of time that a name ends with, in nanoseconds: ``clock_us``, ``time [s]``."""
    found = _ENDS_IN_UNIT.fullmatch(name.strip().lower())
    return _NANOSECONDS[found[1]] if found else None


_BASE_AND_UNITS = re.compile(r"(.*\S)\s*(?:\[(?!\d+\])([^\[\]]*)\]|\((?!\d+\))([^()]*)\))")


def split_units(name: str) -> tuple[str, str | None]:
    """A name without the units in brackets at its end, and those: ``a_x [m s^-2]``, ``x (mm)``."""
    plain = name.strip()
    found = _BASE_AND_UNITS.fullmatch(plain)
    if found is None:
        return plain, None
    return found[1], (found[2] or found[3] or "").strip() or None


# ---- channels of one stream ----------------------------------------------------------------------


def _count(channels: Sequence[str]) -> bool:
    """Whether they are numbered from 0 or 1 on, without a gap."""
    numbers = [int(channel) for channel in channels]
    return numbers[0] in (0, 1) and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def _several(channels: Sequence[str]) -> bool:
    return len(channels) > 1


def _are_axes(channels: Sequence[str]) -> bool:
    """Whether they are x, y and z, or w, x, y and z, in any order, in small or capital letters."""
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
"""In order of precedence: of columns that no earlier pattern has put together."""

AXES = tuple(pattern for pattern in PATTERNS if pattern.are_complete is _are_axes)

QUATERNION_WORDS = ("q", "quat", "quaternion", "orientation", "ori", "rotation", "rot", "attitude")
"""Words of a name before w, x, y and z that are said of quaternions."""


def says_quaternion(stream: str) -> bool:
    """Whether a word of a stream's name says that its four channels are a quaternion."""
    words = re.split(r"[\W_]+|(?<=[a-z])(?=[A-Z])", stream)
    return any(word.lower() in QUATERNION_WORDS for word in words)


def families(names: Sequence[str], patterns: Sequence[Pattern] = PATTERNS) -> list[Family]:
    """The streams that columns make by their names, in the order of their first columns.

    Args:
        names: Of the columns, without units.
        patterns: Those that count, in order of precedence.
    """
    found: list[Family] = []
    left = list(range(len(names)))
    for pattern in patterns:
        together: dict[str, list[tuple[int, str]]] = {}
        for column in left:
            match = pattern.regex.fullmatch(names[column])
            if match is not None:
                together.setdefault(match["stream"], []).append((column, match["channel"]))
        for stream, members in together.items():
            channels = [channel for _, channel in members]
            if len(members) > 1 and pattern.are_complete(channels):
                found.append(Family(stream, pattern, dict(members)))
        taken = {column for family in found for column in family.channels}
        left = [column for column in left if column not in taken]
    return sorted(found, key=lambda family: min(family.channels))


class Family(NamedTuple):
    """Columns whose names make them channels of one stream."""

    stream: str
    """The part that their names share; empty of ``x, y, z``."""
    pattern: Pattern
    channels: dict[int, str]
    """The number of each column, and what it is called as a channel."""
