"""`robocache view --augment`: the contact sheet of an augmentation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conversions import robocache
from PIL import Image

import robocache as rc

MS = 1_000_000


def write_store(path: Path, has_camera: bool) -> Path:
    times = np.arange(20) * 50 * MS
    frames = np.random.default_rng(0).integers(0, 256, (20, 24, 32, 3), np.uint8)
    with rc.StoreWriter(path) as writer, writer.episode() as episode:
        episode.add("arm", times, np.zeros((20, 3), np.float32))
        if has_camera:
            episode.add("front", times, frames)
    return path


def test_a_sheet_differs_between_presets_and_not_between_runs(tmp_path: Path) -> None:
    store = write_store(tmp_path / "store", True)
    sheets = {}
    for name, preset in (("a", "lerobot"), ("b", "lerobot"), ("c", "octo")):
        output = tmp_path / f"{name}.png"
        made = robocache("view", store, "--augment", preset, "--output", output)
        assert made.returncode == 0, made.stderr
        assert f"wrote {output}" in made.stdout.replace("\n", "")
        with Image.open(output) as image:
            sheets[name] = np.asarray(image.convert("RGB"))[60:]  # without the title
    assert np.array_equal(sheets["a"], sheets["b"])
    assert not np.array_equal(sheets["a"], sheets["c"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--augment", "nothing"], "augment"),
        (["--augment", "octo", "--from", "1"], "--from: expected none beside --augment, got 1"),
        (["--augment", "octo", "--episode", "4"], "--episode: expected -1 to 0, got 4"),
        (["--augment", "octo", "--output", "x.txt"], "--output: expected a name with .png"),
    ],
)
def test_bad_options(tmp_path: Path, arguments: list[str], message: str) -> None:
    store = write_store(tmp_path / "store", True)
    made = robocache("view", store, *arguments)
    assert made.returncode != 0
    assert message in made.stderr.replace("\n", " ")


def test_a_store_without_images(tmp_path: Path) -> None:
    made = robocache("view", write_store(tmp_path / "store", False), "--augment", "octo")
    assert made.returncode != 0
    message = "--augment: expected a store with images, got streams arm"
    assert message in made.stderr.replace("\n", " ")
