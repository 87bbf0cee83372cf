"""Batches that are made before they are asked for, where some rows are outside the GPU."""

from __future__ import annotations

import os
import time
import weakref
from collections import deque
from concurrent.futures import Future, wait
from dataclasses import dataclass

import torch

from robocache.loader.memory.deferred_cuda import defer_until_cuda_allowed, run_deferred
from robocache.loader.memory.disk_windows import DiskWindows, Slot
from robocache.loader.memory.tiers import PREFETCH_DEPTH
from robocache.loader.outputs import Batch, Outputs
from robocache.loader.plan import BatchPlan
from robocache.loader.sampling.sampler import Order
from robocache.loader.sampling.sampler_state import SamplerState
from robocache.loader.stats import Counters


@dataclass
class _InFlight:
    """A batch that is being made."""

    epoch: int
    position: int
    size: int
    batch: Batch
    stream: torch.cuda.Stream  # of the memory: who gave it out takes it back
    slot: Slot | None  # of what comes from the disk, till it is on its way to the GPU
    on_cpu: Future[None] | None  # the same
    made: torch.cuda.Event | None  # on the GPU


class Prefetcher:
    """The next batches of a loader on a GPU, made on a stream of their own.

    ::

        user's stream   ..step k-1..|free, take memory|..step k..  ..step k+1..  |wait|..step k+3..
        own stream                   |wait|..batch k+3: kernel, copies..| event --^
        CPU's thread    ..batch k+3: windows from the disk..|

    Memory is the user's stream's, so that it can be used again as soon as a step is enqueued, and
    what batches take does not depend on how far the host runs ahead. So a batch is begun where the
    user's stream is at the time, three batches before it is due.

    Nobody is told where the loader goes: the batches carry their positions, and those that are not
    the ones that are asked for are dropped.

    Args:
        order: Which samples come when.
        plan: Of what the GPU reads.
        outputs: Of the whole batch.
        disk: What comes from the disk.
        device: The GPU.
        counters: Which waits are added to.
    """

    def __init__(
        self,
        order: Order,
        plan: BatchPlan,
        outputs: Outputs,
        disk: DiskWindows | None,
        device: torch.device,
        counters: Counters,
    ) -> None:
        self._order, self._plan, self._outputs, self._disk = order, plan, outputs, disk
        self._index, self._counters = device.index, counters
        self._sampler_state = SamplerState(order, 0, device)
        self._side = torch.cuda.Stream(device)
        self._in_flight: deque[_InFlight] = deque()
        # Not at exit: the process takes its memory along, and CUDA may be gone already.
        weakref.finalize(self, _drop_later, self._in_flight, self._side, os.getpid()).atexit = False

    def next(self, epoch: int, position: int) -> Batch:
        """The batch at a position, on the current stream.

        The host waits where windows from the disk are not there yet, or where it is so far ahead of
        the GPU that all memory for them is taken, which counts as waiting too; else for nothing.

        Raises:
            RuntimeError: A launch fails, also of an earlier batch that was made ahead.
            torch.OutOfMemoryError: There is no memory for a batch.
        """
        try:
            return self._next(epoch, position)
        except BaseException:
            self._drop()  # what failed is tried anew
            raise

    def _next(self, epoch: int, position: int) -> Batch:
        run_deferred()
        in_flight = self._in_flight
        if not in_flight or (in_flight[0].epoch, in_flight[0].position) != (epoch, position):
            self._drop()
            self._move(epoch, position)
        user = torch.cuda.current_stream(self._index)
        waited = 0.0
        while len(in_flight) < PREFETCH_DEPTH:
            waited += self._begin(user)
        waited += self._wait(in_flight[0])
        self._copy_what_is_there()
        waited += self._begin(user)
        head = in_flight.popleft()
        assert head.made is not None
        user.wait_event(head.made)
        if head.stream != user:
            for tensor in head.batch.values():
                tensor.record_stream(user)
        self._counters.handed_out(waited)
        self._counters.queue_depth = len(in_flight)
        if not self._outputs.is_kept:
            return head.batch
        kept = self._outputs.take(head.size)
        torch._foreach_copy_(list(kept.values()), [head.batch[key] for key in kept])
        return kept

    def _begin(self, user: torch.cuda.Stream) -> float:
        """Has one more batch made; how long the host waited for the GPU, in seconds."""
        sampler_state, outputs, disk = self._sampler_state, self._outputs, self._disk
        size = self._order.size(sampler_state.position)
        with torch.inference_mode(False):  # whoever gets it is not who asks for one here
            batch = outputs.allocate(size)
        # First of all, so that whatever fails from here on, nobody gets the memory too early.
        in_flight = _InFlight(
            sampler_state.epoch, sampler_state.position, size, batch, user, None, None, None
        )
        self._in_flight.append(in_flight)
        self._side.wait_stream(user)  # who had the memory before
        self._plan.next(
            sampler_state.state_address,
            size,
            outputs.windows_address,
            outputs.facts_address,
            self._side.cuda_stream,
        )
        waited = 0.0
        if disk is None:
            in_flight.made = self._side.record_event()
        else:
            in_flight.slot, in_flight.on_cpu, waited = disk.begin(size)
        sampler_state.advance()
        return waited

    def _wait(self, head: _InFlight) -> float:
        """Waits for what comes from the disk; how long, in seconds."""
        if head.on_cpu is None or head.on_cpu.done():
            return 0.0
        begin = time.perf_counter()
        wait([head.on_cpu])
        return time.perf_counter() - begin

    def _copy_what_is_there(self) -> None:
        """Sends what has come from the disk on to the GPU."""
        for in_flight in self._in_flight:
            if in_flight.on_cpu is None:
                continue
            if not in_flight.on_cpu.done():
                return
            if in_flight is not self._in_flight[0] and in_flight.on_cpu.exception() is not None:
                return  # that is said when it is due
            in_flight.on_cpu.result()
            assert self._disk is not None and in_flight.slot is not None
            with torch.cuda.stream(self._side):
                self._disk.copy(in_flight.slot, in_flight.size, in_flight.batch)
            in_flight.made = self._side.record_event()
            self._disk.give_back(in_flight.slot, in_flight.made)
            in_flight.slot = in_flight.on_cpu = None

    def _drop(self) -> None:
        slots = [in_flight.slot for in_flight in self._in_flight if in_flight.slot is not None]
        try:
            _drop_all(self._in_flight, self._side)
        finally:
            for slot in slots:
                assert self._disk is not None
                self._disk.give_back(slot, None)
            self._in_flight.clear()
            self._counters.queue_depth = 0

    def _move(self, epoch: int, position: int) -> None:
        with torch.cuda.stream(self._side):
            self._sampler_state.move(epoch, position)
        if self._disk is not None:
            self._disk.move(epoch, position)


def _drop_all(in_flight: deque[_InFlight], side: torch.cuda.Stream) -> None:
    """Waits for all batches that are being made, and forgets them."""
    jobs = [each.on_cpu for each in in_flight if each.on_cpu is not None]
    wait([job for job in jobs if not job.cancel()])
    if in_flight:
        side.synchronize()
    in_flight.clear()


def _drop_later(in_flight: deque[_InFlight], side: torch.cuda.Stream, process: int) -> None:
    if os.getpid() != process:
        return  # the child of a fork, which has neither GPU nor threads
    for each in in_flight:
        if each.on_cpu is not None:
            each.on_cpu.cancel()  # what has not begun keeps nothing, and waits for nobody
    defer_until_cuda_allowed(lambda: _drop_all(in_flight, side))
