"""Texts of files that would steer a terminal or fill it, and outputs that can't be written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conversions import robocache

import robocache as rc
from robocache.core.display import cut, printable

ESCAPES = "\x1b[2J\x1b]0;mine\x07\x9b31m\x7f\u202e\u2028"
ESCAPED = r"\x1b[2J\x1b]0;mine\x07\x9b31m\x7f\u202e\u2028"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose texts have escapes and dollars, and units of a megabyte."""
    path = tmp_path_factory.mktemp("hostile") / "store"
    times = np.arange(200) * 10_000_000
    with rc.StoreWriter(path) as writer:
        writer.declare(
            "x\x7f\u202e", units="$\\frac" * 170_000, channels=["$a^{", "b" + ESCAPES[:9]]
        )
        with writer.episode(task=f"pick{ESCAPES}\nup", source=f"demo{ESCAPES}") as episode:
            episode.add("x\x7f\u202e", times, np.random.default_rng(0).normal(size=(200, 2)))
            values = np.zeros((200, 3))
            values[::2] = np.nan
            episode.add("y", times, values)
    return path


@pytest.mark.parametrize("command", ["info", "check --all"])
def test_commands_escape_and_cut(store: Path, command: str) -> None:
    run = robocache(*command.split(), store)
    assert run.returncode in (0, 1), run.stderr
    assert printable(run.stdout, keep="\n") == run.stdout
    assert len(run.stdout) < 20_000
    if command == "info":
        assert f"1  pick{ESCAPED}\\nup\n" in run.stdout and "\nx\\x7f\\u202e " in run.stdout


def test_json_has_escapes_of_its_own(store: Path) -> None:
    text = robocache("info", store, "--json").stdout
    assert printable(text, keep="\n") == text
    assert json.loads(text)["tasks"] == {f"pick{ESCAPES}\nup": 1}


def test_errors_and_records_escape(tmp_path: Path) -> None:
    file = tmp_path / f"demo{ESCAPES[:4]}.npz"
    file.write_bytes(b"no zip")
    for arguments in (["info", file], ["convert", tmp_path, tmp_path / "store"]):
        run = robocache(*arguments)
        text = run.stdout + run.stderr
        assert run.returncode != 0
        assert printable(text, keep="\n") == text and r"demo\x1b[2J" in text


def test_view_of_long_texts(store: Path, tmp_path: Path) -> None:
    """Took a minute: matplotlib measured every letter, and read formulas between dollars."""
    for name in ("x.png", "x.rrd"):
        run = robocache("view", store, "--output", tmp_path / name)
        assert run.returncode == 0, run.stderr
        assert 0 < (tmp_path / name).stat().st_size < 1_000_000


def test_printable_and_cut() -> None:
    assert printable("a\nb\x1b", keep="\n") == "a\nb\\x1b"
    assert printable("\udc80ß日") == "\\udc80ß日"
    assert printable(ESCAPES) == ESCAPED
    assert cut("a\x1bb") == "a\\x1bb" and len(cut("\x1b" * 10**6)) == 120


@pytest.mark.parametrize("command", ["info", "info --json"])
def test_a_full_disk_below_the_output(store: Path, command: str) -> None:
    with Path("/dev/full").open("w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "robocache", *command.split(), str(store)],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert run.returncode == 2
    assert run.stderr == "robocache: standard output: No space left on device\n"


FULL = """
import resource, signal, sys
from robocache.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
main()
"""


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["view", "STORE", "--output", "OUT.png"], "OUT.png"),
        (["export", "STORE", "OUT", "--rate", "100", "--stream", "y"], "OUT"),
    ],
)
def test_a_full_disk_below_a_file(
    store: Path, tmp_path: Path, arguments: list[str], named: str
) -> None:
    """A limit on the size of files stands in: the system says File too large."""
    places = {"STORE": str(store)}
    given = [places.get(each, each.replace("OUT", str(tmp_path / "out"))) for each in arguments]
    run = subprocess.run(
        [sys.executable, "-c", FULL, *given], capture_output=True, text=True, check=False
    )
    assert run.returncode == 2
    path = named.replace("OUT", str(tmp_path / "out"))
    assert "File too large" in run.stderr and path in run.stderr.replace("\n", ""), run.stderr
