"""RLDS data sets: a real one against protobuf's own parser and Pillow, and ones written here."""

from __future__ import annotations

import io
import json
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from privileges import unprivileged
from recordings import DATA, collect, message_of, needs, read_all

from robocache.readers import (
    MissingLibrary,
    ReadOptions,
    RecordingError,
    find_reader,
    find_recordings,
    open_recording,
)
from robocache.readers.rlds.tfrecord import masked_crc, parse_example, read_record, record_offsets

BRIDGE = DATA / "rlds_bridge" / "bridge_dataset" / "1.0.0"
SHARD = BRIDGE / "bridge_dataset-train.tfrecord-00000-of-00001"


# ---- an independent parser and writer ------------------------------------------------------------


def example_class() -> Any:
    """tf.train.Example, as protobuf makes it from its definition."""
    pool_module = pytest.importorskip("google.protobuf.descriptor_pool", reason="needs protobuf")
    from google.protobuf import descriptor_pb2, message_factory

    pool = pool_module.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")
    field = descriptor_pb2.FieldDescriptorProto

    def add(name: str, *fields: tuple[str, int, int, int, str]) -> Any:
        message = file.message_type.add(name=name)
        for label, number, kind, repeated, of in fields:
            message.field.add(
                name=label, number=number, type=kind, label=repeated, type_name=of or None
            )
        return message

    one, many = field.LABEL_OPTIONAL, field.LABEL_REPEATED
    add("BytesList", ("value", 1, field.TYPE_BYTES, many, ""))
    add("FloatList", ("value", 1, field.TYPE_FLOAT, many, ""))
    add("Int64List", ("value", 1, field.TYPE_INT64, many, ""))
    add(
        "Feature",
        ("bytes_list", 1, field.TYPE_MESSAGE, one, ".t.BytesList"),
        ("float_list", 2, field.TYPE_MESSAGE, one, ".t.FloatList"),
        ("int64_list", 3, field.TYPE_MESSAGE, one, ".t.Int64List"),
    )
    features = add("Features", ("feature", 1, field.TYPE_MESSAGE, many, ".t.Features.FeatureEntry"))
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=one)
    entry.field.add(
        name="value", number=2, type=field.TYPE_MESSAGE, label=one, type_name=".t.Feature"
    )
    add("Example", ("features", 1, field.TYPE_MESSAGE, one, ".t.Features"))
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.Example"))


def plain_crc(data: bytes) -> int:
    """CRC-32C bit by bit, masked."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", plain_crc(length)) + data + struct.pack("<I", plain_crc(data))


def encode(features: dict[str, Any]) -> bytes:
    example = example_class()()
    for name, values in features.items():
        feature = example.features.feature[name]
        array = np.asarray(values).ravel() if not isinstance(values[0], bytes) else None
        if array is None:
            feature.bytes_list.value.extend(values)
        elif array.dtype.kind == "f":
            feature.float_list.value.extend(array.tolist())
        else:
            feature.int64_list.value.extend(array.astype(np.int64).tolist())
    return bytes(example.SerializeToString())


def tensor(dtype: str, *shape: int, encoding: str = "none") -> dict[str, Any]:
    dimensions = {"dimensions": [str(size) for size in shape]} if shape else {}
    return {"tensor": {"shape": dimensions, "dtype": dtype, "encoding": encoding}}


def group(**features: Any) -> dict[str, Any]:
    return {"featuresDict": {"features": features}}


STEPS = group(
    action=tensor("float32", 2),
    observation=group(
        state=tensor("float64", 2, 2),
        count=tensor("int32"),
        open=tensor("bool"),
        raw=tensor("uint16", 3, encoding="bytes"),
        packed=tensor("int16", 2, encoding="zlib"),
        image={"image": {"shape": {"dimensions": ["8", "10", "3"]}, "encodingFormat": "png"}},
    ),
    language_instruction={"text": {}},
    caption={"text": {}},
    label={"classLabel": {"numClasses": "3"}},
    cloud=tensor("float32", -1, 3),
    name=tensor("string"),
    video={"pythonClassName": "a.b.Video", "video": {}},
    ragged=tensor("int64"),
)


def pixels_of(episode: int, length: int) -> Any:
    random = np.random.default_rng(episode)
    return random.integers(0, 256, (length, 8, 10, 3), dtype=np.uint8)


def episode_of(episode: int, length: int) -> dict[str, Any]:
    image_module = pytest.importorskip("PIL.Image", reason="images need Pillow")
    images = []
    for pixels in pixels_of(episode, length):
        file = io.BytesIO()
        image_module.fromarray(pixels).save(file, "PNG")
        images.append(file.getvalue())
    steps = np.arange(length)
    return {
        "steps/action": np.stack([steps + episode, -steps], -1).astype(np.float32),
        "steps/observation/state": np.arange(4 * length, dtype=np.float32) / 7,
        "steps/observation/count": steps * -300_000,
        "steps/observation/open": steps % 2,
        "steps/observation/raw": [struct.pack("<3H", i, 2 * i, 65535) for i in range(length)],
        "steps/observation/packed": [
            zlib.compress(struct.pack("<2h", i, -i)) for i in range(length)
        ],
        "steps/observation/image": images,
        "steps/language_instruction": [f"task {episode % 2}".encode()] * length,
        "steps/caption": [b"words"] * length,
        "steps/label": steps % 3,
        "steps/name": [b"x"] * length,
        "steps/ragged/ragged_flat_values": steps,
        "episode_metadata/id": [episode],
    }


def data_set(folder: Path, splits: dict[str, list[int]], **changes: Any) -> Path:
    """A data set; each split a list of the lengths of its episodes, two episodes a file."""
    path = folder / "toy" / "1.0.0"
    path.mkdir(parents=True)
    features = group(
        steps={"sequence": {"feature": STEPS}}, episode_metadata=group(id=tensor("int64"))
    )
    (path / "features.json").write_text(json.dumps(features))
    info = []
    for split, lengths in splits.items():
        shards = [lengths[a : a + 2] for a in range(0, len(lengths), 2)]
        info.append({"name": split, "shardLengths": [str(len(shard)) for shard in shards]})
        for index, shard in enumerate(shards):
            name = f"toy-{split}.tfrecord-{index:05d}-of-{len(shards):05d}"
            records = []
            for k, length in enumerate(shard):
                episode = episode_of(2 * index + k, length) | changes
                records.append(framed(encode({k: v for k, v in episode.items() if v is not None})))
            (path / name).write_bytes(b"".join(records))
    (path / "dataset_info.json").write_text(json.dumps({"name": "toy", "splits": info}))
    return path


def error_of(path: Path) -> str:
    return message_of(path, ReadOptions(rate=10.0))


# ---- the format ----------------------------------------------------------------------------------


def test_checksum() -> None:
    pytest.importorskip("google_crc32c", reason="TFRecord needs google-crc32c")
    assert plain_crc(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) % 2**32
    for data in (b"", b"a", bytes(range(256)) * 3):
        assert masked_crc(data) == plain_crc(data)


def test_examples_against_protobuf() -> None:
    integers = [0, 1, -1, 127, 128, 2**31, -(2**31), 2**63 - 1, -(2**63), 300]
    data = encode(
        {"i": integers, "f": np.float32([0.1, -np.inf, 3e38]), "b": [b"", b"\x00\xff", b"x" * 300]}
    )
    features = parse_example(data)
    np.testing.assert_array_equal(features["i"], integers)
    np.testing.assert_array_equal(features["f"], np.float32([0.1, -np.inf, 3e38]))
    assert features["b"] == [b"", b"\x00\xff", b"x" * 300]
    # Numbers one by one, as writers other than TensorFlow may have them.
    single = b"".join(b"\x08" + bytes([value]) for value in (1, 2, 3))
    entry = b"\x0a\x01i\x12" + bytes([len(single) + 2]) + b"\x1a" + bytes([len(single)]) + single
    features = b"\x0a" + bytes([len(entry)]) + entry
    data = b"\x0a" + bytes([len(features)]) + features
    assert example_class().FromString(data).features.feature["i"].int64_list.value == [1, 2, 3]
    np.testing.assert_array_equal(parse_example(data)["i"], [1, 2, 3])


def test_bytes_that_are_no_example() -> None:
    """Damage gives features or a ValueError, as it does in protobuf's parser."""
    whole = encode(episode_of(0, 3))
    random = np.random.default_rng(6)
    outcomes = set()
    for at in random.integers(0, len(whole), 400).tolist():
        damaged = whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]
        try:
            parse_example(damaged)
            outcomes.add("parsed")
        except ValueError:
            outcomes.add("refused")
    for end in range(0, len(whole), 97):
        try:
            parse_example(whole[:end])
        except ValueError:
            outcomes.add("refused")
    assert outcomes == {"parsed", "refused"}


# ---- the real data set ---------------------------------------------------------------------------


@needs(BRIDGE)
def test_bridge() -> None:
    image_module = pytest.importorskip("PIL.Image", reason="images need Pillow")
    raw = SHARD.read_bytes()
    example = example_class()
    with open_recording(BRIDGE, ReadOptions(rate=5.0)) as recording:
        assert recording.format == "RLDS"
        episodes = recording.episodes()
        assert len(episodes) == 25
        at = 0
        for i, episode in enumerate(episodes):
            (length,) = struct.unpack_from("<Q", raw, at)
            parsed = example.FromString(raw[at + 12 : at + 12 + length]).features.feature
            at += length + 16
            streams = collect(episode)
            assert set(streams) == set(recording.streams)
            for name, rows in streams.items():
                feature = parsed[f"steps/{name}"]
                if name.startswith("observation/image"):
                    expected: Any = [
                        np.asarray(image_module.open(io.BytesIO(data)).convert("RGB"))
                        for data in feature.bytes_list.value
                    ]
                else:
                    numbers = feature.float_list.value or feature.int64_list.value
                    expected = np.array(numbers).reshape(rows.values.shape)
                np.testing.assert_array_equal(rows.values, expected, err_msg=name)
                np.testing.assert_array_equal(rows.times, np.arange(10) * 200_000_000)
            assert episode.key == f"train/00000/{i}" and episode.subsets == ("train",)
            words = parsed["steps/language_instruction"].bytes_list.value[0].decode()
            assert episode.task == (words or None)
        assert at == len(raw)
        assert streams["observation/state"].values.shape == (10, 7)
        assert streams["observation/image_0"].values.shape == (10, 64, 64, 3)
        assert streams["is_first"].values.dtype == np.bool_
        assert streams["is_first"].values.tolist() == [True] + [False] * 9
        metadata = recording.streams["action"]
        assert (metadata.rate, metadata.timeline, metadata.method) == (5.0, "rows", "linear")
        assert recording.notes["files of the data set that are not here"] == 1, "the split val"


@needs(BRIDGE)
def test_options_on_bridge() -> None:
    with open_recording(
        BRIDGE, ReadOptions(rate=5.0, resize=(32, 16), fit="stretch", topics=("action", "*image_1"))
    ) as recording:
        streams = collect(recording.episodes()[3])
        assert set(streams) == {"action", "observation/image_1"}
        assert streams["observation/image_1"].values.shape == (10, 16, 32, 3)
    with open_recording(BRIDGE, ReadOptions(rate=5.0, images=False)) as recording:
        assert not any("image" in name for name in collect(recording.episodes()[0]))
        assert sum("images left out" in text for text in recording.notes) == 4
    with pytest.raises(RecordingError, match="expected a rate, since"):
        open_recording(BRIDGE)


# ---- data sets written here ----------------------------------------------------------------------


def test_every_kind_of_feature(tmp_path: Path) -> None:
    path = data_set(tmp_path, {"train": [3, 5, 4], "val": [2]})
    assert find_recordings(tmp_path) == [path]
    with open_recording(path, ReadOptions(rate=10.0)) as recording:
        keys = ["train/00000/0", "train/00000/1", "train/00001/0", "val/00000/0"]
        assert [episode.key for episode in recording.episodes()] == keys
        assert [e.subsets[0] for e in recording.episodes()] == ["train"] * 3 + ["val"]
        assert [e.task for e in recording.episodes()] == ["task 0", "task 1", "task 0", "task 0"]
        streams = collect(recording.episodes()[1])
        assert set(streams) == set(recording.streams)
        steps = np.arange(5)
        np.testing.assert_array_equal(streams["action"].values, np.stack([steps + 1, -steps], -1))
        state = streams["observation/state"].values
        assert state.dtype == np.float64 and state.shape == (5, 2, 2)
        np.testing.assert_array_equal(state.ravel(), np.float32(np.arange(20)) / np.float32(7))
        np.testing.assert_array_equal(streams["observation/count"].values, steps * -300_000)
        assert streams["observation/count"].values.dtype == np.int32
        assert streams["observation/open"].values.tolist() == [False, True] * 2 + [False]
        np.testing.assert_array_equal(
            streams["observation/raw"].values, np.stack([steps, 2 * steps, 0 * steps + 65535], -1)
        )
        np.testing.assert_array_equal(
            streams["observation/packed"].values, np.stack([steps, -steps], -1)
        )
        np.testing.assert_array_equal(streams["observation/image"].values, pixels_of(1, 5))
        np.testing.assert_array_equal(streams["label"].values, steps % 3)
        assert recording.streams["observation/count"].method == "previous"
        assert recording.notes == {
            "features of whole episodes, left out": 1,
            "features left out: cloud (its shape [-1, 3] is open)": 1,
            "features left out: video (Video is not read)": 1,
            "features left out: ragged (its length varies)": 1,
            "text left out: caption": 1,
            "text left out: name": 1,
        }


def test_one_file(tmp_path: Path) -> None:
    path = data_set(tmp_path, {"train": [3, 5, 4]})
    with open_recording(
        path / "toy-train.tfrecord-00001-of-00002", ReadOptions(rate=10.0)
    ) as recording:
        assert [episode.key for episode in recording.episodes()] == ["train/00001/0"]
        assert len(collect(recording.episodes()[0])["action"].times) == 4


def test_without_dataset_info(tmp_path: Path) -> None:
    """The number of episodes is then what the files hold."""
    path = data_set(tmp_path, {"train": [3, 5, 4]})
    (path / "dataset_info.json").write_text("{}")
    with open_recording(path, ReadOptions(rate=10.0)) as recording:
        assert len(recording.episodes()) == 3


# ---- bad input -----------------------------------------------------------------------------------


def test_truncated_and_altered(tmp_path: Path) -> None:
    path = data_set(tmp_path, {"train": [3, 5]})
    file = path / "toy-train.tfrecord-00000-of-00001"
    whole = file.read_bytes()
    first = record_offsets(file)[1]
    assert parse_example(read_record(file, first))
    file.write_bytes(whole[:-1])
    assert f"{file}: expected a record of " in error_of(path)
    assert "ends 1 bytes too early" in error_of(path)
    file.write_bytes(whole[: first + 5])
    assert error_of(path) == (
        f"{file}: expected the 12 bytes before a record at byte {first:,}, got 5"
    )
    file.write_bytes(whole[:first])
    assert error_of(path) == (f"{file}: expected 2 episodes, as dataset_info.json says, got 1")
    file.write_bytes(whole[: first + 100] + bytes([whole[first + 100] ^ 1]) + whole[first + 101 :])
    assert f"{file}: expected the record at byte {first:,} to have the checksum" in error_of(path)
    file.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    assert f"{file}: expected a TFRecord file, got no record at byte 0" in error_of(path)
    file.write_bytes(b"")
    assert error_of(path).endswith("expected 2 episodes, as dataset_info.json says, got 0")


def test_records_that_do_not_fit_the_features(tmp_path: Path) -> None:
    for number, (change, message) in enumerate(
        {
            ("steps/action", None): "expected the feature steps/action, got none",
            ("steps/action", (1.0, 2.0, 3.0)): "3 numbers, where a step has 2",
            ("steps/action", (1.0, 2.0)): "expected 1 steps of observation/",
            ("steps/action", (b"abc",) * 3): "byte strings, where numbers are expected",
            ("steps/observation/image", (1, 2, 3)): "expected images of observation/image",
            ("steps/observation/image", (b"x", b"y", b"z")): "expected an image",
            ("steps/observation/packed", (b"x", b"y", b"z")): "more or less than 4 bytes",
            ("steps/observation/raw", (b"x", b"y", b"z")): "numbers of observation/raw",
        }.items()
    ):
        name, values = change
        path = data_set(tmp_path / str(number), {"train": [3]}, **{name: values})
        text = error_of(path)
        assert message in text and "toy-train.tfrecord-00000-of-00001" in text


def test_foreign_features(tmp_path: Path) -> None:
    path = data_set(tmp_path, {"train": [3]})
    for text, got in {
        "{}": "got none named 'featuresDict'",
        "[1]": "got list indices",
        "{nothing": "got Expecting property name",
        json.dumps(group(image=tensor("uint8", 3))): "got none named 'steps'",
    }.items():
        (path / "features.json").write_text(text)
        message = error_of(path)
        assert message.startswith(f"{path / 'features.json'}: expected features.json")
        assert got in message
    (path / "features.json").unlink()
    assert find_reader(path) is None


def test_two_features_of_one_name(tmp_path: Path) -> None:
    path = data_set(tmp_path, {"train": [3]})
    features = path / "features.json"
    inner = {"featuresDict": {"features": {"b": tensor("float32", 3)}}}
    whole = group(
        steps={"sequence": {"feature": group(**{"a/b": tensor("float32", 3), "a": inner})}}
    )
    features.write_text(json.dumps(whole))
    assert error_of(path) == f"{features}: expected features of different names, got a/b twice"
    features.write_text(json.dumps(whole).replace('"a/b"', '"a"'))
    assert error_of(path) == f"{features}: expected entries of different names, got a twice"


def test_no_files(tmp_path: Path) -> None:
    path = data_set(tmp_path, {"train": [3]})
    (path / "toy-train.tfrecord-00000-of-00001").unlink()
    assert error_of(path) == f"{path}: expected an RLDS data set with .tfrecord files, got none"


def test_permission_denied(tmp_path: Path) -> None:
    path = data_set(tmp_path, {"train": [3]})
    next(path.glob("toy-*")).chmod(0)
    assert unprivileged(error_of, path).endswith("got permission denied")


def test_without_google_crc32c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = data_set(tmp_path, {"train": [3]})
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    with pytest.raises(MissingLibrary, match="google_crc32c: pip install google-crc32c pillow "):
        read_all(path, ReadOptions(rate=10.0))
