"""Measure rc.LiveAligner in Python beside what a user would otherwise write.

The work is that of live.cpp: 8 streams of 32 float32 channels pushed at 1 kHz, and every 10 ms 16
steps of each, 10 ms apart, linear. Every push and query is timed by itself, in one thread and
without waiting for the clock, for so many seconds of the robot's time.

The other keeps a deque of rows for each stream, makes arrays of it, and calls numpy.interp for each
channel: no mask, no ages, no late rows. That both give the same values is checked first.

With `--device cuda` batches are wanted on the GPU. "there" is then when a query's batch has
arrived, as a policy that reads it at once would wait, and what the GPU was asked to do is counted.

Examples:
    python benchmarks/live.py
    python benchmarks/live.py --device cuda
    python benchmarks/live.py --seconds 60 --json
"""

from __future__ import annotations

import argparse
import json
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
import torch

import robocache as rc
from robocache.loader.window_spec import WindowSpec

MS = 1_000_000
STREAMS, CHANNELS, STEPS, STEP_MS, QUERY_MS = 8, 32, 16, 10, 10
NAMES = [f"stream{i}" for i in range(STREAMS)]
OFFSETS = np.arange(1 - STEPS, 1) * STEP_MS * MS
QUANTILES = ("p50", "p99", "p99.9")

Floats = npt.NDArray[np.float32]


class Buffer(NamedTuple):
    """One implementation to measure."""

    name: str
    push: Callable[[str, int, Floats], object]  # stream, time in ns, row
    query: Callable[[int], dict[str, torch.Tensor]]  # now in ns; of each stream [1,STEPS,CHANNELS]


def make_aligner(reuse: bool, device: str) -> Buffer:
    """The library; with `reuse`, into the same tensors every time."""
    streams = [
        WindowSpec(
            name, "F32", (CHANNELS,), rate=1000.0, offsets=tuple(OFFSETS.tolist())
        )
        for name in NAMES
    ]  # fmt: skip
    spec = rc.PolicySpec(streams, anchor=NAMES[0])
    aligner = rc.LiveAligner(spec, reuse_buffers=reuse, device=device)
    name = "rc.LiveAligner, reuse_buffers" if reuse else "rc.LiveAligner"
    return Buffer(name, aligner.push, aligner.query)


class Deques:
    """Rows in deques, and numpy.interp."""

    def __init__(self, device: str) -> None:
        self.device = device
        kept = STEPS * STEP_MS + 16
        self.times: dict[str, deque[int]] = {name: deque(maxlen=kept) for name in NAMES}
        self.rows: dict[str, deque[Floats]] = {name: deque(maxlen=kept) for name in NAMES}

    def push(self, stream: str, time_ns: int, row: Floats) -> None:
        self.times[stream].append(time_ns)
        self.rows[stream].append(row.copy())

    def query(self, now_ns: int) -> dict[str, torch.Tensor]:
        targets = now_ns + OFFSETS
        batch = {}
        for name in NAMES:
            times, rows = np.array(self.times[name]), np.stack(self.rows[name])
            out = np.empty((1, STEPS, CHANNELS), np.float32)
            for channel in range(CHANNELS):
                out[0, :, channel] = np.interp(targets, times, rows[:, channel])
            batch[name] = torch.from_numpy(out).to(self.device)
        return batch


def times_of(milliseconds: int) -> npt.NDArray[np.int64]:
    """Times of the rows of all streams, with jitter."""
    jitter = np.random.default_rng(0).integers(0, MS // 3, (milliseconds, STREAMS))
    times: npt.NDArray[np.int64] = np.arange(milliseconds)[:, None] * MS + jitter
    return times


def check(buffers: list[Buffer]) -> None:
    """Checks that the implementations return equal values, up to rounding."""
    rows = np.random.default_rng(1).normal(size=(400, STREAMS, CHANNELS)).astype(np.float32)
    for i, times in enumerate(times_of(400).tolist()):
        for name, stamp, row in zip(NAMES, times, rows[i], strict=True):
            for buffer in buffers:
                buffer.push(name, stamp, row)
        if i % QUERY_MS == QUERY_MS - 1:
            batches = [buffer.query(i * MS + MS // 2) for buffer in buffers]
    for batch in batches:
        for name in NAMES:
            torch.testing.assert_close(batch[name], batches[-1][name], atol=1e-5, rtol=0)


def work_on_gpu(buffer: Buffer) -> dict[str, int]:
    """Counts the copies and kernel launches of a query."""
    now = 400 * MS
    buffer.query(now)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        buffer.query(now)
        torch.cuda.synchronize()
    names = [e.name for e in profile.events() if e.device_type.name == "CUDA"]
    copies = sum(name.startswith("Memcpy") for name in names)
    return {"copies": copies, "kernels": len(names) - copies}


class Measured(TypedDict):
    """Microseconds, by quantile."""

    name: str
    push: dict[str, float]
    query: dict[str, float]
    there: dict[str, float]  # on the CPU: as query


def measure(buffer: Buffer, seconds: float, device: str) -> Measured:
    times = times_of(round(seconds * 1000)) + 1000 * MS
    row = np.zeros(CHANNELS, np.float32)
    pushes: list[int] = []
    queries: list[int] = []
    there: list[int] = []
    clock = time.perf_counter_ns
    for i, stamps in enumerate(times.tolist()):
        for name, stamp in zip(NAMES, stamps, strict=True):
            begin = clock()
            buffer.push(name, stamp, row)
            pushes.append(clock() - begin)
        if i % QUERY_MS == QUERY_MS - 1:
            now = (1000 + i) * MS + MS // 2
            begin = clock()
            buffer.query(now)
            queries.append(clock() - begin)
            if device == "cuda":
                torch.cuda.synchronize()
            there.append(clock() - begin)
    return {
        "name": buffer.name,
        "push": quantiles(pushes),
        "query": quantiles(queries),
        "there": quantiles(there),
    }


def quantiles(nanoseconds: list[int]) -> dict[str, float]:
    found = np.quantile(nanoseconds, (0.5, 0.99, 0.999)) / 1000
    return dict(zip(QUANTILES, found.tolist(), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="of the robot's time (10)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of batches")
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    arguments = parser.parse_args()
    device = arguments.device
    deques = Deques(device)
    buffers = [
        make_aligner(reuse=False, device=device),
        make_aligner(reuse=True, device=device),
        Buffer("deque and numpy.interp", deques.push, deques.query),
    ]
    check(buffers)
    found = [measure(buffer, arguments.seconds, device) for buffer in buffers]
    if arguments.json:
        print(json.dumps(found, indent=1))
        return
    parts = ("push", "query") if device == "cpu" else ("push", "query", "there")
    lines = [["us"]]
    for part in parts:
        lines[0] += [f"{part}: {QUANTILES[0]}", *QUANTILES[1:]]
    for one in found:
        times = {"push": one["push"], "query": one["query"], "there": one["there"]}
        numbers = [number for part in parts for number in times[part].values()]
        lines.append([one["name"], *(f"{number:.4g}" for number in numbers)])
    for first, *rest in lines:
        print(f"{first:32}" + "".join(f"{text:>12}" for text in rest))
    if device == "cuda":
        for buffer in buffers:
            print(f"{buffer.name}: a query is {work_on_gpu(buffer)}")


if __name__ == "__main__":
    main()
