"""Groups the columns of a table into streams, and detects quaternions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from robocache.readers.recording import Method
from robocache.readers.tables.column_names import (
    AXES,
    Family,
    families,
    says_quaternion,
    split_units,
)

Kind = Literal["number", "integer", "flag", "list"]
"""The kind of a column: ``"integer"`` if float64 cannot represent all values, ``"list"`` if each
cell is a row of a stream. Columns of different kinds do not share a stream."""

AreUnit = Callable[[Sequence[str]], bool | None]
"""Whether four columns have norm 1 in the first rows; None if none is finite and nonzero."""


@dataclass(frozen=True)
class Group:
    """The columns of one stream."""

    stream: str
    columns: tuple[str, ...]
    channels: tuple[str, ...] | None = None
    """Names of the numbers of a row; None: one column, whose rows are the stream's."""
    units: str | None = None
    """The units in brackets, if the names of all columns have the same."""
    method: Method | None = None
    """The method, if quaternions are among the channels; None: the default."""
    is_guess: bool = False
    """Whether a note should report the grouping and its method."""


def group(columns: Mapping[str, Kind], are_unit: AreUnit) -> list[Group]:
    """Groups columns into streams, in the order of their first columns.

    Channels w, x, y and z are a quaternion if their norms in the first rows are 1, or if no row
    determines the norm and a word of the name marks a quaternion (``quat_x``, ``orientation.x``).
    Four numbered channels are one only if both the norms and the name say so: ``q0`` to ``q3`` may
    be joints, and ``q0`` to ``q5`` always are.

    Args:
        columns: Names and kinds.
        are_unit: Checks the norms of four columns in the first rows.
    """
    names = list(columns)
    bases, units = _bases(names)
    found: dict[int, Group] = {}
    streams: set[str] = set()
    for kind in ("number", "integer", "flag"):
        numbers = [i for i, name in enumerate(names) if columns[name] == kind]
        found_families = families([bases[i] for i in numbers])
        for family in sorted(found_families, key=lambda family: family.pattern in AXES):
            members = {numbers[at]: channel for at, channel in family.channels.items()}
            letters = "".join(members.values())
            stream = family.stream or letters
            if family.pattern in AXES and (stream in streams or stream in bases):
                stream = f"{stream}_{letters}"  # q_xyzw beside joints q1, q2, q3
            is_taken = stream in streams or stream in bases
            if is_taken and (kind != "number" or family.pattern.is_guess):
                continue  # columns of another kind, or a single column, have this name
            streams.add(stream)
            shared = {units[i] for i in members}
            one = _with_method(
                Group(
                    stream,
                    tuple(names[i] for i in members),
                    tuple(members.values()),
                    shared.pop() if len(shared) == 1 else None,
                    is_guess=family.pattern.is_guess,
                ),
                family,
                are_unit if kind == "number" else lambda _: False,
            )
            found[min(members)] = one
    grouped = {column for one in found.values() for column in one.columns}
    for i, name in enumerate(names):
        if name not in grouped:
            found[i] = Group(bases[i], (name,), units=units[i])
    return [found[i] for i in sorted(found)]


def _bases(names: Sequence[str]) -> tuple[list[str], list[str | None]]:
    """Names and units; the whole names, without units, if two differ in units only."""
    split = [split_units(name) for name in names]
    bases = [base for base, _ in split]
    if len(set(bases)) < len(bases):
        return [name.strip() for name in names], [None] * len(names)
    return bases, [units for _, units in split]


# ---- quaternions ---------------------------------------------------------------------------------


def _with_method(one: Group, family: Family, are_unit: AreUnit) -> Group:
    """The group with its quaternions' channels made adjacent, and the method of the layout."""
    assert one.channels is not None
    quaternions = _quaternions(one, family, are_unit)
    if not quaternions:
        return one
    order: list[int] = []
    runs: list[tuple[str, int]] = []
    for i in range(len(one.columns)):
        four = next((four for four in quaternions if i in four), None)
        if four is None:
            order.append(i)
            before = runs.pop()[1] if runs and runs[-1][0] == "linear" else 0
            runs.append(("linear", before + 1))
        elif i == min(four):
            order += four
            runs.append((quaternions[four], 4))
    return Group(
        one.stream,
        tuple(one.columns[i] for i in order),
        tuple(one.channels[i] for i in order),
        one.units,
        runs[0][0] if len(runs) == 1 else tuple(runs),
        is_guess=True,
    )


def _quaternions(one: Group, family: Family, are_unit: AreUnit) -> dict[tuple[int, ...], str]:
    """The method of each quaternion, by its four channels in the method's order."""
    assert one.channels is not None
    stream = one.stream.replace("/", ".").rpartition(".")[2]
    if all(channel.isdecimal() for channel in one.channels):
        four = tuple(range(4))
        is_one = len(one.columns) == 4 and says_quaternion(stream) and are_unit(one.columns)
        # By convention, the first of numbered components is the scalar.
        return {four: "slerp_wxyz"} if is_one else {}
    found = {}
    names = [family.stream + c if family.pattern in AXES else c for c in one.channels]
    for axes in families(names, AXES):
        if len(axes.channels) != 4:
            continue
        by_letter = {letter.lower(): i for i, letter in axes.channels.items()}
        columns = [one.columns[i] for i in by_letter.values()]
        is_unit = are_unit(columns)
        if is_unit or (is_unit is None and says_quaternion(axes.stream or stream)):
            is_scalar_first = by_letter["w"] == min(by_letter.values())
            method = "slerp_wxyz" if is_scalar_first else "slerp_xyzw"
            letters = method.removeprefix("slerp_")
            found[tuple(by_letter[letter] for letter in letters)] = method
    return found
