"""How objects show themselves at a prompt: short texts, which fit a screen of 25 lines.

Arrays are their type and shape, and long collections their first items.
"""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

MOST_ELEMENTS = 8  # of an array that is shown whole
LONGEST_FIELDS = 1200  # characters of an object's fields


# ---- words ---------------------------------------------------------------------------------------


def counted(count: int, what: str) -> str:
    """N of something, as people say it: ``1 episode``, ``2,000 episodes``."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def byte_count(count: float) -> str:
    """Bytes in the unit that suits them."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def shortened(text: str, longest: int = 100) -> str:
    """A text without its middle, where it is longer than that."""
    if len(text) <= longest:
        return text
    before = (longest - 3) // 2
    return f"{text[:before]}...{text[before + 3 - longest :]}"


# ---- texts of objects ----------------------------------------------------------------------------


class _Short(reprlib.Repr):
    """Values of fields: arrays by type and shape, collections by their first items."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = 100
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = 6

    def repr_dict(self, x: Any, level: int) -> str:
        """In the order that it has."""
        shown = [
            f"{self.repr1(key, level - 1)}: {self.repr1(value, level - 1)}"
            for key, value in itertools.islice(x.items(), self.maxdict)
        ]
        return f"{{{', '.join(shown)}{', ...' * (len(x) > self.maxdict)}}}"

    repr_mappingproxy = repr_dict

    def repr_ndarray(self, x: Any, level: int) -> str:
        """A few numbers as they are, more as a type and a shape."""
        if x.ndim <= 1 and x.size <= MOST_ELEMENTS:
            return repr(x.tolist())
        return f"{x.dtype}{list(x.shape)}"

    def repr_Tensor(self, x: Any, level: int) -> str:  # noqa: N802 - named after the type
        """Its type and shape: numbers may be on a GPU."""
        return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"

    def repr_instance(self, x: Any, level: int) -> str:
        """Another object's own text, in a line."""
        return shortened(" ".join(repr(x).split()), self.maxother)


_SHORT = _Short()


def brief(kind: str, values: Iterable[tuple[str, object]]) -> str:
    """``Kind(field=value, ...)`` of an object; fields beyond what a screen has are counted."""
    pairs = list(values)
    shown: list[str] = []
    room = LONGEST_FIELDS
    for name, value in pairs:
        text = f"{name}={_SHORT.repr(value)}"
        room -= len(text)
        if room < 0:
            shown.append(f"... {counted(len(pairs) - len(shown), 'more field')}")
            break
        shown.append(text)
    return f"{kind}({', '.join(shown)})"


class Brief:
    """A dataclass (of ``repr=False``) whose text is short, however much its fields hold."""

    def __repr__(self) -> str:
        values = ((field.name, getattr(self, field.name)) for field in fields(self))  # type: ignore[arg-type]
        return brief(type(self).__qualname__, values)
