"""`LiveAligner`: windows at control time, made as the loader made them in training."""

from __future__ import annotations

import math
import operator
import os
import threading
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robocache.core import torch_private
from robocache.core.checks import check_bool, check_integer
from robocache.core.display import ByName, listed
from robocache.live.arguments import (
    Values,
    as_array,
    floats,
    integers,
    nanoseconds,
    parse_time,
    rows_of,
)
from robocache.live.library import STATS, Aligner, LiveStatus
from robocache.live.stats import LiveStats
from robocache.loader import device as _device
from robocache.loader.policy_spec import PolicySpec, relative_to
from robocache.loader.window_spec import WindowSpec
from robocache.store.dtypes import STORAGE

_NEVER = -(2**63)  # the newest time of a stream without rows
_MAX_ROBOTS = 2**20  # as the library has it
_SLOTS = 4  # copies to a GPU that may be under way


class _Stream:
    """The data of a stream that a push reads."""

    def __init__(self, number: int, spec: WindowSpec, takes_rows: bool) -> None:
        self.number = number
        self.spec = spec
        self.takes_rows = takes_rows
        self.shape = spec.shape
        self.dtype = STORAGE[spec.dtype]
        self.is_bfloat16 = spec.dtype == "BF16"  # which NumPy has under another name
        self.size = spec.elements * self.dtype.itemsize
        # Held by who pushes: a ring takes rows of one thread at a time.
        self.lock = threading.Lock()
        self.has_warned = False  # of a full ring


class LiveAligner:
    """Windows of what sensors send, as the loader made them of recordings.

    Rows are pushed as they arrive; :meth:`query` gives what a batch of the loader would hold if the
    recording had ended now: the same keys, shapes and types, and the same bits, since the same
    code makes them. What a policy gives is undone to what the robot takes by :meth:`undo`.

    All of it may be called by any thread: pushes of a stream wait for one another, and so do
    :meth:`query`, :meth:`undo`, :meth:`reset` and :meth:`now_ns`, but never these for those. What
    is relative is undone by the last query, whichever thread's, and with `reuse_buffers` that has
    overwritten the batches before it: there one thread asks and undoes. What happens to rows that
    are late, repeated, dropped or from the future is counted: :meth:`stats`. docs/live.md has the
    rest.

    Args:
        spec: What the policy was trained on, or its file.
        robots: How many robots are queried together: the batch.
        device: Where batches are wanted. On "cuda" they are made on the CPU and copied, in one
            piece, on the current stream.
        buffer_rows: How many rows of a stream are kept for its windows, by stream. Others keep what
            their windows reach back for at the spec's rate, half as many again, and those of a
            quarter of a second.
        ring_rows: How many rows of a stream may be pushed between two queries, by stream; more are
            dropped, the first of them with a ``UserWarning``. Others have room for a quarter of a
            second.
        max_future_s: A row stamped later than a query by more than this is a mistake: it is given
            up, and counted.
        reuse_buffers: Whether a query overwrites the tensors of the last one, in place of new ones.

    Raises:
        ValueError, TypeError: A spec that is not one, or an option that does not fit it.
        RuntimeError: There is no CUDA.

    Example:
        >>> aligner = rc.LiveAligner("policy_spec.json")
        >>> aligner.push("joints", stamp_ns, positions)
        >>> batch = aligner.query(now_ns)
        >>> action = aligner.undo("action", policy(batch))
    """

    def __init__(
        self,
        spec: PolicySpec | str | os.PathLike[str],
        *,
        robots: int = 1,
        device: torch.device | str = "cpu",
        buffer_rows: Mapping[str, int] | None = None,
        ring_rows: Mapping[str, int] | None = None,
        max_future_s: float = 10.0,
        reuse_buffers: bool = False,
    ) -> None:
        name = "spec"
        if not isinstance(spec, PolicySpec):
            if not isinstance(spec, (str, os.PathLike)):
                kind = type(spec).__name__
                raise TypeError(f"spec: expected a PolicySpec or its file, got {kind}")
            name = os.fspath(spec)
            spec = PolicySpec.load(spec)
        self.spec = spec
        """The policy spec that defines its batches."""
        self.robots = check_integer("robots", robots, 1, _MAX_ROBOTS)
        """R: how many robots are queried together."""
        self.device = _device.find_device(device)
        """Where batches are."""
        self._streams = {
            s.name: _Stream(i, s, spec.takes_rows(s)) for i, s in enumerate(spec.streams)
        }
        check_bool("reuse_buffers", reuse_buffers)
        rows = zip(
            self._rows("buffer_rows", buffer_rows), self._rows("ring_rows", ring_rows), strict=True
        )
        is_cuda = self.device.type == "cuda"
        with _device.on_device(self.device):
            self._aligner = Aligner(
                spec.to_json().encode(),
                name,
                self.robots,
                nanoseconds("max_future_s", max_future_s),
                list(rows),
                _SLOTS if is_cuda else 0,
            )
        self._index = self.device.index if is_cuda else None
        self._lock = threading.Lock()  # held by who asks or forgets
        # Each stream in the output has a mask and an age, behind all values.
        made = sum(not stream.reaches_ahead for stream in spec.streams)
        values = len(self._aligner.outputs) - 2 * made
        self._places = [
            (o.key, o.dtype, o.shape, _strides(o.shape), o.offset // o.dtype.itemsize)
            for i, o in enumerate(self._aligner.outputs)
            if spec.with_age or i < values or not o.key.endswith("_age")
        ]
        self._words = -(-self._aligner.output_bytes // 8)
        self._dtypes = {place[1] for place in self._places}
        self._reused = self._allocate() if reuse_buffers else None

    def _rows(self, name: str, given: Mapping[str, int] | None) -> list[int]:
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(f"{name}: expected rows by stream, got {type(given).__name__}")
        for key in given or {}:
            self._find(name, key)
        return [
            check_integer(f"{name}[{key!r}]", given[key], 1, 2**31) if given and key in given else 0
            for key in self._streams
        ]

    def _find(self, name: str, key: object) -> _Stream:
        stream = self._streams.get(key) if isinstance(key, str) else None
        if stream is None:
            names = ", ".join(self._streams)
            raise ValueError(f"{name}: expected a stream of the spec ({names}), got {key!r}")
        return stream

    # ---- rows come in ----------------------------------------------------------------------------

    def push(
        self, stream: str, time_ns: int, values: Values, robot: int = 0, *, valid: bool = True
    ) -> bool:
        """Takes a row.

        Args:
            stream: Of which stream.
            time_ns: When it was measured, in ns of the clock that queries go by.
            values: The row, of the stream's shape. Floats are rounded to the stream's type.
            robot: Of which robot, 0 to R - 1.
            valid: Whether the row is real; else what is made from it is padded.

        Returns:
            Whether there was room for it. False: queries are behind; it is dropped, and counted.
            The first row of a stream that is dropped is a ``UserWarning``.

        Raises:
            ValueError: An unknown stream or robot, a stream whose window reaches into the future,
                or a row of another shape.
            TypeError: A time that is no integer, a `valid` that is no bool, or values of another
                kind.
        """
        to = (self._streams.get(stream) if type(stream) is str else None) or self._find(
            "stream", stream
        )
        if type(robot) is not int or not 0 <= robot < self.robots:
            robot = self._robot(robot)
        # Kept by its name until the library has copied it. The usual row is taken as it is.
        row: Any = values
        if (
            type(row) is not np.ndarray
            or row.dtype != to.dtype
            or row.shape != to.shape
            or (to.is_bfloat16 or not row.flags.c_contiguous)
        ):
            row = rows_of(f"{stream}: values", to.spec, values, to.shape)
        if valid is not True and valid is not False and not isinstance(valid, np.bool_):
            raise TypeError(f"valid: expected a bool, got {type(valid).__name__}")
        time_ns = parse_time(time_ns)
        with to.lock:
            status = self._aligner.push(
                to.number, time_ns, row.ctypes.data, to.size, robot, bool(valid)
            )
        if status == LiveStatus.OK:
            return True
        if status == LiveStatus.RING_IS_FULL:
            if not to.has_warned:
                self._warn_full(to)
            return False
        self._refuse_push(status, to, robot)
        raise RuntimeError(f"push: {LiveStatus(status).name}")

    def push_many(
        self,
        stream: str,
        times_ns: NDArray[np.int64] | Tensor,
        values: Values,
        robot: int | NDArray[np.int64] | Tensor = 0,
        *,
        valid: NDArray[np.bool_] | Tensor | None = None,
    ) -> int:
        """Takes rows, one after the other: several of a robot, or one of each.

        Args:
            stream: Of which stream.
            times_ns: When they were measured: [N] integers.
            values: [N, the row's shape...].
            robot: Of which robot; or of each row which, [N] integers.
            valid: Which rows are real, [N] bool; None: all.

        Returns:
            How many there was room for; the others were dropped, and counted. The first time that
            this happens to a stream is a ``UserWarning``.

        Raises:
            ValueError, TypeError: As of :meth:`push`.
        """
        to = self._find("stream", stream)
        if not to.takes_rows:
            self._refuse_push(LiveStatus.TAKES_NO_ROWS, to, 0)
        times = integers(f"{stream}: times_ns", times_ns)
        rows = rows_of(f"{stream}: values", to.spec, values, (len(times), *to.spec.shape))
        robots = mask = None
        if isinstance(robot, (np.ndarray, Tensor)):
            robots = integers("robot", robot, len(times))
            wrong = robots[(robots < 0) | (robots >= self.robots)]
            if len(wrong):
                self._refuse_push(LiveStatus.UNKNOWN_ROBOT, to, int(wrong[0]))
        else:
            robot = self._robot(robot)
        if valid is not None:
            mask = np.ascontiguousarray(as_array(valid))
            if mask.dtype != np.bool_ or mask.shape != times.shape:
                got = f"{mask.dtype} {list(mask.shape)}"
                raise ValueError(f"{stream}: valid: expected bool [N={len(times)}], got {got}")
        with to.lock:
            taken = self._aligner.push_many(
                to.number,
                len(times),
                times.ctypes.data,
                rows.ctypes.data,
                to.size,
                0 if robots is not None else int(robot),
                None if robots is None else robots.ctypes.data,
                None if mask is None else mask.ctypes.data,
            )
        if taken < len(times) and not to.has_warned:
            self._warn_full(to)
        return taken

    def _warn_full(self, stream: _Stream) -> None:
        """Warns once for each stream; :meth:`stats` counts all rows that are dropped."""
        stream.has_warned = True
        name, ring = stream.spec.name, self._aligner.rows[stream.number][1]
        warnings.warn(
            f"LiveAligner: {name}: the ring is full: more than {ring} rows were pushed since the "
            f"last query, and newer ones are dropped (query more often, or set "
            f"ring_rows={{{name!r}: {2 * ring}}}; stats()[{name!r}].dropped_full counts them)",
            UserWarning,
            stacklevel=3,  # the caller of push or push_many
        )

    def _refuse_push(self, status: int, stream: _Stream, robot: int) -> None:
        if status == LiveStatus.TAKES_NO_ROWS:
            raise ValueError(
                f"stream: expected one whose rows windows are made of, got {stream.spec.name!r}, "
                "whose window reaches into the future (undo takes what a policy gives in its place)"
            )
        if status == LiveStatus.UNKNOWN_ROBOT:
            raise ValueError(f"robot: expected 0 to {self.robots - 1}, got {robot}")

    # ---- batches go out --------------------------------------------------------------------------

    def query(self, now: int | str | NDArray[np.int64]) -> dict[str, Tensor]:
        """Makes every window of what has been pushed so far.

        Args:
            now: The time, in ns, that windows are at; or for each robot one, [R]; or the stream
                whose newest row is now, by its stamp.

        Returns:
            What a batch of the loader has, with R samples: each stream's values, or those of its
            `concat` key, ``<key>_is_pad`` and, where the loader has them, ``<key>_age``; without
            the metadata of samples, and without windows that reach into the future. Before a
            stream's first row its window is zeros, as transforms leave them, all padded.

        Raises:
            ValueError, TypeError: An unknown stream, or a time that is none.
            RuntimeError: CUDA refuses.
        """
        times, address, stream, time_ns = None, None, -1, 0
        if isinstance(now, str):
            to = self._find("now", now)
            stream = to.number
            if not to.takes_rows:
                raise ValueError(
                    f"now: expected a stream that has rows at control time, got {now!r}, whose "
                    "window reaches into the future"
                )
        elif isinstance(now, (np.ndarray, Tensor)) and now.ndim:
            times = integers("now", now, self.robots)  # kept until they were looked at
            address = times.ctypes.data
        else:
            time_ns = parse_time(now, "now")
        storage, batch = self._reused or self._allocate()
        out = storage.data_ptr()
        with self._lock:
            if self._index is None:
                status = self._aligner.query(stream, address, time_ns, out)
            else:
                with torch.cuda.device(self._index):
                    status = self._query_on_cuda(stream, address, time_ns, out)
        if status not in (LiveStatus.OK, LiveStatus.NO_ROWS):  # the masks tell of the latter
            raise RuntimeError(f"query: expected to be made, got {LiveStatus(status).name}")
        return dict(batch)

    def _query_on_cuda(self, stream: int, times: int | None, time_ns: int, out: int) -> int:
        assert self._index is not None
        raw = torch_private.cuda_stream(self._index)
        status = self._aligner.query_on_cuda(stream, times, time_ns, out, raw)
        if status == LiveStatus.BUSY:  # so many copies are under way: wait for them
            self._aligner.wait_on_cuda()  # on whatever stream they are
            status = self._aligner.query_on_cuda(stream, times, time_ns, out, raw)
        return status

    def _allocate(self) -> tuple[Tensor, dict[str, Tensor]]:
        # Short on purpose: most of what a small query costs.
        storage = torch.empty(self._words, dtype=torch.int64, device=self.device)
        typed = {dtype: storage.view(dtype) for dtype in self._dtypes}
        return storage, {
            key: typed[dtype].as_strided(shape, strides, offset)
            for key, dtype, shape, strides, offset in self._places
        }

    def now_ns(self, robot: int = 0) -> int:
        """The time of a robot's last query; 0 before the first.

        After a query at the newest row of a stream that had none it is -2**63.

        Raises:
            ValueError: There is no such robot.
        """
        number = self._robot(robot)
        with self._lock:
            return self._aligner.now_ns(number)

    # ---- actions come back -----------------------------------------------------------------------

    def undo(self, key: str, action: NDArray[Any] | Tensor) -> NDArray[Any] | Tensor:
        """Takes back what was done to a key's values: a policy's output in the robot's unit.

        What the spec's transforms did is undone, then normalization, x / multiply + subtract; where
        a stream is relative to another, that one's value at the last query is added (angles stay
        within -pi and pi).

        Args:
            key: A stream that stands alone in batches, or a `concat` key.
            action: [R,K, a row's shape...], of any K, or without R of one robot; without K where
                batches have no axis of steps. Floats; a tensor may be on any device, and its
                gradients end here.

        Returns:
            The same shape (but for what transforms change), type and device. Transforms compute in
            float64 where the action, or what it is relative to, is of that type, else in float32;
            the rest is worked in float64.

        Raises:
            ValueError: An unknown key, another shape, or values that can't be taken back.
            TypeError: They are no floats.
            RuntimeError: It is relative to a stream of which there was no row, or no query yet.
        """
        of = self._aligner.keys.get(key) if isinstance(key, str) else None
        if of is None:
            names = ", ".join(self._aligner.keys)
            raise ValueError(f"key: expected one of batches ({names}), got {key!r}")
        if not isinstance(action, (np.ndarray, Tensor)):
            kind = type(action).__name__
            raise TypeError(f"{key}: expected a NumPy array or a tensor, got {kind}")
        tensor = floats(key, action) if isinstance(action, np.ndarray) else action.detach()
        if not tensor.is_floating_point():
            raise TypeError(f"{key}: expected floats, got {tensor.dtype}")
        first = self.spec.stream(self.spec.concat.get(key, (key,))[0])
        has_step = first.has_axis or self.robots == 1 or tensor.dim() != len(of.shape) + 1
        if not has_step:  # as batches have it
            tensor = tensor[:, None]
        # Without the axis of robots, or of one step.
        missing = max(len(of.shape) + 2 - tensor.dim(), 0) if self.robots == 1 else 0
        values = tensor[(None,) * missing]
        is_whole = values.dim() == len(of.shape) + 2 and missing <= 2
        if not is_whole or tuple(values.shape[2:]) != of.shape or values.size(0) != self.robots:
            shape = f"[R={self.robots},K{''.join(f',{size}' for size in of.shape)}]"
            raise ValueError(f"{key}: expected {shape}, got {list(tensor.shape)}")
        is_wide = values.dtype == torch.float64
        values = values.to("cpu", torch.float64 if is_wide else torch.float32).contiguous()
        out = values.new_empty((*values.shape[:2], *of.aligned))
        with self._lock:
            status = self._aligner.undo(
                of.number, values.data_ptr(), values.size(1), out.data_ptr(), is_wide
            )
        self._check_undo(status, key)
        out = out[(0,) * missing].to(tensor.device, tensor.dtype)
        if not has_step:
            out = out[:, 0]
        return out.numpy() if isinstance(action, np.ndarray) else out

    def _check_undo(self, status: int, key: str) -> None:
        if status == LiveStatus.OK:
            return
        if status == LiveStatus.NOT_INVERTIBLE:
            raise ValueError(
                f"key: expected values of floats or numbers that are computed with, got {key}"
            )
        of = relative_to(self.spec, key)
        if status == LiveStatus.NO_QUERY:
            raise RuntimeError(f"undo: expected a query first, whose {of} {key} is relative to")
        if status == LiveStatus.NO_ROWS:
            raise RuntimeError(
                f"undo: expected a row of {of} by the last query, which {key} is relative to"
            )
        raise RuntimeError(f"undo: {LiveStatus(status).name}")

    # ---- the rest --------------------------------------------------------------------------------

    def reset(self, robot: int | None = None) -> None:
        """Forgets all rows and the last query, of one robot or of all: an episode begins.

        Raises:
            ValueError: There is no such robot.
        """
        number = None if robot is None else self._robot(robot)
        with self._lock:
            self._aligner.reset(-1 if number is None else number)

    def stats(self, robot: int | None = None) -> Mapping[str, LiveStats]:
        """Counters of each stream that takes rows, of one robot or summed over all.

        Raises:
            ValueError: There is no such robot.
        """
        robots = range(self.robots) if robot is None else [self._robot(robot)]
        found = {}
        for key, stream in self._streams.items():
            if not stream.takes_rows:
                continue
            each = [self._aligner.stats(stream.number, one) for one in robots]
            sums: dict[str, Any] = {name: sum(of[name] for of in each) for name in STATS}
            newest = max(of["newest_ns"] for of in each)
            found[key] = LiveStats(**sums | {"newest_ns": None if newest == _NEVER else newest})
        return ByName(found)

    @property
    def rows(self) -> dict[str, tuple[int, int]]:
        """How many rows buffer and ring hold of each stream that takes some."""
        return {
            key: self._aligner.rows[stream.number]
            for key, stream in self._streams.items()
            if stream.takes_rows
        }

    def _robot(self, robot: int) -> int:
        try:
            number = operator.index(robot)
        except TypeError:
            raise TypeError(f"robot: expected an int, got {type(robot).__name__}") from None
        if not 0 <= number < self.robots:
            raise ValueError(f"robot: expected 0 to {self.robots - 1}, got {robot}")
        return number

    def __repr__(self) -> str:
        keys = listed([k for k, *_ in self._places if not k.endswith(("_is_pad", "_age"))])
        robots = "" if self.robots == 1 else f"{self.robots} robots on "
        return f"LiveAligner({robots}{self.device}: {keys})"


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of contiguous elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
