"""The node: subscribes to the sensors, runs the policy at a rate, publishes its commands."""

from __future__ import annotations

import functools
from typing import Any

import rclpy
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Float64MultiArray

from robocache_policy_py.policy_loop import PolicyLoop
from robocache_policy_py.routes import Route

_THROTTLE_S = 1.0  # between two warnings of one place


class PolicyNode(Node):  # type: ignore[misc]  # rclpy has no types
    """Runs a policy on windows of live sensors. README.md lists its parameters."""

    def __init__(self) -> None:
        super().__init__("policy")
        self.loop = PolicyLoop(
            self.declare_parameter("spec", "policy_spec.json").value,
            self._texts("topics"),
            self._texts("joint_names"),
            self.declare_parameter("action", "action").value,
            rate_hz := self.declare_parameter("rate_hz", 50.0).value,
            self.declare_parameter("policy", "").value,
        )
        for stream in self.loop.unnamed():
            self.get_logger().warning(
                f"{stream}: the spec has no names of channels; joints are taken in their order"
            )
        joints: dict[str, list[Route]] = {}
        for route in self.loop.routes:
            if route.is_compressed:
                callback = functools.partial(self._on_compressed, route)
                self._subscribe(CompressedImage, route.topic, callback)
            elif route.field is None:
                self._subscribe(Image, route.topic, functools.partial(self._on_image, route))
            else:
                joints.setdefault(route.topic, []).append(route)
        for topic, routes in joints.items():
            self._subscribe(JointState, topic, functools.partial(self._on_joints, routes))
        self._commands = self.create_publisher(Float64MultiArray, "commands", 1)
        group = MutuallyExclusiveCallbackGroup()
        self.create_timer(1.0 / rate_hz, self._on_timer, callback_group=group)

    def _texts(self, name: str) -> list[str]:
        """A parameter that is a list of texts; ROS has no type for an empty list."""
        return [text for text in self.declare_parameter(name, [""]).value if text]

    def _subscribe(self, kind: Any, topic: str, callback: Any) -> None:
        # One group for each topic: no topic waits for another, nor for the policy.
        group = MutuallyExclusiveCallbackGroup()
        self.create_subscription(
            kind, topic, callback, qos_profile_sensor_data, callback_group=group
        )

    def _on_joints(self, routes: list[Route], message: Any) -> None:
        stamp_ns = _nanoseconds(message.header.stamp)
        for route in routes:
            assert route.field is not None
            values = getattr(message, route.field)
            if len(values):  # a driver may leave velocity and effort out
                self._warn(self.loop.push_joints(route, stamp_ns, message.name, values))

    def _on_image(self, route: Route, message: Any) -> None:
        problem = self.loop.push_image(
            route,
            _nanoseconds(message.header.stamp),
            message.height,
            message.width,
            message.encoding,
            message.step,
            message.data,
        )
        self._warn(problem)

    def _on_compressed(self, route: Route, message: Any) -> None:
        stamp_ns = _nanoseconds(message.header.stamp)
        self._warn(self.loop.push_compressed(route, stamp_ns, message.data))

    def _on_timer(self) -> None:
        command, problem = self.loop.step(self.get_clock().now().nanoseconds)
        self._warn(problem)
        if command is not None:
            self._commands.publish(Float64MultiArray(data=command.tolist()))

    def _warn(self, problem: str | None) -> None:
        if problem is not None:
            self.get_logger().warning(problem, throttle_duration_sec=_THROTTLE_S)


def _nanoseconds(stamp: Any) -> int:
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


def main() -> None:
    """Runs the node until it is stopped."""
    rclpy.init()
    node = PolicyNode()
    executor = MultiThreadedExecutor()
    executor.add_node(node)
    try:
        executor.spin()
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
