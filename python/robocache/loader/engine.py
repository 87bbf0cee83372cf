"""`Engine`: the plans, output tensors and prefetcher that make a loader's batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from robocache.loader.frames.decoder import FrameDecoder, FrameStream, FrameWindow
from robocache.loader.frames.resident import ResidentFrames
from robocache.loader.images.stage import ImageStage
from robocache.loader.indices import check_indices
from robocache.loader.memory.disk_windows import DiskWindows, disk_windows
from robocache.loader.memory.file_rows import FileRows
from robocache.loader.memory.prefetch import Prefetcher
from robocache.loader.memory.resident_streams import ResidentStream
from robocache.loader.memory.tiers import BatchOptions, parse_budget, place
from robocache.loader.outputs import Batch, Outputs
from robocache.loader.plan import BatchPlan
from robocache.loader.plan_inputs import PlanInputs, load_streams, make_plan
from robocache.loader.stats import Counters
from robocache.loader.window_spec import WindowSpec, base_window


class Engine(NamedTuple):
    """The parts of a loader that make batches."""

    plan: BatchPlan  # of the windows that are made where the batch is
    outputs: Outputs
    disk: DiskWindows | None = None  # the other windows
    ahead: Prefetcher | None = None  # where some rows are not on the GPU

    def check_capture(self, transforms: Sequence[object]) -> None:
        """Checks that a CUDA graph of this loader's batches can be captured.

        Raises:
            RuntimeError: Transforms or prefetched batches, which a replay could not repeat.
        """
        if transforms:
            raise RuntimeError(
                "transforms: expected none of a loader in a CUDA graph, whose replays could not "
                "seed their generator, got some"
            )
        if self.ahead is not None:
            raise RuntimeError(
                "budget: expected all rows on the GPU of a loader in a CUDA graph, got some in "
                "pinned memory or on disk, whose batches are made ahead"
            )

    def gather(
        self, indices: object, device: torch.device, stream: int, is_new: bool = False
    ) -> Batch:
        """The samples at some indices, as :meth:`Loader.gather` takes them, on a CUDA stream.

        Args:
            indices: The indices.
            device: Where the batch is.
            stream: The CUDA stream; 0 on the CPU.
            is_new: Whether the tensors are new ones, also of a loader that reuses buffers.

        Raises:
            TypeError, ValueError: `indices: expected ..., got ...`.
        """
        plan, outputs, disk, _ = self
        where = device
        if disk is not None:  # the CPU makes some of the windows
            where = torch.device("cpu")
            indices = indices.cpu() if isinstance(indices, Tensor) else indices
        checked = check_indices(indices, plan.anchors.size(0), where)
        size = checked.numel()
        batch, block = outputs.allocate(size) if is_new else outputs.take(size)
        if disk is not None:
            disk.gather(checked, batch, outputs, block)
            checked = checked.to(device)
        if size:
            plan.gather(
                checked.data_ptr(), size, block.windows_address, block.metadata_address, stream
            )
            outputs.complete(block, size, stream, is_random=False)
        outputs.give_back(block)
        return batch


def make_engine(
    samples: PlanInputs,
    rows: Mapping[str, FileRows],
    wanted: BatchOptions,
    budget: object,
    device: torch.device,
    counters: Counters,
) -> Engine:
    """Loads rows into the tier of each stream, and builds the engine of a loader.

    Args:
        samples: Windows, anchors and episodes, without streams.
        rows: The rows of each window in the store's files, by key.
        wanted: Options of the batches.
        budget: The loader's argument.
        device: Where batches are made.
        counters: Receive the resident bytes, and the bytes read per sample, by tier.

    Raises:
        TypeError, ValueError: A budget that is invalid or too small; times that do not ascend.
        torch.OutOfMemoryError: The memory can't be allocated; if the free memory is known, before
            any is allocated.
    """
    limits = parse_budget(budget, device)
    # Beside streams: the tables, and two sampler states.
    tables = (samples.anchors.nbytes, samples.episodes.nbytes, 32, 32)
    placed = place(wanted, rows, tables, limits, device)
    streams = load_streams(samples, rows, placed, wanted.with_age, device, limits is not None)
    samples = samples._replace(streams=streams)
    counters.sample_reads = samples.read_bytes(rows, device)
    counters.resident = samples.nbytes(device)
    order, is_gpu = wanted.order, _is_gpu(device)
    # A CPU reads mapped files as it reads memory.
    on_disk = [w for w in wanted.windows if is_gpu and placed[w.name] == "disk"]
    resident = [w for w in wanted.windows if not (is_gpu and placed[w.name] == "disk")]
    full = order.size(0) if wanted.reuse else None
    decoder = _make_decoder(resident, streams, device, wanted.images)
    counters.frames = samples.frames
    outputs = Outputs(
        wanted.windows,
        wanted.groups,
        wanted.with_age,
        device,
        full,
        staged={window.name for window in on_disk},
        decoder=decoder,
        images=wanted.images,
    )
    plan = make_plan(samples._replace(windows=resident), order, device)
    disk = disk_windows(samples._replace(windows=on_disk), wanted, device) if on_disk else None
    ahead = None
    if is_gpu and any(tier != "gpu" for tier in placed.values()):
        ahead = Prefetcher(order, plan, outputs, disk, device, counters)
    if decoder is not None:
        counters.damaged.append(decoder.damaged)
    if disk is not None and disk.damaged is not None:
        counters.damaged.append(disk.damaged)
    return Engine(plan, outputs, disk, ahead)


def _make_decoder(
    windows: Sequence[WindowSpec],
    streams: Mapping[str, ResidentStream],
    device: torch.device,
    images: ImageStage | None,
) -> FrameDecoder | None:
    """The decoder of the windows of JPEG frames; None without any."""
    found: list[FrameWindow] = []
    kept: list[object] = []
    for window in windows:
        frames = streams[window.name].frames
        if isinstance(frames, ResidentFrames):
            of = FrameStream(base_window(window), frames.arrays, frames.layout)
            number = None
            if window.image is not None:
                assert images is not None
                number = images.number_of(window.name)
            found.append(FrameWindow(window.name, len(window.offsets), [of], number))
            kept.append(frames)
    return FrameDecoder(found, device, kept) if found else None


def _is_gpu(device: torch.device) -> bool:
    return device.type == "cuda"
