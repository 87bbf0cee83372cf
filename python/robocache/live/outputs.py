"""The tensors of a LiveAligner's batches, and selections of their keys."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_void_p
from typing import Any, NamedTuple

import torch
from torch import Tensor

from robocache.live.arguments import contiguous_strides
from robocache.live.library import Aligner
from robocache.loader.policy_spec import PolicySpec


class Selection(NamedTuple):
    """Some keys of a batch."""

    pointer: c_void_p
    """The library's selection."""
    names: tuple[str, ...]
    """The keys of the tensors: of values, masks and ages."""


class Outputs:
    """The tensors that queries write: views of one piece of memory.

    Args:
        aligner: Writes the memory.
        spec: The spec of its batches.
        device: The device of the tensors.
        reuse: Whether every query writes to the same memory.
    """

    def __init__(
        self, aligner: Aligner, spec: PolicySpec, device: torch.device, reuse: bool
    ) -> None:
        self._aligner, self._spec, self._device = aligner, spec, device
        # All values come first, then a mask and an age of each stream.
        streams = sum(not stream.reaches_ahead for stream in spec.streams)
        values = len(aligner.outputs) - 2 * streams
        self._places = [
            (o.key, o.dtype, o.shape, contiguous_strides(o.shape), o.offset // o.dtype.itemsize)
            for i, o in enumerate(aligner.outputs)
            if spec.with_age or i < values or not o.key.endswith("_age")
        ]
        self._words = -(-aligner.output_bytes // 8)
        self._dtypes = {place[1] for place in self._places}
        self._selections: dict[tuple[str, ...], Selection] = {}
        self._reused = self._allocate() if reuse else None

    @property
    def names(self) -> list[str]:
        """The keys of all tensors."""
        return [place[0] for place in self._places]

    def tensors(self) -> tuple[Tensor, dict[str, Tensor]]:
        """The memory that a query writes, and its tensors by key."""
        return self._reused or self._allocate()

    def select(self, keys: Sequence[str]) -> Selection:
        """A selection of keys; the same for the same keys.

        Raises:
            TypeError: `keys` is not a list or tuple of names.
            ValueError: A key is not one that a query returns, or there is none.
        """
        if not isinstance(keys, (list, tuple)):
            raise TypeError(f"keys: expected a list of keys, got {type(keys).__name__}")
        wrong: Any = next((key for key in keys if not isinstance(key, str)), None)
        if wrong is not None:
            raise TypeError(f"keys: expected names of keys, got {type(wrong).__name__}")
        found = self._selections.get(tuple(keys))
        if found is None:
            found = Selection(self._aligner.select(keys), tuple(self._arrays_of(keys)))
            self._selections[tuple(keys)] = found
        return found

    def _arrays_of(self, keys: Sequence[str]) -> list[str]:
        """The keys of the tensors of some keys, with their masks and ages."""
        arrays = {"dataset_index", *keys}
        for key in keys:
            for name in map(self._spec.key_of, self._spec.streams_of(key)):
                arrays |= {f"{name}_is_pad", f"{name}_age", f"{name}_dim_is_pad"}
        return [name for name in self.names if name in arrays]

    def _allocate(self) -> tuple[Tensor, dict[str, Tensor]]:
        # A short path: most of the time of a small query is spent here.
        storage = torch.empty(self._words, dtype=torch.int64, device=self._device)
        typed = {dtype: storage.view(dtype) for dtype in self._dtypes}
        return storage, {
            key: typed[dtype].as_strided(shape, strides, offset)
            for key, dtype, shape, strides, offset in self._places
        }
