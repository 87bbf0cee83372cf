"""Images that recordings hold as files: every reader keeps JPEG byte for byte, or decodes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jpegs import by_pillow, encoded, scene, turned
from lerobot_sets import write_v2
from message_files import MS, START, messages_for, write
from numpy.typing import NDArray

from robocache.jpeg.frames import JpegFrames
from robocache.readers import ReadOptions, RecordingError, open_recording
from robocache.readers.image_encoding import ImageEncoding

pytest.importorskip("PIL.Image", reason="images need Pillow")

pytestmark = pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")

KEEP = ImageEncoding("keep")
AGAIN = (
    "encoded again as JPEG of quality 95: only upright baseline JPEG of gray or of 4:4:4, 4:2:2, "
    "4:4:0 or 4:2:0 color is kept"
)
FILES = [encoded(scene(i), quality=60 + 3 * i) for i in range(9)]


def padded(files: Sequence[bytes]) -> NDArray[np.uint8]:
    """[n, L] rows of bytes that zeros pad to one length, as ALOHA stores them."""
    rows = np.zeros((len(files), max(map(len, files)) + 7), np.uint8)
    for row, file in zip(rows, files, strict=True):
        row[: len(file)] = np.frombuffer(file, np.uint8)
    return rows


def objects(files: Sequence[bytes]) -> NDArray[Any]:
    rows = np.empty(len(files), object)
    rows[:] = list(files)
    return rows


def write_aloha(path: Path, files: Sequence[bytes]) -> str:
    h5py = pytest.importorskip("h5py", reason="HDF5 needs h5py")
    with h5py.File(path / "episode_0.hdf5", "w") as file:
        file["observations/images/cam"] = padded(files)
        file["observations/qpos"] = np.zeros((len(files), 14))
        file["action"] = np.zeros((len(files), 14))
        file["compress_len"] = np.array([[len(f) for f in files]], np.float64)
        file.attrs["compress"] = True
    return "episode_0.hdf5:observations/images/cam"


def write_hdf5(kind: str) -> Callable[[Path, Sequence[bytes]], str]:
    def write_file(path: Path, files: Sequence[bytes]) -> str:
        h5py = pytest.importorskip("h5py", reason="HDF5 needs h5py")
        with h5py.File(path / "demos.hdf5", "w") as file:
            demo = file.create_group("data/demo_0")
            demo["actions"] = np.zeros((len(files), 2))
            if kind == "padded":
                demo.create_dataset(
                    "obs/cam", data=padded(files), chunks=(2, 500), compression="gzip"
                )
            elif kind == "opaque":
                rows = padded(files)
                demo["obs/cam"] = rows.view(f"V{rows.shape[1]}")[:, 0]
            else:
                rows = demo.create_dataset("obs/cam", (len(files),), h5py.vlen_dtype(np.uint8))
                for i, data in enumerate(files):
                    rows[i] = np.frombuffer(data, np.uint8)
        return "demos.hdf5:obs/cam"

    return write_file


def write_npz(kind: str) -> Callable[[Path, Sequence[bytes]], str]:
    def write_file(path: Path, files: Sequence[bytes]) -> str:
        rows: Any = padded(files)
        if kind != "padded":
            rows = np.array([bytes(row) for row in rows], f"{kind}{rows.shape[1]}")
        np.savez(path / "r.npz", times_ns=np.arange(len(files)) * MS, cam=rows)
        return "r.npz:cam"

    return write_file


def write_zarr(kind: str, version: int) -> Callable[[Path, Sequence[bytes]], str]:
    def write_set(path: Path, files: Sequence[bytes]) -> str:
        zarr = pytest.importorskip("zarr", minversion="3", reason="needs zarr 3")
        group = zarr.open_group(str(path / "set.zarr"), mode="w", zarr_format=version)
        group["data/action"] = np.zeros((len(files), 2), np.float32)
        if kind == "padded":
            group["data/cam"] = padded(files)
        else:
            from zarr.core.dtype import VariableLengthBytes

            array = group["data"].create_array(
                "cam", shape=(len(files),), chunks=(4,), dtype=VariableLengthBytes()
            )
            array[:] = objects(files)
        group["meta/episode_ends"] = np.array([len(files)])
        return "set.zarr:cam"

    return write_set


def write_lerobot(path: Path, files: Sequence[bytes]) -> str:
    pq = pytest.importorskip("pyarrow.parquet", reason="LeRobot needs pyarrow")
    import pyarrow as pa

    features = {
        "action": {"dtype": "float32", "shape": [2], "names": None},
        "cam": {"dtype": "image", "shape": [40, 56, 3], "names": None},
    }
    write_v2(path / "set", [len(files)], features=features)
    count = len(files)
    table = pa.table(
        {
            "action": pa.array([[0.0, 0.0]] * count, pa.list_(pa.float32(), 2)),
            "cam": pa.array(
                [{"bytes": data, "path": None} for data in files],
                pa.struct({"bytes": pa.binary(), "path": pa.string()}),
            ),
            "timestamp": pa.array(np.arange(count, dtype=np.float32) / np.float32(10)),
            "episode_index": pa.array(np.zeros(count, np.int64)),
        }
    )
    pq.write_table(table, path / "set/data/chunk-000/episode_000000.parquet")
    return "set:cam"


def write_messages(storage: str) -> Callable[[Path, Sequence[bytes]], str]:
    def write_bag(path: Path, files: Sequence[bytes]) -> str:
        robot, kind = messages_for(storage), "sensor_msgs/msg/CompressedImage"
        entries = [
            ("/cam", kind, START + i * MS, robot.compressed(START + i * MS, data))
            for i, data in enumerate(files)
        ]
        return f"{write(path, storage, robot, entries).name}:/cam"

    return write_bag


WRITERS: dict[str, Callable[[Path, Sequence[bytes]], str]] = {
    "aloha": write_aloha,
    **{f"hdf5-{kind}": write_hdf5(kind) for kind in ("padded", "opaque", "variable")},
    **{f"npz-{kind}": write_npz(kind) for kind in ("padded", "S", "V")},
    **{
        f"zarr{version}-{kind}": write_zarr(kind, version)
        for version in (2, 3)
        for kind in ("padded", "variable")
    },
    "lerobot": write_lerobot,
    **{name: write_messages(name) for name in ("bag", "db3", "mcap")},
}


def read(
    folder: Path, writer: str, files: Sequence[bytes], **options: Any
) -> tuple[Any, NDArray[np.bool_] | None, dict[str, int]]:
    """The values of the images, which of them are valid, and the notes."""
    name, _, stream = WRITERS[writer](folder, files).partition(":")
    with open_recording(folder / name, ReadOptions(rate=10, **options)) as recording:
        (episode,) = recording.episodes()
        rows = [rows for rows in episode.read() if rows.stream == stream]
        assert len(rows) == 1 and len(rows[0].times) == len(files)
        return rows[0].values, rows[0].valid, dict(recording.notes)


@pytest.mark.parametrize("writer", WRITERS)
def test_jpeg_is_kept_byte_for_byte(tmp_path: Path, writer: str) -> None:
    values, valid, notes = read(tmp_path, writer, FILES, encoding=KEEP)
    assert isinstance(values, JpegFrames) and values.shape == (9, 40, 56, 3)
    assert [file.tobytes() for file in values.files] == FILES
    assert valid is None and not any("images of" in note for note in notes)
    assert values.encoded is None


@pytest.mark.parametrize("writer", WRITERS)
def test_raw_images_are_pillows(tmp_path: Path, writer: str) -> None:
    values, _, _ = read(tmp_path, writer, FILES)
    np.testing.assert_array_equal(values, [by_pillow(file) for file in FILES])
    assert isinstance(values, np.ndarray)


@pytest.mark.parametrize("writer", WRITERS)
def test_files_that_cannot_be_kept_are_changed_with_a_note(tmp_path: Path, writer: str) -> None:
    files = [
        *FILES[:2],
        encoded(scene(2), progressive=True),
        encoded(scene(3), mode="CMYK"),
        turned(scene(4).transpose(1, 0, 2)),
        encoded(scene(5), "PNG"),
        encoded(scene(6), progressive=True, quality=40, subsampling="4:2:0"),
        FILES[7],
    ]
    values, valid, notes = read(tmp_path, writer, files, encoding=KEEP)
    stream = "/cam" if writer in ("bag", "db3", "mcap") else "cam"
    stream = {"aloha": "observations/images/cam"}.get(writer, stream)
    stream = "obs/cam" if writer.startswith("hdf5") else stream
    assert {note: n for note, n in notes.items() if "images of" in note} == {
        f"images of {stream} rewritten as baseline JPEG of the same pixels": 2,
        f"images of {stream} {AGAIN}": 3,
    }
    assert valid is None
    for row in (0, 1, 7):
        assert values.files[row].tobytes() == files[row]
    for row in (2, 6):  # the same coefficients
        np.testing.assert_array_equal(values[row], by_pillow(files[row]))
    errors = [np.square(values[i].astype(int) - by_pillow(files[i])).mean() for i in (3, 4, 5)]
    assert values.encoded is not None
    assert (values.encoded.frames, values.encoded.measured) == (3, 3)
    assert (values.encoded.quality, values.encoded.chroma) == (95, "4:4:4")
    psnr = 10 * np.log10(255**2 / np.array([np.mean(errors), max(errors)]))
    np.testing.assert_allclose([values.encoded.psnr, values.encoded.lowest_psnr], psnr)
    assert psnr[1] > 35


@pytest.mark.parametrize("writer", ["aloha", "lerobot", "bag"])
@pytest.mark.parametrize("damaged", [0, 2])
def test_notes_count_each_image_once(tmp_path: Path, writer: str, damaged: int) -> None:
    """Also the first one, which decides whether the stream is JPEG."""
    files = [FILES[0][:200]] * damaged
    files += [encoded(scene(i), mode="CMYK") for i in range(3)]
    files += [encoded(scene(i), progressive=True) for i in range(2)]
    if writer == "bag":
        files = files[damaged:]  # images before the first good one are left out
    values, _, notes = read(tmp_path, writer, files, encoding=KEEP)
    counts = [n for note, n in notes.items() if "again" in note or "rewritten" in note]
    assert sorted(counts) == [2, 3] and values.encoded.frames == 3


def test_color_of_a_quarter_of_the_resolution_is_encoded_again(tmp_path: Path) -> None:
    file = bytearray(encoded(scene(0, 32, 64), subsampling="4:2:0"))
    sampling = file.index(b"\xff\xc0") + 11
    assert file[sampling] == 0x22
    file[sampling] = 0x41  # 4:1:1, which has as many blocks
    values, _, notes = read(tmp_path, "aloha", [bytes(file)] * 2, encoding=KEEP)
    assert notes[f"images of observations/images/cam {AGAIN}"] == 2
    assert values.encoded.frames == 2 and values.encoded.psnr > 35


@pytest.mark.parametrize("writer", WRITERS)
def test_damaged_frames_are_kept_and_not_valid(tmp_path: Path, writer: str) -> None:
    files = [FILES[0][:200], *FILES[1:4], FILES[4][:-300], b"\xff\xd8\xff" + b"x" * 200, FILES[6]]
    if writer in ("bag", "db3", "mcap"):
        files = files[1:]  # there an image before the first good one is left out
    values, valid, notes = read(tmp_path, writer, files, encoding=KEEP)
    expected = [len(file) > 250 and file != FILES[4][:-300] for file in files]
    assert valid is not None and valid.tolist() == expected
    (note,) = [note for note in notes if "damaged" in note]
    assert note.endswith(
        "cam that are damaged, their bytes kept and their rows marked as not valid"
    )
    assert notes[note] == expected.count(False)
    assert [file.tobytes() for file in values.files] == files


def test_messages_before_the_first_image(tmp_path: Path) -> None:
    write_messages("bag")(tmp_path, [FILES[0][:200], *FILES[1:4]])
    path = tmp_path / "recording.bag"
    with open_recording(path, ReadOptions(encoding=KEEP)) as recording:
        (rows,) = recording.episodes()[0].read()
        assert [file.tobytes() for file in rows.values.files] == FILES[1:4]
        assert recording.notes["images of /cam left out: damaged, before the first one"] == 1


@pytest.mark.parametrize("kind", ["raw", "keep"])
def test_gray_beside_color(tmp_path: Path, kind: Any) -> None:
    files = [FILES[0], encoded(scene(1, channels=1))]
    with pytest.raises(RecordingError) as raised:
        read(tmp_path, "aloha", files, encoding=ImageEncoding(kind))
    assert str(raised.value) == (
        f"{tmp_path}/episode_0.hdf5: expected images of one size in observations/images/cam, got "
        "56x40x3 uint8 and, in row 1, 56x40x1 uint8 (--no-images, or images=False, leaves images "
        "out)"
    )


@pytest.mark.parametrize("writer", ["aloha", "lerobot", "bag"])
@pytest.mark.parametrize("kind", ["raw", "keep"])
def test_only_damaged_images_are_an_error(tmp_path: Path, writer: str, kind: Any) -> None:
    with pytest.raises(RecordingError, match=r"expected an image .* got 200 bytes"):
        read(tmp_path, writer, [FILES[0][:200]] * 3, encoding=ImageEncoding(kind))


@pytest.mark.parametrize("kind", ["auto", "keep"])
def test_a_stream_that_begins_with_other_images(tmp_path: Path, kind: Any) -> None:
    """`auto` changes no pixel; `keep` encodes JPEG that it cannot keep."""
    for name, first in (("turned", turned(scene(0).transpose(1, 0, 2))), ("png", None)):
        folder = tmp_path / name
        folder.mkdir()
        files = [encoded(scene(0), "PNG") if first is None else first, *FILES[1:3]]
        values, _, _ = read(folder, "npz-padded", files, encoding=ImageEncoding(kind))
        if kind == "keep" and name == "turned":
            assert isinstance(values, JpegFrames) and values.files[1].tobytes() == FILES[1]
        else:
            np.testing.assert_array_equal(values, [by_pillow(file) for file in files])
            assert isinstance(values, np.ndarray)


def test_images_of_another_size(tmp_path: Path) -> None:
    files = [*FILES[:3], encoded(scene(3, 24, 32))]
    for kind in ("raw", "keep"):
        with pytest.raises(RecordingError) as raised:
            read(tmp_path, "aloha", files, encoding=ImageEncoding(kind))
        assert str(raised.value) == (
            f"{tmp_path}/episode_0.hdf5: expected images of one size in observations/images/cam, "
            "got 56x40x3 uint8 and, in row 3, 32x24x3 uint8 (resize makes them one)"
        )


def test_resized_images_are_pixels(tmp_path: Path) -> None:
    values, _, _ = read(tmp_path, "aloha", FILES, encoding=KEEP, resize=(28, 20))
    assert values.shape == (9, 20, 28, 3) and isinstance(values, np.ndarray)


@pytest.mark.parametrize("writer", ["aloha", "hdf5-variable", "npz-S", "zarr2-variable"])
def test_images_can_be_left_out(tmp_path: Path, writer: str) -> None:
    name, _, stream = WRITERS[writer](tmp_path, FILES).partition(":")
    with open_recording(tmp_path / name, ReadOptions(rate=10, images=False)) as recording:
        assert recording.notes[f"streams of images left out ({stream})"] == 1
        assert stream not in recording.streams and recording.image_bytes() == 0
    with open_recording(tmp_path / name, ReadOptions(rate=10)) as recording:
        assert recording.image_bytes() == 9 * 40 * 56 * 3
        assert recording.streams[stream].method == "previous"


@pytest.mark.parametrize("writer", ["hdf5-variable", "zarr2-variable", "zarr3-variable"])
@pytest.mark.parametrize("rows", [[b""] * 3, [b"words"] * 3])
def test_rows_of_variable_length_that_are_no_images(
    tmp_path: Path, writer: str, rows: list[bytes]
) -> None:
    name, _, stream = WRITERS[writer](tmp_path, rows).partition(":")
    kind = "datasets" if writer.startswith("hdf5") else "arrays"
    with open_recording(tmp_path / name, ReadOptions(rate=10)) as recording:
        assert stream not in recording.streams
        note = f"{kind} of rows of bytes that are no images left out ({stream})"
        assert recording.notes[note] == 1 and not any("object" in n for n in recording.notes)


def test_a_single_value_of_bytes(tmp_path: Path) -> None:
    np.savez(tmp_path / "r.npz", times_ns=np.arange(3), q=np.arange(3), text=np.bytes_(b"x" * 200))
    with open_recording(tmp_path / "r.npz", ReadOptions()) as recording:
        assert recording.notes == {"arrays of type |S200 left out (text)": 1}
    h5py = pytest.importorskip("h5py", reason="HDF5 needs h5py")
    with h5py.File(tmp_path / "demos.hdf5", "w") as file:
        demo = file.create_group("data/demo_0")
        demo["actions"] = np.zeros((3, 2))
        demo["text"] = np.bytes_(b"x" * 200)
    with open_recording(tmp_path / "demos.hdf5", ReadOptions(rate=10)) as recording:
        assert recording.notes == {"datasets of type |S200 left out (text)": 1}


def test_long_streams_come_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("robocache.readers.encoded_images.CHUNK_BYTES", 3 * len(FILES[0]))
    write_aloha(tmp_path, FILES)
    with open_recording(tmp_path / "episode_0.hdf5", ReadOptions(rate=10, encoding=KEEP)) as found:
        rows = [r for r in found.episodes()[0].read() if r.stream.endswith("cam")]
    assert len(rows) > 1
    assert [file.tobytes() for part in rows for file in part.values.files] == FILES
    assert np.concatenate([part.times for part in rows]).tolist() == [
        i * 100_000_000 for i in range(9)
    ]


def test_bytes_that_are_no_images(tmp_path: Path) -> None:
    """Rows of bytes that are no files stay numbers."""
    np.savez(tmp_path / "r.npz", times_ns=np.arange(3), tactile=np.ones((3, 200), np.uint8))
    with open_recording(tmp_path / "r.npz", ReadOptions()) as recording:
        (rows,) = recording.episodes()[0].read()
    assert rows.values.shape == (3, 200)
