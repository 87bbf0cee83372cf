"""Transforms of batches that can be written down and undone: ``Loader(transforms=[...])``.

Each takes a batch and a generator, as a loader's transforms do, and returns a batch. `inverse`
undoes it; `to_dict` and :func:`from_dict` are how a policy spec keeps it. They are made of the
functions of this library, and compute where the batch is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from robocache.core.names import RotationForm
from robocache.normalization.formulas import Normalization
from robocache.normalization.normalizer import Normalizer
from robocache.transform.batch_checks import (
    also_padded,
    check_column,
    check_int,
    check_key,
    columns_of,
    padded_row,
    replaced,
    row_of,
    values_of,
    width_of,
    with_steps,
)
from robocache.transform.checks import check_time_step, form_code
from robocache.transform.delta import absolute_to_delta, delta_to_absolute
from robocache.transform.rotation import absolute_pose, convert_rotation, relative_pose

Batch = dict[str, Any]


class Transform(ABC):
    """The interface of all transforms."""

    type: ClassVar[str]
    """Its name in :meth:`to_dict`."""
    step = -1
    """The step of the keys that it reads which is the anchor's, at offset 0."""

    @property
    @abstractmethod
    def keys(self) -> tuple[str, ...]:
        """The keys that it changes."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Other keys that it looks at."""
        return ()

    @abstractmethod
    def __call__(self, batch: Mapping[str, Any], generator: object = None) -> Batch:
        """The batch, transformed; what it has besides stays as it is. The generator is not used.

        Raises:
            TypeError, ValueError: `<key>: expected ..., got ...`: the batch lacks a key, or has
                another shape or type under it.
        """

    @abstractmethod
    def inverse(self, batch: Mapping[str, Any], given: Mapping[str, Any] | None = None) -> Batch:
        """The values that a batch was made of, up to rounding; masks stay as they are.

        Keys that the batch lacks need not be there: an action alone can be undone.

        Args:
            batch: What this transform made; or a policy's output under its key.
            given: The batch that the transform took, where the values are that others are relative
                to. None: `batch` has them, as they were.

        Raises:
            TypeError, ValueError: As a call.
        """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The fields from which :func:`from_dict` constructs it, of JSON's types."""

    @classmethod
    @abstractmethod
    def field_names(cls) -> list[str]:
        """Names of the fields of :meth:`to_dict`, without `type`."""

    @classmethod
    @abstractmethod
    def of_fields(cls, given: dict[str, Any]) -> Transform:
        """The transform that has these."""


def from_dict(given: Mapping[str, Any], name: str = "transform") -> Transform:
    """The transform that :meth:`Transform.to_dict` wrote down.

    Args:
        given: What that gave.
        name: What errors call it.

    Raises:
        TypeError, ValueError: `<name>.<field>: expected ..., got ...`: a type or a field that is
            unknown, a field that is missing, a value that it can't have.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"{name}: expected a mapping, got {type(given).__name__}")
    type_name = given.get("type")
    kind = _TYPES.get(type_name) if isinstance(type_name, str) else None
    if kind is None:
        raise ValueError(f"{name}.type: expected one of {', '.join(_TYPES)}, got {type_name!r}")
    known = kind.field_names()
    for field in given:
        if field not in known and field != "type":
            raise ValueError(f"{name}: expected {', '.join(known)} of {type_name}, got {field!r}")
    for field in known:
        if field not in given:
            raise ValueError(f"{name}: expected {', '.join(known)} of {type_name}, got no {field}")
    try:
        return kind.of_fields({field: given[field] for field in known})
    except TypeError as error:
        raise TypeError(f"{name}.{error}") from None
    except ValueError as error:
        raise ValueError(f"{name}.{error}") from None


def check_order(
    transforms: Sequence[object], normalized: Iterable[str], concat: Mapping[str, Sequence[str]]
) -> None:
    """That a loader does not normalize what its transforms want as it was.

    Args:
        transforms: The loader's; those that are not of this module may do as they like.
        normalized: The streams that it normalizes by itself.
        concat: Streams that stand under one key.

    Raises:
        ValueError: `normalize: expected none of <key>, ...`.
    """
    keys = set(normalized)
    keys |= {key for key, names in concat.items() if keys & set(names)}
    for i, transform in enumerate(transforms):
        if not isinstance(transform, Transform):
            continue
        for wanted, does in ((transform.keys, "changes"), (transform.reads, "reads")):
            for key in wanted:
                if key in keys:
                    raise ValueError(
                        f"normalize: expected none of {key}, which transforms[{i}] {does} after it "
                        "(rc.transforms.Normalize normalizes behind a transform), got some"
                    )


# ---- of one key ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _OfOneKey(Transform):
    key: str

    def __post_init__(self) -> None:
        check_key("key", self.key)

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.key,)

    def __call__(self, batch: Mapping[str, Any], generator: object = None) -> Batch:
        x = values_of(batch, self.key)
        return {**batch, self.key: self._forward(x, batch), **self._masks(batch)}

    def inverse(self, batch: Mapping[str, Any], given: Mapping[str, Any] | None = None) -> Batch:
        if self.key not in batch:
            return dict(batch)
        x = values_of(batch, self.key)
        return {**batch, self.key: self._inverse(x, batch if given is None else given)}

    def to_dict(self) -> dict[str, Any]:
        return {"type": self.type, **asdict(self)}

    @classmethod
    def field_names(cls) -> list[str]:
        return [field.name for field in fields(cls)]

    @classmethod
    def of_fields(cls, given: dict[str, Any]) -> Transform:
        return cls(**given)

    @abstractmethod
    def _forward(self, x: Tensor, batch: Mapping[str, Any]) -> Tensor: ...

    @abstractmethod
    def _inverse(self, x: Tensor, batch: Mapping[str, Any]) -> Tensor: ...

    def _masks(self, batch: Mapping[str, Any]) -> Batch:
        """Masks that change with the values."""
        return {}


@dataclass(frozen=True)
class ConvertRotation(_OfOneKey):
    """Rotations of a key in another form; see :func:`robocache.convert_rotation`.

    Args:
        key: A key of [...,D].
        source: The form that its rotations have.
        target: The form that they get, which may make rows wider or narrower.
        at: The column at which the rotation begins: 3 of a pose. The columns before and after it
            stay.

    Example:
        >>> transform = rc.transforms.ConvertRotation("pose", "quaternion_xyzw", "rotation_6d", 3)
        >>> loader = rc.Loader(store, 64, {"pose": [0.0, 0.1]}, transforms=[transform])
    """

    type: ClassVar[str] = "convert_rotation"

    source: RotationForm
    target: RotationForm
    at: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        form_code("source", self.source)
        form_code("target", self.target)
        check_column("at", self.at)

    def _forward(self, x: Tensor, batch: Mapping[str, Any]) -> Tensor:
        return self._convert(x, self.source, self.target)

    def _inverse(self, x: Tensor, batch: Mapping[str, Any]) -> Tensor:
        return self._convert(x, self.target, self.source)

    def _convert(self, x: Tensor, source: RotationForm, target: RotationForm) -> Tensor:
        columns = columns_of(self.key, x, self.at, width_of(source))
        return replaced(x, self.at, columns.size(-1), convert_rotation(columns, source, target))


@dataclass(frozen=True)
class RelativePose(_OfOneKey):
    """Poses of a key relative to one of another key; see :func:`robocache.relative_pose`.

    Its steps are padded also where the reference is, if the batch has masks.

    Args:
        key: A key of [B,K,D] or [B,D], with a pose in each row.
        to: A key of [B,K,D] or [B,D], with the pose of the anchor.
        form: The form of the rotations of both: ``"quaternion_xyzw"`` and so on.
        at: The column of `key` at which the pose begins; the columns before and after it stay.
        to_at: The column of `to`.
        step: The step of `to` that is the anchor's, at offset 0: its last one by default.

    Example:
        >>> actions = rc.transforms.RelativePose("action", "pose", "quaternion_xyzw")
        >>> loader = rc.Loader(
        ...     store, 64, {"pose": [-0.1, 0.0], "action": [0.0, 0.1]}, transforms=[actions]
        ... )
    """

    type: ClassVar[str] = "relative_pose"

    to: str
    form: RotationForm
    at: int = 0
    to_at: int = 0
    step: int = -1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_key("to", self.to)
        form_code("form", self.form)
        check_column("at", self.at)
        check_column("to_at", self.to_at)
        check_int("step", self.step)

    @property
    def reads(self) -> tuple[str, ...]:
        """The key of the anchor's pose."""
        return (self.to,)

    def _forward(self, x: Tensor, batch: Mapping[str, Any]) -> Tensor:
        return self._convert(relative_pose, x, batch)

    def _inverse(self, x: Tensor, batch: Mapping[str, Any]) -> Tensor:
        return self._convert(absolute_pose, x, batch)

    def _masks(self, batch: Mapping[str, Any]) -> Batch:
        return also_padded(batch, self.key, self.to, self.step)

    def _convert(self, function: Any, x: Tensor, batch: Mapping[str, Any]) -> Tensor:
        width = 3 + width_of(self.form)
        row = row_of(batch, self.to, self.step)
        anchor = columns_of(self.to, row, self.to_at, width)
        poses = columns_of(self.key, x, self.at, width)
        out = with_steps(self.key, lambda p, a: function(p, a, self.form), poses, self.to, anchor)
        return replaced(x, self.at, width, out)


@dataclass(frozen=True)
class _Deltas(_OfOneKey):
    start: str
    time_step: float | None = None
    step: int = -1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_key("start", self.start)
        check_time_step(self.time_step)
        check_int("step", self.step)

    @property
    def reads(self) -> tuple[str, ...]:
        """The key of the start."""
        return (self.start,)

    def _convert(self, function: Any, x: Tensor, batch: Mapping[str, Any]) -> Tensor:
        if x.dim() < 3:
            raise ValueError(f"{self.key}: expected [B,K,D], got {list(x.shape)}")
        row = row_of(batch, self.start, self.step)
        return with_steps(
            self.key, lambda x, s: function(x, s, time_step=self.time_step), x, self.start, row
        )


@dataclass(frozen=True)
class DeltaToAbsolute(_Deltas):
    """Deltas of a key, or velocities, added up; see :func:`robocache.delta_to_absolute`.

    A step is padded also where one before it is, or the start, if the batch has masks.

    Args:
        key: A key of [B,K,D].
        start: A key of [B,K,D] or [B,D]: what they are added to.
        time_step: How long each step takes, in seconds: they are velocities then.
        step: The step of `start` that is the anchor's, at offset 0: its last one by default.
    """

    type: ClassVar[str] = "delta_to_absolute"

    def _forward(self, x: Tensor, batch: Mapping[str, Any]) -> Tensor:
        return self._convert(delta_to_absolute, x, batch)

    def _inverse(self, x: Tensor, batch: Mapping[str, Any]) -> Tensor:
        return self._convert(absolute_to_delta, x, batch)

    def _masks(self, batch: Mapping[str, Any]) -> Batch:
        name = f"{self.key}_is_pad"
        if name not in batch:
            return {}
        # Without a mask of the start, that is taken for valid.
        masks = also_padded(batch, self.key, self.start, self.step)
        return {name: masks.get(name, batch[name]).cumsum(-1) > 0}


@dataclass(frozen=True)
class AbsoluteToDelta(_Deltas):
    """The step from each row of a key to the next; see :func:`robocache.absolute_to_delta`.

    A step is padded also where the one before it is, or for the first the start, if the batch has
    masks.

    Args:
        key: A key of [B,K,D].
        start: A key of [B,K,D] or [B,D]: what the first step starts from.
        time_step: How long each step takes, in seconds: they become velocities then.
        step: The step of `start` that is the anchor's, at offset 0: its last one by default.
    """

    type: ClassVar[str] = "absolute_to_delta"

    def _forward(self, x: Tensor, batch: Mapping[str, Any]) -> Tensor:
        return self._convert(absolute_to_delta, x, batch)

    def _inverse(self, x: Tensor, batch: Mapping[str, Any]) -> Tensor:
        return self._convert(delta_to_absolute, x, batch)

    def _masks(self, batch: Mapping[str, Any]) -> Batch:
        name, of_start = f"{self.key}_is_pad", padded_row(batch, self.start, self.step)
        if name not in batch:
            return {}
        if of_start is None:  # no mask: it is taken for valid
            of_start = torch.zeros_like(batch[name][:, 0])
        before = torch.cat([of_start[:, None], batch[name][:, :-1]], -1)
        return {name: batch[name] | before}


# ---- of several ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Normalize(Transform):
    """Normalizes values after other transforms; see :class:`robocache.Normalizer`.

    What a loader normalizes by itself is normalized before its transforms. Of a key that these
    change, the statistics are those of the changed values: ``rc.compute_stats`` of a loader with
    the other transforms gives them.

    Args:
        normalizer: It normalizes those of its keys that a batch has, at least one.
    """

    type: ClassVar[str] = "normalize"

    normalizer: Normalizer

    def __post_init__(self) -> None:
        if not isinstance(self.normalizer, Normalizer):
            kind = type(self.normalizer).__name__
            raise TypeError(f"normalizer: expected a Normalizer, got {kind}")

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the normalizer."""
        return tuple(self.normalizer.normalization)

    def __call__(self, batch: Mapping[str, Any], generator: object = None) -> Batch:
        """As :meth:`robocache.Normalizer.forward`."""
        return self.normalizer.forward(batch)

    def inverse(self, batch: Mapping[str, Any], given: Mapping[str, Any] | None = None) -> Batch:
        """As :meth:`robocache.Normalizer.inverse`; a batch with none of the keys stays as it is."""
        if not any(key in batch for key in self.keys):
            return dict(batch)
        return self.normalizer.inverse(batch)

    def to_dict(self) -> dict[str, Any]:
        """Its numbers, as lists, by key."""
        scales = self.normalizer.normalization.items()
        parts = {key: {name: x.tolist() for name, x in of._asdict().items()} for key, of in scales}
        return {"type": self.type, "normalization": parts}

    @classmethod
    def field_names(cls) -> list[str]:
        """Names of the fields of :meth:`to_dict`, without `type`."""
        return ["normalization"]

    @classmethod
    def of_fields(cls, given: dict[str, Any]) -> Transform:
        """The transform that has these."""
        scales = given["normalization"]
        if not isinstance(scales, Mapping):
            raise TypeError(f"normalization: expected a mapping, got {type(scales).__name__}")
        made = {}
        for key, parts in scales.items():
            if not isinstance(parts, Mapping) or set(parts) != set(Normalization._fields):
                expected = " and ".join(Normalization._fields)
                raise ValueError(f"normalization[{key!r}]: expected {expected}, got {parts!r}")
            made[key] = Normalization(*(np.asarray(parts[x]) for x in Normalization._fields))
        return cls(Normalizer(made))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Normalize) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.keys)


_TYPES: dict[str, type[Transform]] = {
    kind.type: kind
    for kind in (ConvertRotation, RelativePose, DeltaToAbsolute, AbsoluteToDelta, Normalize)
}
