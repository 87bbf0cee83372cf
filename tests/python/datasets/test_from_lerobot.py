"""`Loader.from_lerobot`: the size of images, and data sets that are not here yet."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from support import assert_same_bits

import robocache as rc
from robocache.readers import RecordingError
from robocache.readers.errors import hub_hint

pytest.importorskip("pyarrow", reason="LeRobot data sets need pyarrow")
pytest.importorskip("PIL", reason="their images need Pillow")

from lerobot_sets import write_v2

KEY = "observation.image"


@pytest.fixture
def data_set(tmp_path: Path) -> Path:
    return write_v2(tmp_path / "set", [5, 3], **{})


@pytest.fixture(autouse=True)
def tasks(data_set: Path) -> None:
    (data_set / "meta" / "tasks.jsonl").write_text('{"task_index": 0, "task": "push"}\n')


def make(data_set: Path, **options: Any) -> rc.Loader:
    return rc.Loader.from_lerobot(data_set, batch_size=4, shuffle=False, device="cpu", **options)


# ---- resize --------------------------------------------------------------------------------------


def test_the_size_of_images(data_set: Path, tmp_path: Path) -> None:
    """Each size has a store of its own, which is that of `rc.convert`."""
    assert make(data_set).next()[KEY].shape == (4, 3, 16, 24)
    small = make(data_set, resize=(12, 8)).next()[KEY]
    assert small.shape == (4, 3, 8, 12)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "set", "set.12x8.robocache", "set.robocache",
    ]  # fmt: skip
    rc.convert(data_set, tmp_path / "converted", resize=(12, 8))
    rows = torch.tensor(rc.EpisodeStore(tmp_path / "converted")[0][KEY].values[:4])
    assert_same_bits((small * 255).round().byte(), rows.movedim(-1, 1))
    before = (tmp_path / "set.12x8.robocache" / "manifest.json").stat()
    make(data_set, resize=(12, 8))
    assert (tmp_path / "set.12x8.robocache" / "manifest.json").stat() == before, "made once"


def test_without_images_there_is_no_size(data_set: Path, tmp_path: Path) -> None:
    """Without images every `resize` has the same store."""
    for options in ({}, {"resize": (12, 8)}):
        assert KEY not in make(data_set, images=False, **options).next()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["set", "set.no-images.robocache"]
    assert KEY not in rc.EpisodeStore(tmp_path / "set.no-images.robocache").streams


def test_a_store_of_another_size(data_set: Path, tmp_path: Path) -> None:
    make(data_set, store=tmp_path / "store")
    message = (
        f"{tmp_path}/store: expected images of 12x8 in {KEY}, as resize says, got 24x16 (remove "
        "it, and it is made again)"
    )
    with pytest.raises(rc.StoreError, match=rf"^{re.escape(message)}$"):
        make(data_set, store=tmp_path / "store", resize=(12, 8))


def test_a_wrong_size(data_set: Path) -> None:
    with pytest.raises(
        ValueError, match=r"^resize: expected a width and a height above 0, got \(0, 8\)$"
    ):
        make(data_set, resize=(0, 8))


def test_how_large_it_gets_is_said_before(
    data_set: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "robocache"):
        make(data_set)
    texts = [record.getMessage() for record in caplog.records]
    start = f"{tmp_path}/set.robocache: decoded images take 9.0 KiB (jpeg:95 about "
    assert texts[0].startswith(start)
    assert re.match(r"loading 9\.\d KiB to cpu, 9\.0 KiB of it images; .* are free", texts[-1])


# ---- data sets of the Hub ------------------------------------------------------------------------

HINT = (
    " (a data set of the Hub is downloaded first: hf download --repo-type dataset lerobot/pusht "
    "--local-dir pusht)"
)


def test_an_id_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    message = (
        f"{tmp_path}/lerobot/pusht: expected a folder with meta/info.json (LeRobot), got no such "
        f"file or folder{HINT}"
    )
    with pytest.raises(RecordingError, match=rf"^{re.escape(message)}$"):
        rc.Loader.from_lerobot("lerobot/pusht", batch_size=4)
    message = f"lerobot/pusht: expected a recording, got no such file{HINT}"
    with pytest.raises(RecordingError, match=rf"^{re.escape(message)}$"):
        rc.convert("lerobot/pusht", tmp_path / "store")


@pytest.mark.parametrize(
    ("source", "is_id"),
    [
        ("lerobot/pusht", True),
        ("lerobot/aloha_v2.0", True),
        ("pusht", False),
        ("/lerobot/pusht", False),
        ("a/b/c", False),
        ("../pusht", False),
        ("bags/take.bag", False),
        ("here/pusht", False),
    ],
)
def test_what_reads_like_an_id(
    source: str, is_id: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    assert bool(hub_hint(source)) == is_id
