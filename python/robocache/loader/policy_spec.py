"""`PolicySpec`: what a policy was trained on, and what the robot needs to give it the same."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robocache.core.display import ShortRepr, counted, cut, listed, method_text
from robocache.core.tables import html_table, offsets_text
from robocache.loader.window_spec import WindowSpec
from robocache.store.files import naming, new_file, sync_folder
from robocache.store.library import policy_spec_windows

VERSION = 2  # the newest, which is written; the library reads older ones, too

# How messages word why a file can't be read; the system's words for the rest.
_PROBLEMS = {FileNotFoundError: "no such file", IsADirectoryError: "a folder"}


@dataclass(frozen=True, repr=False)
class MixtureSpec(ShortRepr):
    """How the batches of a mixture differ from the rows of one of its data sets, the robot's."""

    dataset_index: int | None = None
    """The data set's index, which batches have as `dataset_index`; None: they have no such key, or
    a stream of that name."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys of the batch, by the names of streams; other streams have their names as keys."""
    padded_widths: Mapping[str, int] = field(default_factory=dict)
    """Elements of a row of the batch, by the names of streams whose vectors differ in width between
    data sets: zeros follow the row's own elements, and batches have ``<key>_dim_is_pad``."""
    missing: Sequence[str] = ()
    """Streams that the robot lacks, and other data sets have: zeros, all padded."""


@dataclass(frozen=True, eq=False, repr=False)
class PolicySpec:
    """Everything that a policy's batches were made by.

    ``loader.spec()`` gives it, and ``mixture.spec(part)`` for the robot of one data set of a
    mixture. ``spec.save(path)`` writes a file of JSON, which ``PolicySpec.load`` and C++'s
    ``robocache::read_policy_spec`` read: the robot needs that alone, and no store.
    docs/policy_spec.schema.json is its schema.

    Example:
        >>> loader.spec().save("policy_spec.json")
        >>> aligner = rc.LiveAligner("policy_spec.json")
    """

    streams: Sequence[WindowSpec]
    """In the order of the batch."""
    anchor: str | None = None
    """The stream whose rows were anchors; None: they had a rate."""
    rate: float | None = None
    """That rate, in Hz."""
    concat: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Keys of a batch that have several streams side by side."""
    with_age: bool = False
    """Whether batches have ages."""
    transforms: Sequence[Mapping[str, Any]] = ()
    """Transforms of the batches, in order, as `to_dict` of each returns them."""
    library: str = ""
    """The version of the library that wrote it."""
    mixture: MixtureSpec | None = None
    """The part of a mixture that it describes; None: the policy was trained on one data set."""

    def takes_rows(self, stream: WindowSpec) -> bool:
        """Whether the robot pushes rows of one of its streams.

        It does of windows that do not reach past the anchor, and of streams that others are
        relative to; not of streams that it lacks.
        """
        if self.lacks(stream):
            return False
        return not stream.reaches_ahead or any(
            other.relative_to is not None and other.relative_to.stream == stream.name
            for other in self.streams
        )

    def stream(self, name: str) -> WindowSpec:
        """One of its streams.

        Raises:
            ValueError: It has none of that name.
        """
        for stream in self.streams:
            if stream.name == name:
                return stream
        names = ", ".join(stream.name for stream in self.streams)
        raise ValueError(f"stream: expected one of the spec's ({names}), got {name!r}")

    def lacks(self, stream: WindowSpec) -> bool:
        """Whether the robot lacks a stream that other data sets of the mixture have."""
        return self.mixture is not None and stream.name in self.mixture.missing

    def key_of(self, stream: WindowSpec) -> str:
        """The key of a stream in the batch, and of its mask."""
        keys = {} if self.mixture is None else self.mixture.keys
        return keys.get(stream.name, stream.name)

    def width_of(self, stream: WindowSpec) -> int:
        """The elements of a stream's row in the batch."""
        widths = {} if self.mixture is None else self.mixture.padded_widths
        return widths.get(stream.name, stream.elements)

    def streams_of(self, key: str) -> list[WindowSpec]:
        """The streams of a key of the batch: several of a `concat` key."""
        if key in self.concat:
            return [self.stream(name) for name in self.concat[key]]
        return [stream for stream in self.streams if self.key_of(stream) == key]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it to a file, whole or not at all.

        Raises:
            ValueError: A field is not what it may be.
            OSError: The file can't be written.
        """
        data, path = self.to_json().encode(), Path(path)
        self.from_json(data, str(path))
        with naming(path):
            file = new_file(path.parent, data)
        try:
            file.path.replace(path)
        except BaseException:
            file.discard()
            raise
        sync_folder(path.parent)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PolicySpec:
        """Reads a file.

        Raises:
            ValueError: `<path>: <field>: expected ..., got ...`: a field is missing, unknown, of
                another type or of another version.
            OSError: `<path>: expected a policy spec, ... got ...`: the file can't be read.
        """
        name = os.fspath(path)
        try:
            text = Path(path).read_bytes()
        except OSError as error:
            got = _PROBLEMS.get(type(error)) or error.strerror or type(error).__name__
            raise type(error)(
                f"{name}: expected a policy spec, as loader.spec().save(...) writes it, got {got}"
            ) from None
        return cls.from_json(text, name)

    def to_json(self) -> str:
        """The text of its file. Numbers come back from it exactly."""
        return f"{json.dumps(self._fields(), indent=1)}\n"

    @classmethod
    def from_json(cls, text: str | bytes, name: str = "policy spec") -> PolicySpec:
        """The spec in a text.

        Args:
            text: JSON, as :meth:`to_json` gives it.
            name: What errors call it.

        Raises:
            ValueError: `<name>: <field>: expected ..., got ...`.
        """
        data = text.encode(errors="replace") if isinstance(text, str) else text
        windows = policy_spec_windows(data, name)
        fields = json.loads(data)
        spec = cls(
            streams=tuple(map(WindowSpec.from_fields, windows)),
            anchor=fields["anchor"],
            rate=fields["rate"],
            concat={key: tuple(names) for key, names in fields["concat"].items()},
            with_age=fields["with_age"],
            transforms=tuple(fields["transforms"]),
            library=fields["library"],
            mixture=_mixture(fields.get("mixture")),
        )
        return spec

    def _fields(self) -> dict[str, Any]:
        return {
            "robocache_policy_spec": VERSION,
            "library": self.library,
            "anchor": self.anchor,
            "rate": self.rate,
            "with_age": self.with_age,
            "streams": [_stream_fields(stream) for stream in self.streams],
            "concat": {key: list(names) for key, names in self.concat.items()},
            "transforms": [dict(transform) for transform in self.transforms],
            "mixture": self.mixture and _mixture_fields(self.mixture),
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PolicySpec) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def _anchor_text(self) -> str:
        return f"{self.rate:g} Hz" if self.anchor is None else f"rows of {cut(self.anchor)}"

    def _stream_text(self, stream: WindowSpec) -> str:
        key = self.key_of(stream)
        if self.lacks(stream):
            return f"{cut(key)} (missing)"
        return cut(stream.name) if key == stream.name else f"{cut(stream.name)} as {cut(key)}"

    def __repr__(self) -> str:
        names = listed([stream.name for stream in self.streams])
        streams = counted(len(self.streams), "stream")
        return f"PolicySpec({streams} at {self._anchor_text()}: {names})"

    def _repr_html_(self) -> str:
        header = ("stream", "row", "Hz", "offsets", "method", "normalize", "relative to", "output")
        rows = [
            [
                self._stream_text(stream),
                f"{stream.dtype}{list(stream.shape) or ''}".replace(" ", ""),
                "" if stream.rate is None else f"{stream.rate:.4g}",
                offsets_text(stream.offsets, stream.timeline == "rows", stream.has_axis),
                "rows" if stream.timeline == "rows" else method_text(stream.method),
                "" if stream.normalization is None else stream.normalize or "yes",
                "" if stream.relative_to is None else cut(stream.relative_to.stream),
                stream.out_dtype,
            ]
            for stream in self.streams
        ]
        transforms = [str(transform["type"]) for transform in self.transforms]
        then = f"; then {listed(transforms)}" if transforms else ""
        caption = f"Policy spec, anchors: {self._anchor_text()}{then}"
        return html_table(header, rows, (0, 1, 3, 4, 5, 6, 7), caption)


def _stream_fields(stream: WindowSpec) -> dict[str, Any]:
    """The fields of a stream, without those that older libraries refuse, where they are null."""
    fields = stream.to_fields()
    return {k: v for k, v in fields.items() if k not in ("encoding", "image") or v is not None}


def _mixture_fields(mixture: MixtureSpec) -> dict[str, Any]:
    return {
        "dataset_index": mixture.dataset_index,
        "keys": dict(mixture.keys),
        "padded_widths": dict(mixture.padded_widths),
        "missing": list(mixture.missing),
    }


def _mixture(fields: Mapping[str, Any] | None) -> MixtureSpec | None:
    """The record of fields that the library has validated."""
    if fields is None:
        return None
    return MixtureSpec(**{**fields, "missing": tuple(fields["missing"])})


def relative_to(spec: PolicySpec, key: str) -> str:
    """The names of what a key's values are relative to, for messages."""
    names = [
        stream.relative_to.stream
        for stream in spec.streams_of(key)
        if stream.relative_to is not None
    ]
    for fields in spec.transforms:
        if fields["type"] != "normalize" and fields["key"] == key:
            names += [fields[name] for name in ("to", "start") if name in fields]
    return " and ".join(dict.fromkeys(names))
