"""Trains a small diffusion policy to push a T to its goal, with one or several loaders.

Examples:

    python examples/train_pusht.py                                  # 4,000 steps on a CPU
    python examples/train_pusht.py --resume                         # continues an interrupted run
    python examples/train_pusht.py --device cuda --loader robocache torch lerobot robomimic
    python examples/train_pusht.py --device cuda --data pusht.zarr  # diffusion-policy's data

Without --data the program generates demonstrations (pusht/task.py) and evaluates the policy in
simulation. Every --save steps and at the end it writes checkpoint.pt (weights, optimizer, the
loader's state), from which --resume continues with the next sample, and policy_spec.json, from
which a robot computes the policy's inputs; at the end a replay compares these with the loader's.
With several loaders, each trains its own policy from the same initial weights on the same episodes;
the table compares them. The same command gives the same losses, to the bit, on the same machine.
The program needs matplotlib; --data with a zarr needs zarr, --loader lerobot and robomimic need
these libraries.
"""

from __future__ import annotations

import argparse
import copy
import math
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from torch import Tensor

import robocache as rc
from program import Clock, Parser, count, name_of, natural, save_checkpoint
from pusht import drawing, task
from pusht.loaders import (
    ACTIONS,
    LOADERS,
    STATES,
    Batch,
    Data,
    FromRobocache,
    default_workers,
    split,
    validation_batch,
)
from pusht.policy import DiffusionPolicy

EPISODES = 300  # generated
FIRST_LOOK, NEXT_LOOK = 5, 1.08  # step of the first evaluation; factor from one to the next
AVERAGE = 0.005  # update rate of the weights' running mean per step; higher at first
HISTORY = ("waits", "works", "evaluated", "losses")  # fields of a Run in checkpoints
EXECUTED = 4  # actions of a chunk that are executed before the next query
TRIALS = 50  # simulated episodes to evaluate the trained policy


# Training -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """Options of a run."""

    steps: int
    batch_size: int
    width: int  # width of the network
    seed: int
    workers: int  # for loaders with worker processes


@dataclass
class Run:
    """A training run: its policy, times and losses."""

    loader: str
    policy: DiffusionPolicy
    batch_size: int
    waits: list[float] = field(default_factory=list)  # seconds until each batch is ready
    works: list[float] = field(default_factory=list)  # seconds of each step after that
    evaluated: list[int] = field(default_factory=list)  # steps at evaluations
    losses: list[float] = field(default_factory=list)  # on the held-out episodes

    def seconds(self, steps: int) -> float:
        """Duration of the first `steps` steps."""
        return sum(self.waits[:steps]) + sum(self.works[:steps])

    @property
    def timed(self) -> slice:
        """The steps that rates are measured on.

        In the first step workers start and kernels load: it counts only where it is the only one.
        """
        return slice(1 if len(self.waits) > 1 else 0, None)

    @property
    def samples_per_second(self) -> float:
        """Samples of the timed steps per second."""
        waits, works = self.waits[self.timed], self.works[self.timed]
        return self.batch_size * len(waits) / (sum(waits) + sum(works))

    @property
    def waiting(self) -> float:
        """The share of time spent waiting for batches."""
        waits = sum(self.waits[self.timed])
        return waits / (waits + sum(self.works[self.timed]))

    def seconds_to(self, loss: float) -> float | None:
        """Seconds of training until the validation loss reached `loss`; None if it did not."""
        for steps, found in zip(self.evaluated, self.losses, strict=True):
            if found <= loss:
                return self.seconds(steps)
        return None


@dataclass(frozen=True)
class Saving:
    """Where and how often a training run is saved, and whether it resumes from there."""

    folder: Path
    every: int  # steps
    resume: bool

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint.pt"

    @property
    def spec(self) -> Path:
        return self.folder / "policy_spec.json"


class Training:
    """A training run in progress: everything that a checkpoint contains."""

    def __init__(self, loader: str, data: Data, options: Options) -> None:
        torch.manual_seed(options.seed)
        self.options = options
        self.random = torch.Generator(data.device).manual_seed(options.seed)
        self.policy = make_policy(data.store, options.width).to(data.device)
        self.averaged = copy.deepcopy(self.policy).requires_grad_(False)
        self.weights: list[Tensor] = list(self.policy.parameters())
        self.means: list[Tensor] = list(self.averaged.parameters())
        self.optimizer = torch.optim.AdamW(self.weights, lr=1e-3, weight_decay=1e-4, fused=True)
        self.rate = torch.optim.lr_scheduler.LambdaLR(self.optimizer, learning_rate(options.steps))
        self.batches = LOADERS[loader](data, options.batch_size, options.seed, options.workers)
        self.run = Run(loader, self.averaged, options.batch_size)
        self.steps = 0  # done

    @property
    def loader(self) -> rc.Loader:
        """RoboCache's loader; the other loaders cannot be resumed."""
        assert isinstance(self.batches, FromRobocache)
        return self.batches.loader

    def step(self, clock: Clock) -> None:
        clock.mark()
        batch = next(self.batches)
        clock.mark()
        loss = self.policy.loss(batch["state"], batch["action"], batch["is_pad"], self.random)
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        self.optimizer.step()
        self.rate.step()
        self.steps += 1
        with torch.no_grad():
            torch._foreach_lerp_(self.means, self.weights, max(AVERAGE, 9 / (9 + self.steps)))
        clock.mark()

    def state_dict(self) -> dict[str, Any]:
        return {
            "options": asdict(self.options),
            "steps": self.steps,
            "policy": self.policy.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rate": self.rate.state_dict(),
            "random": self.random.get_state(),
            "loader": self.loader.state_dict(),
            "run": {name: getattr(self.run, name) for name in HISTORY},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in ("steps", "batch_size", "width", "seed"):
            expected, got = state["options"][name], getattr(self.options, name)
            if got != expected:
                raise ValueError(
                    f"--{name.replace('_', '-')}: expected {expected}, as the checkpoint was "
                    f"trained with, got {got} (train anew without --resume)"
                )
        self.steps = state["steps"]
        self.policy.load_state_dict(state["policy"])
        self.averaged.load_state_dict(state["averaged"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.rate.load_state_dict(state["rate"])
        self.random.set_state(state["random"])
        self.loader.load_state_dict(state["loader"])
        for name in HISTORY:
            setattr(self.run, name, state["run"][name])


def train(
    loader: str,
    data: Data,
    options: Options,
    saving: Saving | None = None,
    show: Callable[[int, float], None] | None = None,
) -> Run:
    """Trains a policy; its times exclude evaluation and checkpoints.

    On a GPU, the time between requesting a batch and having it is time in which the GPU has nothing
    to train on: it waits for the CPU, copies, or makes the batch.
    """
    training, clock = Training(loader, data, options), Clock(data.device)
    run, held_out = training.run, validation_batch(data)
    if saving is not None and saving.resume:
        state = torch.load(saving.checkpoint, map_location="cpu", weights_only=True)
        training.load_state_dict(state)

    while training.steps < options.steps:
        training.step(clock)
        steps, is_last = training.steps, training.steps == options.steps
        next_look = run.evaluated[-1] * NEXT_LOOK if run.evaluated else FIRST_LOOK
        looks = is_last or steps >= next_look
        saves = saving is not None and (is_last or steps % saving.every == 0)
        if looks or saves:
            for waited, worked in clock.read(marks=3):
                run.waits.append(waited)
                run.works.append(worked)
        if looks:
            run.evaluated.append(steps)
            run.losses.append(evaluate(training.averaged, held_out))
            if show is not None:
                show(steps, run.losses[-1])
        if saving is not None and saves:
            training.loader.spec().save(saving.spec)
            save_checkpoint(saving.checkpoint, training.state_dict())
    return run


def make_policy(store: rc.EpisodeStore, width: int) -> DiffusionPolicy:
    """An untrained policy."""
    (state,), (action,) = (store.streams[key].shape for key in ("state", "action"))
    return DiffusionPolicy((STATES, state), (ACTIONS, action), width, depth=3)


def learning_rate(steps: int) -> Callable[[int], float]:
    """Rises over the first steps, then falls by a cosine."""
    rise = min(200, max(1, steps // 10))
    return lambda step: min((step + 1) / rise, 0.5 + 0.5 * math.cos(math.pi * step / steps))


@torch.no_grad()
def evaluate(policy: DiffusionPolicy, batch: Batch) -> float:
    """The loss on the held-out samples, with the same noise each time."""
    random = torch.Generator(batch["state"].device).manual_seed(0)
    draws = [
        policy.loss(batch["state"], batch["action"], batch["is_pad"], random) for _ in range(4)
    ]
    return float(torch.stack(draws).mean())


@contextmanager
def determinism() -> Iterator[None]:
    """A context in which torch uses only kernels with the same bits on every run."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # required by cuBLAS then
    before = torch.are_deterministic_algorithms_enabled()
    settings: Any = torch.utils.deterministic  # a module with a property
    filling = settings.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    settings.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        settings.fill_uninitialized_memory = filling


# The trained policy -------------------------------------------------------------------------------


class Pusher:
    """Controls simulated tables: maps states to actions, executing EXECUTED of each chunk."""

    def __init__(self, policy: DiffusionPolicy, data: Data) -> None:
        self.policy = policy
        self.scales = data.scales()
        self.random = torch.Generator(data.device).manual_seed(0)
        self.before: Tensor | None = None
        self.todo: list[task.Floats] = []

    def __call__(self, states: task.Floats) -> task.Floats:
        """[E,5] to [E,2]."""
        subtract, multiply = self.scales["state"]
        now = (torch.from_numpy(states).to(subtract) - subtract) * multiply
        before = now if self.before is None else self.before
        self.before = now
        if not self.todo:
            subtract, multiply = self.scales["action"]
            chunk = self.policy.act(torch.stack([before, now], 1), self.random)
            actions = (chunk / multiply + subtract).cpu().double().numpy()
            self.todo = [actions[:, 1 + k] for k in range(EXECUTED)]  # the first is the step before
        return self.todo.pop(0)


def predict(policy: DiffusionPolicy, data: Data, samples: int, draws: int) -> drawing.Chunks:
    """Predicted action chunks at some held-out samples, beside the recorded ones."""
    batch, random = validation_batch(data), torch.Generator(data.device).manual_seed(0)
    at = torch.linspace(0, len(batch["state"]) - 1, samples + 2)[1:-1].long().to(data.device)
    states, recorded, is_pad = (batch[key][at] for key in ("state", "action", "is_pad"))
    made = torch.stack([policy.act(states, random) for _ in range(draws)], 1)
    of_state, of_action = (data.scales()[key] for key in ("state", "action"))
    return drawing.Chunks(
        (states / of_state[1] + of_state[0]).cpu().numpy(),
        (recorded / of_action[1] + of_action[0]).cpu().numpy(),
        ~is_pad.cpu().numpy(),
        (made / of_action[1] + of_action[0]).cpu().numpy(),
    )


# The program --------------------------------------------------------------------------------------


def parse_options() -> tuple[Parser, argparse.Namespace]:
    parser = Parser(__doc__)
    add = parser.add_argument
    add("--data", type=Path, help="a store or a recording (default: generated)")
    add("--output", type=Path, default=Path("build/train_pusht"), help="for checkpoints and data")
    add("--loader", choices=list(LOADERS), nargs="+", default=["robocache"])
    add("--steps", type=count, help="training steps (default: 4000, on a GPU 20000)")
    add("--save", type=count, default=1000, help="steps between checkpoints")
    add("--resume", action="store_true", help="continue from the checkpoint in --output")
    add("--batch-size", type=count, default=256)
    add("--width", type=count, help="width of the network (default: 128, on a GPU 1024)")
    add("--workers", type=natural, help="of the other loaders (default: 0, on a GPU 1 to 8)")
    add("--loss", type=float, default=0.08, help="loss whose time the table states")
    add("--seed", type=natural, default=0)
    return parser, parser.parse_args()


def open_store(path: Path | None, output: Path, seed: int) -> rc.EpisodeStore:
    """The recordings of --data, converted once; or demonstrations, generated once."""
    output.mkdir(parents=True, exist_ok=True)
    if path is not None:
        if (path / "manifest.json").is_file():
            return rc.EpisodeStore(path)
        rc.convert(path, output / "converted.store", rate=task.RATE)
        return rc.EpisodeStore(output / "converted.store")
    made = output / f"generated-{seed}.store"
    if not made.is_dir():
        partial = made.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        task.write_store(partial, EPISODES, seed)
        partial.rename(made)
    return rc.EpisodeStore(made)


def check_resumable(saving: Saving, loaders: list[str]) -> None:
    if loaders != ["robocache"]:
        raise ValueError(
            f"--resume: expected --loader robocache, which alone can be resumed, got "
            f"{' '.join(loaders)}"
        )
    if not saving.checkpoint.is_file():
        raise ValueError(
            f"--resume: expected a checkpoint {saving.checkpoint}, got no such file (train without "
            "--resume first)"
        )


def train_each(loaders: list[str], data: Data, options: Options, saving: Saving) -> list[Run]:
    """Trains with each loader, with progress bars; saves RoboCache's run."""
    columns = (
        TextColumn("{task.description:>9}"),
        BarColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TimeRemainingColumn(),
    )
    runs = []
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        for loader in loaders:
            bar = progress.add_task(loader, total=options.steps, loss=math.nan)

            def show(step: int, loss: float, bar: TaskID = bar) -> None:
                progress.update(bar, completed=step, loss=loss)

            is_saved = loader == "robocache"
            runs.append(train(loader, data, options, saving if is_saved else None, show))
    return runs


def report(console: Console, runs: list[Run], reached: list[float | None], loss: float) -> None:
    """Prints the table."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("loader")
    for name in ("samples/s", "waits for data", "training, s", f"until loss {loss:g}, s"):
        table.add_column(name, justify="right")
    table.add_column("validation loss", justify="right")
    table.add_column("goals reached", justify="right")
    for run, share in zip(runs, reached, strict=True):
        seconds = run.seconds_to(loss)
        table.add_row(
            run.loader,
            f"{run.samples_per_second:,.0f}",
            f"{100 * run.waiting:.2f} %",
            f"{run.seconds(len(run.waits)):.1f}",
            "never" if seconds is None else f"{seconds:.1f}",
            f"{run.losses[-1]:.5f}",
            "-" if share is None else f"{100 * share:.0f} %",
        )
    console.print(table)


def run_all(options: argparse.Namespace, console: Console) -> None:
    device: torch.device = options.device
    is_cuda = device.type == "cuda"
    saving = Saving(options.output, options.save, options.resume)
    if saving.resume:
        check_resumable(saving, options.loader)
    store = open_store(options.data, options.output, options.seed)
    rate = store.streams["state"].rate or task.RATE
    data = Data(store, rate, *split(store), options.output, device)
    wanted = Options(
        options.steps or (20_000 if is_cuda else 4000),
        options.batch_size,
        options.width or (1024 if is_cuda else 128),
        options.seed,
        default_workers(device) if options.workers is None else options.workers,
    )
    console.print(
        f"{len(store)} episodes, {int(store.episodes.lengths.sum()):,} rows; {wanted.steps} steps "
        f"of {wanted.batch_size} samples on {name_of(device)}\n"
    )
    with determinism():
        runs = train_each(options.loader, data, wanted, saving)
        reached = [
            None if options.data else task.share_reached(Pusher(run.policy, data), TRIALS, 2**31)
            for run in runs
        ]
        chunks = predict(runs[0].policy, data, samples=6, draws=8)
    report(console, runs, reached, options.loss)
    curves = {run.loader: ([run.seconds(n) for n in run.evaluated], run.losses) for run in runs}
    picture = drawing.draw(curves, chunks, options.output)
    console.print(f"\nPicture: {picture}", soft_wrap=True)
    if "robocache" in options.loader:
        console.print(f"Checkpoint: {saving.checkpoint}", soft_wrap=True)
        console.print(f"Policy spec: {saving.spec}", soft_wrap=True)
        replay(store, saving.spec, console)


def replay(store: rc.EpisodeStore, spec: Path, console: Console) -> None:
    """Pushes the recordings row by row, as a robot would, and compares the policy's inputs."""
    found = rc.replay_store(store, spec)
    console.print(f"Replay: {found.anchors:,} anchors, {found.differing_bits:,} differing bits")
    if found.differing_bits:
        raise SystemExit(1)


def main() -> None:
    parser, options = parse_options()
    try:
        run_all(options, Console(highlight=False, width=140))
    except (ImportError, OSError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
