"""`ChannelOrder`: pushes rows whose elements arrive in the order of a driver's messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core.display import ShortRepr
from robocache.live.library import Aligner
from robocache.live.streams import PushStream


@dataclass(frozen=True, repr=False, eq=False)
class ChannelOrder(ShortRepr):
    """Where each channel of a stream is in a driver's messages, by their names.

    :meth:`LiveAligner.channel_order` makes it.
    """

    stream: str
    """The stream's name."""
    channels: tuple[str, ...]
    """[D]: the stream's channels."""
    names: tuple[str, ...]
    """The names of a message's elements."""
    indices: NDArray[np.int64]
    """[D]: the index in a message of each channel."""

    def check(self, stream: PushStream) -> None:
        """Refuses to order rows of another stream.

        Raises:
            ValueError: The order is of another name or of other channels.
        """
        if self.stream != stream.spec.name or self.channels != stream.spec.channels:
            raise ValueError(
                f"order: expected one of {stream.spec.name!r} (channel_order makes it), got one "
                f"of {self.stream!r} with the channels {', '.join(self.channels)}"
            )

    def apply(self, rows: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Rows [..., names] in the stream's order, [..., D]; written to `out` if there is one."""
        return rows.take(self.indices, -1, out, "clip")


def find_order(aligner: Aligner, stream: PushStream, names: object) -> ChannelOrder:
    """The order of a stream's channels in messages.

    Args:
        aligner: The aligner.
        stream: The stream; it takes rows.
        names: The names of a message's elements, as the caller passed them.

    Raises:
        TypeError: `names` is not a list of texts.
        ValueError: A name is missing or there twice, or the stream has no names of channels.
    """
    of, channels = stream.spec.name, stream.spec.channels
    if isinstance(names, (str, bytes)) or not isinstance(names, Sequence):
        raise TypeError(f"names[{of!r}]: expected a list of str, got {type(names).__name__}")
    for i, name in enumerate(names):
        if not isinstance(name, str):
            got = type(name).__name__
            raise TypeError(f"names[{of!r}][{i}]: expected a str, got {got}")
    indices = aligner.channel_order(stream.number, names, stream.spec.elements)
    assert channels is not None  # the library refuses other streams
    return ChannelOrder(of, channels, tuple(names), indices)
