"""`PolicyLoop`: the work of the node without ROS, so that it can be tested where ROS is missing."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

import robocache as rc
from robocache_policy_py.routes import Route, find_routes, parse_pairs

Policy = Callable[[Mapping[str, Tensor]], Tensor]
"""Maps a batch of windows to actions [1, K, D]."""

_COLORS = {"rgb8": (3, slice(None)), "bgr8": (3, slice(None, None, -1)), "mono8": (1, slice(None))}
_MAX_ORDERS = 16  # sets of joint names of one topic


class PolicyLoop:
    """Pushes the rows of messages, queries windows and runs the policy.

    Args:
        spec: The path of the policy spec.
        topics: Where the rows of streams come from: see :func:`find_routes`.
        joint_names: `CHANNEL:=JOINT` for channels of the spec that the driver calls otherwise.
        action: The key of the batch that the policy predicts.
        rate_hz: The rate of steps.
        policy: `MODULE:FUNCTION`; the function returns the policy. Empty: windows are queried, and
            no action is computed.

    Raises:
        ValueError: A parameter does not fit the spec.
    """

    def __init__(
        self,
        spec: str,
        topics: Sequence[str] = (),
        joint_names: Sequence[str] = (),
        action: str = "action",
        rate_hz: float = 50.0,
        policy: str = "",
    ) -> None:
        self.aligner = rc.LiveAligner(spec)
        keys = {stream.name for stream in self.aligner.spec.streams} | {*self.aligner.spec.concat}
        if action not in keys:
            raise ValueError(f"action: expected a key of the batch, got {action!r}")
        if not rate_hz > 0:
            raise ValueError(f"rate_hz: expected a rate above 0, got {rate_hz}")
        self.routes = find_routes(self.aligner.spec, topics)
        self._channels = {
            joint: channel for channel, joint in parse_pairs("joint_names", joint_names).items()
        }
        self._action = action
        self._policy = load_policy(policy) if policy else None
        self._orders: dict[Route, dict[tuple[str, ...], rc.ChannelOrder | str | None]] = {
            route: {} for route in self.routes
        }

    def unnamed(self) -> list[str]:
        """Streams of joints whose channels have no names: rows must come in the spec's order."""
        names = (route.stream for route in self.routes if route.field is not None)
        return [name for name in names if self.aligner.spec.stream(name).channels is None]

    def push_joints(
        self, route: Route, stamp_ns: int, names: Sequence[str], values: Any
    ) -> str | None:
        """Pushes an array of a JointState.

        Args:
            route: The stream's route.
            stamp_ns: The time of measurement.
            names: The message's joints.
            values: A number for each.

        Returns:
            Why the message was not pushed; None: it was, or it has none of the stream's joints and
            is thus another node's.
        """
        order: rc.ChannelOrder | None = None
        if self.aligner.spec.stream(route.stream).channels is not None:
            found = self._order(route, tuple(names))
            if not isinstance(found, rc.ChannelOrder):
                return found
            order = found
        return self._push(route, stamp_ns, values, order)

    def _order(self, route: Route, names: tuple[str, ...]) -> rc.ChannelOrder | str | None:
        """The order of messages with these names, computed once; or why there is none."""
        orders = self._orders[route]
        if names not in orders:
            if len(orders) == _MAX_ORDERS:
                return f"{route.topic}: expected at most {_MAX_ORDERS} lists of joints, got more"
            orders[names] = self._find_order(route, names)
        return orders[names]

    def _find_order(self, route: Route, names: tuple[str, ...]) -> rc.ChannelOrder | str | None:
        renamed = [self._channels.get(name, name) for name in names]
        if set(renamed).isdisjoint(self.aligner.spec.stream(route.stream).channels or ()):
            return None
        try:
            return self.aligner.channel_order(route.stream, renamed)
        except ValueError as error:
            return f"{route.topic}: {error}"

    def push_image(
        self,
        route: Route,
        stamp_ns: int,
        height: int,
        width: int,
        encoding: str,
        step: int,
        data: Any,
    ) -> str | None:
        """Pushes an Image: rows of `step` bytes, the pixels of which are rgb8, bgr8 or mono8.

        Returns:
            Why the message was not pushed; None: it was.
        """
        shape = self.aligner.spec.stream(route.stream).shape
        colors, order = _COLORS.get(encoding, (0, slice(None)))
        pixels = np.frombuffer(data, np.uint8)
        if (height, width, colors) != shape or step < width * colors or len(pixels) < height * step:
            kind = "mono8" if shape[2] == 1 else "rgb8 or bgr8"
            return (
                f"{route.topic}: expected {shape[0]} x {shape[1]} pixels of {kind}, as recorded, "
                f"got {height} x {width} of {encoding}"
            )
        rows = pixels[: height * step].reshape(height, step)[:, : width * colors]
        image: NDArray[np.uint8] = rows.reshape(height, width, colors)[:, :, order]
        return self._push(route, stamp_ns, image, None)

    def push_compressed(self, route: Route, stamp_ns: int, data: Any) -> str | None:
        """Pushes the JPEG file of a CompressedImage.

        Returns:
            Why the message was not pushed; None: it was.
        """
        return self._push(route, stamp_ns, data, None)

    def _push(
        self, route: Route, stamp_ns: int, values: Any, order: rc.ChannelOrder | None
    ) -> str | None:
        try:
            self.aligner.push(route.stream, stamp_ns, values, order=order)
        except (ValueError, TypeError) as error:
            return f"{route.topic}: {error}"
        return None

    def step(self, now_ns: int) -> tuple[NDArray[Any] | None, str | None]:
        """Queries the windows and runs the policy.

        Args:
            now_ns: The time, of the clock of the messages' stamps.

        Returns:
            The first of the actions, [D], in the robot's units; None without a policy, and where a
            stream has a problem. And that problem, or None.
        """
        batch = self.aligner.query(now_ns)
        statuses = self.aligner.status().items()
        problems = [f"{stream}: {status}" for stream, status in statuses if status != "ok"]
        if problems:
            return None, f"no command: {', '.join(problems)}"
        if self._policy is None:
            return None, None
        actions = self.aligner.undo(self._action, self._policy(batch), batch)
        first: NDArray[Any] = np.asarray(actions)[0, 0]
        return first, None


def load_policy(name: str) -> Policy:
    """The policy that a function returns.

    Args:
        name: `MODULE:FUNCTION`.

    Raises:
        ValueError: There is no such function.
    """
    module, _, function = name.partition(":")
    try:
        load: Callable[[], Policy] = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"policy: expected MODULE:FUNCTION, a function that returns the policy, got {name!r} "
            f"({error})"
        ) from error
    return load()
