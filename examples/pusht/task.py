"""A planar pushing task: a round pusher brings a T-shaped block to a goal pose on a square table.

State and action are those of PushT: the state is [pusher x, y, block x, y, angle], where the
block's position is the middle of its bar's outer edge and its angle lies in [0, 2 pi); the action
is the target position of the pusher. Both have 10 Hz. All code processes E episodes at once: arrays
are [E,...].

The block slides quasi-statically: it stops with the pusher. The pusher has no friction, so that its
force is along the contact's normal n; an ellipsoidal limit surface (Goyal, Ruina and Papadopoulos,
"Planar sliding with dry friction", 1991) determines how far the block moves along n, and turns, for
each small advance of the pusher.

The demonstrator does not plan and has no memory: among points of the outline it selects the one
where pushing helps most, minus the cost of the way there, moves there around the block, and pushes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import robocache as rc

Floats = NDArray[np.float64]
Policy = Callable[[Floats], Floats]  # states [E,5] -> actions [E,2]

RATE = 10  # Hz, of states and actions
TABLE = 512.0
RADIUS = 15.0  # of the pusher, px
GOAL = np.array([256.0, 256.0, np.pi / 4])

# The T's bar and stem as (center, half size), from the center of mass; ORIGIN: its bar's edge.
ORIGIN = np.array([0.0, -40.7])
BOXES = (
    (np.array([0.0, -25.7]), np.array([60.0, 15.0])),
    (np.array([0.0, 34.3]), np.array([15.0, 45.0])),
)
OUTLINE = np.array(
    [[-60, 0], [60, 0], [60, 30], [15, 30], [15, 120], [-15, 120], [-15, 30], [-60, 30]], float
)  # from the middle of the bar's outer edge
TURN = 40.0  # divides a torque into a force: the block's mean distance from its center of mass
AROUND = 112.0  # px from the center of mass, the pusher is clear of the block at any angle

READY = RADIUS + 10  # px from a point of the outline, where a push begins
CLEAR = 2.0  # px between the pusher and the block on the way there

SUBSTEPS = 10
STIFFNESS, DAMPING = 100.0, 20.0  # the pusher follows its action, critically damped

FAST = 30.0  # px, the largest distance of an action from the pusher
WAY_COST = 0.004  # per pixel, relative to the share of the error that a push removes
SHAKE = 6.0  # px, error added to actions, so that demonstrations also contain corrections

LONGEST = 300  # steps of an episode
REACHED = (12.0, 0.15)  # px and rad from the goal


# The table ----------------------------------------------------------------------------------------


def rotate(points: Floats, angles: Floats) -> Floats:
    """Rotates points [...,2] by angles [...]."""
    cos, sin = np.cos(angles), np.sin(angles)
    x, y = points[..., 0], points[..., 1]
    return np.stack([cos * x - sin * y, sin * x + cos * y], -1)


def wrap(angles: Floats) -> Floats:
    """Wraps angles into [-pi, pi)."""
    return np.asarray((angles + np.pi) % (2 * np.pi) - np.pi)


def distance_to_block(points: Floats) -> tuple[Floats, Floats]:
    """Distances [...] and normals [...,2] of points outside it, relative to its center of mass."""
    best = np.full(points.shape[:-1], np.inf)
    normals = np.zeros(points.shape)
    for center, half in BOXES:
        away = points - center
        past = np.abs(away) - half
        outside = np.maximum(past, 0)
        distance = np.linalg.norm(outside, axis=-1)
        flat = np.where(past == past.max(-1, keepdims=True), 1.0, 0.0)  # within it
        normal = np.where(distance[..., None] > 0, outside, flat) * np.where(away < 0, -1, 1)
        distance = np.where(distance > 0, distance, past.max(-1))
        is_nearer = distance < best
        best = np.where(is_nearer, distance, best)
        normals = np.where(is_nearer[..., None], normal, normals)
    return best, normals / np.linalg.norm(normals, axis=-1, keepdims=True)


class Table:
    """The pushers and blocks of E episodes."""

    def __init__(self, episodes: int, random: np.random.Generator) -> None:
        self.angle = random.uniform(-np.pi, np.pi, episodes)
        self.center = random.uniform(150, TABLE - 150, (episodes, 2))
        bearing = random.uniform(-np.pi, np.pi, episodes)
        far = random.uniform(AROUND, 1.5 * AROUND, episodes)
        self.pusher = self.center + rotate(np.stack([far, 0 * far], -1), bearing)
        self.velocity = np.zeros((episodes, 2))

    def states(self) -> Floats:
        """[E,5]."""
        origin = self.center + rotate(ORIGIN, self.angle)
        return np.concatenate([self.pusher, origin, self.angle[:, None] % (2 * np.pi)], -1)

    def step(self, actions: Floats) -> None:
        """Advances the simulation by 0.1 s."""
        dt = 1 / (RATE * SUBSTEPS)
        for _ in range(SUBSTEPS):
            pull = STIFFNESS * (actions - self.pusher) - DAMPING * self.velocity
            self.velocity += pull * dt
            self.pusher = np.clip(self.pusher + self.velocity * dt, 0, TABLE)
            for _ in range(2):  # in the inner corner the pusher touches bar and stem
                self._push()

    def _push(self) -> None:
        """Moves the blocks that pushers overlap."""
        seen = rotate(self.pusher - self.center, -self.angle)
        distance, normal = distance_to_block(seen)
        depth = np.maximum(RADIUS - distance, 0)
        contact = seen - normal * distance[:, None]
        lever = cross(contact, -normal) / TURN
        move = depth / (1 + lever**2)
        self.center += rotate(-normal, self.angle) * move[:, None]
        self.angle += move * lever / TURN

    def errors(self) -> Floats:
        """[E,3]: the remaining distance of the block, and its remaining angle times TURN."""
        angle = wrap(GOAL[2] - self.angle)
        goal = GOAL[:2] - rotate(ORIGIN, GOAL[2])
        return np.concatenate([goal - self.center, TURN * angle[:, None]], -1)

    def reached(self, distance: float = REACHED[0], angle: float = REACHED[1]) -> NDArray[np.bool_]:
        """[E]: whether the block is at its goal."""
        error = self.errors()
        is_there = np.linalg.norm(error[:, :2], axis=-1) < distance
        return np.asarray(is_there & (np.abs(error[:, 2]) < angle * TURN))


def cross(a: Floats, b: Floats) -> Floats:
    return np.asarray(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])


# The demonstrator ---------------------------------------------------------------------------------


def outline_points(spacing: float = 30) -> tuple[Floats, Floats]:
    """Points of the outline that the pusher can touch, and normals there: [K,2] each."""
    points, normals = [], []
    for start, end in zip(OUTLINE, np.roll(OUTLINE, -1, 0), strict=True):
        length = float(np.linalg.norm(end - start))
        along = (end - start) / length
        for at in np.arange(spacing / 2, length, spacing):
            point = start + at * along + ORIGIN
            normal = np.array([along[1], -along[0]])
            if distance_to_block(point + normal * READY)[0] > RADIUS + CLEAR:
                points.append(point)
                normals.append(normal)
    return np.array(points), np.array(normals)


class Demonstrator:
    """Computes actions from the current state of a table."""

    def __init__(self) -> None:
        self.points, self.normals = outline_points()
        lever = cross(self.points, -self.normals) / TURN
        self.twists = np.concatenate([-self.normals, lever[:, None]], -1)  # of a push there
        self.twists /= np.linalg.norm(self.twists, axis=-1, keepdims=True)

    def actions(self, table: Table) -> Floats:
        """[E,2]: target positions of the pushers."""
        seen = rotate(table.pusher - table.center, -table.angle)
        error = table.errors()
        error = np.concatenate([rotate(error[:, :2], -table.angle), error[:, 2:]], -1)
        choice, left = self._choose(seen, error)
        point, normal = self.points[choice], self.normals[choice]

        away = seen - point
        ahead = (away * normal).sum(-1)
        aside = np.abs(cross(away, normal))
        is_there = (ahead < RADIUS + 18) & (ahead > 0) & (aside < 8)
        push = point + normal * (RADIUS - np.minimum(1.2 * left + 6, FAST))[:, None]
        ready = point + normal * READY
        wanted = np.where(is_there[:, None], push, self._way(seen, ready))
        return np.clip(table.center + rotate(wanted, table.angle), 0, TABLE)

    def _choose(self, seen: Floats, error: Floats) -> tuple[NDArray[np.int64], Floats]:
        """Selects the point where a push removes most of the error, minus the cost of the way."""
        size = np.maximum(np.linalg.norm(error, axis=-1, keepdims=True), 1e-9)
        help_of_all = np.maximum(error @ self.twists.T, 0)  # [E,K]
        left = np.sqrt(np.maximum(size**2 - help_of_all**2, 0)) / size
        way = np.linalg.norm(self.points + RADIUS * self.normals - seen[:, None], axis=-1)
        score = np.where(help_of_all > 0.2 * size, 1 - left - WAY_COST * way, -np.inf)
        choice = score.argmax(-1)
        return choice, help_of_all[np.arange(len(choice)), choice]

    def _way(self, seen: Floats, ready: Floats) -> Floats:
        """The next point on the way to it, straight or on a circle around the block."""
        parts = np.linspace(0.1, 1, 16)[:, None]
        straight = seen[:, None] + parts * (ready - seen)[:, None]
        is_clear = np.all(distance_to_block(straight)[0] > RADIUS + 2, axis=-1)
        far = np.linalg.norm(seen, axis=-1)
        bearing = np.arctan2(seen[:, 1], seen[:, 0])
        turn = wrap(np.arctan2(ready[:, 1], ready[:, 0]) - bearing)
        turn = np.where(far > AROUND - 12, np.clip(turn, -0.7, 0.7), 0)
        around = AROUND * np.stack([np.cos(bearing + turn), np.sin(bearing + turn)], -1)
        step = np.where(is_clear[:, None], ready, around) - seen
        longest = FAST / np.maximum(np.linalg.norm(step, axis=-1), 1e-9)
        return np.asarray(seen + step * np.minimum(longest, 1)[:, None])


# Episodes -----------------------------------------------------------------------------------------


def demonstrate(episodes: int, seed: int) -> list[tuple[Floats, Floats]]:
    """States [n,5] and actions [n,2] of episodes in which the block reached its goal."""
    random = np.random.default_rng(seed)
    found: list[tuple[Floats, Floats]] = []
    demonstrator = Demonstrator()
    while len(found) < episodes:
        table = Table(episodes, random)
        states, actions, reached = [], [], []
        for _ in range(LONGEST):
            states.append(table.states())
            actions.append(demonstrator.actions(table))
            table.step(actions[-1] + random.normal(0, SHAKE, (episodes, 2)))
            reached.append(table.reached(6.0, 0.08))
            if np.any(reached, axis=0).all():
                break
        is_there, s, a = np.array(reached), np.array(states), np.array(actions)
        lengths = is_there.argmax(0) + 1
        found += [
            (s[: lengths[e], e], a[: lengths[e], e])
            for e in np.flatnonzero(is_there.any(0) & (lengths > 16))
        ]
    return found[:episodes]


def write_store(path: Path, episodes: int, seed: int) -> rc.EpisodeStore:
    """Demonstrations as an episode store."""
    with rc.StoreWriter(path) as writer:
        writer.declare("state", rate=RATE, timeline="rows")
        writer.declare("action", rate=RATE, timeline="rows", method="previous")
        for number, (states, actions) in enumerate(demonstrate(episodes, seed)):
            times = np.arange(len(states), dtype=np.int64) * (10**9 // RATE)
            with writer.episode("push the T to its goal", f"demonstration {number}") as episode:
                episode.add("state", times, states.astype(np.float32))
                episode.add("action", times, actions.astype(np.float32))
    return rc.EpisodeStore(path)


def share_reached(policy: Policy, episodes: int, seed: int, steps: int = LONGEST) -> float:
    """The share of new episodes in which a policy brings the block to its goal in time."""
    table = Table(episodes, np.random.default_rng(seed))
    was_there = np.zeros(episodes, bool)
    for _ in range(steps):
        table.step(policy(table.states()))
        was_there |= table.reached()
    return float(was_there.mean())
