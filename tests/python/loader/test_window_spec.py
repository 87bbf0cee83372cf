"""The record of a window: Python, the library's table, the schema and the manifest agree."""

from __future__ import annotations

import ctypes
import json
from dataclasses import MISSING, fields
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import robocache as rc
from robocache.align import options
from robocache.core import library
from robocache.core.names import METHODS, Outside
from robocache.loader import plan
from robocache.loader.policy_spec import VERSION
from robocache.loader.window_spec import RelativeTo, WindowSpec
from robocache.store.library import window_fields

ROOT = Path(__file__).parents[3]
SCHEMA = json.loads((ROOT / "docs" / "policy_spec.schema.json").read_text())


def test_defaults_are_the_librarys() -> None:
    defaults = window_fields()["defaults"]
    spec = WindowSpec("", "F32", ())
    assert spec.to_fields() == defaults
    assert [field.name for field in fields(WindowSpec)] == list(spec.to_fields())
    required = [field.name for field in fields(WindowSpec) if field.default is MISSING]
    assert required == ["name", "dtype", "shape"]


def test_the_schema_is_the_librarys_table() -> None:
    """Where it differs: put the printed definition in docs/policy_spec.schema.json."""
    schema = window_fields()["schema"]
    assert SCHEMA["$defs"]["stream"] == schema, json.dumps(schema, indent=2)
    assert SCHEMA["properties"]["robocache_policy_spec"]["const"] == VERSION
    assert SCHEMA["title"] == f"RoboCache policy spec, version {VERSION}"
    Draft202012Validator.check_schema(SCHEMA)


def test_fields_of_specs_are_documented() -> None:
    page = (ROOT / "docs" / "live.md").read_text("utf-8")
    table = page[page.index("## The policy spec") : page.index("## Pushing rows")]
    assert f"| `robocache_policy_spec` | {VERSION}, " in table
    for field in fields(WindowSpec):
        assert f"`{field.name}`" in table, field.name


def test_one_list_of_methods() -> None:
    """The library's list, in the order of its numbers, is that of every place with the names."""
    methods = rc.build_info().methods
    assert methods == tuple(options.METHODS) == options.METHOD_NAMES
    assert [options.METHODS[name] for name in methods] == list(range(len(methods)))
    assert methods == METHODS
    assert tuple(SCHEMA["$defs"]["method"]["enum"]) == methods
    assert rc.build_info().outsides == options.OUTSIDE_NAMES == get_args(Outside)
    assert tuple(window_fields()["schema"]["properties"]["outside"]["enum"]) == get_args(Outside)


@pytest.mark.parametrize("method", rc.build_info().methods)
def test_manifests_take_every_method(tmp_path: Path, method: str) -> None:
    with rc.StoreWriter(tmp_path / "s") as writer:
        writer.declare("x", method=method)
        with writer.episode() as episode:
            episode.add("x", np.arange(3), np.ones((3, 4), np.float32))
    assert rc.EpisodeStore(tmp_path / "s").streams["x"].method == method


def test_windows_come_back_from_json() -> None:
    window = WindowSpec(
        "action",
        "F32",
        (2, 2),
        rate=100.5,
        offsets=(-10, 0),
        method=(("linear", 3), ("angle", 1)),
        max_gap_ns=7,
        normalization=rc.Normalization(np.array([0.1]), np.array([1 / 3])),
        normalize="mean_std",
        relative_to=RelativeTo("state", (0, 1, -1, 2), causal=False),
    )
    again = WindowSpec.from_json(window.to_json())
    assert again.to_fields() == window.to_fields()
    assert again.method == window.method and again.relative_to == window.relative_to


def test_version_1_is_read() -> None:
    """A file that version 0.1 wrote, before specs had version 2."""
    spec = rc.PolicySpec.load(ROOT / "tests" / "golden" / "policy_spec_v1.json")
    assert [stream.name for stream in spec.streams] == [
        "joints", "pose", "force", "camera", "gripper", "state", "action"
    ]  # fmt: skip
    joints, camera, action = (spec.stream(name) for name in ("joints", "camera", "action"))
    assert joints.offsets == (-20_000_000, -10_000_000, 0) and joints.normalize == "mean_std"
    assert (
        joints.normalization is not None and joints.normalization.subtract.tolist() == [1 / 3] * 7
    )
    assert camera.channels_first and camera.normalize is None
    assert action.relative_to == RelativeTo("state", (0, 1, 2, -1, -1))
    written = json.loads(spec.to_json())
    assert written["robocache_policy_spec"] == VERSION
    Draft202012Validator(SCHEMA).validate(written)
    assert rc.PolicySpec.from_json(spec.to_json()) == spec
    rc.LiveAligner(spec)


def test_version_1_errors_have_its_words() -> None:
    text = (ROOT / "tests" / "golden" / "policy_spec_v1.json").read_text()
    for old, new, message in (
        ('"steps"', '"offsets"', 'old: streams[0]."offsets": expected no such field in version 1'),
        (
            '"to": "state"',
            '"to": "nobody"',
            'old: streams[6].relative.to: expected the name of a stream, got "nobody"',
        ),
        (
            '"colours_first": true',
            '"colours_first": 1',
            "old: streams[3].colours_first: expected true or false, got 1",
        ),
    ):
        assert old in text
        with pytest.raises(ValueError, match="expected") as error:
            rc.PolicySpec.from_json(text.replace(old, new, 1), "old")
        assert str(error.value).startswith(message)


def test_a_library_of_another_layout_is_an_import_error() -> None:
    class Wider(ctypes.Structure):
        _fields_ = (*plan.WindowOutput._fields_, ("more", ctypes.c_int64))

    loaded = library.load()
    library.check_layout(loaded, "robocache_batch_layout", {"WindowOutput": plan.WindowOutput})
    for function, got in (("robocache_batch_layout", "32"), ("robocache_no_layout", "none")):
        with pytest.raises(ImportError, match="WindowOutput") as error:
            library.check_layout(loaded, function, {"WindowOutput": Wider})
        assert str(error.value) == (
            f"robocache: {loaded._name}: expected a library whose WindowOutput has 40 bytes, got "
            f"{got} (it is of another version than the Python package; `pip install .` in the "
            "source tree installs both anew)"
        )
