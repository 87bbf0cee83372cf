"""`DiskWindows`: windows of rows on disk, assembled on the CPU for batches on a GPU."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from robocache.loader.device import on_device
from robocache.loader.frames.decoder import FrameDecoder, FrameStream, FrameWindow
from robocache.loader.frames.resident import MappedFrames
from robocache.loader.frames.stage import FrameStage, StageWriter, stage_sizes
from robocache.loader.memory.deferred_cuda import make_worker
from robocache.loader.memory.pinned import pinned_empty
from robocache.loader.memory.tiers import PREFETCH_DEPTH, BatchOptions, slot_bytes
from robocache.loader.outputs import AGE, PAD, Batch, Outputs
from robocache.loader.plan import BatchPlan
from robocache.loader.plan_inputs import PlanInputs, make_plan
from robocache.loader.sampling.sampler_state import SamplerState
from robocache.loader.scratch import AddressBlock
from robocache.loader.window_spec import WindowSpec, base_window


class DiskFrames(NamedTuple):
    """A window of JPEG frames in the store's files."""

    window: WindowSpec  # of the decoded frames
    frames: MappedFrames
    tables: Tensor  # in pinned memory

    def make_stage(self, size: int, empty: Callable[[int], Tensor]) -> FrameStage:
        """A stage for `size` samples, in memory that a function allocates."""
        count = size * len(self.window.offsets)
        return FrameStage(self.frames.sources, self.frames.table, count, empty)


class Slot:
    """Pinned memory for the disk windows of one batch, with one user at a time."""

    def __init__(
        self,
        outputs: Outputs,
        size: int,
        frames: Sequence[DiskFrames],
        empty: Callable[[int], Tensor],
        device: torch.device,
        damaged: Tensor | None,
    ) -> None:
        self.batch, self._block = outputs.take(size)
        self.windows_address = self._block.windows_address
        self.copied: torch.cuda.Event | None = None  # after the last copy to the GPU
        self.stages = [
            (each.make_stage(size, empty), self._block.numbers[each.window.name], each)
            for each in frames
        ]
        self.decoder = _decoder_of(self.stages, device, damaged)


class DiskWindows:
    """Prefetches windows of mapped files on the CPU, in a worker thread.

    The thread makes no CUDA calls, so that it can't disturb the capture of a graph.

    Args:
        plan: The plan of these windows, on the CPU.
        wanted: Options of the batches, with these windows in the plan's order.
        frames: Those of JPEG frames, whose files are staged and decoded on the GPU.
        device: The GPU.

    Attributes:
        keys: Keys of a batch that are copied to the GPU.
        damaged: [1] int64 on the GPU, the number of damaged frames; None without JPEG frames.
    """

    def __init__(
        self,
        plan: BatchPlan,
        wanted: BatchOptions,
        frames: Sequence[DiskFrames],
        device: torch.device,
    ) -> None:
        cpu = torch.device("cpu")
        windows, groups = list(map(base_window, wanted.windows)), wanted.groups
        with_age, order = wanted.with_age, wanted.order
        self._plan = plan
        self._sampler_state = SamplerState(order, cpu)
        self._frames, self._device = frames, device
        self.damaged = torch.zeros(1, dtype=torch.int64, device=device) if frames else None
        undecoded = [each.window.name for each in frames]
        self._outputs = Outputs(windows, groups, with_age, cpu, undecoded=undecoded)
        endings = (PAD, AGE) if with_age else (PAD,)
        masks = [window.name + ending for ending in endings for window in windows]
        self.keys = [*self._outputs.keys, *masks]  # without those of frames
        size = order.size(0)
        need = self._outputs.nbytes(size, slot_bytes)
        for each in frames:
            sizes = stage_sizes(each.frames.table, size * len(each.window.offsets))
            need += sum(map(slot_bytes, sizes))
        parts = pinned_empty((PREFETCH_DEPTH + 1) * need).chunk(PREFETCH_DEPTH + 1)
        self._slots: deque[Slot] = deque()
        for part in parts:
            cut = _out_of(part)
            outputs = Outputs(windows, groups, with_age, cpu, empty=cut, undecoded=undecoded)
            self._slots.append(Slot(outputs, size, frames, _bytes_of(cut), device, self.damaged))
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
        staged = [
            (stage.writer, number, size * len(each.window.offsets))
            for stage, number, each in slot.stages
        ]
        job = self._worker.submit(
            _make_next, self._plan, self._sampler_state, size, slot.windows_address, staged
        )
        self._slots.popleft()  # last: a failure above must not lose the slot
        return slot, job, waited

    def copy(self, slot: Slot, size: int, batch: Batch) -> None:
        """Copies a slot's windows to the GPU, on the current stream, and decodes frames.

        Args:
            slot: The slot.
            size: B.
            batch: The tensors on the GPU: values or source frames of images, masks and ages.
        """
        for key in self.keys:
            batch[key].copy_(slot.batch[key][:size], non_blocking=True)
        if slot.decoder is not None:
            _decode(slot.decoder, slot.stages, batch, size)

    def give_back(self, slot: Slot, copied: torch.cuda.Event | None) -> None:
        """Returns a slot, which may be reused after an event."""
        slot.copied = copied
        self._slots.append(slot)

    def gather(self, indices: Tensor, batch: Batch, outputs: Outputs, whole: AddressBlock) -> None:
        """Makes the windows of samples now, and copies them to the GPU's batch.

        Args:
            indices: [B] int64.
            batch: The batch on the GPU.
            outputs: The outputs that have allocated it.
            whole: Its block.
        """
        batch = outputs.targets(len(indices), batch, whole)
        made, block = self._outputs.take(len(indices))
        self._plan.gather(indices.data_ptr(), len(indices), block.windows_address, 0, 0)
        for key in self.keys:
            batch[key].copy_(made[key])
        stages = []
        for each in self._frames:
            number = block.numbers[each.window.name]
            stage = each.make_stage(len(indices), _plain_bytes)
            stage.writer.fill(number, len(indices) * len(each.window.offsets))
            stage.move_to(self._device)
            stages.append((stage, number, each))
        self._outputs.give_back(block)
        decoder = _decoder_of(stages, self._device, self.damaged)
        if decoder is not None and len(indices):
            _decode(decoder, stages, batch, len(indices))


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
    frames = []
    with on_device(device):
        for window in samples.windows:
            found = samples.streams[window.name].frames
            if isinstance(found, MappedFrames):
                tables = torch.from_numpy(found.table.tables.view(np.int32))
                pinned = pinned_empty(max(tables.nbytes, 16))[: tables.nbytes].view(torch.int32)
                frames.append(DiskFrames(base_window(window), found, pinned.copy_(tables)))
        wanted = wanted._replace(windows=samples.windows, groups=groups)
        return DiskWindows(plan, wanted, frames, device)


_Staged: TypeAlias = tuple[FrameStage, int, DiskFrames]  # with the address of the numbers


def _decoder_of(
    stages: Sequence[_Staged], device: torch.device, damaged: Tensor | None
) -> FrameDecoder | None:
    """A decoder of staged frames, with a counter of damaged ones; None without any."""
    windows = [
        FrameWindow(
            each.window.name,
            len(each.window.offsets),
            [FrameStream(each.window, stage.arrays(each.tables), each.frames.table.layout)],
        )
        for stage, _, each in stages
    ]
    return FrameDecoder(windows, device, list(stages), damaged) if windows else None


def _decode(decoder: FrameDecoder, stages: Sequence[_Staged], batch: Batch, size: int) -> None:
    """Decodes staged frames into the GPU's batch, on the current stream."""
    outputs = decoder.make_outputs()
    places = [
        (
            stage.numbers.data_ptr(),
            batch[each.window.name].data_ptr(),
            batch[each.window.name + PAD].data_ptr(),
        )
        for stage, _, each in stages
    ]
    decoder.set_outputs(outputs, size, places)
    device = decoder.damaged.device
    workspace = torch.empty(decoder.workspace_bytes(size), dtype=torch.uint8, device=device)
    decoder.decode(outputs, workspace, torch.cuda.current_stream(device).cuda_stream)


# A function of an address, not a method: an abandoned job must keep neither a loader nor pinned
# memory alive, which the worker thread would have to free.
def _make_next(
    plan: BatchPlan,
    sampler_state: SamplerState,
    size: int,
    windows_address: int,
    staged: Sequence[tuple[StageWriter, int, int]],
) -> None:
    plan.next(sampler_state.state_address, size, windows_address, 0, 0)
    for writer, numbers, count in staged:
        writer.fill(numbers, count)


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


def _bytes_of(
    empty: Callable[[Sequence[int], Sequence[int], torch.dtype], Tensor],
) -> Callable[[int], Tensor]:
    """An allocator of bytes, of one of tensors."""
    return lambda count: empty((count,), (1,), torch.uint8)


def _plain_bytes(count: int) -> Tensor:
    return torch.empty(count, dtype=torch.uint8, device="cpu")
