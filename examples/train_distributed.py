"""Trains train_pusht.py's policy on several GPUs, or in several processes on a CPU.

Examples:

    torchrun --nproc-per-node 2 examples/train_distributed.py                 # on a CPU, with gloo
    torchrun --nproc-per-node 2 examples/train_distributed.py --device cuda   # GPUs, with NCCL
    torchrun --nproc-per-node 2 examples/train_distributed.py --split         # sharded recordings

Each rank has its own loader, which takes its part of every global batch; the policy is wrapped in
torch's DistributedDataParallel. The program writes a checkpoint every --save steps. When you or
torchrun start it again, it continues from the checkpoint with the samples that would have followed,
also on another number of ranks. With --split each rank holds a shard of the recordings, and the
number of ranks must stay the same.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from rich.console import Console
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import robocache as rc
from program import Parser, count, name_of, natural, save_checkpoint
from pusht import task
from pusht.loaders import ACTIONS, STATES
from pusht.policy import DiffusionPolicy
from train_pusht import make_policy, open_store

console = Console(highlight=False, width=140)


class Loss(nn.Module):
    """The policy and its loss as one module, which each rank evaluates on its batches."""

    def __init__(self, policy: DiffusionPolicy) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, batch: dict[str, Tensor], random: torch.Generator) -> Tensor:
        return self.policy.loss(batch["state"], batch["action"], batch["action_is_pad"], random)


def make_loader(store: rc.EpisodeStore, options: argparse.Namespace) -> rc.Loader:
    """The loader of this rank, which it reads from torch.distributed."""
    rate = store.streams["state"].rate or task.RATE
    return rc.Loader(
        store,
        options.batch_size,
        {
            "state": rc.Window(
                [(k - STATES + 1) / rate for k in range(STATES)],
                timeline="rows",
                normalize="min_max",
            ),
            "action": rc.Window(
                [(k - 1) / rate for k in range(ACTIONS)], timeline="rows", normalize="min_max"
            ),
        },
        episodes=rc.Episodes(replicate=not options.split),
        seed=options.seed,
        drop_last=True,
        device=options.device,
    )


def train(options: argparse.Namespace) -> None:
    rank, ranks, device = dist.get_rank(), dist.get_world_size(), options.device
    if rank == 0:
        open_store(options.data, options.output, options.seed)  # created once, by one rank
    dist.barrier()
    store = open_store(options.data, options.output, options.seed)
    loader = make_loader(store, options)
    torch.manual_seed(options.seed)  # the same initial weights on all ranks
    model = Loss(make_policy(store, options.width)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
    checkpoint, step = options.output / "checkpoint.pt", 0
    if checkpoint.is_file():
        state = torch.load(checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])
        step = state["step"]
    if rank == 0:
        console.print(
            f"{ranks} ranks of {options.batch_size} samples on {name_of(device)}, from step {step} "
            f"to {options.steps}"
        )

    parallel = DistributedDataParallel(model)
    random = torch.Generator(device)
    loss, warm, began = torch.zeros((), device=device), 0, 0.0
    while step < options.steps:
        batch = loader.next()
        random.manual_seed(options.seed + step * ranks + rank)  # the same noise after resuming
        loss = parallel(batch, random)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        step += 1
        if not warm:  # excludes the first step, in which kernels load
            warm, began = step, now(device)
        if rank == 0 and (step % options.save == 0 or step == options.steps):
            state = {
                "step": step,
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "loader": loader.state_dict(),  # the same on every rank
            }
            save_checkpoint(checkpoint, state)
    seconds = now(device) - began
    mean = loss.detach() / ranks
    dist.all_reduce(mean)
    if rank == 0:
        samples = max(step - warm, 0) * options.batch_size * ranks if warm else 0
        console.print(f"loss {float(mean):.5f}; {samples / seconds:,.0f} samples/s in all")


def now(device: torch.device) -> float:
    """The time in seconds after a GPU has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


# The program --------------------------------------------------------------------------------------


def parse_options() -> tuple[Parser, argparse.Namespace]:
    parser = Parser(__doc__)
    add = parser.add_argument
    add("--data", type=Path, help="a store or a recording (default: generated)")
    add("--output", type=Path, default=Path("build/train_distributed"), help="for checkpoints")
    add("--split", action="store_true", help="each rank holds a shard of the recordings")
    add("--steps", type=count, default=2000)
    add("--batch-size", type=count, default=256, help="samples per rank")
    add("--width", type=count, default=128, help="width of the network")
    add("--save", type=count, default=500, help="steps between checkpoints")
    add("--seed", type=natural, default=0)
    return parser, parser.parse_args()


def main() -> None:
    parser, options = parse_options()
    if "LOCAL_RANK" not in os.environ:
        parser.error("expected torchrun --nproc-per-node N, which starts N of these, got python")
    if options.device.type == "cuda":
        options.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(options.device)
    dist.init_process_group("nccl" if options.device.type == "cuda" else "gloo")
    try:
        train(options)
    except (ImportError, OSError, ValueError) as error:
        parser.error(str(error))
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
