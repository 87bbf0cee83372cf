"""The streams of a LiveAligner: validates arguments that name streams, robots and rows."""

from __future__ import annotations

import operator
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from robocache.core.checks import check_integer
from robocache.live.arguments import integers, parse_time
from robocache.live.library import LiveStatus
from robocache.loader.policy_spec import PolicySpec
from robocache.loader.window_spec import WindowSpec
from robocache.store.dtypes import STORAGE


class PushStream:
    """The properties of a stream that a push reads."""

    def __init__(self, number: int, spec: WindowSpec, takes_rows: bool) -> None:
        self.number = number
        self.spec = spec
        self.takes_rows = takes_rows
        self.shape = spec.shape
        self.dtype = STORAGE[spec.dtype]
        self.is_bfloat16 = spec.dtype == "BF16"  # `dtype` is uint16 then: NumPy has no bfloat16
        self.size = spec.elements * self.dtype.itemsize
        # Whether frames may be JPEG.
        self.is_image = spec.dtype == "U8" and len(spec.shape) == 3 and spec.shape[2] in (1, 3)
        # Held while pushing: a ring accepts rows of one thread at a time.
        self.lock = threading.Lock()
        self.ordered = np.empty(spec.elements if spec.channels else 0, self.dtype)  # under `lock`
        self.warned: set[str] = set()  # the statuses that the user was warned of


class Anchor(NamedTuple):
    """The anchor times of a query."""

    stream: int
    """The number of the stream whose newest row has the anchor time; -1: none."""
    times: NDArray[np.int64] | None
    """A time for each robot, [R]; None: one for all."""
    time_ns: int
    """The time of all robots, without `stream` and `times`."""


class PushStreams(dict[str, PushStream]):
    """The streams of a LiveAligner, by name.

    Args:
        spec: The spec of its batches.
        robots: R, the number of robots.
    """

    def __init__(self, spec: PolicySpec, robots: int) -> None:
        super().__init__(
            (s.name, PushStream(i, s, spec.takes_rows(s))) for i, s in enumerate(spec.streams)
        )
        self._spec, self._robots = spec, robots

    def find(self, name: str, key: object) -> PushStream:
        """The stream that an argument names; `name`: the argument's name.

        Raises:
            ValueError: The spec has no such stream.
        """
        stream = self.get(key) if isinstance(key, str) else None
        if stream is None:
            names = ", ".join(self)
            raise ValueError(f"{name}: expected a stream of the spec ({names}), got {key!r}")
        return stream

    def find_pushed(self, key: object) -> PushStream:
        """The stream of a push.

        Raises:
            ValueError: The spec has no such stream, or it takes no rows.
        """
        stream = self.find("stream", key)
        if not stream.takes_rows:
            self.refuse_push(LiveStatus.TAKES_NO_ROWS, stream, 0)
        return stream

    def that_take_rows(self) -> dict[str, PushStream]:
        """The streams to which rows are pushed."""
        return {name: stream for name, stream in self.items() if stream.takes_rows}

    def capacities(
        self, buffer_rows: Mapping[str, int] | None, ring_rows: Mapping[str, int] | None
    ) -> list[tuple[int, int]]:
        """The capacity (buffer, ring) in rows of each stream; 0 for the library's default."""
        buffers = self._rows("buffer_rows", buffer_rows)
        return list(zip(buffers, self._rows("ring_rows", ring_rows), strict=True))

    def _rows(self, name: str, rows: Mapping[str, int] | None) -> list[int]:
        """An option's number of rows of each stream; 0 for the library's default."""
        if rows is not None and not isinstance(rows, Mapping):
            raise TypeError(f"{name}: expected rows by stream, got {type(rows).__name__}")
        for key in rows or {}:
            self.find(name, key)
        return [
            check_integer(f"{name}[{key!r}]", rows[key], 1, 2**31) if rows and key in rows else 0
            for key in self
        ]

    def robot(self, robot: Any) -> int:
        """The index of a robot as an int."""
        try:
            number = operator.index(robot)
        except TypeError:
            raise TypeError(f"robot: expected an int, got {type(robot).__name__}") from None
        if not 0 <= number < self._robots:
            raise ValueError(f"robot: expected 0 to {self._robots - 1}, got {robot}")
        return number

    def robot_of_each(self, stream: PushStream, robots: Any, count: int) -> NDArray[np.int64]:
        """The robots of `count` rows, [N]."""
        numbers = integers("robot", robots, count)
        wrong = numbers[(numbers < 0) | (numbers >= self._robots)]
        if len(wrong):
            self.refuse_push(LiveStatus.UNKNOWN_ROBOT, stream, int(wrong[0]))
        return numbers

    def anchor(self, now: Any) -> Anchor:
        """The anchor times that a query's `now` asks for."""
        if isinstance(now, str):
            stream = self.find("now", now)
            if not stream.takes_rows:
                raise ValueError(
                    f"now: expected a stream that has rows at control time, got {now!r}, "
                    f"{self._why_no_rows(stream)}"
                )
            return Anchor(stream.number, None, 0)
        if isinstance(now, (np.ndarray, Tensor)) and now.ndim:
            return Anchor(-1, integers("now", now, self._robots), 0)
        return Anchor(-1, None, parse_time(now, "now"))

    def refuse_push(self, status: int, stream: PushStream, robot: int) -> NoReturn:
        """Raises the error of a push whose status is not OK."""
        if status == LiveStatus.TAKES_NO_ROWS:
            raise ValueError(
                f"stream: expected one whose rows windows are made of, got {stream.spec.name!r}, "
                + self._why_no_rows(stream, " (undo takes what a policy gives in its place)")
            )
        if status == LiveStatus.UNKNOWN_ROBOT:
            raise ValueError(f"robot: expected 0 to {self._robots - 1}, got {robot}")
        raise RuntimeError(f"push: {LiveStatus(status).name}")

    def _why_no_rows(self, stream: PushStream, hint: str = "") -> str:
        if self._spec.lacks(stream.spec):
            return "which this robot lacks (batches have zeros for it, all padded)"
        return f"whose window reaches into the future{hint}"
