"""Progress and logging in Python: what a script, a terminal and a notebook see of long work."""

from __future__ import annotations

import logging
import os
import pty
import re
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import robocache as rc
from robocache.conversion import disk_space
from robocache.core.progress import progress_bar
from robocache.loader.memory import resident_streams

EPISODES = 3


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    folder = tmp_path / "recordings"
    folder.mkdir()
    for number in range(EPISODES):
        times = np.arange(20) * 10_000_000
        np.savez(folder / f"r{number}.npz", times_ns=times, joints=np.ones((20, 3), np.float32))
    return folder


@pytest.fixture
def pictures(tmp_path: Path) -> rc.EpisodeStore:
    with rc.StoreWriter(tmp_path / "pictures") as writer, writer.episode() as episode:
        times = np.arange(4) * 100_000_000
        episode.add("camera", times, np.zeros((4, 100, 100, 3), np.uint8))
        episode.add("joints", times, np.ones((4, 3), np.float32))
    return rc.EpisodeStore(tmp_path / "pictures")


def messages(log: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(r.levelno, r.getMessage()) for r in log.records if r.name.startswith("robocache.")]


# ---- bars ----------------------------------------------------------------------------------------


def run_everything(folder: Path, **options: Any) -> None:
    """All that takes long."""
    rc.convert(folder, folder.parent / "store", **options)
    rc.export_lerobot(folder.parent / "store", folder.parent / "set", 50, **options)
    loader = rc.Loader(folder.parent / "store", 8, {"joints": [0.0]}, device="cpu")
    rc.compute_stats(loader, **options)
    rc.replay_store(folder.parent / "store", loader.spec(), **options)


def test_a_function_is_called(recordings: Path) -> None:
    pytest.importorskip("pyarrow")
    calls: list[tuple[int, int]] = []
    run_everything(recordings, progress=lambda done, total: calls.append((done, total)))
    assert calls[:2] == [(0, EPISODES), (EPISODES, EPISODES)]
    assert calls[2:5] == [(1, 3), (2, 3), (3, 3)]
    assert calls.count((8, 8)) == 1 and calls[-1] == (60, 60)


def test_nothing_is_shown_elsewhere(
    recordings: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither terminal nor notebook: scripts' output stays their own."""
    pytest.importorskip("pyarrow")
    with caplog.at_level(logging.CRITICAL):
        run_everything(recordings)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("progress", "shown"), [("True", True), ("False", False)])
def test_on_a_terminal(recordings: Path, progress: str, shown: bool) -> None:
    program = (
        "import sys, robocache as rc\n"
        f"rc.convert(sys.argv[1], sys.argv[1] + '.store', progress={progress})\n"
    )
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", program, str(recordings)],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        check=True,
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        seen += part
    os.close(ours)
    assert done.stdout == b""
    assert (b"converting episodes" in seen) == shown


def test_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a display that is updated, which needs no widgets."""
    pytest.importorskip("IPython", reason="IPython shows the bar in a notebook")
    from IPython.core.displaypub import CapturingDisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell

    class ZMQInteractiveShell(InteractiveShell):  # what a notebook's kernel has, by its name
        pass

    shell = ZMQInteractiveShell.instance()
    monkeypatch.setattr("builtins.get_ipython", lambda: shell, raising=False)
    published = CapturingDisplayPublisher(shell=shell)
    monkeypatch.setattr(shell, "display_pub", published)
    try:
        with progress_bar("converting episodes") as update:
            update(0, 3)
            update(3, 3)
        assert len(published.outputs) == 2
        first, last = (output["data"]["text/html"] for output in published.outputs)
        assert "converting episodes" in first and "3 of 3" in last
        assert published.outputs[1]["update"]
        with progress_bar("converting episodes", False) as update:
            update(3, 3)
        assert len(published.outputs) == 2
    finally:
        ZMQInteractiveShell.clear_instance()


def test_what_progress_may_be(recordings: Path) -> None:
    message = "progress: expected a bool or a function of (done, total), got 'yes'"
    with pytest.raises(TypeError, match=rf"^{re.escape(message)}$"):
        rc.convert(recordings, recordings.parent / "store", progress="yes")  # type: ignore[arg-type]


# ---- logging -------------------------------------------------------------------------------------


def test_a_conversion_logs(recordings: Path, caplog: pytest.LogCaptureFixture) -> None:
    (recordings / "r1.npz").write_bytes(b"")
    store = recordings.parent / "store"
    with caplog.at_level(logging.INFO, "robocache"):
        report = rc.convert(recordings, store)
    (skipped,) = report.skipped
    assert messages(caplog) == [
        (logging.WARNING, f"skipped {skipped.source}: {skipped.reason}"),
        *((logging.INFO, f"{store}: {note}") for note in report.notes),
        (logging.INFO, f"{store}: 2 episodes added, 1 skipped"),
    ]


@pytest.mark.parametrize(
    ("setup", "printed"),
    [
        ("", ""),
        ("import logging; logging.basicConfig(); ", "WARNING:robocache.conversion.run:{}\n"),
        (
            "import logging; logging.basicConfig(level='INFO', format='%(message)s'); ",
            "{}\n{store}: 2 episodes added, 1 skipped\n",
        ),
    ],
    ids=["not configured", "warnings", "all"],
)
def test_records_go_where_a_script_sends_them(recordings: Path, setup: str, printed: str) -> None:
    (recordings / "r1.npz").write_bytes(b"")
    program = (
        f"{setup}import sys, robocache as rc\n"
        "(skipped,) = rc.convert(sys.argv[1], sys.argv[1] + '.store').skipped\n"
        "print(f'skipped {skipped.source}: {skipped.reason}', end='')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(recordings)], capture_output=True, text=True, check=True
    )
    assert done.stderr == printed.format(done.stdout, store=f"{recordings}.store")


def test_the_command_prints_it_once(recordings: Path) -> None:
    (recordings / "r1.npz").write_bytes(b"")
    done = subprocess.run(
        [sys.executable, "-m", "robocache", "convert", str(recordings), f"{recordings}.store"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == "" and done.stdout.count(f"skipped {recordings}/r1.npz") == 1


def test_an_export_logs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("pyarrow")
    with rc.StoreWriter(tmp_path / "store") as writer:
        for start, valid in ((0, True), (10**9, False)):
            with writer.episode() as episode:
                times = start + np.arange(5) * 100_000_000
                episode.add("joints", times, np.ones((5, 3)), valid=np.full(5, valid))
        with writer.episode() as episode:
            episode.add("other", np.arange(5), np.ones((5, 3)))
    with caplog.at_level(logging.INFO, "robocache"):
        report = rc.export_lerobot(tmp_path / "store", tmp_path / "set", 10, streams=["joints"])
    ((skipped, reason),) = report.skipped
    assert messages(caplog) == [
        (logging.WARNING, f"{tmp_path}/set: skipped episode {skipped}: {reason}"),
        (
            logging.WARNING,
            f"{tmp_path}/set: 5 frames across gaps or from rows that are not valid; LeRobot has no "
            "mask for them",
        ),
        (logging.INFO, f"{tmp_path}/set: exported 2 episodes, 10 frames"),
    ]


# ---- sizes, before they are taken ----------------------------------------------------------------


@pytest.fixture
def lerobot(tmp_path: Path) -> Path:
    pytest.importorskip("pyarrow")
    from lerobot_sets import write_v2

    return write_v2(tmp_path / "set", [5, 3])


IMAGES = 8 * 16 * 24 * 3


@pytest.mark.parametrize("resize", [None, (6, 4)])
def test_how_large_images_get(
    lerobot: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, resize: Any
) -> None:
    store = tmp_path / "store"
    size = IMAGES if resize is None else 8 * 6 * 4 * 3
    with caplog.at_level(logging.INFO, "robocache"):
        report = rc.convert(lerobot, store, resize=resize)
    assert report.image_bytes == size
    info = rc.EpisodeStore(store).streams["observation.image"]
    assert info.rows * info.row_bytes == size
    level, text = messages(caplog)[0]
    amount = "9.0 KiB" if resize is None else "576 B"
    sizes = rf"{amount} \(jpeg:95 about .*\)"
    pattern = rf"{re.escape(str(store))}: decoded images take {sizes}, the disk has .* left"
    assert level == logging.INFO and re.fullmatch(pattern, text)
    caplog.clear()
    assert rc.convert(lerobot, store, resize=resize).image_bytes == 0, "nothing is left to convert"
    assert rc.convert(lerobot, tmp_path / "without", images=False).image_bytes == 0


def test_images_that_the_disk_has_no_room_for(
    lerobot: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(disk_space.shutil, "disk_usage", lambda path: usage(1000))
    rc.convert(lerobot, tmp_path / "store")
    ((level, text),) = messages(caplog)
    assert level == logging.WARNING
    assert re.sub("about .*?[)]", "about N)", text) == (
        f"{tmp_path}/store: decoded images take 9.0 KiB (jpeg:95 about N), the disk has 1000 B "
        "left (resize makes images smaller, jpeg:95 compresses them, and a conversion without "
        "images leaves them out)"
    )


def test_the_command_says_how_large_images_get(lerobot: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "robocache", "convert", str(lerobot), f"{tmp_path}/store"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.fullmatch(
        rf"{re.escape(str(tmp_path))}/store: decoded images take 9\.0 KiB \(jpeg:95 about .*\), "
        r"the disk has .* left\n",
        done.stderr,
    )
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_what_a_loader_is_about_to_load(
    pictures: rc.EpisodeStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident_streams, "free_bytes", lambda device: 4_000_000_000)
    with caplog.at_level(logging.INFO, "robocache"):
        rc.Loader(pictures, 2, {"joints": [0.0]}, device="cpu")
        rc.Loader(pictures, 2, device="cpu")
        rc.Loader(pictures, 2, device="cpu", budget={"ram": "1GB"})
    assert messages(caplog) == [
        (logging.INFO, "loading 160 B to cpu; 3.7 GiB are free"),
        (
            logging.INFO,
            "loading 117.4 KiB to cpu, 117.2 KiB of it images; 3.7 GiB are free "
            "(budget={'ram': '2GB'} leaves in the files what has no room)",
        ),
        (logging.INFO, "loading 117.4 KiB to cpu, 117.2 KiB of it images; 3.7 GiB are free"),
    ]
    caplog.clear()
    with caplog.at_level(logging.INFO, "robocache"):
        rc.Loader(pictures, 1, device="cpu", budget={"ram": "100kB"})
    ((level, text),) = messages(caplog)
    assert level == logging.INFO and "images" not in text, "they stay in their files"
    caplog.clear()
    monkeypatch.setattr(resident_streams, "free_bytes", lambda device: 130_000)
    rc.Loader(pictures, 2, device=torch.device("cpu"))
    assert [level for level, _ in messages(caplog)] == [logging.WARNING]
