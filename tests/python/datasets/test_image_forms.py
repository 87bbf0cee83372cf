"""`from_lerobot(images=...)` and the others: the same bits by default, JPEG on request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jpegs import by_pillow, encoded, scene

import robocache as rc

pytest.importorskip("PIL.Image", reason="images need Pillow")
torch = pytest.importorskip("torch")

SCENES = np.array([scene(i) for i in range(12)])
FILES = [encoded(frame, quality=80) for frame in SCENES]


def write_lerobot(folder: Path, files: list[bytes]) -> Path:
    pq = pytest.importorskip("pyarrow.parquet", reason="LeRobot needs pyarrow")
    import pyarrow as pa
    from lerobot_sets import write_v2

    count = len(files)
    features = {
        "action": {"dtype": "float32", "shape": [2], "names": None},
        "cam": {"dtype": "image", "shape": [40, 56, 3], "names": None},
        **{
            name: {"dtype": kind, "shape": [1], "names": None}
            for name, kind in (("timestamp", "float32"), ("index", "int64"),
                               ("frame_index", "int64"), ("episode_index", "int64"),
                               ("task_index", "int64"))
        },
    }  # fmt: skip
    write_v2(folder / "set", [count], features=features)
    (folder / "set/meta/tasks.jsonl").write_text('{"task_index": 0, "task": "pick"}\n')
    images = [{"bytes": data, "path": None} for data in files]
    columns: dict[str, Any] = {
        "action": pa.array([[0.0, 1.0]] * count, pa.list_(pa.float32(), 2)),
        "cam": pa.array(images, pa.struct({"bytes": pa.binary(), "path": pa.string()})),
        "timestamp": pa.array(np.arange(count, dtype=np.float32) / np.float32(10)),
        **{name: pa.array(np.arange(count)) for name in ("index", "frame_index")},
        **{name: pa.array(np.zeros(count, np.int64)) for name in ("episode_index", "task_index")},
    }
    pq.write_table(pa.table(columns), folder / "set/data/chunk-000/episode_000000.parquet")
    return folder / "set"


def images_of(path: Path, **options: Any) -> Any:
    loader = rc.Loader.from_lerobot(path, {"action": [0.0]}, batch_size=4, **options)
    return loader.gather(range(12))["cam"]


def test_jpeg_columns_of_lerobot_are_kept_by_default(tmp_path: Path) -> None:
    path = write_lerobot(tmp_path, FILES)
    found = images_of(path)
    store = rc.EpisodeStore(tmp_path / "set.robocache")
    assert [file.tobytes() for file in store[0]["cam"].values.files] == FILES
    raw = images_of(path, images="raw")
    assert rc.EpisodeStore(tmp_path / "set.raw.robocache").streams["cam"].encoding is None
    assert torch.equal(found, raw)
    expected = np.array([by_pillow(file) for file in FILES], np.float32) / np.float32(255)
    np.testing.assert_array_equal(raw.numpy(), expected.transpose(0, 3, 1, 2))


def test_images_of_lerobot_as_jpeg(tmp_path: Path) -> None:
    path = write_lerobot(tmp_path, [encoded(frame, "PNG") for frame in SCENES])
    raw = images_of(path)
    assert rc.EpisodeStore(tmp_path / "set.robocache").streams["cam"].encoding is None
    found = images_of(path, images="jpeg:95:444")
    store = rc.EpisodeStore(tmp_path / "set.jpeg-95-444.robocache")
    record = store.streams["cam"].encoded
    assert record is not None and (record.frames, record.quality) == (12, 95)
    assert found.shape == raw.shape and 0 < (found - raw).abs().mean() < 0.02
    with pytest.raises(rc.StoreError) as raised:
        images_of(path, images="jpeg:80", store=tmp_path / "set.robocache")
    assert str(raised.value) == (
        f"{tmp_path}/set.robocache: expected images in cam as jpeg:80, as images says, got pixels "
        "(remove it, and it is made again)"
    )
    with pytest.raises(rc.StoreError, match=r"as jpeg:80, .* got JPEG of quality 95"):
        images_of(path, images="jpeg:80", store=tmp_path / "set.jpeg-95-444.robocache")
    with pytest.raises(rc.StoreError, match=r"as raw, .* got JPEG of quality 95"):
        images_of(path, images="raw", store=tmp_path / "set.jpeg-95-444.robocache")


def test_images_of_robomimic_and_diffusion_policy(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="HDF5 needs h5py")
    zarr = pytest.importorskip("zarr", reason="replay buffers need zarr")
    with h5py.File(tmp_path / "d.hdf5", "w") as file:
        demo = file.create_group("data/demo_0")
        demo["actions"] = np.zeros((12, 2))
        demo["obs/cam"] = SCENES
    group = zarr.open_group(str(tmp_path / "b.zarr"), mode="w")
    group["data/action"] = np.zeros((12, 2), np.float32)
    group["data/cam"] = SCENES
    group["meta/episode_ends"] = np.array([12])
    expected = np.asarray(rc.JpegFrames.encode(SCENES, 90))
    for images, pixels in ((True, SCENES), ("jpeg:90", expected)):
        loader = rc.Loader.from_robomimic(
            tmp_path / "d.hdf5", batch_size=4, load_next_obs=False, images=images
        )
        got = loader.gather(range(12))["obs"]["cam"][:, 0]
        np.testing.assert_array_equal(got.numpy(), pixels)
        loader = rc.Loader.from_diffusion_policy(
            tmp_path / "b.zarr", 1, batch_size=4, images=images
        )
        np.testing.assert_array_equal(loader.gather(range(12))["cam"][:, 0].numpy(), pixels)
    assert (tmp_path / "d.hdf5.jpeg-90.robocache").is_dir()
    loader = rc.Loader.from_robomimic(
        tmp_path / "d.hdf5", batch_size=4, load_next_obs=False, images=False
    )
    assert "obs" not in loader.gather([0])
