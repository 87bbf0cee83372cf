"""Windows of random options against the reference: combinations that nobody thought of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import loader_reference as plain
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loader_options import keyed_loader
from loader_reference import Window
from loader_stores import MS, write_store
from support import assert_near, assert_same_bits

import robocache as rc

ELEMENTS = {"joints": 7, "force": 3, "counter": 2, "camera": 72, "gripper": 1, "pose": 4}
PERIODS = {"joints": 10, "force": 2.5, "counter": 50, "camera": 33, "gripper": 50, "pose": 20}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("random") / "store", episodes=3, seed=3)


@st.composite
def layouts(draw: st.DrawFn, key: str) -> list[tuple[str, int]]:
    width = ELEMENTS[key]
    if key in ("counter", "gripper"):
        return [(draw(st.sampled_from(["previous", "nearest"])), width)]
    if key == "pose" and draw(st.booleans()):
        return [(draw(st.sampled_from(["slerp_xyzw", "slerp_wxyz"])), width)]
    names = ["linear", "previous", "nearest", "angle", "mean", "sum"]
    if key == "camera":
        names = ["linear", "previous", "nearest", "mean"]
    runs = []
    while width:
        run = draw(st.integers(1, width))
        runs.append((draw(st.sampled_from(names)), run))
        width -= run
    return runs


@st.composite
def windows(draw: st.DrawFn) -> tuple[Window, dict[str, Any]]:
    """A window by time, and the loader's options for it."""
    key = draw(st.sampled_from(list(ELEMENTS)))
    layout = draw(layouts(key))
    far = draw(st.sampled_from([100, 400, 3000])) * MS
    least, most = draw(st.sampled_from([(-far, 0), (0, far), (-far, far)]))
    steps = draw(st.lists(st.integers(least, most), min_size=1, max_size=6))
    if any(method == "sum" for method, _ in layout):
        steps.sort()
    is_float = key in ("joints", "force", "pose")
    outside = draw(st.sampled_from(["hold", "zero", "extrapolate"] + ["nan"] * is_float))
    max_gap = draw(st.none() | st.integers(0, 100))
    tolerance_us = draw(st.integers(0, int(PERIODS[key] * 300)))
    latency = draw(st.integers(0, 50)) * MS
    causal = draw(st.booleans())
    dtypes = [None, torch.float32, torch.float64] if is_float else [None]
    dtype = draw(st.sampled_from(dtypes))
    scale = draw(st.booleans()) and is_float
    subtract, multiply = (0.3, 1.7) if scale else (None, None)
    window = Window(
        key,
        steps,
        layout=layout,
        causal=causal,
        latency=latency,
        outside=outside,
        max_gap=None if max_gap is None else max_gap * MS,
        tolerance=tolerance_us * 1000,
        mean_window=20 * MS,
        subtract=None if subtract is None else [subtract] * ELEMENTS[key],
        multiply=None if multiply is None else [multiply] * ELEMENTS[key],
        dtype=dtype,
    )
    options: dict[str, Any] = {
        "offsets_ns": {key: steps},
        "method": {key: layout},
        "causal": causal,
        "latency_s": latency * 1e-9,
        "outside": outside,
        "max_gap_s": None if max_gap is None else max_gap / 1000,
        "tolerance_s": tolerance_us * 1e-6,
        "dtype": dtype,
    }
    if any(method == "mean" for method, _ in layout):
        options["mean_window_s"] = 0.02
    if scale:
        options["normalize"] = {key: "mean_std"}
        options["statistics"] = {key: rc.Normalization([subtract], [multiply])}
    return window, options


def by_key(options: dict[str, Any], key: str) -> dict[str, Any]:
    """Options of one window, each as a mapping of its key."""
    return {
        name: value if isinstance(value, dict) else {key: value} for name, value in options.items()
    }


@st.composite
def relative_windows(draw: st.DrawFn) -> tuple[Window, dict[str, Any]]:
    """A window that is relative to another's value, and the loader's options for both."""
    of_floats = windows().filter(lambda made: made[0].stream in ("joints", "force", "pose"))
    window, options = draw(of_floats)
    to, options_to = draw(of_floats.filter(lambda made: made[0].stream != window.stream))
    methods, methods_to = (
        [name for name, width in each.layout for _ in range(width)] for each in (window, to)
    )
    possible = [
        c for c, name in enumerate(methods_to) if not name.startswith("slerp") and name != "sum"
    ]
    channels = [
        draw(st.none() | st.sampled_from(possible))
        if possible and not name.startswith("slerp")
        else None
        for name in methods
    ]
    window = replace(window, relative=(to, [-1 if c is None else c for c in channels]))
    first, second = by_key(options, window.stream), by_key(options_to, to.stream)
    joint = {name: first.get(name, {}) | second.get(name, {}) for name in first | second}
    joint["relative_to"] = {window.stream: rc.Relative(to.stream, channels=channels)}
    return window, joint


@settings(max_examples=80)
@given(relative_windows(), st.data())
def test_relative_windows(
    store: rc.EpisodeStore, device: str, made: Any, data: st.DataObject
) -> None:
    check_window(store, device, made, data)


@settings(max_examples=80)
@given(windows(), st.data())
def test_windows(store: rc.EpisodeStore, device: str, made: Any, data: st.DataObject) -> None:
    check_window(store, device, made, data)


def check_window(store: rc.EpisodeStore, device: str, made: Any, data: st.DataObject) -> None:
    window, options = made
    anchor = data.draw(st.sampled_from(["joints", "gripper"]), label="anchor")
    options = options | {"with_age": True, "is_quiet": True}  # windows that are always padded
    loader = keyed_loader(store, 8, anchor=anchor, device=device, **options)
    anchors = plain.row_anchors(store, anchor)
    chosen = st.lists(st.integers(0, len(anchors) - 1), min_size=1, max_size=12)
    indices = data.draw(chosen, label="indices")
    batch = {key: value.cpu() for key, value in loader.gather(indices).items()}
    expected = plain.batch(store, window, anchors, indices)
    key = window.stream
    methods = {method for method, _ in window.layout or ()}
    if window.relative is not None:
        methods |= {method for method, _ in window.relative[0].layout or ()}
    if methods & {"slerp_xyzw", "slerp_wxyz", "angle"}:
        assert_near(batch[key], expected.values, 4e-6)
    else:
        assert_same_bits(batch[key], expected.values, key)
    assert_same_bits(batch[f"{key}_is_pad"], expected.is_pad, "is_pad")
    assert_same_bits(batch[f"{key}_age"], expected.age, "age")
