"""The command line on a terminal: tables and messages that fit it, completion, Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from conversions import robocache, write_recording
from rich.console import Console
from terminals import on_terminal

import robocache as rc
from robocache.cli.tables import print_table
from robocache.cli.wrapping import cells, shortened, wrap

MS = 1_000_000


# ---- texts ---------------------------------------------------------------------------------------


def test_texts_break_at_words_and_never_inside_what_is_copied() -> None:
    text = (
        "/data/my_takes/a.bag: expected a store (`robocache convert /data/my_takes/a.bag a.store` "
        "makes one, after pip install 'robocache[ros]')"
    )
    lines = wrap(text, 40)
    assert lines == [
        "/data/my_takes/a.bag: expected a store",
        "(`robocache convert /data/my_takes/a.bag a.store`",
        "makes one, after",
        "pip install 'robocache[ros]')",
    ]
    assert wrap(text, None) == [text]
    assert wrap("one two\nthree", 5, indent=2) == ["  one", "  two", "  three"]


def test_arguments_with_spaces_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["robocache", "info", "/my long takes/a b.bag"])
    assert wrap("/my long takes/a b.bag: expected a recording", 12) == [
        "/my long takes/a b.bag:", "expected a", "recording",
    ]  # fmt: skip


def test_long_names_are_shortened_in_the_middle() -> None:
    assert shortened("joints", 6) == "joints"
    assert shortened("/imu/data/orientation", 12) == "/imu/d…ation"
    assert shortened("/imu/data/orientation", 12, tail=0.8) == "/im…entation"
    for width in range(3, 25):
        assert cells(shortened("日本/imu/data/日本語の向き", width)) <= width


# ---- tables --------------------------------------------------------------------------------------

HEADER = ["stream", "method", "Hz", "gaps"]
ROWS = [["/imu/data/orientation", "slerp_xyzw", "30.01", "-"], ["/fix", "linear", "2.5", "-"]]


def printed(width: int, rows: list[list[str]]) -> list[str]:
    console = Console(width=width, highlight=False)
    with console.capture() as capture:
        print_table(console, HEADER, rows, left=(0, 1), shrink={0: 8})
    return capture.get().splitlines()


def test_a_table_leaves_out_empty_columns() -> None:
    assert printed(80, ROWS) == [
        "stream                 method         Hz",
        "/imu/data/orientation  slerp_xyzw  30.01",
        "/fix                   linear        2.5",
    ]


def test_a_narrow_table_shortens_names_and_no_number() -> None:
    assert printed(30, ROWS) == [
        "stream       method         Hz",
        "/imu…tation  slerp_xyzw  30.01",
        "/fix         linear        2.5",
    ]


@pytest.mark.parametrize("case", ["no room", "names alike"])
def test_a_table_that_does_not_fit_is_a_block_for_each_row(case: str) -> None:
    rows = ROWS
    if case == "names alike":  # if they were shortened
        rows = [[f"{'a' * 40}{n}{'b' * 40}", *ROWS[0][1:]] for n in "12"]
    name, other = rows[0][0], rows[1][0]
    lines = printed(24 if case == "no room" else 29, rows)
    assert lines[:5] == [name, "  method  slerp_xyzw", "  Hz      30.01", "", other]


def test_info_fits_80_columns_and_less(tmp_path: Path) -> None:
    store = tmp_path / "s"
    with rc.StoreWriter(store) as writer, writer.episode() as episode:
        times = np.arange(300) * 10 * MS
        times[150:] += 500 * MS
        for part in ("position", "velocity", "orientation_covariance"):
            name = f"/husky_velocity_controller/odometry/filtered/{part}"
            episode.add(name, times, np.zeros((300, 3), np.float32))
        episode.add("/camera/front/image_raw", times, np.zeros((300, 8, 6, 3), np.uint8))
    code, lines = on_terminal(80, "info", store)
    assert code == 0 and max(map(len, lines)) <= 80
    table = lines[lines.index("") + 1 :]
    assert table[0].startswith("stream  ") and len(table) == 5
    assert sum("…" in line for line in table) >= 3
    for line in table[1:]:
        assert line.split()[-4:] == ["300", "1", "510", "ms"], "a number was cut"
    code, lines = on_terminal(40, "info", store)
    assert code == 0
    assert "/husky_velocity_controller/odometry/filtered/orientation_covariance" in lines
    assert "  rows     300" in lines
    assert "…" not in "".join(lines)


def test_a_long_error_is_wrapped(tmp_path: Path) -> None:
    code, lines = on_terminal(60, "info", tmp_path / "absent.bag")
    assert code == 2
    assert len(lines) > 1 and f"{tmp_path}/absent.bag:" in " ".join(lines).split(" ")
    assert " ".join(lines) == robocache("info", tmp_path / "absent.bag").stderr.strip()


# ---- completion, starting ------------------------------------------------------------------------


def complete(words: str) -> list[str]:
    """Bash's proposals for the last word."""
    environment = {
        **os.environ,
        "_ROBOCACHE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    return robocache(env=environment).stdout.split()


def test_shells_complete_commands_options_and_choices() -> None:
    assert complete("robocache co") == ["convert"]
    assert complete("robocache convert --fi") == ["--fit"]
    assert complete("robocache convert --fit ") == ["pad", "crop", "stretch"]
    assert complete("robocache repair store --finding st") == ["stuck"]
    assert complete("robocache repair store --finding stuck,sp") == ["stuck,spike"]


def test_the_module_is_the_command() -> None:
    done = robocache("--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Usage: robocache [OPTIONS] COMMAND"), "not __main__.py"
    assert "--install-completion" in done.stdout


# ---- conversions that end early ------------------------------------------------------------------


@pytest.mark.parametrize("before", ["no folder", "an empty folder"])
def test_what_converts_nothing_leaves_nothing(tmp_path: Path, before: str) -> None:
    source, store = tmp_path / "r.npz", tmp_path / "new" / "s"
    source.write_bytes(b"PK\x03\x04 and no more")
    if before == "an empty folder":
        store.mkdir(parents=True)
    done = robocache("convert", source, store)
    assert done.returncode == 1, done.stderr
    first, second, *_ = done.stdout.splitlines()
    assert first == f"{store}: not made, as no episode could be converted from 1 recording"
    assert second.startswith(f"skipped {source}: expected an NPZ file")
    left = sorted(path.name for path in tmp_path.rglob("*"))
    assert left == (["new", "r.npz", "s"] if before == "an empty folder" else ["r.npz"])


def test_a_store_that_was_there_stays(tmp_path: Path) -> None:
    """Also one without episodes, which somebody made."""
    rc.StoreWriter(tmp_path / "s").close()
    (tmp_path / "r.npz").write_bytes(b"PK\x03\x04 and no more")
    assert robocache("convert", tmp_path / "r.npz", tmp_path / "s").returncode == 1
    assert len(rc.EpisodeStore(tmp_path / "s")) == 0


def episodes_of(store: Path) -> int:
    return len(rc.EpisodeStore(store)) if (store / "manifest.json").exists() else 0


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_says_what_is_kept(tmp_path: Path, workers: int) -> None:
    for seed in range(40):
        write_recording(tmp_path / "my takes" / f"r{seed:02d}.npz", seed, rows=20_000)
    code = (
        "from robocache.conversion import run\n"
        "import signal, time\n"
        "from robocache.store.writer import StoreWriter\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # background jobs ignore it
        "run.LEAST_GROUP_BYTES, run.COMMIT_SECONDS = 90_000, 0.0\n"
        "commit = StoreWriter.commit_shards\n"
        "def commit_and_wait(*arguments, **options):\n"  # for Ctrl-C, however fast the machine is
        "    commit(*arguments, **options)\n"
        "    time.sleep(60)\n"
        "StoreWriter.commit_shards = commit_and_wait\n"
        "from robocache.cli import main\n"
        "main()\n"
    )
    store = tmp_path / "s"
    arguments = ["convert", str(tmp_path / "my takes"), str(store), "--workers", str(workers)]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not episodes_of(store) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    episodes = episodes_of(store)
    assert 0 < episodes < 40
    assert said == (
        f"robocache: interrupted: {store} has {episodes} whole episode{'s' * (episodes > 1)}, and "
        "the same command goes on with the others: "
        f"`robocache convert '{tmp_path}/my takes' {store} --workers {workers}`\n"
    )
    assert not list(store.glob(".tmp-*"))
    assert rc.convert(tmp_path / "my takes", store).episodes == 40 - episodes


def test_ctrl_c_before_the_first_episode(tmp_path: Path) -> None:
    write_recording(tmp_path / "r.npz", 0)
    code = (
        "from robocache.conversion import run\n"
        "def interrupted(*_): raise KeyboardInterrupt\n"
        "run.make_shards = interrupted\n"
        "from robocache.cli import main\n"
        "main()\n"
    )
    arguments = ["convert", str(tmp_path / "r.npz"), str(tmp_path / "s"), "--workers", "1"]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 130
    assert done.stderr == (
        "robocache: interrupted: no episode had been converted, and nothing was left behind; "
        f"`robocache {' '.join(arguments)}` starts again\n"
    )
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    "module", ["typer", "robocache.cli.app", "robocache.cli.info", "robocache.readers", "numpy"]
)
def test_ctrl_c_during_start_up(tmp_path: Path, module: str) -> None:
    """It comes while a module is imported."""
    path = tmp_path / "a.csv"
    path.write_text("t,x\n0.5,1\n")
    code = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from robocache.cli import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", code, "info", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "robocache: interrupted\n"
