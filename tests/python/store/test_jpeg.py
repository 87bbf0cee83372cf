"""Streams of JPEG frames: files kept byte for byte, decoded to the bytes that Pillow gives."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jpegs import by_pillow, encoded, scene, turned
from stores import HandStore

import robocache as rc
from robocache.doctor.examine import examine
from robocache.store import shard_values
from robocache.store.shard import ShardWriter
from robocache.store.value_columns import sampling_step

pytest.importorskip("PIL.Image", reason="images need Pillow")
load_file = pytest.importorskip("safetensors.numpy").load_file
Frames: Any = rc.JpegFrames  # tests of errors pass arguments of other types


@pytest.fixture(scope="module")
def files() -> list[bytes]:
    return [encoded(scene(i), quality=60 + i) for i in range(37)]


def write(path: Path, files: list[bytes], **options: Any) -> None:
    with rc.StoreWriter(path, **options) as writer, writer.episode() as episode:
        episode.add("camera", np.arange(len(files)) * 10, rc.JpegFrames.from_files(files))
        episode.add("q", [0], [1.0])


def test_frames_are_those_that_were_written(tmp_path: Path, files: list[bytes]) -> None:
    write(tmp_path, files)
    store = rc.EpisodeStore(tmp_path)
    store.verify()
    info = store.streams["camera"]
    assert (info.encoding, info.shape, info.is_ragged) == ("jpeg", (40, 56, 3), False)
    assert (info.row_text, info.method) == ("JPEG[40,56,3]", "previous")
    frames = store[0]["camera"].values
    assert frames.shape == (37, 40, 56, 3) and frames.dtype == np.uint8
    for i, file in enumerate(files):
        assert frames.files[i].tobytes() == file
        np.testing.assert_array_equal(frames[i], by_pillow(file))
    np.testing.assert_array_equal(np.asarray(frames[5:8]), [by_pillow(f) for f in files[5:8]])
    part = store[0]["camera"][30:]
    np.testing.assert_array_equal(part.values[-1], by_pillow(files[-1]))
    again = pickle.loads(pickle.dumps(store))
    np.testing.assert_array_equal(again[0]["camera"].values[3], by_pillow(files[3]))


@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("size", [(1, 1), (8, 17), (33, 16), (61, 45)])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_kind_of_frame(
    tmp_path: Path, subsampling: str, size: tuple[int, int], channels: int
) -> None:
    options = {"subsampling": subsampling} if channels == 3 else {}
    kinds = [encoded(scene(i, *size, channels), quality=20 + 35 * i, **options) for i in range(3)]
    kinds.append(
        encoded(scene(9, *size, channels), optimize=True, restart_marker_rows=1, **options)
    )
    write(tmp_path, kinds)
    store = rc.EpisodeStore(tmp_path)
    store.verify()
    got = np.asarray(store[0]["camera"].values)
    np.testing.assert_array_equal(got, [by_pillow(kind) for kind in kinds])


def test_frames_of_one_unit_are_verified(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer, writer.episode() as episode:
        episode.add("camera", range(3), rc.JpegFrames.encode(np.zeros((3, 8, 8, 3), np.uint8)))
    store = rc.EpisodeStore(tmp_path)
    store.verify()
    assert store[0]["camera"].values.shape == (3, 8, 8, 3)


def test_the_file_is_as_documented(tmp_path: Path, files: list[bytes]) -> None:
    write(tmp_path, files[:4])
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["version"] == 2
    camera = manifest["streams"][0]
    assert (camera["dtype"], camera["shape"], camera["method"]) == ("U8", [None], "previous")
    assert camera["encoding"] == {"name": "jpeg", "shape": [40, 56, 3], "mcus_per_entry": 1}
    tensors = load_file(tmp_path / "shard-00000.safetensors")
    assert tensors["camera/values"].tobytes() == b"".join(files[:4])
    assert tensors["camera/row_offsets"].tolist() == [0, *np.cumsum([*map(len, files[:4])])]
    mcus = -(-40 // 16) * -(-56 // 16)
    sizes = np.diff(tensors["camera/entry_offsets"])
    assert (sizes == sizes[0]).all() and sizes[0] >= mcus
    assert len(tensors["camera/entries"]) == sizes.sum()
    assert tensors["camera/scan_bits"].dtype == np.uint32
    assert (tensors["camera/scan_bits"] > 0).all()


@pytest.mark.parametrize("decoded_bytes", [shard_values._DECODED_BYTES, 1])
def test_statistics_are_those_of_one_frame_in_16(
    tmp_path: Path, files: list[bytes], monkeypatch: pytest.MonkeyPatch, decoded_bytes: int
) -> None:
    """However many frames the writer decodes at once: all of them, or each alone."""
    monkeypatch.setattr(shard_values, "_DECODED_BYTES", decoded_bytes)
    write(tmp_path, files)
    sampled = np.array([by_pillow(files[i]) for i in (0, 16, 32)]).reshape(-1, 3)
    statistics = rc.EpisodeStore(tmp_path).statistics["camera"]
    assert statistics.count.tolist() == [len(sampled)] * 3
    np.testing.assert_allclose(statistics.mean, sampled.mean(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(statistics.min, sampled.min(axis=0))


@pytest.mark.parametrize(
    ("frames", "step"),
    [(1, 16), (543, 16), (544, 17), (1300, 40), (2047, 63), (2048, 64), (10**6, 64)],
)
def test_the_larger_a_shard_the_fewer_frames_are_sampled(frames: int, step: int) -> None:
    assert sampling_step(frames) == step


def test_statistics_of_a_large_shard(tmp_path: Path) -> None:
    files = [encoded(scene(i, 8, 8)) for i in range(50)]
    rows = 1300
    with rc.StoreWriter(tmp_path) as writer:  # two episodes, the second one beyond the memory limit
        shard = ShardWriter(tmp_path, spool_bytes=400_000)
        for begin, end in ((0, 300), (300, rows)):
            with shard.episode() as episode:
                several = rc.JpegFrames.from_files([files[i % 50] for i in range(begin, end)])
                episode.take("camera", range(end - begin), several)
        assert shard._spools  # of the second episode, with a file
        writer.commit_shard(shard.close())
    store = rc.EpisodeStore(tmp_path)
    store.verify()
    sampled = np.array([by_pillow(files[i % 50]) for i in range(0, rows, 40)]).reshape(-1, 3)
    np.testing.assert_array_equal(store.statistics["camera"].count, [len(sampled)] * 3)
    np.testing.assert_allclose(store.statistics["camera"].mean, sampled.mean(axis=0), rtol=1e-12)
    last = store[1]["camera"].values.files[rows - 300 - 1]
    assert last.tobytes() == files[(rows - 1) % 50]


def test_rows_without_an_image(tmp_path: Path, files: list[bytes]) -> None:
    rows = [files[0], b"", b"not a picture", encoded(scene(1), progressive=True), files[4][:-90]]
    frames = rc.JpegFrames(
        rc.RaggedArray.from_rows([np.frombuffer(row, np.uint8) for row in rows]), (40, 56, 3)
    )
    valid = [True, False, False, False, True]
    with rc.StoreWriter(tmp_path) as writer:
        with writer.episode() as episode:
            episode.add("camera", range(5), frames, valid=valid)
        with writer.episode() as episode:
            with pytest.raises(
                ValueError,
                match=r"camera.values\[1\]: expected a baseline JPEG of 56x40x3, got .* "
                r"\(`valid` marks rows without an image, JpegFrames.encode takes pixels\)",
            ):
                episode.add("camera", range(5), frames)
            with pytest.raises(ValueError, match=r"values\[3\]: .* got a progressive JPEG"):
                episode.add("camera", [0, 1, 2, 3], frames[[0, 0, 0, 3]])
            other = rc.JpegFrames.from_files([encoded(scene(0, 8, 8))])
            with pytest.raises(
                ValueError,
                match=r"camera.values: expected JPEG frames of shape \[40, 56, 3\], "
                r"got JPEG frames of shape \[8, 8, 3\]",
            ):
                episode.add("camera", [0], other)
            with pytest.raises(ValueError, match=r"expected JPEG frames .*, got U8 rows of shape"):
                episode.add("camera", [0], scene(0)[None])
            episode.add("q", [0], [1.0])
    store = rc.EpisodeStore(tmp_path)
    store.verify()
    got = store[0]["camera"].values
    assert not got[1].any() and not got[2].any()
    np.testing.assert_array_equal(got[0], by_pillow(files[0]))
    whole = by_pillow(files[4])
    assert (got[4][:8] == whole[:8]).all() and (got[4] != whole).any()
    pixels, has_image = got.decode()
    assert has_image.tolist() == [True, False, False, True, True]
    assert not pixels[1].any()


def test_appended_merged_and_repaired(tmp_path: Path, files: list[bytes]) -> None:
    write(tmp_path / "a", files[:20])
    write(tmp_path / "a", files[20:], append=True)
    write(tmp_path / "b", files[:5])
    rc.merge_stores([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    rc.repair(tmp_path / "c", streams=["camera"], episodes=[1], rows=[(0, 1)])
    store = rc.EpisodeStore(tmp_path / "c")
    store.verify()
    assert [len(episode["camera"]) for episode in store] == [20, 17, 5]
    assert store[1]["camera"].values.files[3].tobytes() == files[23]
    frames = (2 + 1 + 1) * 40 * 56  # of 20, 17 without the first, and 5 rows
    assert store.statistics["camera"].count.tolist() == [frames] * 3
    (rows,) = store.pieces("camera", [0])[1]
    assert rows.values.shape == (20, 40, 56, 3)


@pytest.mark.parametrize("full_chroma", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
def test_encoding_is_libjpegs(full_chroma: bool, channels: int) -> None:
    pixels = np.array([scene(i, channels=channels) for i in range(3)])
    frames = rc.JpegFrames.encode(pixels, 92, full_chroma=full_chroma)
    options = {"subsampling": "4:4:4" if full_chroma else "4:2:0"} if channels == 3 else {}
    expected = [by_pillow(encoded(frame, quality=92, **options)) for frame in pixels]
    np.testing.assert_array_equal(np.asarray(frames), expected)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Frames.from_files([]), ValueError,
         "files: expected at least 1 frame, got none"),
        (lambda: Frames.from_files([encoded(scene(0)), b"PNG"]), ValueError,
         "files[1]: expected baseline JPEG, got "),
        (lambda: Frames.from_files([encoded(scene(0)), encoded(scene(0, 8, 8))]), ValueError,
         "files[1]: expected 56x40x3, as files[0], got 8x8x3"),
        (lambda: Frames(rc.RaggedArray([1.0], [0, 1]), (8, 8, 3)), TypeError,
         "files: expected rows of bytes, got RaggedArray(1 row of float64[*], 1 item)"),
        (lambda: Frames.from_files([encoded(scene(0), progressive=True)]), ValueError,
         "files[0]: expected baseline JPEG, got a progressive JPEG "
         "(JpegFrames.encode takes pixels)"),
        (lambda: Frames.from_files([encoded(scene(0)), turned(scene(0))]), ValueError,
         "files[1]: expected baseline JPEG, got a frame that its EXIF orientation turns or mirrors "
         "(JpegFrames.encode takes pixels)"),
        (lambda: Frames.from_files(encoded(scene(0))), TypeError,
         "files: expected a list of files, got bytes (one file is [file])"),
        (lambda: Frames.from_files([encoded(scene(0)), "a.jpg"]), TypeError,
         "files[1]: expected bytes, or an array [n] of uint8, got str"),
        (lambda: Frames.from_files([np.zeros((4, 4))]), TypeError,
         "files[0]: expected bytes, or an array [n] of uint8, got float64[4, 4]"),
        (lambda: Frames([encoded(scene(0))], (40, 56, 3)), TypeError,
         "files: expected a RaggedArray, got list (JpegFrames.from_files takes a list of files)"),
        (lambda: Frames(rc.RaggedArray(np.zeros(1, "u1"), [0, 1]), (8, 8)), ValueError,
         "shape: expected (H, W, C), C of 1 or 3, got (8, 8)"),
        (lambda: Frames(rc.RaggedArray(np.zeros(1, "u1"), [0, 1]), (8, 4097, 3)), ValueError,
         "shape[1]: expected 1 to 4096, got 4097"),
        (lambda: Frames(rc.RaggedArray(np.zeros(1, "u1"), [0, 1]), (8.5, 8, 3)),
         TypeError, "shape[0]: expected an int, got float"),
        (lambda: Frames.encode(scene(0)[None], "95"), TypeError,
         "quality: expected an int, got str"),
        (lambda: Frames.encode(scene(0)[None], full_chroma="4:4:4"),
         TypeError, "full_chroma: expected a bool, got str"),
        (lambda: Frames.encode(np.zeros((1, 8, 8, 3))), TypeError,
         "pixels: expected uint8, got float64"),
        (lambda: Frames.encode(np.zeros((8, 8, 3), "u1")), ValueError,
         "pixels: expected [N,H,W,C], C of 1 or 3, got [8, 8, 3]"),
        (lambda: Frames.encode(np.zeros((1, 8, 8, 3), "u1"), 101), ValueError,
         "quality: expected 1 to 100, got 101"),
    ],
)  # fmt: skip
def test_errors(make: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as raised:
        make()
    assert str(raised.value).startswith(message)


def test_frames_that_exif_turns_are_refused(tmp_path: Path, files: list[bytes]) -> None:
    """A frame whose EXIF data turn it is stored only in a row that is not valid."""
    rows = [np.frombuffer(row, np.uint8) for row in (files[0], turned(scene(1)))]
    frames = rc.JpegFrames(rc.RaggedArray.from_rows(rows), (40, 56, 3))
    with rc.StoreWriter(tmp_path) as writer, writer.episode() as episode:
        with pytest.raises(
            ValueError,
            match=r"camera.values\[1\]: expected a baseline JPEG of 56x40x3, got a frame that its "
            r"EXIF orientation turns or mirrors \(",
        ):
            episode.add("camera", [0, 1], frames)
        episode.add("camera", [0, 1], frames, valid=[True, False])
    rc.EpisodeStore(tmp_path).verify()


def test_frames_are_compared_whole(files: list[bytes]) -> None:
    frames = rc.JpegFrames.from_files([files[i] for i in (0, 1, 2, 1)])
    assert by_pillow(files[1]) in frames and by_pillow(files[3]) not in frames
    assert frames.index(by_pillow(files[1])) == 1
    assert frames.index(by_pillow(files[1]), -2) == 3
    assert frames.count(by_pillow(files[1])) == 2 and frames.count(None) == 0
    with pytest.raises(ValueError, match=r"^value: expected an array that is a row, got none$"):
        frames.index(by_pillow(files[1]), 2, 3)


def test_sampled_bytes(files: list[bytes]) -> None:
    frames = rc.JpegFrames.from_files(files[:3])
    pixels = np.asarray(frames).reshape(3, -1)
    for step in (1, 1000, 10**6):
        np.testing.assert_array_equal(frames.sampled_bytes(step), pixels[:, ::step])
    with pytest.raises(ValueError, match=r"^step: expected 1 or more, got 0$"):
        frames.sampled_bytes(0)


def test_a_frame_of_another_size_has_no_image(files: list[bytes]) -> None:
    rows = [np.frombuffer(row, np.uint8) for row in (files[0], encoded(scene(1, 8, 8)))]
    pixels, has_image = rc.JpegFrames(rc.RaggedArray.from_rows(rows), (40, 56, 3)).decode()
    assert has_image.tolist() == [True, False]
    assert not pixels[1].any()


@pytest.mark.parametrize("step", [2, -1])
def test_bytes_of_another_stride(tmp_path: Path, files: list[bytes], step: int) -> None:
    """Items may be a view of an array: the library reads the view's bytes, not the array's."""
    array = np.zeros(len(files[0]) * abs(step), np.uint8)
    items = array[::step]
    items[:] = np.frombuffer(files[0], np.uint8)
    frames = rc.JpegFrames(rc.RaggedArray(items, [0, len(items)]), (40, 56, 3))
    np.testing.assert_array_equal(frames[0], by_pillow(files[0]))
    with rc.StoreWriter(tmp_path) as writer, writer.episode() as episode:
        episode.add("camera", [0], frames)
    assert rc.EpisodeStore(tmp_path)[0]["camera"].values.files[0].tobytes() == files[0]


def test_an_index_of_other_bytes_is_found(tmp_path: Path, files: list[bytes]) -> None:
    """`verify` reports shards whose checksums are right and whose contents are not."""
    write(tmp_path, files[:3])
    path = tmp_path / "shard-00000.safetensors"
    tensors = dict(load_file(path))
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["statistics"] = None
    hand = HandStore(tmp_path, {key: value for key, value in manifest.items() if key != "crc32"})

    def problem(**changes: Any) -> str:
        changed = {name.replace("__", "/"): np.asarray(value) for name, value in changes.items()}
        hand.write_shard(path.name, tensors | changed)
        hand.commit()
        with pytest.raises(rc.StoreError) as raised:
            rc.EpisodeStore(tmp_path).verify()
        return str(raised.value).removeprefix(f"{path}: ")

    offsets = tensors["camera/row_offsets"]
    values = tensors["camera/values"].copy()
    values[offsets[1] + 1] ^= 1
    assert problem(camera__values=values).startswith(
        '"camera/values" row 1: expected baseline JPEG, got '
    )
    entries = tensors["camera/entries"].copy()
    entries[-1] ^= np.uint64(1 << 40)
    assert problem(camera__entries=entries) == (
        '"camera/values" row 2: expected an index of the frame\'s bytes, got a JPEG that '
        "does not fit its index"
    )
    bits = tensors["camera/scan_bits"] + np.uint32(1)
    assert "row 0: expected an index of the frame's bytes" in problem(camera__scan_bits=bits)
    none = np.zeros(4, np.int64)
    assert problem(camera__entry_offsets=none, camera__entries=np.empty(0, np.uint64)) == (
        '"camera/values" row 0: expected a frame with an index, or a row that is not valid, got a '
        "valid row without index"
    )
    beyond = tensors["camera/entry_offsets"].copy()
    beyond[1] = 10**6
    assert problem(camera__entry_offsets=beyond).startswith(
        '"camera/entry_offsets"[0]: expected a range within '
    )
    with pytest.raises(rc.StoreError, match="entry_offsets"):
        _ = rc.EpisodeStore(tmp_path)[0]["camera"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "png"}, 'encoding.name: expected jpeg, got "png"'),
        ({"shape": [40, 56]}, "encoding.shape: expected [H,W,C] of at most 4096 pixels and 1 or 3"),
        ({"shape": [40, 5000, 3]}, "encoding.shape: expected [H,W,C] of at most 4096 pixels"),
        ({"mcus_per_entry": 0}, "encoding.mcus_per_entry: expected 1 or more, got 0"),
    ],
)
def test_encodings_of_the_manifest(
    tmp_path: Path, files: list[bytes], change: dict[str, Any], message: str
) -> None:
    write(tmp_path, files[:1])
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    del manifest["crc32"]
    manifest["streams"][0]["encoding"] |= change
    HandStore(tmp_path, manifest).commit()
    with pytest.raises(rc.StoreError) as raised:
        rc.EpisodeStore(tmp_path)
    assert message in str(raised.value)


def write_both(path: Path) -> tuple[Path, Path]:
    """Writes episodes twice: with JPEG frames, and with the pixels that they decode to."""
    for name in ("jpeg", "raw"):
        with rc.StoreWriter(path / name) as writer:
            writer.declare("camera", rate=20)
            for number in range(3):
                frames = rc.JpegFrames.encode([scene(number * 20 + i) for i in range(20)], 90)
                with writer.episode(source=str(number)) as episode:
                    values = frames if name == "jpeg" else np.asarray(frames)
                    valid = np.arange(20) != 7
                    episode.add("camera", np.arange(20) * 50_000_000, values, valid=valid)
                    joints = np.arange(100).reshape(50, 2) + number
                    episode.add("q", np.arange(50) * 20_000_000, joints.astype(np.float32))
    return path / "jpeg", path / "raw"


@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("as_floats", [False, True])
def test_a_loader_gives_the_same_batches(tmp_path: Path, by_rows: bool, as_floats: bool) -> None:
    torch = pytest.importorskip("torch")
    options: dict[str, Any] = {"timeline": "rows"} if by_rows else {"max_gap_s": 0.1}
    if as_floats:
        options |= {"channels_first": True, "dtype": torch.bfloat16}
    batches = []
    for store in map(rc.EpisodeStore, write_both(tmp_path)):
        windows = {"camera": rc.Window([-0.05, 0.0], **options), "q": [0.0]}
        loader = rc.Loader(store, 8, windows, anchor="camera", seed=3)
        batches.append([loader.next() for _ in range(3)])
    for left, right in zip(*batches, strict=True):
        assert left.keys() == right.keys()
        for key in left:
            assert torch.equal(left[key], right[key]), key


def test_other_users_of_a_store_decode(tmp_path: Path) -> None:
    """`align`, `export` and the doctor give the same results for JPEG frames and for pixels."""
    pytest.importorskip("torch")
    jpeg_store, raw_store = map(rc.EpisodeStore, write_both(tmp_path))
    tables = [store[1].align(20, streams=["camera"]) for store in (jpeg_store, raw_store)]
    np.testing.assert_array_equal(tables[0]["camera"].values, tables[1]["camera"].values)
    np.testing.assert_array_equal(tables[0]["camera"].valid, tables[1]["camera"].valid)
    findings = [
        [(each.kind, each.stream, each.count) for each in examine(store.path).findings]
        for store in (jpeg_store, raw_store)
    ]
    assert findings[0] == findings[1]
