"""`Order`: the order of samples and the sizes of batches, as the host computes them."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from robocache.core.checks import check_integer


@dataclass(frozen=True)
class Order:
    """How an epoch of samples is shared out into batches, over ranks.

    A position counts samples of all ranks from the epoch's start. Of the places from there on, rank
    r takes those at r, r + ranks, r + 2 ranks, and so on.

    Where the store is split over ranks, each has an order of its own, of its own samples: `rank` is
    0 then, `ranks` 1, and a position counts the samples of each rank.

    Attributes:
        samples: Of an epoch.
        batch_size: Of a rank.
        seed: The user's.
        drop_last: Whether an epoch ends with its last full batch. Without it the last one is
            smaller, and may have a sample more on some ranks than on others; only a rest of fewer
            samples than ranks is left out, so that all ranks have as many batches.
    """

    samples: int
    batch_size: int
    seed: int = 0
    shuffle: bool = True
    drop_last: bool = False
    rank: int = 0
    ranks: int = 1
    share: int = 0
    """Which part of a store this is that is split over ranks."""
    shares: int = 1
    """How many such parts there are."""

    @property
    def key(self) -> int:
        """The seed of what is drawn: the user's, or that of a share, which no other has."""
        return self.seed if self.shares == 1 else derived_seed(self.seed, self.share)

    # These two are asked for with every batch.

    @cached_property
    def stride(self) -> int:
        """Samples of a global batch."""
        return self.ranks * self.batch_size

    @cached_property
    def least(self) -> int:
        """With fewer samples than these left, an epoch is over."""
        return self.stride if self.drop_last else self.ranks

    @property
    def batches(self) -> int:
        """Batches of an epoch."""
        whole, rest = divmod(self.samples, self.stride)
        return whole + (1 if rest >= self.least else 0)

    def size(self, position: int) -> int:
        """The samples of this rank's batch at a position."""
        left = self.samples - position - self.rank
        return min(self.batch_size, -(-left // self.ranks))

    def after(self, epoch: int, position: int) -> tuple[int, int]:
        """Epoch and position of the batch after that at a position."""
        return self.rolled(epoch, position + self.stride)

    def rolled(self, epoch: int, position: int) -> tuple[int, int]:
        """The position, or the start of the next epoch if too few samples remain."""
        if self.samples - position < self.least:
            return epoch + 1, 0
        return epoch, position


_MAX_BATCH = 2**29 - 1  # which kernels count
_MAX_RANKS = 2**31 - 1  # so that the samples of a global batch are counted in 64 bits


def make_order(
    samples: int,
    batch_size: object,
    seed: object,
    shuffle: bool,
    drop_last: bool,
    rank: int,
    ranks: int,
    is_split: bool = False,
) -> Order:
    """Checks the options.

    Args:
        samples: Of an epoch; where the store is split, of each rank's.
        batch_size: Of a rank.
        seed: Decides the permutation.
        shuffle: Whether there is one.
        drop_last: Whether a smaller last batch is left out.
        rank: As :func:`find_ranks` gives it.
        ranks: Likewise.
        is_split: Whether each rank has its own samples.

    Raises:
        TypeError, ValueError: `<option>: expected ..., got ...`.
    """
    order = Order(
        samples,
        check_integer("batch_size", batch_size, 1, _MAX_BATCH),
        check_integer("seed", seed, 0, 2**64 - 1),
        shuffle,
        drop_last,
        *((0, 1, rank, ranks) if is_split else (rank, ranks)),
    )
    if samples < order.least:
        if drop_last:
            most = samples // order.ranks
            of = f"{samples} samples and {ranks} ranks"
            if is_split:
                of = f"{samples} samples for the rank with the fewest"
            raise ValueError(
                f"batch_size: expected at most {most} with drop_last=True, {of}, "
                f"got {order.batch_size}"
            )
        raise ValueError(f"world_size: expected at most the {samples} samples, got {ranks}")
    return order


def find_ranks(rank: object, world_size: object) -> tuple[int, int]:
    """Which rank this is of how many; torch.distributed says what users do not.

    Raises:
        TypeError, ValueError: `<option>: expected ..., got ...`.
    """
    if (rank is None) != (world_size is None):
        raise ValueError(
            f"rank: expected rank and world_size together, got rank={rank}, world_size={world_size}"
        )
    if rank is None:
        rank, world_size = _distributed()
    ranks = check_integer("world_size", world_size, 1, _MAX_RANKS)
    return check_integer("rank", rank, 0, ranks - 1), ranks


def _distributed() -> tuple[int, int]:
    """Rank and number of ranks, as torch.distributed has them."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    said = os.environ.get("WORLD_SIZE", "1")
    if "RANK" in os.environ and said.isdecimal() and int(said) > 1:
        # All ranks would train on the same samples, and nobody would notice.
        raise ValueError(
            f"world_size: expected torch.distributed.init_process_group() before the loader, or "
            f"rank and world_size, got neither in a job with WORLD_SIZE={said}"
        )
    return 0, 1


def derived_seed(*numbers: int) -> int:
    """A seed of several numbers; neighbors have seeds without a pattern."""
    digest = hashlib.blake2b(repr(numbers).encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "little") >> 1
