"""The user's options for reading a recording."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from robocache.core.matching import choose, find
from robocache.readers.errors import RecordingError
from robocache.readers.image_encoding import RAW, ImageEncoding
from robocache.readers.limits import MEMORY_LIMIT

TIME_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
"""Nanoseconds of each unit of time that `ReadOptions.time_unit` accepts."""


@dataclass(frozen=True)
class ReadOptions:
    """The user's options for reading.

    Raises:
        ValueError: For an option out of range: ``name: expected X, got Y``.
    """

    rate: float | None = None
    """Rows per second of recordings that state neither times nor a rate."""
    images: bool = True
    """Whether to decode images and video; False omits those streams, with a note."""
    resize: tuple[int, int] | None = None
    """Width and height of images; None: as recorded."""
    encoding: ImageEncoding = RAW
    """How images are stored."""
    fit: Literal["pad", "crop", "stretch"] = "pad"
    """How to fit an image of another aspect ratio to `resize`: pad with black, crop or distort."""
    topics: tuple[str, ...] | None = None
    """Streams or topics to read, as :mod:`robocache.core.matching` names them; None: all."""
    stamp: Literal["header", "received"] = "header"
    """The time of a message: the stamp in its header, or its time of receipt."""
    time_column: str | None = None
    """The column of times in a table; None: detected by its name."""
    time_unit: Literal["ns", "us", "ms", "s"] | None = None
    """The unit of the time column; None: from its type or its name."""
    memory_limit: int = MEMORY_LIMIT
    """Bytes that a part of a recording may take in memory, or its size on disk; see `limits`."""

    def __post_init__(self) -> None:
        if self.memory_limit < 1:
            raise ValueError(f"memory_limit: expected bytes above 0, got {self.memory_limit}")
        if self.rate is not None and not (self.rate > 0 and math.isfinite(self.rate)):
            raise ValueError(f"rate: expected rows per second above 0, got {self.rate}")
        if self.resize is not None and not (len(self.resize) == 2 and min(self.resize) > 0):
            raise ValueError(f"resize: expected a width and a height above 0, got {self.resize}")
        for name, value, known in (
            ("fit", self.fit, ("pad", "crop", "stretch")),
            ("stamp", self.stamp, ("header", "received")),
            ("time_unit", self.time_unit, (None, *TIME_UNITS)),
        ):
            if value not in known:
                words = ", ".join(str(word) for word in known if word)
                raise ValueError(f"{name}: expected one of {words}, got {value!r}")

    @property
    def keeps_files(self) -> bool:
        """Whether JPEG files of the recording are kept as they are."""
        return self.encoding.kind in ("auto", "keep") and self.resize is None

    def select(self, names: Iterable[str]) -> list[str]:
        """Selects the `names` that `topics` matches, in their order.

        Raises:
            RecordingError: For a pattern of `topics` that matches none.
        """
        names = list(names)
        if self.topics is None:
            return names
        try:
            return choose(self.topics, [(name, name) for name in names], "topics")
        except ValueError as error:
            raise RecordingError(str(error)) from None

    def wants(self, name: str) -> bool:
        """Whether a pattern of `topics` matches a stream, without reference to other streams."""
        return self.topics is None or any(find(pattern, [(name, name)]) for pattern in self.topics)
