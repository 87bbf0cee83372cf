"""Joins the loaders of a mixture: their windows, anchors, episodes and counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from robocache.loader.contents import Contents
from robocache.loader.frames.conversion import numbers_window
from robocache.loader.frames.decoder import FrameStream
from robocache.loader.images.stage import ImageStage, ImageWindow
from robocache.loader.memory.tiers import own_tier
from robocache.loader.mixture.parts import Part, Stream


def make_parts(contents: Sequence[Contents], names: Sequence[Mapping[str, str]]) -> list[Part]:
    """The loaders as parts of a mixture.

    Args:
        contents: Of each loader.
        names: For each loader, the mixture's key of each of its keys.
    """
    parts: list[Part] = []
    first_episode = frame_count = image_count = 0  # of the parts before
    for i, (loader, new) in enumerate(zip(contents, names, strict=True)):
        pairs = zip(loader.windows, loader.plan.data, strict=True)
        streams = {window.name: Stream(window, data) for window, data in pairs}
        frames, numbers = _number_frames(loader, streams, frame_count)
        frame_count += sum(stream.arrays.count for stream in frames.values())
        images = () if loader.images is None else loader.images.windows
        part = Part(
            name=f"loaders[{i}]",
            windows={new[window.name]: window for window in loader.windows},
            streams={
                new[key]: _of_part(f"loaders[{i}]", stream, first_episode)
                for key, stream in (streams | numbers).items()
            },
            first_episode=first_episode,
            episodes=len(loader.plan.episodes),
            frames={new[key]: stream for key, stream in frames.items()},
            images={new[each.key]: image_count + n for n, each in enumerate(images)},
        )
        image_count += len(images)
        first_episode += part.episodes
        parts.append(part)
    return parts


def make_images(
    contents: Sequence[Contents],
    names: Sequence[Mapping[str, str]],
    seed: int,
    device: torch.device,
) -> ImageStage | None:
    """The stage that makes the images of all parts, each for its own samples; None without any.

    Args:
        contents: Of each loader.
        names: For each loader, the mixture's key of each of its keys.
        seed: The mixture's.
        device: Where batches are made.
    """
    windows: list[ImageWindow] = []
    for i, (loader, new) in enumerate(zip(contents, names, strict=True)):
        for window in () if loader.images is None else loader.images.windows:
            windows.append(window.in_mixture(new[window.key], i, seed))
    return ImageStage(windows, device) if windows else None


def _number_frames(
    loader: Contents, streams: Mapping[str, Stream], before: int
) -> tuple[dict[str, FrameStream], dict[str, Stream]]:
    """A loader's windows of JPEG frames, and the streams of their numbers, by its keys.

    Args:
        loader: The loader.
        streams: Its streams, which count the frames of each window from 1.
        before: The number of frames in the parts before; frames are counted through all parts.
    """
    frames: dict[str, FrameStream] = {}
    numbers: dict[str, Stream] = {}
    for window in () if loader.decoder is None else loader.decoder.windows:
        (own,) = window.streams
        arrays = type(own.arrays).from_buffer_copy(own.arrays)
        arrays.first_number += before
        frames[window.key] = own._replace(arrays=arrays)
        spec, data = streams[window.key]
        data = data._replace(values=data.values + before)
        numbers[window.key] = Stream(numbers_window(spec), data)
        before += arrays.count
    return frames, numbers


def _of_part(part: str, stream: Stream, first_episode: int) -> Stream:
    """A loader's stream as one of the mixture's plan, in which names are those of parts too."""
    spec, to = stream.spec, stream.spec.relative_to
    return Stream(
        replace(
            spec,
            name=f"{part}.{spec.name}",
            relative_to=to and to._replace(stream=f"{part}.{to.stream}"),
        ),
        stream.data._replace(first_episode=first_episode),
    )


def join_anchors(anchors: Sequence[Tensor], parts: Sequence[Part]) -> Tensor:
    """All anchors [A,2], their episodes counted through all parts."""
    joint = torch.cat(list(anchors))
    episodes = joint.view(torch.int32)[:, 0]
    end = 0
    for own, part in zip(anchors, parts, strict=True):
        begin, end = end, end + len(own)
        episodes[begin:end] += part.first_episode
    return joint


def join_episodes(tables: Sequence[Tensor]) -> Tensor:
    """The rows of all tables [E,4], with the number of their part."""
    joint = torch.cat(list(tables))
    end = 0
    for part, own in enumerate(tables):
        begin, end = end, end + len(own)
        joint[begin:end, 3] = part
    return joint


def resident_bytes(
    contents: Sequence[Contents],
    parts: Sequence[Part],
    streams: Sequence[Stream],
    device: torch.device,
) -> dict[str, int]:
    """Resident bytes by tier: those of the loaders, and of arrays that the mixture adds.

    It adds streams without rows of a loader, and its own numbers of JPEG frames, 8 bytes each. Its
    anchors replace those of the loaders, and are as many.
    """
    resident: Counter[str] = Counter()
    for of in contents:
        resident.update(of.counters.resident)
    taken = {id(stream) for part in parts for stream in part.streams.values()}
    numbers = sum(stream.arrays.count for part in parts for stream in part.frames.values())
    added = [stream for stream in streams if id(stream) not in taken]
    resident[own_tier(device)] += 8 * numbers + sum(
        stream.data.values.nbytes + stream.data.row_offsets.nbytes for stream in added
    )
    return dict(resident)


def mean_reads(contents: Sequence[Contents], shares: Sequence[float]) -> dict[str, float]:
    """Bytes of rows that a drawn sample is made of, by tier: the mean over the parts."""
    found: dict[str, float] = {}
    for of, share in zip(contents, shares, strict=True):
        for tier, count in of.counters.sample_reads.items():
            found[tier] = found.get(tier, 0.0) + share * count
    return found
