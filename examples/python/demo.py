"""Align a robot's recording to one timeline, and compare the speed with the usual torch code.

A generated pick-and-place (see recording.py) has five streams, each with its own rate, jitter and
faults. Every stream is aligned to 50 Hz by the method that suits it; the mask says which results
are real. Prints what came out and what it cost, and draws a picture of it. Uses the GPU where there
is one.
"""

import argparse
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

import recording
import robocache as rc
from recording import Floats, Recording, Stream, Times
from report import CALLS_A_TURN, best_ms, name_of, print_table, problem_with

TARGET_HZ = 50
LONGEST_S = 120
EPISODES = 64  # in the batch that is timed
TURNS = 50  # of timing
MS = 1_000_000  # ns

# A method for all channels, or for runs of them.
Method = str | list[tuple[str, int]]


@dataclass(frozen=True)
class Plan:
    """How one stream is aligned."""

    name: str  # of the Recording's stream
    method: Method
    max_gap_ms: int  # what the rows may be apart for a result to count as real


PLANS = [
    # Six angles between their stops, and a wrist whose readings wrap: the short way round for that.
    Plan("joints", [("linear", 6), ("angle", 1)], 25),
    Plan("force", "linear", 5),
    # A frame is what it is: the nearest one, not a blend of two.
    Plan("vision", "nearest", 25),
    # A command holds until the next.
    Plan("gripper", "previous", 75),
    Plan("hand", "slerp_xyzw", 40),
]


@dataclass(frozen=True)
class Aligned:
    """One stream on the common timeline."""

    plan: Plan
    source: Stream
    values: Floats  # [T,D]
    valid: NDArray[np.bool_]  # [T]


def main() -> None:
    options = parse_options()
    devices = [torch.device("cpu")]
    if torch.cuda.is_available():
        devices.append(torch.device("cuda"))
    device = devices[-1]

    rng = np.random.default_rng(options.seed)
    episode = recording.make_recording(rng, options.duration)
    targets = make_targets(episode)
    aligned = [align(episode, plan, targets, device) for plan in PLANS]

    print(f"robocache {rc.__version__} on {name_of(device)}")
    print(f"backends: {describe_backends(device)}\n")
    print(
        f"A pick-and-place of {options.duration:g} s, aligned to {TARGET_HZ} Hz "
        f"({len(targets)} targets):\n"
    )
    print_streams(aligned)
    frames = episode.vision
    assert frames.received is not None
    delay = (frames.received - frames.times) / MS
    print(
        "\nvalid: the share of targets made from rows within 'max gap' of each other "
        "(linear, angle, slerp)\nor of the target (nearest, previous). "
        "Vision frames are aligned by their exposure; they arrive\n"
        f"{delay.min():.0f} to {delay.max():.0f} ms later.\n"
    )
    print_times(rng, options.duration, targets, devices)

    picture = draw(episode, aligned, targets, options.output)
    print(f"\nPicture: {picture}")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("demo"),
        metavar="FOLDER",
        help="folder for alignment.png, made if need be (default: %(default)s)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="seed of the recording; the same seed makes the same one (default: %(default)s)",
    )
    parser.add_argument(
        "--duration",
        type=float,
        default=recording.CYCLE_S,
        metavar="SECONDS",
        help=f"length of the recording, {recording.CYCLE_S:g} (one pick-and-place) to {LONGEST_S} "
        "(default: %(default)g)",
    )
    options = parser.parse_args()
    if options.seed < 0:
        parser.error(f"--seed: expected 0 or more, got {options.seed}")
    if not recording.CYCLE_S <= options.duration <= LONGEST_S:
        limits = f"{recording.CYCLE_S:g} to {LONGEST_S}"
        parser.error(f"--duration: expected {limits}, got {options.duration:g}")
    return options


# Aligning -----------------------------------------------------------------------------------------


def make_targets(episode: Recording) -> Times:
    """The common timeline, int64 ns at 50 Hz: from when all streams have begun till one ends."""
    streams: list[Stream] = [getattr(episode, plan.name) for plan in PLANS]
    step = 1_000_000_000 // TARGET_HZ
    first = max(int(stream.times[0]) for stream in streams)
    last = min(int(stream.times[-1]) for stream in streams)
    return np.arange(-(-first // step) * step, last + 1, step, dtype=np.int64)


def align(episode: Recording, plan: Plan, targets: Times, device: torch.device) -> Aligned:
    source: Stream = getattr(episode, plan.name)
    values, valid = rc.resample_trajectories(
        torch.from_numpy(source.values).to(device),
        torch.from_numpy(source.times).to(device),
        torch.from_numpy(targets).to(device),
        method=plan.method,
        max_gap=plan.max_gap_ms * MS,
        return_valid=True,
        backend="auto",
    )
    return Aligned(plan, source, values.double().cpu().numpy(), valid.cpu().numpy())


def print_streams(aligned: Sequence[Aligned]) -> None:
    rows = []
    for item in aligned:
        times = item.source.times
        gaps = np.diff(times) / MS
        usual_ms = np.median(times[20:] - times[:-20]) / 20 / MS  # of 20, to be rid of the jitter
        rows.append(
            [
                item.plan.name,
                f"{1e3 / usual_ms:.0f}",
                f"{len(times)} x {item.source.values.shape[1]}",
                str(item.source.values.dtype),
                f"{gaps.max():.1f}",
                str(item.plan.max_gap_ms),
                describe_method(item.plan.method),
                f"{100 * item.valid.mean():.1f} %",
            ]
        )
    print_table(
        ["stream", "Hz", "rows", "type", "largest gap, ms", "max gap, ms", "method", "valid"],
        rows,
        left=(0, 3, 6),
    )


def describe_method(method: Method) -> str:
    if isinstance(method, str):
        return method
    return ", ".join(f"{name} {width}" for name, width in method)


# Timing -------------------------------------------------------------------------------------------


def usual_torch_code(
    values: torch.Tensor, source_times: torch.Tensor, target_times: torch.Tensor
) -> torch.Tensor:
    """Linear interpolation as it is usually written: [B,S,D], [B,S], [B,T] -> [B,T,D]. No mask."""
    after = torch.searchsorted(source_times, target_times, right=True)
    after = after.clamp_(1, source_times.shape[1] - 1)
    before = after - 1
    start = source_times.gather(1, before)
    step = source_times.gather(1, after) - start
    weight = ((target_times - start).to(values.dtype) / step.to(values.dtype)).clamp_(0, 1)
    before, after = (i.unsqueeze(2).expand(-1, -1, values.shape[2]) for i in (before, after))
    return torch.lerp(values.gather(1, before), values.gather(1, after), weight.unsqueeze(2))


def describe_backends(device: torch.device) -> str:
    """What this build has and this machine can use, in one line."""
    info = rc.build_info()
    if not info.cuda:
        cuda = "no cuda (built without it)"
    elif device.type != "cuda":
        cuda = "no cuda (torch sees no GPU)"
    else:
        problem = problem_with("cuda", device)
        cuda = f"cuda ({info.cuda_version})" if problem is None else f"no cuda ({problem})"
    return f"pytorch, cpu ({info.cpu_target}), {cuda}"


def print_times(
    rng: np.random.Generator, duration_s: float, targets: Times, devices: Sequence[torch.device]
) -> None:
    """Time the joints that have limits, one episode and a batch, and check them by numpy.interp."""
    episodes = [recording.record_joints(rng, duration_s) for _ in range(EPISODES)]
    arrays = (
        np.stack([joints.values[:, :6] for joints in episodes]),  # [B,S,6]
        np.stack([joints.times for joints in episodes]),  # [B,S]
        np.tile(targets, (EPISODES, 1)),  # [B,T]
    )
    want = np.stack([interpolate(*episode) for episode in zip(*arrays, strict=True)])

    rows = []
    for device in devices:
        tensors = [torch.from_numpy(array).contiguous().to(device) for array in arrays]
        single = [tensor[:1] for tensor in tensors]
        contenders: dict[str, Callable[..., torch.Tensor]] = {"usual torch": usual_torch_code}
        for backend in ("pytorch", device.type):
            if problem_with(backend, device) is None:
                contenders[f"robocache, {backend}"] = functools.partial(
                    rc.resample_trajectories, backend=backend
                )
        differences = []
        for name, call in contenders.items():
            difference = float(np.abs(call(*tensors).cpu().numpy() - want).max())
            if not difference < 1e-5:
                raise SystemExit(f"{name} on {device}: {difference:g} rad off numpy.interp")
            differences.append(difference)
        calls = [
            functools.partial(call, *few)
            for call in contenders.values()
            for few in (single, tensors)
        ]
        best = best_ms(calls, device, TURNS)
        for i, (name, difference) in enumerate(zip(contenders, differences, strict=True)):
            row = [device.type, name]
            for mine, theirs in zip(best[2 * i : 2 * i + 2], best[:2], strict=True):
                ratio = theirs / mine
                row += [f"{mine:.3f}", f"{ratio:.1f} x" if ratio >= 1 else f"{ratio:.2f} x"]
            rows.append([*row, f"{difference:.0e}"])

    print(
        f"Joints 1 to 6, linear, {arrays[1].shape[1]} -> {len(targets)} rows an episode: the wall "
        f"time of a call (best of {TURNS * CALLS_A_TURN}),\nthe speed beside the usual torch code "
        "(searchsorted, gather, lerp) on the same device, and the\nlargest difference from "
        "numpy.interp\n"
    )
    header = ["device", "code", "1 episode, ms", "speed", f"{EPISODES} episodes, ms", "speed",
              "difference, rad"]  # fmt: skip
    print_table(header, rows, left=(0, 1))


def interpolate(values: NDArray[np.floating], times: Times, targets: Times) -> Floats:
    """numpy.interp of each channel, in float64 and from the first target on, to lose no ns."""
    t, source_t = (targets - targets[0]).astype(float), (times - targets[0]).astype(float)
    return np.stack([np.interp(t, source_t, channel) for channel in values.T], axis=1)


# The picture --------------------------------------------------------------------------------------

# Okabe and Ito's colours, told apart by colour-blind eyes, the light ones left out.
BLACK, BLUE, GREEN, ORANGE = "#222222", "#0072B2", "#009E73", "#E69F00"
RED, PINK, SKY = "#D55E00", "#CC79A7", "#56B4E9"
GREY, SHADE = "#808080", "#F3D9CC"


@dataclass(frozen=True)
class Panel:
    """One row of the picture: a whole stream, and beside it a moment of it."""

    title: str
    label: str  # of the vertical axis
    channels: dict[int, tuple[str, str]]  # channel -> its name and colour
    moment: str  # what the zoom shows
    centre_s: float  # of the zoom
    width_s: float
    zoomed: Sequence[int]  # channels in the zoom
    break_above: float = np.inf  # a jump this large is a new sign or turn, not a movement


def choose_panels(episode: Recording, aligned: Sequence[Aligned], targets: Times) -> list[Panel]:
    """What to show of each stream, and the moment worth a closer look. In the order of PLANS."""

    def seconds(times: Times) -> Floats:
        return (times - episode.start_ns) / 1e9

    t = seconds(targets)

    def jump(item: Aligned, channel: int) -> float:
        """Of the largest jumps between two rows, the one where plain linear does most harm."""
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
    # Of the lost frames the one that is missed most, by the feature that misses it most.
    frames = vision.source.values.astype(float)
    lost_frame = np.diff(vision.source.times) > 50 * MS
    change = np.where(lost_frame[:, None], np.abs(np.diff(frames, axis=0)), 0.0)
    lost, feature = (int(i) for i in np.unravel_index(change.argmax(), change.shape))
    lively = [int(i) for i in np.argsort(-frames.std(axis=0)) if i != feature]
    features = [feature, *lively[:2]]
    joint_colours = [SKY, GREEN, ORANGE, BLACK, PINK, RED, BLUE]
    return [
        Panel(
            "Joints: 100 Hz, linear; joint 7 as an angle", "angle, rad",
            {joint: (f"J{joint + 1}", colour) for joint, colour in enumerate(joint_colours)},
            "J7 passes π", jump(joints, 6), 0.14, [6], break_above=np.pi,
        ),
        Panel(
            "Force at the wrist: 1 kHz, linear", "force, N",
            {0: ("x", ORANGE), 1: ("y", GREEN), 2: ("z", BLUE)},
            "z, as the sensor falls silent", silence[0] + 0.02, 0.18, [2],
        ),
        Panel(
            "Vision: 30 Hz, nearest frame", "feature, no unit",
            {channel: (f"feature {channel}", colour)
             for channel, colour in zip(features, (BLUE, ORANGE, GREEN), strict=True)},
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
        Line2D([], [], color=GREY, ls="", marker=".", ms=9, label="source row"),
        Line2D([], [], color=BLACK, ls="", marker="o", mfc="none", ms=8, mew=1.6, label="aligned"),
        Line2D([], [], color=RED, ls="", marker="x", ms=8, mew=2, label="aligned, not valid"),
        Line2D([], [], color=BLACK, ls="", marker="_", ms=9, mew=2, label="what linear would give"),
        Line2D([], [], color=GREY, lw=1, marker=">", mfc="white", ms=6, label="frame arrives"),
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
    style = "steps-post" if item.plan.method == "previous" else "default"
    for channel, (name, colour) in panel.channels.items():
        axis.plot(source_t, item.source.values[:, channel], ".", ms=2, color=colour, alpha=0.25)
        line = np.where(item.valid, item.values[:, channel], np.nan)
        line[1:][np.abs(np.diff(line)) > panel.break_above] = np.nan
        axis.plot(t, line, color=colour, lw=1.3, label=name, drawstyle=style)
    missing = t[~item.valid]
    axis.plot(missing, np.full(len(missing), 0.03), "x", ms=6, mew=1.4, color=RED,
              transform=axis.get_xaxis_transform())  # fmt: skip
    half = panel.width_s / 2
    axis.axvspan(panel.centre_s - half, panel.centre_s + half, fc="none", ec="#555555", lw=0.9,
                 ls="--")  # fmt: skip
    axis.margins(y=0.12)
    axis.set_title(panel.title)
    axis.set_ylabel(panel.label)
    if len(panel.channels) > 1:
        axis.legend(loc="lower right", bbox_to_anchor=(1.0, 0.99), ncols=7, frameon=False,
                    handlelength=1.0, columnspacing=1.0, borderaxespad=0)  # fmt: skip


def draw_moment(axis: Axes, panel: Panel, item: Aligned, source_t: Floats, t: Floats) -> None:
    low, high = panel.centre_s - panel.width_s / 2, panel.centre_s + panel.width_s / 2
    near = (t >= low) & (t <= high)
    near_source = (source_t >= low) & (source_t <= high)
    axis.vlines(t[near], 0, 1, transform=axis.get_xaxis_transform(), color="#DDDDDD", lw=1,
                zorder=0)  # fmt: skip
    for channel in panel.zoomed:
        colour = panel.channels[channel][1]
        source, values = item.source.values[:, channel], item.values[:, channel]
        axis.plot(source_t[near_source], source[near_source], ".", ms=7, color=GREY)
        shown = near & item.valid
        axis.plot(t[shown], values[shown], "o", ms=8, mew=1.6, mfc="none", color=colour)
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
    axis.hlines(values[shown], exposures[shown], arrivals[shown], color=GREY, lw=1, zorder=1)
    axis.plot(arrivals[shown], values[shown], ">", ms=5, mfc="white", color=GREY, zorder=2)


if __name__ == "__main__":
    main()
