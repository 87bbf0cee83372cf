"""How options name streams: the one matcher of readers, commands and exports.

A pattern names a stream, or its topic, in full, with ``*`` and ``?`` as in a shell (brackets stand
for themselves). A pattern that names none in full stands for all streams below it
(``/imu`` for ``/imu/orientation``, ``observation`` for ``observation.state``), and otherwise for
all streams that end in it (``orientation`` for ``/imu/orientation``).
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

Name = tuple[str, str]
"""A stream and the topic that it comes from; twice the stream's name where there is no topic."""

MOST_NAMES = 12  # in a message
_SEPARATORS = "/."


def is_match(pattern: str, text: str) -> bool:
    """Whether a pattern matches a text in full."""
    return fnmatch.fnmatchcase(text, pattern.replace("[", "[[]"))


def find(pattern: str, names: Iterable[Name]) -> list[Name]:
    """The streams that a pattern names, in their order."""
    names = list(names)
    for level in (_full, _above, _tails):
        found = [name for name in names if any(is_match(pattern, text) for text in level(*name))]
        if found:
            return found
    return []


def choose(patterns: Sequence[str], names: Iterable[Name], option: str) -> list[str]:
    """The streams that at least one pattern names, in their order.

    Args:
        patterns: What the user asks for.
        names: The streams there are.
        option: The name of the option that holds the patterns, for messages.

    Raises:
        ValueError: A pattern names no stream.
    """
    names = list(names)
    chosen: set[Name] = set()
    for pattern in patterns:
        found = find(pattern, names)
        if not found:
            raise ValueError(f"{option}: {expected(pattern, [stream for stream, _ in names])}")
        chosen.update(found)
    return [name[0] for name in names if name in chosen]


def stored_names(sources: Mapping[str, str | None]) -> list[Name]:
    """The names of a store's streams; which topic each is from, its `source` says."""
    return [(stream, _topic(source) or stream) for stream, source in sources.items()]


def _topic(source: str | None) -> str | None:
    """The topic in ``topic /imu (sensor_msgs/msg/Imu)`` and in ``topic esc, instance 1``."""
    match = re.fullmatch(r"topic (\S+?)(?: \(.*\)|, instance (\d+))?", source or "")
    if match is None:
        return None
    return match[1] if match[2] in (None, "0") else f"{match[1]}.{match[2]}"


def expected(pattern: str, names: Sequence[str]) -> str:
    """The message for a pattern that names nothing: ``expected some of ...; got '/x'``."""
    shown = list(names)
    if len(shown) > MOST_NAMES:
        close = difflib.get_close_matches(pattern, names, MOST_NAMES, cutoff=0.5)
        shown = [*close, *(name for name in names if name not in close)][:MOST_NAMES]
    more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
    return f"expected some of {', '.join(shown) or 'none'}{more}; got {pattern!r}"


def may_name_below(pattern: str, topic: str) -> bool:
    """Whether a pattern may name in full a stream below a topic, of whatever name."""
    literal = min((pattern.find(sign) for sign in "*?" if sign in pattern), default=len(pattern))
    head, path = pattern[:literal], f"{topic}/"
    return head.startswith(path) or (literal < len(pattern) and path.startswith(head))


def _full(stream: str, topic: str) -> Iterator[str]:
    yield stream
    yield topic


def _above(stream: str, _: str) -> Iterator[str]:
    """The paths that a stream lies below."""
    yield from (stream[:i] for i, sign in enumerate(stream) if sign in _SEPARATORS and i)


def _tails(stream: str, _: str) -> Iterator[str]:
    """The last parts of a stream's name."""
    yield from (stream[i + 1 :] for i, sign in enumerate(stream) if sign in _SEPARATORS)
