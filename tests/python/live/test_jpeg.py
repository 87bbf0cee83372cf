"""Cameras at control time: JPEG files as drivers send them, and images encoded as in training."""

from __future__ import annotations

import array
import io
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from live_specs import MS, make_stream
from numpy.typing import NDArray
from PIL import Image
from recordings import DATA, needs

import robocache as rc
from robocache.core.ragged import RaggedArray
from robocache.loader.window_spec import ImageEncoding

SHAPE = (45, 70, 3)
ENCODING = ImageEncoding("jpeg", 90, "4:2:0")


def scene(seed: int, shape: tuple[int, ...] = SHAPE) -> NDArray[np.uint8]:
    """An image with smooth parts, edges and noise."""
    rng = np.random.default_rng(seed)
    y, x, c = np.ogrid[: shape[0], : shape[1], : shape[2]]
    smooth = 120 + 60 * np.sin(x / 9 + seed) + 50 * np.cos(y / 7 + c)
    edges = 40 * ((x // 13 + y // 11 + c) % 2)
    return (smooth + edges + rng.normal(0, 4, shape)).clip(0, 255).astype(np.uint8)


def jpeg(image: NDArray[np.uint8], **options: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image if image.shape[2] == 3 else image[..., 0]).save(file, "JPEG", **options)
    return file.getvalue()


def decoded(file: bytes) -> NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(file)))


def make_spec(encoding: ImageEncoding | None = ENCODING, **fields: Any) -> rc.PolicySpec:
    given: dict[str, Any] = {"dtype": "U8", "shape": SHAPE, "out_dtype": "U8", "rate": 30.0}
    camera = make_stream(
        "camera", **given | {"offsets": (0,), "method": "previous", "encoding": encoding} | fields
    )
    return rc.PolicySpec([camera, make_stream("joints")], anchor="camera")


def seen(aligner: rc.LiveAligner, at: int = 0) -> NDArray[np.uint8]:
    image: NDArray[np.uint8] = aligner.query(at)["camera"][0, 0].numpy()
    return image


@pytest.mark.parametrize("encoding", [ENCODING, None])
@pytest.mark.parametrize(
    "kind",
    [
        bytes,
        bytearray,
        memoryview,
        lambda file: array.array("B", file),
        lambda file: np.frombuffer(file, np.uint8),
        lambda file: np.frombuffer(file, np.uint8).repeat(2)[::2],
        lambda file: torch.frombuffer(bytearray(file), dtype=torch.uint8),
    ],
)
def test_files_are_decoded(kind: Any, encoding: ImageEncoding | None) -> None:
    aligner = rc.LiveAligner(make_spec(encoding))
    file = jpeg(scene(1), quality=80)
    aligner.push("camera", 0, kind(file))
    np.testing.assert_array_equal(seen(aligner), decoded(file))


@pytest.mark.parametrize(
    "options",
    [
        {"subsampling": 0},
        {"subsampling": 1},
        {"progressive": True},
        {"optimize": True},
        {"quality": 5},
        {"restart_marker_rows": 1},
    ],
)
def test_files_of_every_kind(options: dict[str, Any]) -> None:
    aligner = rc.LiveAligner(make_spec())
    file = jpeg(scene(2), **options)
    aligner.push("camera", 0, file)
    np.testing.assert_array_equal(seen(aligner), decoded(file))


def test_gray_files() -> None:
    shape = (45, 70, 1)
    aligner = rc.LiveAligner(make_spec(None, shape=shape))
    file = jpeg(scene(3, shape))
    aligner.push("camera", 0, file)
    np.testing.assert_array_equal(seen(aligner)[..., 0], decoded(file))


def test_several_files_at_once() -> None:
    aligner = rc.LiveAligner(make_spec(offsets=(-20 * MS, -10 * MS, 0)), robots=2)
    files = [jpeg(scene(i)) for i in range(6)]
    images = np.stack([decoded(file) for file in files])
    times, robots = np.array([0, 10, 20, 0, 10, 20]) * MS, np.array([0, 0, 0, 1, 1, 1])
    valid = np.array([True, False, True, True, True, True])
    aligner.push_many("camera", times, files, robots, valid=valid)
    batch = aligner.query(20 * MS)
    np.testing.assert_array_equal(batch["camera"].flatten(0, 1).numpy(), images)
    assert batch["camera_is_pad"].tolist() == [[False, True, False], [False, False, False]]
    aligner.reset()
    aligner.push_many("camera", times[:3], rc.JpegFrames.from_files(files[:3]), 1)
    np.testing.assert_array_equal(aligner.query(20 * MS)["camera"][1].numpy(), images[:3])
    aligner.push_many("camera", times[:0], rc.JpegFrames.from_files(files[:3])[:0])
    assert aligner.stats()["camera"].pushed == 9


BAD_FILES: list[tuple[bytes, str]] = [
    (jpeg(scene(1, (44, 70, 3))), "expected a JPEG of 70x45x3, got 70x44x3"),
    (jpeg(scene(1, (45, 71, 3)), progressive=True), "expected a JPEG of 70x45x3, got 71x45x3"),
    (jpeg(scene(1, (45, 70, 1))), "expected a JPEG of 70x45x3, got 70x45x1"),
    (b"", "expected JPEG, got bytes that do not begin as a JPEG file (0 bytes)"),
    (b"\x89PNG\r\n", "expected JPEG, got bytes that do not begin as a JPEG file (6 bytes)"),
    (jpeg(scene(1))[:100], "expected JPEG, got a JPEG that ends within its header (100 bytes)"),
    (jpeg(scene(1))[:1000], "expected a whole JPEG, got a damaged one (1000 bytes)"),
]


def test_files_in_error_are_counted_and_not_pushed() -> None:
    aligner = rc.LiveAligner(make_spec())
    good = jpeg(scene(1))
    aligner.push("camera", 0, good)
    for count, (file, message) in enumerate(BAD_FILES, 1):
        with pytest.raises(ValueError, match=f"^camera: values: {re.escape(message)}$"):
            aligner.push("camera", MS, file)
        assert aligner.stats()["camera"].refused == count
    rotated = Image.fromarray(scene(1)).getexif()
    rotated[0x0112] = 6
    with pytest.raises(
        ValueError,
        match=r"^camera: values: expected an upright JPEG, got one of EXIF orientation 6 "
        r"\(decode and rotate it, and push the pixels\)$",
    ):
        aligner.push("camera", MS, jpeg(scene(1), exif=rotated))
    assert aligner.stats()["camera"].pushed == 1
    np.testing.assert_array_equal(seen(aligner, 2 * MS), decoded(good))


def test_files_for_other_streams_and_lists_of_others() -> None:
    aligner = rc.LiveAligner(make_spec())
    file = jpeg(scene(1))
    with pytest.raises(TypeError, match=r"^joints: values: "):
        aligner.push("joints", 0, file)
    with pytest.raises(ValueError, match=r"^robot: expected 0 to 0, got 1$"):
        aligner.push("camera", 0, file, 1)
    with pytest.raises(TypeError, match=r"^valid: expected a bool, got int$"):
        aligner.push("camera", 0, file, valid=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^camera: values: expected 3 JPEG files, got 2$"):
        aligner.push_many("camera", np.arange(3), [file, file])
    with pytest.raises(ValueError, match=r"^camera: valid: expected bool \[N=2\], got bool \[1\]$"):
        aligner.push_many("camera", np.arange(2), [file, file], valid=np.ones(1, np.bool_))
    with pytest.raises(ValueError, match=r"^robot: expected 0 to 0, got 1$"):
        aligner.push_many("camera", np.arange(2), [file, file], np.array([0, 1]))
    with pytest.raises(ValueError, match=r"^camera: values: expected \[45, 70, 3\], got \[9450\]$"):
        aligner.push("camera", 0, [0] * 9450)
    assert aligner.stats()["camera"].pushed == 0


def test_threads_push_files_at_once() -> None:
    robots, count = 4, 30
    aligner = rc.LiveAligner(make_spec(), robots=robots)
    files = [jpeg(scene(i)) for i in range(robots)]

    def produce(robot: int) -> None:
        for i in range(count):
            aligner.push("camera", i * MS, files[robot], robot)

    threads = [threading.Thread(target=produce, args=(robot,)) for robot in range(robots)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        aligner.query(count * MS)
    for thread in threads:
        thread.join()
    images = aligner.query(count * MS)["camera"][:, 0].numpy()
    np.testing.assert_array_equal(images, np.stack([decoded(file) for file in files]))
    assert aligner.stats()["camera"].pushed == robots * count


@pytest.mark.parametrize(("chroma", "subsampling"), [("4:4:4", 0), ("4:2:2", 1), ("4:2:0", 2)])
@pytest.mark.parametrize("quality", [20, 90])
def test_raw_images_are_encoded_as_in_training(chroma: Any, subsampling: int, quality: int) -> None:
    spec = make_spec(ImageEncoding("jpeg", quality, chroma))
    aligner = rc.LiveAligner(spec, encode_images=True)
    image = scene(4)
    expected = decoded(jpeg(image, quality=quality, subsampling=subsampling))
    aligner.push("camera", 0, image)
    np.testing.assert_array_equal(seen(aligner), expected)
    aligner.push_many("camera", np.array([MS]), image[None])
    np.testing.assert_array_equal(seen(aligner, MS), expected)
    file = jpeg(image, quality=50)
    aligner.push("camera", 2 * MS, file)  # not encoded again
    np.testing.assert_array_equal(seen(aligner, 2 * MS), decoded(file))
    plain = rc.LiveAligner(spec)
    plain.push("camera", 0, image)
    np.testing.assert_array_equal(seen(plain), image)


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        (
            None,
            "a stream whose images were JPEG in training, got none (push raw images without the "
            "option)",
        ),
        (
            ImageEncoding("jpeg", None, "4:2:0"),
            "one quality of libjpeg for 'camera', got several in training, or another encoder's "
            "(push JPEG files, or raw images without the option)",
        ),
        (
            ImageEncoding("jpeg", 90, None),
            "one chroma sampling for 'camera', got several in training (push JPEG files, or raw "
            "images without the option)",
        ),
    ],
)
def test_without_a_quality_images_cannot_be_encoded(
    encoding: ImageEncoding | None, message: str
) -> None:
    rc.LiveAligner(make_spec(encoding))
    with pytest.raises(ValueError, match=f"^encode_images: expected {re.escape(message)}$"):
        rc.LiveAligner(make_spec(encoding), encode_images=True)
    with pytest.raises(TypeError, match=r"^encode_images: expected a bool, got int$"):
        rc.LiveAligner(make_spec(), encode_images=1)  # type: ignore[arg-type]


def test_capacities_are_those_of_pixels() -> None:
    spec = make_spec(shape=(2160, 3840, 3), rate=120.0)
    with pytest.raises(ValueError, match=r"^buffer_rows\['camera'\]: expected default capacities "):
        rc.LiveAligner(spec)
    aligner = rc.LiveAligner(spec, buffer_rows={"camera": 2}, ring_rows={"camera": 2})
    aligner.push("camera", 0, jpeg(scene(1, (2160, 3840, 3))))
    assert seen(aligner).shape == (2160, 3840, 3)


# ---- stores --------------------------------------------------------------------------------------


def write_store(path: Path, frames: Any, more: Any = None) -> rc.EpisodeStore:
    """A store of two episodes: frames at 30 Hz, joints at 100 Hz, actions."""
    with rc.StoreWriter(path) as writer:
        for of_camera in (frames, frames if more is None else more):
            count = len(of_camera)
            with writer.episode() as episode:
                episode.add("camera", np.arange(count) * 33 * MS, of_camera)
                rows = np.arange(4 * count, dtype=np.float32)
                episode.add("joints", np.arange(4 * count) * 9 * MS, np.stack([rows, -rows], 1))
                episode.add("action", np.arange(count) * 33 * MS, rows[:count, None])
    return rc.EpisodeStore(path)


def make_loader(store: rc.EpisodeStore, **options: Any) -> rc.Loader:
    windows = {
        "camera": rc.Window([-0.033, 0.0]),
        "joints": rc.Window([-0.02, 0.0], normalize="mean_std"),
        "action": rc.Window([0.0, 0.033]),
    }
    return rc.Loader(store, 4, windows, anchor="action", device="cpu", **options)


def test_specs_have_the_encoding_of_stores(tmp_path: Path) -> None:
    images = np.stack([scene(i) for i in range(12)])
    frames = rc.JpegFrames.encode(images, 85)
    spec = make_loader(write_store(tmp_path / "s", frames)).spec()
    assert spec.stream("camera").encoding == ("jpeg", 85, "4:2:0")
    assert spec.stream("joints").encoding is None
    fields = spec._fields()["streams"]
    assert [s["name"] for s in fields if "encoding" in s] == ["camera"]
    spec.save(tmp_path / "spec.json")
    assert rc.PolicySpec.load(tmp_path / "spec.json") == spec
    full = rc.JpegFrames.encode(images, 85, full_chroma=True)
    encoding = make_loader(write_store(tmp_path / "full", full)).spec().stream("camera").encoding
    assert encoding == ("jpeg", 85, "4:4:4")
    raw = make_loader(write_store(tmp_path / "raw", images)).spec()
    assert raw.stream("camera").encoding is None
    assert not any("encoding" in stream for stream in raw._fields()["streams"])


def test_specs_of_several_qualities_have_none(tmp_path: Path) -> None:
    images = np.stack([scene(i) for i in range(6)])
    low, high = rc.JpegFrames.encode(images, 60), rc.JpegFrames.encode(images, 90)
    loader = make_loader(write_store(tmp_path / "s", low, high))
    assert loader.spec().stream("camera").encoding == ("jpeg", None, "4:2:0")
    first = make_loader(loader.store, episodes=[0])
    assert first.spec().stream("camera").encoding == ("jpeg", 60, "4:2:0")
    full = rc.JpegFrames.encode(images, 60, full_chroma=True)
    encoding = make_loader(write_store(tmp_path / "t", low, full)).spec().stream("camera").encoding
    assert encoding == ("jpeg", 60, None)
    tables = [[3] * 64, [5] * 64]
    custom = rc.JpegFrames.from_files([jpeg(image, qtables=tables) for image in images])
    encoding = make_loader(write_store(tmp_path / "u", custom)).spec().stream("camera").encoding
    assert encoding == ("jpeg", None, "4:2:0")


def test_mixtures_have_the_encoding_of_each_part(tmp_path: Path) -> None:
    images = np.stack([scene(i) for i in range(6)])
    stores = [
        write_store(tmp_path / "jpeg", rc.JpegFrames.encode(images, 70)),
        write_store(tmp_path / "raw", images),
    ]
    mixture = rc.Loader.mixture([make_loader(store) for store in stores], [1, 1], 10, 4)
    assert mixture.spec(0).stream("camera").encoding == ("jpeg", 70, "4:2:0")
    assert mixture.spec(1).stream("camera").encoding is None


def test_replays_of_jpeg_streams_have_no_differing_bits(tmp_path: Path) -> None:
    images = np.stack([scene(i) for i in range(12)])
    store = write_store(tmp_path / "s", rc.JpegFrames.encode(images, 85))
    spec = make_loader(store).spec()
    found = rc.replay_store(store, spec, progress=False)
    assert (found.differing_bits, found.anchors) == (0, 24)
    assert found.streams["camera"].rows == 24


def test_replays_of_damaged_frames_and_of_others_have_no_differing_bits(tmp_path: Path) -> None:
    files = [jpeg(scene(i)) for i in range(8)]
    files[2] = files[2][:1000]  # training has the image of what is left
    files[4] = jpeg(scene(4), progressive=True)
    files[5] = b"no image"
    files[6] = files[6][:1000]
    valid = np.array([True, True, True, True, False, False, False, True])
    times = np.arange(8) * 33 * MS
    with rc.StoreWriter(tmp_path / "s") as writer, writer.episode() as episode:
        rows = RaggedArray.from_rows([np.frombuffer(file, np.uint8) for file in files])
        episode.add("camera", times, rc.JpegFrames(rows, SHAPE), valid=valid)
        episode.add("action", times, np.ones((8, 1), np.float32))
    windows = {"camera": rc.Window([-0.033, 0.0]), "action": rc.Window([0.0, 0.033])}
    loader = rc.Loader(tmp_path / "s", 4, windows, anchor="action", device="cpu")
    found = rc.replay_store(loader.store, loader.spec(), progress=False)
    assert (found.differing_bits, found.anchors, found.streams["camera"].padded) == (0, 8, 7)


def test_raw_images_give_the_batches_of_the_encoded_store(tmp_path: Path) -> None:
    """The source of a store that we encoded, pushed raw, is what the loader of that store has."""
    images = np.stack([scene(i) for i in range(12)])
    loader = make_loader(write_store(tmp_path / "s", rc.JpegFrames.encode(images, 85)))
    aligner = rc.LiveAligner(loader.spec(), encode_images=True)
    for i, time in enumerate((np.arange(12) * 33 * MS).tolist()):
        aligner.push("camera", time, images[i])
        batch = loader.gather([i])
        assert torch.equal(aligner.query(time)["camera"], batch["camera"]), i


@needs(DATA / "rlds_bridge")
def test_real_frames_are_the_stores(tmp_path: Path) -> None:
    """A camera of BridgeData V2: its JPEG pushed as it is, and decoded pixels encoded again."""
    path = tmp_path / "bridge"
    rc.convert(
        DATA / "rlds_bridge" / "bridge_dataset" / "1.0.0",
        path,
        images="keep",
        rate=5.0,
        progress=False,
    )
    store = rc.EpisodeStore(path)
    name = next(name for name, info in store.streams.items() if info.encoding == "jpeg")
    loader = rc.Loader(store, 4, {name: rc.Window([0.0])}, anchor=name, device="cpu")
    spec = loader.spec()
    encoding = spec.stream(name).encoding
    assert encoding is not None and encoding.chroma == "4:2:0"
    aligner = rc.LiveAligner(spec)
    frames = store[0][name]
    for i, time in enumerate(frames.times.tolist()):
        aligner.push(name, time, frames.values.files[i])
        assert torch.equal(aligner.query(time)[name], loader.gather([i])[name]), i
    assert rc.replay_store(store, spec, progress=False).differing_bits == 0
