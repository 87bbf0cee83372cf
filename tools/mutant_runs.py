"""Runs tests with a change of the package, and keeps the record of mutants, tests/mutants.csv.

`tools/mutants.py` makes the changes of Python modules, `tools/cpp_mutants.py` those of C++.
"""

from __future__ import annotations

import csv
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Protocol

import hypothesis  # noqa: F401 - these before the fork, since every mutant's tests need them
import numpy  # noqa: F401
import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tests" / "mutants.csv"
COLUMNS = ("module", "function", "before", "after", "killed by")
Key = tuple[str, str, str, str]
"""A mutant as the record names it: module, function, text before, text after."""
EQUIVALENT = "equivalent: "  # begins the last column, of a mutant that no test can kill
CPU_SECONDS = 120  # of a mutant's tests: one that never ends is killed by that
IDLE_SECONDS = 30  # without work, and without a process that waits for a CPU: one that hangs
SLOW = "larger_than_memory or killed_at or kill_at or large"
"""Tests that take many seconds, and are left out."""


class Change(Protocol):
    """A change that a copy of this process makes before it runs tests.

    Attributes:
        name: A module that processes which tests start import from another text; "": none.
        source: That text.
    """

    name: str
    source: str

    def apply(self) -> None:
        """Makes the change in this process."""


# ---- runs ----------------------------------------------------------------------------------------

SITE = '''
"""Imports one module of robocache from another file; as a plugin, notes the first failed test."""
import importlib.util
import pathlib
import sys


class Finder:
    def find_spec(self, name, path, target=None):
        return importlib.util.spec_from_file_location(name, {file!r}) if name == {name!r} else None


def pytest_runtest_logreport(report):
    note = pathlib.Path({note!r})
    if report.failed and not note.exists():
        note.write_text(report.nodeid.removeprefix("tests/python/"))


sys.meta_path.insert(0, Finder())
'''
"""A `sitecustomize`, which Python runs as it starts: processes that tests start have it too."""


def collect(tests: Iterable[str]) -> None:
    """Imports tests in this process, of which each mutant has a copy."""
    torch.set_num_threads(1)  # a copy of a process lacks its threads
    with open(os.devnull, "w") as null, redirect_stdout(null):  # noqa: PTH123
        code = pytest.main(["--collect-only", "-q", *_OPTIONS, *_paths(tests)])
    if code:
        raise SystemExit(f"the tests can't be collected: {code}")


_OPTIONS = ["-p", "no:cacheprovider"]


def _paths(tests: Iterable[str]) -> list[str]:
    return [str(ROOT / "tests" / "python" / test) for test in tests]


def killer(changed: Change, tests: list[str], is_new: bool = False) -> str:
    """The test that fails with a mutant, in a copy of this process or a new one; "": none does."""
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder) / "first"
        child = os.fork()
        if child == 0:
            _run(changed, tests, note, Path(folder), is_new)
        status, hangs = _wait(child)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # processes that its tests left
        if note.exists():
            return note.read_text()
        if hangs:
            return "a test that hangs"
        if os.WIFSIGNALED(status):
            return f"a crash, or more than {CPU_SECONDS} s"
        return "" if os.WEXITSTATUS(status) == 0 else "the import of the tests"


def _wait(group: int) -> tuple[int, bool]:
    """Waits for the first process of a group: its status, and whether it hung and was killed."""
    last, since = 0, time.monotonic()
    while True:
        ended, status = os.waitpid(group, os.WNOHANG)
        if ended:
            return status, False
        ticks, is_ready = _work_of(group)
        if ticks != last or is_ready:
            last, since = ticks, time.monotonic()
        if time.monotonic() - since > IDLE_SECONDS:
            os.killpg(group, signal.SIGKILL)
            return os.waitpid(group, 0)[1], True
        time.sleep(0.5)


def _work_of(group: int) -> tuple[int, bool]:
    """CPU time of a group of processes, and whether one of them runs or waits for a CPU or disk."""
    ticks, is_ready = 0, False
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, its_group, *rest = file.read_text().rpartition(")")[2].split()
            if int(its_group) == group:
                ticks += int(rest[8]) + int(rest[9])
                is_ready |= state in "RD"
    return ticks, is_ready


def _run(changed: Change, tests: list[str], note: Path, folder: Path, is_new: bool) -> None:
    """Runs tests with a mutant, and ends this process."""
    code = 1
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        file = folder / "mutant.py"
        file.write_text(changed.source)
        site = SITE.format(file=str(file), name=changed.name, note=str(note))
        (folder / "sitecustomize.py").write_text(site)
        path = [str(folder), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, path))
        options = ["-x", "-q", *_OPTIONS, "--basetemp", str(folder / "t"), "-k", f"not ({SLOW})"]
        options += ["-p", "sitecustomize", *_paths(tests)]
        if is_new:
            os.execv(sys.executable, [sys.executable, "-m", "pytest", *options])
        sys.path.insert(0, str(folder))
        sys.modules.pop("sitecustomize", None)
        changed.apply()
        code = int(pytest.main(options))
    finally:
        os._exit(code)


# ---- the record ----------------------------------------------------------------------------------


def read_record() -> dict[Key, str]:
    """The last column of the record, by the other columns."""
    with RECORD.open(newline="") as file:
        return {(row[0], row[1], row[2], row[3]): row[4] for row in list(csv.reader(file))[1:]}


def write_record(record: dict[Key, str]) -> None:
    """Replaces the record; its rows are in order."""
    with RECORD.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([*key, verdict] for key, verdict in sorted(record.items()))


def judge(place: str, key: Key, known: dict[Key, str], find_killer: Callable[[], str]) -> str:
    """The last column of a mutant, which it prints: a known reason, the killer, or SURVIVED."""
    verdict = known.get(key, "")
    if not verdict.startswith(EQUIVALENT):
        verdict = find_killer() or "SURVIVED"
    print(f"{place}: {key[1]}: {key[2]}  ->  {key[3]}: {verdict}", flush=True)
    return verdict


def exit_code(verdicts: Iterable[str]) -> int:
    """The number of mutants that survived, which it prints."""
    survived = sum(verdict == "SURVIVED" for verdict in verdicts)
    print(f"{survived} survived")
    return min(survived, 100)
