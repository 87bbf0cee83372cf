"""`Recipe`: the constructor and the arguments that build a loader again, in another process."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from robocache.loader.sampling.episodes import Episodes


class Recipe(NamedTuple):
    """A constructor and its arguments; a pickled loader is its recipe and its state dict.

    A loader keeps its tensors out of pickles: the store opens again where the pickle is loaded.
    """

    constructor: Callable[..., Any]
    arguments: Mapping[str, Any]

    def build(self) -> Any:
        """A new loader of the same arguments."""
        return self.constructor(**self.arguments)


def snapshot_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Copies of arguments, which later changes of the caller's lists and mappings do not reach.

    Stores and functions are referred to and not copied.
    """

    def copied(name: str, value: Any) -> Any:
        if name in ("store", "predicate", "transforms"):
            return value
        if isinstance(value, Episodes):
            parts = {field.name: getattr(value, field.name) for field in fields(value)}
            return Episodes(**{part: copied(part, x) for part, x in parts.items()})
        return copy.deepcopy(value)

    return {name: copied(name, value) for name, value in arguments.items()}
