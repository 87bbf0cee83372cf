"""The Python node of examples/ros2, with a stand-in for ROS, which is not installed here."""

from __future__ import annotations

import array
import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_ros
import numpy as np
import pytest
from fake_ros import CompressedImage, Header, Image, JointState, Time
from live_specs import MS, make_stream

import robocache as rc
from robocache.loader.window_spec import ImageEncoding

PACKAGE = Path(__file__).parents[3] / "examples" / "ros2" / "robocache_policy_py"
CHANNELS = ("shoulder", "elbow")
SPEC = rc.PolicySpec(
    [
        make_stream("/joint_states/position", channels=CHANNELS, offsets=(0,)),
        make_stream("/joint_states/velocity", dtype="F64", channels=CHANNELS, offsets=(0,)),
        make_stream("camera", dtype="U8", shape=(2, 3, 3), out_dtype="U8", offsets=(0,)),
        make_stream(
            "action",
            channels=CHANNELS,
            offsets=(0, 20 * MS),
            causal=False,
            normalization=rc.Normalization(np.array([1.0, -2.0]), np.array([0.5, 4.0])),
        ),
    ],
    anchor="/joint_states/position",
)
TOPICS = ["camera:=/camera/image_raw"]
POLICY_MODULE = """
import torch

def load():
    def policy(batch):
        return batch["/joint_states/position"] * 0 + torch.tensor([0.5, 4.0])
    return policy
"""


@pytest.fixture
def ros(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    SPEC.save(tmp_path / "spec.json")
    (tmp_path / "my_policy.py").write_text(POLICY_MODULE)
    monkeypatch.syspath_prepend(str(PACKAGE))
    monkeypatch.syspath_prepend(str(tmp_path))
    overrides = {"spec": str(tmp_path / "spec.json"), "topics": TOPICS}
    monkeypatch.setattr(fake_ros.Node, "overrides", overrides)
    with fake_ros.installed() as calls:
        yield calls
    for name in [n for n in sys.modules if n.startswith(("robocache_policy_py", "my_policy"))]:
        del sys.modules[name]


def make_node(**overrides: Any) -> Any:
    fake_ros.Node.overrides.update(overrides)
    return importlib.import_module("robocache_policy_py.policy_node").PolicyNode()


def joints(ms: int, names: list[str], position: list[float], velocity: Any = ()) -> JointState:
    return JointState(
        Header(Time(0, ms * MS)), names, array.array("d", position), array.array("d", velocity)
    )


def image(encoding: str, step: int = 9, **changes: Any) -> Image:
    data = array.array("B", range(2 * step))
    fields = {"height": 2, "width": 3, "encoding": encoding, "step": step, "data": data}
    return Image(Header(Time(0, 5 * MS)), **fields | changes)


def test_messages_become_rows(ros: Any) -> None:
    node = make_node()
    assert {(kind.__name__, topic) for kind, topic in node.callbacks} == {
        ("JointState", "/joint_states"), ("Image", "/camera/image_raw")
    }  # fmt: skip
    assert len({id(group) for group in node.groups}) == 3  # two topics and the timer
    node.callbacks[JointState, "/joint_states"](
        joints(5, ["elbow", "gripper", "shoulder"], [2, 9, 1], [4, 9, 3])
    )
    node.callbacks[Image, "/camera/image_raw"](image("bgr8", step=12))
    batch = node.loop.aligner.query(5 * MS)
    assert batch["/joint_states/position"].tolist() == [[[1, 2]]]
    assert batch["/joint_states/velocity"].tolist() == [[[3, 4]]]
    assert batch["camera"][0, 0].flatten().tolist() == [
        2, 1, 0, 5, 4, 3, 8, 7, 6, 14, 13, 12, 17, 16, 15, 20, 19, 18
    ]  # fmt: skip
    assert node.logger.warnings == []


def test_a_driver_may_change_its_order_and_leave_arrays_out(ros: Any) -> None:
    node = make_node()
    push = node.callbacks[JointState, "/joint_states"]
    push(joints(5, ["elbow", "shoulder"], [2, 1]))
    push(joints(6, ["shoulder", "elbow"], [3, 4]))
    aligner = node.loop.aligner
    assert aligner.query(5 * MS)["/joint_states/position"].tolist() == [[[1, 2]]]
    assert aligner.query(6 * MS)["/joint_states/position"].tolist() == [[[3, 4]]]
    assert aligner.stats()["/joint_states/velocity"].pushed == 0 and not node.logger.warnings


def test_joints_with_other_names(ros: Any) -> None:
    node = make_node(joint_names=["shoulder:=left/1", "elbow:=left/2"])
    push = node.callbacks[JointState, "/joint_states"]
    push(joints(5, ["left/2", "left/1"], [2, 1]))
    push(joints(5, ["right/2", "right/1"], [9, 9]))  # of another node: ignored
    position = node.loop.aligner.query(5 * MS)["/joint_states/position"]
    assert position.tolist() == [[[1, 2]]] and not node.logger.warnings


def test_messages_that_do_not_fit_are_warned_of(ros: Any) -> None:
    node = make_node()
    push = node.callbacks[JointState, "/joint_states"]
    push(joints(5, ["elbow"], [2]))
    push(joints(5, ["elbow", "shoulder"], [2, 1, 3]))
    show = node.callbacks[Image, "/camera/image_raw"]
    show(image("rgb8", height=4))
    show(image("16UC1"))
    show(image("rgb8", data=array.array("B", [0] * 17)))
    wanted = "/camera/image_raw: expected 2 x 3 pixels of rgb8 or bgr8, as recorded, got "
    assert node.logger.warnings == [
        "/joint_states: names['/joint_states/position']: expected all of the stream's channels, "
        "got none named 'shoulder' (the message has 'elbow')",
        "/joint_states: /joint_states/position: values: expected [2], got [3]",
        wanted + "4 x 3 of rgb8",
        wanted + "2 x 3 of 16UC1",
        wanted + "2 x 3 of rgb8",
    ]
    for i in range(20):
        push(joints(5, ["elbow", "shoulder", f"extra {i}"], [2, 1, 0]))
    assert (
        node.logger.warnings[-1] == "/joint_states: expected at most 16 lists of joints, got more"
    )


def test_images_that_were_jpeg_come_as_compressed_images(ros: Any, tmp_path: Path) -> None:
    encoding = ImageEncoding("jpeg", 90, "4:2:0")
    camera = replace(SPEC.stream("camera"), encoding=encoding)
    streams = [camera if stream.name == "camera" else stream for stream in SPEC.streams]
    replace(SPEC, streams=streams).save(tmp_path / "jpeg.json")
    node = make_node(spec=str(tmp_path / "jpeg.json"))
    show = node.callbacks[CompressedImage, "/camera/image_raw"]
    assert (Image, "/camera/image_raw") not in node.callbacks
    header, pixels = Header(Time(0, 5 * MS)), np.full((1, 2, 3, 3), 200, np.uint8)
    file = rc.JpegFrames.encode(pixels).files[0].tobytes()
    show(CompressedImage(header, "rgb8; jpeg compressed bgr8", array.array("B", file)))
    assert (node.loop.aligner.query(5 * MS)["camera"] == 200).all() and not node.logger.warnings
    turned = rc.JpegFrames.encode(pixels.swapaxes(1, 2)).files[0].tobytes()
    show(CompressedImage(header, "jpeg", array.array("B", turned)))
    show(CompressedImage(header, "rgb8; png compressed", array.array("B", b"\x89PNG")))
    assert node.logger.warnings == [
        "/camera/image_raw: camera: values: expected a JPEG of 3x2x3, got 2x3x3",
        "/camera/image_raw: camera: values: expected JPEG, got bytes that do not begin as a JPEG "
        "file (4 bytes)",
    ]


def push_all(node: Any) -> None:
    node.callbacks[JointState, "/joint_states"](joints(5, list(CHANNELS), [1, 2], [3, 4]))
    node.callbacks[Image, "/camera/image_raw"](image("rgb8"))


def test_the_timer_runs_the_policy(ros: Any) -> None:
    node = make_node(policy="my_policy:load", rate_hz=25.0)
    [(period_s, step)] = node.timers
    [commands] = node.publishers_made
    assert period_s == 0.04 and (commands.topic, commands.depth) == ("commands", 1)
    push_all(node)
    node.now_ns = 5 * MS
    step()
    assert [message.data.tolist() for message in commands.sent] == [[2.0, -1.0]]


def test_without_a_policy_nothing_is_commanded(ros: Any) -> None:
    node = make_node()
    push_all(node)
    node.now_ns = 5 * MS
    node.timers[0][1]()
    assert node.publishers_made[0].sent == [] and node.logger.warnings == []


def test_nothing_is_commanded_while_a_sensor_is_silent(ros: Any) -> None:
    node = make_node(policy="my_policy:load")
    node.callbacks[Image, "/camera/image_raw"](image("rgb8"))
    node.now_ns = 5 * MS
    node.timers[0][1]()
    assert node.publishers_made[0].sent == []
    assert node.logger.warnings == [
        "no command: /joint_states/position: no_rows, /joint_states/velocity: no_rows"
    ]


def test_main_ends_as_it_is_interrupted(ros: Any) -> None:
    importlib.import_module("robocache_policy_py.policy_node").main()
    assert (ros.init, ros.shutdown) == (1, 1)
    assert fake_ros.MultiThreadedExecutor.nodes.pop().callbacks == {}


def test_a_spec_without_names_of_channels(ros: Any, tmp_path: Path) -> None:
    stream = make_stream("/arm/position", offsets=(0,))
    rc.PolicySpec([stream], anchor="/arm/position").save(tmp_path / "unnamed.json")
    node = make_node(spec=str(tmp_path / "unnamed.json"), topics=[""], action="/arm/position")
    assert node.logger.warnings == [
        "/arm/position: the spec has no names of channels; joints are taken in their order"
    ]
    node.callbacks[JointState, "/arm"](joints(5, ["b", "a"], [1, 2]))
    assert node.loop.aligner.query(5 * MS)["/arm/position"].tolist() == [[[1, 2]]]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"topics": [""]},
            None,  # the name of the stream is its topic
        ),
        (
            {"topics": ["/joint_states/position:=/arm"]},
            "topics['/joint_states/position']: expected a topic and a field of JointState, as in "
            "'/joint_states/position', got '/arm'",
        ),
        (
            {"topics": ["action:=/a/position"]},
            "topics: expected streams that take rows (/joint_states/position, "
            "/joint_states/velocity, camera), got 'action'",
        ),
        ({"topics": ["camera"]}, "topics: expected KEY:=VALUE, got 'camera'"),
        (
            {"joint_names": ["a:=b", "a:=c"]},
            "joint_names: expected each key once, got 'a' twice",
        ),
        ({"action": "jump"}, "action: expected a key of the batch, got 'jump'"),
        ({"rate_hz": 0.0}, "rate_hz: expected a rate above 0, got 0.0"),
        (
            {"policy": "my_policy:missing"},
            "policy: expected MODULE:FUNCTION, a function that returns the policy, got "
            "'my_policy:missing' (module 'my_policy' has no attribute 'missing')",
        ),
    ],
)
def test_parameters_that_do_not_fit(
    ros: Any, overrides: dict[str, Any], message: str | None
) -> None:
    if message is None:
        assert (Image, "camera") in make_node(**overrides).callbacks
        return
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make_node(**overrides)
