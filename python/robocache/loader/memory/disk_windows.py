"""Windows of rows that stay in the store's files, for batches on a GPU."""

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
    """Pinned memory for the windows of one batch, which have one user at a time."""

    def __init__(self, outputs: Outputs, size: int) -> None:
        self.batch = outputs.take(size)
        self.windows_address = outputs.windows_address
        self._outputs = outputs  # who keeps what is at that address
        self.copied: torch.cuda.Event | None = None  # what was last in it, to the GPU


class DiskWindows:
    """The CPU reads mapped files and makes these windows, ahead of need, in a thread of its own.

    That thread makes no call of CUDA: none of its can disturb a graph that others capture.

    Args:
        plan: Of these windows, on the CPU.
        wanted: Of these windows, in the plan's order.

    Attributes:
        keys: Of what they are in a batch.
    """

    def __init__(self, plan: BatchPlan, wanted: BatchOptions) -> None:
        cpu = torch.device("cpu")
        windows, groups, with_age, order, _ = wanted
        self._plan = plan
        self._sampler_state = SamplerState(order, 0, cpu)
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
        """Says which batch is the next; nothing must be under way."""
        self._sampler_state.move(epoch, position)

    def begin(self, size: int) -> tuple[Slot, Future[None], float]:
        """Has the next batch's windows made, into a slot.

        Returns:
            The slot, which must be kept till the job is done; the job; and how many seconds the
            host waited, where the GPU is so far behind that it has not read what was in the slot.
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
        self._slots.popleft()  # not before: a slot would be lost where one of these fails
        return slot, job, waited

    def copy(self, slot: Slot, size: int, batch: Batch) -> None:
        """Copies what was made to the GPU's batch, on the current stream."""
        for key in self.keys:
            batch[key].copy_(slot.batch[key][:size], non_blocking=True)

    def give_back(self, slot: Slot, copied: torch.cuda.Event | None) -> None:
        """Takes a slot back, which may be used again after an event."""
        slot.copied = copied
        self._slots.append(slot)

    def gather(self, indices: Tensor, batch: Batch) -> None:
        """Makes the windows of samples [B] int64 at once, and copies them to the GPU's batch."""
        made = self._outputs.take(len(indices))
        self._plan.gather(indices.data_ptr(), len(indices), self._outputs.windows_address, 0, 0)
        for key in self.keys:
            batch[key].copy_(made[key])


def disk_windows(samples: PlanInputs, wanted: BatchOptions, device: torch.device) -> DiskWindows:
    """What the plan of a loader on a GPU does not make.

    Args:
        samples: With these windows alone.
        wanted: What is wanted of batches.
        device: The GPU.

    Raises:
        ValueError: Times do not ascend, which a CPU looks at.
        torch.OutOfMemoryError: Memory can't be pinned.
    """
    keys = {window.name for window in samples.windows}
    groups = {group: members for group, members in wanted.groups.items() if members[0] in keys}
    plan = make_plan(samples, wanted.order, torch.device("cpu"))
    with on_device(device):
        return DiskWindows(plan, wanted._replace(windows=samples.windows, groups=groups))


# Not a method, and an address: a job that is left over must keep neither a loader nor pinned
# memory, which the worker would have to give back.
def _make_next(
    plan: BatchPlan, sampler_state: SamplerState, size: int, windows_address: int
) -> None:
    plan.next(sampler_state.state_address, size, windows_address, 0, 0)


def _out_of(memory: Tensor) -> Callable[[Sequence[int], Sequence[int], torch.dtype], Tensor]:
    """Makes tensors in bytes of memory, one after the other."""
    begin = 0

    def empty(shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> Tensor:
        nonlocal begin
        count = math.prod(shape) * dtype.itemsize
        part = memory[begin : begin + count]
        begin += slot_bytes(count)
        return part.view(dtype).view(shape)

    return empty
