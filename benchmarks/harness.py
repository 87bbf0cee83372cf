"""Measure benchmark cases: device time, wall time, bytes moved, and torch on the same inputs.

An operation (see resample.py) declares its cases; this file knows how to measure them (clock.py has
the clock) and nothing about what they compute. docs/benchmarks.md says what each number means.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from clock import (
    Call,
    Ceiling,
    Inputs,
    copy_bandwidth_cpu,
    copy_seconds,
    device_seconds,
    kernel_seconds,
    measure_ceiling,
    poisoned_call,
    wall_seconds,
)

MAX_AUTOTUNE = "max-autotune-no-cudagraphs"

# Input and output sets that are cycled through hold at least this many times the L2 cache, so that
# a set has left the cache before its turn comes again.
ROTATION_IN_CACHES = 3


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
    # Bytes beyond bytes_moved of an implementation that sorts its rows first, as robocache does.
    sort_bytes: Callable[[Inputs], int] | None = None
    waits: bool = False  # a call waits for the GPU, so that no graph can hold it
    to_tensor: Callable[[Any], Tensor] = lambda output: output  # what is compared of an output
    memory: Callable[[], int] | None = None  # bytes that robocache keeps after a call

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
class Result:
    operation: str
    shape: str
    variant: str
    bytes: int
    sets: int  # input and output sets in rotation
    bandwidth: float | None  # the ceiling that the floor is taken from
    floor_s: float | None
    sort_floor_s: float | None  # of what sorts its rows first, where that is needed
    copy_s: float | None  # of one copy that moves as many bytes, on a GPU
    torch_add_wall_s: float  # measured in turns with robocache
    robocache: Timing
    memory_bytes: int | None = None
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


# ---- cases ---------------------------------------------------------------------------------------


class Runner:
    """Measures cases one after the other, each with its peers."""

    def __init__(self, options: Options, progress: Progress) -> None:
        self.options = options
        self.progress = progress
        self.problems: list[str] = []
        # The compiled peer that won in the first variant of a shape, tried alone in later ones.
        self._winners: dict[tuple[str, ...], tuple[str, str]] = {}
        self.ceiling: Ceiling | None = None
        if not options.wall_only:
            progress.case("streaming ceiling")
            self.ceiling = measure_ceiling(options.device, options.repeats)

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
        result = Result(
            operation=case.operation,
            shape=case.shape,
            variant=case.variant,
            bytes=case.bytes_moved(sets[0]),
            sets=1,
            bandwidth=None,
            floor_s=None,
            sort_floor_s=None,
            copy_s=None,
            torch_add_wall_s=add_wall_s,
            robocache=Timing(wall_s=ours),
        )
        if self.ceiling is None:
            return result

        if options.device.type == "cuda":
            cache = torch.cuda.get_device_properties(options.device).L2_cache_size
            count = max(2, math.ceil(ROTATION_IN_CACHES * cache / case.footprint))
            sets += [case.make_inputs(generator) for _ in range(count - 1)]
        result.sets = len(sets)
        self._set_floors(case, self.ceiling, sets[0], result)
        if options.device.type == "cuda":
            self.progress.step("one copy")
            result.copy_s = copy_seconds(result.bytes, len(sets), options.device, options.repeats)

        formulation, reference = next(iter(case.eager.items()))
        try:
            expected = expect(case, reference, sets)
        except WrongResultError as error:
            message = f"robocache against torch eager, {formulation}: {error}"
            self._problem(case, message)
            result.robocache = Timing(error=message)
            return result

        result.robocache = self._time(case, "robocache", case.robocache, sets, expected, ours)
        result.memory_bytes = case.memory() if case.memory else None
        if not options.peers:
            return result
        for name, call in case.eager.items():
            result.eager[name] = self._time(case, f"torch eager, {name}", call, sets, expected)
        if options.device.type == "cuda":
            self._measure_compiled(case, sets, expected, result)
        return result

    def _set_floors(self, case: Case, ceiling: Ceiling, inputs: Inputs, result: Result) -> None:
        result.bandwidth = ceiling.bandwidth
        if self.options.device.type == "cpu":
            # Calls on one set are served by the caches: so is this copy.
            result.bandwidth = copy_bandwidth_cpu(result.bytes, self.options.repeats)
        result.floor_s = max(result.bytes / result.bandwidth, ceiling.launch_s)
        if case.sort_bytes is not None:
            sorted_too = result.bytes + case.sort_bytes(inputs)
            result.sort_floor_s = max(sorted_too / result.bandwidth, ceiling.launch_s)

    def _measure_compiled(
        self, case: Case, sets: list[Inputs], expected: dict[int, Tensor], result: Result
    ) -> None:
        forms = (case.operation, case.shape, *case.compiled)
        known = self._winners.get(forms)
        if not case.compiled:
            return
        plan = [known] if known else [(name, "default") for name in case.compiled]
        if self.options.quick:
            plan = plan[:1]
        timings: dict[tuple[str, str], Timing] = {}

        def compile_and_time(name: str, mode: str) -> None:
            # Forget earlier shapes: one specialized graph, and no other graph's guards to walk.
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
        self._winners[forms] = default if near else best

    def _time(
        self,
        case: Case,
        label: str,
        call: Call,
        sets: list[Inputs],
        expected: dict[int, Tensor],
        wall_s: float | None = None,
    ) -> Timing:
        """Checks a call's results, then times it; records the error of a call that fails."""
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
    """A peer's result differs from robocache's."""


def expect(case: Case, reference: Call, sets: list[Inputs]) -> dict[int, Tensor]:
    """RoboCache's results for the first and the last set, which those of every peer must match.

    Raises:
        WrongResultError: If the first is not that of `reference`, the first eager formulation.
    """
    first = case.to_tensor(poisoned_call(reference, sets[0], None))
    expected = {0: case.to_tensor(poisoned_call(case.robocache, sets[0], first))}
    require_close(case, expected[0], first)
    if len(sets) > 1:
        expected[len(sets) - 1] = case.to_tensor(case.robocache(*sets[-1]))
    return expected


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
