"""The tensors of a batch: new or reused ones, and their addresses for the plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from robocache.core import torch_private
from robocache.loader.frames.decoder import FrameDecoder
from robocache.loader.images.stage import ImageStage
from robocache.loader.plan import WindowOutput
from robocache.loader.scratch import AddressBlock, Allocator, Empty, Scratch, ScratchSizes, Writer
from robocache.loader.window_spec import WindowSpec, fields_without_scales
from robocache.store.library import check_group

Batch: TypeAlias = dict[str, Tensor]

INTEGER_METADATA = ("index", "episode_index", "frame_index", "task_index", "timestamp_ns")
METADATA = (*INTEGER_METADATA, "timestamp")
DATASET = "dataset_index"  # a fact of mixtures alone
PAD, AGE, DIM_PAD = "_is_pad", "_age", "_dim_is_pad"
_CPU_ALLOCATOR = "DefaultCPUAllocator"  # begins torch's text about a CPU without memory


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
    members: tuple[tuple[int, int], ...]  # (index of a WindowOutput, bytes before its columns)


class _Blanks(NamedTuple):
    """The tensors of a batch of some size."""

    values: list[tuple[str, Empty, tuple[tuple[int, int], ...]]]
    masks: list[tuple[str, Empty, Sequence[int]]]
    ages: list[tuple[str, Empty, Sequence[int]]]
    integers: Empty  # [5,B], of a mixture [6,B]
    timestamp: Empty  # [B]
    scratch: ScratchSizes


_MOST_SIZES = 64  # whose layouts are cached, each of about 2 kB


class Outputs:
    """Allocates batches, from any number of threads at once.

    A batch comes with an :class:`AddressBlock` for the call that writes it. The caller gives the
    block back after that call (:meth:`give_back`); a block that is not given back is freed.

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
        decoder: Decodes JPEG frames, of windows whose streams write numbers of frames.
        images: Makes images, of windows whose streams and frames are source frames.
        undecoded: Windows of frames of which a batch has numbers alone, in the address block.

    Attributes:
        is_kept: Whether batches of a size are the same tensors every time.
        sample_bytes: Bytes of one sample.
        keys: Of values.
        decoder: As above.
        images: As above.
        scratch: The memory beside batches, and the steps that use it.
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
        empty: Allocator | None = None,
        decoder: FrameDecoder | None = None,
        undecoded: Sequence[str] = (),
        images: ImageStage | None = None,
    ) -> None:
        frame_keys: Sequence[str] = undecoded
        if decoder is not None:
            frame_keys = list(dict.fromkeys(window.key for window in decoder.windows))
        image_keys = [] if images is None else [window.key for window in images.windows]
        own = [
            Writer(
                window.name,
                is_numbers=window.name in frame_keys,
                image=image_keys.index(window.name) if window.name in image_keys else None,
            )
            for window in windows
        ]
        writers = own if mixture is None else mixture.writers
        widths = () if mixture is None else mixture.widths
        self._template = (WindowOutput * (len(writers) + len(widths)))()
        self._spare: list[AddressBlock] = []
        if empty is None:
            is_cuda = device.type == "cuda"
            # Allocation is most of the cost of a small batch.
            empty = torch_private.empty_strided_cuda if is_cuda else torch_private.empty_strided_cpu
        self._empty = empty
        self.decoder, self.images = decoder, images
        self._blanks: dict[int, _Blanks] = {}
        # The full batch, which a graph may write to, and that of the most recent other size.
        self._kept_full: tuple[int, Batch, AddressBlock] | None = None
        self._kept_other: tuple[int, Batch, AddressBlock] | None = None
        self._full = full
        self.is_kept = full is not None
        in_array = sorted(writers, key=lambda writer: writer.key in staged)
        slots = list(zip(in_array, range(len(in_array)), strict=True))
        by_key = {window.name: window for window in windows}
        group_of = {key: group for group, keys in concat.items() for key in keys}
        self._values: list[_Values] = []
        for group in dict.fromkeys(group_of.get(window.name, window.name) for window in windows):
            members = [by_key[key] for key in concat.get(group, (group,))]
            made = _side_by_side(group, members, slots, self._template, group in concat, images)
            if group not in undecoded:
                self._values.append(made)
        steps_of = {key: len(window.offsets) for key, window in by_key.items()}
        self.scratch = Scratch(steps_of, frame_keys, slots, decoder, images)
        self.keys = [values.key for values in self._values]
        self._integers = INTEGER_METADATA if mixture is None else (*INTEGER_METADATA, DATASET)
        # A window of a stream that is named like a fact stands in its place.
        self._hidden = [name for name in (*self._integers, "timestamp") if name in self.keys]
        for i, key in enumerate(widths, len(writers)):
            elements = by_key[key].elements
            self._template[i].row_stride = elements
            self._values.append(_Values(key + DIM_PAD, (elements,), torch.bool, ((i, 0),)))

        def masks(window: WindowSpec, ending: str) -> tuple[str, Sequence[int], tuple[int, ...]]:
            of_window = [slot for to, slot in slots if to.key == window.name and to.has_mask]
            return window.name + ending, of_window, _steps_shape(window)

        self._masks = [masks(window, PAD) for window in windows]
        self._ages = [masks(window, AGE) for window in windows if with_age]
        values_bytes = sum(math.prod(v.shape) * v.dtype.itemsize for v in self._values)
        steps = sum(len(window.offsets) for window in windows)
        facts_bytes = len(self._integers) * 8 + 4
        facts_bytes -= sum(4 if name == "timestamp" else 8 for name in self._hidden)
        self.sample_bytes = values_bytes + steps * (9 if with_age else 1) + facts_bytes

    def take(self, size: int) -> tuple[Batch, AddressBlock]:
        """A batch of `size` samples, new or reused, and its addresses.

        Raises:
            torch.OutOfMemoryError: It does not fit.
        """
        if not self.is_kept:
            return self.allocate(size)
        is_full = size == self._full
        kept = self._kept_full if is_full else self._kept_other
        if kept is None or kept[0] != size:
            del kept
            if not is_full:
                self._kept_other = None  # its memory is free before the next batch is allocated
            with torch.inference_mode(False):  # other calls return it too
                batch, block = self.allocate(size)
            block.is_kept = True
            kept = (size, batch, block)
            if is_full:
                self._kept_full = kept
            else:
                self._kept_other = kept
        return dict(kept[1]), kept[2]

    def give_back(self, block: AddressBlock) -> None:
        """Takes back a block whose call has returned."""
        if not block.is_kept:
            block.scratch = []
            self._spare.append(block)

    def complete(self, block: AddressBlock, size: int, stream: int, is_random: bool) -> None:
        """Decodes the JPEG frames of a batch and makes its images, after the call of the plan.

        Args:
            block: The batch's.
            size: B.
            stream: The CUDA stream; 0 on the CPU.
            is_random: Whether random steps apply to images.
        """
        self.scratch.decode(block, stream)
        self.scratch.make_images(block, size, stream, is_random)

    def targets(self, size: int, batch: Batch, block: AddressBlock) -> Batch:
        """The tensors that windows are written to: source frames in place of images."""
        if self.images is None:
            return batch
        frames = {
            window.key: self.scratch.source_frames(size, block, window.key)
            for window in self.images.windows
        }
        return {**batch, **frames}

    def nbytes(self, size: int, take: Callable[[int], int]) -> int:
        """Bytes of a batch, where a tensor of some bytes takes what a function says."""
        blanks = self._make_blanks(size)
        found = [blanks.integers, blanks.timestamp]
        for part in (blanks.values, blanks.masks, blanks.ages):
            found += [blank for _, blank, _ in part]
        found += blanks.scratch.all
        return sum(take(math.prod(blank.shape) * blank.dtype.itemsize) for blank in found)

    def allocate(self, size: int) -> tuple[Batch, AddressBlock]:
        """A batch of new tensors, also where others are reused, and its addresses.

        Raises:
            torch.OutOfMemoryError: It does not fit.
        """
        try:
            block = self._spare.pop()  # atomic: no other thread gets it
        except IndexError:
            block = AddressBlock(self._template, self.scratch)
        try:
            return self._fill(size, block), block
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # torch has no class for it on a CPU
            if _CPU_ALLOCATOR not in str(error):
                raise
            raise torch.OutOfMemoryError(
                f"batch: expected memory for {size} samples of {self.sample_bytes} bytes on the "
                "CPU, got none (a smaller batch_size or shorter windows need less)"
            ) from None

    def _fill(self, size: int, block: AddressBlock) -> Batch:
        # Short on purpose.
        blanks = self._blanks.get(size)
        if blanks is None:
            blanks = self._make_blanks(size)
            if len(self._blanks) >= _MOST_SIZES:
                self._blanks.clear()
            self._blanks[size] = blanks
        empty, slots, metadata = self._empty, block.slots, block.metadata
        batch: Batch = {}
        for key, blank, members in blanks.values:
            batch[key] = tensor = empty(*blank)
            address = tensor.data_ptr()
            for i, offset in members:
                slots[i].values = address + offset
        for key, blank, masked in blanks.masks:
            batch[key] = tensor = empty(*blank)
            address = tensor.data_ptr()
            for i in masked:
                slots[i].is_pad = address
        for key, blank, aged in blanks.ages:
            batch[key] = tensor = empty(*blank)
            address = tensor.data_ptr()
            for i in aged:
                slots[i].age_ns = address
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
        if self.scratch.is_used:

            def addresses(key: str) -> tuple[int, int]:
                return batch[key].data_ptr(), batch[key + PAD].data_ptr()

            self.scratch.fill(size, block, blanks.scratch, empty, addresses)
        if hiding:
            if self.images is not None:  # which reads them
                block.scratch.insert(1, integers)
            for name in hiding:  # whose memory nothing else may hold any more
                if self.images is None or name == "timestamp":
                    setattr(metadata, name, None)
        return batch

    def _make_blanks(self, size: int) -> _Blanks:
        blank = Empty.of
        return _Blanks(
            [(v.key, blank((size, *v.shape), v.dtype), v.members) for v in self._values],
            [(key, blank((size, *shape), torch.bool), slots) for key, slots, shape in self._masks],
            [(key, blank((size, *shape), torch.int64), slots) for key, slots, shape in self._ages],
            blank((len(self._integers), size), torch.int64),
            blank((size,), torch.float32),
            self.scratch.sizes(size),
        )


def _steps_shape(window: WindowSpec) -> tuple[int, ...]:
    return (len(window.offsets),) if window.has_axis else ()


def _side_by_side(
    key: str,
    windows: Sequence[WindowSpec],
    slots: Sequence[tuple[Writer, int]],
    array: Any,
    is_group: bool,
    images: ImageStage | None,
) -> _Values:
    """One window as it is, or a group's, whose rows are vectors then; sets the row strides."""
    width = sum(window.elements for window in windows)
    dtype = windows[0].torch_out_dtype
    members = []
    column = 0
    for window in windows:
        for writer, slot in slots:
            if writer.key != window.name:
                continue
            if writer.is_numbers:
                array[slot].row_stride = 1
                continue
            if writer.image is not None:
                assert images is not None
                array[slot].row_stride = images.windows[writer.image].spec.elements
                continue
            array[slot].row_stride = width
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
        check_group(fields_without_scales(by_key[key] for key in keys), name)
        groups[group] = tuple(keys)
    names = [window.name for window in windows if window.name not in taken]
    reserved = {window.name + ending for window in windows for ending in (PAD, AGE)}
    for group in groups:
        if group in names or group in metadata or group in reserved:
            raise ValueError(f"concat: expected keys that the batch has not, got {group!r}")
    return groups
