"""Detects the clocks of a recording's stamps, and the shifts that convert them to one clock.

The recorder's clock dates the receipt of each message; the publisher's clock dates its stamp. As a
rule both are one clock, and the times differ by the latency of transport and queues. They are two
clocks if a simulator or a player publishes simulated or replayed time, if a driver stamps by the
time since its start, or if a clock was never set (GPS and TAI are 18 s and 37 s ahead of UTC).

:class:`Survey` compares stamps with times of receipt, topic by topic, and :meth:`Survey.clocks`
returns the shifts that convert all times to the clock that stamps most topics.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

OTHER_CLOCK_NS = 10_000_000_000
"""Stamps whose median distance from receipt exceeds this are of another clock. Transport takes
milliseconds, a queue or a slow computation seconds; the smallest unintended offsets of clocks seen
in practice are 18 s (GPS) and 37 s (TAI)."""

FEW = 5
"""With fewer messages, or one stamp for all, the clock of a topic cannot be determined: a latched
message (a map) was stamped long before it was recorded."""

_STEADY_NS = 250_000_000
"""The largest distance of the median offset of a tenth of the messages from that of all messages,
for the offset to count as constant: a loaded machine delays messages this much for a while. A clock
at another rate exceeds it: one that is 0.5 % slow within two minutes."""
_SAME_NS = 500_000_000  # offsets of topics of one foreign clock: they differ by latency alone
_LATCHED_NS = 86_400_000_000_000  # how much older than its receipt a latched message may be
_MAX_SAMPLES = 100_000  # messages of a topic that are compared; of more, every second, fourth, ...


@dataclass(frozen=True)
class Offset:
    """By how much a topic's times of receipt are ahead of its stamps, ns."""

    median: int
    spread: int
    """The largest distance from it that the median offset of a tenth of the messages has."""

    @property
    def is_steady(self) -> bool:
        """Whether the offset is constant over the recording."""
        return self.spread <= _STEADY_NS


def offset_of(stamps: NDArray[np.int64], received: NDArray[np.int64]) -> Offset | None:
    """The offset of a topic's stamps; None if its messages do not determine a clock (see `FEW`)."""
    if len(stamps) < FEW or (stamps == stamps[0]).all():
        return None
    delays = received - stamps
    base = int(delays[0])
    delays = delays - base  # small numbers, which float64 holds to the nanosecond
    median = float(np.median(delays))
    tenths = [float(np.median(d)) for d in np.array_split(delays, min(10, len(delays) // 2))]
    spread = max(abs(tenth - median) for tenth in tenths)
    return Offset(base + round(median), round(spread))


@dataclass(frozen=True)
class Clocks:
    """Shifts that map the times of a recording onto one clock."""

    receipt_shift: int = 0
    """Nanoseconds to add to times of receipt."""
    shifts: Mapping[str, int] = field(default_factory=dict)
    """Nanoseconds to add to the stamps of each topic; 0 for topics without an entry."""
    by_receipt: frozenset[str] = frozenset()
    """Topics whose stamps are of an undetermined clock: their times are those of receipt."""
    start: int | None = None
    """The earliest time of a message, on the common clock; None: not known."""
    on_reference: tuple[str, ...] = ()
    """The topics stamped by the common clock; empty if it is the clock of receipt."""
    spread: int = 0
    """The largest error of `receipt_shift`, ns."""

    def note(self, notes: Counter[str]) -> None:
        """Adds notes on the shifted times."""
        if self.receipt_shift:
            notes[
                "topics stamped by a simulated or replayed clock, onto which times of receipt are "
                f"moved by {_seconds(self.receipt_shift)}, within {self.spread / 1e6:.3g} ms "
                f"({_listed(self.on_reference)})"
            ] += len(self.on_reference)
        if self.shifts:
            first = next(iter(self.shifts))
            notes[
                "topics stamped by another clock than most, moved onto that by their median offset "
                f"({_listed(tuple(self.shifts))}; the first by {_seconds(self.shifts[first])})"
            ] += len(self.shifts)
        if self.by_receipt:
            notes[
                "topics stamped by another clock in too few messages to compare, timed by when "
                f"they were received ({_listed(tuple(sorted(self.by_receipt)))})"
            ] += len(self.by_receipt)


def _seconds(ns: int) -> str:
    return f"{ns / 1e9:+,.3f} s"


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}"


class _Stamps:
    """The stamps and times of receipt of one topic's messages."""

    def __init__(self, in_message: bool) -> None:
        self.in_message = in_message
        """Whether its messages contain stamps; else the stamps are the file's times of sending."""
        self._stamps = array("q")
        self._received = array("q")
        self._every = 1
        self._count = 0

    def add(self, stamp: int, received: int) -> None:
        self._count += 1
        if self._count % self._every == 0:
            self._stamps.append(stamp)
            self._received.append(received)
        if len(self._stamps) == _MAX_SAMPLES:
            del self._stamps[::2], self._received[::2]
            self._every *= 2

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.array(self._stamps, np.int64), np.array(self._received, np.int64)


class Survey:
    """Compares the stamps of a recording's topics with the times of receipt."""

    def __init__(self) -> None:
        self._topics: dict[str, _Stamps] = {}
        self._first_received: int | None = None  # of all messages
        self._first_unstamped: int | None = None

    def add(self, topic: str, stamp: int, received: int, in_message: bool) -> None:
        """Counts a message with a stamp; a stamp of zero in a message was never set.

        Args:
            topic: Its topic.
            stamp: Its stamp, ns.
            received: When it was received, ns.
            in_message: Whether the message contains the stamp; else it is the time of sending.
        """
        self._receive(received)
        if stamp == 0 and in_message:
            self.add_unstamped(received)
            return
        if topic not in self._topics:
            self._topics[topic] = _Stamps(in_message)
        self._topics[topic].add(stamp, received)

    def add_unstamped(self, received: int) -> None:
        """Counts a message without a stamp."""
        self._receive(received)
        if self._first_unstamped is None or received < self._first_unstamped:
            self._first_unstamped = received

    def _receive(self, received: int) -> None:
        if self._first_received is None or received < self._first_received:
            self._first_received = received

    @property
    def has_two_clocks(self) -> bool:
        """Whether any topic is stamped by another clock than that of receipt."""
        for stamps, received in (topic.arrays() for topic in self._topics.values()):
            offset = float(np.median(received - stamps))
            latched = len(stamps) < FEW or (stamps == stamps[0]).all()
            if not -OTHER_CLOCK_NS <= offset <= (_LATCHED_NS if latched else OTHER_CLOCK_NS):
                return True
        return False

    def clocks(self) -> Clocks:
        """The shifts that map all times onto the clock that stamps most topics."""
        offsets = {
            name: offset
            for name, topic in self._topics.items()
            if (offset := offset_of(*topic.arrays())) is not None
        }
        groups = self._groups({n: o.median for n, o in offsets.items() if o.is_steady})
        reference, names = self._elect(groups)
        shifts: dict[str, int] = {}
        by_receipt: set[str] = set()
        of_group = {name: offset for offset, group in groups.items() for name in group}
        for name, topic in self._topics.items():
            stamps, received = topic.arrays()
            away = offsets[name].median if name in offsets else _median(received - stamps)
            if abs(away - reference) <= OTHER_CLOCK_NS:
                continue
            if abs(away) <= OTHER_CLOCK_NS:  # stamped by the clock of receipt
                shifts[name] = -reference
            elif name in of_group:
                shifts[name] = of_group[name] - reference
            elif name not in offsets and not 0 < away - reference <= _LATCHED_NS:
                by_receipt.add(name)
        return Clocks(
            -reference,
            shifts,
            frozenset(by_receipt),
            self._start(reference, shifts, by_receipt),
            names if reference else (),
            max((offsets[name].spread for name in names), default=0),
        )

    def _groups(self, offsets: Mapping[str, int]) -> dict[int, tuple[str, ...]]:
        """The topics of each clock by its offset; 0 is the clock of receipt."""
        groups: dict[int, tuple[str, ...]] = {
            0: tuple(name for name, offset in offsets.items() if abs(offset) <= OTHER_CLOCK_NS)
        }
        group: list[str] = []
        foreign = [name for name in offsets if name not in groups[0]]
        for name in sorted(foreign, key=lambda name: offsets[name]):
            if group and offsets[name] - offsets[group[-1]] > _SAME_NS:
                groups[_median(np.array([offsets[n] for n in group]))] = tuple(group)
                group = []
            group.append(name)
        if group:
            groups[_median(np.array([offsets[n] for n in group]))] = tuple(group)
        return groups

    def _elect(self, groups: Mapping[int, tuple[str, ...]]) -> tuple[int, tuple[str, ...]]:
        """The offset and the topics of the clock that stamps most topics; on a tie that of receipt.

        Topics with times of sending alone do not vote for the clock of receipt, which is theirs.
        """

        def votes(offset: int) -> int:
            names = groups[offset]
            return sum(1 for n in names if offset or self._topics[n].in_message)

        best = max(groups, key=lambda offset: (votes(offset), offset == 0))
        return best, groups[best]

    def _start(self, reference: int, shifts: Mapping[str, int], by_receipt: set[str]) -> int | None:
        """The earliest time of a message, on the reference clock."""
        if self._first_received is None:
            return None
        first = self._first_received - reference
        times = [first] if not self._topics else []
        if self._first_unstamped is not None:
            times.append(self._first_unstamped - reference)
        for name, topic in self._topics.items():
            stamps, received = topic.arrays()
            if name in by_receipt:
                times.append(int(received.min()) - reference)
                continue
            moved = stamps + shifts.get(name, 0)
            # Includes latched messages, and excludes stamps of undetermined clocks.
            moved = moved[np.abs(moved - first) <= _LATCHED_NS]
            times += [int(moved.min())] if len(moved) else []
        return min(times, default=first)


def _median(numbers: NDArray[np.int64]) -> int:
    base = int(numbers[0])
    return base + round(float(np.median(numbers - base)))
