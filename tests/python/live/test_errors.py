"""LiveAligner in Python: its counters, its warnings, and the message of each error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from live_specs import ACTION, MS, SPEC, make_stream

import robocache as rc


def test_what_is_counted() -> None:
    aligner = rc.LiveAligner(SPEC, buffer_rows={"joints": 4}, ring_rows={"joints": 4})
    for i in range(6):
        aligner.push("joints", i * 10 * MS, [i, i])
    aligner.query(50 * MS)
    for time in (50 * MS, 5 * MS, 100 * MS, 10**15):
        aligner.push("joints", time, [0, 0])
    aligner.query(60 * MS)
    stats = aligner.stats()["joints"]
    assert (stats.pushed, stats.overwritten, stats.taken) == (10, 2, 8)
    assert (stats.repeated, stats.future, stats.early, stats.clock_back) == (1, 1, 1, 1)
    assert stats.too_late + stats.late == 1
    assert stats.taken == stats.held + stats.outdated + stats.too_late + stats.future
    assert aligner.rows == {"joints": (4, 4)}
    assert rc.LiveAligner(SPEC).stats()["joints"].newest_ns is None


def test_counters_are_a_table() -> None:
    spec = replace(SPEC, streams=[make_stream("joints"), make_stream("force"), ACTION])
    aligner = rc.LiveAligner(spec, robots=2)
    for robot in range(2):
        for i in range(600):
            aligner.push("joints", i * MS, [i, i], robot)
            if i % 10 == 0:
                aligner.query(i * MS)
    lines = str(aligner.stats()).splitlines()
    assert lines[0].split() == ["joints", "force"]
    assert lines[1].split() == ["pushed", "1,200", "0"]
    assert len({len(line) for line in lines[1:]}) == 1 and lines[0].endswith("force")
    assert [line.split()[0] for line in lines[1:]] == [f.name for f in fields(rc.LiveStats)]
    newest = next(line for line in lines if line.startswith("newest_ns"))
    assert newest.split() == ["newest_ns", "590000000", "none"]
    assert repr(aligner.stats()) == str(aligner.stats())
    assert list(aligner.stats(1)) == ["joints", "force"]
    many = rc.PolicySpec([make_stream(f"s{i}") for i in range(8)], anchor="s0")
    stats = rc.LiveAligner(many).stats()
    assert str(stats).count("pushed") == 2 and "s7" in str(stats)
    assert repr(stats).endswith("\nand 2 more streams (print shows all)")
    assert len(repr(stats).splitlines()) < 25 and "s7" not in repr(stats)
    assert str(rc.LiveAligner(rc.PolicySpec([ACTION], anchor="action")).stats()) == "{}"


def expect(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == message


def test_rows_that_do_not_fit() -> None:
    aligner = rc.LiveAligner(SPEC, robots=2)

    def push(*arguments: Any) -> Callable[[], Any]:
        return lambda: aligner.push(*arguments)

    row = [0.0, 0.0]
    unknown = "stream: expected a stream of the spec (joints, action), got 'arm'"
    expect(ValueError, unknown, push("arm", 0, row))
    expect(
        ValueError,
        "stream: expected one whose rows windows are made of, got 'action', whose window reaches "
        "into the future (undo takes what a policy gives in its place)",
        push("action", 0, row),
    )
    expect(ValueError, "joints: values: expected [2], got [3]", push("joints", 0, [0.0] * 3))
    expect(ValueError, "joints: values: expected [2], got []", push("joints", 0, 1.0))
    for time in (0.5, math.nan, "now", None):
        kind = type(time).__name__
        message = f"time_ns: expected an int (nanoseconds), got {kind}"
        expect(TypeError, message, push("joints", time, row))
    counter = make_stream("counter", dtype="I64", out_dtype="I64", method="previous")
    counters = rc.LiveAligner(rc.PolicySpec([counter], anchor="counter"))
    message = "counter: values: expected int64, got float64"
    expect(TypeError, message, lambda: counters.push("counter", 0, [0.5, 1.0]))
    message = f"time_ns: expected an int of 64 bits (nanoseconds), got {2**63}"
    expect(ValueError, message, push("joints", 2**63, row))
    expect(ValueError, "robot: expected 0 to 1, got 2", push("joints", 0, row, 2))
    expect(ValueError, "robot: expected 0 to 1, got -1", push("joints", 0, row, -1))
    expect(ValueError, f"robot: expected 0 to 1, got {2**64}", push("joints", 0, row, 2**64))
    expect(TypeError, "robot: expected an int, got str", push("joints", 0, row, "a"))
    expect(ValueError, unknown.replace("'arm'", "['joints']"), push(["joints"], 0, row))
    message = "joints: values: expected [2], got lists of several lengths"
    expect(ValueError, message, push("joints", 0, [[0.0], [0.0, 0.0]]))
    message = "joints: values: expected numbers that float32 has, got up to 1e+300"
    expect(ValueError, message, push("joints", 0, [1e300, 0.0]))
    assert aligner.stats()["joints"].pushed == 0

    no_bool: Any = None
    expect(
        TypeError,
        "valid: expected a bool, got NoneType",
        lambda: aligner.push("joints", 0, [1, 2], valid=no_bool),
    )

    def push_many(*arguments: Any, **more: Any) -> Callable[[], Any]:
        return lambda: aligner.push_many("joints", *arguments, **more)

    times, rows = np.arange(3), np.zeros((3, 2), np.float32)
    expect(ValueError, "joints: values: expected [3, 2], got [2, 2]", push_many(times, rows[:2]))
    message = "joints: times_ns: expected integers, got float64"
    expect(TypeError, message, push_many(times * 1.0, rows))
    message = f"joints: times_ns: expected ints of 64 bits with a sign, got {2**63}"
    expect(ValueError, message, push_many(np.full(3, 2**63, np.uint64), rows))
    expect(ValueError, "robot: expected [3], got [2]", push_many(times, rows, np.arange(2)))
    expect(ValueError, "robot: expected 0 to 1, got 2", push_many(times, rows, np.arange(3)))
    message = "joints: valid: expected bool [N=3], got int64 [3]"
    expect(ValueError, message, push_many(times, rows, valid=np.arange(3)))
    assert aligner.stats()["joints"].pushed == 0


def test_queries_that_do_not_fit() -> None:
    aligner = rc.LiveAligner(SPEC, robots=2)
    message = "now: expected an int (nanoseconds), got float"
    expect(TypeError, message, lambda: aligner.query(0.5))  # type: ignore[arg-type]
    message = "now: expected a stream of the spec (joints, action), got 'arm'"
    expect(ValueError, message, lambda: aligner.query("arm"))
    message = (
        "now: expected a stream that has rows at control time, got 'action', whose window reaches "
        "into the future"
    )
    expect(ValueError, message, lambda: aligner.query("action"))
    expect(ValueError, "now: expected [2], got [3]", lambda: aligner.query(np.arange(3)))
    message = "now: expected integers, got float64"
    expect(TypeError, message, lambda: aligner.query(np.zeros(2)))
    expect(ValueError, "robot: expected 0 to 1, got 2", lambda: aligner.stats(2))
    expect(ValueError, "robot: expected 0 to 1, got 2", lambda: aligner.reset(2))
    expect(ValueError, "robot: expected 0 to 1, got 2", lambda: aligner.now_ns(2))

    def undo(key: str, action: Any) -> Callable[[], Any]:
        return lambda: aligner.undo(key, action)

    message = "key: expected one of batches (joints, action), got 'arm'"
    expect(ValueError, message, undo("arm", np.zeros((2, 1, 2))))
    for shape in ((2,), (1, 2), (3, 1, 2), (2, 1, 3), (2, 1, 1, 2)):
        message = f"action: expected [R=2,K,2], got {list(shape)}"
        expect(ValueError, message, undo("action", np.zeros(shape)))
    message = "action: expected floats, got int64"
    expect(TypeError, message, undo("action", np.zeros((2, 1, 2), np.int64)))
    message = "action: expected a NumPy array or a tensor, got list"
    expect(TypeError, message, undo("action", [[[0.0, 0.0]]]))
    message = "action: expected floats, got object"
    expect(TypeError, message, undo("action", np.zeros((1, 3, 2), object)))
    copied = make_stream("flags", dtype="BOOL", out_dtype="BOOL", method="previous")
    flags = rc.LiveAligner(rc.PolicySpec([copied], anchor="flags"))
    message = "key: expected values of floats or numbers that are computed with, got flags"
    expect(ValueError, message, lambda: flags.undo("flags", np.zeros((1, 1, 2))))


def test_options_that_do_not_fit() -> None:
    def make(spec: Any = SPEC, **options: Any) -> Callable[[], Any]:
        return lambda: rc.LiveAligner(spec, **options)

    expect(TypeError, "spec: expected a PolicySpec or its file, got int", make(7))
    expect(ValueError, "robots: expected 1 to 1048576, got 0", make(robots=0))
    expect(ValueError, "robots: expected 1 to 1048576, got 2097152", make(robots=2**21))
    expect(TypeError, "robots: expected an int, got float", make(robots=1.0))
    message = "buffer_rows: expected a stream of the spec (joints, action), got 'arm'"
    expect(ValueError, message, make(buffer_rows={"arm": 1}))
    expect(ValueError, "query_every_s: expected 0 to 2^33 s, got -1", make(query_every_s=-1))
    message = "ring_rows['joints']: expected 1 to 2147483648, got 0"
    expect(ValueError, message, make(ring_rows={"joints": 0}))
    expect(TypeError, "ring_rows: expected rows by stream, got int", make(ring_rows=3))
    expect(ValueError, "max_future_s: expected 0 to 2^33 s, got nan", make(max_future_s=math.nan))
    expect(TypeError, "reuse_buffers: expected a bool, got int", make(reuse_buffers=1))
    with pytest.raises(ValueError, match=r"^buffer_rows\['joints'\]: expected at least the 3 rows"):
        rc.LiveAligner(SPEC, buffer_rows={"joints": 1})
    with pytest.raises(ValueError, match=r"^spec: streams\[0\].out_dtype: expected U8, F16"):
        rc.LiveAligner(replace(SPEC, streams=[make_stream("joints", out_dtype="I32"), ACTION]))
    ages = replace(SPEC, streams=[make_stream("joints"), make_stream("joints_age")])
    message = "spec: streams: expected keys of the output that differ, got 'joints_age' twice"
    expect(ValueError, message, make(ages))
    fast = replace(SPEC, streams=[make_stream("joints", rate=1e8), ACTION])
    message = (
        "buffer_rows['joints']: expected default capacities of at most 1073741824 bytes for a "
        "robot's streams, got 4312001540, of which 4312001540 for 28000010 rows in the buffer and "
        "28000010 in the ring at the rate of 100000000 Hz (correct the rate and the offsets, or "
        "set buffer_rows and ring_rows)"
    )
    expect(ValueError, message, make(fast))
    with pytest.raises(FileNotFoundError, match=r"^/nowhere/policy_spec.json: expected a policy"):
        rc.LiveAligner("/nowhere/policy_spec.json")
    if not torch.cuda.is_available():
        message = "device: expected 'cpu' where torch finds no GPU, got 'cuda'"
        expect(ValueError, message, make(device="cuda"))
