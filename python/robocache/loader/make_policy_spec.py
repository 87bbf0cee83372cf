"""The policy spec of a loader."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from robocache.core.version import UNKNOWN, package_version
from robocache.jpeg import library as jpeg_library
from robocache.loader.contents import Contents
from robocache.loader.memory.file_rows import FileRows, find_rows
from robocache.loader.policy_spec import MixtureSpec, PolicySpec
from robocache.loader.window_spec import ImageEncoding, WindowSpec
from robocache.normalization.formulas import Normalization
from robocache.store.episode_store import EpisodeStore
from robocache.store.library import policy_spec_windows

_SECOND = 1_000_000_000
_SAMPLED_FRAMES = 64  # of a stream, evenly spaced over its rows


def make_policy_spec(contents: Contents, training_only: Sequence[Callable[..., Any]]) -> PolicySpec:
    """The policy spec of a loader, as :meth:`Loader.spec` describes it.

    Raises:
        TypeError, ValueError: The robot could not compute a window or a transform.
    """
    windows: Sequence[WindowSpec] = contents.windows
    finish: Any = contents.finish
    if hasattr(finish, "live_windows"):
        windows = finish.live_windows(windows)
    elif finish is not None:
        raise ValueError(
            "spec: expected a loader with batches of its own, got one whose batches are as "
            "another library has them (rc.Loader(loader.store, ...) makes one of the same data)"
        )
    return make_spec(
        describe(contents.store, windows, contents.plan.episodes),
        find_rates(contents.store, windows, contents.plan.episodes),
        contents.anchor,
        contents.rate,
        contents.concat,
        contents.with_age,
        contents.modes,
        contents.transforms,
        training_only,
    )


def describe(
    store: EpisodeStore, windows: Sequence[WindowSpec], episodes: Tensor
) -> list[WindowSpec]:
    """The windows with what the store's manifest says about their rows, and their encoding.

    Args:
        store: The store.
        windows: Of its streams.
        episodes: Rows of a plan's table of episodes.
    """
    infos = [store.streams[window.name] for window in windows]
    chosen = episodes[:, 0].cpu().numpy()
    return [
        replace(
            window,
            channels=info.channels,
            units=info.units,
            nominal_rate=info.rate,
            encoding=info.encoding and _find_encoding(find_rows(store, window.name, chosen)),
        )
        for window, info in zip(windows, infos, strict=True)
    ]


def _find_encoding(rows: FileRows) -> ImageEncoding:
    """The encoding of a stream's JPEG frames, by the headers of some of them."""
    found = set()
    ends = np.cumsum([len(piece) for piece in rows.pieces])
    count = min(rows.rows, _SAMPLED_FRAMES)
    for index in np.linspace(0, rows.rows - 1, count).astype(int).tolist():
        number = int(np.searchsorted(ends, index, side="right"))
        frames: Any = rows.pieces[number].values
        frame = jpeg_library.inspect_file(frames.files[index - ends[number] + len(frames)])
        if frame["status"] == jpeg_library.OK:
            found.add((int(frame["quality"]), jpeg_library.SAMPLINGS[frame["sampling"]]))
    qualities: set[int] = {quality for quality, _ in found}
    chromas: set[Any] = {chroma for _, chroma in found}
    return ImageEncoding(
        "jpeg",
        (qualities.pop() or None) if len(qualities) == 1 else None,
        chromas.pop() if len(chromas) == 1 else None,
    )


def find_rates(
    store: EpisodeStore, windows: Sequence[WindowSpec], episodes: Tensor
) -> dict[str, float | None]:
    """The rate of each window's stream, for the sizes of buffers.

    Args:
        store: The store.
        windows: Of its streams.
        episodes: Rows of a plan's table of episodes.
    """
    chosen = episodes[:, 0].cpu().numpy()
    return {w.name: _busiest_rate(find_rows(store, w.name, chosen)) for w in windows}


def make_spec(
    windows: Sequence[WindowSpec],
    rates: Mapping[str, float | None],
    anchor: str | None,
    rate: float | None,
    concat: Mapping[str, Sequence[str]],
    with_age: bool,
    modes: Mapping[str, str | None],
    transforms: Sequence[Callable[..., Any]],
    training_only: Sequence[Callable[..., Any]],
    mixture: MixtureSpec | None = None,
) -> PolicySpec:
    """The spec of a loader, or of a mixture's part.

    Args:
        windows: Its windows.
        rates: Of each stream, as :func:`find_rates` gives it; others are None.
        anchor: The stream whose rows are anchors; None: they have a rate.
        rate: That rate, in Hz.
        concat: Streams of each key that has several.
        with_age: Whether batches have ages.
        modes: The mode of each normalized stream; None: it is normalized by a Normalizer.
        transforms: What is done to a batch.
        training_only: Those of them that the robot goes without.
        mixture: How the batches of a mixture differ from the part's rows.

    Raises:
        TypeError, ValueError: The robot could not compute a window or a transform.
    """
    _check_causal(windows)
    spec = PolicySpec(
        streams=tuple(
            _stream(window, rates.get(window.name), modes.get(window.name)) for window in windows
        ),
        anchor=anchor,
        rate=rate,
        concat={key: tuple(streams) for key, streams in concat.items()},
        with_age=with_age,
        transforms=_transforms(transforms, training_only),
        library=package_version() or UNKNOWN,
        mixture=mixture,
    )
    policy_spec_windows(spec.to_json().encode(), "spec")
    return spec


def _check_causal(windows: Sequence[WindowSpec]) -> None:
    """Checks that windows which the robot computes, and references, read arrived rows only.

    Raises:
        ValueError: `causal[<stream>]: expected True, ..., got False`.
    """
    by_all_rows = {
        of.stream for of in (w.relative_to for w in windows) if of is not None and not of.causal
    }
    for window in windows:
        is_live = not window.reaches_ahead
        is_reference = window.name in by_all_rows
        if window.by_rows or not ((is_live and not window.causal) or is_reference):
            continue
        why = (
            "whose window does not reach past the anchor"
            if is_live
            else "which others are relative to"
        )
        raise ValueError(
            f"causal[{window.name!r}]: expected True, {why}, for a spec: trained on rows that had "
            "not arrived, a policy sees others on the robot; got False"
        )


def _stream(window: WindowSpec, rate: float | None, mode: str | None) -> WindowSpec:
    scale = window.normalization and _channels(window.normalization, window.shape)
    return replace(window, rate=rate, normalization=scale, normalize=mode if scale else None)


def _channels(scale: Normalization, shape: tuple[int, ...]) -> Normalization:
    """A scale of all elements as that of the last axis, where it is the same all over."""
    last = shape[-1] if shape else 1
    if len(scale.subtract) % last:
        return scale
    for numbers in scale:
        rows = numbers.reshape(-1, last)
        if (rows != rows[0]).any():
            return scale
    return Normalization(scale.subtract[:last], scale.multiply[:last])


def _transforms(
    transforms: Sequence[Callable[..., Any]], training_only: Sequence[Callable[..., Any]]
) -> tuple[Mapping[str, Any], ...]:
    if isinstance(training_only, str) or not isinstance(training_only, Sequence):
        raise TypeError(f"training_only: expected a list of transforms, got {training_only!r}")
    for i, left_out in enumerate(training_only):
        if not any(left_out is transform for transform in transforms):
            raise ValueError(
                f"training_only[{i}]: expected one of the loader's transforms, got {left_out!r}"
            )
    serialized = []
    for i, transform in enumerate(transforms):
        if any(transform is left_out for left_out in training_only):
            continue
        to_dict = getattr(transform, "to_dict", None)
        if to_dict is None:
            raise ValueError(
                f"transforms[{i}]: expected one with to_dict, which the robot can do too "
                "(rc.transforms has them), or to be named in training_only, got "
                f"{transform!r}"
            )
        serialized.append(to_dict())
    return tuple(serialized)


def _busiest_rate(rows: FileRows) -> float | None:
    """The largest number of rows in a second of an episode, or the nominal rate if it is larger.

    An episode shorter than a second counts with its mean rate. None: no episode has two rows.
    """
    rates = [] if rows.info.rate is None else [rows.info.rate]
    times, offsets = rows.times(), rows.offsets
    for begin, end in itertools.pairwise(offsets):
        of_episode = times[begin:end]
        if len(of_episode) > 1 and of_episode[-1] > of_episode[0]:
            rates.append(_busiest_second(of_episode))
    return max(rates, default=None)


def _busiest_second(times: NDArray[np.int64]) -> float:
    span = int(times[-1]) - int(times[0])
    if span < _SECOND:
        return (len(times) - 1) * _SECOND / span
    after = np.searchsorted(times, times + _SECOND)
    return float((after - np.arange(len(times))).max())
