"""Pictures of a batch as floats with colours first, on a GPU, whose plan has them as stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from robocache.loader.windows import Window


def as_stored(window: Window) -> Window:
    """The same window, of pictures as the store has them: what the plan is to make."""
    if not window.is_colours_first:
        return window
    return replace(window, is_colours_first=False, out_dtype=window.dtype, scale=None)


class Pictures:
    """Makes floats [B,K,C,H,W] of the pictures [B,K,H,W,C] of those windows that want them."""

    def __init__(self, windows: Sequence[Window], device: torch.device) -> None:
        self._windows: list[tuple[str, torch.dtype, Tensor, Tensor]] = []
        for window in windows:
            if window.is_colours_first and window.scale is not None:
                subtract, multiply = (
                    torch.from_numpy(part).reshape(-1, 1, 1).to(device) for part in window.scale
                )
                self._windows.append((window.key, window.out_dtype, subtract, multiply))

    def __bool__(self) -> bool:
        return bool(self._windows)

    def convert(self, batch: dict[str, Tensor]) -> None:
        """Puts them in the batch, in the place of those stored."""
        for key, dtype, subtract, multiply in self._windows:
            # In double, so that x * (1 / 255), rounded once, is x / 255.
            colours_first = batch[key].movedim(-1, -3).double()
            batch[key] = ((colours_first - subtract) * multiply).to(
                dtype, memory_format=torch.contiguous_format
            )
