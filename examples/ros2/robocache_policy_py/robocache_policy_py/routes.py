"""`Route`: the topic, and the part of its messages, that a stream's rows come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from robocache import PolicySpec

FIELDS = ("position", "velocity", "effort")  # of sensor_msgs/JointState


@dataclass(frozen=True)
class Route:
    """A stream of the policy spec and where its rows come from."""

    stream: str
    topic: str
    field: str | None
    """The array of a JointState; None: the messages are images."""
    is_compressed: bool = False
    """Whether images come as CompressedImage: they were JPEG in training."""


def find_routes(spec: PolicySpec, topics: Sequence[str]) -> list[Route]:
    """The route of each stream that a robot pushes rows of.

    Args:
        spec: The policy spec.
        topics: `STREAM:=TOPIC` for images, `STREAM:=TOPIC/FIELD` for joints. A stream without an
            entry has its own name as its topic, which is how RoboCache names the streams of bags.

    Raises:
        ValueError: An entry is not of this form, or a topic is not of these types.
    """
    given = parse_pairs("topics", topics)
    streams = {stream.name: stream for stream in spec.streams if spec.takes_rows(stream)}
    for name in given:
        if name not in streams:
            expected = ", ".join(streams)
            raise ValueError(f"topics: expected streams that take rows ({expected}), got {name!r}")
    routes = []
    for name, stream in streams.items():
        path = given.get(name, name)
        if stream.dtype == "U8" and len(stream.shape) == 3:
            routes.append(Route(name, path, None, is_compressed=stream.encoding is not None))
            continue
        topic, _, field = path.rpartition("/")
        if not topic or field not in FIELDS or len(stream.shape) != 1:
            raise ValueError(
                f"topics[{name!r}]: expected a topic and a field of JointState, as in "
                f"'/joint_states/position', got {path!r}"
            )
        routes.append(Route(name, topic, field))
    return routes


def parse_pairs(name: str, pairs: Sequence[str]) -> dict[str, str]:
    """The pairs of a parameter that is a list of `KEY:=VALUE`.

    Raises:
        ValueError: An entry is not of this form, or has the key of another.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        key, is_pair, value = pair.partition(":=")
        if not (key and is_pair and value):
            raise ValueError(f"{name}: expected KEY:=VALUE, got {pair!r}")
        if key in found:
            raise ValueError(f"{name}: expected each key once, got {key!r} twice")
        found[key] = value
    return found
