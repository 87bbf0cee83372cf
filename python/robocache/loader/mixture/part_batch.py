"""A loader's batches as those of a mixture, by the policy spec of a part: for replays."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from robocache.loader.outputs import AGE, DATASET, DIM_PAD, PAD, Batch
from robocache.loader.policy_spec import MixtureSpec, PolicySpec
from robocache.loader.window_spec import WindowSpec


def own_streams(spec: PolicySpec) -> PolicySpec:
    """The spec of the part's own loader, without what the mixture adds to its batches."""
    streams = tuple(stream for stream in spec.streams if not spec.lacks(stream))
    return replace(spec, streams=streams, concat={}, transforms=(), mixture=None)


def as_in_mixture(spec: PolicySpec, mixture: MixtureSpec, batch: Batch) -> Batch:
    """A batch of the part's own loader with the mixture's keys, widths and masks.

    Args:
        spec: The spec of the part.
        mixture: Its field.
        batch: Values, masks and ages of the spec's streams, by their names.
    """
    size = len(batch["index"])
    made: Batch = {}
    values: dict[str, Tensor] = {}
    for stream in spec.streams:
        key, width = spec.key_of(stream), spec.width_of(stream)
        one, is_pad, age = _parts_of(spec, stream, batch, size)
        own = 0 if spec.lacks(stream) else stream.elements
        if stream.name in mixture.padded_widths:
            padded = one.new_zeros((*one.shape[:-1], width))
            padded[..., :own] = one[..., :own]
            one = padded
            made[key + DIM_PAD] = (torch.arange(width) >= own).expand(size, width)
        values[stream.name], made[key + PAD], made[key + AGE] = one, is_pad, age
    grouped = {name for members in spec.concat.values() for name in members}
    for stream in spec.streams:
        if stream.name not in grouped:
            made[spec.key_of(stream)] = values[stream.name]
    for group, members in spec.concat.items():
        vectors = [
            values[name] if spec.stream(name).shape else values[name].unsqueeze(-1)
            for name in members
        ]
        made[group] = torch.cat(vectors, -1)
    if mixture.dataset_index is not None:
        made[DATASET] = torch.full((size,), mixture.dataset_index)
    return made


def _parts_of(
    spec: PolicySpec, stream: WindowSpec, batch: Batch, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Values, mask and age of a stream; zeros, all padded, of one that the part lacks."""
    name = stream.name
    if not spec.lacks(stream):
        return batch[name], batch[name + PAD], batch[name + AGE]
    steps = (size, len(stream.offsets)) if stream.has_axis else (size,)
    return (
        torch.zeros((*steps, *stream.shape), dtype=stream.torch_out_dtype),
        torch.ones(steps, dtype=torch.bool),
        torch.zeros(steps, dtype=torch.int64),
    )
