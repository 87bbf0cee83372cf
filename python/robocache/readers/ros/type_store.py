"""The definitions of a recording's message types, and their decoders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from robocache.core.extras import require
from robocache.readers.json_file import parse_message
from robocache.readers.ros.bag_source import Channel
from robocache.readers.ros.definition_limits import MOST_LINES, check_text, check_types
from robocache.readers.ros.message_types import Message, Types

Decoder = Callable[[bytes], Message]

_SEPARATOR = "=" * 80 + "\n"


class TypeStore:
    """The message types of a recording's channels.

    A type has the definitions that were recorded with it: ``std_msgs/Header`` may differ from one
    topic of a bag to another. If none were recorded (older ROS 2 bags), the definitions of the
    newest ROS 2 that rosbags has apply.
    """

    def __init__(self, channels: Sequence[Channel]) -> None:
        self._typesys: Any = require("rosbags.typesys", "ROS messages", "ros")
        self._shared = self._typesys.get_typestore(self._typesys.Stores.EMPTY)
        self._stores: dict[str, Any] = {}
        self._problems: dict[str, str] = {}
        self._lines = 0
        for channel in channels:
            kind = channel.kind
            if channel.encoding in ("ros1", "cdr") and kind not in {
                **self._stores,
                **self._problems,
            }:
                try:
                    self._stores[kind] = self._type_store(channel)
                except Exception as error:  # rosbags: errors of its own, of parsers, of lookups
                    text = " ".join(str(error).split())
                    self._problems[kind] = f"its definition of {kind} is not understood: {text}"

    def problem(self, channel: Channel) -> str | None:
        """Why a channel's messages cannot be read; None if they can."""
        if channel.encoding == "json":
            return None
        if channel.encoding not in ("ros1", "cdr"):
            return f"messages in {channel.encoding or 'no encoding'} are not read"
        if channel.kind in self._problems:
            return self._problems[channel.kind]
        if channel.kind not in self._stores[channel.kind].fielddefs:
            return f"its type {channel.kind} is not known, and no definition was recorded"
        return None

    def types(self, channel: Channel) -> Types:
        """The fields of a type as a channel has them."""
        store = self._stores[channel.kind]
        return lambda kind: list(store.get_msgdef(kind).fields)

    def decoder(self, channel: Channel) -> Decoder:
        """The decoder of a channel's messages.

        The decoder raises a ValueError for bytes that are not such a message.
        """
        kind = channel.kind
        if channel.encoding == "json":
            return parse_message
        store = self._stores[kind]
        deserialize = store.deserialize_cdr if channel.encoding == "cdr" else store.deserialize_ros1

        def decode(data: bytes) -> Message:
            try:
                return deserialize(data, kind)
            except Exception as error:  # rosbags: SerdeError, and what its generated code meets
                raise ValueError(f"{type(error).__name__}: {error}") from error

        return decode

    def _type_store(self, channel: Channel) -> Any:
        """The definitions of a channel's type and of the types that it uses."""
        typesys = self._typesys
        if not channel.schema_encoding:
            return typesys.get_typestore(typesys.Stores.LATEST)
        check_text(channel.schema, channel.schema_encoding in ("ros2idl", "omgidl"))
        if channel.schema_encoding in ("ros1msg", "ros2msg"):
            found = typesys.get_types_from_msg(channel.schema, channel.kind)
        elif channel.schema_encoding in ("ros2idl", "omgidl"):
            found = {}
            sections = [channel.schema]
            if channel.schema.startswith(_SEPARATOR + "IDL: "):
                sections = [s.split("\n", 1)[1] for s in channel.schema.split(_SEPARATOR)[1:]]
            for section in sections:
                found.update(typesys.get_types_from_idl(section))
        else:
            raise ValueError(f"{channel.schema_encoding} is not read")
        store = self._shared
        self._lines += check_types(found, store.fielddefs, channel.kind)
        if self._lines > MOST_LINES:
            raise ValueError(f"the types of a recording have more than {MOST_LINES:,} fields")
        try:
            store.register(found)
        except typesys.TypesysError:  # they differ from those of another topic
            store = typesys.get_typestore(typesys.Stores.EMPTY)
            store.register(found)
        store.get_msgdef(channel.kind)  # raises now if a type that it uses is missing
        return store
