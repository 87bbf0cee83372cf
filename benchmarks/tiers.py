"""Measure the loader with its rows in each tier, beside what the link gives in the same run.

On a GPU: rows in its memory, in pinned memory and in the store's files, and a copy of pinned memory
to the GPU by cudaMemcpy. On a CPU: rows in memory and in the files, which the system has cached.

*gather* is device time of one kernel over random samples (on a CPU, wall time), *next* wall time of
a batch in a loop that does nothing else; bytes are those of the rows in the batches' windows. A GPU
makes no kernel of rows on disk: there is only *next*.

Examples:
    python benchmarks/tiers.py --device cuda
    python benchmarks/tiers.py --device cpu --quick
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

import robocache as rc
from clock import synchronize
from loader import FRAMES, PERIOD_NS, STEPS, Recording
from robocache.loader.memory.pinned import pinned_empty

cuda: Any = torch.cuda
LINK_BYTES = 1 << 28
REPEATS = 7


@dataclass(frozen=True)
class Case:
    """A batch of windows of a store."""

    name: str
    recording: Recording
    batch: int
    sample_bytes: int

    def near_bytes(self, batches: int) -> int:
        """Room for batches and 16 bytes a sample, and for no stream."""
        samples = self.recording.episodes * self.recording.rows
        return 16 * samples + batches * self.batch * self.sample_bytes + 10 * 2**20

    def loader(self, budget: dict[str, int] | None, device: torch.device) -> rc.Loader:
        return rc.Loader(
            self.recording.store,
            self.batch,
            {
                name: rc.Window(offsets_ns=[PERIOD_NS * k for k in steps], timeline="rows")
                for name, steps in self.recording.steps.items()
            },
            seed=1,
            device=device,
            budget=budget,
        )


def median_seconds(call: Callable[[], object], count: int, device: torch.device) -> float:
    """The median time of `count` consecutive calls, by events on a GPU."""
    call()
    samples: list[float] = []
    for _ in range(REPEATS):
        synchronize(device)
        if device.type == "cuda":
            events = [cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
            for _ in range(count):
                call()
            events[1].record()
            synchronize(device)
            samples.append(events[0].elapsed_time(events[1]) * 1e-3 / count)
        else:
            begin = time.perf_counter()
            for _ in range(count):
                call()
            samples.append((time.perf_counter() - begin) / count)
    return statistics.median(samples)


def wall_seconds(loader: rc.Loader, count: int) -> float:
    """The wall time of a batch, averaged over `count` in a loop."""
    samples = []
    for _ in range(REPEATS):
        loader.next()
        synchronize(loader.device)
        begin = time.perf_counter()
        for _ in range(count):
            loader.next()
        synchronize(loader.device)
        samples.append((time.perf_counter() - begin) / count)
    return statistics.median(samples)


def link_bandwidth(device: torch.device) -> dict[str, float]:
    """Bytes a second of copies from pinned memory."""
    target = torch.empty(LINK_BYTES, dtype=torch.uint8, device=device)
    sources = {
        "torch's pinned memory": torch.empty(LINK_BYTES, dtype=torch.uint8).pin_memory(),
        "the loader's pinned memory": pinned_empty(LINK_BYTES),
    }
    found = {}
    for name, source in sources.items():
        source.fill_(1)
        copy = partial(target.copy_, source, non_blocking=True)
        found[name] = LINK_BYTES / median_seconds(copy, 4, device)
    return found


def measure(case: Case, device: torch.device, link: float | None) -> None:
    tiers: dict[str, dict[str, int] | None] = {"gpu": None}
    tiers["pinned"] = {"gpu": case.near_bytes(5), "pinned": 32 * 10**9}
    tiers["disk"] = {"gpu": case.near_bytes(5), "pinned": 5 * case.batch * case.sample_bytes}
    if device.type == "cpu":
        tiers = {"ram": None, "disk": {"ram": case.near_bytes(2)}}
    for tier, budget in tiers.items():
        loader = case.loader(budget, device)
        reads = loader.stats().resident_bytes
        generator = torch.Generator(device=device).manual_seed(0)
        sets = [
            torch.randint(0, len(loader.dataset), (case.batch,), generator=generator, device=device)
            for _ in range(16)
        ]
        count = 0

        def gather(loader: rc.Loader = loader, sets: list[torch.Tensor] = sets) -> None:
            nonlocal count
            loader.gather(sets[count % len(sets)])
            count += 1

        calls = max(8, (1 << 14) // case.batch)
        seconds = {"next": wall_seconds(loader, calls)}
        if tier != "disk" or device.type == "cpu":
            seconds["gather"] = median_seconds(gather, calls, device)
        stats = loader.stats()
        total = stats.samples + stats.gathered
        a_sample = sum(stats.read_bytes.values()) / total
        where = ", ".join(f"{share:.0%} {name}" for name, share in stats.hit_shares.items())
        for name, time_s in sorted(seconds.items()):
            rate = a_sample * case.batch / time_s
            of_link = f", {rate / link:.2f} of the link" if link and tier == "pinned" else ""
            print(
                f"{case.name}, {tier} ({where}), {name}: {time_s * 1e6:.1f} us, "
                f"{case.batch / time_s:,.0f} samples/s, {rate / 1e9:.2f} GB/s{of_link}"
            )
        if stats.waits:
            print(
                f"    the host waited for {stats.waits} of {stats.batches} batches, "
                f"p50 {stats.wait_p50_s * 1e6:.0f} us, p99 {stats.wait_p99_s * 1e6:.0f} us"
            )
        held = ", ".join(f"{name} {size / 1e6:.0f} MB" for name, size in reads.items())
        print(f"    holds {held}", flush=True)
        del loader


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--quick", action="store_true", help="a store of an eighth")
    arguments = parser.parse_args()
    device = torch.device("cuda", 0) if arguments.device == "cuda" else torch.device("cpu")
    link = None
    if device.type == "cuda":
        found = link_bandwidth(device)
        for name, rate in found.items():
            print(f"link, cudaMemcpy of {LINK_BYTES >> 20} MiB of {name}: {rate / 1e9:.2f} GB/s")
        link = max(found.values())
    # So many rows that the windows of a batch seldom have one in common.
    episodes = 8000 // (8 if arguments.quick else 1)
    rows = Recording(STEPS, episodes, False)
    cases = [Case(f"{batch} x (2+100) x 14", rows, batch, 102 * 60) for batch in (256, 4096)]
    pictures = Recording(FRAMES, 8, False)
    cases.append(Case("256 x 2 x 96x96x3", pictures, 256, 2 * 27_700))
    for case in cases:
        measure(case, device, link)
    return 0


if __name__ == "__main__":
    sys.exit(main())
