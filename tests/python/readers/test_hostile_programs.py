"""Recordings that would run a program, or read files of others, are refused."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import struct
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hostile_files import idl, mcap, npy
from hostile_zarr import zarr_array
from recordings import message_of

from robocache.readers import ReadOptions, RecordingError, images, open_recording
from robocache.readers.diffusion_policy import refuse_pickle

AT_10 = ReadOptions(rate=10)


class Program:
    """Unpickled, it makes a folder."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.made),)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """The file that a program in a recording would create."""
    return tmp_path / "made"


# ---- pictures ------------------------------------------------------------------------------------


def test_postscript_is_not_run(tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow hands an EPS picture to whatever is called `gs`."""
    program = tmp_path / "bin" / "gs"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nmkdir -p {made}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    assert shutil.which("gs") == str(program)
    data = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"
    with pytest.raises(RecordingError) as error:
        images.decode(data, "a.parquet, row 0 of camera")
    assert str(error.value).startswith(
        "a.parquet, row 0 of camera: expected an image (JPEG, PNG, WEBP, BMP, TIFF), got "
    )
    assert not made.exists()


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "WEBP"])
def test_formats_without_loss(kind: str) -> None:
    pil = pytest.importorskip("PIL.Image", reason="images need Pillow")
    pixels = np.random.default_rng(0).integers(0, 256, (9, 11, 3), np.uint8)
    file = io.BytesIO()
    pil.fromarray(pixels).save(file, kind, lossless=True)
    assert (images.decode(file.getvalue(), "a") == pixels).all()


@pytest.mark.parametrize("kind", ["GIF", "PPM", "ICO", "PDF"])
def test_other_formats(kind: str) -> None:
    pil = pytest.importorskip("PIL.Image", reason="images need Pillow")
    file = io.BytesIO()
    pil.fromarray(np.zeros((16, 16, 3), np.uint8)).save(file, kind)
    with pytest.raises(RecordingError, match=r"^a: expected an image \(JPEG, PNG, WEBP, BMP, TIFF"):
        images.decode(file.getvalue(), "a")


# ---- arrays --------------------------------------------------------------------------------------


def test_objects_in_npz_are_not_unpickled(tmp_path: Path, made: Path) -> None:
    path = tmp_path / "a.npz"
    objects = np.empty(2, object)
    objects[:] = [Program(made), 0]
    np.savez(path, x=objects, times=np.arange(2.0), y=np.arange(2.0))
    with open_recording(path) as recording:
        assert list(recording.streams) == ["y"]
        (episode,) = recording.episodes()
        assert [rows.stream for rows in episode.read()] == ["y"]
        assert recording.notes == {"arrays of type object left out (x)": 1}
    assert not made.exists()


def test_objects_in_calvin_are_not_unpickled(tmp_path: Path, made: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    objects = np.empty((1, 2), object)
    objects[0, 0] = Program(made)
    np.save(folder / "ep_start_end_ids.npy", objects)
    np.savez(folder / "episode_0000000.npz", x=objects)
    ends = folder / "ep_start_end_ids.npy"
    assert message_of(folder) == (
        f"{ends}: expected numbers, got Python objects, which are not read"
    )
    ends.write_bytes(npy((1, 2), "<i8", bytes(16)))
    step = folder / "episode_0000000.npz"
    assert message_of(folder) == (
        f"{step}, array x: expected numbers, got Python objects, which are not read"
    )
    assert not made.exists()


@pytest.mark.parametrize("dtype", ["<i8", "|O"])
@pytest.mark.parametrize("field", ["compressor", "filters"])
@pytest.mark.parametrize("name", ["meta/episode_ends", "data/x"])
@pytest.mark.parametrize("is_zip", [False, True])
def test_the_pickle_codec_of_zarr(
    tmp_path: Path, made: Path, dtype: str, field: str, name: str, is_zip: bool
) -> None:
    """numcodecs unpickles what a chunk of such an array holds; zarr 3 refuses some of them."""
    pytest.importorskip("zarr", reason="zarr needs zarr")
    path = tmp_path / "a.zarr"
    codec: Any = {"id": "pickle", "protocol": 5}
    changes = {field: [codec] if field == "filters" else codec, "dtype": dtype}
    for each in ("meta/episode_ends", "data/x"):
        folder = zarr_array(path, each, [1], [1], **(changes if each == name else {}))
        data = pickle.dumps(Program(made)) if each == name else struct.pack("<q", 1)
        (folder / "0").write_bytes(data)
    if is_zip:
        archive = tmp_path / "a.zarr.zip"
        with zipfile.ZipFile(archive, "w") as file:
            for entry in sorted(path.rglob("*")):
                if entry.is_file():
                    file.write(entry, entry.relative_to(path))
        path = archive
    message_of(path, AT_10)
    assert not made.exists()


def test_the_pickle_codec_is_refused_by_name(tmp_path: Path) -> None:
    """Where zarr would take it: its version 2, for arrays of numbers."""
    numcodecs = pytest.importorskip("numcodecs", reason="zarr needs numcodecs")
    for field in ("compressor", "filters"):
        codec: Any = numcodecs.Pickle()
        array = SimpleNamespace(**{field: [codec] if field == "filters" else codec})
        with pytest.raises(RecordingError) as error:
            refuse_pickle(tmp_path / "a.zarr", "data/x", array)
        assert str(error.value) == (
            f"{tmp_path}/a.zarr, array data/x: expected a codec of numbers, got pickle, which runs "
            "code"
        )


# ---- files of others -----------------------------------------------------------------------------


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """An HDF5 file outside a recording's folder."""
    h5py = pytest.importorskip("h5py", reason="HDF5 needs h5py")
    path = tmp_path / "secret" / "of_others.hdf5"
    path.parent.mkdir()
    with h5py.File(path, "w") as file:
        file["data/demo_0/actions"] = np.ones((3, 2))
        file["mask/train"] = np.array([b"demo_0"])
    return path


@pytest.mark.parametrize("name", ["data", "data/demo_0", "mask", "mask/train"])
@pytest.mark.parametrize("is_relative", [True, False])
def test_external_links_of_hdf5(tmp_path: Path, secret: Path, name: str, is_relative: bool) -> None:
    import h5py

    path = tmp_path / "recordings" / "a.hdf5"
    path.parent.mkdir()
    target = f"../secret/{secret.name}" if is_relative else str(secret)
    with h5py.File(path, "w") as file:
        if name.startswith("mask"):
            file["data/demo_0/actions"] = np.ones((3, 2))
        file[name] = h5py.ExternalLink(target, f"/{name}")
    group, _, last = f"/{name}".rpartition("/")
    assert message_of(path, AT_10) == (
        f"{path}: expected files of {path.parent}, got {target!r} in external link {last} of "
        f"{group or '/'}"
    )


def test_external_links_within_the_folder(tmp_path: Path, secret: Path) -> None:
    import h5py

    path = secret.with_name("a.hdf5")
    with h5py.File(path, "w") as file:
        file["data/demo_0"] = h5py.ExternalLink(secret.name, "/data/demo_0")
    with open_recording(path, AT_10) as recording:
        (episode,) = recording.episodes()
        assert [rows.values.tolist() for rows in episode.read()] == [[[1.0, 1.0]] * 3]


def test_external_storage_and_virtual_sources_of_hdf5(tmp_path: Path, secret: Path) -> None:
    import h5py

    path = tmp_path / "recordings" / "a.hdf5"
    path.parent.mkdir()
    with h5py.File(path, "w") as file:
        file.create_dataset("data/demo_0/actions", (4, 2), "u1", external=[(str(secret), 0, 8)])
    what = f"{path}: expected files of {path.parent}, got {str(secret)!r} in dataset "
    assert message_of(path, AT_10) == f"{what}/data/demo_0/actions"
    with h5py.File(path, "w") as file:
        layout = h5py.VirtualLayout((3, 2), "f8")
        layout[:] = h5py.VirtualSource(secret, "data/demo_0/actions", (3, 2))
        file.create_virtual_dataset("data/demo_0/actions", layout)
    assert message_of(path, AT_10) == f"{what}/data/demo_0/actions"


def test_filters_of_hdf5_that_are_not_installed(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="HDF5 needs h5py")
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        kind = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        kind.set_chunk((3, 2))
        kind.set_filter(40000, h5py.h5z.FLAG_OPTIONAL)
        group = file.create_group("data/demo_0")
        space = h5py.h5s.create_simple((3, 2))
        found = h5py.h5d.create(group.id, b"actions", h5py.h5t.NATIVE_DOUBLE, space, kind)
        found.write_direct_chunk((0, 0), bytes(48))
    assert message_of(path, AT_10).startswith(f"{path}: expected demo_0 to be readable, got OSErr")


@pytest.mark.parametrize(
    "text",
    [
        "ffconcat version 1.0\nfile '{}'\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile://{}\n#EXT-X-ENDLIST\n",
        "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nhttp://127.0.0.1:9/{}\n#EXT-X-ENDLIST\n",
    ],
    ids=["concat", "playlist of files", "playlist of addresses"],
)
def test_playlists_in_the_place_of_a_video(tmp_path: Path, text: str) -> None:
    av = pytest.importorskip("av", reason="video needs PyAV")
    from robocache.readers.video import frame_times

    video = tmp_path / "video.mp4"
    with av.open(str(video), "w") as container:
        track = container.add_stream("mpeg4", rate=10)
        track.width = track.height = 32
        for _ in range(3):
            frame = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), "rgb24")
            container.mux(track.encode(frame))
        container.mux(track.encode())
    assert len(frame_times(video)) == 3
    path = tmp_path / "list.mp4"
    path.write_text(text.format(video))
    with pytest.raises(RecordingError) as error:
        frame_times(path)
    assert str(error.value).startswith(f"{path}: expected a video, got ")


# ---- definitions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "encoding", "text"),
    [
        ("p/A", "ros2msg", "float64 x\nstring S=\"'); import os; os.mkdir('made')\"\n"),
        ("p/A'); import os; os.mkdir('made')", "ros2msg", "float64 x\n"),
        ("p/A\nimport os", "ros2msg", "float64 x\n"),
        ("p/A", "ros2msg", "float64 x=1;__import__('os').mkdir('made')\n"),
    ],
)
def test_definitions_that_are_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, encoding: str, text: str
) -> None:
    """rosbags makes a program of a definition and runs it."""
    monkeypatch.chdir(tmp_path)
    path = mcap(tmp_path / "a.mcap", kind, encoding, text, b"\0\1\0\0" + struct.pack("<d", 1.0))
    try:
        with open_recording(path) as recording:
            for episode in recording.episodes():
                list(episode.read())
    except RecordingError:
        pass
    assert not (tmp_path / "made").exists()


def test_constants_of_idl_are_values(tmp_path: Path) -> None:
    for value in ("__import__('os')", "1 + 1 * 2", "~1", "-(1)"):
        message = message_of(idl(tmp_path / "a.mcap", value))
        assert "its definition of p/msg/A is not understood: expected" in message, value


def test_tags_of_yaml_are_not_run(tmp_path: Path, made: Path) -> None:
    pytest.importorskip("rosbags", reason="bags need rosbags")
    (tmp_path / "bag").mkdir()
    (tmp_path / "bag" / "metadata.yaml").write_text(
        f"rosbag2_bagfile_information: !!python/object/apply:os.mkdir [{made}]\n"
    )
    path = tmp_path / "bag"
    assert message_of(path).startswith(f"{path}: expected a ROS 2 bag, got ")
    assert not made.exists()


def test_paths_of_other_images_in_lerobot(tmp_path: Path) -> None:
    from robocache.readers.lerobot.index import inside

    for name in ("/etc/passwd", "../a.png", "images/../../a.png"):
        with pytest.raises(RecordingError) as error:
            inside(tmp_path, name)
        assert str(error.value) == (
            f"{tmp_path}: expected paths inside the data set, got {json.dumps(name)}".replace(
                '"', "'"
            )
        )
