"""Tasks of a conversion: their order, those that were lost, and workers without a parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conversions import content, write_recording

import robocache as rc
from robocache.conversion import run
from robocache.conversion.pools import WorkerDiedError, run_in_order


class OneWorker:
    """A pool whose tasks share a worker: where one kills it, those submitted by then are lost.

    Args:
        kills: How often a task kills the worker before it succeeds, by its argument.
    """

    window = 3

    def __init__(self, kills: dict[int, int]) -> None:
        self.kills = Counter(kills)
        self.runs: list[int] = []
        self.handles: list[list[Any]] = []  # [task, state]

    def submit(self, function: Callable[..., Any], task: tuple[int, ...]) -> list[Any]:
        handle = [task, "waiting"]
        self.handles.append(handle)
        return handle

    def result(self, handle: list[Any]) -> Any:
        task, state = handle
        if state == "lost":
            raise WorkerDiedError
        self.runs.append(task[0])
        if self.kills[task[0]] > 0:
            self.kills[task[0]] -= 1
            for other in self.handles:
                other[1] = "lost"
            raise WorkerDiedError
        handle[1] = "done"
        return 10 * task[0]

    def renewed(self, handle: list[Any], function: Any, task: tuple[int, ...]) -> list[Any]:
        return self.submit(function, task) if handle[1] == "lost" else handle

    def close(self) -> None:
        pass


def results_of(pool: OneWorker, numbers: list[int]) -> list[Any]:
    tasks = [(number,) for number in numbers]
    done = list(run_in_order(pool, lambda number: number, tasks))
    assert [task for task, _ in done] == tasks
    return [result for _, result in done]


def test_results_in_the_order_of_tasks() -> None:
    assert results_of(OneWorker({}), [5, 3, 4, 1, 2]) == [50, 30, 40, 10, 20]


def test_a_task_that_was_lost_with_another_has_two_runs_of_its_own() -> None:
    """The second is lost when the first kills their worker, and then kills one itself."""
    pool = OneWorker({1: 1, 2: 1})
    assert results_of(pool, [1, 2, 3, 4]) == [10, 20, 30, 40]
    assert Counter(pool.runs)[2] == 2


def test_a_task_that_kills_two_workers_is_given_up() -> None:
    pool = OneWorker({2: 2})
    assert results_of(pool, [1, 2, 3]) == [10, None, 30]
    assert Counter(pool.runs)[2] == 2


class Backwards:
    """A pool that runs the task that came last first."""

    window = 100

    def __init__(self, workers: int) -> None:
        self.waiting: list[list[Any]] = []

    def submit(self, function: Callable[..., Any], task: tuple[Any, ...]) -> list[Any]:
        self.waiting.append([function, task, None])
        return self.waiting[-1]

    def result(self, handle: list[Any]) -> Any:
        while handle in self.waiting:
            last = self.waiting.pop()
            last[2] = last[0](*last[1])
        return handle[2]

    def close(self) -> None:
        pass


@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_episodes_in_the_order_of_recordings(tmp_path: Path, monkeypatch, seconds: float) -> None:
    """The order holds whichever recording ends first, with commits of one group or of all."""
    for seed in range(5):
        write_recording(tmp_path / "in" / f"r{seed}.npz", seed, rows=50)
    monkeypatch.setattr(run, "LEAST_GROUP_BYTES", 1)
    monkeypatch.setattr(run, "COMMIT_SECONDS", seconds)
    monkeypatch.setattr(run, "Processes", Backwards)
    rc.convert(tmp_path / "in", tmp_path / "store", workers=2)
    store = rc.EpisodeStore(tmp_path / "store")
    sources = [Path(episode.source).name.partition(".")[0] for episode in store]
    assert sources == [f"r{seed}" for seed in range(5)]
    rc.convert(tmp_path / "in", tmp_path / "other")
    assert content(tmp_path / "store") == content(tmp_path / "other")


SLEEPERS = """
import sys, time
from robocache.conversion.pools import Processes

def sleep(path):
    import os
    with open(f"{path}/{os.getpid()}", "w"):
        time.sleep(600)

if __name__ == "__main__":
    pool = Processes(2)
    for _ in range(2):
        handle = pool.submit(sleep, (sys.argv[1],))
    pool.result(handle)
"""


def test_a_busy_worker_ends_with_its_parent(tmp_path: Path) -> None:
    script = tmp_path / "sleepers.py"
    script.write_text(SLEEPERS)
    marks = tmp_path / "marks"
    marks.mkdir()
    parent = subprocess.Popen([sys.executable, script, marks])
    deadline = time.monotonic() + 60
    while len(workers := [int(file.name) for file in marks.iterdir()]) < 2:
        assert time.monotonic() < deadline, "workers do not start"
        time.sleep(0.01)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 20
    try:
        while any(is_running(worker) for worker in workers):
            assert time.monotonic() < deadline, "workers go on without their parent"
            time.sleep(0.01)
    finally:
        for worker in filter(is_running, workers):
            os.kill(worker, signal.SIGKILL)


def is_running(process: int) -> bool:
    """Whether a process is there, and no zombie that nobody waits for."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
