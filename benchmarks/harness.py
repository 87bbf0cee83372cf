"""Measure benchmark cases: device time, wall time, bytes moved, and torch on the same inputs.

An operation (see resample.py) declares its cases; this file knows how to time them and nothing
about what they compute. docs/benchmarks.md says what each number means.
"""

from __future__ import annotations

import ctypes
import gc
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Inputs = tuple[Tensor, ...]
Call = Callable[..., Tensor]

cuda: Any = torch.cuda  # for what some versions of torch type and others do not

MAX_AUTOTUNE = "max-autotune-no-cudagraphs"

# Input and output sets that are cycled through hold at least this many times the L2 cache, so that
# a set has left the cache before its turn comes again.
ROTATION_IN_CACHES = 3
# There is a gap of a few microseconds before a graph; over this many calls it is lost in noise.
MIN_CALLS_PER_GRAPH = 32


@dataclass(frozen=True)
class Case:
    """One operation at one shape and one set of types."""

    operation: str
    shape: str  # "64x100 -> 50x32"; variants of a shape share the choice of compiled peer
    variant: str  # what distinguishes this case from others of its shape
    footprint: int  # bytes of all inputs and the output
    make_inputs: Callable[[torch.Generator], Inputs]
    bytes_moved: Callable[[Inputs], int]  # the fewest bytes that any implementation must move
    robocache: Call
    eager: Mapping[str, Call]  # peers by formulation
    compiled: Mapping[str, Call]  # peers for torch.compile, by formulation
    rtol: float  # how far a peer may be from robocache: |a - b| <= atol + rtol * |b|
    atol: float
    # What an implementation moves beyond bytes_moved that first sorts its rows, as robocache does.
    sort_bytes: Callable[[Inputs], int] | None = None
    waits: bool = False  # a call waits for the GPU, so that no graph can hold it
    to_tensor: Callable[[Any], Tensor] = lambda output: output  # what is compared of an output

    @property
    def name(self) -> str:
        return f"{self.operation} {self.shape} {self.variant}"


@dataclass
class Timing:
    """Seconds a call takes: on the device alone, and as seen by an eager caller."""

    device_s: float | None = None
    wall_s: float | None = None
    error: str | None = None  # why there is no time: the peer failed or gave a wrong result


@dataclass
class Ceiling:
    """What the machine can do, measured in this run."""

    bandwidth: float  # bytes per second, read and written
    bandwidth_by: dict[str, float]  # each way of copying that was tried
    launch_s: float = 0.0  # an empty kernel in a graph


@dataclass
class Result:
    operation: str
    shape: str
    variant: str
    bytes: int
    sets: int  # input and output sets in rotation
    bandwidth: float | None  # the ceiling that the floor is taken from
    floor_s: float | None
    sort_floor_s: float | None  # of what sorts its rows first, where that is needed
    torch_add_wall_s: float  # measured in turns with robocache
    robocache: Timing
    eager: dict[str, Timing] = field(default_factory=dict)
    compiled: dict[str, Timing] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    device: torch.device
    quick: bool  # fewer repeats, one formulation of the compiled peer
    peers: bool  # time torch too, not only check against it
    wall_only: bool  # robocache and torch.add only, by the wall clock
    seed: int

    @property
    def repeats(self) -> int:
        return 31 if self.wall_only else 7 if self.quick else 15


class Progress:
    """Says on stderr what is being measured: a rewritten line on a terminal, else a line a case."""

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self.live = sys.stderr.isatty()
        self.prefix = ""

    def case(self, prefix: str) -> None:
        self.prefix = prefix
        self._write(prefix, "\n")

    def step(self, what: str) -> None:
        if self.live:
            self._write(f"  {what}", "\r")

    def note(self, what: str) -> None:
        self._write(f"  {what}", "\n")

    def _write(self, text: str, end: str) -> None:
        clear = "\x1b[K" if self.live else ""
        seconds = time.perf_counter() - self.start
        print(f"{clear}[{seconds:5.0f} s] {text}", end=end, file=sys.stderr, flush=True)


# ---- the clock -----------------------------------------------------------------------------------


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def wall_seconds(
    calls: Sequence[Callable[[], object]], device: torch.device, repeats: int
) -> list[float]:
    """Median wall time of each call, in loops that take turns and synchronise at their ends."""
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


def poison(output: Tensor) -> None:
    output.fill_(math.nan if output.is_floating_point() else 113)


def poisoned_call(call: Call, inputs: Inputs, like: Tensor | None) -> Tensor:
    """A call whose new buffers, where the allocator can, are ones that were filled with NaN."""
    if like is not None:
        for buffer in [torch.empty_like(like) for _ in range(4)]:
            poison(buffer)
    return call(*inputs)


# ---- ceilings ------------------------------------------------------------------------------------


def copy_bandwidth_cpu(total_bytes: int, repeats: int) -> float:
    """Bytes per second, read and written, of torch's copy with all threads."""
    source = torch.rand(max(1, total_bytes // 8))
    target = torch.empty_like(source)
    (seconds,) = wall_seconds([lambda: target.copy_(source)], source.device, repeats)
    return 2 * source.nbytes / seconds


def measure_ceiling(options: Options) -> Ceiling:
    if options.device.type == "cpu":
        bandwidth = copy_bandwidth_cpu(1 << 30, options.repeats)
        return Ceiling(bandwidth, {"copy of 0.5 GiB": bandwidth})

    size = min(2 << 30, free_bytes(options.device) // 8)
    source = torch.randn(size // 2, device=options.device, dtype=torch.bfloat16)
    target = torch.empty_like(source)
    ways: dict[str, Callable[[], Tensor]] = {
        f"copy of {size / 2**30:.1f} GiB": lambda: target.copy_(source),
        f"negation of {size / 2**30:.1f} GiB": lambda: torch.neg(source, out=target),
    }
    by = {}
    for name, way in ways.items():
        way()
        seconds = device_seconds(lambda way=way: way(), [()], options.repeats, lambda i, out: None)
        by[name] = 2 * source.nbytes / seconds

    calls = 1000
    cuda._sleep(0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            cuda._sleep(0)  # a kernel of one thread that reads the clock and returns
    return Ceiling(max(by.values()), by, replay_seconds(graph, calls, options.repeats))


def free_bytes(device: torch.device) -> int:
    """Memory that a benchmark may take on a device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        meminfo = Path("/proc/meminfo").read_text()
        return int(meminfo.split("MemAvailable:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) // 2


def keep_freed_memory() -> bool:
    """Make malloc keep what is freed, as torch's CUDA allocator does.

    Otherwise every call on the CPU would fault its large buffers in anew, and the kernel's zeroing
    of pages would be most of what is timed, for robocache and torch alike.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return False
    m_trim_threshold, m_mmap_max = -1, -4
    return bool(mallopt(m_trim_threshold, -1)) and bool(mallopt(m_mmap_max, 0))


# ---- cases ---------------------------------------------------------------------------------------


class Runner:
    """Measures cases one after the other, each with its peers."""

    def __init__(self, options: Options, progress: Progress) -> None:
        self.options = options
        self.progress = progress
        self.problems: list[str] = []
        # The compiled peer that won in the first variant of a shape, tried alone in later ones.
        self._winners: dict[tuple[str, str], tuple[str, str]] = {}
        self.ceiling: Ceiling | None = None
        if not options.wall_only:
            progress.case("streaming ceiling")
            self.ceiling = measure_ceiling(options)

    def measure(self, case: Case) -> Result:
        options = self.options
        generator = torch.Generator(device=options.device).manual_seed(options.seed)
        sets = [case.make_inputs(generator)]

        add_x = torch.randn(4096, device=options.device)
        add_y = torch.randn_like(add_x)
        self.progress.step("robocache")
        ours, add_wall_s = wall_seconds(
            [lambda: case.robocache(*sets[0]), lambda: torch.add(add_x, add_y)],
            options.device,
            options.repeats,
        )
        moved = case.bytes_moved(sets[0])
        result = Result(
            operation=case.operation,
            shape=case.shape,
            variant=case.variant,
            bytes=moved,
            sets=1,
            bandwidth=None,
            floor_s=None,
            sort_floor_s=None,
            torch_add_wall_s=add_wall_s,
            robocache=Timing(wall_s=ours),
        )
        if self.ceiling is None:
            return result

        result.bandwidth = self.ceiling.bandwidth
        if (
            options.device.type == "cpu"
        ):  # calls on one set are served by the caches: so is the copy
            result.bandwidth = copy_bandwidth_cpu(moved, options.repeats)
        else:
            cache = torch.cuda.get_device_properties(options.device).L2_cache_size
            count = max(2, math.ceil(ROTATION_IN_CACHES * cache / case.footprint))
            sets += [case.make_inputs(generator) for _ in range(count - 1)]
        result.sets = len(sets)
        result.floor_s = max(moved / result.bandwidth, self.ceiling.launch_s)
        if case.sort_bytes is not None:
            sorted_too = moved + case.sort_bytes(sets[0])
            result.sort_floor_s = max(sorted_too / result.bandwidth, self.ceiling.launch_s)

        # The first eager formulation is what robocache is checked against, robocache's own result
        # what every peer is.
        formulation, reference = next(iter(case.eager.items()))
        first = case.to_tensor(poisoned_call(reference, sets[0], None))
        expected = {0: case.to_tensor(poisoned_call(case.robocache, sets[0], first))}
        try:
            require_close(case, expected[0], first)
        except WrongResultError as error:
            message = f"robocache against torch eager, {formulation}: {error}"
            self._problem(case, message)
            result.robocache = Timing(error=message)
            return result
        if len(sets) > 1:
            expected[len(sets) - 1] = case.to_tensor(case.robocache(*sets[-1]))
        del first

        result.robocache = self._time(case, "robocache", case.robocache, sets, expected, ours)
        if not options.peers:
            return result
        for name, call in case.eager.items():
            result.eager[name] = self._time(case, f"torch eager, {name}", call, sets, expected)
        if options.device.type == "cuda":
            self._measure_compiled(case, sets, expected, result)
        return result

    def _measure_compiled(
        self, case: Case, sets: list[Inputs], expected: dict[int, Tensor], result: Result
    ) -> None:
        known = self._winners.get((case.operation, case.shape))
        if not case.compiled:
            return
        plan = [known] if known else [(name, "default") for name in case.compiled]
        if self.options.quick:
            plan = plan[:1]
        timings: dict[tuple[str, str], Timing] = {}

        def compile_and_time(name: str, mode: str) -> None:
            # Forget earlier shapes: one specialised graph, and no other graph's guards to walk.
            torch.compiler.reset()
            call: Call = torch.compile(
                case.compiled[name], fullgraph=True, dynamic=False, mode=mode
            )
            label = f"{name}, {mode}"
            timing = self._time(case, f"torch.compile, {label}", call, sets, expected)
            result.compiled[label] = timings[name, mode] = timing

        def device_s(choice: tuple[str, str]) -> float:
            return timings[choice].device_s or math.inf

        for name, mode in plan:
            compile_and_time(name, mode)
        if known or self.options.quick:
            return
        compile_and_time(min(plan, key=device_s)[0], MAX_AUTOTUNE)
        # Within two percent the mode that compiles in a fraction of the time is as good.
        default, best = min(plan, key=device_s), min(timings, key=device_s)
        near = device_s(default) <= 1.02 * device_s(best)
        self._winners[case.operation, case.shape] = default if near else best

    def _time(
        self,
        case: Case,
        label: str,
        call: Call,
        sets: list[Inputs],
        expected: dict[int, Tensor],
        wall_s: float | None = None,
    ) -> Timing:
        """Check a call's results, then time it; what fails is noted and not timed."""
        self.progress.step(label)
        device = self.options.device

        def check(i: int, output: Any) -> None:
            require_close(case, expected[i], case.to_tensor(output))

        try:
            check(0, poisoned_call(call, sets[0], expected[0]))
            timing = Timing()
            if device.type == "cuda" and case.waits:
                timing.device_s = kernel_seconds(call, sets, self.options.repeats)
            elif device.type == "cuda":
                timing.device_s = device_seconds(call, sets, self.options.repeats, check)
            if wall_s is None:
                (wall_s,) = wall_seconds([lambda: call(*sets[0])], device, self.options.repeats)
            timing.wall_s = wall_s
            return timing
        except Exception as error:  # a peer that fails must not end a run on a borrowed machine
            message = f"{label}: {(str(error) or type(error).__name__).strip().splitlines()[0]}"
            self._problem(case, message)
            return Timing(error=message)

    def _problem(self, case: Case, message: str) -> None:
        self.problems.append(f"{case.name}: {message}")
        self.progress.note(f"PROBLEM {message}")


class WrongResultError(Exception):
    """A peer's result and robocache's differ."""


def require_close(case: Case, ours: Tensor, other: Tensor) -> None:
    if ours.shape != other.shape or ours.dtype != other.dtype:
        raise WrongResultError(
            f"expected {ours.dtype} {list(ours.shape)}, got {other.dtype} {list(other.shape)}"
        )
    wide = torch.float64 if ours.dtype == torch.float64 else torch.float32
    a, b = ours.to(wide), other.to(wide)
    wrong = ~torch.isclose(a, b, rtol=case.rtol, atol=case.atol)  # NaN is never close
    if wrong.any():
        worst = (a - b)[wrong].abs().max().item()
        count = f"{int(wrong.sum())} of {wrong.numel()}"
        raise WrongResultError(f"{count} values differ, by up to {worst:.3g}")


# ---- the report ----------------------------------------------------------------------------------


def environment(options: Options, memory_kept: bool) -> dict[str, Any]:
    """What a reader needs to judge or repeat the numbers."""
    import robocache

    root = Path(__file__).resolve().parent.parent
    git = ("git", "-C", str(root))
    commit = os.environ.get("ROBOCACHE_COMMIT") or output_of(*git, "rev-parse", "HEAD")
    facts: dict[str, Any] = {
        "robocache": robocache.__version__,
        "commit": commit or "unknown",
        "modified": bool(output_of(*git, "status", "--porcelain", "--untracked-files=no")),
        "build": asdict(robocache.build_info()),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpu": cpu_model(),
        "cpu_count": len(os.sched_getaffinity(0)),
        "torch_threads": torch.get_num_threads(),
        "load_average": os.getloadavg()[0],  # of the last minute, before this run
    }
    if options.device.type == "cuda":
        properties = torch.cuda.get_device_properties(options.device)
        query = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "-i", "0")
        facts |= {
            "gpu": properties.name,
            "driver": output_of(*query) or "unknown",
            "cuda": torch.version.cuda,
            "l2_bytes": properties.L2_cache_size,
            "multiprocessors": properties.multi_processor_count,
        }
    else:
        facts["allocator"] = "malloc keeps freed memory" if memory_kept else "system default"
    return facts


def output_of(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Written after every case, in one step: an interrupted run keeps what it measured."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(report, indent=1, default=str) + "\n")
    partial.replace(path)
