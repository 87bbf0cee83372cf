"""Selects the streams of messages to read; some streams become known only as messages are read."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from robocache.core.matching import Name, expected, find, is_match, may_name_below
from robocache.readers.errors import RecordingError
from robocache.readers.options import ReadOptions


class Selection:
    """The streams that `ReadOptions.topics` asks for.

    Args:
        options: The user's options.
        names: The streams known before reading, with their topics.
        lazy: Topics whose streams are known only once their messages are read.
        hidden: Topics that are left out unless a pattern names them.

    Raises:
        RecordingError: For a pattern that cannot match any stream.
    """

    def __init__(
        self,
        options: ReadOptions,
        names: Iterable[Name],
        lazy: Collection[str] = (),
        hidden: Collection[str] = (),
    ) -> None:
        self._patterns = options.topics
        self._lazy = frozenset(lazy)
        self._known = list(dict.fromkeys([*names, *((topic, topic) for topic in lazy)]))
        self._late: list[Name] = []
        self._open: set[str] = set()  # patterns that can only match a stream of a lazy topic
        if self._patterns is None:
            self.chosen = {name for name in self._known if name[1] not in hidden}
            return
        self.chosen = set()
        for pattern in self._patterns:
            matches = find(pattern, self._known)
            self.chosen.update(matches)
            if not matches:
                self._open.add(pattern)
        self._unseen = set(self._open)
        if not self._lazy:
            self.check()

    def reads(self, topic: str) -> bool:
        """Whether to read the messages of a topic."""
        if any(chosen == topic for _, chosen in self.chosen):
            return True
        if topic not in self._lazy or self._patterns is None:
            return False
        return bool(self._open) or any(may_name_below(p, topic) for p in self._patterns)

    def wants(self, stream: str, topic: str) -> bool:
        """Whether to read a stream of a topic."""
        name = (stream, topic)
        if topic not in self._lazy:
            return name in self.chosen
        if self._patterns is None:
            return (topic, topic) in self.chosen
        if name not in self._late:
            self._late.append(name)
        by_name = {p for p in self._open if find(p, [name])}
        self._unseen -= by_name
        return (
            bool(by_name)
            or (topic, topic) in self.chosen
            or any(is_match(pattern, stream) for pattern in self._patterns)
        )

    def wants_late(self, stream: str) -> bool:
        """Whether to read a stream, which a lazy topic may contain; True if none contains it."""
        topics = [t for t in self._lazy if stream == t or stream.startswith(f"{t}/")]
        return not topics or any(self.wants(stream, topic) for topic in topics)

    def check(self) -> None:
        """Checks the patterns; the caller calls it when all streams are known.

        Raises:
            RecordingError: For a pattern that matched no stream.
        """
        if self._patterns is None:
            return
        for pattern in self._patterns:
            if pattern in self._unseen:
                names = [topic for _, topic in self._known] + [stream for stream, _ in self._known]
                names += [stream for stream, _ in self._late]
                raise RecordingError(f"topics: {expected(pattern, list(dict.fromkeys(names)))}")
