"""Writers that are killed, disks that are full, folders that can't be written, two writers."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from store_files import file_names, read_store

import robocache as rc

HELPERS = Path(__file__).parents[1] / "helpers"
SEED = 20_261_121


def run_script(script: str, *arguments: object) -> str:
    run = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_kill_at_random_instants_and_at_every_file_operation(tmp_path: Path) -> None:
    script = HELPERS / "store_crash.py"
    run = subprocess.run(
        [sys.executable, script, str(tmp_path), str(SEED)], capture_output=True, text=True
    )
    assert run.returncode == 0, f"seed {SEED}: {run.stderr}"
    found = json.loads(run.stdout)
    assert found["killed"] == 50 and found["operations"] > 40, found
    assert found["with files left behind"] > 0, found


FULL_DISK = """
import errno, functools, resource, sys
from pathlib import Path
import numpy as np
import robocache as rc
from robocache.store import writer

path = Path(sys.argv[1])
writer.ShardWriter = functools.partial(writer.ShardWriter, spool_bytes=40_000)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
values = np.random.default_rng(0).standard_normal((2000, 3))

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))

def files():  # a shard that waits for its commit has a temporary name
    hidden = (".lock", ".tmp-")
    return {f.name: f.read_bytes() for f in path.iterdir() if not f.name.startswith(hidden)}

def append(writer):
    with writer.episode(source="more") as episode:
        for i in range(4):
            episode.add("x", np.arange(500) + 500 * i, values[500 * i : 500 * i + 500])

with rc.StoreWriter(path) as writer:
    append(writer)
failures = {"add": 0, "commit": 0}
episodes = 1
for size in [0, 10, 100, 300, 1000, 2000, 5000, 20_000, 40_000, 60_000, 65_000, 70_000, 10**6]:
    before = files()
    with rc.StoreWriter(path, append=True) as writer:
        limit(size)
        where = "add"
        try:
            append(writer)
            where = "commit"
            writer.commit()
        except OSError as error:
            assert error.errno == errno.EFBIG and str(path) in str(error.filename), error
            failures[where] += 1
            limit(hard)
            assert files() == before, size
            if where == "commit":  # that episode waits, and another one comes
                episodes += 1
            append(writer)
            writer.commit()
        limit(hard)
        episodes += 1
        assert writer.episodes == episodes == len(rc.EpisodeStore(path))
    rc.EpisodeStore(path).verify()
    assert not [name for name in path.iterdir() if name.name.startswith(".tmp-")]
print(failures["add"], failures["commit"])
"""


def test_full_disk(tmp_path: Path) -> None:
    """RLIMIT_FSIZE stands in: what is there stays, and with room made the writer goes on."""
    adds, commits = map(int, run_script(FULL_DISK, tmp_path).split())
    assert adds > 0 and commits > 0
    assert len(read_store(tmp_path)) == 14 + commits


DENIED = """
import os, sys
sys.path.insert(0, sys.argv[2])
import robocache as rc
from privileges import drop_privileges
os.chdir(sys.argv[1])
drop_privileges()
for path, append in (("folder/store", False), ("folder", False), ("store", True), ("locked", True)):
    try:
        rc.StoreWriter(path, append=append)
    except PermissionError as error:
        print(error.filename)
try:
    with rc.ShardWriter("folder") as shard:
        with shard.episode() as episode:
            episode.add("x", [0], [1.0])
        shard.close()
except PermissionError as error:
    print(error.filename.split("-")[0])
"""


def test_permission_denied(tmp_path: Path) -> None:
    for name in ("store", "locked"):
        with rc.StoreWriter(tmp_path / name) as writer, writer.episode() as episode:
            episode.add("x", [0], [1.0])
    (tmp_path / "folder").mkdir()
    (tmp_path / "locked" / ".lock").chmod(0o400)
    (tmp_path / "store" / ".lock").unlink()
    for name in ("store", "folder", "locked"):
        (tmp_path / name).chmod(0o555)
    try:
        named = run_script(DENIED, tmp_path, HELPERS).split()
    finally:
        for name in ("store", "folder", "locked"):
            (tmp_path / name).chmod(0o755)
    absolute = [  # a writer's; a shard's are as its caller wrote them
        str(tmp_path / name)
        for name in ("folder/store", "folder/.lock", "store/.lock", "locked/.lock")
    ]
    assert named == [*absolute, "folder/.tmp"]
    assert len(read_store(tmp_path / "store")) == 1


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    holder = f"process {os.getpid()} on {socket.gethostname()}"
    message = f"{tmp_path}: expected no other writer, got one: {holder}"
    with rc.StoreWriter(tmp_path) as writer:
        with pytest.raises(rc.StoreError) as caught:
            rc.StoreWriter(tmp_path, append=True)
        assert str(caught.value) == message
        script = """
import sys
import robocache as rc
try:
    rc.StoreWriter(sys.argv[1], append=True)
except rc.StoreError as error:
    print(error)
"""
        assert run_script(script, tmp_path).strip() == message
        with writer.episode() as episode:
            episode.add("x", [0], [1.0])
    with rc.StoreWriter(tmp_path, append=True):
        pass
    assert len(read_store(tmp_path)) == 1


def test_a_refused_store_gives_its_lock_back(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path):
        pass
    with pytest.raises(rc.StoreError, match="expected no store there"):
        rc.StoreWriter(tmp_path)
    rc.StoreWriter(tmp_path, append=True).close()


def test_readers_see_the_old_store_or_the_new(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path):
        pass
    script = """
import sys
import numpy as np
import robocache as rc
with rc.StoreWriter(sys.argv[1], append=True) as writer:
    for i in range(60):
        with writer.episode(source=str(i)) as episode:
            episode.add("x", np.arange(50), np.full((50, 4), i))
        writer.commit()
"""
    seen: list[int] = []
    done = threading.Event()

    def watch() -> None:
        kept = rc.EpisodeStore(tmp_path)
        while not done.is_set() or seen[-1] < 60:
            store = rc.EpisodeStore(tmp_path)
            seen.append(len(store))
            for i in {0, len(store) // 2, len(store) - 1} - {-1} if len(store) else ():
                assert store[i].source == str(i) and (store[i]["x"].values == i).all()
            if len(store) == 1:
                kept = store
            assert len(kept) in (0, 1)  # what is open stays as it was

    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            watch()
        except BaseException as error:
            failures.append(error)

    watcher = threading.Thread(target=guarded)
    watcher.start()
    try:
        run_script(script, tmp_path)
    finally:
        done.set()
        watcher.join()
    assert not failures, failures
    assert seen == sorted(seen) and seen[-1] == 60 and len(set(seen)) > 5


@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("name", ["shard-00001.safetensors", "manifest.json"])
def test_interrupted_at_a_rename(tmp_path: Path, monkeypatch, name: str, after: bool) -> None:
    """By Ctrl-C, say. Whether a shard counts is decided by the manifest's name alone."""

    def add(writer: rc.StoreWriter, source: str) -> None:
        with writer.episode(source=source) as episode:
            episode.add("x", [0, 1], [1.0, 2.0])

    rename = Path.rename

    def interrupted(path: Path, target: Path) -> None:
        if target.name != name:
            rename(path, target)
            return
        if after:
            rename(path, target)
        raise KeyboardInterrupt

    with rc.StoreWriter(tmp_path) as writer:
        add(writer, "a")
        writer.commit()
        add(writer, "b")
        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", interrupted)
            with pytest.raises(KeyboardInterrupt):
                writer.commit()
        is_in = name == "manifest.json" and after
        assert len(read_store(tmp_path)) == (2 if is_in else 1)
        add(writer, "c")
    assert [episode.source for episode in read_store(tmp_path)] == ["a", "b", "c"]
    assert rc.EpisodeStore(tmp_path).statistics["x"].count == [6]
    assert not [f for f in file_names(tmp_path) if f.startswith(".tmp-")]


def test_what_killed_writers_left_is_removed(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer, writer.episode() as episode:
        episode.add("x", [0], [1.0])
    names = file_names(tmp_path)
    for name in (".tmp-abc", "shard-00001.safetensors", "statistics-00002.safetensors"):
        (tmp_path / name).write_bytes(b"unfinished")
    (tmp_path / "notes.txt").write_text("mine")
    with rc.StoreWriter(tmp_path, append=True):
        pass
    assert file_names(tmp_path) == sorted([*names, "notes.txt"])


@pytest.mark.parametrize(
    "change",
    [lambda t: t[:-1], lambda t: b"", lambda t: t.replace(b'"F64"', b'"F32"')],
)
def test_a_damaged_manifest_is_refused(tmp_path: Path, change) -> None:
    with rc.StoreWriter(tmp_path) as writer, writer.episode() as episode:
        episode.add("x", [0], [1.0])
    manifest = tmp_path / "manifest.json"
    manifest.write_bytes(change(manifest.read_bytes()))
    before = {name: (tmp_path / name).read_bytes() for name in file_names(tmp_path)}
    with pytest.raises(rc.StoreError, match=re.escape(f"{manifest}: expected ")):
        rc.StoreWriter(tmp_path, append=True)
    after = {name: (tmp_path / name).read_bytes() for name in file_names(tmp_path)}
    assert after == before


def test_times_of_int64_ends_do_not_overflow(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path) as writer, writer.episode() as episode:
        episode.add("x", [-(2**63)], [1.0])
        episode.add("x", [2**63 - 1], [1.0])
        with pytest.raises(ValueError, match="at row 2"):
            episode.add("x", np.array([-(2**63)]), [1.0])
