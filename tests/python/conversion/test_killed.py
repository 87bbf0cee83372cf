"""Conversions that are killed, whose workers die or whose disk is full; on Ray; their memory."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conversions import MS, START, content, files, robocache, spoil, write_recording

import robocache as rc
from robocache.conversion.pools import Inline, Pool, Processes, WorkerDiedError, run_in_order

# ---- kills ---------------------------------------------------------------------------------------

KILLS = 50


def convert_and_kill(recordings: Path, store: Path, seconds: float, append: bool) -> bool:
    """Converts in a copy of this process, which is killed after a while; whether it was."""
    child = os.fork()
    if child == 0:  # no pytest, no torch here: a conversion and nothing else
        code = 1
        try:
            rc.convert(recordings, store, append=append)
            code = 0
        finally:
            os._exit(code)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def test_killed_at_any_instant(recordings: Path, tmp_path: Path, small_groups: None) -> None:
    """A killed conversion leaves a store that opens; converting again completes it exactly.

    Every other one appends to a store of another recording.
    """
    other = write_recording(tmp_path / "other.npz", 9)
    rc.convert(other, tmp_path / "appended")
    rc.convert(recordings, tmp_path / "appended", append=True)
    appended = content(tmp_path / "appended")
    whole_s = 9.0
    for number in range(3):
        begin = time.perf_counter()
        rc.convert(recordings, tmp_path / f"whole{number}")
        whole_s = min(whole_s, time.perf_counter() - begin)
    whole = content(tmp_path / "whole0")
    rng = np.random.default_rng(0)
    killed, partly = 0, 0
    for number, share in enumerate(rng.permutation(KILLS) / KILLS):
        store = tmp_path / f"s{number}"
        append = number % 2 == 1
        expected = appended if append else whole
        if append:
            rc.convert(other, store)
        # Up to later than its end, since other programs may slow it down by then.
        seconds = whole_s * (share * 1.5 + rng.uniform(0, 0.02))
        killed += convert_and_kill(recordings, store, seconds, append)
        if append or (store / "manifest.json").exists():
            there = content(store)["episodes"]
            assert there == expected["episodes"][: len(there)]
            assert len(there) >= append, "what was there is lost"
            partly += append < len(there) < len(expected["episodes"])
        report = rc.convert(recordings, store, append=append)
        assert report.skipped == []
        assert content(store) == expected, f"kill {number}"
        assert not list(store.glob(".tmp-*"))
    assert killed > KILLS / 3 and partly > 0, (killed, partly)


def test_killed_with_workers(tmp_path: Path) -> None:
    """The workers of a killed conversion end too, and the next one finds nobody in its way."""
    recordings = tmp_path / "recordings"
    for seed in range(6):
        write_recording(recordings / f"r{seed}.npz", seed, rows=100_000)
    command = [sys.executable, "-m", "robocache", "convert", recordings, tmp_path / "s",
               "--workers", "2"]  # fmt: skip
    process = subprocess.Popen(list(map(str, command)))
    deadline = time.monotonic() + 60
    while not list((tmp_path / "s").glob(".tmp-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGSTOP)  # so that no worker starts unseen
    children = children_of(process.pid)
    process.kill()
    process.wait()
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline, "workers go on without their parent"
        time.sleep(0.01)
    assert rc.convert(recordings, tmp_path / "s").skipped == []
    assert len(content(tmp_path / "s")["episodes"]) == 6


def children_of(process: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == process:
            found.append(int(status.parent.name))
    return found


def test_a_full_disk(recordings: Path, tmp_path: Path) -> None:
    """Committed episodes stay, the error names the file, and with free space it continues."""
    write_recording(recordings / "r5.npz", 5, rows=60_000)
    limit = 1_000_000
    code = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))\n"
        "from robocache.conversion import run\n"
        "run.LEAST_GROUP_BYTES = 90_000\n"
        "from robocache.cli import main\n"
        "main()\n"
    )
    arguments = ["convert", str(recordings), str(tmp_path / "s"), "--workers", "1"]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "File too large" in done.stderr and str(tmp_path / "s") in done.stderr
    there = content(tmp_path / "s")["episodes"]
    assert 0 < len(there) < 8
    assert rc.convert(recordings, tmp_path / "s").skipped == []
    rc.convert(recordings, tmp_path / "t")
    assert content(tmp_path / "s") == content(tmp_path / "t")


# ---- workers that die ----------------------------------------------------------------------------


def square_or_die(number: int, marks: str) -> int:
    """-3 kills its process always, -2 the first time."""
    mark = Path(marks) / str(number)
    if number == -3 or (number == -2 and not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01)
    return number * number


def test_a_worker_that_dies(tmp_path: Path) -> None:
    """Its task runs again; one that kills every worker gives None, and no other task is lost."""
    numbers = [1, 2, -2, 3, 4, -3, 5, 6]
    pool = Processes(2)
    try:
        tasks = [(number, str(tmp_path)) for number in numbers]
        results = [result for _, result in run_in_order(pool, square_or_die, tasks)]
    finally:
        pool.close()
    assert results == [1, 4, 4, 9, 16, None, 25, 36]


def test_a_lost_task_is_submitted_again(tmp_path: Path) -> None:
    """The death of another task's worker ends the pool; a finished task keeps its result."""
    pool = Processes(1)
    try:
        finished = pool.submit(square_or_die, (2, str(tmp_path)))
        assert pool.result(finished) == 4
        dies = pool.submit(square_or_die, (-2, str(tmp_path)))
        lost = pool.submit(square_or_die, (3, str(tmp_path)))
        for handle in (dies, lost):
            with pytest.raises(WorkerDiedError):
                pool.result(handle)
        renewed = pool.renewed(lost, square_or_die, (3, str(tmp_path)))
        assert pool.result(renewed) == 9
        assert pool.renewed(finished, square_or_die, (2, str(tmp_path))) is finished
    finally:
        pool.close()


def test_a_task_that_runs_again_does_so_by_itself(tmp_path: Path) -> None:
    """Not beside a task that came meanwhile, which kills its worker too."""
    pool = Processes(2)
    results = []
    try:
        tasks = [(number, str(tmp_path)) for number in (1, -2, 3, 4, -3, 5)]
        for _, result in run_in_order(pool, square_or_die, tasks):
            if not results:
                time.sleep(1)  # by then the second has died, and the fifth comes
            results.append(result)
    finally:
        pool.close()
    assert results == [1, 4, 9, 16, None, 25]


def write_half_a_result(file: str) -> None:
    """Writes the beginning of a message to the pipe of results, as a worker that is ended then."""
    frame = sys._getframe()
    while "result_queue" not in frame.f_locals:
        assert frame.f_back is not None
        frame = frame.f_back
    writer = frame.f_locals["result_queue"]._writer
    os.write(writer.fileno(), struct.pack("!i", 1000) + b"only the beginning")
    Path(file).touch()
    time.sleep(60)


def test_a_worker_that_ends_halfway_through_a_result(tmp_path: Path) -> None:
    """Python waits at exit for the thread that reads results: it must not wait for the rest."""
    pool = Processes(1)
    try:
        pool.submit(write_half_a_result, (str(tmp_path / "written"),))
        reader: Any = pool._executor._executor_manager_thread
        deadline = time.monotonic() + 60
        while not (tmp_path / "written").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        pool.close()
    reader.join(20)
    assert not reader.is_alive()


def test_a_worker_that_starts_is_not_interrupted(tmp_path: Path) -> None:
    """Ctrl-C reaches all processes of a terminal; one that only starts would print a traceback.

    In a program of its own: where another test has started worker processes, the process that
    tracks their resources runs already, and starting it changes what is blocked.
    """
    program = tmp_path / "program.py"
    program.write_text(
        "import signal\n"
        "from robocache.conversion.pools import Processes, run_in_order\n"
        "def is_blocked(_):\n"
        "    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())\n"
        "if __name__ == '__main__':\n"
        "    pool = Processes(2)\n"
        "    print([result for _, result in run_in_order(pool, is_blocked, [(0,), (1,), (2,)])])\n"
        "    pool.close()\n"
        "    print(is_blocked(0))\n"
    )
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[True, True, True]\nFalse\n", "workers, and the process that waits"


def test_ctrl_c_that_another_thread_receives(tmp_path: Path) -> None:
    """Python raises it in the main thread all the same: not while a worker starts."""
    program = tmp_path / "program.py"
    program.write_text(
        "import signal, threading, time\n"
        "from robocache.conversion.pools import _interrupts_blocked\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "thread = threading.Thread(target=time.sleep, args=(1,), daemon=True)\n"
        "thread.start()\n"
        "try:\n"
        "    with _interrupts_blocked():\n"
        "        signal.pthread_kill(thread.ident, signal.SIGINT)\n"
        "        time.sleep(0.5)\n"
        "        print('whole')\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    )
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "whole\ninterrupted\n"


def fail(number: int) -> int:
    raise OSError(28, f"no room for {number}")


def test_an_error_of_a_worker_is_raised() -> None:
    pools: list[Pool] = [Inline(), Processes(1)]
    for pool in pools:
        try:
            with pytest.raises(OSError, match="no room for 7"):
                list(run_in_order(pool, fail, [(7,), (8,)]))
        finally:
            pool.close()


# ---- Ray -----------------------------------------------------------------------------------------


@pytest.fixture
def cluster() -> Any:
    """A local Ray with two workers."""
    ray = pytest.importorskip("ray", reason="conversion on Ray needs ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


def test_ray_makes_no_difference(
    recordings: Path, tmp_path: Path, small_groups: None, cluster: Any
) -> None:
    spoil(recordings)
    report = rc.convert(recordings, tmp_path / "ray", ray="auto")
    assert report.episodes == 7 and len(report.skipped) == 1
    rc.convert(recordings, tmp_path / "s")
    assert files(tmp_path / "ray") == files(tmp_path / "s")


def test_a_killed_worker_of_ray(tmp_path: Path, small_groups: None, cluster: Any) -> None:
    """No episode is lost, and none is there twice."""
    recordings = tmp_path / "recordings"
    for seed in range(12):
        write_recording(recordings / f"r{seed:02d}.npz", seed, rows=30_000)
    killed: list[int] = []

    def kill(done: int, total: int) -> None:
        """Once two recordings are converted, workers of the next ones."""
        if done < 2 or len(killed) >= 2:
            return
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            for process in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    if b"ray::make_shards" in process.read_bytes():
                        killed.append(int(process.parent.name))
                        os.kill(killed[-1], signal.SIGKILL)
                        return
            time.sleep(0.002)

    report = rc.convert(recordings, tmp_path / "ray", ray="auto", progress=kill)
    assert killed, "no worker was seen at work"
    assert report.skipped == [] and report.episodes == 12
    rc.convert(recordings, tmp_path / "s")
    assert content(tmp_path / "ray") == content(tmp_path / "s")
    assert not list((tmp_path / "ray").glob(".tmp-*"))


def test_without_ray(recordings: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("ray"):
        pytest.skip("ray is installed")
    done = robocache("convert", recordings, tmp_path / "s", "--ray", "auto")
    assert done.returncode == 2
    assert " ".join(done.stderr.split()) == (
        "robocache: converting on Ray needs ray: pip install 'ray>=2.40' "
        "(or, in a checkout: pip install '.[ray]')"
    )
    assert not (tmp_path / "s").exists(), "a store without episodes is left behind"


# ---- memory --------------------------------------------------------------------------------------


@pytest.mark.large
@pytest.mark.skipif(
    os.environ.get("ROBOCACHE_TEST_LARGE") != "1",
    reason="writes 3 GB and takes a minute; ROBOCACHE_TEST_LARGE=1 asks for it",
)
def test_memory_is_bounded(tmp_path: Path) -> None:
    """1.3 GB of images, in one long episode and ten short ones: all processes stay under 1 GiB."""
    rng = np.random.default_rng(0)
    for number, frames in enumerate([1200, *[120] * 10]):
        times = START + np.arange(frames) * 33 * MS
        pictures = rng.integers(0, 255, (frames, 360, 480, 3), dtype=np.uint8)
        folder = tmp_path / "recordings"
        folder.mkdir(exist_ok=True)
        np.savez(folder / f"r{number:02d}.npz", camera=pictures, camera_times_ns=times)
        del pictures
    size = sum(file.stat().st_size for file in (tmp_path / "recordings").iterdir())
    assert size > 1 << 30
    command = [sys.executable, "-m", "robocache", "convert", str(tmp_path / "recordings"),
               str(tmp_path / "s"), "--workers", "2"]  # fmt: skip
    process = subprocess.Popen(command)
    peaks: dict[int, int] = {}
    while process.poll() is None:
        for one in [process.pid, *children_of(process.pid)]:
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{one}/status").read_text()
                if "VmHWM:" in status:
                    peaks[one] = int(status.split("VmHWM:")[1].split()[0]) * 1024
        time.sleep(0.02)
    total = sum(peaks.values())
    print(f"{size:,} bytes converted; peaks {sorted(peaks.values())}, together {total:,} bytes")
    assert process.returncode == 0
    assert total < 1 << 30
    store = rc.EpisodeStore(tmp_path / "s")
    assert store.streams["camera"].rows == 2400
