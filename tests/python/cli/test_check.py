"""`robocache check`: a screen of groups, worst first; `--all` and `--json` have every finding."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conversions import robocache
from terminals import on_terminal

import robocache as rc
from robocache.doctor import Finding
from robocache.doctor.groups import grouped

MS = 1_000_000
SHARED = Path(__file__).parents[3] / "../shared/data"


def finding(
    kind: str, severity: str = "warning", cause: str | None = None, **more: object
) -> Finding:
    return Finding(kind, severity, "text", "advice", cause=cause, **more)  # type: ignore[arg-type]


def test_groups_are_by_cause_and_the_worst_is_first() -> None:
    findings = [
        finding("constant", "info", stream="a"),
        *[finding("spike", stream=name) for name in "ab"],
        finding("gap", stream="a"),
        *[finding("gap", stream=name, cause="dropout") for name in "bc"],
        finding("dropout", streams=("b", "c")),
        finding("spike", "info", stream="c"),
        finding("far_time", "error", stream="c"),
        finding("coverage", stream="a", cause="far_time"),
    ]
    groups = grouped(findings)
    assert [(g.severity, g.kind, len(g.findings), len(g.explained)) for g in groups] == [
        ("error", "far_time", 1, 1),
        ("warning", "dropout", 1, 2),
        ("warning", "spike", 2, 0),
        ("warning", "gap", 1, 0),
        ("info", "constant", 1, 0),
        ("info", "spike", 1, 0),
    ]
    assert sum(len(g.findings) + len(g.explained) for g in groups) == len(findings)


def test_a_finding_without_its_cause_is_of_its_own_kind() -> None:
    (group,) = grouped([finding("gap", stream="a", cause="dropout")])
    assert (group.kind, len(group.findings), group.explained) == ("gap", 1, [])


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6 episodes of 12 streams, each with findings of several kinds."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("check") / "bad"
    with rc.StoreWriter(path) as writer:
        for number in range(6):
            times = number * 60_000 * MS + np.arange(300) * 10 * MS
            times[200:] += 500 * MS
            with writer.episode() as episode:
                for stream in range(12):
                    values = np.cumsum(rng.normal(size=(300, 2)), 0)
                    values[7 + stream, 1] = np.nan
                    own = times + stream * 1000
                    own[100] = own[99]
                    episode.add(f"robot/arm_{stream}/joint/position", own, values)
    return path


def test_the_screen(bad: Path) -> None:
    done = robocache("check", bad)
    name = "robot/arm_{}/joint/position"
    names = ", ".join(name.format(i) for i in range(4))
    assert done.returncode == 0 and done.stdout == (
        "warning dropout  episode 0 at 1.990 s, and 5 more episodes\n"
        "        12 streams are silent together once, for up to 510 ms: "
        f"{name.format(0)}, {name.format(1)}, {name.format(10)}, {name.format(11)} and 8 more\n"
        "        explains 72 findings of gap\n"
        "        -> the recorder lost data (a slow disk, a full buffer): max_gap_s marks what is "
        "made from the rows around it\n"
        f"warning times_repeat  {names} and 8 more  episode 0 at 0.990 s, and 5 more episodes\n"
        "        1 of 300 rows have the time of the row before\n"
        "        -> alignment takes the last row of equal times; if the rows differ, stamp them by "
        "when they were received (convert --stamp received)\n"
        f"warning not_finite  {names} and 8 more  episode 0 at 0.070 s, and 5 more episodes\n"
        "        1 of 300 rows have NaN, in channel 1\n"
        "        -> alignment takes them as data, and they spread into what is made from them: "
        f"`robocache repair {bad} --finding not_finite` marks these rows as not valid; or leave "
        "the stream out\n"
        f"info    lost_rows  {names} and 8 more  episode 0 at 0.990 s, and 5 more episodes\n"
        "        1 single row seems lost (0.33 %)\n"
        "        -> nothing where methods interpolate; a max_gap of 1.5 periods marks the results "
        "in between\n"
        "--all lists all 294 findings\n"
        f"{bad}: episode store, 6 episodes: 0 errors, 222 warnings, 72 infos\n"
    )


@pytest.mark.parametrize("width", [40, 80, 200])
def test_it_fits_a_screen(bad: Path, width: int) -> None:
    code, lines = on_terminal(width, "check", bad)
    lines = [line for line in lines if not line.startswith("checking")]
    assert code == 0 and 8 <= len(lines) <= 24, lines
    heads = [line.split()[1] for line in lines if line.startswith("warning ")]
    assert heads == ["dropout", "times_repeat", "not_finite"]
    whole = (str(bad), f"        `robocache repair {bad}")  # a command is never broken
    assert all(len(line) <= width for line in lines if not line.startswith(whole))


def test_all_lists_every_finding(bad: Path) -> None:
    lines = robocache("check", bad, "--all").stdout.splitlines()
    findings = json.loads(robocache("check", bad, "--json").stdout)["findings"]
    assert len(findings) == 6 + 4 * 72
    assert sum(line.startswith("        episode ") for line in lines) == len(findings)
    assert lines[0] == "warning dropout  78 findings"
    assert (
        "        episode 3 at 1.990 s, robot/arm_5/joint/position: gap: silent once for more than "
        "3 usual intervals, longest 510 ms where 10 ms is usual"
    ) in lines
    assert len(lines) < len(findings) + 100, "advice is said once for those that share it"


def test_a_single_finding_is_shown_whole(tmp_path: Path) -> None:
    """No hint at `--all`, which would show nothing else."""
    with rc.StoreWriter(tmp_path / "s") as writer, writer.episode() as episode:
        values = np.cumsum(np.random.default_rng(0).normal(size=(300, 2)), 0)
        values[7, 1] = np.nan
        episode.add("arm", np.arange(300) * 10 * MS, values)
    assert robocache("check", tmp_path / "s").stdout == (
        "warning not_finite  arm  episode 0 at 0.070 s\n"
        "        1 of 300 rows have NaN, in channel 1\n"
        "        -> alignment takes them as data, and they spread into what is made from them: "
        f"`robocache repair {tmp_path / 's'} --finding not_finite` marks these rows as not valid; "
        "or leave the stream out\n"
        f"{tmp_path / 's'}: episode store, 1 episode: 0 errors, 1 warning\n"
    )


@pytest.mark.parametrize(("name", "first"), [("px4_ulog", "dropout"), ("pusht_zarr", "angle_wrap")])
def test_recordings_fit_a_screen(name: str, first: str) -> None:
    if not (SHARED / name).exists():
        pytest.skip("needs the recordings in ../shared/data")
    done = robocache("check", SHARED / name, "--rate", 10)
    if "pip install" in done.stderr:
        pytest.skip(done.stderr)
    lines = done.stdout.splitlines()
    assert len(lines) <= 24 and lines[0].startswith(f"warning {first}"), lines
