"""The tensors of a batch: allocated, or used again, and their addresses for the plan."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from robocache.core import dtypes, torch_private
from robocache.loader.plan import BatchMetadata, WindowOutput
from robocache.loader.window_spec import WindowSpec

Batch: TypeAlias = dict[str, Tensor]

INTEGER_METADATA = ("index", "episode_index", "frame_index", "task_index", "timestamp_ns")
METADATA = (*INTEGER_METADATA, "timestamp")
DATASET = "dataset_index"  # a fact of mixtures alone
PAD, AGE, DIM_PAD = "_is_pad", "_age", "_dim_is_pad"


class Writer(NamedTuple):
    """Where a stream of a plan writes, if not all of a window is its own."""

    key: str  # the window's
    column: int = 0  # the first element of a row
    has_mask: bool = True  # whether it writes mask and age too


class MixtureOutputs(NamedTuple):
    """The writer of each output of a mixture, and keys whose vectors differ in width."""

    writers: Sequence[Writer]  # of the plan's first streams, in their order
    widths: Sequence[str]  # windows with a mask of dimensions, which the streams after them write


@dataclass(frozen=True)
class _Values:
    """A tensor of values of the batch: of one window, or of several side by side."""

    key: str
    shape: tuple[int, ...]  # of a sample
    dtype: torch.dtype
    members: tuple[tuple[Any, int], ...]  # (WindowOutput, bytes before its columns)


class _Empty(NamedTuple):
    """A tensor to be allocated, as torch's allocating function takes it."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype


class _Blanks(NamedTuple):
    """The tensors of a batch of some size."""

    values: list[tuple[str, _Empty, tuple[tuple[Any, int], ...]]]
    masks: list[tuple[str, _Empty, Sequence[Any]]]
    ages: list[tuple[str, _Empty, Sequence[Any]]]
    integers: _Empty  # [5,B], of a mixture [6,B]
    timestamp: _Empty  # [B]


class Outputs:
    """Allocates batches, and knows where they are.

    Args:
        windows: In the order of the batch; without `mixture` also that of the plan's streams.
        concat: Keys of the batch that have several windows side by side.
        with_age: Whether ages are wanted.
        device: Where the batch is to be.
        full: Samples of a full batch, if batches of a size are to be the same tensors every time:
            full ones, and those of the size that came last beside it. None: all are new.
        mixture: Of a mixture.
        staged: Windows that the plan does not make; those that it makes come first in its array.
        empty: Makes a contiguous tensor of a shape, with strides, of a type; None: torch does.

    Attributes:
        is_kept: Whether batches of a size are the same tensors every time.
        windows_address: Of the plan's array of WindowOutput; the last batch's addresses are in it.
        facts_address: Of its BatchMetadata.
        sample_bytes: Bytes of one sample.
        keys: Of values.
    """

    def __init__(
        self,
        windows: Sequence[WindowSpec],
        concat: Mapping[str, Sequence[str]],
        with_age: bool,
        device: torch.device,
        full: int | None = None,
        mixture: MixtureOutputs | None = None,
        staged: Collection[str] = (),
        empty: Callable[[Sequence[int], Sequence[int], torch.dtype], Tensor] | None = None,
    ) -> None:
        own = [Writer(window.name) for window in windows]
        writers = own if mixture is None else mixture.writers
        widths = () if mixture is None else mixture.widths
        self._array = (WindowOutput * (len(writers) + len(widths)))()
        self._metadata = BatchMetadata()
        self.windows_address = ctypes.addressof(self._array)
        self.facts_address = ctypes.addressof(self._metadata)
        if empty is None:
            is_cuda = device.type == "cuda"
            # Allocation is most of the cost of a small batch.
            empty = torch_private.empty_strided_cuda if is_cuda else torch_private.empty_strided_cpu
        self._empty = empty
        self._blanks: dict[int, _Blanks] = {}
        self._kept: dict[int, tuple[Batch, bytes, bytes]] = {}
        self._full = full
        self.is_kept = full is not None
        in_array = sorted(writers, key=lambda writer: writer.key in staged)
        slots = [(writer, self._array[i]) for i, writer in enumerate(in_array)]
        by_key = {window.name: window for window in windows}
        group_of = {key: group for group, keys in concat.items() for key in keys}
        self._values: list[_Values] = []
        for group in dict.fromkeys(group_of.get(window.name, window.name) for window in windows):
            members = [by_key[key] for key in concat.get(group, (group,))]
            self._values.append(_side_by_side(group, members, slots, group in concat))
        self.keys = [values.key for values in self._values]
        self._integers = INTEGER_METADATA if mixture is None else (*INTEGER_METADATA, DATASET)
        # A window of a stream that is named like a fact stands in its place.
        self._hidden = [name for name in (*self._integers, "timestamp") if name in self.keys]
        for i, key in enumerate(widths, len(writers)):
            slot, elements = self._array[i], by_key[key].elements
            slot.row_stride = elements
            self._values.append(_Values(key + DIM_PAD, (elements,), torch.bool, ((slot, 0),)))

        def masks(window: WindowSpec, ending: str) -> tuple[str, Sequence[Any], tuple[int, ...]]:
            of_window = [slot for to, slot in slots if to.key == window.name and to.has_mask]
            return window.name + ending, of_window, _steps_shape(window)

        self._masks = [masks(window, PAD) for window in windows]
        self._ages = [masks(window, AGE) for window in windows if with_age]
        values_bytes = sum(math.prod(v.shape) * v.dtype.itemsize for v in self._values)
        steps = sum(len(window.offsets) for window in windows)
        facts_bytes = len(self._integers) * 8 + 4
        facts_bytes -= sum(4 if name == "timestamp" else 8 for name in self._hidden)
        self.sample_bytes = values_bytes + steps * (9 if with_age else 1) + facts_bytes

    def take(self, size: int) -> Batch:
        """A batch of so many samples, to be written next: its addresses are set."""
        if not self.is_kept:
            return self.allocate(size)
        kept = self._kept.get(size)
        if kept is None:
            if size != self._full:  # which a graph may write to
                self._kept = {own: b for own, b in self._kept.items() if own == self._full}
            with torch.inference_mode(False):  # others get it too
                batch = self.allocate(size)
            self._kept[size] = (batch, bytes(self._array), bytes(self._metadata))
            return dict(batch)
        batch, array, metadata = kept
        ctypes.memmove(self.windows_address, array, len(array))
        ctypes.memmove(self.facts_address, metadata, len(metadata))
        return dict(batch)

    def nbytes(self, size: int, take: Callable[[int], int]) -> int:
        """Bytes of a batch, where a tensor of some bytes takes what a function says."""
        blanks = self._make_blanks(size)
        found = [blanks.integers, blanks.timestamp]
        for part in (blanks.values, blanks.masks, blanks.ages):
            found += [blank for _, blank, _ in part]
        return sum(take(math.prod(blank.shape) * blank.dtype.itemsize) for blank in found)

    def allocate(self, size: int) -> Batch:
        """A batch of new tensors, to be written next, also where others are kept."""
        # Short on purpose.
        blanks = self._blanks.get(size)
        if blanks is None:
            blanks = self._blanks[size] = self._make_blanks(size)
        empty, metadata = self._empty, self._metadata
        batch: Batch = {}
        for key, blank, members in blanks.values:
            batch[key] = tensor = empty(*blank)
            address = tensor.data_ptr()
            for slot, offset in members:
                slot.values = address + offset
        for key, blank, slots in blanks.masks:
            batch[key] = tensor = empty(*blank)
            address = tensor.data_ptr()
            for slot in slots:
                slot.is_pad = address
        for key, blank, slots in blanks.ages:
            batch[key] = tensor = empty(*blank)
            address = tensor.data_ptr()
            for slot in slots:
                slot.age_ns = address
        hiding = {name: batch[name] for name in self._hidden}
        integers = empty(*blanks.integers)
        (
            batch["index"],
            batch["episode_index"],
            batch["frame_index"],
            batch["task_index"],
            batch["timestamp_ns"],
            *of_mixture,
        ) = integers.unbind(0)
        metadata.index = address = integers.data_ptr()
        step = 8 * size
        metadata.episode_index = address + step
        metadata.frame_index = address + 2 * step
        metadata.task_index = address + 3 * step
        metadata.timestamp_ns = address + 4 * step
        if of_mixture:
            batch[DATASET] = of_mixture[0]
            metadata.dataset_index = address + 5 * step
        batch["timestamp"] = tensor = empty(*blanks.timestamp)
        metadata.timestamp = tensor.data_ptr()
        if hiding:
            batch.update(hiding)
            for name in hiding:  # whose memory nothing may hold any more
                setattr(metadata, name, None)
        return batch

    def _make_blanks(self, size: int) -> _Blanks:
        def blank(shape: tuple[int, ...], dtype: torch.dtype) -> _Empty:
            return _Empty(shape, torch.empty(shape, device="meta").stride(), dtype)

        return _Blanks(
            [(v.key, blank((size, *v.shape), v.dtype), v.members) for v in self._values],
            [(key, blank((size, *shape), torch.bool), slots) for key, slots, shape in self._masks],
            [(key, blank((size, *shape), torch.int64), slots) for key, slots, shape in self._ages],
            blank((len(self._integers), size), torch.int64),
            blank((size,), torch.float32),
        )


def _steps_shape(window: WindowSpec) -> tuple[int, ...]:
    return (len(window.offsets),) if window.has_axis else ()


def _side_by_side(
    key: str, windows: Sequence[WindowSpec], slots: Sequence[tuple[Writer, Any]], is_group: bool
) -> _Values:
    """One window as it is, or a group's, whose rows are vectors then."""
    width = sum(window.elements for window in windows)
    dtype = windows[0].torch_out_dtype
    members = []
    column = 0
    for window in windows:
        for writer, slot in slots:
            if writer.key != window.name:
                continue
            slot.row_stride = width
            members.append((slot, (column + writer.column) * dtype.itemsize))
        column += window.elements
    shape = (*_steps_shape(windows[0]), width) if is_group else windows[0].out_shape
    return _Values(key, shape, dtype, tuple(members))


def check_names(
    windows: Sequence[WindowSpec],
    with_age: bool,
    option: str = "windows",
    widths: Sequence[str] = (),
) -> None:
    """That no stream is named like another's mask or age, of which the batch could have one only.

    Raises:
        ValueError: `<option>: expected ..., got ...`.
    """
    keys = {window.name for window in windows}
    for key in (window.name for window in windows):
        for ending in (PAD,) + (AGE,) * with_age + (DIM_PAD,) * (key in widths):
            if key + ending in keys:
                raise ValueError(
                    f"{option}: expected keys that are no stream's mask or age, got "
                    f"{key + ending!r} beside {key!r}"
                )


def check_concat(
    concat: object, windows: Sequence[WindowSpec], metadata: Sequence[str] = METADATA
) -> dict[str, tuple[str, ...]]:
    """That windows can stand side by side: vectors of a type, at the same offsets.

    Raises:
        TypeError, ValueError: `concat[<key>]: expected ..., got ...`.
    """
    if concat is None:
        return {}
    if not isinstance(concat, Mapping):
        raise TypeError(
            f"concat: expected streams for each key, as in {{'obs': ['joints', 'gripper']}}, "
            f"got {type(concat).__name__}"
        )
    by_key = {window.name: window for window in windows}
    taken: dict[str, str] = {}
    groups: dict[str, tuple[str, ...]] = {}
    for group, keys in concat.items():
        name = f"concat[{group!r}]"
        if not isinstance(group, str):
            raise TypeError(f"concat: expected names of keys, got {group!r}")
        if isinstance(keys, str) or not isinstance(keys, Sequence) or not keys:
            raise TypeError(f"{name}: expected a list of streams, got {keys!r}")
        for key in keys:
            if not isinstance(key, str) or key not in by_key:
                raise ValueError(
                    f"{name}: expected streams of the batch ({', '.join(by_key)}), got {key!r}"
                )
            if key in taken:
                raise ValueError(
                    f"{name}: expected each stream once, got {key!r}, which concat[{taken[key]!r}] "
                    "has"
                )
            taken[key] = group
        check_group(name, [by_key[key] for key in keys])
        groups[group] = tuple(keys)
    names = [window.name for window in windows if window.name not in taken]
    reserved = {window.name + ending for window in windows for ending in (PAD, AGE)}
    for group in groups:
        if group in names or group in metadata or group in reserved:
            raise ValueError(f"concat: expected keys that the batch has not, got {group!r}")
    return groups


def check_group(name: str, windows: Sequence[WindowSpec]) -> None:
    """That these windows of a loader, one at least, can stand side by side.

    Raises:
        ValueError: `<name>: expected ..., got ...`.
    """
    first = windows[0]
    for window in windows:
        if len(window.shape) > 1:
            raise ValueError(
                f"{name}: expected rows that are vectors, got {window.name} of shape "
                f"{list(window.shape)}"
            )
        if window.out_dtype != first.out_dtype:
            raise ValueError(
                f"{name}: expected {dtypes.dtype_name(first.torch_out_dtype)} like {first.name}, "
                f"got {dtypes.dtype_name(window.torch_out_dtype)} of {window.name} "
                "(rc.Window(dtype=) changes it)"
            )
        if (window.has_axis, window.timeline, window.offsets) != (
            first.has_axis,
            first.timeline,
            first.offsets,
        ):
            raise ValueError(f"{name}: expected the offsets of {first.name} for {window.name} too")
