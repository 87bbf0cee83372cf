"""The demo's depth-camera scene: what a camera would see of it, repeatable, with its noise."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import torch
from support import Backend


@pytest.fixture(scope="module")
def scene() -> Any:
    return importlib.import_module("robocache.demo.scene")


@pytest.fixture(scope="module")
def view(scene: Any) -> Any:
    return scene.make_scene(np.random.default_rng(0))


def test_points(scene: Any, view: Any) -> None:
    pixels = scene.WIDTH * scene.HEIGHT
    assert view.points.shape == view.colors.shape == (pixels, 3)
    assert view.points.dtype == view.colors.dtype == np.float32
    bad = np.isnan(view.points)
    assert (bad.all(1) == bad.any(1)).all(), "a pixel has all coordinates or none"
    assert 0.005 < bad.any(1).mean() < 0.1
    assert (view.colors >= 0).all() and (view.colors <= 1).all()
    points = view.points[~bad.any(1)].astype(np.float64)
    along = (points - scene.CAMERA) @ scene.axes_of(scene.CAMERA, scene.TARGET)[2]
    assert along.min() > scene.NEAREST - 0.02 and along.max() < scene.FARTHEST + 0.1
    np.testing.assert_allclose(along * 1000, np.rint(along * 1000), atol=1e-3)  # millimeters


def test_noise_is_that_of_the_camera(scene: Any, view: Any) -> None:
    """Points of the table's top lie on it within the noise, and not all the same."""
    points = view.points[np.isfinite(view.points[:, 0])].astype(np.float64)
    on_table = (np.abs(points - [0.25, -0.2, scene.TABLE_TOP]) < [0.05, 0.03, 0.03]).all(1)
    heights = points[on_table, 2] - scene.TABLE_TOP
    assert len(heights) > 300
    assert abs(heights.mean()) < 0.001 and 0.0005 < heights.std() < 0.005


def test_things_are_seen_and_cast_shadows(scene: Any, view: Any) -> None:
    """Each thing has points near it; behind the ball the table is hidden."""
    points = view.points[np.isfinite(view.points[:, 0])].astype(np.float64)
    for thing in scene.THINGS[7:]:
        place = np.array(getattr(thing, "center", None) or thing.base)
        distance = np.linalg.norm(points - place, axis=1)
        assert (distance < 0.3).sum() > 100, thing
    behind = np.abs(points - [-0.17, 0.24, scene.TABLE_TOP]) < [0.03, 0.03, 0.01]
    assert behind.all(1).sum() == 0


def test_the_seed_decides(scene: Any, view: Any) -> None:
    same = scene.make_scene(np.random.default_rng(0))
    other = scene.make_scene(np.random.default_rng(1))
    np.testing.assert_array_equal(same.points, view.points)
    np.testing.assert_array_equal(same.colors, view.colors)
    assert not np.array_equal(other.points, view.points, equal_nan=True)


def test_voxels_of_the_scene(backend: Backend, view: Any) -> None:
    """The demo's numbers do not depend on the backend."""
    voxels = importlib.import_module("robocache.demo.voxels")
    points = torch.from_numpy(view.points)
    grid, dropped = backend.voxelize(
        points, voxels.GRID, voxels.SIZE, origin=voxels.ORIGIN, mode="count", return_dropped=True
    )
    assert int(grid.sum()) + int(dropped) == len(points)
    steps = (view.points.astype(np.float64) - np.array(voxels.ORIGIN)) / voxels.SIZE
    inside = ((steps >= 0) & (steps < voxels.GRID)).all(1)
    cells = np.unique(np.floor(steps[inside]), axis=0)
    assert grid.cpu().nonzero().tolist() == cells.astype(int).tolist()
