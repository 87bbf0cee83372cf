"""`LiveBatch`: the result of a query, with the ticket by which `undo` knows the query again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from torch import Tensor

from robocache.core import torch_private


class LiveTicket(NamedTuple):
    """Identifies a query of a :class:`LiveAligner`."""

    sequence: int
    """The query's number: ascending, and unique in the process."""
    now_ns: int
    """The query's anchor time, in ns; that of the first robot if each has its own."""


class LiveBatch(dict[str, Tensor]):
    """A batch of :meth:`LiveAligner.query`: a dict of tensors by key, with the query's `ticket`.

    :meth:`LiveAligner.undo` takes the batch, or its ticket alone. A copy as a plain dict has no
    ticket; ``torch.utils._pytree.tree_map`` keeps it.
    """

    ticket: LiveTicket | None = None
    """The ticket of the query; None for a batch that no query made."""


class _Keys(tuple[str, ...]):
    """The keys of a batch, as the context of torch's pytrees: batches of equal keys are alike."""

    ticket: LiveTicket | None = None


def _flatten(batch: LiveBatch) -> tuple[list[Tensor], _Keys]:
    keys = _Keys(batch)
    keys.ticket = batch.ticket
    return list(batch.values()), keys


def _unflatten(values: Iterable[Any], keys: _Keys) -> LiveBatch:
    batch = LiveBatch(zip(keys, values, strict=True))
    batch.ticket = keys.ticket
    return batch


torch_private.register_mapping(LiveBatch, _flatten, _unflatten)
