"""Draws a training run: loss over time, and predicted action chunks beside the recorded ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle
from numpy.typing import NDArray

from pusht import task

# Okabe and Ito's colors, which color-blind readers can distinguish.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
BLACK, GRAY, LIGHT = "#222222", "#AAAAAA", "#DDDDDD"

Curves = Mapping[str, tuple[Sequence[float], Sequence[float]]]  # by loader: seconds, losses


@dataclass(frozen=True)
class Chunks:
    """Recorded actions at N samples, and predictions from C draws of noise."""

    states: NDArray[Any]  # [N,So,5]
    recorded: NDArray[Any]  # [N,Sa,2]
    is_real: NDArray[Any]  # [N,Sa]: not padding
    predicted: NDArray[Any]  # [N,C,Sa,2]


def draw(curves: Curves, chunks: Chunks, folder: Path) -> Path:
    """Writes the figure; returns its path."""
    figure = Figure(figsize=(13, 7), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1, 1.4], squeeze=False)[0]
    draw_losses(left.subplots(), curves)
    samples = len(chunks.states)
    axes = right.subplots(2, (samples + 1) // 2, squeeze=False).ravel()
    for i, axis in enumerate(axes):
        if i < samples:
            draw_chunk(axis, chunks, i)
        else:
            axis.set_axis_off()
    handles = [
        Line2D([], [], color=BLACK, lw=2, marker=".", label="recorded actions"),
        Line2D([], [], color=COLORS[0], lw=1, label="predicted, several draws"),
        Line2D([], [], color=COLORS[1], marker="o", ls="", label="pusher"),
        Line2D([], [], color=GRAY, lw=1, ls="--", label="goal"),
    ]
    right.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False)
    path = folder / "training.png"
    figure.savefig(path, dpi=120)
    return path


def draw_losses(axis: Axes, curves: Curves) -> None:
    for (loader, (seconds, losses)), color in zip(curves.items(), COLORS, strict=False):
        axis.plot(seconds, losses, color=color, lw=1.6, label=loader)
    axis.set_yscale("log")
    axis.set_xlabel("training, s")
    axis.set_ylabel("loss on held-out episodes")
    axis.set_title("Loss over time", loc="left")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)


def draw_chunk(axis: Axes, chunks: Chunks, i: int) -> None:
    state = chunks.states[i, -1].astype(np.float64)
    axis.fill(*outline(task.GOAL), fill=False, ec=GRAY, ls="--")
    axis.fill(*outline(state[2:]), fc=LIGHT)
    axis.add_artist(Circle((state[0], state[1]), task.RADIUS, fc=COLORS[1], alpha=0.8))
    for chunk in chunks.predicted[i]:
        axis.plot(*chunk.T, color=COLORS[0], lw=1, alpha=0.6)
    axis.plot(*chunks.recorded[i][chunks.is_real[i]].T, color=BLACK, lw=2, marker=".", ms=5)
    axis.set_xlim(0, task.TABLE)
    axis.set_ylim(task.TABLE, 0)
    axis.set_aspect("equal")
    axis.set_xticks([])
    axis.set_yticks([])
    axis.spines[:].set_color(LIGHT)


def outline(pose: task.Floats) -> task.Floats:
    """[2,P]: the block's corners."""
    return np.asarray((pose[:2] + task.rotate(task.OUTLINE, pose[2:])).T)
