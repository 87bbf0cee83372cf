"""What makes the batches of a loader: rows in their tiers, plans, batches made ahead of need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from robocache.loader.indices import check_indices
from robocache.loader.memory.disk_windows import DiskWindows, disk_windows
from robocache.loader.memory.file_rows import FileRows
from robocache.loader.memory.prefetch import Prefetcher
from robocache.loader.memory.tiers import BatchOptions, parse_budget, place
from robocache.loader.outputs import Batch, Outputs
from robocache.loader.plan import BatchPlan
from robocache.loader.plan_inputs import PlanInputs, load_streams, make_plan
from robocache.loader.stats import Counters


class Engine(NamedTuple):
    """What a loader has to make batches with."""

    plan: BatchPlan  # of the windows that are made where the batch is
    outputs: Outputs
    disk: DiskWindows | None = None  # the other windows
    ahead: Prefetcher | None = None  # where some rows are not on the GPU

    def check_capture(self, transforms: Sequence[object]) -> None:
        """That a CUDA graph may be captured which makes batches.

        Raises:
            RuntimeError: It may not.
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

    def gather(self, indices: object, device: torch.device, stream: int) -> Batch:
        """The samples of some indices, as :meth:`Loader.gather` takes them, on a stream of CUDA.

        Raises:
            TypeError, ValueError: `indices: expected ..., got ...`.
        """
        plan, outputs, disk, _ = self
        where = device
        if disk is not None:  # the CPU looks for its part
            where = torch.device("cpu")
            indices = indices.cpu() if isinstance(indices, Tensor) else indices
        checked = check_indices(indices, plan.anchors.size(0), where)
        size = checked.numel()
        batch = outputs.take(size)
        if disk is not None:
            disk.gather(checked, batch)
            checked = checked.to(device)
        if size:
            plan.gather(
                checked.data_ptr(), size, outputs.windows_address, outputs.facts_address, stream
            )
        return batch


def make_engine(
    samples: PlanInputs,
    rows: Mapping[str, FileRows],
    wanted: BatchOptions,
    budget: object,
    device: torch.device,
    counters: Counters,
) -> Engine:
    """Loads rows into the tier of each stream, and makes what makes batches of them.

    Args:
        samples: What they are of, without streams.
        rows: Of each window, by key.
        wanted: What is wanted of batches.
        budget: The user's.
        device: Where batches are to be.
        counters: Learn what is held, and read of which tier.

    Raises:
        TypeError, ValueError: A budget is none, or too small; times do not ascend.
        torch.OutOfMemoryError: The memory can't be had; where it is known, before any is taken.
    """
    limits = parse_budget(budget, device)
    # Beside streams: the tables, and two states of sampler_state.
    tables = (samples.anchors.nbytes, samples.episodes.nbytes, 32, 32)
    placed = place(wanted, rows, tables, limits, device)
    streams = load_streams(samples, rows, placed, wanted.with_age, device, limits is not None)
    samples = samples._replace(streams=streams)
    counters.sample_reads, counters.resident = samples.read_bytes(), samples.nbytes(device)
    order, is_gpu = wanted.order, _is_gpu(device)
    # A CPU reads files as it reads memory.
    far = [w for w in wanted.windows if is_gpu and placed[w.name] == "disk"]
    near = [w for w in wanted.windows if not (is_gpu and placed[w.name] == "disk")]
    full = order.size(0) if wanted.reuse else None
    outputs = Outputs(
        wanted.windows,
        wanted.groups,
        wanted.with_age,
        device,
        full,
        staged={window.name for window in far},
    )
    plan = make_plan(samples._replace(windows=near), order, device)
    disk = disk_windows(samples._replace(windows=far), wanted, device) if far else None
    ahead = None
    if is_gpu and any(tier != "gpu" for tier in placed.values()):
        ahead = Prefetcher(order, plan, outputs, disk, device, counters)
    return Engine(plan, outputs, disk, ahead)


def _is_gpu(device: torch.device) -> bool:
    return device.type == "cuda"
