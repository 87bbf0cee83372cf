"""Frames of videos and pictures: the right one for each row, at the size that was asked for."""

from __future__ import annotations

import functools
import hashlib
import io
import itertools
import subprocess
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jpegs import by_pillow
from lerobot_sets import FEATURES, write_v2, write_v3
from numpy.typing import NDArray
from privileges import unprivileged
from recordings import DATA, message_of, needs, read_all

from robocache.readers import ReadOptions, RecordingError, images
from robocache.readers.encoded_images import image_rows
from robocache.readers.image_encoding import ImageEncoding
from robocache.readers.rows import CHUNK_BYTES, Rows, row_times
from robocache.readers.video import frame_times, video_rows

av = pytest.importorskip("av", reason="videos need av")
Image = pytest.importorskip("PIL.Image", reason="images need pillow")

G1 = DATA / "lerobot_v21_g1"
PERIOD = 1_000_000_000 // 30
TOLERANCE = PERIOD // 4


def picture(number: int, height: int = 48, width: int = 64) -> NDArray[np.uint8]:
    """A frame that says its number: one black or white block a bit."""
    bits = [(number >> bit) & 1 for bit in range(8)]
    row = np.repeat(np.array(bits, np.uint8) * 255, width // 8)
    return np.broadcast_to(row[None, :, None], (height, width, 3)).copy()


def number_of(frame: NDArray[np.uint8]) -> int:
    """The number that `picture` drew, also after a lossy codec and a change of size."""
    blocks = frame.mean((0, 2)).reshape(8, -1).mean(1)
    return sum(1 << bit for bit in range(8) if blocks[bit] > 127)


def write_video(
    path: Path,
    shown: list[int],
    codec: str = "libx264",
    base: Fraction = Fraction(1, 15360),
    options: dict[str, str] | None = None,
) -> Path:
    """Frame k is `picture(k)`, shown at shown[k] units of `base`."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=30)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.time_base = base
        stream.codec_context.time_base = base
        stream.options = options or {}
        for number, pts in enumerate(shown):
            frame = av.VideoFrame.from_ndarray(picture(number), format="rgb24")
            frame.pts, frame.time_base = pts, base
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def numbers(path: Path, shown: NDArray[np.int64], options: ReadOptions | None = None) -> list[int]:
    """The numbers of the frames that rows shown at these nanoseconds get."""
    rows = row_times(0, len(shown), 30)
    options = options or ReadOptions()
    found: list[int] = []
    for part in video_rows("camera", path, rows, shown, TOLERANCE, options):
        np.testing.assert_array_equal(part.times, rows[len(found) : len(found) + len(part.times)])
        found += [number_of(frame) for frame in part.values]
    return found


# ---- JPEG ---------------------------------------------------------------------------------------


def psnr(a: NDArray[Any], b: NDArray[Any]) -> float:
    return float(10 * np.log10(255**2 / np.square(a.astype(float) - b).mean()))


@pytest.mark.parametrize("size", [(64, 48), (62, 46)])
@pytest.mark.parametrize("is_full_range", [False, True])
@pytest.mark.parametrize("images", ["jpeg:95", "jpeg:95:444", "resized"])
def test_frames_as_jpeg(
    tmp_path: Path, size: tuple[int, int], is_full_range: bool, images: str
) -> None:
    """From the video's planes or from RGB, they are the pixels of the raw stream, nearly."""
    path, (width, height) = tmp_path / "v.mkv", size
    y, x = np.mgrid[:height, :width]
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mjpeg" if is_full_range else "ffv1", rate=30)
        stream.width, stream.height = size
        stream.pix_fmt = "yuvj420p" if is_full_range else "yuv420p"
        for number in range(20):
            ramp = np.stack([x * 4, 255 - y * 5, (x + y) * 2 + number], 2).clip(0, 255)
            frame = av.VideoFrame.from_ndarray(ramp.astype(np.uint8), format="rgb24")
            container.mux(stream.encode(frame.reformat(format=stream.pix_fmt)))
        container.mux(stream.encode())
    shown = frame_times(path)
    resize = (32, 24) if images == "resized" else None

    def read(text: str) -> Any:
        encoding = ImageEncoding.parse(text)
        options = ReadOptions(encoding=encoding, resize=resize)
        (rows,) = video_rows("camera", path, shown, shown, TOLERANCE, options)
        return rows.values

    raw = read("raw")
    frames = read("jpeg:95" if images == "resized" else images)
    assert frames.shape == raw.shape and len(raw) == 20
    decoded = np.asarray(frames)
    # FFmpeg truncates where libjpeg-turbo rounds: its colors are darker by 1 or so.
    assert abs(decoded.mean((0, 1, 2)) - raw.mean((0, 1, 2))).max() < 2
    assert psnr(decoded, raw) > 33
    assert (frames.encoded.frames, frames.encoded.measured) == (20, 2)
    assert frames.encoded.psnr == pytest.approx(psnr(decoded[[0, 16]], raw[[0, 16]]))
    files = [by_pillow(file.tobytes()) for file in frames.files]
    np.testing.assert_array_equal(decoded, files)


def test_frames_of_another_matrix_are_converted(tmp_path: Path) -> None:
    """JPEG has BT.601: planes of BT.709 are encoded by way of RGB."""
    path = tmp_path / "v.mp4"
    colors = np.zeros((48, 64, 3), np.uint8)
    colors[:, :32] = (250, 30, 30)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.colorspace = 1
        stream.codec_context.color_range = 1
        container.mux(stream.encode(av.VideoFrame.from_ndarray(colors, format="rgb24")))
        container.mux(stream.encode())
    shown = frame_times(path)
    values = []
    for text in ("raw", "jpeg:95"):
        options = ReadOptions(encoding=ImageEncoding.parse(text))
        (rows,) = video_rows("camera", path, shown, shown, TOLERANCE, options)
        values.append(np.asarray(rows.values)[0, 20, 10].astype(int))
    assert abs(values[0] - values[1]).max() < 4


# ---- the right frame -----------------------------------------------------------------------------


@needs(G1)
def test_every_frame_is_what_ffmpeg_decodes_at_its_row() -> None:
    """Both of the recording's videos, by a program that shares nothing with PyAV's build."""
    ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="this needs imageio-ffmpeg")
    pq = pytest.importorskip("pyarrow.parquet", reason="LeRobot's files need pyarrow")
    read, recording = read_all(G1)
    assert list(read) == ["episode_000029", "episode_000030"]
    for key, streams in read.items():
        camera = streams["observation.images.cam_high"]
        video = G1 / f"videos/chunk-000/observation.images.cam_high/{key}.mp4"
        stamps = pq.read_table(G1 / f"data/chunk-000/{key}.parquet")["timestamp"].to_numpy()

        # Which picture is shown when, as FFmpeg's own program decodes and times them.
        command = [ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", str(video), "-copyts"]
        command += ["-fps_mode", "passthrough", "-enc_time_base", "demux", "-pix_fmt", "rgb24"]
        command += ["-f", "framehash", "-hash", "md5", "-"]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
        lines = done.stdout.splitlines()
        (base,) = [line.split()[-1] for line in lines if line.startswith("#tb 0:")]
        fields = [line.split(",") for line in lines if not line.startswith("#")]
        shown = np.array([float(int(pts) * Fraction(base)) for _, _, pts, *_ in fields])
        hashes = [line[-1].strip() for line in fields]

        nearest = np.abs(shown[None] - stamps[:, None]).argmin(1)
        assert (np.abs(shown[nearest] - stamps) < 1e-4).all()
        found = [hashlib.md5(frame.tobytes()).hexdigest() for frame in camera.values]
        assert found == [hashes[frame] for frame in nearest]
        np.testing.assert_allclose(camera.times / 1e9, stamps, atol=1e-5)
        # A frame more or less would have shown: most differ from the one before.
        assert np.mean([a != b for a, b in itertools.pairwise(hashes)]) > 0.5
    text = "episodes without their video of observation.images.cam_high, skipped"
    assert recording.notes[f"{text} (--no-images, or images=False, reads the rest)"] == 2


@pytest.mark.parametrize(
    ("codec", "options"),
    [
        ("libx264", {"bf": "3", "g": "12"}),
        ("libx264", {"bf": "0", "g": "1"}),
        ("libsvtav1", {"preset": "12", "g": "2"}),
    ],
)
def test_each_row_has_its_frame(tmp_path: Path, codec: str, options: dict[str, str]) -> None:
    if codec not in av.codecs_available:
        pytest.skip(f"PyAV has no {codec}")
    video = write_video(tmp_path / "a.mp4", [512 * k for k in range(90)], codec, options=options)
    everything = row_times(0, 90, 30)
    assert numbers(video, everything) == list(range(90))
    # An episode within the video, as v3.0 of LeRobot has them: found by a seek.
    for first in (1, 11, 12, 13, 47, 89):
        assert numbers(video, everything[first:]) == list(range(first, 90))
    assert numbers(video, everything[20:23]) == [20, 21, 22]


def test_times_decide_not_counts(tmp_path: Path) -> None:
    """A video that lacks a frame, and one that has more of them than there are rows."""
    shown = [512 * k for k in range(30) if k != 10]
    video = write_video(tmp_path / "a.mp4", shown, options={"bf": "2"})
    times = row_times(0, 30, 30)
    kept = np.delete(times, 10)
    assert numbers(video, kept) == list(range(29))
    with pytest.raises(RecordingError) as error:
        numbers(video, times)
    assert str(error.value) == (
        f"{video}: expected a frame at 0.333333 s (row 10), got 0.300000 s and 0.366667 s "
        "(--no-images, or images=False, leaves videos out)"
    )
    dense = write_video(tmp_path / "b.mp4", [256 * k for k in range(60)])
    assert numbers(dense, times) == list(range(0, 60, 2))


def test_frames_a_little_early_or_late(tmp_path: Path) -> None:
    """Rounded to milliseconds, as Matroska does, and up to a quarter of a period off."""
    video = write_video(tmp_path / "a.mkv", [512 * k for k in range(40)])
    assert numbers(video, row_times(0, 40, 30)) == list(range(40))
    jitter = np.random.default_rng(0).integers(-TOLERANCE, TOLERANCE, 40)
    assert numbers(video, np.maximum(row_times(0, 40, 30) + jitter // 2, 0)) == list(range(40))


def test_rows_may_share_a_frame(tmp_path: Path) -> None:
    video = write_video(tmp_path / "a.mp4", [512 * k for k in range(3)])
    assert numbers(video, np.array([0, 0, PERIOD, PERIOD + 5])) == [0, 0, 1, 1]


def test_a_video_that_begins_late(tmp_path: Path) -> None:
    video = write_video(tmp_path / "a.mkv", [512 * k for k in range(30, 40)])
    with pytest.raises(RecordingError) as error:
        numbers(video, row_times(0, 10, 30))
    assert str(error.value) == (
        f"{video}: expected a frame at 0.000000 s (row 0), got 1.000000 s "
        "(--no-images, or images=False, leaves videos out)"
    )
    assert numbers(video, row_times(30, 10, 30)) == list(range(10))


def test_a_video_that_ends_early(tmp_path: Path) -> None:
    video = write_video(tmp_path / "a.mp4", [512 * k for k in range(10)])
    with pytest.raises(RecordingError) as error:
        numbers(video, row_times(0, 11, 30))
    assert str(error.value) == (
        f"{video}: expected a frame at 0.333333 s (row 10), got 0.300000 s, the end "
        "(--no-images, or images=False, leaves videos out)"
    )


def test_long_videos_come_in_chunks(tmp_path: Path) -> None:
    video = write_video(tmp_path / "a.mp4", [512 * k for k in range(40)])
    times = row_times(0, 40, 30)
    options = ReadOptions(resize=(1024, 768))
    parts = list(video_rows("camera", video, times, times, TOLERANCE, options))
    assert len(parts) > 2 and all(part.values.nbytes <= CHUNK_BYTES for part in parts)
    assert numbers(video, times, options) == list(range(40))


@pytest.mark.parametrize("size", [0, 1000, -200])
def test_a_truncated_video(tmp_path: Path, size: int) -> None:
    video = write_video(tmp_path / "a.mp4", [512 * k for k in range(90)])
    video.write_bytes(video.read_bytes()[:size])
    with pytest.raises(RecordingError) as error:
        numbers(video, row_times(0, 90, 30))
    assert str(error.value).startswith(f"{video}: expected a video, got ")


def test_permission_denied(tmp_path: Path) -> None:
    video = write_video(tmp_path / "a.mp4", [0, 512])
    video.chmod(0)
    with pytest.raises(RecordingError) as error:
        unprivileged(numbers, video, row_times(0, 2, 30))
    assert str(error.value) == f"{video}: expected a video, got permission denied"


def test_damaged_frames_are_not_made_up(tmp_path: Path) -> None:
    """FFmpeg conceals what it cannot decode: a frame that nobody recorded."""
    video = write_video(tmp_path / "a.mp4", [512 * k for k in range(90)], options={"g": "30"})
    data = video.read_bytes()
    with av.open(str(video)) as container:
        packets = [packet for packet in container.demux(video=0) if packet.size]
    refused = 0
    for packet in packets[5:60:6]:
        changed = bytearray(data)
        place = packet.pos + packet.size - packet.size // 3
        changed[place : place + 3] = b"\xa5\x5a\xa5"
        video.write_bytes(changed)
        try:
            found = numbers(video, row_times(0, 90, 30))
        except RecordingError:
            refused += 1
        else:
            assert found == list(range(90))
    assert refused > 0


def test_a_file_without_pictures(tmp_path: Path) -> None:
    path = tmp_path / "a.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        sound = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), "s16", "mono")
        sound.sample_rate = 8000
        container.mux(stream.encode(sound))
    with pytest.raises(RecordingError) as error:
        numbers(path, row_times(0, 3, 30))
    assert str(error.value) == f"{path}: expected a video, got a file without a video track"
    with pytest.raises(RecordingError, match=r"expected a video, got no such file$"):
        numbers(tmp_path / "b.mp4", row_times(0, 3, 30))


# ---- a frame a row, at other times ---------------------------------------------------------------

CAMERA = {"camera": {"dtype": "video", "shape": [48, 64, 3], "names": ["h", "w", "c"]}}
BY_NUMBER = "episodes whose video of camera is matched by number: a frame a row, at other times"
BETWEEN = [0.0, 0.05, 0.11, 0.16, 0.22, 0.27, 0.33, 0.38]  # about 18.3 Hz, in a set of 30 Hz


def set_of(tmp_path: Path, stamps: list[list[float]], write: Any = write_v2) -> Path:
    """A data set with a camera and these timestamps, its videos yet to be written."""
    pa = pytest.importorskip("pyarrow", reason="LeRobot's files need pyarrow")
    pq = pytest.importorskip("pyarrow.parquet", reason="LeRobot's files need pyarrow")
    root: Path = write(tmp_path / "set", [len(s) for s in stamps], features={**FEATURES, **CAMERA})
    tables = sorted(root.glob("data/*/*.parquet"))
    packed = stamps if len(tables) == len(stamps) else [list(itertools.chain(*stamps))]
    for path, seconds in zip(tables, packed, strict=True):
        table = pq.read_table(path)
        index = table.schema.get_field_index("timestamp")
        pq.write_table(table.set_column(index, "timestamp", pa.array(seconds)), path)
    (root / "videos/chunk-000/camera").mkdir(parents=True)
    (root / "videos/camera/chunk-000").mkdir(parents=True)
    return root


def cut(root: Path, **columns: list[float]) -> Path:
    """Where the episodes of a v3.0 set lie in its video; returns the video's path."""
    pq = pytest.importorskip("pyarrow.parquet", reason="LeRobot's files need pyarrow")
    (path,) = root.glob("meta/episodes/*/*.parquet")
    table = pq.read_table(path)
    for name in ("chunk_index", "file_index"):
        table = table.append_column(f"videos/camera/{name}", [[0] * len(table)])
    for name, values in columns.items():
        table = table.append_column(f"videos/camera/{name}", [values])
    pq.write_table(table, path)
    return root / "videos/camera/chunk-000/file-000.mp4"


def read_camera(root: Path) -> tuple[list[list[int]], dict[str, int]]:
    """The numbers of the frames of each episode, and the notes on videos."""
    read, recording = read_all(root)
    found = [[number_of(frame) for frame in one["camera"].values] for one in read.values()]
    for one in read.values():
        np.testing.assert_array_equal(one["camera"].times, one["action"].times)
    return found, {note: n for note, n in recording.notes.items() if "video" in note}


@pytest.mark.parametrize("late", [0, 30])
def test_a_frame_a_row_at_other_times(tmp_path: Path, late: int) -> None:
    """Frames 1/30 s apart, while the rows' timestamps are those of a robot at 18.3 Hz."""
    root = set_of(tmp_path, [BETWEEN, BETWEEN[:5]])
    for episode, count in enumerate((8, 5)):
        path = root / f"videos/chunk-000/camera/episode_{episode:06d}.mp4"
        write_video(path, [512 * (late + k) for k in range(count)], options={"bf": "2"})
    found, notes = read_camera(root)
    assert found == [list(range(8)), list(range(5))]
    assert notes == {BY_NUMBER: 2}


def test_frames_of_the_rate_are_matched_by_time(tmp_path: Path) -> None:
    """As many frames as rows, which share some of them: times decide where all rows have one."""
    root = set_of(tmp_path, [[0.0, 0.033, 0.034, 0.1]])
    path = root / "videos/chunk-000/camera/episode_000000.mp4"
    write_video(path, [0, 512, 1024, 1536])
    assert read_camera(root) == ([[0, 1, 1, 3]], {})


@pytest.mark.parametrize("frames", [7, 9])
def test_other_times_and_another_number_of_frames(tmp_path: Path, frames: int) -> None:
    root = set_of(tmp_path, [BETWEEN])
    path = root / "videos/chunk-000/camera/episode_000000.mp4"
    write_video(path, [512 * k for k in range(frames)])
    assert message_of(root) == (
        f"{path}: expected a frame at 0.050000 s (row 1), got 0.033333 s and 0.066667 s "
        "(--no-images, or images=False, leaves videos out)"
    )


@pytest.mark.parametrize("has_stop", [True, False])
def test_episodes_of_one_video_with_a_frame_a_row(tmp_path: Path, has_stop: bool) -> None:
    """Without to_timestamp, an episode lasts as long as its rows at the set's rate."""
    stamps = [BETWEEN, BETWEEN[:5], [k / 30 for k in range(4)]]
    root = set_of(tmp_path, stamps, functools.partial(write_v3, per_file=3))
    starts, stops = [0.0, 8 / 30, 13 / 30], [8 / 30, 13 / 30, 17 / 30]
    rest = {"to_timestamp": stops} if has_stop else {}
    write_video(cut(root, from_timestamp=starts, **rest), [512 * k for k in range(17)])
    assert read_camera(root) == (
        [list(range(8)), list(range(8, 13)), list(range(13, 17))],
        {BY_NUMBER: 2},
    )


def test_where_an_episode_ends_in_its_video(tmp_path: Path) -> None:
    """Frames 1/15 s apart in a set of 30 Hz: to_timestamp says which belong to an episode."""
    stamps = [[k / 30 for k in range(6)], [k / 30 for k in range(5)]]
    root = set_of(tmp_path, stamps, functools.partial(write_v3, per_file=2))
    video = cut(root, from_timestamp=[0.0, 6 / 15], to_timestamp=[6 / 15, 11 / 15])
    write_video(video, [1024 * k for k in range(11)])
    assert read_camera(root) == ([list(range(6)), list(range(6, 11))], {BY_NUMBER: 2})


@pytest.mark.parametrize("size", [0, 1000, -200])
def test_a_truncated_video_of_a_set(tmp_path: Path, size: int) -> None:
    root = set_of(tmp_path, [BETWEEN])
    path = root / "videos/chunk-000/camera/episode_000000.mp4"
    write_video(path, [512 * k for k in range(8)])
    path.write_bytes(path.read_bytes()[:size])
    assert message_of(root).startswith(f"{path}: expected a video, got ")


# ---- sizes ---------------------------------------------------------------------------------------


def fitted(pixels: NDArray[Any], size: tuple[int, int], fit: Any) -> NDArray[Any]:
    out = images.fit(pixels, ReadOptions(resize=size, fit=fit))
    assert out.shape == (size[1], size[0], pixels.shape[2]) and out.dtype == pixels.dtype
    return out


def test_pad_keeps_all_of_the_image() -> None:
    white = np.full((40, 80, 3), 255, np.uint8)
    out = fitted(white, (20, 20), "pad")
    assert (out[5:15] == 255).all() and (out[:5] == 0).all() and (out[15:] == 0).all()
    assert (fitted(white, (80, 40), "pad") == white).all()


def test_crop_cuts_off_both_sides_equally() -> None:
    wide = np.repeat(np.arange(80, dtype=np.uint8)[None, :, None], 40, 0).repeat(3, 2)
    out = fitted(wide, (40, 40), "crop")
    assert (out[:, :, 0] == np.arange(20, 60)).all()


def test_stretch_changes_the_aspect() -> None:
    halves = np.concatenate([np.zeros((40, 40, 3)), np.full((40, 40, 3), 200)], 1).astype(np.uint8)
    out = fitted(halves, (8, 4), "stretch")
    assert (out[:, :3] == 0).all() and (out[:, 5:] == 200).all()


def test_reducing_does_not_alias() -> None:
    """A board of single pixels is gray from afar; taking every n-th pixel makes it black."""
    board = (np.indices((96, 96)).sum(0) % 2 * 255).astype(np.uint8)[:, :, None].repeat(3, 2)
    out = fitted(board, (12, 12), "stretch").astype(float)
    assert np.abs(out - 127.5).max() < 2


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 6])
def test_channels_are_resized_alike(channels: int) -> None:
    random = np.random.default_rng(0).integers(0, 256, (30, 40, channels), np.uint8)
    if channels == 4:
        random[..., 3] = 255  # opaque: colors are weighted by it
    out = fitted(random, (10, 10), "pad")
    for channel in range(channels):
        alone = fitted(random[:, :, channel : channel + 1], (10, 10), "pad")
        assert (out[:, :, channel] == alone[:, :, 0]).all()


def test_depth_takes_the_nearest_pixel() -> None:
    depth = np.arange(16, dtype=np.uint16).reshape(4, 4, 1) * 1000
    assert fitted(depth, (2, 2), "stretch")[:, :, 0].tolist() == [[5000, 7000], [13000, 15000]]
    assert fitted(depth, (8, 8), "stretch")[::2, ::2, 0].tolist() == depth[:, :, 0].tolist()


# ---- pictures ------------------------------------------------------------------------------------


def encoded(pixels: NDArray[Any], kind: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels.squeeze()).save(file, kind)
    return file.getvalue()


def test_pictures_are_decoded() -> None:
    random = np.random.default_rng(0)
    for channels in (1, 3, 4):
        pixels = random.integers(0, 256, (20, 30, channels), np.uint8)
        assert (images.decode(encoded(pixels, "PNG"), "a") == pixels).all()
    depth = random.integers(0, 65536, (20, 30, 1), np.uint16)
    found = images.decode(encoded(depth, "PNG"), "a")
    assert found.dtype == np.uint16 and (found == depth).all()
    gray = np.full((20, 30, 3), 90, np.uint8)
    assert np.abs(images.decode(encoded(gray, "JPEG"), "a").astype(int) - 90).max() <= 1
    with pytest.raises(RecordingError, match="pixels from 70000 to 70000, beyond 16 bits"):
        images.decode(encoded(np.full((2, 2), 70000, np.int32), "TIFF"), "a")
    with pytest.raises(RecordingError, match="floating pixels"):
        images.decode(encoded(np.full((2, 2), 0.25, np.float32), "TIFF"), "a")


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_damaged_pictures(kind: str) -> None:
    data = encoded(np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8), kind)
    for size in (0, 4, 30, len(data) // 2):
        with pytest.raises(RecordingError) as error:
            images.decode(data[:size], "file, row 3 of camera")
        expected = "file, row 3 of camera: expected an image (JPEG, PNG, WEBP, BMP, TIFF), got "
        expected += f"{size:,} bytes that begin with {data[:size][:8]!r}" if size else "no bytes"
        message = str(error.value)
        assert message.startswith(f"{expected}: " if size > 30 else expected)
        assert message == expected or size > 4


def test_pictures_of_several_sizes(tmp_path: Path) -> None:
    sizes = [(20, 30), (20, 30), (10, 10)]
    files = [encoded(np.full((*size, 3), row, np.uint8), "PNG") for row, size in enumerate(sizes)]

    def rows_of(options: ReadOptions) -> list[Rows]:
        where = "row {}".format
        return [*image_rows("camera", np.arange(3), files, where, tmp_path, Counter(), options)]

    with pytest.raises(RecordingError) as error:
        rows_of(ReadOptions())
    assert str(error.value) == (
        f"{tmp_path}: expected images of one size in camera, got 30x20x3 uint8 and, in row 2, "
        "10x10x3 uint8 (resize makes them one)"
    )
    (rows,) = rows_of(ReadOptions(resize=(12, 12), fit="stretch"))
    assert rows.values[:, 0, 0, 0].tolist() == [0, 1, 2]


def test_what_is_an_image() -> None:
    u8, f4 = np.dtype("u1"), np.dtype("f4")
    assert images.is_image((8, 8, 3), u8) and images.is_image((480, 640, 1), u8)
    assert not images.is_image((8, 8, 3), f4)
    assert not images.is_image((7, 8, 3), u8) and not images.is_image((8, 8), u8)
    assert not images.is_image((8, 8, 2), u8)
    notes: Counter[str] = Counter()
    images.leave_out("camera", notes)
    images.leave_out("camera", notes)
    assert notes == {"streams of images left out (camera)": 1}
