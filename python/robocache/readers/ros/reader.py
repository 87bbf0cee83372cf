"""Recordings of messages: ROS 1 bags, ROS 2 bags and MCAP files.

A recording is one episode. `message_types` and `topics` convert messages to rows: by the definition
of their type, and specially for joints, transforms and images. `clocks` converts their times to one
clock, and `reorder_buffer` sorts rows by time.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from robocache.core.matching import is_match
from robocache.readers import images
from robocache.readers.clocks import Clocks, Survey
from robocache.readers.encoded_images import Damaged, try_read
from robocache.readers.errors import RecordingError
from robocache.readers.field_groups import COVARIANCE, below
from robocache.readers.options import ReadOptions
from robocache.readers.recording import EpisodeReader, Reader, Recording, SingleEpisode
from robocache.readers.reorder_buffer import ReorderBuffer
from robocache.readers.ros import images as ros_images
from robocache.readers.ros.bag_source import (
    ROS1,
    ROS2,
    Channel,
    Source,
    is_ros1,
    is_ros2,
    open_ros1,
    open_ros2,
)
from robocache.readers.ros.json_topic import JsonTopic, json_stamp
from robocache.readers.ros.mcap_source import MCAP, McapSource, is_mcap
from robocache.readers.ros.message_types import Message, Plan, find_stamp, plan_message, stamp_of
from robocache.readers.ros.topics import (
    JOINT_STATE,
    TRANSFORMS,
    ImagesTopic,
    JointsTopic,
    NumbersTopic,
    Topic,
    TransformsTopic,
    is_static,
    pair_path,
)
from robocache.readers.ros.type_store import TypeStore
from robocache.readers.rows import Rows
from robocache.readers.selection import Selection

HIDDEN = ("/rosout", "/rosout_agg", "/parameter_events", "*/_service_event")
"""Topics about the programs, not the robot: left out unless asked for."""

POINT_CLOUDS = ("sensor_msgs/msg/PointCloud2", "sensor_msgs/msg/PointCloud")

_IMAGES = (ros_images.RAW, ros_images.COMPRESSED)

Stamper = Callable[[Message], Sequence[tuple[str, int | None]]]
"""Returns the stamps of a message, ns, each with the path of the stamped streams; None for a stamp
that the message lacks, so that the file's time of sending applies."""

PROBED_MESSAGES, PROBED_BYTES = 10_000, 256 << 20
"""The first messages, whose stamps are compared with their times of receipt. Only if they differ by
more than latency does the reader scan the stamps of all messages, before it reads their values."""


class MessageRecording(Recording):
    """A file or folder of messages, opened."""

    def __init__(self, path: Path, options: ReadOptions, name: str, what: str, source: Source):
        super().__init__(path, options)
        self.format = name
        self._what = what
        self._source = source
        try:
            if not source.channels:
                raise RecordingError(f"{path}: expected {what} with messages, got one with none")
            self._type_store = TypeStore(source.channels)
            self._channels = self._choose()
            self._plans = {c.topic: self._plan(c) for c in self._channels if self._is_numbers(c)}
            self._clocks: Clocks | None = None
            self._prepare(self._new_buffer())  # for the metadata of the streams
            for topic, plan in self._plans.items():
                for note, count in plan.left_out.items():
                    self.notes[note.format(topic)] += count
        except BaseException:
            source.close()
            raise

    def close(self) -> None:
        """Closes the file."""
        self._source.close()

    def episodes(self) -> Sequence[EpisodeReader]:
        """The one episode."""
        return [SingleEpisode(self.read)]

    def image_bytes(self) -> int | None:
        """Estimates by the number of messages, and the size of the first image of each topic."""
        total = 0
        for channel in self._channels:
            if channel.kind not in _IMAGES:
                continue
            if channel.count is None:
                return None
            first = itertools.islice(self._source.messages([channel]), 1)
            with contextlib.suppress(Exception):  # `read` reports what it can't read
                for *_, data in first:
                    image = self._decode_image(channel, self._type_store.decoder(channel)(data))
                    if not isinstance(image, (str, Damaged)):
                        total += channel.count * math.prod(image.shape) * image.dtype.itemsize
        return total

    # ---- what is read

    def _choose(self) -> list[Channel]:
        """The channels to read, of those that `topics` selects; adds notes on the others."""
        readable: list[Channel] = []
        kinds: dict[str, str] = {}
        for channel in self._source.channels:
            why = self._type_store.problem(channel)
            if channel.kind in POINT_CLOUDS:
                why = "point clouds are not read"
            elif kinds.setdefault(channel.topic, channel.kind) != channel.kind:
                why = (
                    f"messages of two types: {kinds[channel.topic]} is read, {channel.kind} is not"
                )
            elif not self.options.images and channel.kind in _IMAGES:
                images.leave_out(channel.topic, self.notes)
                continue
            if why is None:
                readable.append(channel)
            elif self.options.wants(channel.topic):
                self.notes[f"topics left out: {channel.topic}: {why}"] += 1
        names = [
            (name, channel.topic)
            for channel in readable
            for name in self._stream_names(channel) or [channel.topic]
        ]
        lazy = [channel.topic for channel in readable if not self._is_numbers(channel)]
        hidden = {c.topic for c in readable if any(is_match(p, c.topic) for p in HIDDEN)}
        self._selection = Selection(self.options, names, lazy, hidden)
        chosen = [channel for channel in readable if self._selection.reads(channel.topic)]
        for topic in sorted(hidden - {channel.topic for channel in chosen}):
            if self.options.topics is None:
                self.notes[f"topics left out unless --topic names them: {topic}"] += 1
        if not chosen:
            raise RecordingError(
                f"{self.path}: expected {self._what} with topics that can be read, got "
                + ("; ".join(sorted(self.notes)) or "none")
            )
        return chosen

    def _is_numbers(self, channel: Channel) -> bool:
        return channel.encoding != "json" and channel.kind not in (
            JOINT_STATE,
            *TRANSFORMS,
            *_IMAGES,
        )

    def _stream_names(self, channel: Channel) -> list[str]:
        """The streams of a channel that its type determines."""
        if not self._is_numbers(channel):
            return []
        plan = plan_message(channel.kind, self._type_store.types(channel), lambda path: True)
        return [below(channel.topic, part.name) for part in plan.parts]

    def _plan(self, channel: Channel) -> Plan:
        """The plan of a channel's selected streams."""
        patterns = [p for p in self.options.topics or () if COVARIANCE in p]
        plan = plan_message(
            channel.kind,
            self._type_store.types(channel),
            lambda path: any(is_match(p, below(channel.topic, path)) for p in patterns),
        )
        plan.parts = [
            part
            for part in plan.parts
            if self._selection.wants(below(channel.topic, part.name), channel.topic)
        ]
        return plan

    # ---- reading

    def _new_buffer(self) -> ReorderBuffer:
        return ReorderBuffer(
            self.path, self.streams, self.notes, self._selection.wants_late, self._clocks
        )

    def _prepare(self, buffer: ReorderBuffer) -> dict[str, Topic]:
        """The topics, ready for messages."""
        topics: dict[str, Topic] = {}
        for channel in self._channels:
            if channel.topic not in topics:
                topics[channel.topic] = self._topic(channel, buffer)
        return topics

    def _topic(self, channel: Channel, buffer: ReorderBuffer) -> Topic:
        name, kind = channel.topic, channel.kind
        source = f"topic {name} ({kind})" if kind else f"topic {name}"
        by_stamp = self.options.stamp == "header"
        if channel.encoding == "json":
            clock = buffer.clock(name, by_stamp)
            return JsonTopic(name, source, clock, channel.method, buffer, self.notes)
        if kind == JOINT_STATE:
            return JointsTopic(name, source, by_stamp, buffer, self.notes)
        if kind in TRANSFORMS:
            return TransformsTopic(name, source, by_stamp, buffer, self.notes)
        stamp = find_stamp(kind, self._type_store.types(channel)) if by_stamp else None
        # An MCAP file also records the time of sending, which is closer to the measurement.
        has_stamps = stamp is not None or (by_stamp and self._source.knows_sending)
        clock = buffer.clock(name, has_stamps)
        clock.is_in_message = stamp is not None
        if kind in _IMAGES:
            decode = functools.partial(self._decode_image, channel)
            # A raw image that keeps its size needs no decoding.
            ahead = kind != ros_images.RAW or self.options.resize is not None
            return ImagesTopic(name, source, decode, clock, stamp, ahead, buffer, self.notes)
        return NumbersTopic(name, source, self._plans[name], stamp, clock, buffer)

    def read(self) -> Iterator[Rows]:
        """The rows of the one episode."""
        if self._clocks is None:
            self._clocks = self._compare_clocks()
        self._clocks.note(self.notes)
        shift = self._clocks.receipt_shift
        buffer = self._new_buffer()
        topics = self._prepare(buffer)
        routes = {
            id(channel): (topics[channel.topic], self._type_store.decoder(channel))
            for channel in self._channels
        }
        silent = set(topics)
        for channel, received, sent, data in self._source.messages(self._channels):
            silent.discard(channel.topic)
            topic, decode = routes[id(channel)]
            with self._decoding(channel):
                buffer.held_bytes += topic.add(decode(data), sent, received + shift)
            if buffer.is_full:
                yield from buffer.overflow()
        for topic in topics.values():
            buffer.held_bytes += topic.finish()
        yield from buffer.finish()
        self._selection.check()
        for name in sorted(silent):
            self.notes[f"topics without messages: {name}"] += 1

    @contextlib.contextmanager
    def _decoding(self, channel: Channel) -> Iterator[None]:
        """Converts errors of decoding a message to a RecordingError that names its topic."""
        try:
            yield
        except (RecordingError, ImportError, MemoryError):
            raise
        except Exception as error:  # numbers past int64 and float64, images of other libraries
            text = " ".join(str(error).split())
            raise RecordingError(
                f"{self.path}: expected {channel.kind or channel.encoding} in topic "
                f"{channel.topic}, got {text}"
            ) from error

    # ---- clocks

    def _compare_clocks(self) -> Clocks:
        """The shifts that map all times onto one clock."""
        if not (any(is_static(c.topic) for c in self._channels) or self.options.stamp == "header"):
            return Clocks()
        survey, is_all = self._survey(PROBED_MESSAGES, PROBED_BYTES)
        if not survey.has_two_clocks:
            return Clocks(start=survey.clocks().start)
        return (survey if is_all else self._survey(None, None)[0]).clocks()

    def _survey(self, messages: int | None, size: int | None) -> tuple[Survey, bool]:
        """Surveys the stamps of the first messages, or of all; returns whether these are all."""
        survey = Survey()
        stampers = {id(channel): self._stamper(channel) for channel in self._channels}
        decoders = {id(channel): self._type_store.decoder(channel) for channel in self._channels}
        found = self._source.messages(self._channels)
        read = 0
        for number, (channel, received, sent, data) in enumerate(found):
            read += len(data)
            if (messages and number >= messages) or (size and read > size):
                return survey, False
            stamps = stampers[id(channel)]
            if stamps is None:
                if not is_static(channel.topic):
                    survey.add_unstamped(received)
                continue
            with self._decoding(channel):
                for path, stamp in stamps(decoders[id(channel)](data)):
                    survey.add(path, sent if stamp is None else stamp, received, stamp is not None)
        return survey, True

    def _stamper(self, channel: Channel) -> Stamper | None:
        """The function that reads the stamps of a channel's messages; None if they have none."""
        name, kind = channel.topic, channel.kind
        if self.options.stamp != "header":
            return None
        if channel.encoding == "json":
            return lambda message: [(name, json_stamp(message))]
        if kind in TRANSFORMS:
            if is_static(name):
                return None
            return lambda message: [(pair_path(name, t), stamp_of(t)) for t in message.transforms]
        stamp = find_stamp(kind, self._type_store.types(channel))
        if stamp is not None:
            return lambda message: [(name, stamp(message))]
        return (lambda message: [(name, None)]) if self._source.knows_sending else None

    def _decode_image(self, channel: Channel, message: Message) -> Any:
        """Decodes an image message and fits it to the options; the reason as text if it can't."""
        if channel.kind == ros_images.RAW:
            image = ros_images.decode_raw(message)
        elif "compressedDepth" in str(message.format):
            image = "their format is compressedDepth"
        else:
            name = f"{self.path}, an image of {channel.topic}"
            return try_read(bytes(message.data), name, self.options)
        return image if isinstance(image, str) else images.fit(image, self.options)


def _reader(
    name: str,
    expects: str,
    what: str,
    recognizes: Callable[[Path], bool],
    opens: Callable[[Path, int], Source],
    suffix: str,
) -> Reader:
    def open_recording(path: Path, options: ReadOptions) -> Recording:
        return MessageRecording(path, options, name, what, opens(path, options.memory_limit))

    return Reader(name, "ros", expects, recognizes, open_recording, (suffix,))


ROS1_READER = _reader("ROS 1 bag", "a .bag file of version 2.0", ROS1, is_ros1, open_ros1, ".bag")
ROS2_READER = _reader(
    "ROS 2 bag", "a folder with metadata.yaml, or a .db3 file", ROS2, is_ros2, open_ros2, ".db3"
)
MCAP_READER = _reader("MCAP", "a .mcap file", MCAP, is_mcap, McapSource, ".mcap")
