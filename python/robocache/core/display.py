"""How objects show themselves at a prompt: short texts, which fit a screen of 25 lines.

Arrays are their type and shape, and long collections their first items.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any, TypeVar

V = TypeVar("V")

MOST_NAMES = 8
_MOST_ITEMS = 6
_MOST_NUMBERS = 8  # of an array that is shown whole
_LETTERS = 120  # of an item


# ---- words ---------------------------------------------------------------------------------------


def counted(count: int, what: str) -> str:
    """N of something, as people say it: ``1 episode``, ``2,000 episodes``, ``3 batches``."""
    plural = "es" if what.endswith("ch") else "s"
    return f"{count:,} {what}{plural if count != 1 else ''}"


def streams_of_rows(rows: Mapping[str, int]) -> str:
    """How many streams there are, and how many rows each has: ``3 streams of 1,000 rows``.

    Rows of several streams are never added up: a table of 1,000 lines has 1,000 rows.
    """
    counts = [count for count in rows.values() if count]
    most = max(counts, default=0)
    up_to = "up to " if len(set(counts)) > 1 else ""
    return f"{counted(len(counts), 'stream')} of {up_to}{counted(most, 'row')}"


def byte_count(count: float) -> str:
    """Bytes in the unit that suits them."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


_CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters, those that turn the direction of writing, line separators, surrogates."""


def printable(text: str, keep: str = "") -> str:
    """A text with escapes, as `repr` writes them, for characters that would steer a terminal.

    Args:
        text: From a file, perhaps.
        keep: Control characters that stay.
    """

    def escaped(match: re.Match[str]) -> str:
        return match[0] if match[0] in keep else match[0].encode("unicode_escape").decode()

    return _CONTROLS.sub(escaped, text)


def cut(text: str, letters: int = _LETTERS) -> str:
    """A text of at most `letters` characters, all of them printable.

    The middle of a longer one is left out.
    """
    text = printable(text)
    if len(text) <= letters:
        return text
    tail = (letters - 1) // 2
    return f"{text[: letters - 1 - tail]}…{text[-tail:]}"


def listed(names: Collection[str], most: int = MOST_NAMES) -> str:
    """Names in words: the first few, and the number of the others."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(cut(name) for name in islice(names, most)) + more


def shape_words(shape: Sequence[int | None]) -> str:
    """A row's shape in a table: "480x640x3"; "*x3" of ragged rows; "" of a number."""
    return "x".join("*" if size is None else str(size) for size in shape)


def method_text(method: str | Sequence[tuple[str, int]]) -> str:
    """An alignment method in words; a layout has one for each run of channels."""
    if isinstance(method, str):
        return method
    if len(method) == 1:
        return method[0][0]
    return listed([f"{name} {width}" for name, width in method], 4)


# ---- texts of objects ----------------------------------------------------------------------------


def short(value: Any) -> str:
    """`repr` of a value in at most a few hundred characters: long containers are cut.

    An array of more than a few numbers, and a tensor of any size, is its type and shape.
    """
    if hasattr(value, "dtype") and getattr(value, "shape", ()) != ():
        if getattr(value, "size", None) in range(_MOST_NUMBERS + 1) and value.ndim == 1:
            return cut(str(value.tolist()))
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, Mapping):
        shown = [f"{_item(key)}: {_item(x)}" for key, x in islice(value.items(), _MOST_ITEMS)]
        return f"{{{', '.join([*shown, *_more(value)])}}}"
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        begin, end = "[]" if isinstance(value, list) else "()"
        shown = [*map(_item, value[:_MOST_ITEMS]), *_more(value)]
        comma = "," if end == ")" and len(shown) == 1 else ""
        return f"{begin}{', '.join(shown)}{comma}{end}"
    return cut(repr(value), 4 * _LETTERS)


def short_repr(record: Any) -> str:
    """`repr` of a dataclass or a named tuple, its fields cut."""
    if is_dataclass(record):
        names = [field.name for field in fields(record) if field.repr]
    else:
        names = list(record._fields)
    shown = ", ".join(f"{name}={short(getattr(record, name))}" for name in names)
    return f"{type(record).__qualname__}({shown})"


def _item(value: Any) -> str:
    return cut(short(value))


def _more(values: Collection[Any]) -> list[str]:
    left = len(values) - _MOST_ITEMS
    return [f"... {left:,} more"] if left > 0 else []


class ShortRepr:
    """A dataclass with :func:`short_repr` for `repr`: ``@dataclass(repr=False)``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return short_repr(self)


class ByName(Mapping[str, V]):
    """A read-only mapping by name, with key completion in notebooks and a short `repr`."""

    def __init__(self, items: Mapping[str, V]) -> None:
        self._items = items

    def __getitem__(self, name: str) -> V:
        try:
            return self._items[name]
        except KeyError:
            raise KeyError(f"expected one of {listed(self)}, got {name!r}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def __repr__(self) -> str:
        return f"<{len(self)} by name: {listed(self)}>" if self else "{}"

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)
