"""A policy trained on the demo's recordings, and the policy on the robot.

Demonstrations of a robot (demonstrations.py) become a store. A small policy learns from windows of
it: observations are causal, actions are commands relative to the current joints, and both are
normalized. The loader writes a policy spec, from which alone the robot makes the same windows of
rows as they arrive: held-out demonstrations are replayed through the LiveAligner and compared with
the loader bit by bit. In one of them the force sensor is silent for a while.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import robocache as rc
from robocache.demo.demonstrations import CAMERA_SIZE, SECONDS, Take, cut, make_take
from robocache.demo.recording import Floats, Times
from robocache.demo.report import print_table
from robocache.demo.stores import write_episodes

TAKES = 12  # to learn from; two more are the robot's
HELD, CUT = TAKES, TAKES + 1  # the episodes that it never saw: a whole one, and one with a cut
CUT_S, CUT_AT_S = 0.2, 1.9  # how long the force sensor is silent, and from when on
STEPS, MOST_S, BATCH = 400, 4.0, 128  # of training: so many steps, or as long
SOURCE = "robocache demo, a take"

# Offsets in seconds from now. A frame takes 20 ms and more to arrive, and a new one comes every
# 33 ms: at 0 the policy sees the newest that it has, up to 0.1 s old.
FORCE_OFFSETS = [-0.04, -0.02, 0.0]
ACTION_OFFSETS = [k * 0.02 for k in range(16)]
ANGLES: list[Any] = [("linear", 6), ("angle", 1)]
METHODS: dict[str, Any] = {
    "camera": "previous", "joints": ANGLES, "force": "mean", "action": ANGLES
}  # fmt: skip
MODES: dict[str, Any] = {"joints": "mean_std", "force": "mean_std", "action": "mean_std"}
EVERY = 10  # rows of joints: the policy is asked at 50 Hz


@dataclass(frozen=True)
class Driven:
    """Observations and actions of the robot at each of the Q queries of its policy in a take."""

    times: Times  # [Q] ns
    live: Mapping[str, Tensor]  # what the aligner gave
    batch: Mapping[str, Tensor]  # what the loader gives of the recording
    commands: NDArray[np.floating]  # [Q,16,7] rad: absolute, of the policy
    recorded: NDArray[np.floating]  # [Q,16,7] rad: those of the recording
    is_recorded: NDArray[np.bool_]  # [Q,16]


@dataclass(frozen=True)
class Result:
    """The data of the figure."""

    losses: list[float]
    takes: list[Take]
    driven: Driven  # of the take with the cut
    normalizer: rc.Normalizer
    cut_ns: tuple[int, int]


class Policy(nn.Module):
    """Windows to 16 normalized commands."""

    def __init__(self) -> None:
        super().__init__()
        self.eye = nn.Sequential(nn.Flatten(), nn.Linear(2 * 3 * CAMERA_SIZE**2, 64), nn.ReLU())
        seen = 64 + 3 * 7 + 3 * 3
        self.head = nn.Sequential(
            nn.Linear(seen, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 16 * 7)
        )

    def forward(self, batch: Mapping[str, Tensor]) -> Tensor:
        """[B,2,3,24,24], [B,3,7] and [B,3,3] to [B,16,7]."""
        felt = [self.eye(batch["camera"] - 0.5), batch["joints"].flatten(1)]
        commands: Tensor = self.head(torch.cat([*felt, batch["force"].flatten(1)], 1))
        return commands.view(-1, 16, 7)


def show(rng: np.random.Generator, output: Path) -> Result:
    """Goes once round: prints what came of it, writes store and spec into `output`."""
    takes = [make_take(rng) for _ in range(TAKES + 1)]
    begin = int(takes[HELD].force.times[0]) + round(CUT_AT_S * 1e9)
    cut_ns = begin, begin + round(CUT_S * 1e9)
    takes.append(Take(**{**vars(takes[HELD]), "force": cut(takes[HELD].force, *cut_ns)}))
    store = write_episodes(takes, METHODS, output / "takes.store", SOURCE)

    # Relative actions have other statistics than the store's: those of the windows themselves.
    statistics = rc.compute_stats(make_loader(store, range(TAKES)), batches=10)
    normalizer = rc.Normalizer.from_statistics(statistics, MODES)
    loader = make_loader(store, range(TAKES), normalize=normalizer)
    with one_thread():
        policy, losses, seconds = train(loader)
    path = output / "policy_spec.json"
    loader.spec().save(path)
    print(
        f"From recordings to a policy, and back to the robot. {TAKES} takes of {SECONDS:g} s, "
        f"{len(loader.dataset):,} samples;\n{len(losses)} training steps in {seconds:.1f} s: loss "
        f"{losses[0]:.2f} to {np.mean(losses[-20:]):.3f}. All that the robot gets to know of the "
        f"data:\n{path}\n\n{loader.summary()}\n"
    )
    replay = rc.replay_store(store, path, episodes=[HELD, CUT])
    driven = drive(rc.LiveAligner(path), policy, store, normalizer)
    print_replay(replay)
    print_drive(driven)
    return Result(losses, takes, driven, normalizer, cut_ns)


def make_loader(
    store: Path,
    episodes: Sequence[int],
    *,
    relative_to: str | None = "joints",
    normalize: rc.Normalizer | None = None,
) -> rc.Loader:
    """A loader of some takes: a sample at each row of joints.

    Args:
        store: Where the takes are.
        episodes: Their numbers.
        relative_to: The stream that is subtracted from actions; None: none.
        normalize: How values are normalized.
    """
    windows = {
        "camera": rc.Window([-0.1, 0.0], max_gap_s=0.11, channels_first=True),
        "joints": rc.Window([-0.04, -0.02, 0.0], max_gap_s=0.01),
        "force": rc.Window(FORCE_OFFSETS, max_gap_s=0.005, mean_window_s=0.01),
        "action": rc.Window(ACTION_OFFSETS, max_gap_s=0.05, relative_to=relative_to),
    }
    return rc.Loader(
        store,
        BATCH,
        windows,
        anchor="joints",
        episodes=list(episodes),
        normalize=normalize,
        device="cpu",
    )


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread: with so small a network, threads mostly wait for one another."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def train(loader: rc.Loader) -> tuple[Policy, list[float], float]:
    """A policy after some seconds of training, the loss of each step, and how long it took."""
    torch.manual_seed(0)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), 1e-3)
    losses: list[float] = []
    begin = time.perf_counter()
    while len(losses) < STEPS and time.perf_counter() - begin < MOST_S:
        batch = loader.next()
        off = (policy(batch) - batch["action"]) ** 2
        loss = off[~batch["action_is_pad"]].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return policy.eval(), losses, time.perf_counter() - begin


@torch.inference_mode()
def drive(
    aligner: rc.LiveAligner, policy: Policy, store: Path, normalizer: rc.Normalizer
) -> Driven:
    """The take with the cut on the robot: rows arrive, and at 50 Hz the policy is asked."""
    recording = rc.EpisodeStore(store).episodes[CUT]
    names = [stream.name for stream in aligner.spec.streams if not stream.reaches_ahead]
    arrivals = {}
    for name in names:
        rows = recording[name]
        arrivals[name] = rows.times if rows.received is None else rows.received
    pushed = dict.fromkeys(names, 0)
    times = arrivals["joints"][::EVERY]
    seen, commands = [], []
    for now in times.tolist():
        for name in names:
            end = int(np.searchsorted(arrivals[name], now, side="right"))
            here = slice(pushed[name], end)
            values = np.asarray(recording[name].values[here])  # a camera's frames are decoded
            aligner.push_many(name, recording[name].times[here], values)
            pushed[name] = end
        seen.append(aligner.query(now))
        commands.append(np.asarray(aligner.undo("action", policy(seen[-1]), seen[-1])))

    # The loader's samples at these moments: the policy's input, and the recorded commands.
    moments = range(0, len(arrivals["joints"]), EVERY)
    batch = make_loader(store, [CUT], normalize=normalizer).gather(moments)
    recorded = make_loader(store, [CUT], relative_to=None).gather(moments)
    return Driven(
        times,
        {key: torch.cat([each[key] for each in seen]) for key in seen[0]},
        batch,
        np.concatenate(commands),
        recorded["action"].numpy(),
        ~recorded["action_is_pad"].numpy(),
    )


# Results ------------------------------------------------------------------------------------------


def print_replay(replay: rc.Replay) -> None:
    """A line for each stream: two takes through the LiveAligner, beside the loader."""
    rows = []
    for name, stream in replay.streams.items():
        ages, latencies = stream.age_ms, stream.latency_ms
        rows.append(
            [
                name,
                f"{stream.rows:,}",
                f"{latencies.p50:.1f}",
                f"{latencies.p99:.1f}",
                f"{ages.p50:.1f}",
                f"{stream.windows:,}",
                f"{100 * stream.padded / stream.steps:.1f} %",
                f"{stream.differing_bits}",
            ]
        )
    print(
        f"Two takes it never saw, replayed row by row: {replay.anchors:,} queries, of "
        f"{replay.query_us.p50:.0f} us each (median).\nIn one of them the force sensor is silent "
        f"for {CUT_S * 1e3:.0f} ms.\n"
    )
    header = ["stream", "rows", "latency, ms", "99 %", "age, ms", "windows", "padded",
              "differing bits"]  # fmt: skip
    print_table(header, rows, left=(0,))
    print(f"\n{replay.differing_bits} differing bits between robot and loader\n")


def print_drive(driven: Driven) -> None:
    """How good the commands are, and what the masks say of the cut."""
    here = driven.is_recorded
    off = wrapped(driven.commands - driven.recorded)[here]
    stay = wrapped(driven.recorded - driven.recorded[:, :1])[here]
    live, loader = (int(x["force_is_pad"].sum()) for x in (driven.live, driven.batch))
    differ = int((driven.live["force_is_pad"] != driven.batch["force_is_pad"]).sum())
    print(
        f"Its commands on the robot, undone to angles, are {rms_mrad(off):.0f} mrad off the "
        f"recorded ones (repeating\nthe first one would be {rms_mrad(stay):.0f} mrad off). With "
        f"the sensor silent for {CUT_S * 1e3:.0f} ms, {live} steps of force are\npadded on the "
        f"robot and {loader} in the loader; {differ} of {driven.live['force_is_pad'].numel()} "
        "differ."
    )


def wrapped(angles: NDArray[np.floating]) -> Floats:
    """Differences of angles, wrapped to (-pi, pi]."""
    found: Floats = (angles.astype(np.float64) + np.pi) % (2 * np.pi) - np.pi
    return found


def rms_mrad(off: Floats) -> float:
    """The root mean square of angles in rad, in mrad."""
    return float(np.sqrt(np.mean(off**2)) * 1e3)
