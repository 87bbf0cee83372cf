"""The transforms of a policy spec at control time: done to batches, and undone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from robocache.policy_spec import PolicySpec, transforms_of


class LiveTransforms:
    """What a spec's transforms do, and what they took from the last query's batch.

    Attributes:
        ages: Keys of ages that batches need to have here; they are taken out again where the spec
            has none.
    """

    def __init__(self, spec: PolicySpec, robots: int, name: str) -> None:
        """`name`: what errors call the spec.

        Raises:
            ValueError: `<name>: transforms[i]...`: one that is none.
        """
        self._transforms = transforms_of(spec, f"{name}: ")
        self._with_age = spec.with_age
        # The streams behind each key that some transform reads.
        self._members = {
            key: spec.concat.get(key, (key,))
            for transform in self._transforms
            for key in transform.reads
        }
        self.ages = {f"{name}_age" for names in self._members.values() for name in names}
        self._read: list[dict[str, Tensor]] = [{} for _ in self._transforms]
        self._missing: list[dict[str, Tensor]] = [{} for _ in self._transforms]
        self._asked = [False] * robots  # since the robot's last reset

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """A query's batch, transformed; what it has is remembered for :meth:`inverse`."""
        # Before a first row a window is zeros: padded, at age 0. (A row that is held is padded too,
        # but it has an age; and what was held in training is what a robot may go by.)
        for i, transform in enumerate(self._transforms):
            self._missing[i] = {
                key: _without_row(batch, name, transform.step)
                for key in transform.reads
                for name in self._members[key]
            }
        if not self._with_age:
            for key in self.ages:
                batch.pop(key, None)
        for i, transform in enumerate(self._transforms):
            self._read[i] = {key: batch[key].clone() for key in transform.reads if key in batch}
            if any(key in batch for key in transform.keys):  # others are of what lies ahead
                batch = transform(batch)
        self._asked = [True] * len(self._asked)
        return batch

    def inverse(self, key: str, values: Tensor, device: Any) -> Tensor:
        """[R,K,...] as they were before the transforms.

        Raises:
            RuntimeError: A transform is relative to what no query, or no row of a query, gave.
            TypeError, ValueError: As of `Transform.inverse`.
        """
        chain = list(zip(self._transforms, self._read, self._missing, strict=True))
        for transform, read, missing in chain[::-1]:
            if key not in transform.keys:
                continue
            for name in transform.reads:
                if name not in read or not all(self._asked):
                    raise RuntimeError(
                        f"undo: expected a query first, whose {name} {key} is relative to"
                    )
                if name in missing and bool(missing[name].any()):
                    raise RuntimeError(
                        f"undo: expected a row of {name} by the last query, which {key} is "
                        "relative to"
                    )
            values = transform.inverse({key: values.to(device)}, read)[key]
        return values

    def reset(self, robot: int | None) -> None:
        """Forgets the last query, of one robot or of all."""
        for one in range(len(self._asked)) if robot is None else [robot]:
            self._asked[one] = False


def _without_row(batch: Mapping[str, Any], name: str, step: int) -> Tensor:
    """[R]: whether a stream had no row at a step."""
    is_pad, age = (batch[f"{name}{what}"] for what in ("_is_pad", "_age"))
    if is_pad.dim() > 1:
        is_pad, age = is_pad[:, step], age[:, step]
    missing: Tensor = is_pad & (age == 0)
    return missing
