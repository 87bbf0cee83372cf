"""What `config(validate=True)` asks for: looking at the values of times and lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import torch
from torch import Tensor

from robocache._checks import shape_text


def validated(source_times: Tensor, source_lengths: Tensor | None) -> Tensor:
    """`source_times`, if the lengths lie in [0,S] and the times ascend within them."""
    if torch.compiler.is_compiling():
        copy: Tensor = _validated_copy(source_times, source_lengths)
        return copy
    _check(source_times, source_lengths)
    return source_times


# Compiled code cannot branch on values, but it can call an operator that does. It returns the times
# so that the calls after it depend on it, and a copy since an operator may not return its argument.
@torch.library.custom_op("robocache::validated_copy", mutates_args=())
def _validated_copy(source_times: Tensor, source_lengths: Tensor | None) -> Tensor:
    _check(source_times, source_lengths)
    return source_times.clone()


@_validated_copy.register_fake
def _(source_times: Tensor, source_lengths: Tensor | None) -> Tensor:
    return torch.empty_like(source_times)


def _check(source_times: Tensor, source_lengths: Tensor | None) -> None:
    """Synchronises once."""
    refuse_while_capturing(source_times)
    rows = source_times.size(-1)
    unordered = source_times.isnan()
    unordered[..., 1:] |= source_times[..., 1:] < source_times[..., :-1]
    if source_lengths is None:
        beyond = unordered.new_zeros(())
    else:
        beyond = (source_lengths < 0) | (source_lengths > rows)
        exists = torch.arange(rows, device=source_times.device) < source_lengths.unsqueeze(-1)
        if exists.dim() > source_times.dim():  # times that the batch shares: of the longest episode
            exists = exists.any(0)
        unordered = unordered & exists
    any_beyond, any_unordered = torch.stack([beyond.any(), unordered.any()]).tolist()
    if any_beyond and source_lengths is not None:
        at = beyond.nonzero()[0].tolist()
        _refuse("source_lengths", f"0 to S={rows}", str(source_lengths[tuple(at)].item()), at)
    if any_unordered:
        at = unordered.nonzero()[0].tolist()
        episode = source_times if source_times.dim() == 1 else source_times[at[0]]
        row = at[-1]
        got = _text(episode[row])
        if row > 0 and got != "nan":
            got += f" after {_text(episode[row - 1])}"
        _refuse("source_times", "ascending times", got, at)


def refuse_while_capturing(tensor: Tensor) -> None:
    """Looking at the values of a tensor on a GPU waits for it, which a graph cannot."""
    if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
        raise ValueError(
            "validate: expected False while a CUDA graph is captured (it waits for the GPU), "
            "got True"
        )


def _refuse(name: str, expected: str, got: str, at: Sequence[int]) -> NoReturn:
    raise ValueError(f"{name}: expected {expected}, got {got} at {shape_text(at)}")


def _text(time: Tensor) -> str:
    return f"{time.item():.9g}" if time.is_floating_point() else str(time.item())
