"""`convert --images`: JPEG kept, or encoded from raw images and video, with PSNR recorded."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conversions import robocache
from jpegs import by_pillow, encoded, scene
from numpy.typing import NDArray
from recordings import DATA, needs
from stores import HandStore

import robocache as rc
from robocache.jpeg.encoded import EncodedFrames

pytest.importorskip("PIL.Image", reason="images need Pillow")

BRIDGE = DATA / "rlds_bridge" / "bridge_dataset" / "1.0.0"
SCENES = np.array([scene(i) for i in range(37)])
FILES = [encoded(frame, quality=85) for frame in SCENES]


def write_raw(path: Path, frames: NDArray[np.uint8] = SCENES) -> Path:
    np.savez(path, times_ns=np.arange(len(frames)) * 10**7, cam=frames, arm=np.zeros(len(frames)))
    return path


def write_files(path: Path, files: list[bytes]) -> Path:
    rows = np.zeros((len(files), max(map(len, files))), np.uint8)
    for row, file in zip(rows, files, strict=True):
        row[: len(file)] = np.frombuffer(file, np.uint8)
    np.savez(path, times_ns=np.arange(len(files)) * 10**7, cam=rows)
    return path


def psnr(a: Any, b: Any) -> float:
    return float(10 * np.log10(255**2 / np.square(np.asarray(a, float) - b).mean()))


@pytest.mark.parametrize("images", ["jpeg:90", "jpeg:70:444"])
def test_raw_images_are_encoded_and_measured(tmp_path: Path, images: str) -> None:
    rc.convert(write_raw(tmp_path / "r.npz"), tmp_path / "s", images=images)
    store = rc.EpisodeStore(tmp_path / "s")
    store.verify()
    frames = store[0]["cam"].values
    quality, chroma = int(images[5:7]), "4:4:4" if images.endswith("444") else "4:2:0"
    expected = rc.JpegFrames.encode(SCENES, quality, full_chroma=chroma == "4:4:4")
    assert frames.files.items.tobytes() == expected.files.items.tobytes()
    record = store.streams["cam"].encoded
    assert record is not None
    assert (record.frames, record.quality, record.chroma) == (37, quality, chroma)
    sampled = [0, 16, 32]
    assert record.measured == 3
    assert record.psnr == pytest.approx(psnr(np.asarray(frames)[sampled], SCENES[sampled]))
    lowest = min(psnr(frames[i], SCENES[i]) for i in sampled)
    assert record.lowest_psnr == pytest.approx(lowest)
    info = robocache("info", tmp_path / "s").stdout
    text = f"cam: JPEG: 37 frames encoded with quality {quality}, {chroma}, PSNR {record.psnr:.1f}"
    assert text in info.replace("\n", " ").replace("  ", " ")


def test_kept_files_have_no_record(tmp_path: Path) -> None:
    rc.convert(write_files(tmp_path / "r.npz", FILES), tmp_path / "s", images="keep")
    store = rc.EpisodeStore(tmp_path / "s")
    store.verify()
    assert [file.tobytes() for file in store[0]["cam"].values.files] == FILES
    assert store.streams["cam"].encoded is None
    assert "cam: JPEG files, not encoded again" in robocache("info", tmp_path / "s").stdout
    rc.convert(
        write_raw(tmp_path / "b.npz", SCENES[:3]), tmp_path / "s", images="keep", append=True
    )
    assert "; 37 files not encoded again" in " ".join(
        robocache("info", tmp_path / "s").stdout.split()
    )


def test_damaged_frames_of_kept_files_do_not_stop_a_conversion(tmp_path: Path) -> None:
    files = [*FILES[:5], FILES[5][:300], *FILES[6:9]]
    report = rc.convert(write_files(tmp_path / "r.npz", files), tmp_path / "s", images="keep")
    assert report.episodes == 1 and report.skipped == []
    assert report.notes == [
        "images of cam that are damaged, their bytes kept and their rows marked as not valid: 1"
    ]
    store = rc.EpisodeStore(tmp_path / "s")
    store.verify()
    assert store[0]["cam"].valid.tolist() == [i != 5 for i in range(9)]
    np.testing.assert_array_equal(store[0]["cam"].values[6], by_pillow(files[6]))


@pytest.mark.parametrize("damaged", [b"", FILES[5][:300]])
@pytest.mark.parametrize("images", ["auto", "raw", "jpeg:90"])
def test_a_damaged_frame_costs_its_row_or_its_episode(
    tmp_path: Path, images: str, damaged: bytes
) -> None:
    """Kept files are marked; frames that are decoded have no pixels to store."""
    files = [*FILES[:5], damaged, *FILES[6:9]]
    report = rc.convert(write_files(tmp_path / "r.npz", files), tmp_path / "s", images=images)
    if images == "auto":
        assert not rc.EpisodeStore(tmp_path / "s")[0]["cam"].valid[5]
    else:
        (skipped,) = report.skipped
        assert skipped.reason.startswith(f"{tmp_path}/r.npz, row 5 of cam: expected an image (")


def test_records_of_appended_and_merged_stores(tmp_path: Path) -> None:
    """Their frames add up, each counted once."""
    for name, part in (("a", SCENES[:20]), ("b", SCENES[20:]), ("c", SCENES[:3])):
        write_raw(tmp_path / f"{name}.npz", part)
    rc.convert(tmp_path / "a.npz", tmp_path / "s", images="jpeg:90")
    rc.convert(tmp_path / "b.npz", tmp_path / "s", images="jpeg:90", append=True)
    one = rc.EpisodeStore(tmp_path / "s").streams["cam"].encoded
    assert one is not None and (one.frames, one.measured, one.quality) == (37, 4, 90)
    decoded = np.asarray(rc.JpegFrames.encode(SCENES, 90))
    sampled = [0, 16, 20, 36]
    assert one.psnr == pytest.approx(psnr(decoded[sampled], SCENES[sampled]))
    rc.convert(tmp_path / "c.npz", tmp_path / "t", images="jpeg:50:444")
    rc.merge_stores([tmp_path / "s", tmp_path / "t"], tmp_path / "u")
    both = rc.EpisodeStore(tmp_path / "u").streams["cam"].encoded
    assert both is not None and (both.frames, both.measured) == (40, 5)
    assert both.quality is None and both.chroma is None
    assert str(both).startswith("40 frames encoded with several qualities, PSNR ")
    rc.convert(write_files(tmp_path / "f.npz", FILES[:4]), tmp_path / "v", images="keep")
    rc.merge_stores([tmp_path / "v", tmp_path / "u"], tmp_path / "w")
    assert rc.EpisodeStore(tmp_path / "w").streams["cam"].encoded == both


def test_frames_without_error(tmp_path: Path) -> None:
    flat = np.full((3, 16, 16, 1), 128, np.uint8)
    record = rc.JpegFrames.encode(flat, 100).encoded
    assert record == EncodedFrames(3, 100, "gray", 1, None, None)
    assert str(record) == "3 frames encoded with quality 100, gray, without error in 1 of them"


def test_episodes_that_differ(tmp_path: Path) -> None:
    """`auto` changes pixels of no store; JPEG stores take pixels as JPEG, with a note."""
    jpeg = write_files(tmp_path / "a.npz", FILES[:4])
    raw = write_raw(tmp_path / "b.npz", SCENES[:4])
    rc.convert(raw, tmp_path / "raw")
    rc.convert(jpeg, tmp_path / "raw", images="auto", append=True)
    found = rc.EpisodeStore(tmp_path / "raw")[1]["cam"].values
    np.testing.assert_array_equal(found, [by_pillow(file) for file in FILES[:4]])
    rc.convert(jpeg, tmp_path / "jpeg", images="auto")
    report = rc.convert(raw, tmp_path / "jpeg", images="auto", append=True)
    assert report.notes == [
        "images of cam encoded as JPEG of quality 95, as those of other episodes are JPEG: 4"
    ]
    store = rc.EpisodeStore(tmp_path / "jpeg")
    expected = rc.JpegFrames.encode(SCENES[:4], 95, full_chroma=True)
    np.testing.assert_array_equal(np.asarray(store[1]["cam"].values), np.asarray(expected))
    report = rc.convert(raw, tmp_path / "c", images="raw")
    report = rc.convert(jpeg, tmp_path / "c", images="keep", append=True)
    assert "expected U8 rows of shape [40, 56, 3], got JPEG frames" in report.skipped[0].reason


def test_sizes_are_said_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_files(tmp_path / "r.npz", FILES)
    with caplog.at_level(logging.INFO, "robocache.conversion.disk_space"):
        report = rc.convert(path, tmp_path / "s", images="keep")
    sizes = report.image_sizes
    assert sizes["raw"] == report.image_bytes == SCENES.nbytes and report.image_form == "keep"
    frames = rc.EpisodeStore(tmp_path / "s")[0]["cam"].values
    stored = frames.nbytes + frames.indexed(1)[0].entries.items.nbytes
    assert sizes["keep"] == pytest.approx(stored, rel=0.1)
    best = rc.JpegFrames.encode(np.asarray(frames), 95)
    stored = best.nbytes + best.indexed(1)[0].entries.items.nbytes
    assert sizes["jpeg:95"] == pytest.approx(stored, rel=0.1)
    assert re.search(
        r"decoded images take 2\d\d\.\d KiB \(keep about [\d.]+ KiB \(chosen\), jpeg:95 about "
        r"[\d.]+ KiB\), the disk has",
        caplog.text,
    )
    raw = rc.convert(write_raw(tmp_path / "b.npz"), tmp_path / "t", images="jpeg:50")
    assert list(raw.image_sizes) == ["raw", "jpeg:95", "jpeg:50"]
    assert raw.image_form == "jpeg:50"
    assert raw.image_sizes["jpeg:50"] < raw.image_sizes["jpeg:95"] < raw.image_sizes["raw"]


@pytest.mark.parametrize(
    ("images", "error", "message"),
    [
        ("jpeg:101", ValueError, "images: expected auto, raw, keep, jpeg:QUALITY or "),
        ("jpeg:0", ValueError, "images: expected auto, raw, keep, jpeg:QUALITY or "),
        ("png", ValueError, "images: expected auto, raw, keep, jpeg:QUALITY or "),
        (3, TypeError, "images: expected a bool or a str, got int"),
    ],
)
def test_errors(tmp_path: Path, images: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        rc.convert(write_raw(tmp_path / "r.npz"), tmp_path / "s", images=images)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"frames": 0}, "encoding.encoded.frames: expected 1 or more, got 0"),
        ({"quality": 0}, "encoding.encoded.quality: expected 1 to 100, got 0"),
        ({"quality": 101}, "encoding.encoded.quality: expected "),
        (
            {"chroma": "4:1:1"},
            'chroma: expected 4:2:0, 4:4:4 or gray, got "4:1:1"',
        ),
        ({"measured": 38}, "encoding.encoded.measured: expected "),
        ({"psnr": "high"}, "encoding.encoded.psnr: expected a number, got "),
        ({"lowest_psnr": []}, "encoding.encoded.lowest_psnr: expected a number, got "),
    ],
)
def test_records_of_the_manifest(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    rc.convert(write_raw(tmp_path / "r.npz"), tmp_path / "s", images="jpeg:90")
    manifest = json.loads((tmp_path / "s" / "manifest.json").read_text())
    del manifest["crc32"]
    (camera,) = [stream for stream in manifest["streams"] if stream["name"] == "cam"]
    record = camera["encoding"]["encoded"]
    assert list(record) == ["frames", "quality", "chroma", "measured", "psnr", "lowest_psnr"]
    record |= change
    HandStore(tmp_path / "s", manifest).commit()
    with pytest.raises(rc.StoreError) as raised:
        rc.EpisodeStore(tmp_path / "s")
    assert message in str(raised.value)


@needs(BRIDGE)
def test_a_real_data_set_is_kept(tmp_path: Path) -> None:
    raw = rc.convert(BRIDGE, tmp_path / "raw", rate=5, images="raw")
    kept = rc.convert(BRIDGE, tmp_path / "kept", rate=5, images="auto")
    assert kept.notes == raw.notes and kept.bytes < raw.bytes / 3
    a, b = rc.EpisodeStore(tmp_path / "raw"), rc.EpisodeStore(tmp_path / "kept")
    b.verify()
    assert kept.image_sizes["raw"] == pytest.approx(
        sum(info.rows * info.row_bytes for info in a.streams.values() if len(info.shape) == 3),
        rel=0.05,
    )
    for left, right in zip(a, b, strict=True):
        for name in left.streams:
            np.testing.assert_array_equal(left[name].values, np.asarray(right[name].values))
