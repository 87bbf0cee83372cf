"""The loader in other processes, and where torch's own loading is expected."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loader_options import keyed_loader
from loader_stores import write_store
from support import assert_same_bits

import robocache as rc
from robocache.loader.sampling import sampler as order


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("processes") / "store", episodes=2)


def make(store: rc.EpisodeStore, **options: Any) -> rc.Loader:
    deltas = {"joints": [-0.05, 0.0], "action": [0.0, 0.02, 0.04]}
    return keyed_loader(store, 8, deltas, device="cpu", timeline="time", **options)


def test_pickled_with_its_state(store: rc.EpisodeStore) -> None:
    loader = make(store, seed=9, normalize={"joints": "mean_std"})
    loader.next()
    again = pickle.loads(pickle.dumps(loader))
    for _ in range(3):
        expected, got = loader.next(), again.next()
        assert list(expected) == list(got)
        for key in expected:
            assert_same_bits(got[key], expected[key], key)


def test_pickled_with_its_rank(store: rc.EpisodeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where torch.distributed said it, which the process that loads it has not."""
    with monkeypatch.context() as patch:
        patch.setattr(order, "_distributed", lambda: (1, 2))
        loader = make(store, seed=9)
        mixture = rc.Loader.mixture([make(store)], [1], 40, 4, seed=9)
    for one in (loader, mixture):
        again = pickle.loads(pickle.dumps(one))
        assert_same_bits(again.next()["index"], one.next()["index"])


def test_pickled_as_it_was_made(store: rc.EpisodeStore) -> None:
    """Later changes of the caller's lists and mappings do not show in the pickle."""
    deltas: dict[str, Any] = {"joints": [-0.05, 0.0]}
    modes: dict[str, Any] = {"joints": "mean_std"}
    weights = [1.0]
    loader = rc.Loader(store, 8, deltas, device="cpu", normalize=modes)
    mixture = rc.Loader.mixture([loader], weights, 40, 4)
    deltas["joints"].append(0.1)
    deltas["action"] = None
    modes["joints"] = "min_max"
    weights[0] = 2.0
    for one in (loader, mixture):
        again, expected = pickle.loads(pickle.dumps(one)).next(), one.next()
        assert list(again) == list(expected)
        assert_same_bits(again["joints"], expected["joints"])


def send_next(loader: rc.Loader, results: Any) -> None:
    results.put({key: value.numpy() for key, value in loader.next().items()})


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_survives(store: rc.EpisodeStore, method: str) -> None:
    loader = make(store, seed=9)
    torch.set_num_threads(2)
    torch.rand(1 << 20).sum()  # threads of the parent, which a forked child has not
    loader.next()
    context = multiprocessing.get_context(method)
    results = context.Queue()
    process = context.Process(target=send_next, args=(loader, results))
    process.start()
    got = results.get(timeout=120)
    process.join(timeout=60)
    assert process.exitcode == 0
    for key, expected in loader.next().items():
        assert_same_bits(torch.from_numpy(got[key]), expected, key)


def test_pickled_and_copied_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hydra changes the working directory after a program has opened a relative path."""
    write_store(tmp_path / "store", episodes=2)
    monkeypatch.chdir(tmp_path)
    loader = rc.Loader("store", 8, {"joints": [0.0]}, device="cpu", seed=9)
    mixture = rc.Loader.mixture([loader], [1.0], 40, 4)
    for one in (loader, mixture):
        one.next()
    monkeypatch.chdir("/")
    for one in (loader, mixture):
        copies = [pickle.loads(pickle.dumps(one)), copy.deepcopy(one)]
        expected = one.next()
        for again in copies:
            assert_same_bits(again.next()["joints"], expected["joints"])


def test_a_store_that_others_add_to(tmp_path: Path) -> None:
    """An open store stays as it was; reopened it has other samples, and refuses the state."""
    store = write_store(tmp_path / "store", episodes=2)
    loader, same = make(store, seed=9), make(store, seed=9)
    pickled = pickle.dumps(loader)
    with rc.StoreWriter(tmp_path / "store", append=True) as writer, writer.episode() as episode:
        times = np.arange(9) * 20_000_000
        episode.add("joints", times, np.zeros((9, 7), np.float32))
        episode.add("action", times, np.zeros((9, 5), np.float32))
    for batch, expected in zip(loader, same, strict=True):
        assert_same_bits(batch["joints"], expected["joints"])
    with pytest.raises(ValueError, match=r"^state\['samples'\]: expected \d+, got \d+ \(1 episo"):
        pickle.loads(pickled)


def test_in_a_data_loader(store: rc.EpisodeStore) -> None:
    loader = make(store, seed=9)
    assert isinstance(loader, torch.utils.data.IterableDataset)
    expected = [batch["index"].tolist() for batch in make(store, seed=9)]
    wrapped = torch.utils.data.DataLoader(loader, batch_size=None, num_workers=0)
    assert [batch["index"].tolist() for batch in wrapped] == expected
    workers = torch.utils.data.DataLoader(loader, batch_size=None, num_workers=1)
    with pytest.raises(RuntimeError, match=r"expected no worker processes .*, got worker 0 of 1"):
        next(iter(workers))


def test_a_job_of_many_ranks_without_a_group_is_refused(
    store: rc.EpisodeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "WORLD_SIZE", "4")
    monkeypatch.setitem(os.environ, "RANK", "1")
    with pytest.raises(ValueError, match=r"^world_size: expected torch\.distributed\."):
        make(store)
    assert make(store, rank=0, world_size=1).next()


def test_importing_is_cheap() -> None:
    program = "import robocache as rc, sys; print('torch' in sys.modules, rc.Loader.__name__)"
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert said.split() == ["False", "Loader"]
