"""Writes recordings that state sizes which they do not have; nothing of them is kept as a file."""

from __future__ import annotations

import io
import json
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile_tables import (
    csv_duplicates,
    parquet_dictionary,
    parquet_page_size,
    parquet_page_values,
    parquet_repeated,
)
from hostile_zarr import (
    MIB,
    zarr3_chunk_in_chunk,
    zarr_blosc,
    zarr_bz2,
    zarr_chunk_in_chunk,
    zarr_objects,
    zarr_shape,
    zarr_zlib,
    zarr_zstd,
    zeros_in_zstd,
)
from lerobot_sets import write_v2, write_v3
from message_files import START, Messages, write

# ---- NumPy ---------------------------------------------------------------------------------------


def npy(shape: tuple[int, ...], kind: str = "|u1", data: bytes = b"") -> bytes:
    """An .npy file whose header states a shape, whatever its data are."""
    file = io.BytesIO()
    header = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + data


def npz_row(path: Path) -> Path:
    """A row of 4 GB in 1 kB: the sizes in the archive are altered to fit the header."""
    content = npy((1, 4_000_000_000), data=b"\0" * MIB)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x.npy", content)
    real = struct.pack("<I", len(content))
    stated = struct.pack("<I", len(content) - MIB + 4_000_000_000)
    path.write_bytes(path.read_bytes().replace(real, stated))
    return path


def npz_many(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for number in range(30_000):
            file.writestr(f"a{number}.npy", b"")
    return path


def npz_rows_of_nothing(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x.npy", npy((10**12, 0)))
    return path


def calvin(folder: Path, ends: bytes, steps: dict[int, bytes]) -> Path:
    folder.mkdir()
    (folder / "ep_start_end_ids.npy").write_bytes(ends)
    for number, step in steps.items():
        (folder / f"episode_{number:07d}.npz").write_bytes(step)
    return folder


def step_of_calvin() -> bytes:
    file = io.BytesIO()
    np.savez(file, actions=np.zeros(7))
    return file.getvalue()


def calvin_range(path: Path) -> Path:
    ends = npy((1, 2), "<i8", np.array([0, 10**12]).tobytes())
    return calvin(path, ends, {0: step_of_calvin()})


def calvin_ends(path: Path) -> Path:
    return calvin(path, npy((10**12, 2), "<i8"), {0: step_of_calvin()})


def calvin_archive(path: Path) -> Path:
    return calvin(path, step_of_calvin(), {0: step_of_calvin()})


def calvin_step(path: Path) -> Path:
    ends = npy((1, 2), "<i8", np.array([0, 0]).tobytes())
    row = npz_row(path.with_suffix(".npz")).read_bytes()
    return calvin(path, ends, {0: row})


# ---- HDF5 and zarr -------------------------------------------------------------------------------


def hdf5_shape(path: Path) -> Path:
    h5py = pytest.importorskip("h5py", reason="HDF5 needs h5py")
    with h5py.File(path, "w") as file:
        actions = file.create_dataset("data/demo_0/actions", (10**12, 7), "f4", chunks=(64, 7))
        actions[:64] = 1
    return path


def hdf5_rows_of_nothing(path: Path) -> Path:
    h5py = pytest.importorskip("h5py", reason="HDF5 needs h5py")
    with h5py.File(path, "w") as file:
        file.create_dataset("data/demo_0/actions", (10**12, 0), "f4")
    return path


def hdf5_chunk(path: Path) -> Path:
    """A chunk that states 4 GB."""
    return _hdf5_deflated(path, 4_000_000_000, zlib.compress(b"\0" * MIB))


def hdf5_inflating_chunk(path: Path) -> Path:
    """A chunk of 400 kB that inflates to 400 MiB."""
    deflate = zlib.compressobj(9)
    parts = [deflate.compress(b"\0" * MIB) for _ in range(400)]
    return _hdf5_deflated(path, 1_000_000, b"".join([*parts, deflate.flush()]))


def _hdf5_deflated(path: Path, size: int, data: bytes) -> Path:
    h5py = pytest.importorskip("h5py", reason="HDF5 needs h5py")
    with h5py.File(path, "w") as file:
        actions = file.create_dataset(
            "data/demo_0/actions", (1, size), "u1", chunks=(1, size), compression="gzip"
        )
        actions.id.write_direct_chunk((0, 0), data)
    return path


# ---- RLDS and LeRobot ----------------------------------------------------------------------------


def rlds(folder: Path, lengths: list[Any], encoding: str = "none", record: bytes = b"") -> Path:
    """A data set of one tensor x of 2 float32, in one file."""
    pytest.importorskip("google_crc32c", reason="TFRecord needs google-crc32c")
    from robocache.readers.rlds.tfrecord import masked_crc

    folder.mkdir()
    tensor = {"shape": {"dimensions": ["2"]}, "dtype": "float32", "encoding": encoding}
    steps = {"featuresDict": {"features": {"x": {"tensor": tensor}}}}
    features = {"featuresDict": {"features": {"steps": {"sequence": {"feature": steps}}}}}
    (folder / "features.json").write_text(json.dumps(features))
    info = {"splits": [{"name": "train", "shardLengths": lengths}]}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    head = struct.pack("<Q", len(record))
    (folder / "toy-train.tfrecord-00000-of-00001").write_bytes(
        head + struct.pack("<I", masked_crc(head)) + record + struct.pack("<I", masked_crc(record))
    )
    return folder


def rlds_lengths(path: Path) -> Path:
    return rlds(path, ["1000000000000"])


def rlds_inflating_tensor(path: Path) -> Path:
    """A tensor of 8 bytes, whose bytes inflate to 64 MiB."""
    deflate = zlib.compressobj(9)
    data = b"".join([*(deflate.compress(b"\0" * MIB) for _ in range(64)), deflate.flush()])
    values = _field(1, _field(1, data))  # a Feature with a list of one byte string
    entry = _field(1, b"steps/x") + _field(2, values)
    return rlds(path, ["1"], "zlib", _field(1, _field(1, entry)))


def _field(number: int, data: bytes) -> bytes:
    """A field of bytes of a protocol buffer."""
    size, length = b"", len(data)
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + data


def lerobot_template(path: Path) -> Path:
    return write_v2(path, [2], data_path="data/{episode_index:>9999999999}.parquet")


def lerobot_episodes(path: Path) -> Path:
    """A table of a million episodes, all of them the same, in a few kB."""
    pq = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")
    (file,) = write_v3(path, [2]).glob("meta/episodes/*/*.parquet")
    table = pq.read_table(file).take(np.zeros(MIB, np.int64))
    pq.write_table(table, file, row_group_size=MIB, compression="zstd")
    return path


# ---- messages ------------------------------------------------------------------------------------


def mcap(path: Path, kind: str, encoding: str, definition: str, message: bytes) -> Path:
    """A file of one message."""
    writer_module = pytest.importorskip("mcap.writer", reason="MCAP needs mcap")
    with path.open("wb") as file:
        writer = writer_module.Writer(file)
        writer.start()
        schema = writer.register_schema(kind, encoding, definition.encode())
        coded = "json" if encoding == "jsonschema" else "cdr"
        if encoding == "ros1msg":
            coded = "ros1"
        channel = writer.register_channel("/a", coded, schema)
        writer.add_message(channel, START, message, START)
        writer.finish()
    return path


def mcap_chunk(path: Path, compression: str, data: bytes, size: int) -> Path:
    """A file without index whose one chunk states a size."""
    name = compression.encode()
    body = struct.pack("<QQQI", START, START, size, 0) + struct.pack("<I", len(name)) + name
    body += struct.pack("<Q", len(data)) + data
    records = [
        (1, struct.pack("<I", 0) * 2),
        (6, body),
        (15, struct.pack("<I", 0)),
        (2, struct.pack("<QQI", 0, 0, 0)),
    ]
    magic = b"\x89MCAP0\r\n"
    parts = [struct.pack("<BQ", opcode, len(record)) + record for opcode, record in records]
    path.write_bytes(magic + b"".join(parts) + magic)
    return path


def mcap_stated(path: Path) -> Path:
    return mcap_chunk(path, "zstd", zeros_in_zstd(MIB), 10**12)


def mcap_zstd(path: Path) -> Path:
    return mcap_chunk(path, "zstd", zeros_in_zstd(1024 * MIB), 1000)


def mcap_lz4(path: Path) -> Path:
    lz4 = pytest.importorskip("lz4.frame", reason="MCAP needs lz4")
    return mcap_chunk(path, "lz4", lz4.compress(b"\0" * (512 * MIB)), 1000)


def bag(path: Path, compression: str, stated: int, data: bytes | None = None) -> Path:
    """A ROS 1 bag whose one chunk states a size; `data` takes the place of its bytes."""
    module = pytest.importorskip("rosbags.rosbag1", reason="bags need rosbags")
    robot = Messages(1)
    writer = module.Writer(path)
    writer.set_compression(writer.CompressionFormat[compression])
    with writer:
        connection = writer.add_connection("/t", "geometry_msgs/msg/Twist", typestore=robot.store)
        message = robot.store.serialize_ros1(robot.twist(1.0), "geometry_msgs/msg/Twist")
        writer.write(connection, START, message)
    whole = path.read_bytes()
    at = whole.index(b"size=")
    path.write_bytes(whole[: at + 5] + struct.pack("<I", stated) + whole[at + 9 :])
    return path


def bag_stated(path: Path) -> Path:
    return bag(path, "BZ2", 4_000_000_000)


def bag_bz2(path: Path) -> Path:
    return bag(path, "BZ2", 10)


def ros2_message(path: Path) -> Path:
    """Messages that are compressed one by one, of which one becomes 1 GiB."""
    robot = Messages(2)
    found = write(
        path, "db3", robot, [("/t", "geometry_msgs/msg/Twist", START, robot.twist(1.0))], "MESSAGE"
    )
    (database,) = found.glob("*.db3")
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE messages SET data = ?", (zeros_in_zstd(1024 * MIB),))
    connection.close()
    return found


def ros2_file(path: Path) -> Path:
    """A database that becomes 1 GiB."""
    robot = Messages(2)
    found = write(
        path, "db3", robot, [("/t", "geometry_msgs/msg/Twist", START, robot.twist(1.0))], "FILE"
    )
    (database,) = found.glob("*.zstd")
    database.write_bytes(zeros_in_zstd(1024 * MIB))
    return found


def ros2_changed(path: Path, *statements: str) -> Path:
    """A bag of one message whose database was changed."""
    robot = Messages(2)
    found = write(path, "db3", robot, [("/t", "geometry_msgs/msg/Twist", START, robot.twist(1.0))])
    (database,) = found.glob("*.db3")
    with sqlite3.connect(database) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return found


def ros2_generated(path: Path) -> Path:
    """A message of 1 GB that SQLite computes."""
    return ros2_changed(
        path,
        "ALTER TABLE messages RENAME TO old",
        "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp INTEGER, "
        "data BLOB GENERATED ALWAYS AS (zeroblob(1000000000)) VIRTUAL)",
        "INSERT INTO messages(id, topic_id, timestamp) SELECT id, topic_id, timestamp FROM old",
    )


ENDLESS = "WITH RECURSIVE c(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM c) SELECT id"


def ros2_view(path: Path) -> Path:
    """Definitions of messages without end."""
    return ros2_changed(
        path,
        "DROP TABLE message_definitions",
        f"CREATE VIEW message_definitions AS {ENDLESS}, 'a' AS topic_type, 'ros2msg' AS encoding, "
        "hex(zeroblob(1000)) AS encoded_message_definition, '' AS type_description_hash FROM c",
    )


def ros2_view_of_messages(path: Path) -> Path:
    """Messages without end."""
    return ros2_changed(
        path,
        "ALTER TABLE messages RENAME TO old",
        f"CREATE VIEW messages AS {ENDLESS}, 1 AS topic_id, id AS timestamp, x'00' AS data FROM c",
    )


SEPARATOR = "=" * 80 + "\n"


def ros_nested(path: Path) -> Path:
    """10^12 fields in 12 types of 10 fields each."""
    text = "".join(f"p/T1 a{i}\n" for i in range(10))
    for depth in range(1, 12):
        fields = "".join(f"p/T{depth + 1} a{i}\n" for i in range(10))
        text += f"{SEPARATOR}MSG: p/T{depth}\n{fields}"
    return mcap(path, "p/T0", "ros2msg", text + f"{SEPARATOR}MSG: p/T12\nfloat64 x\n", b"")


def ros_array(path: Path) -> Path:
    text = f"p/B[4000000000] a\n{SEPARATOR}MSG: p/B\nfloat64 x\n"
    return mcap(path, "p/A", "ros2msg", text, b"")


def ros_strings(path: Path) -> Path:
    return mcap(path, "p/A", "ros2msg", "string[4000000000] a\n", b"")


def ros_itself(path: Path) -> Path:
    return mcap(path, "p/A", "ros2msg", f"p/B b\n{SEPARATOR}MSG: p/B\np/B b\n", b"")


def ros_empty(path: Path) -> Path:
    """A list of 4 billion messages without fields, in 4 bytes."""
    text = f"p/E[] a\nfloat64 x\n{SEPARATOR}MSG: p/E\n"
    return mcap(path, "p/A", "ros1msg", text, struct.pack("<Id", 2**32 - 1, 1.0))


def idl(path: Path, value: str) -> Path:
    text = (
        "module p { module msg { module A_Constants { "
        f"const long X = {value}; }}; struct A {{ double x; }}; }}; }};"
    )
    return mcap(path, "p/msg/A", "ros2idl", text, b"")


def idl_parentheses(path: Path) -> Path:
    return idl(path, "(((((1)))))")


def idl_shift(path: Path) -> Path:
    return idl(path, "1 << 99999999999")


def ulog(path: Path, fields: str) -> Path:
    """A log of one topic with a format."""

    def record(kind: bytes, data: bytes) -> bytes:
        return struct.pack("<H", len(data)) + kind + data

    path.write_bytes(
        b"ULog\x01\x12\x35\x01"
        + struct.pack("<Q", 0)
        + record(b"B", bytes(40))
        + record(b"F", f"a:uint64_t timestamp;{fields}".encode())
        + record(b"A", b"\0\0\0a")
        + record(b"D", b"\0\0" + struct.pack("<Qf", 1, 1.0))
    )
    return path


def ulog_array(path: Path) -> Path:
    return ulog(path, "float[999999999] x;")


def ulog_itself(path: Path) -> Path:
    return ulog(path, "a x;")


def json_nested(path: Path) -> Path:
    return mcap(path, "a", "jsonschema", "{}", b"[" * 200_000)


HOSTILE: dict[str, tuple[Callable[[Path], Path], str]] = {
    "row.npz": (npz_row, "array x: expected at most "),
    "many.npz": (npz_many, "expected at most 10,000 streams, got 30,000"),
    "nothing.npz": (npz_rows_of_nothing, "array x: expected at most "),
    "calvin_range": (calvin_range, "episode_0000001.npz: expected the arrays of a step"),
    "calvin_ends": (calvin_ends, "ep_start_end_ids.npy: expected at most "),
    "calvin_archive": (calvin_archive, "ep_start_end_ids.npy: expected an array of steps, got "),
    "calvin_step": (calvin_step, "episode_0000000.npz, array x: expected at most "),
    "shape.hdf5": (hdf5_shape, "dataset /data/demo_0/actions: expected at most "),
    "nothing.hdf5": (hdf5_rows_of_nothing, "expected "),
    "chunk.hdf5": (hdf5_chunk, "dataset /data/demo_0/actions: expected at most "),
    "inflating.hdf5": (hdf5_inflating_chunk, "that decompresses to more"),
    "shape.zarr": (zarr_shape, "array data/x: expected at most "),
    "bz2.zarr": (zarr_bz2, "chunk data/x/0: expected at most 16,777,216 bytes at once for "),
    "zstd.zarr": (zarr_zstd, "chunk data/x/0: expected at most "),
    "zlib.zarr": (zarr_zlib, "chunk data/x/0: expected at most "),
    "nested.zarr": (
        zarr_chunk_in_chunk,
        "array data/x: expected one compression, got bz2 and zlib",
    ),
    "nested3.zarr": (zarr3_chunk_in_chunk, "data/x: expected one compression, got gzip and gzip"),
    "blosc.zarr": (zarr_blosc, "chunk data/x/0: expected at most 16,777,216 bytes at once for "),
    "objects.zarr": (zarr_objects, "expected a row of integers in meta/episode_ends, got "),
    "rlds_lengths": (rlds_lengths, "as dataset_info.json says, got 1"),
    "rlds_tensor": (rlds_inflating_tensor, "numbers of x in episode 0, got ValueError: more or "),
    "lerobot_episodes": (lerobot_episodes, "row group 0: expected at most "),
    "lerobot": (lerobot_template, "info.json: expected a path made of "),
    "repeated.parquet": (parquet_repeated, "row group 0: expected at most "),
    "values.parquet": (parquet_page_values, "row group 0: expected at most 16,777,216 bytes at "),
    "size.parquet": (parquet_page_size, "row group 0: expected at most 16,777,216 bytes at once "),
    "dictionary.parquet": (parquet_dictionary, "row group 0: expected at most 16,777,216 bytes "),
    "duplicates.csv": (csv_duplicates, "expected columns of different names, got x twice"),
    "stated.mcap": (mcap_stated, "chunk"),
    "zstd.mcap": (mcap_zstd, "expected 1,000 bytes, got zstd data of more than 1,000 bytes"),
    "lz4.mcap": (mcap_lz4, "expected 1,000 bytes, got "),
    "stated.bag": (bag_stated, "expected at most 16,777,216 bytes at once for "),
    "bz2.bag": (bag_bz2, "bz2 data of more than 10 bytes"),
    "ros2_message": (ros2_message, "zstd data of more than "),
    "ros2_file": (ros2_file, ".zstd: expected at most 268,435,456 bytes in all for "),
    "ros2_generated": (ros2_generated, "got data, which is generated"),
    "ros2_view": (ros2_view, "expected a table message_definitions in recording_db3.db3, got a vi"),
    "ros2_messages": (ros2_view_of_messages, "expected a table messages in recording_db3.db3, got"),
    "nested.mcap": (ros_nested, "expected at most 10,000 fields, got 1,000,000,000,000"),
    "array.mcap": (ros_array, "expected at most 10,000 fields, got 4,000,000,00"),
    "strings.mcap": (ros_strings, "expected at most 10,000 fields, got 4,000,000,00"),
    "itself.mcap": (ros_itself, "expected types nested up to 100 deep, got p/msg/B within itself"),
    "empty.mcap": (ros_empty, "expected lists of messages with fields, got one of p/msg/E"),
    "parentheses.mcap": (idl_parentheses, "expected constants that are values, got '= ((((('"),
    "shift.mcap": (idl_shift, "expected constants that are values, got '<<'"),
    "array.ulg": (ulog_array, "expected formats of at most 65,535 fields, got more in a"),
    "itself.ulg": (ulog_itself, "expected formats without themselves in them, got a"),
    "nested_json.mcap": (json_nested, "expected a in topic /a, got JSON that is nested too deeply"),
}
"""Name of a file: what writes it, and a part of the error that refuses it."""
