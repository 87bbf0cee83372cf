"""`robocache demo`: a robot's recording to one timeline, a depth camera's points to voxels.

A generated pick-and-place (see recording.py) has five streams, each with its own rate, jitter and
faults. It is written to an episode store and read back (see stores.py). One call fuses the streams
at 50 Hz, each by the method that suits it; the mask says which results are real. The points of a
generated table scene (see scene.py and voxels.py) become voxels. Prints what came out and what it
cost beside the usual torch code, and draws pictures of it. Uses the GPU where there is one. Last, a
policy learns from some takes of the robot, and drives it (see policy.py).
"""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

import robocache as rc
from robocache.core.names import Method
from robocache.demo import policy, policy_plot, recording, voxels
from robocache.demo.alignment import MS, TARGET_HZ, Aligned, align, make_targets
from robocache.demo.alignment_plot import draw
from robocache.demo.recording import Floats, Times
from robocache.demo.report import (
    CALLS_A_TURN,
    backends_for,
    best_ms,
    name_of,
    print_table,
    problem_with,
    time_cells,
)
from robocache.demo.stores import read_back, write_store

LONGEST_S = 120
EPISODES = 64  # in the batch that is timed
TURNS = 50  # of timing


def run(output: Path, seed: int, duration_s: float) -> None:
    """Runs the demo; pictures and the store go into `output`.

    Raises:
        ValueError: For an option out of its range, by its name on the command line.
    """
    if seed < 0:
        raise ValueError(f"--seed: expected 0 or more, got {seed}")
    if not recording.CYCLE_S <= duration_s <= LONGEST_S:
        limits = f"{recording.CYCLE_S:g} to {LONGEST_S}"
        raise ValueError(f"--duration: expected {limits}, got {duration_s:g}")
    devices = [torch.device("cpu")]
    if torch.cuda.is_available():
        devices.append(torch.device("cuda"))
    device = devices[-1]

    rng = np.random.default_rng(seed)
    made = recording.make_recording(rng, duration_s)
    store = write_store(made, output)
    episode = read_back(made, store)
    targets = make_targets(episode)
    aligned = align(episode, targets, device)

    print(f"robocache {rc.__version__} on {name_of(device)}")
    print(f"backends: {describe_backends(device)}\n")
    print(
        f"A pick-and-place of {duration_s:g} s, aligned to {TARGET_HZ} Hz "
        f"({len(targets)} targets):\n"
    )
    print_streams(aligned)
    frames = episode.vision
    assert frames.received is not None
    delay = (frames.received - frames.times) / MS
    print(
        "\nvalid: the share of targets made from rows within 'max gap' of each other "
        "(linear, angle, slerp)\nor of the target (nearest, previous), or from a window "
        "with rows (mean). Vision frames are aligned\nby their exposure; they arrive "
        f"{delay.min():.0f} to {delay.max():.0f} ms later.\n"
    )
    print_times(rng, duration_s, targets, devices)

    picture = draw(episode, aligned, targets, output)
    print(f"\nPicture: {picture}\n")

    picture = voxels.show(rng, devices, output)
    print(f"\nPicture: {picture}\n")

    picture = policy_plot.draw(policy.show(rng, output), output)
    print(f"\nPicture: {picture}")
    print(f"\nStore: {store}, which `robocache info`, `check` and `view` look at")


# The streams --------------------------------------------------------------------------------------


def print_streams(aligned: Sequence[Aligned]) -> None:
    """A line for each stream: its rows, and how it was aligned."""
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
    """A method or layout in words."""
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
    """The backends of this build that this machine can use, in one line."""
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
        for backend in backends_for(device):
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
            cells = time_cells(best[2 * i : 2 * i + 2], best[:2])
            rows.append([device.type, name, *cells, f"{difference:.0e}"])

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
