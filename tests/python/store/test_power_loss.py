"""Commits survive a power loss at any moment: states of the disk, from a record of system calls."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from power_loss import Folder, Recorder, Tree, states, write_tree

import robocache as rc
from robocache.loader.policy_spec import PolicySpec
from robocache.store import files
from robocache.store.marks import Mark, mark_rows

APPENDED = 3  # every so many states are appended to
Record = Callable[[int], None]
"""Notes the number of episodes and marks that the store has from here on."""


def add(writer: rc.StoreWriter | rc.ShardWriter, i: int) -> None:
    with writer.episode(source=str(i)) as episode:
        episode.add("x", [i, i + 1], np.full((2, 3), i, np.float32))


def new_store(root: Path, record: Record) -> None:
    """A new store, in a folder that is new too; two commits."""
    with rc.StoreWriter(root / "new" / "store") as writer:
        record(0)
        for i in range(2):
            add(writer, i)
            writer.commit()
            record(i + 1)


def empty_folder(root: Path, record: Record) -> None:
    """A store in a folder that somebody made just before."""
    path = root / "new" / "store"
    path.mkdir(parents=True)
    files.sync_folder(root)
    files.sync_folder(root / "new" / "..")
    with rc.StoreWriter(path) as writer:
        add(writer, 0)
        writer.commit()
        record(1)


def appended(root: Path, record: Record) -> None:
    new_store(root, record)
    with rc.StoreWriter(root / "new" / "store", append=True) as writer:
        record(2)
        add(writer, 2)
    record(3)


def shards_of_workers(root: Path, record: Record) -> None:
    """Two shards in one commit."""
    path = root / "new" / "store"
    with rc.StoreWriter(path) as writer:
        shards = []
        for i in range(2):
            with rc.ShardWriter(path) as shard:
                add(shard, i)
                shards.append(shard.close())
        writer.commit_shards(shards)
        record(2)


def merged(root: Path, record: Record) -> None:
    """Hard links of shards that were synced before."""
    for i, name in enumerate("ab"):
        with rc.StoreWriter(root / name) as writer:
            add(writer, i)
    rc.merge_stores([root / "a", root / "b"], root / "new" / "store")
    record(2)


def marked(root: Path, record: Record) -> None:
    """A shard that is replaced by one with flags."""
    path = root / "new" / "store"
    new_store(root, record)
    with rc.StoreWriter(path, append=True) as writer:
        mark_rows(writer, [Mark(1, "x", ((0, 1),), "by hand")])
        record(3)


def copied(root: Path, record: Record) -> None:
    """A merge where shards can't be linked."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    link, os.link = os.link, refuse
    try:
        merged(root, record)
    finally:
        os.link = link


def losses(root: Path, write: Callable[[Path, Record], None]) -> dict[str, int]:
    """Fails the power after every call; the number of calls, and of different states.

    Raises:
        AssertionError: A state lacks an episode that was committed, or is no store.
    """
    (root / "disk").mkdir()
    with Recorder(root / "disk") as recorder:
        write(root / "disk", lambda episodes: recorder.mark(str(episodes)))
    disk, committed = Folder(), -1
    seen: set[str] = set()
    for name, call in recorder.calls:
        call(disk)
        if name.startswith("mark "):
            committed = int(name.removeprefix("mark "))
        for tree in states(disk):
            key = f"{committed} {json.dumps(tree, default=bytes.hex, sort_keys=True)}"
            if key not in seen:
                seen.add(key)
                check(tree, root / f"state-{len(seen)}", committed, f"after {name}")
                if len(seen) % APPENDED == 0:
                    append_to(root / f"state-{len(seen)}" / "new" / "store")
    return {"calls": len(recorder.calls), "states": len(seen)}


def check(tree: Tree, folder: Path, committed: int, when: str) -> None:
    """The store has every episode and every mark that was committed."""
    write_tree(tree, folder)
    path = folder / "new" / "store"
    if (path / "manifest.json").exists():
        store = rc.EpisodeStore(path)
        store.verify()
        done = len(store) + sum(episode["x"].valid is not None for episode in store)
        assert done >= committed, f"{when}: {done} commits of {committed}"
        for i, episode in enumerate(store):
            assert episode.source == str(i) and (episode["x"].values == i).all(), when
    else:
        assert committed < 0, f"{when}: no store, {committed} episodes were committed"


def append_to(path: Path) -> None:
    """The next writer goes on, and removes what the last one left."""
    episodes = len(rc.EpisodeStore(path)) if (path / "manifest.json").exists() else 0
    with rc.StoreWriter(path, append=True) as writer:
        add(writer, episodes)
    assert len(rc.EpisodeStore(path)) == episodes + 1
    assert not [file for file in path.iterdir() if file.name.startswith(".tmp-")]


@pytest.mark.parametrize(
    "write", [new_store, empty_folder, appended, shards_of_workers, merged, copied, marked]
)
def test_power_loss_after_every_call(tmp_path: Path, write) -> None:
    found = losses(tmp_path, write)
    assert found["calls"] > 20 and found["states"] > 20, found


def test_a_policy_spec_is_the_old_or_the_new(tmp_path: Path) -> None:
    """After every call of `save`; the new one once it returns."""
    old = PolicySpec.load(Path(__file__).parents[2] / "golden" / "policy_spec_v1.json")
    new = replace(old, library="another")
    folder = tmp_path / "new"
    with Recorder(tmp_path) as recorder:
        folder.mkdir()
        files.sync_folder(folder / "..")
        for spec in (old, new):
            spec.save(folder / "spec.json")
            recorder.mark("saved")
    disk, saved, seen = Folder(), 0, set()
    for name, call in recorder.calls:
        call(disk)
        saved += name == "mark saved"
        for tree in states(disk):
            inner = tree.get("new", {})
            text = inner.get("spec.json", b"") if isinstance(inner, dict) else b""
            assert isinstance(text, bytes)
            done = [b"", old.to_json().encode(), new.to_json().encode()].index(text)
            assert saved <= done, f"after {name}"
            seen.add((saved, done))
    assert seen == {(0, 0), (0, 1), (1, 1), (1, 2), (2, 2)}


def close(file: files.NewFile) -> None:
    os.close(file._file)
    file._file = -1


@pytest.mark.parametrize("kind", ["file", "folder", "parent"])
def test_a_missing_sync_is_seen(tmp_path: Path, monkeypatch, kind: str) -> None:
    """The tests above fail if a writer leaves out a sync."""
    if kind == "file":
        monkeypatch.setattr(files.NewFile, "finish", close)
    elif kind == "folder":
        monkeypatch.setattr("robocache.store.writer.sync_folder", lambda folder: None)
    else:
        monkeypatch.setattr("robocache.store.writer.sync_parents", lambda folders: None)
    with pytest.raises((AssertionError, rc.StoreError)):
        losses(tmp_path, new_store)
