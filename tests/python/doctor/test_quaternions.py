"""The doctor's findings on quaternions that no method declares."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robocache.doctor import Finding, Series, check_episode, examine
from robocache.readers import StreamMetadata

ROWS = 400
ADVICE = (
    "give these channels the method slerp_xyzw or slerp_wxyz, by their order: linear leaves the "
    "rotations, and goes through zero where the sign changes"
)


def turning(seed: int = 0) -> Any:
    """[ROWS,4] float64 of norm 1, smooth, of one sign throughout."""
    rng = np.random.default_rng(seed)
    t = np.arange(ROWS)[:, None] / 100
    q = np.concatenate([0.5 * np.sin(t * rng.uniform(1, 2, 3)), np.ones((ROWS, 1))], axis=1)
    return q / np.linalg.norm(q, axis=1, keepdims=True)


def stream(name: str, values: Any, **metadata: Any) -> Series:
    times = 1_700_000_000_000_000_000 + np.arange(len(values)) * 10_000_000
    return Series(name, times, np.asarray(values), StreamMetadata(**metadata))


def found_in(*streams: Series) -> list[Finding]:
    return [f for f in check_episode(streams) if f.kind == "quaternion_linear"]


def test_four_channels() -> None:
    """The whole of a stream without names, such as a list of four in a Parquet file."""
    (found,) = found_in(stream("pose", turning()))
    assert (found.severity, found.stream, found.count) == ("warning", "pose", 1)
    assert found.text == (
        "channels 0, 1, 2, 3 look like a quaternion (norm 1 in every row) and are interpolated "
        "linearly"
    )
    assert found.advice == ADVICE


def test_signs_are_said_with_it() -> None:
    values = turning()
    values[100:] *= -1
    (found,) = check_episode([stream("pose", values)])
    assert (found.kind, found.time_s) == ("quaternion_linear", 1.0)
    assert found.text.endswith(" and are interpolated linearly; the sign changes once")


def test_named_channels_among_others() -> None:
    values = np.concatenate([np.full((ROWS, 3), 0.3), turning(), turning(1)], axis=1)
    names = ("x", "y", "z", *(f"{hand}.q{a}" for hand in ("left", "right") for a in "wxyz"))
    (found,) = found_in(stream("state", values, channels=names))
    assert found.count == 2
    assert found.text == (
        "2 times four channels look like a quaternion (norm 1 in every row) and are interpolated "
        "linearly"
    )
    assert found_in(stream("state", values)) == [], "without names, eleven channels say nothing"
    method = (("linear", 3), ("slerp_wxyz", 8))
    assert found_in(stream("state", values, channels=names, method=method)) == []


@pytest.mark.parametrize("method", ["slerp_xyzw", "previous", "nearest", "angle"])
def test_other_methods(method: str) -> None:
    assert found_in(stream("pose", turning(), method=method)) == []
    scalars = [stream(name, turning()[:, [i]], method=method) for i, name in enumerate("abcd")]
    if not method.startswith("slerp"):
        assert found_in(*scalars) == []


def test_what_is_no_quaternion() -> None:
    rest = np.tile(turning()[:1], (ROWS, 1))
    one_hot = np.eye(4)[np.arange(ROWS) // 10 % 4]
    flag = np.concatenate([np.ones((ROWS, 1)), 0.01 * turning()[:, :3]], axis=1)
    joints = turning() * np.linspace(1, 1.1, ROWS)[:, None]
    for values in (rest, one_hot, flag, joints, turning()[:, :3], turning()[:1], turning()[:0]):
        assert found_in(stream("a", values)) == []
    gap = turning()
    gap[7] = np.nan
    assert found_in(stream("a", gap)) == []


def test_four_streams_of_one_number() -> None:
    """Columns whose names say nothing, between others."""
    values = turning()
    four = [stream(f"rot{name}", values[:, [i]]) for i, name in enumerate("ABCD")]
    other = stream("force", np.cumsum(values[:, [0]], axis=0))
    (found,) = found_in(other, *four, other)
    assert (found.severity, found.stream) == ("warning", None)
    assert found.streams == ("rotA", "rotB", "rotC", "rotD")
    assert found.text == (
        "streams rotA, rotB, rotC, rotD look like a quaternion (norm 1 in every row), and each is "
        "interpolated linearly"
    )
    assert found.advice == (
        "record them as one stream of four channels with the method slerp_xyzw or slerp_wxyz "
        "(columns of a table: name them qx, qy, qz, qw)"
    )
    assert found_in(*four[:2], other, *four[2:]) == [], "not one after the other"
    late = replace(four[3], times=four[3].times + 1)
    assert found_in(*four[:3], late) == [], "not of one clock"
    t = np.arange(ROWS)[:, None] / 100
    planar = [np.sin(t), np.cos(t), 0 * t, 0 * t]
    assert found_in(*[stream(n, v) for n, v in zip("abcd", planar, strict=True)]) == []


def test_rows_that_are_not_valid_do_not_count() -> None:
    values = turning()
    values[5] = 0
    valid = np.arange(ROWS) != 5
    assert found_in(stream("pose", values)) == []
    assert len(found_in(replace(stream("pose", values), valid=valid))) == 1
    four = [stream(n, values[:, [i]]) for i, n in enumerate("abcd")]
    assert found_in(*four) == []
    assert len(found_in(replace(four[0], valid=valid), *four[1:])) == 1


def test_a_list_of_four_in_parquet(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="tables need pyarrow")
    pq = pytest.importorskip("pyarrow.parquet", reason="tables need pyarrow")
    values = turning()
    columns = {"t": np.arange(ROWS) / 100, "pose": list(values)}
    columns |= {f"rot{n}": values[:, i] for i, n in enumerate("ABCD")}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    found = [f for f in examine(tmp_path / "a.parquet").findings if f.kind == "quaternion_linear"]
    assert [(f.stream, f.streams) for f in found] == [
        ("pose", ()),
        (None, ("rotA", "rotB", "rotC", "rotD")),
    ]
