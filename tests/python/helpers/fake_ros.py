"""The part of ROS 2's Python modules that the example node uses, without ROS.

`installed` puts them where `import rclpy` finds them. A test delivers messages and runs timers.
"""

from __future__ import annotations

import array
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Time:
    sec: int = 0
    nanosec: int = 0


@dataclass
class Header:
    stamp: Time = field(default_factory=Time)


@dataclass
class JointState:
    header: Header = field(default_factory=Header)
    name: list[str] = field(default_factory=list)
    position: Any = field(default_factory=lambda: array.array("d"))
    velocity: Any = field(default_factory=lambda: array.array("d"))
    effort: Any = field(default_factory=lambda: array.array("d"))


@dataclass
class Image:
    header: Header = field(default_factory=Header)
    height: int = 0
    width: int = 0
    encoding: str = ""
    step: int = 0
    data: Any = field(default_factory=lambda: array.array("B"))


@dataclass
class CompressedImage:
    header: Header = field(default_factory=Header)
    format: str = ""
    data: Any = field(default_factory=lambda: array.array("B"))


class Float64MultiArray:
    def __init__(self, *, data: list[float]) -> None:
        assert all(type(number) is float for number in data)
        self.data = array.array("d", data)


@dataclass
class Parameter:
    value: Any


@dataclass
class Publisher:
    kind: type
    topic: str
    depth: int
    sent: list[Any] = field(default_factory=list)

    def publish(self, message: Any) -> None:
        assert type(message) is self.kind
        self.sent.append(message)


@dataclass
class Logger:
    warnings: list[str] = field(default_factory=list)

    def warning(self, text: str, throttle_duration_sec: float = 0.0) -> None:
        self.warnings.append(text)


@dataclass
class Group:
    """A callback group; one for each callback keeps callbacks from waiting for each other."""


@dataclass
class Now:
    nanoseconds: int


class Node:
    """A node whose parameters are `overrides`, and whose clock a test sets by `now_ns`."""

    overrides: dict[str, Any] = {}  # noqa: RUF012
    now_ns = 0

    def __init__(self, name: str) -> None:
        self.name = name
        self.callbacks: dict[tuple[type, str], Callable[[Any], None]] = {}
        self.groups: list[Group] = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.publishers_made: list[Publisher] = []
        self.logger = Logger()

    def declare_parameter(self, name: str, default: Any) -> Parameter:
        value = self.overrides.get(name, default)
        assert type(value) is type(default) and value != []  # a list has no type if it is empty
        return Parameter(value)

    def create_subscription(
        self, kind: type, topic: str, callback: Any, profile: object, *, callback_group: Group
    ) -> None:
        assert (kind, topic) not in self.callbacks and profile == "sensor data"
        self.callbacks[kind, topic] = callback
        self.groups.append(callback_group)

    def create_publisher(self, kind: type, topic: str, depth: int) -> Publisher:
        self.publishers_made.append(Publisher(kind, topic, depth))
        return self.publishers_made[-1]

    def create_timer(self, period_s: float, callback: Any, *, callback_group: Group) -> None:
        self.timers.append((period_s, callback))
        self.groups.append(callback_group)

    def get_logger(self) -> Logger:
        return self.logger

    def get_clock(self) -> Any:
        return types.SimpleNamespace(now=lambda: Now(self.now_ns))

    def destroy_node(self) -> None:
        self.callbacks.clear()


class ExternalShutdownException(Exception):  # noqa: N818
    pass


class MultiThreadedExecutor:
    """An executor that ends as one does that Ctrl-C interrupts."""

    nodes: list[Node] = []  # noqa: RUF012

    def add_node(self, node: Node) -> None:
        self.nodes.append(node)

    def spin(self) -> None:
        raise KeyboardInterrupt


@contextmanager
def installed() -> Iterator[types.SimpleNamespace]:
    """Lets `import` find these modules; yields counts of `rclpy`'s calls."""
    calls = types.SimpleNamespace(init=0, shutdown=0)

    def init() -> None:
        calls.init += 1

    def try_shutdown() -> None:
        calls.shutdown += 1

    contents: dict[str, dict[str, Any]] = {
        "rclpy": {"init": init, "try_shutdown": try_shutdown},
        "rclpy.callback_groups": {"MutuallyExclusiveCallbackGroup": Group},
        "rclpy.executors": {
            "ExternalShutdownException": ExternalShutdownException,
            "MultiThreadedExecutor": MultiThreadedExecutor,
        },
        "rclpy.node": {"Node": Node},
        "rclpy.qos": {"qos_profile_sensor_data": "sensor data"},
        "sensor_msgs": {},
        "sensor_msgs.msg": {
            "CompressedImage": CompressedImage,
            "Image": Image,
            "JointState": JointState,
        },
        "std_msgs": {},
        "std_msgs.msg": {"Float64MultiArray": Float64MultiArray},
    }
    for name, members in contents.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(members)
    try:
        yield calls
    finally:
        for name in contents:
            del sys.modules[name]
