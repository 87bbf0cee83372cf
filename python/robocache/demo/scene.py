"""A generated depth-camera scene: a table with things on it, as a structured-light camera sees it.

Rays through the pixels meet boxes, balls and cylinders. The depth is noisy as such cameras' is, and
in whole millimeters; pixels without a depth are NaN, as in the clouds that drivers publish. Meters;
x to the right, y away, z up from the floor.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WIDTH, HEIGHT = 640, 480
FOCAL = 525.0  # of the camera, in pixels
BASELINE = 0.075  # from the camera to its projector, which stands to its right
NEAREST, FARTHEST = 0.4, 4.0  # that it measures
STEEPEST = np.cos(np.radians(82))  # a surface that it still sees the pattern on
CAMERA, TARGET = np.array([0.15, -1.40, 1.70]), np.array([0.0, 0.15, 0.78])
LIGHT = np.array([0.35, -0.45, 0.82])  # where the light comes from

TABLE_TOP = 0.75


@dataclass(frozen=True)
class Box:
    """Upright, turned about the vertical."""

    center: tuple[float, float, float]
    size: tuple[float, float, float]
    color: tuple[float, float, float]
    turned: float = 0.0  # rad about z


@dataclass(frozen=True)
class Ball:
    """A ball."""

    center: tuple[float, float, float]
    radius: float
    color: tuple[float, float, float]


@dataclass(frozen=True)
class Cylinder:
    """Upright."""

    base: tuple[float, float, float]
    radius: float
    height: float
    color: tuple[float, float, float]


WOOD, WALL, FLOOR = (0.72, 0.53, 0.34), (0.86, 0.86, 0.82), (0.55, 0.57, 0.60)
RED, BLUE, GREEN = (0.80, 0.22, 0.18), (0.16, 0.38, 0.72), (0.22, 0.58, 0.36)
YELLOW, WHITE, ORANGE = (0.93, 0.76, 0.20), (0.93, 0.93, 0.95), (0.92, 0.50, 0.16)

THINGS: list[Box | Ball | Cylinder] = [
    Box((0, 0, -0.05), (8, 8, 0.1), FLOOR),
    Box((0, 1.25, 1.5), (8, 0.1, 3), WALL),
    Box((0, 0.15, TABLE_TOP - 0.02), (1.3, 0.8, 0.04), WOOD),
    *[
        Box((x, 0.15 + y, (TABLE_TOP - 0.04) / 2), (0.06, 0.06, TABLE_TOP - 0.04), WOOD)
        for x in (-0.58, 0.58)
        for y in (-0.33, 0.33)
    ],
    Box((-0.36, 0.28, TABLE_TOP + 0.14), (0.19, 0.07, 0.28), YELLOW, np.radians(25)),
    Box((0.36, 0.10, TABLE_TOP + 0.04), (0.08, 0.08, 0.08), RED, np.radians(10)),
    Box((0.46, 0.12, TABLE_TOP + 0.04), (0.08, 0.08, 0.08), GREEN, np.radians(-15)),
    Box((0.40, 0.11, TABLE_TOP + 0.12), (0.08, 0.08, 0.08), BLUE, np.radians(30)),
    Ball((-0.10, 0.02, TABLE_TOP + 0.10), 0.10, ORANGE),
    Cylinder((0.12, -0.10, TABLE_TOP), 0.042, 0.10, WHITE),
    Cylinder((0.14, 0.36, TABLE_TOP), 0.045, 0.20, GREEN),
    Cylinder((0.14, 0.36, TABLE_TOP + 0.20), 0.016, 0.08, GREEN),
    Cylinder((-0.46, -0.08, TABLE_TOP), 0.11, 0.02, BLUE),
]


@dataclass(frozen=True)
class Scene:
    """The camera's output: a point and a color for each of P pixels."""

    points: NDArray[np.float32]  # [P,3]; NaN where a pixel has no depth
    colors: NDArray[np.float32]  # [P,3], red, green and blue in [0,1]


def make_scene(rng: np.random.Generator) -> Scene:
    """The scene as the camera sees it, its noise drawn from `rng`."""
    directions = _rays()
    depth, normals, colors = cast(CAMERA, directions)
    hits = CAMERA + depth[:, None] * directions
    toward = -np.sum(normals * directions, axis=1) / np.linalg.norm(directions, axis=1)

    # The camera measures along its axis. Of a ray that is 1 long along this axis that is `depth`.
    sigma = 0.0012 + 0.0019 * (depth - 0.4) ** 2  # m: Nguyen, Izadi and Lovell, 3DIMPVT 2012
    measured = np.rint((depth + rng.normal(0.0, 1.0, depth.shape) * sigma) * 1000) / 1000
    seen = (depth > NEAREST) & (depth < FARTHEST) & (toward > STEEPEST)
    seen &= _lit_by_projector(hits) & (rng.uniform(size=depth.shape) > 0.004)
    points = CAMERA + np.where(seen, measured, np.nan)[:, None] * directions

    light = LIGHT / np.linalg.norm(LIGHT)
    shade = 0.45 + 0.55 * np.clip(normals @ light, 0, 1)
    colors = np.clip(colors * shade[:, None] + rng.normal(0, 0.01, colors.shape), 0, 1)
    return Scene(points.astype(np.float32), colors.astype(np.float32))


def axes_of(camera: Floats, target: Floats) -> tuple[Floats, Floats, Floats]:
    """The axes of a camera that looks at a target: to the right, down, and along its view."""
    forward = (target - camera) / np.linalg.norm(target - camera)
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    return right, np.cross(forward, right), forward


def _rays() -> Floats:
    """[P,3], row by row of the picture; 1 long along the camera's view."""
    right, down, forward = axes_of(CAMERA, TARGET)
    v, u = np.mgrid[0:HEIGHT, 0:WIDTH].reshape(2, -1, 1)
    x, y = (u + 0.5 - WIDTH / 2) / FOCAL, (v + 0.5 - HEIGHT / 2) / FOCAL
    rays: Floats = forward + x * right + y * down
    return rays


def _lit_by_projector(points: Floats) -> NDArray[np.bool_]:
    """Whether the pattern falls on them: beside things that stand out there are shadows."""
    projector = CAMERA + BASELINE * axes_of(CAMERA, TARGET)[0]
    depth, _, _ = cast(projector, points - projector)
    lit: NDArray[np.bool_] = depth > 0.995
    return lit


# Intersections of rays ----------------------------------------------------------------------------


def cast(origin: Floats, directions: Floats) -> tuple[Floats, Floats, Floats]:
    """How far along each ray the first thing is, in its lengths [P]; its normal, color [P,3]."""
    depth = np.full(len(directions), np.inf)
    normals, colors = np.zeros((2, *directions.shape))
    squares = np.sum(directions**2, axis=1)
    for thing in THINGS:
        center, radius = _ball_around(thing)
        # Rays that pass it by are left out: of most things, most.
        away = center - origin
        miss = away @ away - (directions @ away) ** 2 / squares
        rays = np.flatnonzero(miss <= radius**2)
        if isinstance(thing, Box):
            t, normal = _meet_box(thing, origin, directions[rays])
        elif isinstance(thing, Ball):
            t, normal = _meet_ball(thing, origin, directions[rays])
        else:
            t, normal = _meet_cylinder(thing, origin, directions[rays])
        nearer = t < depth[rays]
        rays = rays[nearer]
        depth[rays], normals[rays], colors[rays] = t[nearer], normal[nearer], thing.color
    return depth, normals, colors


def _ball_around(thing: Box | Ball | Cylinder) -> tuple[Floats, float]:
    """Its center and radius."""
    if isinstance(thing, Ball):
        return np.array(thing.center), thing.radius
    if isinstance(thing, Box):
        return np.array(thing.center), float(np.linalg.norm(thing.size)) / 2
    x, y, z = thing.base
    half = thing.height / 2
    return np.array([x, y, z + half]), float(np.hypot(thing.radius, half))


def _meet_box(box: Box, origin: Floats, directions: Floats) -> tuple[Floats, Floats]:
    c, s = np.cos(box.turned), np.sin(box.turned)
    turn = np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])  # into the box's own axes
    start, along = turn @ (origin - np.array(box.center)), directions @ turn.T
    half = np.array(box.size) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        a, b = (-half - start) / along, (half - start) / along
    enter, leave = np.minimum(a, b), np.maximum(a, b)
    axis = enter.argmax(axis=1)
    t, out = enter.max(axis=1), leave.min(axis=1)
    rows = np.arange(len(t))
    normal = np.zeros_like(directions)
    normal[rows, axis] = -np.sign(along[rows, axis])
    return np.where((t < out) & (t > 1e-6), t, np.inf), normal @ turn


def _meet_ball(ball: Ball, origin: Floats, directions: Floats) -> tuple[Floats, Floats]:
    start = origin - np.array(ball.center)
    a, b = np.sum(directions**2, axis=1), directions @ start
    t = _first_root(a, b, float(start @ start) - ball.radius**2)
    return t, (start + np.where(np.isfinite(t), t, 0)[:, None] * directions) / ball.radius


def _meet_cylinder(thing: Cylinder, origin: Floats, directions: Floats) -> tuple[Floats, Floats]:
    start, top = origin - np.array(thing.base), thing.height
    flat = directions[:, :2]
    a, b = np.sum(flat**2, axis=1), flat @ start[:2]
    side = _first_root(a, b, float(start[:2] @ start[:2]) - thing.radius**2)
    height = start[2] + np.where(np.isfinite(side), side, 0) * directions[:, 2]
    side = np.where((height >= 0) & (height <= top), side, np.inf)
    lid = (top - start[2]) / directions[:, 2]  # every camera here looks from above
    on_lid = np.linalg.norm(start[:2] + lid[:, None] * flat, axis=1) <= thing.radius
    lid = np.where(on_lid & (lid > 1e-6), lid, np.inf)
    reached = start[:2] + np.where(np.isfinite(side), side, 0)[:, None] * flat
    normal = np.concatenate([reached / thing.radius, np.zeros((len(side), 1))], axis=1)
    normal[lid < side] = [0, 0, 1]
    return np.minimum(side, lid), normal


def _first_root(a: Floats, b: Floats, c: float) -> Floats:
    """The smaller positive t of a t² + 2 b t + c = 0; infinite where there is none."""
    inside = b**2 - a * c
    t = (-b - np.sqrt(np.maximum(inside, 0))) / a
    root: Floats = np.where((inside >= 0) & (t > 1e-6), t, np.inf)
    return root
