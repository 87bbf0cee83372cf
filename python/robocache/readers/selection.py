"""Which streams of recorded messages are read, where some are known only as messages come in."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from robocache.core.matching import Name, expected, find, is_match, may_name_below
from robocache.readers.errors import RecordingError
from robocache.readers.options import ReadOptions


class Selection:
    """The streams that `ReadOptions.topics` asks for.

    Args:
        options: What the user asks for.
        names: The streams that are known from the start, with their topics.
        lazy: Topics whose streams are known only once their messages are read.
        hidden: Topics that are left out unless a pattern names them.

    Raises:
        RecordingError: For a pattern that can name no stream.
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
        self._open: set[str] = set()  # patterns that can only name a stream of a lazy topic
        if self._patterns is None:
            self.chosen = {name for name in self._known if name[1] not in hidden}
            return
        self.chosen = set()
        for pattern in self._patterns:
            found = find(pattern, self._known)
            self.chosen.update(found)
            if not found:
                self._open.add(pattern)
        self._unseen = set(self._open)
        if not self._lazy:
            self.check()

    def reads(self, topic: str) -> bool:
        """Whether messages of a topic are to be read."""
        if any(chosen == topic for _, chosen in self.chosen):
            return True
        if topic not in self._lazy or self._patterns is None:
            return False
        return bool(self._open) or any(may_name_below(p, topic) for p in self._patterns)

    def wants(self, stream: str, topic: str) -> bool:
        """Whether a stream of a topic is wanted."""
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
        """Whether a stream is wanted that may be one of a lazy topic; others were chosen before."""
        topics = [t for t in self._lazy if stream == t or stream.startswith(f"{t}/")]
        return not topics or any(self.wants(stream, topic) for topic in topics)

    def check(self) -> None:
        """Called once all streams are known.

        Raises:
            RecordingError: For a pattern that named none of them.
        """
        if self._patterns is None:
            return
        for pattern in self._patterns:
            if pattern in self._unseen:
                names = [topic for _, topic in self._known] + [stream for stream, _ in self._known]
                names += [stream for stream, _ in self._late]
                raise RecordingError(f"topics: {expected(pattern, list(dict.fromkeys(names)))}")
