"""`rc.Window`, `rc.Episodes` and `Loader.from_spec`: what users pass, and what they see of it."""

from __future__ import annotations

import inspect
import pickle
import re
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loader_options import keyed_loader
from loader_stores import MS, write_store
from support import assert_same_bits

import robocache as rc

WINDOWS: dict[str, Any] = {
    "joints": rc.Window([-0.05, 0.0], max_gap_s=0.1, latency_s=0.004, normalize="mean_std"),
    "pose": rc.Window(offsets_ns=[-20 * MS, 0], dtype=torch.float64),
    "action": rc.Window([0.0, 0.02], timeline="time", method="previous", outside="zero",
                        relative_to=rc.Relative("state", channels=[0, None, 2, None, None])),
    "state": rc.Window(timeline="time"),
    "camera": rc.Window([0.0], channels_first=True),
    "force": rc.Window([-0.02, -0.01, 0.0], method="mean", mean_window_s=0.01),
}  # fmt: skip
OPTIONS: dict[str, Any] = {"anchor": "joints", "device": "cpu", "seed": 3}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("options") / "store", episodes=3)


def same(loader: rc.Loader, other: rc.Loader, batches: int = 3) -> None:
    for _ in range(batches):
        batch, expected = loader.next(), other.next()
        assert list(batch) == list(expected)
        for key, values in expected.items():
            assert_same_bits(batch[key], values, key)


# ---- windows -------------------------------------------------------------------------------------


def test_a_loader_has_few_parameters() -> None:
    assert len(set(inspect.signature(rc.Loader).parameters)) == 21


def test_lists_and_none_stand_for_windows(store: rc.EpisodeStore) -> None:
    lists = {"joints": [-0.05, 0.0], "state": None, "pose": np.array([0.0])}
    windows = {
        "joints": rc.Window([-0.05, 0.0]), "state": rc.Window(), "pose": rc.Window((0.0,))
    }  # fmt: skip
    loader = rc.Loader(store, 8, lists, **OPTIONS | {"anchor": "state"})
    same(loader, rc.Loader(store, 8, windows, **OPTIONS | {"anchor": "state"}))
    by_name = rc.Loader(store, 8, delta_timestamps=lists, **OPTIONS | {"anchor": "state"})
    same(by_name, rc.Loader(store, 8, windows, **OPTIONS | {"anchor": "state"}))


def test_offsets_in_nanoseconds(store: rc.EpisodeStore) -> None:
    ns = {"joints": rc.Window(offsets_ns=[-50 * MS, 1]), "action": rc.Window(offsets_ns=[20 * MS])}
    seconds = {"joints": [-0.05, 1e-9], "action": rc.Window([0.02])}
    anchor = OPTIONS | {"anchor": "action"}
    same(rc.Loader(store, 8, ns, **anchor), rc.Loader(store, 8, seconds, **anchor))
    given: Any = {"offsets_ns": {"joints": [2**53 + 1]}}
    nearly = keyed_loader(store, 1, is_quiet=True, device="cpu", **given)
    assert nearly._plan.specs[0].offsets == (2**53 + 1,)  # which no float64 of seconds holds


def test_modes_of_windows_are_those_of_the_loader(store: rc.EpisodeStore) -> None:
    own = {"joints": rc.Window([0.0], normalize="mean_std"), "force": [0.0]}
    loader = rc.Loader(store, 8, own, normalize={"force": "min_max"}, **OPTIONS)
    modes: Any = {"joints": "mean_std", "force": "min_max"}
    expected = rc.Loader(store, 8, {"joints": [0.0], "force": [0.0]}, normalize=modes, **OPTIONS)
    assert loader.spec() == expected.spec()
    assert [s.normalize for s in loader.spec().streams] == ["mean_std", "min_max"]
    same(loader, expected)


def test_a_window_is_frozen() -> None:
    offsets = [0.0, 0.1]
    window = rc.Window(offsets)
    offsets.append(0.2)
    assert window.offsets == (0.0, 0.1)
    with pytest.raises(FrozenInstanceError):
        window.causal = False  # type: ignore[misc]
    assert replace(window, causal=False) == rc.Window([0.0, 0.1], causal=False)
    assert pickle.loads(pickle.dumps(window)) == window


def test_options_of_a_loader_stay_what_they_were(store: rc.EpisodeStore) -> None:
    chosen = [0]
    windows = dict(WINDOWS)
    loader = rc.Loader(store, 8, windows, episodes=rc.Episodes(chosen), **OPTIONS)
    chosen.append(1)
    windows.clear()
    same(pickle.loads(pickle.dumps(loader)), loader)


def test_unknown_options() -> None:
    for kind in (rc.Window, rc.Episodes):
        with pytest.raises(TypeError, match=r"^max_gap: expected an option of rc\.\w+, got 'max_g"):
            kind(max_gap=0.1)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="takes from 1 to 2 positional arguments"):
            kind([0], [1])  # type: ignore[call-arg, misc]


# ---- what they show ------------------------------------------------------------------------------


def test_tables(store: rc.EpisodeStore) -> None:
    window = rc.Window(
        [-0.02, 0.0], method=[("linear", 3), ("slerp_xyzw", 4)], max_gap_s=0.1, relative_to="state"
    )
    assert str(window) == (
        "option          value\n"
        "offsets         -0.02 to 0 s, 2 steps\n"
        "timeline        as the store declares\n"
        "method          linear 3, slerp_xyzw 4\n"
        "outside         hold\n"
        "max_gap_s       0.1\n"
        "tolerance_s     default\n"
        "mean_window_s   none\n"
        "latency_s       0.0\n"
        "causal          True\n"
        "normalize       none\n"
        "relative_to     'state'\n"
        "dtype           the stream's\n"
        "channels_first  False\n"
        "image           frames as they are"
    )
    assert repr(window) == (
        "Window(offsets=(-0.02, 0.0), method=[('linear', 3), ('slerp_xyzw', 4)], max_gap_s=0.1, "
        "relative_to='state')"
    )
    chosen = rc.Episodes([0, 2], split=("train", 0.1))
    assert str(chosen) == ("option   value\nindices  [0, 2]\nsplit    ('train', 0.1)")
    assert repr(chosen) == "Episodes(indices=[0, 2], split=('train', 0.1))"
    assert str(rc.Episodes()) == "option   value\nindices  all"
    for shown in (window, chosen, rc.Window(), rc.Episodes()):
        assert "<table>" in shown._repr_html_()
    loader = rc.Loader(store, 8, {"action": [0.0, 0.02]}, device="cpu")
    title, header, row, caption = str(loader).splitlines()
    assert title == f"Loader: {len(loader.dataset)} samples, {len(loader)} batches of 8 on cpu"
    assert header.split()[:4] == ["key", "Hz", "offsets", "method"]
    assert row.startswith("action  50  0 to 1 rows, 2 steps") and caption.startswith("padded, age")
    assert repr(loader) == (
        f"Loader({len(loader.dataset)} samples, {len(loader)} batches of 8 on cpu: action)"
    )


@pytest.mark.parametrize("wrong", [3, "0.1", ["x"], [], [None]])
def test_a_window_that_the_loader_refuses_still_shows_itself(wrong: Any) -> None:
    for window in (rc.Window(wrong), rc.Window(offsets_ns=wrong), rc.Window(method=wrong)):
        assert str(window) and repr(window) and window._repr_html_()


def test_a_table_of_a_store(store: rc.EpisodeStore) -> None:
    lines = str(store).splitlines()
    assert lines[0].startswith(f"{store.path}: 3 episodes, ")
    assert [line.split()[0] for line in lines[2:]] == list(store.streams)


# ---- from a policy spec --------------------------------------------------------------------------


def test_a_loader_of_a_spec(store: rc.EpisodeStore, tmp_path: Path) -> None:
    transform = rc.transforms.ConvertRotation("pose", "quaternion_xyzw", "rotation_6d", 0)
    loader = rc.Loader(
        store,
        8,
        WINDOWS,
        concat={"obs": ["joints"]},
        with_age=True,
        transforms=[transform],
        **OPTIONS,
    )
    spec = loader.spec()
    spec.save(tmp_path / "spec.json")
    options = {name: value for name, value in OPTIONS.items() if name != "anchor"}
    for given in (spec, tmp_path / "spec.json", str(tmp_path / "spec.json")):
        again = rc.Loader.from_spec(store.path, given, 8, **options)
        assert again.spec() == spec
        assert again.relative.keys() == loader.relative.keys()
        again.load_state_dict(loader.state_dict())
        same(again, loader, 2)
        same(pickle.loads(pickle.dumps(again)), again, 1)


def test_a_loader_of_a_spec_with_a_rate(store: rc.EpisodeStore) -> None:
    loader = rc.Loader(store, 8, {"joints": [-0.01, 0.0]}, anchor=30, device="cpu")
    again = rc.Loader.from_spec(store, loader.spec(), 8, device="cpu")
    assert again.spec() == loader.spec()
    same(again, loader)


def test_a_loader_of_a_spec_of_images(store: rc.EpisodeStore) -> None:
    """Images that nobody normalizes are not normalized by the loader of their spec either."""
    for mode in ({}, {"camera": "mean_std"}):
        loader = rc.Loader(
            store,
            8,
            {"camera": rc.Window([0.0], channels_first=True)},
            normalize=mode,  # type: ignore[arg-type]
            device="cpu",
        )
        again = rc.Loader.from_spec(store, loader.spec(), 8, device="cpu")
        assert list(again.normalizer().normalization) == list(mode)
        same(again, loader)


def test_a_loader_of_a_version_1_file(store: rc.EpisodeStore) -> None:
    path = Path(__file__).parents[2] / "golden" / "policy_spec_v1.json"
    loader = rc.Loader.from_spec(store, path, 8, device="cpu")
    known = rc.PolicySpec.load(path)
    assert loader.spec().concat == known.concat
    for stream, expected in zip(loader.spec().streams, known.streams, strict=True):
        # Version 1 has no nominal rate; `spec` takes the store's.
        given = replace(stream, rate=expected.rate, nominal_rate=None, normalization=None)
        assert given == replace(expected, normalization=None)
    assert loader.next()


def test_specs_that_do_not_fit(store: rc.EpisodeStore, tmp_path: Path) -> None:
    spec = rc.Loader(store, 8, {"joints": [0.0]}, device="cpu").spec()
    with rc.StoreWriter(tmp_path / "other") as writer, writer.episode() as episode:
        episode.add("joints", [0, MS], np.zeros((2, 3), np.float32))
    with rc.StoreWriter(tmp_path / "third") as writer, writer.episode() as episode:
        episode.add("arm", [0, MS], np.zeros((2, 3), np.float32))
    for name, message in (
        ("other", "spec: streams[0]: expected joints of F32 [3], as {} has it, got F32 [7]"),
        ("third", "spec: streams[0].name: expected a stream of {} (arm), got 'joints'"),
    ):
        folder = str(tmp_path / name)
        with pytest.raises(ValueError, match=f"^{re.escape(message.format(folder))}$"):
            rc.Loader.from_spec(folder, spec, 8, device="cpu")
    wrong = replace(spec, streams=(replace(spec.streams[0], offsets=()),))
    with pytest.raises(ValueError, match=r"^spec: streams\[0\]\.(steps|offsets): expected"):
        rc.Loader.from_spec(store, wrong, 8, device="cpu")


def test_every_field_of_a_window_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "loader.md").read_text("utf-8")
    table = page[page.index("## Windows") : page.index("## The batch")]
    for field in fields(rc.Window):
        assert f"| `{field.name}` |" in table, field.name
