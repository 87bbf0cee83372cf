"""The samples of a loader one by one, for inspection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from robocache.core.display import counted
from robocache.loader.outputs import Batch


class _Source(Protocol):
    def _gather(self, indices: Sequence[int], *, is_new: bool) -> Batch: ...


class Dataset:
    """`dataset[i]` is sample i as a batch has it, without the axis of samples, on the same device.

    For inspection: a whole batch of :meth:`Loader.gather` costs as much as one of these samples.
    Any number of threads may read samples at once; each sample has tensors of its own.
    """

    def __init__(self, loader: _Source, count: int) -> None:
        self._loader = loader
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Sample `index`; negative ones count from the end.

        Raises:
            IndexError: `index` is out of range.
            TypeError: `index` is not an int.
        """
        if not hasattr(index, "__index__"):
            raise TypeError(f"sample: expected an int, got {type(index).__name__}")
        try:
            number = range(self._count)[index]
        except IndexError:
            raise IndexError(f"sample: expected below {self._count}, got {index}") from None
        return _only(self._loader._gather([number], is_new=True))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.__getitem__, range(self._count))

    def __repr__(self) -> str:
        return f"<{counted(self._count, 'sample')} of {self._loader!r}>"


def _only(batch: dict[str, Any]) -> dict[str, Any]:
    """The sample of a batch of one; batches like robomimic's have dicts in them."""
    found: dict[str, Any] = {}
    for key, values in batch.items():
        if isinstance(values, dict):
            found[key] = _only(values)
        else:
            found[key] = values[0]
    return found
