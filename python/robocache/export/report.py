"""The report of an export, and its log records."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robocache.core.display import counted

log = logging.getLogger(__name__)


@dataclass
class Export:
    """Result of :func:`export_lerobot`: counts, and everything that was left out or changed."""

    destination: Path
    rate: float
    episodes: int = 0
    frames: int = 0
    features: list[str] = field(default_factory=list)
    frames_across_gaps: int = 0
    """Frames made from rows that are far apart or not valid: LeRobot has no mask for them."""
    held: list[str] = field(default_factory=list)
    """Streams that are sent once (static transforms, a row an episode): their row is in every
    frame, and says nothing of when an episode begins and ends."""
    episodes_as_recorded: int = 0
    """Episodes whose rows are at the rate already: each row is a frame, bit for bit."""
    skipped: list[tuple[int, str]] = field(default_factory=list)
    """Episodes that were left out, and why."""
    without_statistics: list[str] = field(default_factory=list)
    """Features with a channel that has no finite number; its statistics are 0."""

    def as_json(self) -> dict[str, Any]:
        """As `robocache export --json` prints it."""
        return {**vars(self), "destination": str(self.destination)}

    def log(self) -> None:
        """Logs the counts, and warnings of everything that was left out or changed."""
        for index, reason in self.skipped:
            log.warning("%s: skipped episode %d: %s", self.destination, index, reason)
        if self.frames_across_gaps:
            log.warning(
                "%s: %s across gaps or from rows that are not valid; LeRobot has no mask for them",
                self.destination,
                counted(self.frames_across_gaps, "frame"),
            )
        if self.without_statistics:
            log.warning(
                "%s: channels without a finite number, whose statistics are 0: in %s",
                self.destination,
                ", ".join(self.without_statistics),
            )
        log.info(
            "%s: exported %s, %s",
            self.destination,
            counted(self.episodes, "episode"),
            counted(self.frames, "frame"),
        )
