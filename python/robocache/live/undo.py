"""Arguments, results and errors of :meth:`LiveAligner.undo`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robocache.live.arguments import floats
from robocache.live.batch import LiveBatch, LiveTicket
from robocache.live.library import LiveStatus
from robocache.loader.policy_spec import PolicySpec, relative_to

_NO_QUERY = LiveTicket(0, 0)


class PolicyOutput:
    """A policy's output, as the library takes it.

    Args:
        spec: The spec of the policy.
        key: The key of batches that the policy predicts.
        action: The output, of any shape that :meth:`LiveAligner.undo` takes.
        shape: The shape of a row of the key.
        robots: R, the number of robots.

    Raises:
        ValueError, TypeError: Another shape, or values that are not floats.
    """

    def __init__(
        self,
        spec: PolicySpec,
        key: str,
        action: NDArray[Any] | Tensor,
        shape: tuple[int, ...],
        robots: int,
    ) -> None:
        if not isinstance(action, (np.ndarray, Tensor)):
            kind = type(action).__name__
            raise TypeError(f"{key}: expected a NumPy array or a tensor, got {kind}")
        tensor = floats(key, action) if isinstance(action, np.ndarray) else action.detach()
        if not tensor.is_floating_point():
            raise TypeError(f"{key}: expected floats, got {tensor.dtype}")
        self._device, self._dtype = tensor.device, tensor.dtype
        self._is_array = isinstance(action, np.ndarray)
        first = spec.streams_of(key)[0]
        self._has_step = first.has_axis or robots == 1 or tensor.dim() != len(shape) + 1
        if not self._has_step:  # batches of this key have no axis of steps
            tensor = tensor[:, None]
        # The number of leading axes to add: that of robots, and that of steps.
        self._missing = max(len(shape) + 2 - tensor.dim(), 0) if robots == 1 else 0
        values = tensor[(None,) * self._missing]
        is_whole = values.dim() == len(shape) + 2 and self._missing <= 2
        if not is_whole or tuple(values.shape[2:]) != shape or values.size(0) != robots:
            expected = f"[R={robots},K{''.join(f',{size}' for size in shape)}]"
            raise ValueError(f"{key}: expected {expected}, got {list(tensor.shape)}")
        dtype = torch.float64 if values.dtype == torch.float64 else torch.float32
        self.values = values.to("cpu", dtype).contiguous()
        """The values, [R,K, a row's shape...], float32 or float64."""

    def restore(self, out: Tensor) -> NDArray[Any] | Tensor:
        """The result, in the output's form: its type, dtype, device and number of axes."""
        out = out[(0,) * self._missing].to(self._device, self._dtype)
        if not self._has_step:
            out = out[:, 0]
        return out.numpy() if self._is_array else out


def ticket_of(spec: PolicySpec, key: str, batch: LiveBatch | LiveTicket | None) -> LiveTicket:
    """The ticket of a batch; for a key that is relative to no stream, that of no query will do.

    Raises:
        TypeError: `batch` is another object, or misses where the key is relative to a stream.
    """
    ticket = batch.ticket if isinstance(batch, LiveBatch) else batch
    if isinstance(ticket, LiveTicket):
        return ticket
    of = relative_to(spec, key)
    if batch is None and not of:
        return _NO_QUERY
    got = "one without a ticket" if isinstance(batch, LiveBatch) else type(batch).__name__
    why = f", since {key} is relative to {of}" if of else ""
    raise TypeError(
        f"batch: expected the batch that query returned, or its ticket{why}, got {got} "
        f"(undo({key!r}, action, batch))"
    )


def check_undo(
    status: int, spec: PolicySpec, key: str, ticket: LiveTicket, kept_queries: int
) -> None:
    """Raises ValueError or RuntimeError unless a status of the library is OK."""
    if status == LiveStatus.OK:
        return
    if status == LiveStatus.NOT_INVERTIBLE:
        if all(map(spec.lacks, spec.streams_of(key))):
            raise ValueError(f"key: expected one that this robot has, got {key}")
        raise ValueError(
            f"key: expected values of floats or numbers that are computed with, got {key}"
        )
    of, query = relative_to(spec, key), f"query {ticket.sequence} at {ticket.now_ns} ns"
    if status in (LiveStatus.NO_QUERY, LiveStatus.UNKNOWN_TICKET):
        raise RuntimeError(
            f"batch: expected a query of this aligner since its last reset, one of the last "
            f"{kept_queries}, got {query} (the option kept_queries)"
        )
    if status == LiveStatus.NO_ROWS:
        raise RuntimeError(
            f"undo: expected a row of {of}, which {key} is relative to, by {query}, got none"
        )
    if status == LiveStatus.PADDED:
        raise RuntimeError(
            f"undo: expected a valid value of {of}, which {key} is relative to, in {query}, got a "
            "padded one (in training such samples are padded)"
        )
    raise RuntimeError(f"undo: {LiveStatus(status).name}")
