"""Draws padding.svg for padding.md: the valid, held and padded steps of a loader's windows.

Masks and ages come from a loader. Run in the repository's root: python docs/draw_padding.py
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

import robocache as rc

# Okabe and Ito's colors, which color-blind readers can distinguish.
BLUE, GREEN, RED, GRAY, SHADE = "#0072B2", "#009E73", "#D55E00", "#666666", "#F3D9CC"
TICKS = 100  # anchors per second
LATENCY_S, MAX_GAP_S = 0.06, 0.25
ROWS_S = np.delete(0.25 + 0.1 * np.arange(19), np.arange(9, 14))  # 0.25 s to 2.05 s, one silence
SILENCE_S = (1.05, 1.65)
PAST = [-0.3, -0.2, -0.1, 0.0]
CHUNK = [round(0.1 * k, 1) for k in range(7)]


class Sample(NamedTuple):
    """A sample in the figure."""

    key: str
    anchor_s: float
    text: str


SAMPLES = [
    Sample("camera", 0.42, "camera, at the start"),
    Sample("camera", 0.93, "camera, as usual"),
    Sample("camera", 1.51, "camera, in a silence"),
    Sample("action", 1.78, "action chunk, at the end"),
]


class Steps(NamedTuple):
    """The K steps of a sample's window."""

    times_s: np.ndarray
    is_pad: np.ndarray
    age_s: np.ndarray


def see() -> list[Steps]:
    """The steps that a loader computes for each sample."""
    times = np.round(ROWS_S * 1e9).astype(np.int64)
    values = np.zeros((len(times), 1), np.float32)
    with tempfile.TemporaryDirectory() as folder:
        with rc.StoreWriter(folder) as writer, writer.episode() as episode:
            episode.add("clock", np.array([0, 2_400_000_000]), np.zeros((2, 1), np.float32))
            episode.add("camera", times, values, received=times + round(LATENCY_S * 1e9))
            episode.add("action", times, values)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the silence is intended
            loader = rc.Loader(
                folder, 1, {"camera": rc.Window(PAST, max_gap_s=MAX_GAP_S), "action": CHUNK},
                anchor=TICKS, with_age=True, device="cpu",
            )  # fmt: skip
        batch = loader.gather([round(sample.anchor_s * TICKS) for sample in SAMPLES])
    offsets = {"camera": PAST, "action": CHUNK}
    return [
        Steps(
            sample.anchor_s + np.array(offsets[sample.key]),
            batch[f"{sample.key}_is_pad"][i].numpy(),
            batch[f"{sample.key}_age"][i].numpy() / 1e9,
        )
        for i, sample in enumerate(SAMPLES)
    ]


def draw(path: Path) -> None:
    """Writes the figure."""
    matplotlib.rcParams.update(
        {"font.size": 10, "svg.hashsalt": "robocache", "axes.spines.top": False,
         "axes.spines.right": False, "axes.spines.left": False}
    )  # fmt: skip
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    axis = figure.subplots()
    axis.axvspan(*SILENCE_S, color=SHADE, lw=0)
    draw_rows(axis, y=0)
    for i, (sample, steps) in enumerate(zip(SAMPLES, see(), strict=True)):
        draw_steps(axis, -1.0 - i, sample, steps)
    begin, end = SILENCE_S[0], SILENCE_S[0] + MAX_GAP_S
    axis.annotate("", (end, -3.42), (begin, -3.42), arrowprops={"arrowstyle": "<->", "lw": 0.8})
    axis.text(end + 0.02, -3.42, "max_gap_s", va="center", size=9)
    axis.set_yticks(
        [0, *(-1.0 - i for i in range(len(SAMPLES)))], ["rows", *(s.text for s in SAMPLES)]
    )
    axis.tick_params(left=False)
    axis.set_xlim(0, 2.45)
    axis.set_ylim(-4.6, 0.45)
    axis.set_xlabel("time, s")
    handles = [
        Line2D([], [], color=GRAY, ls="", marker="o", ms=6, label="row, measured"),
        Line2D([], [], color=GRAY, lw=1, marker=">", mfc="white", ms=5, label="row arrives"),
        Line2D([], [], color="black", lw=1.2, label="anchor"),
        Line2D([], [], color=GREEN, ls="", marker="o", ms=8, label="valid, from rows"),
        Line2D([], [], color=BLUE, ls="", marker="D", ms=7, label="valid, held"),
        Line2D([], [], color=RED, ls="", marker="x", ms=8, mew=2, label="is_pad"),
        Patch(color=SHADE, label="silence"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=7, frameon=False,
                  handletextpad=0.3, columnspacing=1.2)  # fmt: skip
    figure.savefig(path, metadata={"Date": None})


def draw_rows(axis: Axes, y: float) -> None:
    """Draws the rows of camera and action, and the arrival times of the camera's rows."""
    axis.plot(ROWS_S, np.full(len(ROWS_S), y), "o", ms=6, color=GRAY)
    axis.hlines(np.full(len(ROWS_S), y), ROWS_S, ROWS_S + LATENCY_S, color=GRAY, lw=1)
    axis.plot(ROWS_S + LATENCY_S, np.full(len(ROWS_S), y), ">", ms=5, mfc="white", color=GRAY)


def draw_steps(axis: Axes, y: float, sample: Sample, steps: Steps) -> None:
    """Draws the anchor and the steps of a sample, each with the row that it holds."""
    axis.vlines(sample.anchor_s, y - 0.28, y + 0.28, color="black", lw=1.2)
    row = steps.times_s - steps.age_s
    arrived = ROWS_S[sample.anchor_s - ROWS_S >= LATENCY_S]
    is_late = steps.times_s > arrived.max()
    is_held = is_late & (sample.key == "camera")
    for t, newest in zip(steps.times_s[is_held], row[is_held], strict=True):
        axis.annotate(
            "", (t, y), (newest, y + 0.02),
            arrowprops={"arrowstyle": "-|>", "color": GRAY, "lw": 0.8,
                        "connectionstyle": "arc3,rad=-0.25", "shrinkB": 5},
        )  # fmt: skip
    for kind, marker, color, size in (
        (~steps.is_pad & ~is_held, "o", GREEN, 8),
        (~steps.is_pad & is_held, "D", BLUE, 7),
        (steps.is_pad, "x", RED, 8),
    ):
        count = int(kind.sum())
        axis.plot(steps.times_s[kind], np.full(count, y), marker, ms=size, mew=2, color=color)


if __name__ == "__main__":
    draw(Path(__file__).with_name("padding.svg"))
