"""`RaggedArray`: rows of different lengths in one array, as streams of such rows have them.

Row i is items[offsets[i] : offsets[i + 1]]:

    items      a0 a1 a2 | c0 | d0 d1        [M, *item_shape]
    offsets    0         3  3  4       6    [N+1]; row 1 has no items
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robocache.core.display import counted


class ArraySequence(Sequence[NDArray[Any]]):
    """A sequence of arrays, whose `in`, `index` and `count` compare whole arrays."""

    def __contains__(self, value: Any) -> bool:
        return any(np.array_equal(row, value) for row in self)

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """Returns the index of the first row that is equal to an array.

        Args:
            value: The array.
            start: The first row to compare; negative from the end, as in a slice.
            stop: The row after the last one to compare; None: all.

        Raises:
            ValueError: No row is equal.
        """
        for row in range(*slice(start, stop).indices(len(self))):
            if np.array_equal(self[row], value):
                return row
        raise ValueError("value: expected an array that is a row, got none")

    def count(self, value: Any) -> int:
        """Returns the number of rows that are equal to an array."""
        return sum(np.array_equal(row, value) for row in self)


class RaggedArray(ArraySequence):
    """Rows of different lengths: `rows[i]` is an array [n, *item_shape] with its own n.

    Slices are views; integer and boolean arrays select rows, as in NumPy. PyTorch takes the two
    arrays as they are: `torch.nested.nested_tensor_from_jagged(items, offsets)`.

    Args:
        items: [M, *item_shape], the items of all rows, one row after the other.
        offsets: [N+1] integers that ascend from 0 to M: row i has the items from `offsets[i]` up to
            `offsets[i + 1]`. A row may have none.

    Raises:
        TypeError: The offsets are no integers.
        ValueError: `items` has no axis, or the offsets do not ascend from 0 to M.

    Example:
        >>> clouds = rc.RaggedArray.from_rows([np.zeros((5, 3)), np.ones((2, 3))])
        >>> clouds[1].shape, clouds.lengths.tolist()
        ((2, 3), [5, 2])
    """

    def __init__(self, items: ArrayLike, offsets: ArrayLike) -> None:
        self.items: NDArray[Any] = np.asarray(items)
        """[M, *item_shape], the items of all rows."""
        if self.items.ndim == 0:
            raise ValueError("items: expected [M, ...], got a scalar")
        self.offsets: NDArray[np.int64] = _checked_offsets(offsets, len(self.items))
        """[N+1], where each row begins, and M."""

    @classmethod
    def from_rows(cls, rows: Iterable[ArrayLike]) -> RaggedArray:
        """Joins rows of different lengths.

        Args:
            rows: Arrays [n, *item_shape], each with its own n; at least one.

        Raises:
            ValueError: There are no rows, or their items differ in type or shape.
        """
        arrays = [np.asarray(row) for row in rows]
        if not arrays:
            raise ValueError("rows: expected at least 1 row, got none")
        first = arrays[0]
        for i, array in enumerate(arrays):
            if array.ndim == 0:
                raise ValueError(f"rows[{i}]: expected [n, ...], got a scalar")
            if (array.dtype, array.shape[1:]) != (first.dtype, first.shape[1:]):
                raise ValueError(
                    f"rows[{i}]: expected {_text(first)}, as rows[0], got {_text(array)}"
                )
        offsets = np.cumsum([0, *map(len, arrays)], dtype=np.int64)
        return cls(np.concatenate(arrays), offsets)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self.items.dtype

    @property
    def item_shape(self) -> tuple[int, ...]:
        """Shape of one item: () for a number, (3,) for a point."""
        return self.items.shape[1:]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[N], the number of items of each row."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> NDArray[Any]: ...

    @overload
    def __getitem__(self, index: slice | ArrayLike) -> RaggedArray: ...

    def __getitem__(self, index: Any) -> NDArray[Any] | RaggedArray:
        """Returns row `index` as a view; several rows for a slice, or an array as in NumPy.

        Raises:
            IndexError: A row is out of range.
            TypeError: `index` is no integer, slice, or array of integers or bool.
        """
        if isinstance(index, slice) and index.step in (None, 1):
            begin, end, _ = index.indices(len(self))
            end = max(begin, end)
            first = self.offsets[begin]
            return of_checked_offsets(
                self.items[first : self.offsets[end]], self.offsets[begin : end + 1] - first
            )
        if isinstance(index, slice) or np.ndim(index):
            return self._taken(np.arange(len(self))[index])
        row = operator.index(index)
        if not -len(self) <= row < len(self):
            raise IndexError(f"row: expected an index below {len(self)}, got {row}")
        row %= len(self)
        return self.items[self.offsets[row] : self.offsets[row + 1]]

    def _taken(self, rows: NDArray[np.intp]) -> RaggedArray:
        """A copy of rows, in the order of their indices."""
        lengths = self.lengths[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[rows] - offsets[:-1], lengths)
        return of_checked_offsets(self.items[places], offsets)

    def __array__(self, *args: object, **kwargs: object) -> NDArray[Any]:
        """Refuses the conversion: rows of different lengths are no array.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            "expected an array, got rows of different lengths (one row is `rows[i]`, the items of "
            "all rows are `rows.items`)"
        )

    def __repr__(self) -> str:
        shape = ", ".join(["*", *map(str, self.item_shape)])
        size = counted(len(self), "row"), counted(len(self.items), "item")
        return f"RaggedArray({size[0]} of {self.dtype}[{shape}], {size[1]})"


def of_checked_offsets(items: NDArray[Any], offsets: NDArray[np.int64]) -> RaggedArray:
    """A ragged array, of offsets that are known to fit the items."""
    array = RaggedArray.__new__(RaggedArray)
    array.items, array.offsets = items, offsets
    return array


def _checked_offsets(offsets: ArrayLike, items: int) -> NDArray[np.int64]:
    array = np.asarray(offsets)
    if array.dtype.kind not in "iu" or array.dtype == np.uint64:
        raise TypeError(f"offsets: expected int64, got {array.dtype}")
    if array.ndim != 1 or not len(array):
        raise ValueError(f"offsets: expected [N+1], got {list(array.shape)}")
    array = array.astype(np.int64, copy=False)
    if array[0] != 0 or array[-1] != items:
        raise ValueError(
            f"offsets: expected 0 first and {items} last, for {items} items, "
            f"got {array[0]} and {array[-1]}"
        )
    descends = array[1:] < array[:-1]
    if descends.any():
        i = int(np.argmax(descends))
        raise ValueError(
            f"offsets: expected offsets that ascend, got {array[i + 1]} after {array[i]} at row {i}"
        )
    return array


def _text(array: NDArray[Any]) -> str:
    return f"{array.dtype}[{', '.join(['*', *map(str, array.shape[1:])])}]"


def flags_of_items(
    flags: NDArray[np.bool_], offsets: NDArray[np.int64], begin: int, end: int
) -> NDArray[np.bool_]:
    """The flag of its row for each item from `begin` up to `end`."""
    first = int(np.searchsorted(offsets, begin, "right")) - 1
    last = int(np.searchsorted(offsets, end, "left"))
    lengths = np.diff(offsets[first : last + 1].clip(begin, end))
    return np.repeat(flags[first:last], lengths)
