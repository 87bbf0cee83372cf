"""`Prefetcher`: prefetches batches if some rows are outside the GPU."""

from __future__ import annotations

import os
import time
import weakref
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass

import torch

from robocache.core import torch_private
from robocache.loader.memory.deferred_cuda import defer_until_cuda_allowed, run_deferred
from robocache.loader.memory.disk_windows import DiskWindows, Slot
from robocache.loader.memory.tiers import PREFETCH_DEPTH
from robocache.loader.outputs import Batch, Outputs
from robocache.loader.plan import BatchPlan
from robocache.loader.sampling.sampler import Order
from robocache.loader.sampling.sampler_state import SamplerState
from robocache.loader.scratch import AddressBlock
from robocache.loader.stats import Counters


@dataclass
class _InFlight:
    """A batch in flight."""

    epoch: int
    position: int
    size: int
    batch: Batch
    stream: torch.cuda.Stream  # on which the memory was allocated
    slot: Slot | None  # holds the disk windows until their copy to the GPU is enqueued
    on_cpu: Future[None] | None  # the job of the disk windows, likewise
    made: torch.cuda.Event | None  # on the GPU, after the batch is complete
    scratch: Sequence[torch.Tensor] = ()  # which the side stream uses until then
    block: AddressBlock | None = None  # until the images are made


class Prefetcher:
    """Prefetches the batches of a loader on a GPU, on a side stream.

    ::

        user's stream   ..step k-1..|free, allocate   |..step k..  ..step k+1..  |wait|..step k+3..
        side stream                  |wait|..batch k+3: kernel, copies..| event --^
        CPU's thread    ..batch k+3: disk windows..|

    Batches are allocated on the user's stream, so that their memory is reusable as soon as a step
    is enqueued, and does not depend on how far the host runs ahead. So a batch begins at the
    current point of the user's stream, three batches before it is due.

    Each prefetched batch carries its epoch and position. Batches that do not match the requested
    position, e.g. after ``load_state_dict``, are discarded.

    Args:
        order: The order of samples.
        plan: The plan of windows that the GPU makes.
        outputs: Allocates whole batches.
        disk: The disk windows.
        device: The GPU.
        counters: Receive waits and the queue depth.
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
        self._sampler_state = SamplerState(order, device)
        self._side = torch.cuda.Stream(device)
        self._in_flight: deque[_InFlight] = deque()
        # Not at exit: the process frees its memory, and CUDA may be shut down already.
        weakref.finalize(self, _drop_later, self._in_flight, self._side, os.getpid()).atexit = False

    def next(self, epoch: int, position: int) -> Batch:
        """The batch at a position, on the current stream.

        The host waits if disk windows are not complete, or if all slots for them are in use by a
        GPU that is behind; both waits count.

        Raises:
            RuntimeError: A launch fails, possibly that of a later batch.
            torch.OutOfMemoryError: No memory for a batch.
        """
        try:
            return self._next(epoch, position)
        except BaseException:
            self._drop()  # so that the next call starts anew
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
        self._copy_complete()
        waited += self._begin(user)
        head = in_flight.popleft()
        assert head.made is not None
        user.wait_event(head.made)
        if head.stream != user:
            for tensor in (*head.batch.values(), *head.scratch):
                tensor.record_stream(user)  # which waits for the side stream
        self._counters.handed_out(waited)
        self._counters.queue_depth = len(in_flight)
        if not self._outputs.is_kept:
            return head.batch
        kept, _ = self._outputs.take(head.size)
        torch_private.copy_each(list(kept.values()), [head.batch[key] for key in kept])
        return kept

    def _begin(self, user: torch.cuda.Stream) -> float:
        """Starts one more batch; returns the seconds that the host waited for the GPU."""
        sampler_state, outputs, disk = self._sampler_state, self._outputs, self._disk
        size = self._order.size(sampler_state.position)
        with torch.inference_mode(False):  # another call returns it, maybe in another mode
            batch, block = outputs.allocate(size)
        # Appended first: if a call below fails, the memory stays owned until the stream is done.
        in_flight = _InFlight(
            sampler_state.epoch, sampler_state.position, size, batch, user, None, None, None
        )
        self._in_flight.append(in_flight)
        self._side.wait_stream(user)  # which used the memory before
        self._plan.next(
            sampler_state.state_address,
            size,
            block.windows_address,
            block.metadata_address,
            self._side.cuda_stream,
        )
        in_flight.scratch, in_flight.block = block.scratch, block
        outputs.scratch.decode(block, self._side.cuda_stream)
        waited = 0.0
        if disk is None:
            self._finish(in_flight)
        else:
            in_flight.slot, in_flight.on_cpu, waited = disk.begin(size)
        sampler_state.advance()
        return waited

    def _finish(self, in_flight: _InFlight) -> None:
        """Makes the images of a batch whose source frames are complete, and records the event."""
        block = in_flight.block
        assert block is not None
        stream = self._side.cuda_stream
        self._outputs.scratch.make_images(block, in_flight.size, stream, is_random=True)
        self._outputs.give_back(block)
        in_flight.block = None
        in_flight.made = self._side.record_event()

    def _targets(self, in_flight: _InFlight) -> Batch:
        """The tensors that disk windows are copied to."""
        assert in_flight.block is not None
        return self._outputs.targets(in_flight.size, in_flight.batch, in_flight.block)

    def _wait(self, head: _InFlight) -> float:
        """Waits for a batch's disk windows; returns the seconds."""
        if head.on_cpu is None or head.on_cpu.done():
            return 0.0
        begin = time.perf_counter()
        wait([head.on_cpu])
        return time.perf_counter() - begin

    def _copy_complete(self) -> None:
        """Copies complete disk windows to the GPU."""
        for in_flight in self._in_flight:
            if in_flight.on_cpu is None:
                continue
            if not in_flight.on_cpu.done():
                return
            if in_flight is not self._in_flight[0] and in_flight.on_cpu.exception() is not None:
                return  # raised when this batch is due
            in_flight.on_cpu.result()
            assert self._disk is not None and in_flight.slot is not None
            with torch.cuda.stream(self._side):
                self._disk.copy(in_flight.slot, in_flight.size, self._targets(in_flight))
            self._finish(in_flight)
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
    """Waits for all batches in flight, and discards them."""
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
            each.on_cpu.cancel()  # a job that has not begun keeps nothing alive
    defer_until_cuda_allowed(lambda: _drop_all(in_flight, side))
