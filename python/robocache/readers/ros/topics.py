"""Converts the messages of ROS topics to rows: one class for each kind of message."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

import numpy as np

from robocache.core.threads import cores
from robocache.readers import images
from robocache.readers.encoded_images import Unifier
from robocache.readers.field_groups import below
from robocache.readers.recording import StreamMetadata
from robocache.readers.reorder_buffer import ReorderBuffer, StreamBuffer, TopicClock
from robocache.readers.ros.message_types import Message, Plan, Stamp, stamp_of

JOINT_STATE = "sensor_msgs/msg/JointState"
TRANSFORMS = ("tf2_msgs/msg/TFMessage", "tf/msg/tfMessage")
STATIC = "tf_static"
"""The last part of the name of a topic whose transforms hold until others replace them."""

_MAX_NAME_SETS = 16  # sets of joint names of one topic


class Topic(Protocol):
    """The messages of one topic, as rows of its streams."""

    def add(self, message: Message, sent: int, received: int) -> int:
        """Adds a message; returns the change in buffered bytes.

        Args:
            message: The message.
            sent: When it was sent, ns; the time of receipt if that is not recorded. A stamp in
                the message takes precedence.
            received: When it was received, ns.
        """

    def finish(self) -> int:
        """Called after the last message; returns the change in buffered bytes."""


def _time_of(
    message: Message, stamp: Stamp | None, clock: TopicClock, sent: int, received: int
) -> int:
    """The time of a message: its stamp, else when it was sent, else when it was received."""
    if stamp is not None:
        return stamp(message)
    return sent if clock.has_stamps else received


class _Immediate:
    """Base of topics that convert each message in `add`, so that `finish` has nothing to do."""

    def finish(self) -> int:
        """As `Topic.finish`."""
        return 0


class NumbersTopic(_Immediate):
    """Messages of any type, by their numeric fields."""

    def __init__(
        self,
        name: str,
        source: str,
        plan: Plan,
        stamp: Stamp | None,
        clock: TopicClock,
        buffer: ReorderBuffer,
    ) -> None:
        self._clock = clock
        self._stamp = stamp
        self._parts: list[tuple[Callable[[Message], Any], StreamBuffer, bool]] = []
        for part in plan.parts:
            stream_buffer = buffer.add_stream(
                below(name, part.name), clock, part.metadata(source), part.dtype, part.shape
            )
            self._parts.append((part.get, stream_buffer, part.shape is None))

    def add(self, message: Message, sent: int, received: int) -> int:
        """As `Topic.add`."""
        stamp = _time_of(message, self._stamp, self._clock, sent, received)
        self._clock.tick(stamp, received)
        held = 0
        for get, stream_buffer, may_be_empty in self._parts:
            row = get(message)
            if may_be_empty and not len(row):
                continue
            held += stream_buffer.add(stamp, received, row)
        return held


class JointsTopic(_Immediate):
    """sensor_msgs/JointState: position, velocity and effort of named joints.

    Nodes that share a topic send different joints; each set of names has separate streams, the
    first ``<topic>/position``, the next ``<topic>/2/position``. The order of names may differ from
    message to message.
    """

    _FIELDS = ("position", "velocity", "effort")

    def __init__(
        self, name: str, source: str, has_stamps: bool, buffer: ReorderBuffer, notes: Counter[str]
    ) -> None:
        self._name = name
        self._source = source
        self._has_stamps = has_stamps
        self._buffer = buffer
        self._notes = notes
        self._sets: dict[frozenset[str], tuple[str, tuple[str, ...], TopicClock]] = {}
        self._orders: dict[tuple[str, ...], Any] = {}
        self._stream_buffers: dict[str, StreamBuffer] = {}

    def add(self, message: Message, sent: int, received: int) -> int:
        """As `Topic.add`."""
        stamp = stamp_of(message) if self._has_stamps else received
        names = tuple(message.name)
        if len(set(names)) != len(names) or not names:
            self._notes[f"messages of {self._name} without a name for each joint, left out"] += 1
            return 0
        joints = frozenset(names)
        if joints not in self._sets:
            if len(self._sets) == _MAX_NAME_SETS:
                self._notes[
                    f"messages of {self._name} left out, since it has more than {_MAX_NAME_SETS} "
                    "sets of joints"
                ] += 1
                return 0
            path = self._name if not self._sets else f"{self._name}/{len(self._sets) + 1}"
            clock = self._buffer.clock(path, self._has_stamps, self._name)
            self._sets[joints] = (path, names, clock)
        path, first_names, clock = self._sets[joints]
        clock.tick(stamp, received)
        if names not in self._orders and names != first_names:
            self._orders[names] = [names.index(joint) for joint in first_names]
        order = self._orders.get(names)
        held = 0
        for field in self._FIELDS:
            row = np.asarray(getattr(message, field), np.float64)
            if not len(row):
                continue
            if len(row) != len(names):
                self._notes[
                    f"rows of {path}/{field} left out, since they are not one number a joint"
                ] += 1
                continue
            stream_buffer = self._stream_buffer(f"{path}/{field}", clock, field, first_names)
            held += stream_buffer.add(stamp, received, row if order is None else row[order])
        return held

    def _stream_buffer(
        self, stream: str, clock: TopicClock, field: str, joints: tuple[str, ...]
    ) -> StreamBuffer:
        if stream not in self._stream_buffers:
            # REP 103: prismatic joints have meters and newtons, so no unit applies to all joints.
            metadata = StreamMetadata("linear", None, joints, source=self._source)
            self._stream_buffers[stream] = self._buffer.add_stream(
                stream, clock, metadata, np.dtype(np.float64), (len(joints),)
            )
        return self._stream_buffers[stream]


def pair_path(topic: str, transform: Any) -> str:
    """The path of the streams of a pair of frames."""
    parent, child = transform.header.frame_id, transform.child_frame_id
    return f"{topic}/{parent.strip('/')}/{child.strip('/')}"


def is_static(topic: str) -> bool:
    """Whether a topic's transforms are valid until others replace them."""
    return topic.rpartition("/")[2] == STATIC


class TransformsTopic(_Immediate):
    """tf: each pair of frames has a translation and a rotation, with the stamps of that pair.

    Static transforms were stamped long before the recording, or never: the first of a pair is
    valid from the start of the recording, later ones from their receipt.
    """

    def __init__(
        self,
        name: str,
        source: str,
        has_stamps: bool,
        buffer: ReorderBuffer,
        notes: Counter[str],
    ) -> None:
        self._name = name
        self._source = source
        self._is_static = is_static(name)
        self._has_stamps = has_stamps and not self._is_static
        self._buffer = buffer
        self._notes = notes
        self._pairs: dict[tuple[str, str], tuple[TopicClock, StreamBuffer, StreamBuffer]] = {}

    def add(self, message: Message, sent: int, received: int) -> int:
        """As `Topic.add`."""
        held = 0
        for transform in message.transforms:
            arrival = received
            pair = (transform.header.frame_id, transform.child_frame_id)
            if pair not in self._pairs:
                self._pairs[pair] = self._new_pair(pair_path(self._name, transform))
                start = self._buffer.clocks.start
                if self._is_static and start is not None:
                    arrival = start
                    self._notes[f"transforms of {self._name}, held from the recording's start"] += 1
            clock, translation, rotation = self._pairs[pair]
            stamp = stamp_of(transform) if self._has_stamps else arrival
            clock.tick(stamp, arrival)
            t, q = transform.transform.translation, transform.transform.rotation
            held += translation.add(stamp, arrival, (t.x, t.y, t.z))
            held += rotation.add(stamp, arrival, (q.x, q.y, q.z, q.w))
        return held

    def _new_pair(self, path: str) -> tuple[TopicClock, StreamBuffer, StreamBuffer]:
        clock = self._buffer.clock(path, self._has_stamps)
        number = np.dtype(np.float64)
        position = StreamMetadata("linear", "m", ("x", "y", "z"), source=self._source)
        rotation = StreamMetadata("slerp_xyzw", None, ("x", "y", "z", "w"), source=self._source)
        add_stream = self._buffer.add_stream
        return (
            clock,
            add_stream(f"{path}/translation", clock, position, number, (3,)),
            add_stream(f"{path}/rotation", clock, rotation, number, (4,)),
        )


class ImagesTopic:
    """Raw and compressed images of a camera, at the size of the options.

    A thread pool may decode some messages ahead, on all cores.
    """

    def __init__(
        self,
        name: str,
        source: str,
        decode: Callable[[Message], Any],
        clock: TopicClock,
        stamp: Stamp | None,
        ahead: bool,
        buffer: ReorderBuffer,
        notes: Counter[str],
    ) -> None:
        """Images of a topic.

        `decode` returns an image [H,W,C], or text with the reason why it cannot; `ahead` is whether
        the thread pool decodes ahead, for slow decoders.
        """
        self._name = name
        self._decode = decode
        self._clock = clock
        self._stamp = stamp
        self._notes = notes
        metadata = StreamMetadata("previous", source=source)
        self._stream_buffer = buffer.add_stream(name, clock, metadata)
        self._unifier = Unifier()
        self._is_ahead = ahead
        self._ahead: deque[tuple[int, int, Future[Any]]] = deque()

    def add(self, message: Message, sent: int, received: int) -> int:
        """As `Topic.add`."""
        stamp = _time_of(message, self._stamp, self._clock, sent, received)
        if not self._is_ahead:
            return self._take(stamp, received, self._decode(message))
        self._ahead.append((stamp, received, images.pool().submit(self._decode, message)))
        return self._collect() if len(self._ahead) > 2 * cores() else 0

    def finish(self) -> int:
        """As `Topic.finish`."""
        held = 0
        while self._ahead:
            held += self._collect()
        self._unifier.finish()
        return held

    def _collect(self) -> int:
        """Waits for the oldest image in flight, and adds it."""
        stamp, received, future = self._ahead.popleft()
        return self._take(stamp, received, future.result())

    def _take(self, stamp: int, received: int, image: Any) -> int:
        if isinstance(image, str):
            self._notes[f"images of {self._name} left out: {image}"] += 1
            return 0
        taken = self._unifier.take(image)
        if taken is None:
            self._notes[f"images of {self._name} left out: damaged, before the first one"] += 1
            return 0
        self._clock.tick(stamp, received)
        return self._stream_buffer.add(stamp, received, taken)
