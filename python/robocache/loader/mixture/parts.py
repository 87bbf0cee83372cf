"""The parts of a mixture: weights, keys, windows that must agree, and streams."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import torch

from robocache.core import dtypes
from robocache.loader.frames.conversion import numbers_window
from robocache.loader.frames.decoder import FrameDecoder, FrameStream, FrameWindow
from robocache.loader.outputs import DIM_PAD, MixtureOutputs
from robocache.loader.plan import WindowData
from robocache.loader.scratch import Writer
from robocache.loader.window_spec import WindowSpec, fields_without_scales, output_window
from robocache.normalization.formulas import Normalization
from robocache.store.library import check_group

_MOST_STREAMS = 64  # of a plan
_ANOTHER_NAME = "a name of its own in keys= keeps it apart"


class Stream(NamedTuple):
    """A window of a plan."""

    spec: WindowSpec
    data: WindowData


class Part(NamedTuple):
    """The windows, streams and episodes of a loader in a mixture."""

    name: str  # in error messages
    windows: Mapping[str, WindowSpec]  # by the mixture's key
    streams: Mapping[str, Stream]
    first_episode: int  # its index among all episodes of the mixture
    episodes: int
    frames: Mapping[str, FrameStream]  # windows of JPEG frames, whose streams have their numbers
    images: Mapping[str, int]  # windows that the ImageStage makes, by their number there

    @property
    def scales(self) -> dict[str, Normalization]:
        """Scale and offset of normalized windows, by the mixture's key."""
        found = {key: window.normalization for key, window in self.windows.items()}
        return {key: scale for key, scale in found.items() if scale is not None}


# ---- weights -------------------------------------------------------------------------------------


def check_weights(weights: Any, count: int) -> list[Fraction]:
    """The exact fraction of each part; they sum to 1.

    Raises:
        TypeError, ValueError: `weights: expected ..., got ...`.
    """
    if hasattr(weights, "tolist"):  # an array or a tensor
        weights = weights.tolist()
    if isinstance(weights, (str, bytes)) or not isinstance(weights, Sequence):
        raise TypeError(f"weights: expected a list of numbers, got {weights!r}")
    if len(weights) != count:
        raise ValueError(f"weights: expected {count}, one for each loader, got {len(weights)}")
    found = []
    for i, weight in enumerate(weights):
        if not isinstance(weight, numbers.Real) or isinstance(weight, bool):
            raise TypeError(f"weights[{i}]: expected a number, got {type(weight).__name__}")
        number: Any = weight
        if not 0 <= number < math.inf:  # nor NaN
            raise ValueError(f"weights[{i}]: expected a finite number, 0 or more, got {weight}")
        found.append(_exact(weight))
    total = sum(found)
    if total == 0:
        raise ValueError("weights: expected one above 0, got zeros alone")
    return [weight / total for weight in found]


def _exact(weight: numbers.Real) -> Fraction:
    if isinstance(weight, numbers.Rational):  # NumPy's integers are some
        return Fraction(int(weight.numerator), int(weight.denominator))
    number: Any = weight
    if hasattr(number, "as_integer_ratio"):  # exact of a long double too
        return Fraction(*number.as_integer_ratio())
    return Fraction(float(number))


def make_thresholds(shares: Sequence[Fraction]) -> list[int]:
    """2^64 times the cumulative fractions, rounded down, up to the last part above 0.

    A draw of 64 bits selects the part whose index is the number of thresholds at or below it. So a
    part of fraction 0 is never drawn: its threshold is that of the part before it, and trailing
    parts of fraction 0 have no threshold.
    """
    found, total = [], Fraction(0)
    for share in shares:
        total += share
        found.append(math.floor(total * 2**64))
        if total == 1:
            break
    return found


# ---- keys ----------------------------------------------------------------------------------------


def check_keys(keys: Any, own: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    """Maps each key of each part to its key in the mixture.

    Args:
        keys: For each part, new names of some of its keys; or None.
        own: The keys of each part.

    Raises:
        TypeError, ValueError: `keys: expected ..., got ...`.
    """
    if keys is None:
        keys = [{}] * len(own)
    if isinstance(keys, (str, bytes, Mapping)) or not isinstance(keys, Sequence):
        raise TypeError(
            "keys: expected a mapping for each loader, as in [{'qpos': 'state'}, {}], got "
            f"{type(keys).__name__}"
        )
    if len(keys) != len(own):
        raise ValueError(f"keys: expected {len(own)}, one for each loader, got {len(keys)}")
    found = []
    for i, (renamed, there) in enumerate(zip(keys, own, strict=True)):
        if not isinstance(renamed, Mapping):
            raise TypeError(
                f"keys[{i}]: expected a mapping, as in {{'qpos': 'state'}}, got {renamed!r}"
            )
        for key, name in renamed.items():
            if key not in there:
                raise ValueError(f"keys[{i}]: expected {', '.join(there)}, got {key!r}")
            if not isinstance(name, str):
                raise TypeError(f"keys[{i}][{key!r}]: expected a key, got {name!r}")
        names = {key: renamed.get(key, key) for key in there}
        for key, name in names.items():
            first = next(k for k in names if names[k] == name)
            if first != key:
                raise ValueError(
                    f"keys[{i}]: expected a key for each stream, got {name!r} of {first!r} and of "
                    f"{key!r}"
                )
        found.append(names)
    return found


# ---- windows -------------------------------------------------------------------------------------


class Agreed(NamedTuple):
    """The windows of a mixture's batch, as wide as the widest of the parts."""

    windows: Sequence[WindowSpec]  # of their offsets, only the number is used
    widths: Sequence[str]  # keys whose parts differ in width


def agree(parts: Sequence[Part]) -> Agreed:
    """The windows of the batch, in the order of the parts' keys.

    Raises:
        ValueError: Windows of a key differ in more than the width of vectors.
    """
    windows, widths = [], []
    for key in dict.fromkeys(key for part in parts for key in part.windows):
        those = [
            (part.name, output_window(part.windows[key])) for part in parts if key in part.windows
        ]
        for name, window in those[1:]:
            _check_alike(key, those[0], (name, window))
        first = those[0][1]
        elements = {window.elements for _, window in those}
        shape = (max(elements),) if len(first.shape) == 1 else first.shape
        windows.append(
            replace(
                first,
                name=key,
                shape=shape,
                offsets=(0,) * len(first.offsets),
                timeline="rows",
                causal=False,
                normalization=None,
            )
        )
        if len(elements) > 1:
            widths.append(key)
    return Agreed(windows, widths)


def _check_alike(key: str, first: tuple[str, WindowSpec], other: tuple[str, WindowSpec]) -> None:
    (of, a), (name, b) = first, other

    def refuse(expected: object, got: object, way_out: str = _ANOTHER_NAME) -> None:
        raise ValueError(f"{name}: {key}: expected {expected} like {of}, got {got} ({way_out})")

    def axis(window: WindowSpec) -> str:
        return f"{len(window.offsets)} steps" if window.has_axis else "no axis of steps"

    if a.has_axis != b.has_axis:
        refuse(axis(a), axis(b))
    if len(a.offsets) != len(b.offsets):
        refuse(f"{len(a.offsets)} steps", len(b.offsets))
    if a.out_dtype != b.out_dtype:
        names = dtypes.dtype_name(a.torch_out_dtype), dtypes.dtype_name(b.torch_out_dtype)
        is_copied = a.is_copied or b.is_copied
        refuse(*names, _ANOTHER_NAME if is_copied else "rc.Window(dtype=) changes it")
    expected, got = (w.out_shape[1:] if w.has_axis else w.out_shape for w in (a, b))
    if expected != got and not len(expected) == len(got) == 1:
        is_image = len(a.shape) == 3
        way_out = "rc.Window(image=rc.Image(resize=...)) makes them alike; " if is_image else ""
        refuse(f"rows of shape {list(expected)}", list(got), way_out + _ANOTHER_NAME)


def check_groups(groups: Mapping[str, Sequence[str]], parts: Sequence[Part]) -> None:
    """Checks that concatenated windows have the same offsets in every part.

    Raises:
        ValueError: `<part>: concat[<key>]: expected ..., got ...`.
    """
    for group, keys in groups.items():
        for part in parts:
            windows = [replace(part.windows[key], name=key) for key in keys if key in part.windows]
            if windows:
                check_group(fields_without_scales(windows), f"{part.name}: concat[{group!r}]")


# ---- streams -------------------------------------------------------------------------------------


def make_streams(
    agreed: Agreed, parts: Sequence[Part], device: torch.device
) -> tuple[list[Stream], MixtureOutputs]:
    """The streams of a plan, and the output of each.

    Every element of a batch is written by one stream: elements that a part lacks, by a stream
    without rows, which writes zeros, all padded. Dimension masks are streams of one row an episode.

    Where some parts have JPEG frames, streams write their numbers, and a decoder the values: zeros
    for number 0, and nothing for -1, the number of parts that have raw images.

    Images that are resized or augmented have an output for the source frames of each part, which
    the ImageStage reads after the decoder.

    Raises:
        ValueError: The streams exceed the limit of a plan.
    """
    streams: list[Stream] = []
    writers: list[Writer] = []
    for window in agreed.windows:
        gaps = []
        key = window.name
        has_numbers = any(key in part.frames for part in parts)
        # Whether the decoder writes values, and not only source frames.
        is_decoded = any(key in part.frames and key not in part.images for part in parts)
        for part in parts:
            there = part.windows.get(key)
            elements = 0 if there is None else output_window(there).elements
            if there is not None:
                streams.append(part.streams[key])
                is_numbers, image = key in part.frames, part.images.get(key)
                writers.append(Writer(key, is_numbers=is_numbers, image=image))
                if has_numbers and not is_numbers:
                    streams.append(_no_numbers(window, part.first_episode, part.episodes, device))
                    writers.append(Writer(key, has_mask=False, is_numbers=True))
            if there is None or elements < window.elements:
                gaps.append((part, elements, there is None))
        for first, episodes, column, has_mask in _joined(gaps):
            zeros = numbers_window(window) if is_decoded else window
            streams.append(_zeros(zeros, first, episodes, zeros.elements - column, device))
            writers.append(Writer(key, column, has_mask, is_decoded))
            if has_numbers and not is_decoded:
                streams.append(_no_numbers(window, first, episodes, device))
                writers.append(Writer(key, has_mask=False, is_numbers=True))
    masks = [_dimensions(w, parts, device) for w in agreed.windows if w.name in agreed.widths]
    count = len(streams) + len(masks) + sum(s.spec.relative_to is not None for s in streams)
    if count > _MOST_STREAMS:
        raise ValueError(
            f"loaders: expected at most {_MOST_STREAMS} windows in all, got {count}: one of each "
            f"key of each of {len(parts)} loaders, one for what a loader lacks or has narrower, "
            f"one for each that is relative, and one for each {DIM_PAD[1:]} (fewer keys need "
            "fewer; rc.merge_stores makes one store of several with the same streams)"
        )
    return streams + masks, MixtureOutputs(writers, agreed.widths)


def _joined(gaps: Sequence[tuple[Part, int, bool]]) -> Iterator[tuple[int, int, int, bool]]:
    """Gaps as (first episode, episodes, column, has mask); adjacent gaps are joined."""
    begin = end = column = 0
    has_mask = False
    for part, of_part, is_missing in gaps:
        if (part.first_episode, of_part, is_missing) != (end, column, has_mask):
            if end > begin:
                yield begin, end - begin, column, has_mask
            begin, column, has_mask = part.first_episode, of_part, is_missing
        end = part.first_episode + part.episodes
    if end > begin:
        yield begin, end - begin, column, has_mask


def _zeros(
    window: WindowSpec, first: int, episodes: int, elements: int, device: torch.device
) -> Stream:
    """A stream without rows, for these episodes and the last `elements` of a window."""
    return _rows(
        f"{window.name} (zeros from episode {first} on)",
        torch.zeros(1, elements, dtype=window.torch_out_dtype, device=device)[:0],
        torch.zeros(episodes + 1, dtype=torch.int64, device=device),
        len(window.offsets),
        first,
    )


def _no_numbers(window: WindowSpec, first: int, episodes: int, device: torch.device) -> Stream:
    """A stream of one row an episode, for these episodes: the number -1, of no frame."""
    return _rows(
        f"{window.name} (no frames from episode {first} on)",
        torch.full((episodes, 1), -1, dtype=torch.int64, device=device),
        torch.arange(episodes + 1, device=device),
        len(window.offsets),
        first,
    )


def make_decoder(
    agreed: Agreed, parts: Sequence[Part], device: torch.device, kept: object
) -> FrameDecoder | None:
    """The decoder of all JPEG frames; None without any.

    Args:
        agreed: The windows of the batch.
        parts: All parts.
        device: Where batches are made.
        kept: The owners of the frames' memory.
    """
    windows = []
    for window in agreed.windows:
        key, steps = window.name, len(window.offsets)
        those = [part for part in parts if key in part.frames]
        streams = [part.frames[key] for part in those if key not in part.images]
        if streams:
            windows.append(FrameWindow(key, steps, streams))
        for part in those:
            if key in part.images:
                windows.append(FrameWindow(key, steps, [part.frames[key]], part.images[key]))
    return FrameDecoder(windows, device, kept) if windows else None


def _dimensions(window: WindowSpec, parts: Sequence[Part], device: torch.device) -> Stream:
    """A stream of one row an episode: the elements of a window that the episode's part lacks."""
    there = [part.windows.get(window.name) for part in parts]
    real = np.array([0 if own is None else own.elements for own in there])
    limits = real.repeat([part.episodes for part in parts])
    is_pad = torch.from_numpy(np.arange(window.elements) >= limits[:, None])
    row_offsets = torch.arange(len(limits) + 1, device=device)
    return _rows(window.name + DIM_PAD, is_pad.to(device), row_offsets, 1, 0)


def _rows(
    name: str, values: torch.Tensor, row_offsets: torch.Tensor, count: int, first: int
) -> Stream:
    """A stream of copied rows: `count` times the anchor's row."""
    dtype = dtypes.STORED_NAMES[values.dtype]
    spec = WindowSpec(
        name=name,
        dtype=dtype,
        shape=(values.size(1),),
        timeline="rows",
        offsets=(0,) * count,
        causal=False,
        method="previous",
        out_dtype=dtype,
    )
    data = WindowData(
        values=values,
        times=None,
        row_offsets=row_offsets,
        value_begins=None,
        received=None,
        valid=None,
        window_offsets=torch.zeros(count, dtype=torch.int64, device=values.device),
        subtract=None,
        multiply=None,
        reference_columns=None,
        first_episode=first,
    )
    return Stream(spec, data)
