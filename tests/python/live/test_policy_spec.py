"""Policy specs: what loaders write, what files may say, and each error whole."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from jsonschema import Draft202012Validator
from loader_options import keyed_loader
from loader_stores import write_store
from spoiled_specs import BEYOND_A_SCHEMA, SPOILED

import robocache as rc
from robocache.loader.policy_spec import VERSION

DOCS = Path(__file__).parents[3] / "docs"
VALIDATOR = Draft202012Validator(json.loads((DOCS / "policy_spec.schema.json").read_text()))
DELTAS = {
    "joints": [-0.02, -0.01, 0.0],
    "pose": [-0.02, -0.01, 0.0],
    "force": [-0.01, 0.0],
    "camera": None,
    "gripper": [0.0],
    "state": [-0.02, 0.0],
    "action": [0.0, 0.02, 0.04],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> rc.EpisodeStore:
    return write_store(tmp_path_factory.mktemp("spec") / "store")


def make_loader(store: rc.EpisodeStore, **options: Any) -> rc.Loader:
    given: dict[str, Any] = {
        "anchor": "action",
        "normalize": {"joints": "mean_std", "action": "min_max"},
        "statistics": {
            "joints": rc.Normalization(np.full(7, 1 / 3), np.full(7, math.pi)),
            "action": {"min": -np.arange(1.0, 6.0), "max": np.arange(1.0, 6.0) / 7},
        },
        "latency_s": {"joints": 0.003},
        "max_gap_s": {"force": 0.1},
        "method": {"force": "mean"},
        "mean_window_s": {"force": 0.01},
        "channels_first": {"camera": True},
        "concat": {"obs": ["joints", "pose"]},
        "device": "cpu",
    }
    return keyed_loader(store, 4, DELTAS, **given | options)


@pytest.fixture(scope="module")
def spec(store: rc.EpisodeStore) -> rc.PolicySpec:
    spec: rc.PolicySpec = make_loader(store).spec()
    return spec


def test_it_says_what_the_loader_does(spec: rc.PolicySpec) -> None:
    assert [stream.name for stream in spec.streams] == list(DELTAS)
    assert (spec.anchor, spec.rate, spec.with_age) == ("action", None, False)
    assert spec.concat == {"obs": ("joints", "pose")}
    assert spec.library == rc.__version__
    joints = spec.stream("joints")
    assert joints.offsets == (-20_000_000, -10_000_000, 0)
    assert joints.causal and joints.timeline == "time" and not joints.reaches_ahead
    assert (joints.latency_ns, joints.tolerance_ns) == (3_000_000, 100_000)
    assert joints.rate is not None and 80 < joints.rate < 101
    camera = spec.stream("camera")
    assert (camera.offsets, camera.has_axis, camera.channels_first) == ((0,), False, True)
    assert (camera.dtype, camera.out_dtype, camera.shape) == ("U8", "F32", (4, 6, 3))
    force = spec.stream("force")
    assert (force.method, force.mean_window_ns, force.max_gap_ns) == ("mean", 10**7, 10**8)
    action = spec.stream("action")
    assert (action.timeline, action.offsets, action.rate) == ("rows", (0, 1, 2), 50.0)
    assert action.reaches_ahead and action.normalize == "min_max"
    assert spec.stream("pose").method == "slerp_xyzw"


def test_it_has_what_the_store_says_about_rows(tmp_path: Path) -> None:
    names = ("shoulder", "elbow", "wrist")
    with rc.StoreWriter(tmp_path / "s") as writer:
        writer.declare("state", rate=50, timeline="rows", units="rad", channels=names)
        with writer.episode() as episode:
            times = np.arange(100) * 10_000_000  # 100 Hz, twice what is declared
            episode.add("state", times, np.zeros((100, 3), np.float32))
            episode.add("force", times, np.zeros((100, 1), np.float32))
    windows = {"state": rc.Window([-0.02, 0.0]), "force": rc.Window()}
    spec = rc.Loader(tmp_path / "s", 1, windows, anchor="state", device="cpu").spec()
    again = rc.PolicySpec.from_json(spec.to_json())
    for state in (spec.stream("state"), again.stream("state")):
        assert (state.channels, state.units, state.nominal_rate) == (names, "rad", 50.0)
        assert state.rate == 100.0
    force = again.stream("force")
    assert (force.channels, force.units, force.nominal_rate) == (None, None, None)
    VALIDATOR.validate(json.loads(spec.to_json()))
    assert rc.Loader.from_spec(tmp_path / "s", spec, 1, device="cpu").spec() == spec
    assert rc.replay_store(tmp_path / "s", spec).differing_bits == 0


def test_what_the_store_says_about_rows_may_be_missing(spec: rc.PolicySpec) -> None:
    """Version 2 had no such fields at first."""
    fields = json.loads(spec.to_json())
    assert fields["streams"][5]["nominal_rate"] == 50.0
    for stream in fields["streams"]:
        for name in ("channels", "units", "nominal_rate"):
            del stream[name]
    VALIDATOR.validate(fields)
    old = rc.PolicySpec.from_json(json.dumps(fields))
    state = old.stream("state")
    assert (state.channels, state.units, state.nominal_rate) == (None, None, None)
    assert state == replace(spec.stream("state"), nominal_rate=None)


def test_a_file_gives_the_same_back(spec: rc.PolicySpec, tmp_path: Path) -> None:
    path = tmp_path / "policy_spec.json"
    spec.save(path)
    again = rc.PolicySpec.load(path)
    assert again == spec and hash(again) == hash(spec)
    for before, after in zip(spec.streams, again.streams, strict=True):
        if before.normalization is not None and after.normalization is not None:
            for x, y in zip(before.normalization, after.normalization, strict=True):
                assert x.tobytes() == y.tobytes()  # each bit of them
    spec.save(path)  # over what is there
    assert [entry.name for entry in tmp_path.iterdir()] == ["policy_spec.json"]


def test_a_folder_that_is_absent_is_named(spec: rc.PolicySpec, tmp_path: Path) -> None:
    path = tmp_path / "absent" / "policy_spec.json"
    with pytest.raises(FileNotFoundError) as error:
        spec.save(path)
    assert error.value.filename == str(path)


def test_the_schema_takes_it(spec: rc.PolicySpec) -> None:
    Draft202012Validator.check_schema(VALIDATOR.schema)
    VALIDATOR.validate(json.loads(spec.to_json()))
    for spoil in (spoiled for spoiled, _ in SPOILED if spoiled not in BEYOND_A_SCHEMA):
        fields = json.loads(spec.to_json())
        spoil(fields)
        assert not VALIDATOR.is_valid(fields), spoil


def test_anchors_of_a_rate(store: rc.EpisodeStore) -> None:
    spec = keyed_loader(store, 4, {"joints": [0.0]}, anchor=30, with_age=True, device="cpu").spec()
    assert (spec.anchor, spec.rate, spec.with_age) == (None, 30.0, True)
    assert rc.PolicySpec.from_json(spec.to_json()) == spec


def test_images_have_a_number_for_each_color(store: rc.EpisodeStore) -> None:
    of_colors = rc.Normalization(np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.25, 0.125]))
    spec = keyed_loader(
        store, 4, {"camera": None}, normalize={"camera": "mean_std"},
        statistics={"camera": of_colors}, dtype=torch.float32, anchor="action", device="cpu",
    ).spec()  # fmt: skip
    scale = spec.stream("camera").normalization
    assert scale is not None and scale.subtract.tolist() == [1, 2, 3]


def test_the_busiest_second_is_the_rate(tmp_path: Path) -> None:
    with rc.StoreWriter(tmp_path / "s") as writer, writer.episode() as episode:
        times = np.concatenate([np.arange(10) * 500, 5000 + np.arange(40) * 20]) * 1_000_000
        episode.add("x", times, np.zeros((50, 1), np.float32))
        episode.add("once", times[:1], np.zeros((1, 1), np.float32))
    spec = rc.Loader(tmp_path / "s", 1, {"x": [0.0], "once": [0.0]}, device="cpu").spec()
    assert (
        spec.stream("x").rate == 40
    )  # of the last 0.8 s: 40 rows, and none within a second before
    assert spec.stream("once").rate is None


# ---- what can't be written -----------------------------------------------------------------------


def keep(batch: Any, generator: Any) -> Any:
    return batch


class Doubled:
    def __call__(self, batch: Any, generator: Any) -> Any:
        return batch

    def to_dict(self) -> dict[str, Any]:
        return {"transform": "doubled", "factor": 2.0}


PLAIN: dict[str, Any] = {"normalize": None, "statistics": None}  # transforms want it so
TRANSFORMS = [
    rc.transforms.ConvertRotation("obs", "quaternion_xyzw", "rotation_6d", 7),
    rc.transforms.RelativePose("obs", "obs", "rotation_vector", 0, 0),
    rc.transforms.AbsoluteToDelta("state", "state", 0.02),
    rc.transforms.DeltaToAbsolute("state", "state"),
    rc.transforms.Normalize(
        rc.Normalizer(
            {
                "action": rc.Normalization(np.full(5, 0.1), np.full(5, 3.0)),
                "camera": rc.Normalization(np.full((3, 1, 1), 0.1), np.full((3, 1, 1), 3.0)),
            }
        )
    ),
]


def test_transforms(store: rc.EpisodeStore) -> None:
    doubled = Doubled()
    loader = make_loader(store, transforms=[keep, *TRANSFORMS], **PLAIN)
    spec = loader.spec(training_only=[keep])
    assert [rc.transforms.from_dict(fields) for fields in spec.transforms] == TRANSFORMS
    assert rc.PolicySpec.from_json(spec.to_json()) == spec
    VALIDATOR.validate(json.loads(spec.to_json()))
    with pytest.raises(ValueError, match=r"^transforms\[0\]: expected one with to_dict, which the"):
        loader.spec()
    with pytest.raises(
        ValueError, match=r"^spec: transforms\[0\].type: expected one of convert_rotation"
    ):
        make_loader(store, transforms=[doubled]).spec()
    with pytest.raises(ValueError, match=r"^training_only\[0\]: expected one of the loader's"):
        loader.spec(training_only=[print])
    with pytest.raises(TypeError, match=r"^training_only: expected a list of transforms, got"):
        loader.spec(training_only=keep)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"type": "nonsense"}, ".type: expected one of convert_rotation, relative_pose, "),
        ({"key": "pose"}, ".type: expected one of convert_rotation, relative_pose, "),
        ({"type": "convert_rotation", "key": "pose"}, ".source: expected quaternion_xyzw, "),
        (
            TRANSFORMS[0].to_dict() | {"by": 1},
            f'."by": expected no such field in version {VERSION}, got 1',
        ),
        (TRANSFORMS[0].to_dict() | {"at": -1}, ".at: expected a whole number from 0 to "),
        (TRANSFORMS[0].to_dict() | {"source": "euler"}, ".source: expected quaternion_xyzw, "),
        (TRANSFORMS[1].to_dict() | {"key": 3}, ".key: expected a text, got 3"),
        (
            TRANSFORMS[2].to_dict() | {"time_step": 0},
            ".time_step: expected a positive finite number of seconds, got 0",
        ),
        (
            {"type": "normalize", "normalization": {"action": {}}},
            '.normalization."action".subtract: expected a number, got none',
        ),
    ],
)
def test_transforms_that_are_wrong(
    spec: rc.PolicySpec, fields: dict[str, Any], message: str
) -> None:
    wrong = replace(spec, transforms=(fields,))
    with pytest.raises(ValueError, match="expected") as error:
        rc.PolicySpec.from_json(wrong.to_json(), "file")
    assert str(error.value).startswith(f"file: transforms[0]{message}")
    assert type(error.value) is ValueError
    assert not VALIDATOR.is_valid(json.loads(wrong.to_json()))


def test_transforms_read_what_a_robot_has_at_the_anchor(store: rc.EpisodeStore) -> None:
    reads = rc.transforms.AbsoluteToDelta
    for transform, message in (
        (reads("state", "state", step=0), ".step: expected the step of 'state' at offset 0, got 0"),
        (reads("state", "state", step=2), ".step: expected the step of 'state' at offset 0, got 2"),
        (
            reads("action", "action"),
            ".start: expected a key whose steps are all 0 or less, got 'action'",
        ),
        (reads("action", "nobody"), ".start: expected a key of the batch, got 'nobody'"),
    ):
        with pytest.raises(ValueError, match="expected") as error:
            make_loader(store, transforms=[transform], **PLAIN).spec()
        assert str(error.value) == f"spec: transforms[0]{message}"
    assert make_loader(store, transforms=[reads("state", "state", step=1)], **PLAIN).spec()


def test_what_is_relative_to_a_stream_that_reaches_ahead(store: rc.EpisodeStore) -> None:
    """It is relative to that stream's causal value at the anchor, which the robot has."""
    options: dict[str, Any] = {
        "timeline": "time", "device": "cpu",
        "relative_to": {"action": rc.Relative("state", channels=[0, 1, 2, None, None])},
    }  # fmt: skip
    steps = {"state": [0.0, 0.02], "action": [0.0, 0.02]}
    spec = keyed_loader(store, 4, steps, **options).spec()
    state, action = spec.streams
    assert state.reaches_ahead and spec.takes_rows(state) and not spec.takes_rows(action)
    assert action.relative_to == ("state", (0, 1, 2, -1, -1), True)
    message = (
        "causal['state']: expected True, which others are relative to, for a spec: trained on rows "
        "that had not arrived, a policy sees others on the robot; got False"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        keyed_loader(store, 4, steps, causal={"state": False}, **options).spec()


def test_loaders_that_have_none(store: rc.EpisodeStore) -> None:
    loader = keyed_loader(store, 4, {"joints": [-0.01, 0.0]}, causal=False, device="cpu")
    with pytest.raises(ValueError, match=r"^causal\['joints'\]: expected True, whose window does"):
        loader.spec()


# ---- what can't be read --------------------------------------------------------------------------


@pytest.mark.parametrize(("spoil", "message"), SPOILED, ids=[m[:60] for _, m in SPOILED])
def test_files_that_are_wrong(
    spec: rc.PolicySpec, tmp_path: Path, spoil: Callable[[Any], None], message: str
) -> None:
    fields = json.loads(spec.to_json())
    spoil(fields)
    path = tmp_path / "policy_spec.json"
    path.write_text(json.dumps(fields))
    with pytest.raises(ValueError, match="expected") as error:
        rc.PolicySpec.load(path)
    assert str(error.value).startswith(f"{path}: {message}")
    assert type(error.value) is ValueError


def test_files_that_are_none(spec: rc.PolicySpec, tmp_path: Path) -> None:
    path = tmp_path / "policy_spec.json"
    wanted = "expected a policy spec, as loader.spec().save(...) writes it"
    with pytest.raises(FileNotFoundError) as missing:
        rc.PolicySpec.load(path)
    assert str(missing.value) == f"{path}: {wanted}, got no such file"
    with pytest.raises(IsADirectoryError) as folder:
        rc.PolicySpec.load(tmp_path)
    assert str(folder.value) == f"{tmp_path}: {wanted}, got a folder"
    for text, message in (
        (b"", "expected JSON, got nothing (0 bytes)"),
        (b" \n", "expected JSON, got white space alone (2 bytes)"),
        (b"{", "expected JSON, got one that ends early, after 1 byte"),
        (spec.to_json().encode()[:99], "expected JSON, got one that ends early, after 99 bytes"),
        (b"anchor: joints\n", 'expected JSON, got "anchor: joints\\n" at byte 1'),
        (b'{"library": 1,}', 'expected JSON, got "}" at byte 15'),
        (b"\x00\x1b[31m", 'expected JSON, got "\\u0000\\u001b[31m" at byte 1'),
        (b'{"library": "\xff"}', 'expected JSON, got "\ufffd\\"}" at byte 14'),
        (b"[1]", "expected a JSON object, got [1]"),
        (b'{"a": 1, "a": 2}', 'expected each name once in an object, got "a" twice'),
    ):
        path.write_bytes(text)
        with pytest.raises(ValueError, match="expected") as error:
            rc.PolicySpec.load(path)
        assert str(error.value) == f"{path}: {message}"


def test_nothing_is_written_that_could_not_be_read(spec: rc.PolicySpec, tmp_path: Path) -> None:
    first = replace(spec.streams[0], out_dtype="I32")
    with pytest.raises(ValueError, match=r"streams\[0\].out_dtype: expected"):
        replace(spec, streams=(first, *spec.streams[1:])).save(tmp_path / "spec.json")
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError):
        spec.save(tmp_path / "nowhere" / "spec.json")
