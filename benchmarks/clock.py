"""Measures the time of calls, and the machine's upper limits of speed."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from machine import free_bytes

Inputs = tuple[Tensor, ...]
Call = Callable[..., Any]  # a tensor, or what a case makes one of (Case.to_tensor)

cuda: Any = torch.cuda  # for what some versions of torch type and others do not

# There is a gap of a few microseconds before a graph; over this many calls it is lost in noise.
MIN_CALLS_PER_GRAPH = 32


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def wall_seconds(
    calls: Sequence[Callable[[], object]], device: torch.device, repeats: int
) -> list[float]:
    """Median wall time of each call, in loops that take turns and synchronize at their ends."""
    loops = []
    for call in calls:
        call()
        synchronize(device)
        warm, start = 0, time.perf_counter()
        while warm < 1 or time.perf_counter() - start < 0.02:
            call()
            warm += 1
        synchronize(device)
        once = (time.perf_counter() - start) / warm
        loops.append(max(1, min(1000, math.ceil(0.01 / once))))

    samples: list[list[float]] = [[] for _ in calls]
    begin = time.perf_counter()
    gc.collect()
    gc.disable()
    try:
        for repeat in range(repeats):
            # Calls of seconds each (torch eager on large shapes, on the CPU) get three repeats.
            if repeat >= 3 and time.perf_counter() - begin > 1.5 * len(calls):
                break
            for call, loop, sample in zip(calls, loops, samples, strict=True):
                start = time.perf_counter()
                for _ in range(loop):
                    call()
                synchronize(device)
                sample.append((time.perf_counter() - start) / loop)
    finally:
        gc.enable()
    return [statistics.median(sample) for sample in samples]


def replay_seconds(graph: torch.cuda.CUDAGraph, calls: int, repeats: int) -> float:
    """Median device time of one of the `calls` in a captured graph."""
    start = time.perf_counter()
    while time.perf_counter() - start < 0.03:  # an idle GPU needs a while to raise its clocks
        graph.replay()
        torch.cuda.synchronize()
    events = [cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    graph.replay()  # so that the first event is recorded on a busy device
    events[0].record()
    for event in events[1:]:
        graph.replay()
        event.record()
    torch.cuda.synchronize()
    milliseconds = [float(a.elapsed_time(b)) for a, b in pairwise(events)]
    return statistics.median(milliseconds) * 1e-3 / calls


def device_seconds(
    call: Call, sets: Sequence[Inputs], repeats: int, check: Callable[[int, Tensor], None]
) -> float:
    """Device time of a call, by replaying a CUDA graph of many calls over rotated buffers.

    Each input set has an output of its own: outputs are kept alive until their set's next turn,
    so the allocator can't hand a warm buffer from call to call. What is temporary within a call may
    be reused, to the advantage of implementations that have temporaries.
    """
    calls = len(sets) * math.ceil(MIN_CALLS_PER_GRAPH / len(sets))
    outputs: deque[Tensor] = deque(maxlen=len(sets))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            outputs.append(call(*sets[i % len(sets)]))
    for output in outputs:
        poison(output)
    graph.replay()
    for i in {0, len(sets) - 1}:
        check(i, outputs[i])
    return replay_seconds(graph, calls, repeats)


def kernel_seconds(call: Call, sets: Sequence[Inputs], repeats: int) -> float:
    """Time that a call keeps the device busy, as the profiler adds it up: for calls that wait.

    The waiting itself and the gaps around it are left out; wall time has them.
    """
    profiler: Any = torch.profiler
    for inputs in sets:
        call(*inputs)
    torch.cuda.synchronize()
    samples: list[float] = []
    for _ in range(repeats):
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
            for inputs in sets:
                call(*inputs)
            torch.cuda.synchronize()
        busy = sum(event.self_device_time_total for event in profile.key_averages())
        samples.append(busy * 1e-6 / len(sets))
    return statistics.median(samples)


def poison(output: Any) -> None:
    """Fills a tensor, or those of a dict."""
    for tensor in output.values() if isinstance(output, dict) else [output]:
        tensor.fill_(math.nan if tensor.is_floating_point() else 113)


def poisoned_call(call: Call, inputs: Inputs, like: Tensor | None) -> Any:
    """A call whose new buffers, where the allocator can, are ones that were filled with NaN."""
    if like is not None:
        for buffer in [torch.empty_like(like) for _ in range(4)]:
            poison(buffer)
    return call(*inputs)


# ---- ceilings ------------------------------------------------------------------------------------


@dataclass
class Ceiling:
    """Upper limits of the machine's speed, measured in this run."""

    bandwidth: float  # bytes per second, read and written
    bandwidth_by: dict[str, float]  # each way of copying that was tried
    launch_s: float = 0.0  # an empty kernel in a graph


def copy_bandwidth_cpu(total_bytes: int, repeats: int) -> float:
    """Bytes per second, read and written, of torch's copy with all threads."""
    source = torch.rand(max(1, total_bytes // 8))
    target = torch.empty_like(source)
    (seconds,) = wall_seconds([lambda: target.copy_(source)], source.device, repeats)
    return 2 * source.nbytes / seconds


def copy_seconds(total_bytes: int, sets: int, device: torch.device, repeats: int) -> float:
    """Device time of one torch copy, or negation, that moves `total_bytes` in all."""
    size = max(256, total_bytes // 2 // 256 * 256) // 4  # aligned, as allocations are
    sources = [torch.zeros(size, dtype=torch.float32, device=device) for _ in range(sets)]
    inputs = [(source, torch.zeros_like(source)) for source in sources]
    ways: tuple[Call, ...] = (lambda a, b: b.copy_(a), lambda a, b: torch.neg(a, out=b))
    return min(device_seconds(way, inputs, repeats, lambda i, out: None) for way in ways)


def measure_ceiling(device: torch.device, repeats: int) -> Ceiling:
    if device.type == "cpu":
        bandwidth = copy_bandwidth_cpu(1 << 30, repeats)
        return Ceiling(bandwidth, {"copy of 0.5 GiB": bandwidth})

    size = min(2 << 30, free_bytes(device) // 8)
    source = torch.randn(size // 2, device=device, dtype=torch.bfloat16)
    target = torch.empty_like(source)
    ways: dict[str, Callable[[], Tensor]] = {
        f"copy of {size / 2**30:.1f} GiB": lambda: target.copy_(source),
        f"negation of {size / 2**30:.1f} GiB": lambda: torch.neg(source, out=target),
    }
    by = {}
    for name, way in ways.items():
        way()
        seconds = device_seconds(lambda way=way: way(), [()], repeats, lambda i, out: None)
        by[name] = 2 * source.nbytes / seconds

    calls = 1000
    cuda._sleep(0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            cuda._sleep(0)  # a kernel of one thread that reads the clock and returns
    return Ceiling(max(by.values()), by, replay_seconds(graph, calls, repeats))
