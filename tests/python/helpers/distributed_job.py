"""The job that test_distributed.py starts by torchrun: two epochs of loaders, into files.

A rank dies in the middle of the first attempt; the second goes on where the last checkpoint was.
Arguments: the store and a folder. Each loader writes what it drew as lines of `<step> <episode>
<frame>...` to `<kind>-<rank>-<attempt>`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch.distributed as dist
from loader_options import keyed_loader

import robocache as rc

KINDS = {"replicated": True, "split": False}
BATCH, SEED, SAVE, DEATH = 6, 7, 3, 5  # a checkpoint after each 3 steps; 2 are lost


def make(store: str, kind: str, **ranks: int) -> rc.Loader:
    return keyed_loader(
        store, BATCH, {"action": [0.0]}, replicate=KINDS[kind], seed=SEED, device="cpu", **ranks
    )


def main() -> None:
    store, folder = sys.argv[1], Path(sys.argv[2])
    dist.init_process_group("gloo")
    rank, attempt = dist.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    for kind in KINDS:
        loader = make(store, kind)
        checkpoint = folder / f"{kind}.json"
        step = 0
        if checkpoint.is_file():
            saved = json.loads(checkpoint.read_text())  # of rank 0, on every rank
            step = saved["step"]
            loader.load_state_dict(saved["loader"])
        dist.barrier()
        with (folder / f"{kind}-{rank}-{attempt}").open("w") as drawn:
            while step < 2 * len(loader):
                batch = loader.next()
                pairs = zip(batch["episode_index"], batch["frame_index"], strict=True)
                print(step, *(int(n) for pair in pairs for n in pair), file=drawn, flush=True)
                step += 1
                if step % SAVE == 0:
                    dist.barrier()  # all have come so far, as in training, where they meet anyhow
                    if rank == 0:
                        state = {"step": step, "loader": loader.state_dict()}
                        checkpoint.write_text(json.dumps(state))
                if kind == "split" and attempt == 0 and rank == 1 and step == DEATH:
                    os._exit(9)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
