"""The picture of the policy: a force sensor that falls silent, and the policy's commands."""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from robocache.demo.alignment_plot import BLUE, GRAY, GREEN, ORANGE, RED, SHADE
from robocache.demo.policy import ACTION_OFFSETS, CUT, FORCE_OFFSETS, Result

_AXIS = 2  # of force: out of the fingers
_JOINTS = {0: ("J1", BLUE), 3: ("J4", ORANGE), 5: ("J6", GREEN)}
_AHEAD = 5  # which of the 16 commands: 0.1 s ahead


def draw(result: Result, folder: Path) -> Path:
    """Draws force and masks, commands, and the loss; returns the picture's path."""
    matplotlib.rcParams.update(
        {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False,
         "axes.titlesize": 11, "axes.titlelocation": "left", "axes.edgecolor": "#777777"}
    )  # fmt: skip
    figure = Figure(figsize=(14, 8), layout=ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.08))
    (force, zoom), (commands, loss) = figure.subplots(2, 2, width_ratios=[1.5, 1])
    start = int(result.driven.times[0])
    begin, end = ((edge - start) / 1e9 for edge in result.cut_ns)
    for axis, (low, high) in ((force, (0.0, 4.0)), (zoom, (begin - 0.15, end + 0.15))):
        _draw_force(axis, result, start)
        axis.axvspan(begin, end, color=SHADE, lw=0, zorder=0, label="the sensor is silent")
        axis.set_xlim(low, high)
        axis.set_xlabel("time, s")
    force.set_title("Force as the policy saw it on the robot: the mean of what had arrived")
    force.legend(loc="upper right", ncols=4, frameon=False)
    zoom.set_title("Zoom: the masks of robot and loader")
    _draw_masks(zoom, result, start)
    _draw_commands(commands, result, start)
    loss.semilogy(result.losses, color=BLUE, lw=1)
    loss.set_title("Training: the loss of normalized, relative commands")
    loss.set_xlabel("step")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "loop.png"
    figure.savefig(path, dpi=110)
    return path


def _draw_force(axis: Axes, result: Result, start: int) -> None:
    """Rows of the take, and the last step of each window in N again."""
    rows = result.takes[CUT].force
    driven = result.driven
    axis.plot((rows.times - start) / 1e9, rows.values[:, _AXIS], ".", ms=1.5, color=GRAY, alpha=0.5,
              label="row")  # fmt: skip
    newton = result.normalizer.unnormalize("force", driven.live["force"])[:, -1, _AXIS].numpy()
    t = (driven.times - start) / 1e9 + FORCE_OFFSETS[-1]
    is_pad = driven.live["force_is_pad"][:, -1].numpy()
    axis.plot(t[~is_pad], newton[~is_pad], "o", ms=5, mfc="none", mew=1.2, color=BLUE,
              label="aligned")  # fmt: skip
    axis.plot(t[is_pad], newton[is_pad], "x", ms=6, mew=1.6, color=RED, label="aligned, padded")
    axis.set_ylabel("force along the fingers, N")
    axis.margins(y=0.2)


def _draw_masks(axis: Axes, result: Result, start: int) -> None:
    """A square for each step of each window, filled where it is padded: two rows of them."""
    driven = result.driven
    t = (driven.times - start) / 1e9
    sides = (("robot", driven.live, BLUE, 0.12), ("loader", driven.batch, ORANGE, 0.02))
    for name, seen, color, height in sides:
        for step, offset in enumerate(FORCE_OFFSETS):
            is_pad = seen["force_is_pad"][:, step].numpy()
            where = np.full(is_pad.sum(), height + 0.025 * step)
            axis.plot(t[is_pad] + offset, where, "s", ms=4, color=color,
                      transform=axis.get_xaxis_transform(),
                      label=f"padded, {name}" if step == 0 else None)  # fmt: skip
    axis.legend(
        handles=[line for line in axis.lines if str(line.get_label()).startswith("padded,")],
        loc="upper left",
        frameon=False,
    )


def _draw_commands(axis: Axes, result: Result, start: int) -> None:
    """Draws the policy's commands, converted back to angles, over the recorded ones."""
    driven = result.driven
    t = (driven.times - start) / 1e9 + ACTION_OFFSETS[_AHEAD]
    shown = driven.is_recorded[:, _AHEAD]
    for joint, (name, color) in _JOINTS.items():
        axis.plot(t[shown], driven.recorded[shown, _AHEAD, joint], color=GRAY, lw=3, alpha=0.5)
        axis.plot(t, driven.commands[:, _AHEAD, joint], color=color, lw=1.2, label=name)
    axis.set_title("Commands for 0.1 s ahead: of the policy, over the recorded ones (gray)")
    axis.set_xlabel("time, s")
    axis.set_ylabel("angle, rad")
    axis.legend(loc="lower right", bbox_to_anchor=(1.0, 0.99), ncols=3, frameon=False,
                handlelength=1.0, columnspacing=1.0, borderaxespad=0)  # fmt: skip
