"""Measure whole loaders beside each other: samples a second, as a loop over batches gets them.

The windows are those of benchmarks/loader.py: 2 past steps of a state and 100 steps of an action,
14 float32 channels each, at 50 Hz. Every loader has the same recordings in its own format, and is
set up the fastest way that its documentation knows; batches end on the device. What is not
installed is listed as missing. docs/benchmarks.md says what is measured.

Examples:
    build/parity/.venv/bin/python benchmarks/loaders.py           # with LeRobot and robomimic
    python benchmarks/loaders.py --device cuda --batch 256 4096 --workers 0 15
    python benchmarks/loaders.py --only 'robocache|torchrl'
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.util
import itertools
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

import machine
import robocache as rc
from clock import synchronize
from loader import EPISODES, PERIOD_NS, ROWS, STEPS, Recording

FEW_EPISODES = 20  # for those that keep samples, or that speed does not grow for
RATE = 1e9 / PERIOD_NS
PAST, AHEAD = len(STEPS["state"]), len(STEPS["action"])

Batches = Iterator[Any]


@dataclass(frozen=True)
class Setup:
    """Options with which to create a loader."""

    recording: Recording
    folder: Path  # for other formats
    batch: int
    workers: int
    device: torch.device


@dataclass(frozen=True)
class Contender:
    """A loader, and how it is set up."""

    name: str
    module: str  # that it needs
    make: Callable[[Setup], Batches]
    has_workers: bool = False
    keeps_rows_on_device: bool = False  # so that there may be many


@dataclass(frozen=True)
class Result:
    """A measurement, or the reason why it failed."""

    loader: str
    version: str
    episodes: int
    batch: int
    workers: int
    samples_per_second: float | None
    note: str = ""


def seconds_of(steps: range) -> list[float]:
    return [k / RATE for k in steps]


# ---- loaders -------------------------------------------------------------------------------------


def robocache_batches(setup: Setup) -> Batches:
    loader = rc.Loader(
        setup.recording.store,
        setup.batch,
        {name: rc.Window(seconds_of(steps), timeline="rows") for name, steps in STEPS.items()},
        drop_last=True,
        device=setup.device,
    )
    while True:
        yield loader.next()


def torchrl_batches(setup: Setup) -> Batches:
    """A slice has one length for all keys: 101 rows, of which state and action are views."""
    data: Any = importlib.import_module("torchrl.data")
    samplers: Any = importlib.import_module("torchrl.data.replay_buffers.samplers")
    tensordict: Any = importlib.import_module("tensordict")
    rows = setup.recording.on(setup.device)
    count = setup.recording.episodes * setup.recording.rows
    length = PAST - 1 + AHEAD
    is_last = (torch.arange(count, device=setup.device) == rows.last).unsqueeze(1)
    buffer = data.ReplayBuffer(
        storage=data.LazyTensorStorage(count, device=setup.device),
        sampler=samplers.SliceSampler(
            slice_len=length,
            end_key=("next", "done"),
            cache_values=True,
            use_gpu=setup.device.type == "cuda",
        ),
        batch_size=setup.batch * length,
    )
    buffer.extend(
        tensordict.TensorDict(
            {**rows.values, "next": tensordict.TensorDict({"done": is_last}, [count])}, [count]
        )
    )
    while True:
        found = buffer.sample()
        slices = {key: found[key].view(setup.batch, length, -1) for key in STEPS}
        yield {"state": slices["state"][:, :PAST], "action": slices["action"][:, PAST - 1 :]}


def robomimic_batches(setup: Setup) -> Batches:
    """All samples cached; its keys have one length: 101 steps of both."""
    h5py: Any = importlib.import_module("h5py")
    dataset: Any = importlib.import_module("robomimic.utils.dataset")
    path = setup.folder / "demonstrations.hdf5"
    if not path.is_file():
        with h5py.File(path, "w") as file:
            for number, episode in enumerate(setup.recording.store.episodes):
                demo = file.create_group(f"data/demo_{number}")
                demo["obs/state"] = episode["state"].values
                demo["action"] = episode["action"].values
                demo.attrs["num_samples"] = setup.recording.rows
    with redirect_stdout(None), redirect_stderr(StringIO()):  # it prints, with bars of its own
        samples = dataset.SequenceDataset(
            str(path),
            obs_keys=("state",),
            dataset_keys=("action",),
            frame_stack=PAST,
            seq_length=AHEAD,
            load_next_obs=False,
            hdf5_cache_mode="all",
        )
    return on_device(samples, setup)


def lerobot_batches(setup: Setup) -> Batches:
    lerobot: Any = importlib.import_module("lerobot.datasets.lerobot_dataset")
    root = setup.folder / "lerobot"
    if not root.is_dir():
        rc.export_lerobot(setup.recording.store, root, RATE, streams=list(STEPS))
    offsets = {name: seconds_of(steps) for name, steps in STEPS.items()}
    samples = lerobot.LeRobotDataset("made/here", root, delta_timestamps=offsets)
    return on_device(samples, setup)


def on_device(samples: Any, setup: Setup) -> Batches:
    """Epoch after epoch of torch's DataLoader, as it is set up for speed."""
    loader: DataLoader[Any] = DataLoader(
        samples,
        setup.batch,
        shuffle=True,
        drop_last=True,
        num_workers=setup.workers,
        persistent_workers=setup.workers > 0,
        prefetch_factor=4 if setup.workers > 0 else None,
        pin_memory=setup.device.type == "cuda",
    )
    while True:
        for batch in loader:
            flat = {**batch, **batch.get("obs", {})}
            yield {key: flat[key].to(setup.device, non_blocking=True) for key in STEPS}


CONTENDERS = (
    Contender("robocache", "robocache", robocache_batches, keeps_rows_on_device=True),
    Contender("torchrl", "torchrl", torchrl_batches, keeps_rows_on_device=True),
    Contender("robomimic, cached", "robomimic", robomimic_batches, has_workers=True),
    Contender("lerobot", "lerobot", lerobot_batches, has_workers=True),
)


# ---- measuring -----------------------------------------------------------------------------------


@dataclass
class Entry:
    """A loader with a batch size and a number of workers, while it is measured."""

    contender: Contender
    setup: Setup
    batches: Batches | None = None
    best: float = 0.0
    note: str = ""

    def try_to(self, do: Callable[[], None]) -> None:
        """Runs a step; records its exception, so that other loaders are still measured."""
        if self.note:
            return
        try:
            do()
        except Exception as error:
            self.note = f"failed: {type(error).__name__}: {error}".splitlines()[0]

    def start(self) -> None:
        """Creates the loader and takes some batches to warm up."""
        if importlib.util.find_spec(self.contender.module) is None:
            self.note = "missing: it is not installed here"
            return
        self.batches = self.contender.make(self.setup)
        for batch in itertools.islice(self.batches, 3):
            assert batch["state"].shape[0] == batch["action"].shape[0] == self.setup.batch
            assert batch["action"].shape[1] >= AHEAD and isinstance(batch["action"], Tensor)

    def run(self, seconds: float) -> None:
        """A round: the best of them counts."""
        assert self.batches is not None
        synchronize(self.setup.device)
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            next(self.batches)
            count += 1
        synchronize(self.setup.device)
        speed = count * self.setup.batch / (time.perf_counter() - start)
        self.best = max(self.best, speed)

    def result(self) -> Result:
        module = self.contender.module
        version = "-"
        if self.batches is not None:
            version = rc.__version__ if module == "robocache" else metadata.version(module)
        return Result(
            self.contender.name,
            version,
            self.setup.recording.episodes,
            self.setup.batch,
            self.setup.workers,
            None if self.note else self.best,
            self.note,
        )


def measure(arguments: argparse.Namespace, folder: Path) -> Iterator[Result]:
    """All loaders, with every batch size and number of workers that they have."""
    device = torch.device(arguments.device)
    many = arguments.episodes or (EPISODES if device.type == "cuda" else FEW_EPISODES)
    few = min(many, FEW_EPISODES)
    recordings = {n: Recording(STEPS, n, False) for n in {many, few}}
    entries = [
        Entry(
            contender,
            Setup(
                recordings[many if contender.keeps_rows_on_device else few],
                folder,
                batch,
                workers,
                device,
            ),
        )
        for contender in CONTENDERS
        if re.search(arguments.only, contender.name)
        for batch in arguments.batch
        for workers in (arguments.workers if contender.has_workers else [0])
    ]
    for entry in entries:  # one after the other: workers that prefetch would take others' time
        entry.try_to(entry.start)
        for _ in range(arguments.rounds):
            entry.try_to(partial(entry.run, arguments.seconds))
        yield entry.result()
        entry.batches = None  # and its workers
        gc.collect()


def line(result: Result, ours: dict[int, float]) -> str:
    rows = result.episodes * ROWS
    text = f"{result.loader:<18} {result.version:<14} {rows:>9,} {result.batch:>6} "
    text += f"{result.workers:>7} "
    if result.samples_per_second is None:
        return text + result.note
    ratio = ours.get(result.batch, float("nan")) / result.samples_per_second
    return text + f"{result.samples_per_second:>12,.0f} {ratio:>8.1f}"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    cores = len(os.sched_getaffinity(0))
    add("--device", choices=["cpu", "cuda"], default="cpu")
    add("--batch", type=int, nargs="+", default=[256], help="batch sizes (256)")
    add("--workers", type=int, nargs="+", default=[0, cores], help="of torch's DataLoader")
    add("--episodes", type=int, help="for loaders that keep rows on the device (GPU: 2000)")
    add("--seconds", type=float, default=0.2, help="of a round")
    add("--rounds", type=int, default=10, help="of a loader; its best counts")
    add("--only", default="", metavar="PATTERN", help="regular expression of loaders")
    add("--output", type=Path, metavar="FILE.json", help="for the results, with the machine")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    memory_kept = arguments.device == "cpu" and machine.keep_freed_memory()
    header = f"{'loader':<18} {'version':<14} {'rows':>9} {'batch':>6} {'workers':>7} "
    print(header + f"{'samples/s':>12} {'robocache ÷':>8}")
    results: list[Result] = []
    ours: dict[int, float] = {}
    with tempfile.TemporaryDirectory(prefix="robocache-bench-") as folder:
        for result in measure(arguments, Path(folder)):
            results.append(result)
            if result.loader == "robocache" and result.samples_per_second is not None:
                ours[result.batch] = result.samples_per_second
            print(line(result, ours), flush=True)
    if arguments.output:
        device = torch.device(arguments.device)
        report = {
            "environment": machine.environment(device, memory_kept),
            "results": [asdict(result) for result in results],
        }
        machine.write_report(arguments.output, report)


if __name__ == "__main__":
    main()
