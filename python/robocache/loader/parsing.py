"""The windows of a loader, from its user's options or from a policy spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from robocache.core.checks import check_integer
from robocache.image.augment import CameraAugment, parse_augment
from robocache.image.spec import ImageSpec
from robocache.loader.images.options import check_images, fixed_scales
from robocache.loader.policy_spec import PolicySpec
from robocache.loader.relative import check_statistics, make_relative, parse_relative
from robocache.loader.sampling.anchors import parse_anchor
from robocache.loader.stream_normalization import make_scales, merge_modes, modes_of, spread
from robocache.loader.window import Relative
from robocache.loader.window_spec import WindowSpec, fields_without_scales
from robocache.loader.windows import make_spec, parse_windows
from robocache.store.episode_store import EpisodeStore
from robocache.store.library import check_windows
from robocache.store.stream_info import StreamInfo, is_image


class ParsedWindows(NamedTuple):
    """The windows of a batch, and the anchors that they are relative to."""

    specs: list[WindowSpec]
    relative: Mapping[str, Relative]  # the user's reference of each relative window
    modes: Mapping[str, str | None]  # of each normalized window; None: by a Normalizer
    default_tolerances: frozenset[str]  # the streams whose tolerance gives way to close rows
    anchor: str | None  # the stream whose rows are anchors; None: they have a rate
    rate: float | None  # in Hz
    augments: Mapping[str, CameraAugment]  # the random steps of images


def parse_options(store: EpisodeStore, options: Mapping[str, Any]) -> ParsedWindows:
    """The windows that a user declares.

    Args:
        store: The store.
        options: `windows`, `delta_timestamps`, `anchor`, `normalize`, `statistics`, `augment` and
            `seed`, as :class:`robocache.Loader` takes them.

    Raises:
        TypeError, ValueError: `<option>[<stream>]: expected ..., got ...`.
    """
    windows = parse_windows(store.streams, options["windows"], options["delta_timestamps"])
    streams = {key: store.streams[key] for key in windows}
    check_images(streams, windows)
    normalize, statistics = merge_modes(windows, options["normalize"]), options["statistics"]
    fixed = fixed_scales(streams, windows, normalize)
    scales = make_scales(streams, normalize, statistics)
    scales |= {key: scale for key, (_, scale) in fixed.items()}
    modes = modes_of(normalize) | {key: name for key, (name, _) in fixed.items()}
    relative = parse_relative(windows)
    check_statistics(relative, modes, statistics)
    anchor, rate = parse_anchor(store, options["anchor"], streams)
    augments = _parse_augments(streams, options)
    specs = [
        make_spec(
            info,
            windows[key],
            scales.get(key),
            has_rows=rate is None,
            center=augments[key].center if key in augments else None,
        )
        for key, info in streams.items()
    ]
    specs = make_relative(specs, relative, windows)
    check_windows(fields_without_scales(specs))
    defaults = frozenset(key for key, window in windows.items() if window.tolerance_s is None)
    return ParsedWindows(specs, relative, modes, defaults, anchor, rate, augments)


def parse_spec(store: EpisodeStore, spec: PolicySpec, options: Mapping[str, Any]) -> ParsedWindows:
    """The windows of a policy spec, as a loader of a store computes them.

    Args:
        store: The store.
        spec: The spec.
        options: `augment` and `seed`, as :class:`robocache.Loader` takes them.

    Raises:
        ValueError: `spec: streams[<i>]: expected ..., got ...`: the store lacks a stream, or has it
            with other rows; or the spec is that of a mixture's part.
    """
    if spec.mixture is not None:
        raise ValueError(
            "spec: expected one of a loader of one store, got one of a mixture's part (make "
            "rc.Loader.mixture again)"
        )
    specs, relative, modes = [], {}, {}
    for i, window in enumerate(spec.streams):
        _check_stream(store, i, window)
    infos = {window.name: store.streams[window.name] for window in spec.streams}
    augments = _parse_augments(infos, options)
    for i, window in enumerate(spec.streams):
        if window.name in augments:
            window = _with_center(window, augments[window.name].center)
        info, scale = infos[window.name], window.normalization
        if scale is not None:
            is_of_channels = window.channels_first or window.image is not None
            shape = (window.image_channels,) if is_of_channels else window.shape
            if window.normalize is not None or not _is_of_bytes(window):
                modes[window.name] = window.normalize
            scale = spread(f"spec: streams[{i}].normalization", scale, shape)
        reference = window.relative_to
        if reference is not None:
            channels = [None if column < 0 else column for column in reference.columns]
            relative[window.name] = Relative(reference.stream, channels=channels)
        # Without what describes the rows to people: a loader's windows have no such fields.
        window = replace(window, channels=None, units=None, nominal_rate=None, normalize=None)
        window = replace(window, encoding=None)
        specs.append(replace(window, rate=info.rate, normalization=scale))
    return ParsedWindows(specs, relative, modes, frozenset(), spec.anchor, spec.rate, augments)


def _parse_augments(
    streams: Mapping[str, StreamInfo], options: Mapping[str, Any]
) -> dict[str, CameraAugment]:
    """The random steps of color images, by stream."""
    seed = check_integer("seed", options["seed"], 0, 2**64 - 1)
    cameras = {
        key: info.shape[2]
        for key, info in streams.items()
        if is_image(info) and info.shape[2] in (1, 3)
    }
    return parse_augment(options["augment"], cameras, seed=seed)


def _with_center(window: WindowSpec, center: float) -> WindowSpec:
    """A window of a policy spec whose images are augmented.

    Raises:
        ValueError: `augment[<stream>]: expected ..., got ...`: the policy sees another center.
    """
    image = window.image or ImageSpec((window.shape[0], window.shape[1]))
    if image.center != center:
        raise ValueError(
            f"augment[{window.name!r}]: expected random crops with the spec's center "
            f"{image.center:g}, got {center:g} (a loader of windows= and augment= has a spec of "
            "its own)"
        )
    return replace(window, image=image)


def _is_of_bytes(window: WindowSpec) -> bool:
    """Whether a window's scale is the division by 255 of images that the user did not normalize."""
    scale = window.normalization
    assert scale is not None
    is_float = window.channels_first or window.image is not None
    return is_float and not scale.subtract.any() and bool((scale.multiply == 1 / 255).all())


def _check_stream(store: EpisodeStore, number: int, window: WindowSpec) -> None:
    info = store.streams.get(window.name)
    if info is None:
        raise ValueError(
            f"spec: streams[{number}].name: expected a stream of {store.path} "
            f"({', '.join(store.streams)}), got {window.name!r}"
        )
    is_number = window.shape == () and info.shape == (1,)  # as LeRobot's batches have them
    if info.type_name != window.dtype or (info.shape != window.shape and not is_number):
        raise ValueError(
            f"spec: streams[{number}]: expected {window.name} of {info.type_name} "
            f"{list(info.shape)}, as {store.path} has it, got {window.dtype} {list(window.shape)}"
        )
