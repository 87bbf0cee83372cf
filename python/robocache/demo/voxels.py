"""The demo's voxelization of a depth camera's points (see scene.py), with a picture."""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

import robocache as rc
from robocache.core.names import Backend
from robocache.demo import scene
from robocache.demo.report import CALLS_A_TURN, backends_for, best_ms, print_table, time_cells
from robocache.demo.scene import Floats, Scene

GRID = (70, 45, 32)
SIZE = 0.02  # m
ORIGIN = (-0.70, -0.30, 0.50)  # the table's top and what is on it
TURNS = 2  # of timing

EYE = np.array([-1.35, -1.75, 2.05])  # that the picture is drawn from: not where the camera was
LOOK_AT = np.array([0.0, 0.15, 0.72])


def show(rng: np.random.Generator, devices: Sequence[torch.device], folder: Path) -> Path:
    """Voxelizes a scene on the last of the devices, prints what came out, times it; draws it."""
    view = scene.make_scene(rng)
    points = torch.from_numpy(view.points).to(devices[-1])
    colors = torch.from_numpy(view.colors).to(devices[-1])

    grid, dropped = rc.voxelize_point_cloud(
        points, GRID, SIZE, origin=ORIGIN, mode="mean", features=colors, return_dropped=True
    )
    voxels = rc.voxelize_sparse(points, SIZE, origin=ORIGIN, features=colors)
    inside = (voxels.coordinates >= 0) & (voxels.coordinates < torch.tensor(GRID).to(points.device))
    inside = inside.all(-1)
    occupied = rc.voxelize_point_cloud(points, GRID, SIZE, origin=ORIGIN, out_dtype=torch.bool)
    if int(inside.sum()) != int(occupied.sum()):
        raise SystemExit("the sparse voxels and the dense grid differ")

    without_depth = int(voxels.dropped)
    print(
        f"The points of a depth camera, {scene.WIDTH} x {scene.HEIGHT} pixels, in voxels of "
        f"{SIZE * 1000:g} mm:\n"
    )
    lines = [
        (len(points), f"points, {without_depth:,} of them without a depth (NaN): dropped"),
        (int(dropped) - without_depth, "more lie outside of the dense grid and are dropped there"),
        (int(occupied.sum()), f"of its {occupied.numel():,} cells are occupied"),
        (len(voxels.counts), "sparse voxels hold all points that have a depth"),
    ]
    for number, what in lines:
        print(f"{number:9,} {what}")
    print()
    print_times(view, devices)
    return draw(view, voxels.coordinates[inside].cpu().numpy(), grid.cpu().numpy(), folder)


# Timing -------------------------------------------------------------------------------------------


def usual_dense(points: torch.Tensor) -> torch.Tensor:
    """Occupancy in plain torch, as it is usually written: [P,3] -> [X,Y,Z]."""
    cell = torch.floor((points - points.new_tensor(ORIGIN)) / SIZE).long()
    inside = ((cell >= 0) & (cell < torch.tensor(GRID, device=cell.device))).all(-1)
    cell = cell[inside]
    grid = points.new_zeros(GRID)
    grid[cell[:, 0], cell[:, 1], cell[:, 2]] = 1
    return grid


def usual_sparse(points: torch.Tensor, colors: torch.Tensor) -> torch.Tensor:
    """The mean of the features of each voxel: [P,3], [P,C] -> [V,C]."""
    valid = points.isfinite().all(-1)
    cell = torch.floor((points[valid] - points.new_tensor(ORIGIN)) / SIZE).int()
    found, voxel, count = torch.unique(cell, dim=0, return_inverse=True, return_counts=True)
    total = colors.new_zeros(len(found), colors.shape[1])
    mean: torch.Tensor = total.index_add_(0, voxel, colors[valid]) / count.unsqueeze(1)
    return mean


def robocache_dense(backend: Backend, points: torch.Tensor) -> torch.Tensor:
    """`usual_dense` by this library."""
    return rc.voxelize_point_cloud(points, GRID, SIZE, origin=ORIGIN, backend=backend)


def robocache_sparse(backend: Backend, points: torch.Tensor, colors: torch.Tensor) -> torch.Tensor:
    """`usual_sparse` by this library."""
    voxels = rc.voxelize_sparse(points, SIZE, origin=ORIGIN, features=colors, backend=backend)
    assert voxels.features is not None
    return voxels.features


def print_times(view: Scene, devices: Sequence[torch.device]) -> None:
    """Times the library and the usual code on each device."""
    rows = []
    for device in devices:
        points = torch.from_numpy(view.points).to(device)
        colors = torch.from_numpy(view.colors).to(device)
        contenders: dict[str, list[Callable[[], torch.Tensor]]] = {
            "usual torch": [
                functools.partial(usual_dense, points),
                functools.partial(usual_sparse, points, colors),
            ]
        }
        for backend in backends_for(device):
            contenders[f"robocache, {backend}"] = [
                functools.partial(robocache_dense, backend, points),
                functools.partial(robocache_sparse, backend, points, colors),
            ]
        best = best_ms([call for both in contenders.values() for call in both], device, TURNS)
        for i, name in enumerate(contenders):
            rows.append([device.type, name, *time_cells(best[2 * i : 2 * i + 2], best[:2])])
    print(
        "Occupancy in the dense grid, and the mean color of sparse voxels: the wall time of a\n"
        f"call (best of {TURNS * CALLS_A_TURN}), and the speed beside the usual torch code\n"
        "(indexing; unique and index_add)\n"
    )
    print_table(["device", "code", "dense, ms", "speed", "sparse, ms", "speed"], rows, left=(0, 1))


# The picture --------------------------------------------------------------------------------------


def draw(view: Scene, cells: NDArray[np.int32], grid: NDArray[np.float32], folder: Path) -> Path:
    """The points beside the voxels, each in its mean color; returns the picture's name."""
    folder.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"font.size": 10, "axes.titlesize": 12}):
        figure = Figure(figsize=(15, 6.4), dpi=120, layout="constrained")
        left, right = figure.subplots(1, 2)
        shown = draw_points(left, view)
        left.set_title(f"{shown:,} points of a depth camera, seen from beside it", loc="center")
        draw_voxels(right, cells, grid)
        title = f"{len(cells):,} voxels of {SIZE * 1000:g} mm in their points' mean color"
        right.set_title(title, loc="center")
        frame, _ = project(np.array(ORIGIN) + (cells + 0.5) * SIZE)
        for axes in (left, right):
            axes.set_aspect("equal")
            axes.set_axis_off()
            axes.set_xlim(frame[:, 0].min() - 0.02, frame[:, 0].max() + 0.02)
            axes.set_ylim(frame[:, 1].min() - 0.02, frame[:, 1].max() + 0.02)
        picture = folder / "voxels.png"
        figure.savefig(picture)
    return picture


def project(points: Floats) -> tuple[Floats, Floats]:
    """On the picture's plane [P,2], and how far from the eye [P]."""
    right, down, forward = scene.axes_of(EYE, LOOK_AT)
    relative = points - EYE
    distance = relative @ forward
    plane = np.stack([relative @ right, relative @ -down], axis=-1)
    return plane / distance[..., None], distance


def draw_points(axes: Axes, view: Scene) -> int:
    """The points inside the grid, in their colors; returns how many."""
    low, high = np.array(ORIGIN), np.array(ORIGIN) + np.array(GRID) * SIZE
    points = view.points.astype(float)
    inside = ((points >= low) & (points < high)).all(axis=1)
    plane, distance = project(points[inside])
    order = np.argsort(-distance)  # the nearest last, over the others
    axes.scatter(
        plane[order, 0],
        plane[order, 1],
        s=2.4,
        c=view.colors[inside][order],
        linewidths=0,
        rasterized=True,
    )
    return int(inside.sum())


def draw_voxels(axes: Axes, cells: NDArray[np.int32], grid: NDArray[np.float32]) -> None:
    """The faces of each that the eye sees and no neighbor covers; the farthest first."""
    solid = np.zeros(np.array(GRID) + 2, dtype=bool)
    solid[tuple((cells + 1).T)] = True
    colors = grid[:, cells[:, 0], cells[:, 1], cells[:, 2]].T  # [V,3]
    low = np.array(ORIGIN) + cells * SIZE
    faces, shades, distances = [], [], []
    for axis, shade in ((0, 0.80), (1, 0.66), (2, 1.0)):
        # The eye sees each voxel's face on its own side.
        side = EYE[axis] > low[:, axis] + SIZE / 2
        beside = cells + 1
        beside[:, axis] += np.where(side, 1, -1)
        bare = ~solid[tuple(beside.T)]
        across = [other for other in range(3) if other != axis]
        corners = np.repeat(low[bare][:, None, :], 4, axis=1)  # [F,4,3]
        corners[:, :, axis] += np.where(side[bare], SIZE, 0)[:, None]
        corners[:, (1, 2), across[0]] += SIZE
        corners[:, (2, 3), across[1]] += SIZE
        plane, _ = project(corners)
        faces.append(plane)
        shades.append(colors[bare] * shade)
        distances.append(np.linalg.norm(low[bare] + SIZE / 2 - EYE, axis=1))
    order = np.argsort(-np.concatenate(distances), kind="stable")
    color = np.clip(np.concatenate(shades)[order], 0, 1)
    polygons = PolyCollection(
        list(np.concatenate(faces)[order]),
        facecolors=color,
        edgecolors=color * 0.72,
        linewidths=0.35,
    )
    axes.add_collection(polygons)
