"""Batches of the loader beside items of another library, value by value, and the table of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- parity -->", "<!-- end parity -->"


@dataclass
class Row:
    """A row of the table: counts for one library on one kind of data."""

    library: str
    what: str
    samples: int = 0
    values: int = 0
    differing: int = 0


ROWS: dict[tuple[str, str], Row] = {}


def compare(
    library: str | None, what: str, batch: Mapping[str, Any], items: Sequence[Mapping[str, Any]]
) -> None:
    """Sample b of a batch is items[b]: the same keys, types, shapes and bits.

    Counted in the table, where the library has a name.
    """
    row = Row("", what)
    if library is not None:
        row = ROWS.setdefault((library, what), Row(library, what))
    got, wanted = dict(leaves(batch)), [dict(leaves(item)) for item in items]
    assert wanted
    assert set(got) == set(wanted[0]), sorted(set(got) ^ set(wanted[0]))
    row.samples += len(items)
    for key, values in got.items():
        assert len(values) == len(items), key
        expected = [item[key] for item in wanted]
        if isinstance(expected[0], str):
            count, differing = (
                len(items),
                sum(a != b for a, b in zip(values, expected, strict=True)),
            )
        else:
            stacked = torch.stack([torch.as_tensor(x) for x in expected])
            assert (values.dtype, values.shape) == (stacked.dtype, stacked.shape), (
                key, values.dtype, values.shape, stacked.dtype, stacked.shape
            )  # fmt: skip
            count, differing = values.numel(), int((_bits(values) != _bits(stacked)).sum())
        row.values += count
        row.differing += differing
        assert differing == 0, f"{key}: {differing} of {count} values differ"


def leaves(item: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The entries of dicts within dicts, by the path of their keys."""
    for key, value in item.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{key}/")
        else:
            yield prefix + key, value


def _bits(values: torch.Tensor) -> torch.Tensor:
    whole = {torch.float32: torch.int32, torch.float64: torch.int64, torch.bool: torch.uint8}
    return values.contiguous().view(whole.get(values.dtype, values.dtype))


def table() -> str:
    """The table of all comparisons, as Markdown."""
    lines = [
        "| library | data | samples | values | values that differ |",
        "|---|---|---:|---:|---:|",
    ]
    lines += [
        f"| {row.library} | {row.what} | {row.samples:,} | {row.values:,} | {row.differing:,} |"
        for _, row in sorted(ROWS.items())
    ]
    return "\n".join(lines)


def between_markers(text: str) -> re.Match[str]:
    """Where the README has the table."""
    found = re.search(f"(?<={BEGIN}\n\n).*?(?=\n*{END})", text, re.S)
    assert found is not None, f"README.md: expected {BEGIN} and {END}"
    return found
