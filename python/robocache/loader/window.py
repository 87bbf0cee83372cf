"""`Window` and `Relative`: the user's records of what a sample takes of one stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Literal, TypeAlias

import torch

from robocache.core.display import ShortRepr, cut, method_text, short
from robocache.core.names import Method, Outside
from robocache.core.tables import html_table, offsets_text, text_table
from robocache.image.image import Image
from robocache.loader.foreign_options import class_with_hints
from robocache.normalization.formulas import NormalizationMode

Timeline: TypeAlias = Literal["time", "rows"]
Offsets: TypeAlias = Sequence[float] | None

_HEADER = ("option", "value")
_OF_STORE = "as the store declares"


@class_with_hints("rc.Relative")
@dataclass(frozen=True, repr=False)
class Relative(ShortRepr):
    """The stream that a window is relative to: its value at the anchor is subtracted.

    From each of the D elements of a row, in row-major order, the loader subtracts the other
    stream's element with the same number, or with the number in `channels`. ``docs/loader.md`` has
    the details.

    Example:
        >>> # The joints' targets relative to the joints; the gripper's stays as it is.
        >>> rc.Relative("observation.state", mask=[True] * 6 + [False])
    """

    to: str
    """The other stream."""
    mask: Sequence[bool] | None = None
    """[D]: whether each element is relative; None: all are."""
    channels: Sequence[int | None] | None = None
    """[D]: the other stream's element for each; None in place of a number: not relative."""


@class_with_hints("rc.Window")
@dataclass(frozen=True, repr=False)
class Window:
    """A window of one stream: a sample's values at K offsets from its anchor.

    A :class:`Loader` takes a window for each stream of a batch. A list of seconds in its place is a
    window with these offsets and defaults for the rest, and None is ``Window()``.

    The loader validates the options, since most depend on the stream; its messages name the option
    and the stream: ``max_gap_s['state']: expected 0 or more, got -1``.

    Example:
        >>> window = rc.Window([-0.02, 0.0], max_gap_s=0.1, normalize="mean_std")
        >>> loader = rc.Loader("robot.store", 256, {"state": window, "action": [0.0, 0.02]})
    """

    offsets: Offsets = None
    """[K] seconds from the anchor. None, without `offsets_ns`: the value at the anchor, without an
    axis of offsets in the batch."""
    _: KW_ONLY
    offsets_ns: Sequence[int] | None = None
    """[K] nanoseconds from the anchor, in place of `offsets`."""
    timeline: Timeline | None = None
    """``"time"``: the loader finds rows by their times. ``"rows"``: it counts rows, ``round(offset
    * rate)`` from the anchor's row; those outside the episode are its first or last row, padded.
    None: as the store declares for the stream; "time" where anchors have a rate."""
    method: Method | None = None
    """How rows combine, as in :func:`robocache.fuse`. None: as the store declares."""
    outside: Outside = "hold"
    """``"hold"``, ``"zero"``, ``"nan"`` or ``"extrapolate"``: the values before the first row and,
    in windows that are not causal, after the last."""
    max_gap_s: float | None = None
    """Values from rows farther apart, or farther away, are padded. None: no limit."""
    tolerance_s: float | None = None
    """A row this close to a target is copied, except by the methods mean and sum. With timeline
    "rows": the largest distance of an offset from a whole number of rows. None: 1e-4, or 0 where
    1e-4 would span rows."""
    mean_window_s: float | None = None
    """The width of the method ``"mean"``."""
    latency_s: float = 0.0
    """A row arrives at least this long after its time; ``received`` may be later."""
    causal: bool = True
    """True: a window by time whose offsets are all 0 or less sees the rows that had arrived by the
    anchor's time, as if the recording ended there, and holds the newest of them, which is valid
    within `max_gap_s`. False: it sees all rows."""
    normalize: NormalizationMode | None = None
    """The mode of :func:`normalization`, as in ``Loader(normalize={key: mode})``."""
    relative_to: str | Relative | None = None
    """The stream whose value at the anchor is subtracted before normalization; a :class:`Relative`
    chooses channels. Steps are padded where either is. Statistics are of the differences."""
    dtype: torch.dtype | None = None
    """The type of the values: float16, bfloat16, float32, float64 or uint8. None: the stream's, or
    float32 with `channels_first`."""
    channels_first: bool = False
    """Whether images, uint8 [H,W,C], become floats [C,H,W] from 0 to 1: float32, or `dtype`, which
    is float16, bfloat16 or, with `normalize`, float64."""
    image: Image | None = None
    """How images are made, where the stream has some: crop, resize, layout, type and normalization.
    None: frames keep their size."""

    def __post_init__(self) -> None:
        # A list that its owner changes later changes no window.
        for name in ("offsets", "offsets_ns"):
            given: Any = getattr(self, name)
            if hasattr(given, "tolist"):  # an array or a tensor
                given = given.tolist()
            if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
                given = tuple(given)
            object.__setattr__(self, name, given)

    @property
    def has_axis(self) -> bool:
        """Whether values in a batch have an axis of offsets."""
        return self.offsets is not None or self.offsets_ns is not None

    def __repr__(self) -> str:
        given = [
            f"{field.name}={short(value)}"
            for field in fields(self)
            if (value := getattr(self, field.name)) != field.default
        ]
        return f"Window({', '.join(given)})"

    def __str__(self) -> str:
        return text_table(_HEADER, self._rows(), (0, 1))

    def _repr_html_(self) -> str:
        return html_table(_HEADER, self._rows(), (0, 1), "Window")

    def _rows(self) -> list[tuple[str, str]]:
        method: Any = self.method
        relative = self.relative_to
        values = {field.name: getattr(self, field.name) for field in fields(self)} | {
            "offsets": self._offsets_text(),
            "timeline": self.timeline or _OF_STORE,
            "method": _OF_STORE if method is None else _text(method, method_text),
            "max_gap_s": "no limit" if self.max_gap_s is None else self.max_gap_s,
            "tolerance_s": "default" if self.tolerance_s is None else self.tolerance_s,
            "mean_window_s": "none" if self.mean_window_s is None else self.mean_window_s,
            "normalize": self.normalize or "none",
            "relative_to": "none" if relative is None else short(relative),
            "dtype": "the stream's" if self.dtype is None else self.dtype,
            "image": "frames as they are" if self.image is None else short(self.image),
        }
        del values["offsets_ns"]  # offsets has them
        return [(name, cut(str(value))) for name, value in values.items()]

    def _offsets_text(self) -> str:
        def seconds(offsets: Any) -> str:
            return offsets_text([offset * 1e9 for offset in offsets], False, True)

        if self.offsets_ns is not None:
            return _text(self.offsets_ns, lambda offsets: seconds([ns * 1e-9 for ns in offsets]))
        if self.offsets is None:
            return offsets_text((0,), False, False)
        return _text(self.offsets, seconds)


def _text(value: Any, text: Any) -> str:
    """The text of a value; `repr` of one that the loader will refuse."""
    try:
        return str(text(value))
    except (TypeError, ValueError, IndexError):
        return short(value)
