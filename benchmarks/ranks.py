"""Measure how the loader's speed grows with GPUs: alone, and in training with torch's DDP.

Each number of ranks is a job of its own, one process a rank, by NCCL on GPUs and gloo on a CPU. All
ranks start a round together, and it ends with the last one. The batch size is of each rank.

Examples:
    python benchmarks/ranks.py --device cuda      # 1, 2, 4, ... as many as GPUs
    python benchmarks/ranks.py --ranks 1 2        # processes of a CPU, a thread each
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing.spawn import start_processes
from torch.nn.parallel import DistributedDataParallel

import machine
import robocache as rc
from clock import synchronize
from loader import CHANNELS, EPISODES, PERIOD_NS, STEPS, Recording

KINDS = ("replicated", "split")


@dataclass(frozen=True)
class Job:
    """Work of each rank of a job."""

    store: str
    kind: str
    is_training: bool
    ranks: int
    batch: int
    width: int
    seconds: float
    device: str
    port: int


@dataclass(frozen=True)
class Result:
    """Measurements of a job, over all ranks."""

    kind: str
    is_training: bool
    ranks: int
    batch: int
    samples_per_second: float
    resident_bytes: int  # of the rank that holds most


class Policy(nn.Module):
    """States to actions, the mean of squares as its loss: enough work to hide an all-reduce in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        states, actions = (len(steps) * CHANNELS for steps in STEPS.values())
        self.layers = nn.Sequential(
            nn.Linear(states, width),
            nn.GELU(),
            *itertools.chain(*((nn.Linear(width, width), nn.GELU()) for _ in range(4))),
            nn.Linear(width, actions),
        )

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        wrong: torch.Tensor = self.layers(batch["state"].flatten(1)) - batch["action"].flatten(1)
        return wrong.square().mean()


def work(rank: int, job: Job, results: Any) -> None:
    """Main function of a rank; rank 0 reports the result of all."""
    is_cuda = job.device == "cuda"
    device = torch.device("cuda", rank) if is_cuda else torch.device("cpu")
    if is_cuda:
        torch.cuda.set_device(device)
    else:
        torch.set_num_threads(1)
    dist.init_process_group(
        "nccl" if is_cuda else "gloo",
        init_method=f"tcp://127.0.0.1:{job.port}",
        rank=rank,
        world_size=job.ranks,
    )
    loader = rc.Loader(
        job.store,
        job.batch,
        {
            name: rc.Window(offsets_ns=[PERIOD_NS * k for k in steps], timeline="rows")
            for name, steps in STEPS.items()
        },
        episodes=rc.Episodes(replicate=job.kind == "replicated"),
        drop_last=True,
        device=device,
    )
    torch.manual_seed(0)
    step: Callable[[], object] = loader.next
    if job.is_training:
        step = training_step(loader, job.width, device)
    count = calibrate(step, job.seconds, device)
    best = 0.0
    for _ in range(5):
        dist.barrier()
        synchronize(device)
        start = time.perf_counter()
        for _ in range(count):
            step()
        synchronize(device)
        dist.barrier()
        synchronize(device)
        best = max(best, count * job.batch * job.ranks / (time.perf_counter() - start))
    held = torch.tensor(sum(loader.stats().resident_bytes.values()), device=device)
    dist.all_reduce(held, dist.ReduceOp.MAX)
    if rank == 0:
        results.put(Result(job.kind, job.is_training, job.ranks, job.batch, best, int(held)))
    dist.barrier()  # no rank exits while others still communicate
    dist.destroy_process_group()


def training_step(loader: rc.Loader, width: int, device: torch.device) -> Callable[[], None]:
    model = DistributedDataParallel(Policy(width).to(device))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step() -> None:
        loss = model(loader.next())
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()

    return step


def calibrate(step: Callable[[], object], seconds: float, device: torch.device) -> int:
    """Number of steps in a round, equal on every rank."""
    for _ in range(20):
        step()
    synchronize(device)
    start = time.perf_counter()
    for _ in range(20):
        step()
    synchronize(device)
    count = torch.tensor(max(20, int(seconds * 20 / (time.perf_counter() - start))), device=device)
    dist.broadcast(count, 0)
    return int(count)


def run(job: Job) -> Result:
    results: Any = multiprocessing.get_context("spawn").SimpleQueue()
    start: Any = start_processes
    start(work, (job, results), nprocs=job.ranks, start_method="spawn")  # and waits for them
    found: Result = results.get()
    return found


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--device", choices=["cpu", "cuda"], default="cpu")
    add("--ranks", type=int, nargs="+", help="numbers of ranks (1, 2, 4, ... up to the GPUs)")
    add("--batch", type=int, nargs="+", default=[256, 4096], help="batch sizes, of each rank")
    add("--width", type=int, default=2048, help="of the policy that is trained")
    add("--episodes", type=int, default=EPISODES)
    add("--seconds", type=float, default=1.0, help="of a round; the best of 5 counts")
    add("--output", type=Path, metavar="FILE.json", help="for the results, with the machine")
    arguments = parser.parse_args()
    most = torch.cuda.device_count() if arguments.device == "cuda" else 2
    if arguments.ranks is None:
        arguments.ranks = [n for n in (1, 2, 4, 8) if n <= most]
    if arguments.device == "cuda" and max(arguments.ranks, default=1) > most:
        parser.error(f"--ranks: expected at most the {most} GPUs of this machine")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    results: list[Result] = []
    print(f"{'store':<12} {'loop':<12} {'batch':>6} {'ranks':>6} {'samples/s':>14} {'x':>6}")
    recording = Recording(STEPS, arguments.episodes, False)
    store = recording.store.path
    for kind, is_training, batch in itertools.product(KINDS, (False, True), arguments.batch):
        single = float("nan")
        for ranks in arguments.ranks:
            size = (batch, arguments.width, arguments.seconds)
            result = run(Job(store, kind, is_training, ranks, *size, arguments.device, free_port()))
            results.append(result)
            single = result.samples_per_second if ranks == 1 else single
            print(
                f"{kind:<12} {'training' if is_training else 'loader':<12} {batch:>6} "
                f"{ranks:>6} {result.samples_per_second:>14,.0f} "
                f"{result.samples_per_second / single:>6.2f}",
                flush=True,
            )
    if arguments.output:
        device = torch.device(arguments.device)
        report = {
            "environment": machine.environment(device, False),
            "results": [asdict(result) for result in results],
        }
        machine.write_report(arguments.output, report)


if __name__ == "__main__":
    main()
