"""Rows pushed in the order of a driver's messages, by the names of their elements."""

from __future__ import annotations

import array
import re
from typing import Any

import numpy as np
import pytest
import torch
from live_specs import ACTION, MS, make_stream

import robocache as rc

CHANNELS = ("shoulder", "elbow", "wrist")
NAMES = ["wrist", "gripper", "shoulder", "elbow"]
ARM = make_stream("arm", shape=(3,), channels=CHANNELS, offsets=(0,))
SPEC = rc.PolicySpec([ARM, ACTION, make_stream("joints")], anchor="arm")


def row_of(aligner: rc.LiveAligner, now_ns: int = 0) -> Any:
    return aligner.query(now_ns)["arm"][0, 0].tolist()


@pytest.mark.parametrize(
    "positions",
    [
        np.array([3.0, -1, 1, 2]),
        np.array([3, -1, 1, 2], np.float32),
        array.array("d", [3, -1, 1, 2]),  # what rclpy has in a JointState
        torch.tensor([3.0, -1, 1, 2]),
        [3, -1, 1, 2],
    ],
)
def test_a_message_is_put_in_the_order_of_the_stream(positions: Any) -> None:
    aligner = rc.LiveAligner(SPEC)
    order = aligner.channel_order("arm", NAMES)
    assert (order.stream, order.channels, order.names) == ("arm", CHANNELS, tuple(NAMES))
    assert order.indices.tolist() == [2, 3, 0]
    aligner.push("arm", 0, positions, order=order)
    assert row_of(aligner) == [1, 2, 3]


def test_rows_of_several_robots() -> None:
    aligner = rc.LiveAligner(SPEC, robots=2)
    order = aligner.channel_order("arm", NAMES)
    rows = np.array([[3.0, -1, 1, 2], [6, -1, 4, 5]])
    aligner.push_many("arm", np.zeros(2, np.int64), rows, np.arange(2), order=order)
    assert aligner.query(0)["arm"][:, 0].tolist() == [[1, 2, 3], [4, 5, 6]]


def test_rows_with_two_axes_and_bfloat16() -> None:
    names = tuple("abcdef")
    stream = make_stream("arm", shape=(2, 3), dtype="BF16", channels=names, offsets=(0,))
    aligner = rc.LiveAligner(rc.PolicySpec([stream], anchor="arm"))
    order = aligner.channel_order("arm", names[::-1])
    aligner.push("arm", 0, np.arange(6.0), order=order)
    assert row_of(aligner) == [[5, 4, 3], [2, 1, 0]]


def test_pushes_with_an_order_allocate_no_arrays() -> None:
    """The row in order is written to memory of the aligner."""
    aligner = rc.LiveAligner(SPEC)
    order = aligner.channel_order("arm", NAMES)
    to = aligner._streams["arm"]
    before = to.ordered.ctypes.data
    aligner.push("arm", 0, np.array([3, -1, 1, 2], np.float32), order=order)
    assert to.ordered.ctypes.data == before and to.ordered.tolist() == [1, 2, 3]


def test_an_order_is_of_its_stream() -> None:
    aligner = rc.LiveAligner(SPEC)
    order = aligner.channel_order("arm", NAMES)
    message = (
        "order: expected one of 'joints' (channel_order makes it), got one of 'arm' with the "
        "channels shoulder, elbow, wrist"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        aligner.push("joints", 0, [1, 2, 3, 4], order=order)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        aligner.push_many("joints", np.zeros(1, np.int64), np.zeros((1, 4)), order=order)
    turned = make_stream("arm", shape=(3,), channels=CHANNELS[::-1], offsets=(0,))
    other = rc.LiveAligner(rc.PolicySpec([turned], anchor="arm"))
    with pytest.raises(ValueError, match=r"^order: expected one of 'arm' \(channel_order makes"):
        other.push("arm", 0, [1, 2, 3, 4], order=order)


@pytest.mark.parametrize(
    ("stream", "names", "error", "message"),
    [
        (
            "arm", ["left/elbow", "shoulder"], ValueError,
            "names['arm']: expected all of the stream's channels, got none named 'elbow', 'wrist' "
            "(the message has 'left/elbow', 'shoulder')",
        ),
        (
            "arm", [*NAMES, "elbow"], ValueError,
            "names['arm']: expected each name once, got 'elbow' twice",
        ),
        (
            "joints", ["a", "b"], ValueError,
            "channels['joints']: expected a name for each of the stream's elements, got none (the "
            "spec has the store's: StoreWriter.declare takes them)",
        ),
        (
            "action", ["a", "b"], ValueError,
            "stream: expected one whose rows windows are made of, got 'action', whose window "
            "reaches into the future (undo takes what a policy gives in its place)",
        ),
        (
            "nobody", ["a"], ValueError,
            "stream: expected a stream of the spec (arm, action, joints), got 'nobody'",
        ),
        ("arm", "elbow", TypeError, "names['arm']: expected a list of str, got str"),
        ("arm", ["elbow", 1], TypeError, "names['arm'][1]: expected a str, got int"),
    ],
)  # fmt: skip
def test_names_that_do_not_fit(
    stream: str, names: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        rc.LiveAligner(SPEC).channel_order(stream, names)


def test_messages_that_do_not_fit() -> None:
    aligner = rc.LiveAligner(SPEC)
    order = aligner.channel_order("arm", NAMES)
    with pytest.raises(ValueError, match=r"^arm: values: expected \[4\], got \[3\]$"):
        aligner.push("arm", 0, [1, 2, 3], order=order)
    with pytest.raises(ValueError, match=r"^arm: values: expected \[2, 4\], got \[2, 3\]$"):
        aligner.push_many("arm", np.arange(2) * MS, np.zeros((2, 3)), order=order)
    assert aligner.stats()["arm"].pushed == 0


def test_names_come_from_the_store(tmp_path: Any) -> None:
    with rc.StoreWriter(tmp_path / "s") as writer:
        writer.declare("arm", channels=CHANNELS)
        with writer.episode() as episode:
            episode.add("arm", np.arange(20) * 10 * MS, np.zeros((20, 3), np.float32))
    windows = {"arm": rc.Window([0.0])}
    spec = rc.Loader(tmp_path / "s", 1, windows, anchor="arm", device="cpu").spec()
    spec.save(tmp_path / "spec.json")
    aligner = rc.LiveAligner(tmp_path / "spec.json")
    aligner.push("arm", 0, [3, -1, 1, 2], order=aligner.channel_order("arm", NAMES))
    assert row_of(aligner) == [1, 2, 3]
