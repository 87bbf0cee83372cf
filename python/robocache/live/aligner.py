"""`LiveAligner`: computes windows at control time by the code that computes them in training."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robocache.core.checks import check_bool, check_integer
from robocache.core.display import listed
from robocache.live.arguments import (
    Values,
    flags,
    integers,
    load_spec,
    nanoseconds,
    parse_time,
    rows_of,
)
from robocache.live.batch import LiveBatch, LiveTicket
from robocache.live.channel_order import ChannelOrder, find_order
from robocache.live.jpeg_files import check_file, file_of, files_of
from robocache.live.library import Aligner, LiveStatus
from robocache.live.outputs import Outputs
from robocache.live.stats import LiveStats, StatsByStream, total_stats
from robocache.live.status import WARNED, describe
from robocache.live.streams import PushStreams
from robocache.live.undo import PolicyOutput, check_undo, ticket_of
from robocache.loader import device as _device
from robocache.loader.policy_spec import PolicySpec

_MAX_ROBOTS = 2**20  # the library's limits
_MAX_KEPT_QUERIES = 2**16
_SLOTS = 4  # copies to a GPU that may be in flight


class LiveAligner:
    """Aligns live sensor rows into the batches that a policy was trained on.

    :meth:`push` adds rows as they arrive. :meth:`query` returns the batch that the loader would
    return if the recording ended now: with the same keys, shapes and dtypes, and the same bits,
    since the same code computes it. :meth:`undo` converts the policy's output to the robot's units.

    All methods may be called by any thread. Pushes of one stream wait for one another; so do
    :meth:`query`, :meth:`undo`, :meth:`reset` and :meth:`now_ns`, but pushes and these methods
    never wait for each other. With `reuse_buffers` a query overwrites earlier batches, so that one
    thread should query. :meth:`ready` says when all streams have rows, :meth:`status` what the last
    query's windows lack; :meth:`stats` counts the rows that arrive late, repeated or from the
    future, and those that are dropped. See docs/live.md.

    Args:
        spec: The spec of the policy's training, or the path of its file.
        robots: R, the number of robots that a query serves: the batch size.
        device: The device of the batches. For "cuda" a batch is computed on the CPU and copied, in
            one piece, on the current CUDA stream.
        buffer_rows: The number of rows kept for windows, by stream. Other streams keep the rows
            that their windows reach back for at the spec's rate, half as many again, and those of
            a quarter of a second.
        ring_rows: The number of rows kept between two queries, by stream; further rows replace the
            oldest ones. Other streams have room for the rows of `query_every_s`, and 8, but for no
            more than `buffer_rows`.
        query_every_s: The longest time between two queries, in seconds.
        max_future_s: A row stamped later than a query by more than this many seconds is taken for
            an error: it is dropped and counted. Where successive rows are stamped this far from
            queries, earlier or later, their status is "two_clocks".
        reuse_buffers: Whether each query writes to the same tensors, instead of new ones.
        kept_queries: The number of last queries that :meth:`undo` knows, for policies that answer
            while later queries are made: at 50 Hz, 64 are those of 1.28 s.
        encode_images: Whether raw images of streams that were JPEG in training are encoded with
            the same quality and decoded, so that the policy sees what it was trained on. Images
            that are pushed as JPEG are not encoded again.

    Raises:
        ValueError, TypeError: An invalid spec, or an option that contradicts it; default capacities
            of more than 1 GiB for a robot, which a rate or offsets that are too high ask for;
            `encode_images` with a spec that has no encoding of images, or an encoding without
            quality or chroma sampling.
        RuntimeError: `device` is a CUDA device, and CUDA is not available.

    Example:
        >>> aligner = rc.LiveAligner("policy_spec.json")
        >>> aligner.push("joints", stamp_ns, positions)
        >>> batch = aligner.query(now_ns)
        >>> action = aligner.undo("action", policy(batch), batch)
    """

    def __init__(
        self,
        spec: PolicySpec | str | os.PathLike[str],
        *,
        robots: int = 1,
        device: torch.device | str = "cpu",
        buffer_rows: Mapping[str, int] | None = None,
        ring_rows: Mapping[str, int] | None = None,
        query_every_s: float = 1.0,
        max_future_s: float = 10.0,
        reuse_buffers: bool = False,
        kept_queries: int = 64,
        encode_images: bool = False,
    ) -> None:
        self.spec, name = load_spec(spec)
        """The policy spec that defines the batches."""
        self.robots = check_integer("robots", robots, 1, _MAX_ROBOTS)
        """R: the number of robots that a query serves."""
        self.device = _device.find_device(device)
        """The device of the batches."""
        self._streams = PushStreams(self.spec, self.robots)
        check_bool("reuse_buffers", reuse_buffers)
        check_bool("encode_images", encode_images)
        self.kept_queries = check_integer("kept_queries", kept_queries, 1, _MAX_KEPT_QUERIES)
        """The number of last queries that :meth:`undo` knows."""
        rows = self._streams.capacities(buffer_rows, ring_rows)
        is_cuda = self.device.type == "cuda"
        with _device.on_device(self.device):
            self._aligner = Aligner(
                self.spec.to_json().encode(),
                name,
                self.robots,
                nanoseconds("query_every_s", query_every_s),
                nanoseconds("max_future_s", max_future_s),
                self.kept_queries,
                rows,
                _SLOTS if is_cuda else 0,
                encode_images,
            )
        self._index = self.device.index if is_cuda else None
        self._lock = threading.Lock()  # held by query, undo, reset and now_ns
        self._outputs = Outputs(self._aligner, self.spec, self.device, reuse_buffers)

    # ---- push ------------------------------------------------------------------------------------

    def channel_order(self, stream: str, names: Sequence[str]) -> ChannelOrder:
        """The order of a stream's channels in a driver's messages, for :meth:`push`.

        Args:
            stream: The stream's name; its channels have names in the spec.
            names: The names of a message's elements, such as a ROS JointState's. Elements with
                names of no channel are ignored.

        Raises:
            ValueError: A name is missing or there twice; or the stream is unknown, has no names
                of channels, or a window that reaches into the future.
            TypeError: `names` is not a list of texts.
        """
        return find_order(self._aligner, self._streams.find_pushed(stream), names)

    def push(
        self,
        stream: str,
        time_ns: int,
        values: Values,
        robot: int = 0,
        *,
        valid: bool = True,
        order: ChannelOrder | None = None,
    ) -> None:
        """Adds a row to a stream. In a full ring it replaces the oldest row, which is counted.

        Args:
            stream: The stream's name.
            time_ns: The time of measurement, in ns, on the clock that queries use.
            values: The row, of the stream's shape. Floats are rounded to the stream's dtype. An
                image may be a JPEG file, as bytes or a 1-D array of uint8, which is decoded.
            robot: The index of the robot, 0 to R - 1.
            valid: Whether the row is valid; steps computed from rows that are not are padded.
            order: The order of `values`, one for each of its names, by :meth:`channel_order`;
                None: the stream's order and shape.

        Raises:
            ValueError: An unknown stream or robot, a stream whose window reaches into the future,
                a row of another shape, or a file that is not JPEG, damaged, of another size, or
                rotated by its EXIF data.
            TypeError: A time that is not an integer, a `valid` that is not a bool, or values of
                another kind.
        """
        streams = self._streams
        to = (streams.get(stream) if type(stream) is str else None) or streams.find(
            "stream", stream
        )
        if type(robot) is not int or not 0 <= robot < self.robots:
            robot = streams.robot(robot)
        # `row` keeps the memory alive until the library has copied it. A contiguous array of the
        # stream's dtype and shape needs no conversion.
        row: Any = values
        file = None
        if order is not None:
            order.check(to)
            row = rows_of(f"{stream}: values", to.spec, values, (len(order.names),))
        elif (
            type(row) is not np.ndarray
            or row.dtype != to.dtype
            or row.shape != to.shape
            or (to.is_bfloat16 or not row.flags.c_contiguous)
        ):
            file = file_of(to, values)
            if file is None:
                row = rows_of(f"{stream}: values", to.spec, values, to.shape)
        if valid is not True and valid is not False and not isinstance(valid, np.bool_):
            raise TypeError(f"valid: expected a bool, got {type(valid).__name__}")
        time_ns = parse_time(time_ns)
        with to.lock:
            if order is not None:
                row = order.apply(row, to.ordered)
            if file is not None:
                status = self._aligner.push_jpeg(
                    to.number, time_ns, file.ctypes.data, len(file), robot, bool(valid)
                )
            else:
                status = self._aligner.push(
                    to.number, time_ns, row.ctypes.data, to.size, robot, bool(valid)
                )
        if status != LiveStatus.OK:
            if file is not None:
                check_file(status, to, file)
            streams.refuse_push(status, to, robot)

    def push_many(
        self,
        stream: str,
        times_ns: NDArray[np.int64] | Tensor,
        values: Values,
        robot: int | NDArray[np.int64] | Tensor = 0,
        *,
        valid: NDArray[np.bool_] | Tensor | None = None,
        order: ChannelOrder | None = None,
    ) -> None:
        """Adds N rows to a stream, in order: several of one robot, or rows of several robots.

        Args:
            stream: The stream's name.
            times_ns: The times of measurement, [N] integers, in ns.
            values: The rows, [N, the row's shape...]; images may be JPEG files: a list, or
                JpegFrames. Files before the first one that is refused are pushed.
            robot: The index of the robot; or the index for each row, [N] integers.
            valid: Which rows are valid, [N] bool; None: all.
            order: The order of rows [N, names], by :meth:`channel_order`; None: the stream's.

        Raises:
            ValueError, TypeError: As :meth:`push`.
        """
        to = self._streams.find_pushed(stream)
        times = integers(f"{stream}: times_ns", times_ns)
        rows: Any = None
        files = None if order is not None else files_of(to, values, len(times))
        if files is None:
            if order is not None:
                order.check(to)
            row_shape = to.spec.shape if order is None else (len(order.names),)
            rows = rows_of(f"{stream}: values", to.spec, values, (len(times), *row_shape))
            if order is not None:
                rows = order.apply(rows)
        robots = mask = None
        one_robot = 0
        if isinstance(robot, (np.ndarray, Tensor)):
            robots = self._streams.robot_of_each(to, robot, len(times))
        else:
            one_robot = self._streams.robot(robot)
        if valid is not None:
            mask = flags(f"{stream}: valid", valid, len(times))
        if files is not None:
            for i, file in enumerate(files):
                of_file = one_robot if robots is None else int(robots[i])
                is_valid = mask is None or bool(mask[i])
                self.push(stream, int(times[i]), file, of_file, valid=is_valid)
            return
        with to.lock:
            status = self._aligner.push_many(
                to.number,
                len(times),
                times.ctypes.data,
                rows.ctypes.data,
                to.size,
                one_robot,
                None if robots is None else robots.ctypes.data,
                None if mask is None else mask.ctypes.data,
            )
        if status != LiveStatus.OK:
            self._streams.refuse_push(status, to, one_robot)

    # ---- query -----------------------------------------------------------------------------------

    def ready(self, robot: int | None = None) -> bool:
        """Whether every stream has been pushed a row since construction or :meth:`reset`.

        Args:
            robot: The index of the robot; None: all robots.

        Raises:
            ValueError: The index is not that of a robot.
        """
        return self._aligner.ready(-1 if robot is None else self._streams.robot(robot))

    def query(
        self, now: int | str | NDArray[np.int64], keys: Sequence[str] | None = None
    ) -> LiveBatch:
        """Computes windows from the rows pushed so far.

        :meth:`status` says which streams had no rows, old rows, or rows of another clock. The first
        query of a stream that lacks rows that were lost causes a ``UserWarning``, and so does the
        first one that finds another clock.

        Args:
            now: The anchor time in ns; or one for each robot, [R]; or the name of a stream, whose
                newest row's timestamp is the anchor time.
            keys: The keys to compute, such as joints between two images; None: all. Rows of other
                streams stay in their rings until a query takes them.

        Returns:
            A batch of R samples as the loader returns it: the values of each stream or `concat`
            key, ``<key>_is_pad`` and, if the spec has ages, ``<key>_age``; without the samples'
            metadata, and without windows that reach into the future. Before a stream's first row
            its window is zeros, to which transforms apply, and all of its steps are padded. Its
            `ticket` identifies the query, for :meth:`undo`.

        Raises:
            ValueError, TypeError: An unknown stream or key, or an invalid time.
            RuntimeError: A CUDA call fails.
        """
        stream, times, time_ns = self._streams.anchor(now)
        address = None if times is None else times.ctypes.data
        selection = None if keys is None else self._outputs.select(keys)
        pointer = None if selection is None else selection.pointer
        storage, tensors = self._outputs.tensors()
        out = storage.data_ptr()
        with self._lock:
            if self._index is None:
                status = self._aligner.query(stream, address, time_ns, out, pointer)
            else:
                call = (stream, address, time_ns, out, pointer, self._index)
                status = self._aligner.query_on_cuda(*call)
            ticket = LiveTicket(*self._aligner.ticket())
        if status > LiveStatus.TWO_CLOCKS:
            raise RuntimeError(f"query: expected to be made, got {LiveStatus(status).name}")
        if status != LiveStatus.OK:
            self._warn_of_streams()
        if selection is not None:
            tensors = {name: tensors[name] for name in selection.names}
        batch = LiveBatch(tensors)
        batch.ticket = ticket
        return batch

    def _warn_of_streams(self) -> None:
        """Warns of lost rows, clocks and rates: the first time for each stream."""
        for name, status in self.status().items():
            stream = self._streams[name]
            if status not in WARNED or status in stream.warned:
                continue
            stream.warned.add(status)
            rows = self._aligner.rows[stream.number]
            robot = next(r for r in range(self.robots) if self.status(r)[name] == status)
            problem = describe(stream.spec, status, rows, self.stats(robot)[name])
            # The caller of query
            warnings.warn(f"LiveAligner: {name}: {problem}", UserWarning, stacklevel=3)

    def status(self, robot: int | None = None) -> dict[str, str]:
        """The status of each stream to which rows are pushed, in the last query.

        One of ``"ok"``; ``"wrong_rate"``: recent rows of a stream by rows do not come at the
        nominal rate of training; ``"rows_lost"``: the window reaches back to rows that were
        overwritten in the ring or dropped from the buffer; ``"stale"``: the newest row is older
        than ``max_gap_s`` of the stream; ``"no_rows"``: no row has arrived, or all are later than
        now; and ``"two_clocks"``: successive rows are stamped more than `max_future_s` from now.
        Before the first query, and after :meth:`reset`, ``"no_query"``.

        Args:
            robot: The index of the robot; None: the gravest status of all robots.

        Raises:
            ValueError: The index is not that of a robot.
        """
        robots = range(self.robots) if robot is None else [self._streams.robot(robot)]
        found = {}
        for key, stream in self._streams.that_take_rows().items():
            gravest = max(self._aligner.status(stream.number, one) for one in robots)
            found[key] = LiveStatus(gravest).name.lower()
        return found

    def now_ns(self, robot: int = 0) -> int:
        """The anchor time of a robot's last query, in ns; 0 before the first.

        After a query at the newest row of a stream without rows it is -2**63.

        Raises:
            ValueError: The index is not that of a robot.
        """
        number = self._streams.robot(robot)
        with self._lock:
            return self._aligner.now_ns(number)

    # ---- undo ------------------------------------------------------------------------------------

    def undo(
        self,
        key: str,
        action: NDArray[Any] | Tensor,
        batch: LiveBatch | LiveTicket | None = None,
    ) -> NDArray[Any] | Tensor:
        """Converts a policy's output back to the values of a key: actions in the robot's units.

        Applies the inverse of the spec's transforms, then that of normalization, x / multiply +
        subtract. If a stream is relative to another, adds that stream's value at the query that
        made `batch` (angles are wrapped to -pi to pi), whatever has been queried since.

        Args:
            key: A key of batches: a stream that is not concatenated, or a `concat` key.
            action: [R,K, a row's shape...] for any K; R may be left out for one robot, K where
                batches have no axis of steps. Floats; a tensor may be on any device. Gradients do
                not flow through.
            batch: The batch that the policy computed `action` from, as :meth:`query` returned it,
                or its `ticket`. May be left out for keys that are relative to no stream.

        Returns:
            Values of the same dtype, on the same device, of the same shape unless a transform
            changes it. Transforms compute in float64 if the action or the value that it is relative
            to is float64, else in float32; all other steps compute in float64.

        Raises:
            ValueError: An unknown key, another shape, or values that have no inverse.
            TypeError: Values that are not floats, or a `batch` that is not one, or missing.
            RuntimeError: The key is relative to a stream, and the query is not one of the last
                `kept_queries` since :meth:`reset`, or the stream had no row then, or its value was
                padded, as no sample of training was.
        """
        of = self._aligner.keys.get(key) if isinstance(key, str) else None
        if of is None:
            names = ", ".join(self._aligner.keys)
            raise ValueError(f"key: expected one of batches ({names}), got {key!r}")
        output = PolicyOutput(self.spec, key, action, of.shape, self.robots)
        ticket = ticket_of(self.spec, key, batch)
        out = output.values.new_empty((*output.values.shape[:2], *of.aligned))
        with self._lock:
            status = self._aligner.undo(
                ticket.sequence,
                of.number,
                output.values.data_ptr(),
                output.values.size(1),
                out.data_ptr(),
                output.values.dtype == torch.float64,
            )
        check_undo(status, self.spec, key, ticket, self.kept_queries)
        return output.restore(out)

    # ---- reset and statistics --------------------------------------------------------------------

    def reset(self, robot: int | None = None) -> None:
        """Deletes the rows and the last query of one robot, or of all: an episode begins.

        Raises:
            ValueError: The index is not that of a robot.
        """
        number = -1 if robot is None else self._streams.robot(robot)
        with self._lock:
            self._aligner.reset(number)

    def stats(self, robot: int | None = None) -> Mapping[str, LiveStats]:
        """The counters of each stream to which rows are pushed, of one robot or the sum over all.

        ``print`` shows them as a table.

        Raises:
            ValueError: The index is not that of a robot.
        """
        robots = range(self.robots) if robot is None else [self._streams.robot(robot)]
        counters = {}
        for key, stream in self._streams.that_take_rows().items():
            counters[key] = total_stats([self._aligner.stats(stream.number, r) for r in robots])
        return StatsByStream(counters)

    @property
    def rows(self) -> dict[str, tuple[int, int]]:
        """The capacity (buffer, ring) in rows of each stream to which rows are pushed."""
        return {
            key: self._aligner.rows[stream.number]
            for key, stream in self._streams.that_take_rows().items()
        }

    def __repr__(self) -> str:
        keys = listed([key for key in self._outputs.names if key in self._aligner.keys])
        robots = "" if self.robots == 1 else f"{self.robots} robots on "
        return f"LiveAligner({robots}{self.device}: {keys})"
