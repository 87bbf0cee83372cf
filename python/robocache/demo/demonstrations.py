"""Demonstrations of the same arm for a policy: the block lies elsewhere in each of them.

A take is some seconds of the pick-and-place of recording.py, from anywhere in it on. Where the
block lies and goes to is drawn for each; a camera over the table sees it. Four streams, each on a
clock of its own:

    camera     30 Hz  [N,24,24,3]  uint8    -    the table from above; stamped at exposure, arrives
                                                 20 ms or more later; stored as JPEG
    joints    500 Hz  [N,7]        float32  rad  encoder noise, joint 7 wraps at pi; there at once
    force    1000 Hz  [N,3]        float32  N    noise, ringing at contacts; arrives half a
                                                 millisecond later
    action     50 Hz  [N,7]        float32  rad  the angles commanded: where the arm is 0.1 s on
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robocache.demo.recording import (
    CYCLE_S,
    LAND_S,
    LIFT_S,
    Floats,
    Stream,
    clock,
    force_on_hand,
    hand_pose,
    joint_angles,
    unix_ns,
    wrap,
)

SECONDS = 4.0  # of a take
CAMERA_SIZE = 24  # pixels a side
LEAD_S = 0.1  # by which a command is ahead of the arm

_SEEN_M = (-0.1, 0.9, -0.9, 0.9)  # what the camera sees of the table: x from, to, y from, to
_BLOCK_M, _HAND_M = 0.06, 0.05  # how wide they look


@dataclass(frozen=True)
class Take:
    """One episode, its streams on their own clocks."""

    camera: Stream
    joints: Stream
    force: Stream
    action: Stream


def make_take(rng: np.random.Generator) -> Take:
    """One take of :data:`SECONDS`."""
    begin, reach = rng.uniform(0.0, CYCLE_S), rng.uniform(0.6, 1.4)

    def angles_at(t: Floats) -> Floats:
        """The arm's angles: it turns less or more far to both sides, to where the block is."""
        angles = joint_angles(t + begin)
        angles[:, 0] *= reach
        return angles

    t = clock(rng, 500.0, SECONDS, jitter=0.05)
    joints = Stream(_measured(rng, angles_at(t)), unix_ns(t))
    t = clock(rng, 1000.0, SECONDS, jitter=0.05)
    force = force_on_hand(t + begin, lambda u: angles_at(u - begin))
    force += rng.normal(0.0, 0.2, force.shape)
    late = unix_ns(t + rng.uniform(3e-4, 6e-4, len(t)))
    felt = Stream(force.astype(np.float32), unix_ns(t), np.maximum.accumulate(late))
    t = clock(rng, 50.0, SECONDS, jitter=0.02)
    action = Stream(_measured(rng, angles_at(t + LEAD_S)), unix_ns(t))
    return Take(_film(rng, angles_at, begin), joints, felt, action)


def cut(stream: Stream, begin_ns: int, end_ns: int) -> Stream:
    """A stream without its rows in a range of times: a loose cable."""
    kept = (stream.times < begin_ns) | (stream.times >= end_ns)
    received = None if stream.received is None else stream.received[kept]
    return Stream(stream.values[kept], stream.times[kept], received)


def _measured(rng: np.random.Generator, angles: Floats) -> NDArray[np.float32]:
    angles = angles + rng.normal(0.0, 2e-4, angles.shape)
    angles[:, 6] = wrap(angles[:, 6])
    return angles.astype(np.float32)


def _film(rng: np.random.Generator, angles_at: Callable[[Floats], Floats], begin: float) -> Stream:
    """The block in red and the hand in blue, on a gray table."""
    t = clock(rng, 30.0, SECONDS, jitter=0.01)
    hand, _ = hand_pose(angles_at(t))
    pick, place = (hand_pose(angles_at(np.array([s - begin])))[0] for s in (LIFT_S, LAND_S))
    into = np.mod(t + begin, CYCLE_S)[:, None]
    block = np.where(into < LIFT_S, pick, np.where(into < LAND_S, hand, place))
    pictures = np.full((len(t), CAMERA_SIZE, CAMERA_SIZE, 3), 110.0)
    for channel, where, width in ((0, block, _BLOCK_M), (2, hand, _HAND_M)):
        pictures[..., channel] += 120.0 * _blob(where, width)
    pictures += rng.normal(0.0, 3.0, pictures.shape)
    arrival = np.maximum.accumulate(t + 0.020 + rng.exponential(0.006, len(t)))
    return Stream(
        pictures.clip(0, 255).astype(np.uint8),
        unix_ns(t),
        unix_ns(arrival),
    )


def _blob(where: Floats, width: float) -> Floats:
    """How much of each pixel a thing at [N,3] m covers: [N,H,W] from 0 to 1."""
    low_x, high_x, low_y, high_y = _SEEN_M
    x, y = (np.linspace(low, high, CAMERA_SIZE) for low, high in ((low_x, high_x), (low_y, high_y)))
    away = (x[:, None] - where[:, 0, None, None]) ** 2 + (y - where[:, 1, None, None]) ** 2
    covered: Floats = np.exp(-away / (2 * width**2))
    return covered
