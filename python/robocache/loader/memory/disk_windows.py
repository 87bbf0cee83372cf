"""`DiskWindows`: windows of rows on disk, assembled on the CPU for batches on a GPU."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from robocache.loader.device import on_device
from robocache.loader.memory.deferred_cuda import make_worker
from robocache.loader.memory.pinned import pinned_empty
from robocache.loader.memory.tiers import PREFETCH_DEPTH, BatchOptions, slot_bytes
from robocache.loader.outputs import AGE, PAD, Batch, Outputs
from robocache.loader.plan import BatchPlan
from robocache.loader.plan_inputs import PlanInputs, make_plan
from robocache.loader.sampling.sampler_state import SamplerState


class Slot:
    """Pinned memory for the disk windows of one batch, with one user at a time."""

    def __init__(self, outputs: Outputs, size: int) -> None:
        self.batch, self._block = outputs.take(size)
        self.windows_address = self._block.windows_address
        self.copied: torch.cuda.Event | None = None  # after the last copy to the GPU


class DiskWindows:
    """Prefetches windows of mapped files on the CPU, in a worker thread.

    The thread makes no CUDA calls, so that it can't disturb the capture of a graph.

    Args:
        plan: The plan of these windows, on the CPU.
        wanted: Options of the batches, with these windows in the plan's order.

    Attributes:
        keys: Keys of a batch that these windows write.
    """

    def __init__(self, plan: BatchPlan, wanted: BatchOptions) -> None:
        cpu = torch.device("cpu")
        windows, groups, with_age, order, _ = wanted
        self._plan = plan
        self._sampler_state = SamplerState(order, cpu)
        self._outputs = Outputs(windows, groups, with_age, cpu)
        endings = (PAD, AGE) if with_age else (PAD,)
        masks = [window.name + ending for ending in endings for window in windows]
        self.keys = [*self._outputs.keys, *masks]
        size = order.size(0)
        need = self._outputs.nbytes(size, slot_bytes)
        parts = pinned_empty((PREFETCH_DEPTH + 1) * need).chunk(PREFETCH_DEPTH + 1)
        self._slots = deque(
            Slot(Outputs(windows, groups, with_age, cpu, empty=_out_of(part)), size)
            for part in parts
        )
        self._worker = ThreadPoolExecutor(1, "robocache", initializer=make_worker)

    def move(self, epoch: int, position: int) -> None:
        """Sets the next batch. No batch may be in flight."""
        self._sampler_state.move(epoch, position)

    def begin(self, size: int) -> tuple[Slot, Future[None], float]:
        """Starts the next batch's windows, in a free slot.

        Returns:
            The slot, which must be kept until the job is done; the job; and the seconds that the
            host waited for the GPU to read the slot's previous windows.
        """
        slot = self._slots[0]
        copied: Any = slot.copied
        waited = 0.0
        if copied is not None and not copied.query():
            begin = time.perf_counter()
            copied.synchronize()
            waited = time.perf_counter() - begin
        job = self._worker.submit(
            _make_next, self._plan, self._sampler_state, size, slot.windows_address
        )
        self._slots.popleft()  # last: a failure above must not lose the slot
        return slot, job, waited

    def copy(self, slot: Slot, size: int, batch: Batch) -> None:
        """Copies a slot's windows to the GPU's batch, on the current stream."""
        for key in self.keys:
            batch[key].copy_(slot.batch[key][:size], non_blocking=True)

    def give_back(self, slot: Slot, copied: torch.cuda.Event | None) -> None:
        """Returns a slot, which may be reused after an event."""
        slot.copied = copied
        self._slots.append(slot)

    def gather(self, indices: Tensor, batch: Batch) -> None:
        """Makes the windows of samples [B] int64 now, and copies them to the GPU's batch."""
        made, block = self._outputs.take(len(indices))
        self._plan.gather(indices.data_ptr(), len(indices), block.windows_address, 0, 0)
        self._outputs.give_back(block)
        for key in self.keys:
            batch[key].copy_(made[key])


def disk_windows(samples: PlanInputs, wanted: BatchOptions, device: torch.device) -> DiskWindows:
    """The disk windows of a loader on a GPU.

    Args:
        samples: Inputs of a plan, with the disk windows alone.
        wanted: Options of the batches.
        device: The GPU.

    Raises:
        ValueError: Times do not ascend, which the CPU backend validates.
        torch.OutOfMemoryError: Memory can't be pinned.
    """
    keys = {window.name for window in samples.windows}
    groups = {group: members for group, members in wanted.groups.items() if members[0] in keys}
    plan = make_plan(samples, wanted.order, torch.device("cpu"))
    with on_device(device):
        return DiskWindows(plan, wanted._replace(windows=samples.windows, groups=groups))


# A function of an address, not a method: an abandoned job must keep neither a loader nor pinned
# memory alive, which the worker thread would have to free.
def _make_next(
    plan: BatchPlan, sampler_state: SamplerState, size: int, windows_address: int
) -> None:
    plan.next(sampler_state.state_address, size, windows_address, 0, 0)


def _out_of(memory: Tensor) -> Callable[[Sequence[int], Sequence[int], torch.dtype], Tensor]:
    """An allocator of tensors within bytes of memory, one after the other."""
    begin = 0

    def empty(shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> Tensor:
        nonlocal begin
        count = math.prod(shape) * dtype.itemsize
        part = memory[begin : begin + count]
        begin += slot_bytes(count)
        return part.view(dtype).view(shape)

    return empty
