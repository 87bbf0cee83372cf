"""Frames of videos: the right one for each row, as pixels or as JPEG."""

from __future__ import annotations

import hashlib
import itertools
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jpegs import by_pillow
from numpy.typing import NDArray
from privileges import unprivileged
from recordings import DATA, needs, read_all
from videos import PERIOD, TOLERANCE, numbers, write_video

from robocache.readers import ReadOptions, RecordingError
from robocache.readers.image_encoding import ImageEncoding
from robocache.readers.rows import CHUNK_BYTES, row_times
from robocache.readers.video import frame_times, video_rows

av = pytest.importorskip("av", reason="videos need av")
pytest.importorskip("PIL.Image", reason="images need Pillow")

G1 = DATA / "lerobot_v21_g1"


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
