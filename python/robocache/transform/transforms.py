"""Serializable, invertible transforms of batches: ``Loader(transforms=[...])``.

A transform is called with a batch and a generator, like all transforms of a loader, and returns a
batch. `inverse` computes its inverse; policy specs serialize it by `to_dict` and :func:`from_dict`.
Transforms call functions of this library, and compute on the device of the batch.
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
    """The transform's name in :meth:`to_dict`."""
    step = -1
    """The index of the anchor's step (offset 0) in the keys of :attr:`reads`."""

    @property
    @abstractmethod
    def keys(self) -> tuple[str, ...]:
        """The keys that the transform changes."""

    @property
    def reads(self) -> tuple[str, ...]:
        """Other keys that the transform reads."""
        return ()

    @abstractmethod
    def __call__(self, batch: Mapping[str, Any], generator: object = None) -> Batch:
        """Returns a transformed batch; other keys are unchanged. `generator` is not used.

        Raises:
            TypeError, ValueError: `<key>: expected ..., got ...`: the batch lacks a key, or a value
                has another shape or type.
        """

    @abstractmethod
    def inverse(self, batch: Mapping[str, Any], given: Mapping[str, Any] | None = None) -> Batch:
        """Returns the batch before the transform, up to rounding; masks are unchanged.

        Ignores keys that the batch lacks: a batch may contain an action alone.

        Args:
            batch: A transformed batch; or a policy's output under its key.
            given: The batch before the transform, with the reference of relative values. None:
                `batch` contains the reference, not transformed.

        Raises:
            TypeError, ValueError: As a call.
        """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The type and fields of the transform, JSON values; :func:`from_dict` is the inverse."""

    @classmethod
    @abstractmethod
    def field_names(cls) -> list[str]:
        """Names of the fields of :meth:`to_dict`, without `type`."""

    @classmethod
    @abstractmethod
    def of_fields(cls, given: dict[str, Any]) -> Transform:
        """The transform with these fields."""


def from_dict(given: Mapping[str, Any], name: str = "transform") -> Transform:
    """Constructs a transform from the result of :meth:`Transform.to_dict`.

    Args:
        given: The result of :meth:`Transform.to_dict`.
        name: The name of the transform in errors.

    Raises:
        TypeError, ValueError: `<name>.<field>: expected ..., got ...`: an unknown type or field, a
            missing field, an invalid value.
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
    """Checks that the loader does not normalize keys that its transforms change or read.

    The transforms of this module compute with values in their physical units.

    Args:
        transforms: The loader's transforms; those of other modules are not checked.
        normalized: The streams that the loader normalizes.
        concat: The streams of each concatenated key.

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


# ---- transforms of one key -----------------------------------------------------------------------


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
    """Converts the rotations of a key to another form; see :func:`robocache.convert_rotation`.

    Args:
        key: A key with values [...,D].
        source: The form of its rotations.
        target: The form to convert to, which may change D.
        at: The column at which the rotation begins: 3 for a pose. Other columns are unchanged.

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
    """Expresses a key's poses relative to a pose of another key; see :func:`relative_pose`.

    If the batch has masks, steps are also padded where the reference is.

    Args:
        key: A key with values [B,K,D] or [B,D], a pose in each row.
        to: A key with values [B,K,D] or [B,D], which contains the anchor's pose.
        form: The form of the rotations of both: ``"quaternion_xyzw"`` and so on.
        at: The column of `key` at which the pose begins; other columns are unchanged.
        to_at: The column of `to` at which the pose begins.
        step: The index of the anchor's step (offset 0) in `to`: the last by default.

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
    """Accumulates the deltas or velocities of a key; see :func:`robocache.delta_to_absolute`.

    If the batch has masks, a step is also padded where the start or an earlier step is.

    Args:
        key: A key with values [B,K,D].
        start: A key with values [B,K,D] or [B,D], to which the deltas are added.
        time_step: The duration of a step in seconds, if the values are velocities.
        step: The index of the anchor's step (offset 0) in `start`: the last by default.
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
        # A start without a mask is valid.
        masks = also_padded(batch, self.key, self.start, self.step)
        return {name: masks.get(name, batch[name]).cumsum(-1) > 0}


@dataclass(frozen=True)
class AbsoluteToDelta(_Deltas):
    """Computes the deltas between the rows of a key; see :func:`robocache.absolute_to_delta`.

    If the batch has masks, a step is also padded where the previous one is, the first where the
    start is.

    Args:
        key: A key with values [B,K,D].
        start: A key with values [B,K,D] or [B,D], from which the first delta is computed.
        time_step: The duration of a step in seconds, to compute velocities.
        step: The index of the anchor's step (offset 0) in `start`: the last by default.
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
        if of_start is None:  # a start without a mask is valid
            of_start = torch.zeros_like(batch[name][:, 0])
        before = torch.cat([of_start[:, None], batch[name][:, :-1]], -1)
        return {name: batch[name] | before}


# ---- transforms of several keys ------------------------------------------------------------------


@dataclass(frozen=True)
class Normalize(Transform):
    """Normalizes values after other transforms; see :class:`robocache.Normalizer`.

    ``Loader(normalize=)`` normalizes before its transforms. To normalize a key that transforms
    change, use statistics of the changed values: ``rc.compute_stats`` of a loader with the other
    transforms.

    Args:
        normalizer: Normalizes those of its keys that a batch has, at least one.
    """

    type: ClassVar[str] = "normalize"

    normalizer: Normalizer

    def __post_init__(self) -> None:
        if not isinstance(self.normalizer, Normalizer):
            kind = type(self.normalizer).__name__
            raise TypeError(f"normalizer: expected a Normalizer, got {kind}")

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the normalizer."""
        return tuple(self.normalizer.normalization)

    def __call__(self, batch: Mapping[str, Any], generator: object = None) -> Batch:
        """As :meth:`robocache.Normalizer.forward`."""
        return self.normalizer.forward(batch)

    def inverse(self, batch: Mapping[str, Any], given: Mapping[str, Any] | None = None) -> Batch:
        """As :meth:`robocache.Normalizer.inverse`; returns a batch without the keys unchanged."""
        if not any(key in batch for key in self.keys):
            return dict(batch)
        return self.normalizer.inverse(batch)

    def to_dict(self) -> dict[str, Any]:
        """The normalizer's scales and offsets, as lists by key."""
        scales = self.normalizer.normalization.items()
        parts = {key: {name: x.tolist() for name, x in of._asdict().items()} for key, of in scales}
        return {"type": self.type, "normalization": parts}

    @classmethod
    def field_names(cls) -> list[str]:
        """Names of the fields of :meth:`to_dict`, without `type`."""
        return ["normalization"]

    @classmethod
    def of_fields(cls, given: dict[str, Any]) -> Transform:
        """The transform with these fields."""
        scales = given["normalization"]
        if not isinstance(scales, Mapping):
            raise TypeError(f"normalization: expected a mapping, got {type(scales).__name__}")
        normalization = {}
        for key, parts in scales.items():
            if not isinstance(parts, Mapping) or set(parts) != set(Normalization._fields):
                expected = " and ".join(Normalization._fields)
                raise ValueError(f"normalization[{key!r}]: expected {expected}, got {parts!r}")
            arrays = (np.asarray(parts[name]) for name in Normalization._fields)
            normalization[key] = Normalization(*arrays)
        return cls(Normalizer(normalization))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Normalize) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.keys)


_TYPES: dict[str, type[Transform]] = {
    kind.type: kind
    for kind in (ConvertRotation, RelativePose, DeltaToAbsolute, AbsoluteToDelta, Normalize)
}
