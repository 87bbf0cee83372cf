"""A made-up recording of a robot arm that picks a block up and places it elsewhere.

The arm has seven joints, turning about z, y, z, y, z, y, z in the zero pose (spherical shoulder,
elbow, spherical wrist). Joints 1 to 6 have limits; joint 7, the wrist, turns without end and its
encoder reports (-pi, pi]. The hand moves between waypoints along minimum-jerk profiles; everything
else (the hand's orientation, the force at the wrist, what the camera sees) follows from that
motion, and every sensor then samples it on its own clock, with its own faults:

    joints    100 Hz  [N,7]   float32  rad  clock jitter, encoder noise, joint 7 wraps at pi
    force    1000 Hz  [N,3]   float32  N    noise, ringing at contacts, no rows at all for 0.6 s
    vision     30 Hz  [N,64]  float16  -    stamped at exposure, arrives 20 ms or more later, two
                                            frames lost
    gripper    20 Hz  [N,1]   float32  mm   the width commanded: constant between its steps
    hand       60 Hz  [N,4]   float32  -    unit quaternion x y z w, its largest component positive

All times are int64 nanoseconds of Unix time; all randomness comes from one numpy Generator.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Times = NDArray[np.int64]

START_NS = 1_700_000_000_000_000_000  # Unix time of the first instant, ns (2023-11-14 22:13:20 UTC)
CYCLE_S = 10.0  # one pick-and-place and the way home, s
DROPOUT_S = 0.6  # how long the force sensor is silent, s

# Largest angle of each joint either way, rad. Joint 7 has no stop: its readings wrap at pi.
JOINT_LIMITS: Floats = np.array([2.96, 2.09, 2.96, 2.09, 2.96, 2.09, np.pi])

SHOULDER_M, UPPER_ARM_M, FOREARM_M, HAND_M = 0.36, 0.42, 0.40, 0.23  # lengths along the arm
BLOCK_KG, GRAVITY = 0.8, 9.81  # kg, m/s^2
GRIPPER_OPEN_MM, GRIPPER_CLOSED_MM = 80.0, 42.0  # the block is 42 mm wide
VISION_CHANNELS = 64


@dataclass(frozen=True)
class Stream:
    """The rows of one sensor: `values[i]` was measured at `times[i]`."""

    values: NDArray[np.floating]  # [N,D], in the unit that Recording names
    times: Times  # [N] ns, ascending
    received: Times | None = None  # [N] ns, when the row arrived, where that was recorded


@dataclass(frozen=True)
class Recording:
    """One episode, its streams on their own clocks."""

    start_ns: int
    duration_s: float
    joints: Stream  # rad
    force: Stream  # N, on the hand, in the hand's frame: z points out of the fingers
    vision: Stream  # features of the camera's image, no unit
    gripper: Stream  # mm, the width commanded
    hand: Stream  # quaternion x y z w that turns the hand's frame into the robot's
    dropout_ns: tuple[int, int]  # the force sensor wrote nothing from the first to the second


def make_recording(rng: np.random.Generator, duration_s: float = CYCLE_S) -> Recording:
    """Record one pick-and-place, or as many as `duration_s` (at least 10) has room for."""
    if not duration_s >= CYCLE_S:
        raise ValueError(f"duration_s: expected {CYCLE_S:g} or more, got {duration_s:g}")
    force, dropout_ns = _record_force(rng, duration_s)
    return Recording(
        start_ns=START_NS,
        duration_s=duration_s,
        joints=record_joints(rng, duration_s),
        force=force,
        vision=_record_vision(rng, duration_s),
        gripper=_record_gripper(rng, duration_s),
        hand=_record_hand(rng, duration_s),
        dropout_ns=dropout_ns,
    )


# The motion, as it truly was ----------------------------------------------------------------------


def _joints_of_pose(
    turn: float, reach: float, height: float, wrist: float, swing: float = 0.0
) -> Floats:
    """The seven angles (rad) for fingertips `reach` m out and `height` m up, pointing down.

    `turn` is the base's angle and `wrist` joint 7's; a `swing` of the elbow tilts the hand a bit.
    """
    up = height + HAND_M - SHOULDER_M  # of the wrist over the shoulder
    distance = np.hypot(reach, up)
    elbow = np.pi - np.arccos(
        (UPPER_ARM_M**2 + FOREARM_M**2 - distance**2) / (2 * UPPER_ARM_M * FOREARM_M)
    )
    lead = np.arccos((UPPER_ARM_M**2 + distance**2 - FOREARM_M**2) / (2 * UPPER_ARM_M * distance))
    shoulder = np.arctan2(reach, up) - lead  # from the vertical; the elbow stays above the hand
    return np.array([turn, shoulder, swing, elbow, -swing, np.pi - shoulder - elbow, wrist])


_HOME = _joints_of_pose(0.0, 0.42, 0.40, 2.2, swing=0.3)
_OVER_PICK = _joints_of_pose(0.6, 0.55, 0.20, 2.5, swing=0.1)
_AT_PICK = _joints_of_pose(0.6, 0.55, 0.03, 2.5, swing=0.1)
_OVER_PLACE = _joints_of_pose(-0.7, 0.50, 0.22, 4.3, swing=-0.1)
_AT_PLACE = _joints_of_pose(-0.7, 0.50, 0.03, 4.3, swing=-0.1)

# When (s into the cycle) the arm is where; equal neighbors are rests.
_WAYPOINTS: list[tuple[float, Floats]] = [
    (0.0, _HOME), (0.4, _HOME), (2.0, _OVER_PICK), (2.8, _AT_PICK), (3.4, _AT_PICK),
    (4.2, _OVER_PICK), (6.0, _OVER_PLACE), (6.8, _AT_PLACE), (7.4, _AT_PLACE),
    (8.2, _OVER_PLACE), (9.8, _HOME), (CYCLE_S, _HOME),
]  # fmt: skip
_TOUCH_S, LIFT_S, LAND_S, _LEAVE_S = 2.8, 3.4, 6.8, 7.4
_CLOSE_S, _OPEN_S = 2.95, 6.95  # when the gripper is told to
_STROKE_S = 0.35  # how long its fingers take


def _smooth_step(x: Floats) -> Floats:
    """From 0 to 1 with the least jerk: no speed and no acceleration at either end."""
    x = np.clip(x, 0.0, 1.0)
    return x**3 * (10 + x * (6 * x - 15))


def joint_angles(t: Floats) -> Floats:
    """The arm's true angles at `t` (s since the start): [N] -> [N,7] rad, joint 7 not wrapped."""
    t = np.mod(t, CYCLE_S)
    when = np.array([time for time, _ in _WAYPOINTS])
    where = np.array([angles for _, angles in _WAYPOINTS])
    leg = np.clip(np.searchsorted(when, t, side="right") - 1, 0, len(when) - 2)
    done = _smooth_step((t - when[leg]) / (when[leg + 1] - when[leg]))[:, None]
    angles: Floats = where[leg] + done * (where[leg + 1] - where[leg])
    return angles


def _multiply(p: Floats, q: Floats) -> Floats:
    """Quaternion product p q: [N,4] x y z w."""
    vector = p[:, 3:] * q[:, :3] + q[:, 3:] * p[:, :3] + np.cross(p[:, :3], q[:, :3])
    scalar = p[:, 3] * q[:, 3] - np.sum(p[:, :3] * q[:, :3], axis=1)
    return np.concatenate([vector, scalar[:, None]], axis=1)


def _rotate(q: Floats, v: Floats) -> Floats:
    """The vectors v [N,3] turned by the unit quaternions q [N,4]."""
    twice = 2.0 * np.cross(q[:, :3], v)
    turned: Floats = v + q[:, 3:] * twice + np.cross(q[:, :3], twice)
    return turned


def hand_pose(angles: Floats) -> tuple[Floats, Floats]:
    """Forward kinematics: angles [N,7] rad -> fingertips [N,3] m, orientation [N,4] x y z w."""
    rows = len(angles)
    position = np.zeros((rows, 3))
    orientation = np.tile([0.0, 0.0, 0.0, 1.0], (rows, 1))
    lengths = [SHOULDER_M, 0.0, UPPER_ARM_M, 0.0, FOREARM_M, 0.0, HAND_M]  # before joints 2, 4, 6
    for joint in range(7):
        turn = np.zeros((rows, 4))
        turn[:, 2 if joint % 2 == 0 else 1] = np.sin(angles[:, joint] / 2)  # about z, y, z, ...
        turn[:, 3] = np.cos(angles[:, joint] / 2)
        orientation = _multiply(orientation, turn)
        along = np.tile([0.0, 0.0, lengths[joint]], (rows, 1))
        position += _rotate(orientation, along)
    return position, orientation


def force_on_hand(t: Floats, angles_at: Callable[[Floats], Floats] = joint_angles) -> Floats:
    """Force at a perfect sensor, tared with the empty hand: [N] s -> [N,3] N, hand's frame.

    `angles_at`: the arm's true angles at these times.
    """
    step = 5e-3
    before, here, after = (hand_pose(angles_at(t + d))[0] for d in (-step, 0.0, step))
    acceleration = (after - 2 * here + before) / step**2
    _, orientation = hand_pose(angles_at(t))

    into = np.mod(t, CYCLE_S)
    carried = _smooth_step((into - LIFT_S) / 0.25) - _smooth_step((into - LAND_S) / 0.12)
    weight = -BLOCK_KG * carried[:, None] * (acceleration + np.array([0.0, 0.0, GRAVITY]))

    pressed = np.zeros_like(t)  # up from the table, with the ringing of a stiff arm that hits it
    for touch, leave, newton in ((_TOUCH_S, LIFT_S, 4.0), (LAND_S, _LEAVE_S, 7.0)):
        since = into - touch
        ringing = np.exp(-np.clip(since, 0.0, None) / 0.05) * np.sin(2 * np.pi * 45.0 * since)
        pressing = _smooth_step(since / 0.03) - _smooth_step((into - leave) / 0.15)
        pressed += newton * pressing * (1.0 + 0.9 * ringing)
    table = np.stack([np.zeros_like(t), np.zeros_like(t), pressed], axis=1)

    to_hand = orientation * np.array([-1.0, -1.0, -1.0, 1.0])
    force = _rotate(to_hand, weight + table)
    for touch in (_CLOSE_S + _STROKE_S, _OPEN_S):  # one finger always touches the block first
        force[:, 1] += 1.5 * np.exp(-(((into - touch) / 0.04) ** 2))
    return force


def wrap(angle: Floats) -> Floats:
    """Wraps an angle into (-pi, pi]."""
    wrapped: Floats = -(np.mod(-angle + np.pi, 2 * np.pi) - np.pi)
    return wrapped


def _width_commanded(t: Floats) -> Floats:
    """The gripper's, mm: closed from grasping to placing."""
    into = np.mod(t, CYCLE_S)
    closed = (into >= _CLOSE_S) & (into < _OPEN_S)
    return np.where(closed, GRIPPER_CLOSED_MM, GRIPPER_OPEN_MM)


def _width_reached(t: Floats) -> Floats:
    """The gripper's, mm: the fingers take their time."""
    into = np.mod(t, CYCLE_S)
    closed = _smooth_step((into - _CLOSE_S) / _STROKE_S) - _smooth_step(
        (into - _OPEN_S) / _STROKE_S
    )
    return GRIPPER_OPEN_MM + closed * (GRIPPER_CLOSED_MM - GRIPPER_OPEN_MM)


# Readings of the sensors --------------------------------------------------------------------------


def clock(rng: np.random.Generator, rate_hz: float, duration_s: float, jitter: float) -> Floats:
    """When a sensor samples, in s since the start: ascending, within [0, duration_s).

    It begins at its own phase; each sample is off by `jitter` periods (standard deviation).
    """
    ticks = np.arange(int(duration_s * rate_hz)) + rng.uniform(0.0, 0.5)
    # Off by under half a period, so that no sample overtakes the next.
    off = np.clip(rng.normal(0.0, jitter, len(ticks)), -0.45, 0.45)
    t: Floats = np.maximum(ticks + off, 0.0) / rate_hz
    return t


def unix_ns(t: Floats) -> Times:
    """Seconds since the start as int64 ns of Unix time."""
    # Rounded before the start is added: a float64 of today's Unix time has steps of 256 ns.
    return START_NS + np.rint(t * 1e9).astype(np.int64)


def record_joints(rng: np.random.Generator, duration_s: float) -> Stream:
    """Joint angles alone: [N,7] rad at 100 Hz, the stamps off by 1.5 ms (standard deviation)."""
    t = clock(rng, 100.0, duration_s, jitter=0.15)
    angles = joint_angles(t) + rng.normal(0.0, 2e-4, (len(t), 7))
    angles[:, 6] = wrap(angles[:, 6])
    return Stream(angles.astype(np.float32), unix_ns(t))


def _record_force(rng: np.random.Generator, duration_s: float) -> tuple[Stream, tuple[int, int]]:
    t = clock(rng, 1000.0, duration_s, jitter=0.05)
    silent = duration_s / 2 + rng.uniform(-0.2, 0.2)
    t = t[(t < silent) | (t >= silent + DROPOUT_S)]
    force = force_on_hand(t) + rng.normal(0.0, 0.2, (len(t), 3))
    begin, end = unix_ns(np.array([silent, silent + DROPOUT_S])).tolist()
    return Stream(force.astype(np.float32), unix_ns(t)), (begin, end)


def _record_vision(rng: np.random.Generator, duration_s: float) -> Stream:
    t = clock(rng, 30.0, duration_s, jitter=0.01)
    # A frozen encoder, as a random layer: smooth in what the camera sees of the arm.
    position, orientation = hand_pose(joint_angles(t))
    width = _width_reached(t)[:, None]
    scene = np.concatenate([position * 4.0, orientation, width / GRIPPER_OPEN_MM], axis=1)
    weights = rng.normal(0.0, 0.35, (scene.shape[1], VISION_CHANNELS))
    features = np.tanh((scene - scene.mean(axis=0)) @ weights)
    features += rng.normal(0.0, 0.01, features.shape)
    # Readout, encoding and the bus take their time; frames arrive in order.
    arrival = np.maximum.accumulate(t + 0.020 + rng.exponential(0.006, len(t)))
    # Each half loses a frame, rather where the picture changes, for such a frame compresses badly.
    change = np.linalg.norm(np.diff(features, axis=0), axis=1)[:-1] ** 2  # of frame 1 to N - 2
    half = len(change) // 2
    lost = [1 + first + rng.choice(len(part), p=part / part.sum())
            for first, part in ((0, change[: half - 1]), (half, change[half:]))]  # fmt: skip
    t, features, arrival = (np.delete(rows, lost, axis=0) for rows in (t, features, arrival))
    return Stream(features.astype(np.float16), unix_ns(t), received=unix_ns(arrival))


def _record_gripper(rng: np.random.Generator, duration_s: float) -> Stream:
    t = clock(rng, 20.0, duration_s, jitter=0.05)
    return Stream(_width_commanded(t)[:, None].astype(np.float32), unix_ns(t))


def _record_hand(rng: np.random.Generator, duration_s: float) -> Stream:
    t = clock(rng, 60.0, duration_s, jitter=0.08)
    _, q = hand_pose(joint_angles(t))
    q += rng.normal(0.0, 1e-3, q.shape)
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    # q and -q are the same orientation. The tracker sends the one whose largest component is
    # positive, so the sign of all four flips whenever another component becomes the largest.
    largest = np.take_along_axis(q, np.abs(q).argmax(axis=1)[:, None], axis=1)
    return Stream((q * np.sign(largest)).astype(np.float32), unix_ns(t))
