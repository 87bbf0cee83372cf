"""The demo's picture: rows and aligned values of each stream, whole and in detail."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from robocache.demo.alignment import MS, Aligned
from robocache.demo.recording import Floats, Recording, Times

# Okabe and Ito's colors, told apart by color-blind eyes, the light ones left out.
BLACK, BLUE, GREEN, ORANGE = "#222222", "#0072B2", "#009E73", "#E69F00"
RED, PINK, SKY = "#D55E00", "#CC79A7", "#56B4E9"
GRAY, SHADE = "#808080", "#F3D9CC"


@dataclass(frozen=True)
class Panel:
    """One row of the picture: a whole stream, and beside it a moment of it."""

    title: str
    label: str  # of the vertical axis
    channels: dict[int, tuple[str, str]]  # channel -> its name and color
    moment: str  # what the zoom shows
    center_s: float  # of the zoom
    width_s: float
    zoomed: Sequence[int]  # channels in the zoom
    break_above: float = np.inf  # a jump this large is a new sign or turn, not a movement


def choose_panels(episode: Recording, aligned: Sequence[Aligned], targets: Times) -> list[Panel]:
    """The channel to draw of each stream, and the span to enlarge, in the order of PLANS."""

    def seconds(times: Times) -> Floats:
        return (times - episode.start_ns) / 1e9

    t = seconds(targets)

    def jump(item: Aligned, channel: int) -> float:
        """Time, in s, of the large jump at which plain linear interpolation errs most."""
        source_t, values = seconds(item.source.times), item.source.values[:, channel]
        sizes = np.abs(np.diff(values))
        rows = np.flatnonzero(sizes > 0.7 * sizes.max())
        harm = np.abs(np.interp(t, source_t, values) - item.values[:, channel])
        return max(
            (float(source_t[row : row + 2].mean()) for row in rows),
            key=lambda middle: float(np.max(harm[np.abs(t - middle) < 0.025])),
        )

    joints, _, vision, gripper, hand = aligned
    silence = seconds(np.array(episode.dropout_ns))
    # The lost frame with the largest error, in the feature with the largest error.
    frames = vision.source.values.astype(float)
    lost_frame = np.diff(vision.source.times) > 50 * MS
    change = np.where(lost_frame[:, None], np.abs(np.diff(frames, axis=0)), 0.0)
    lost, feature = (int(i) for i in np.unravel_index(change.argmax(), change.shape))
    lively = [int(i) for i in np.argsort(-frames.std(axis=0)) if i != feature]
    features = [feature, *lively[:2]]
    joint_colors = [SKY, GREEN, ORANGE, BLACK, PINK, RED, BLUE]
    return [
        Panel(
            "Joints: 100 Hz, linear; joint 7 as an angle", "angle, rad",
            {joint: (f"J{joint + 1}", color) for joint, color in enumerate(joint_colors)},
            "J7 passes π", jump(joints, 6), 0.14, [6], break_above=np.pi,
        ),
        Panel(
            "Force at the wrist: 1 kHz, mean of 20 ms", "force, N",
            {0: ("x", ORANGE), 1: ("y", GREEN), 2: ("z", BLUE)},
            "z, as the sensor falls silent", silence[0] + 0.02, 0.18, [2],
        ),
        Panel(
            "Vision: 30 Hz, nearest frame", "feature, no unit",
            {channel: (f"feature {channel}", color)
             for channel, color in zip(features, (BLUE, ORANGE, GREEN), strict=True)},
            f"feature {feature}, a frame lost",
            seconds(vision.source.times)[lost : lost + 2].mean(), 0.3, [feature],
        ),
        Panel(
            "Gripper command: 20 Hz, previous", "width, mm", {0: ("width", BLUE)},
            "a step stays a step", jump(gripper, 0), 0.3, [0],
        ),
        Panel(
            "Hand orientation: 60 Hz, slerp", "quaternion, no unit",
            {0: ("x", ORANGE), 1: ("y", GREEN), 2: ("z", BLUE), 3: ("w", PINK)},
            "x and y, as the tracker changes sign", jump(hand, 0), 0.2, [0, 1],
            break_above=1.0,
        ),
    ]  # fmt: skip


def draw(episode: Recording, aligned: Sequence[Aligned], targets: Times, folder: Path) -> Path:
    """Draw source rows against aligned ones; returns the picture's path."""
    matplotlib.rcParams.update(
        {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False,
         "axes.titlesize": 11, "axes.titlelocation": "left", "axes.edgecolor": "#777777"}
    )  # fmt: skip
    panels = choose_panels(episode, aligned, targets)
    layout = ConstrainedLayoutEngine(h_pad=0.06, w_pad=0.08)  # inches
    figure = Figure(figsize=(14, 12.5), layout=layout)
    axes = figure.subplots(len(panels), 2, width_ratios=[1.5, 1])
    t = (targets - episode.start_ns) / 1e9
    for (whole, zoom), panel, item in zip(axes, panels, aligned, strict=True):
        source_t = (item.source.times - episode.start_ns) / 1e9
        draw_whole(whole, panel, item, source_t, t)
        draw_moment(zoom, panel, item, source_t, t)
        whole.sharex(axes[0][0])
        whole.tick_params(labelbottom=whole is axes[-1][0])
        if item.source is episode.force:
            for axis in (whole, zoom):
                edges = [(edge - episode.start_ns) / 1e9 for edge in episode.dropout_ns]
                axis.axvspan(*edges, color=SHADE, lw=0, zorder=0)
        if item.source.received is not None:
            arrivals = (item.source.received - episode.start_ns) / 1e9
            draw_arrivals(zoom, item.source.values[:, panel.zoomed[0]], source_t, arrivals)
    axes[0][0].set_xlim(0, episode.duration_s)
    for axis in axes[-1]:
        axis.set_xlabel("time since the start, s")

    handles = [
        Line2D([], [], color=GRAY, ls="", marker=".", ms=9, label="source row"),
        Line2D([], [], color=BLACK, ls="", marker="o", mfc="none", ms=8, mew=1.6, label="aligned"),
        Line2D([], [], color=RED, ls="", marker="x", ms=8, mew=2, label="aligned, not valid"),
        Line2D([], [], color=BLACK, ls="", marker="_", ms=9, mew=2, label="what linear would give"),
        Line2D([], [], color=GRAY, lw=1, marker=">", mfc="white", ms=6, label="frame arrives"),
        Line2D([], [], color="#DDDDDD", lw=1.2, label="target"),
        Patch(color=SHADE, label="no source rows"),
        Patch(fc="none", ec="#555555", lw=0.9, ls="--", label="zoom"),
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside upper center", ncols=8, frameon=False)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "alignment.png"
    figure.savefig(path, dpi=120)
    return path


def draw_whole(axis: Axes, panel: Panel, item: Aligned, source_t: Floats, t: Floats) -> None:
    """The rows of a whole stream, what was aligned as lines, what is not valid as crosses."""
    style = "steps-post" if item.plan.method == "previous" else "default"
    for channel, (name, color) in panel.channels.items():
        axis.plot(source_t, item.source.values[:, channel], ".", ms=2, color=color, alpha=0.25)
        line = np.where(item.valid, item.values[:, channel], np.nan)
        line[1:][np.abs(np.diff(line)) > panel.break_above] = np.nan
        axis.plot(t, line, color=color, lw=1.3, label=name, drawstyle=style)
    missing = t[~item.valid]
    axis.plot(missing, np.full(len(missing), 0.03), "x", ms=6, mew=1.4, color=RED,
              transform=axis.get_xaxis_transform())  # fmt: skip
    half = panel.width_s / 2
    axis.axvspan(panel.center_s - half, panel.center_s + half, fc="none", ec="#555555", lw=0.9,
                 ls="--")  # fmt: skip
    axis.margins(y=0.12)
    axis.set_title(panel.title)
    axis.set_ylabel(panel.label)
    if len(panel.channels) > 1:
        axis.legend(loc="lower right", bbox_to_anchor=(1.0, 0.99), ncols=7, frameon=False,
                    handlelength=1.0, columnspacing=1.0, borderaxespad=0)  # fmt: skip


def draw_moment(axis: Axes, panel: Panel, item: Aligned, source_t: Floats, t: Floats) -> None:
    """The zoom: rows, targets, what was aligned, and what linear would have given."""
    low, high = panel.center_s - panel.width_s / 2, panel.center_s + panel.width_s / 2
    near = (t >= low) & (t <= high)
    near_source = (source_t >= low) & (source_t <= high)
    axis.vlines(t[near], 0, 1, transform=axis.get_xaxis_transform(), color="#DDDDDD", lw=1,
                zorder=0)  # fmt: skip
    for channel in panel.zoomed:
        color = panel.channels[channel][1]
        source, values = item.source.values[:, channel], item.values[:, channel]
        axis.plot(source_t[near_source], source[near_source], ".", ms=7, color=GRAY)
        shown = near & item.valid
        axis.plot(t[shown], values[shown], "o", ms=8, mew=1.6, mfc="none", color=color)
        shown = near & ~item.valid
        axis.plot(t[shown], values[shown], "x", ms=8, mew=2, color=RED)
        if item.plan.method not in ("linear", "nearest"):  # of a blend of frames nobody thinks
            linear = np.interp(t, source_t, source)
            wrong = near & (np.abs(linear - values) > 0.1)
            axis.plot(t[wrong], linear[wrong], "_", ms=10, mew=2, color=BLACK)
    axis.set_xlim(low, high)
    axis.margins(y=0.12)
    axis.locator_params(axis="x", nbins=5)
    axis.set_title(f"Zoom: {panel.moment}")
    axis.set_ylabel(panel.label)


def draw_arrivals(
    axis: Axes, values: NDArray[np.floating], exposures: Floats, arrivals: Floats
) -> None:
    """An arrow from each frame's exposure to its arrival."""
    low, high = axis.get_xlim()
    shown = (exposures >= low) & (exposures <= high)
    axis.hlines(values[shown], exposures[shown], arrivals[shown], color=GRAY, lw=1, zorder=1)
    axis.plot(arrivals[shown], values[shown], ">", ms=5, mfc="white", color=GRAY, zorder=2)
