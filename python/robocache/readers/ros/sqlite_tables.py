"""Checks the tables of a ROS 2 bag's database before rosbags queries them.

SQLite computes views, virtual tables and generated columns while they are read: a database of some
kilobytes can yield rows without end, or rows of a gigabyte. Triggers run on writing only, and
databases are opened for reading.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from robocache.core.extras import require
from robocache.readers.errors import RecordingError

TABLES = ("messages", "topics", "schema", "metadata", "message_definitions")
"""The tables that rosbag2 writes and rosbags queries."""


def connect(path: Path) -> sqlite3.Connection:
    """Opens a database for reading.

    Raises:
        sqlite3.Error: If it can't be opened.
    """
    # immutable: else SQLite creates files beside a database in write-ahead mode
    return sqlite3.connect(f"{path.resolve().as_uri()}?immutable=1", uri=True)


def check_tables(bag: Path, path: Path) -> None:
    """Raises for a database that computes what rosbags reads.

    Args:
        bag: The bag, for errors.
        path: One of its databases.

    Raises:
        RecordingError: If one of `TABLES` is a view or a virtual table, or has generated columns.
        sqlite3.Error: For a damaged database.
    """
    with closing(connect(path)) as database:
        found = database.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        for kind, name, sql in found:
            if kind not in ("table", "view") or str(name).lower() not in TABLES:
                continue
            if kind == "view":
                raise RecordingError(f"{bag}: expected a table {name} in {path.name}, got a view")
            for _, column, *_, hidden in database.execute(f'PRAGMA table_xinfo("{name}")'):
                if hidden:
                    raise RecordingError(
                        f"{bag}: expected stored columns in table {name} of {path.name}, got "
                        f"{column}, which is generated"
                    )
            if re.search(r"\bvirtual\b", str(sql), re.IGNORECASE):
                raise RecordingError(
                    f"{bag}: expected a table {name} in {path.name}, got a virtual table"
                )


def checked_reader(bag: Path) -> Any:
    """The class of rosbags that reads a database, with `check_tables` before it opens one."""
    module = require("rosbags.rosbag2.storage_sqlite3", "ROS 2 bags", "ros")

    class Sqlite3Reader(module.Sqlite3Reader):  # type: ignore[misc,name-defined]
        """rosbags' reader, of stored tables alone."""

        def open(self) -> None:
            check_tables(bag, Path(self.path))
            super().open()

    return Sqlite3Reader
