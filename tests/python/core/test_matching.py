"""How options name streams: the same for readers, commands and exports."""

import pytest

from robocache.core.matching import choose, find, may_name_below, stored_names

NAMES = [
    "/imu", "/imu/orientation", "/left/imu/orientation", "/tf/odom/base/rotation",
    "observation.state", "observation.images.top", "action", "w_x [rad s^-1]",
]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("/imu", [0]),  # in full, so nothing below it
        ("/imu*", [0, 1]),
        ("/tf/*", [3]),
        ("/tf", [3]),
        ("/tf/odom", [3]),
        ("/left", [2]),
        ("orientation", [1, 2]),
        ("imu/orientation", [1, 2]),
        ("rotation", [3]),
        ("observation", [4, 5]),
        ("observation.images", [5]),
        ("state", [4]),
        ("act?on", [6]),
        ("w_x [rad s^-1]", [7]),
        ("w_x [*", [7]),
        ("im", []),
        ("ation", []),
        ("/rotation", []),
    ],
)
def test_patterns(pattern: str, expected: list[int]) -> None:
    pairs = [(name, name) for name in NAMES]
    assert [NAMES.index(name) for name, _ in find(pattern, pairs)] == expected


def test_a_topic_stands_for_its_streams() -> None:
    names = [("/imu/orientation", "/imu"), ("/imu/mag", "/imu/mag"), ("/odom/pose", "/odom")]
    assert find("/imu", names) == names[:1]
    assert find("/?*", names) == names


def test_choose() -> None:
    assert choose(["state", "/imu"], [(name, name) for name in NAMES], "streams") == [
        "/imu",
        "observation.state",
    ]
    with pytest.raises(ValueError) as error:  # noqa: PT011 (the message is compared whole)
        choose(["/x"], [("a", "a"), ("b", "b")], "streams")
    assert str(error.value) == "streams: expected some of a, b; got '/x'"
    with pytest.raises(ValueError) as error:  # noqa: PT011
        choose(["/odm"], [(f"/a{i}", "/a") for i in range(40)] + [("/odom", "/odom")], "streams")
    names = ", ".join(["/odom", *(f"/a{i}" for i in range(11))])
    assert str(error.value) == f"streams: expected some of {names} and 29 more; got '/odm'"
    with pytest.raises(ValueError, match=r"^streams: expected some of none; got 'a'$"):
        choose(["a"], [], "streams")


def test_a_store_says_which_topic_a_stream_is_from() -> None:
    names = stored_names(
        {
            "/imu/orientation": "topic /imu (sensor_msgs/msg/Imu)",
            "/json/x": "topic /json",
            "esc/m.0": "topic esc, instance 0",
            "esc.1/m.0": "topic esc, instance 1",
            "action": "column action",
            "state": None,
        }
    )
    assert [topic for _, topic in names] == ["/imu", "/json", "esc", "esc.1", "action", "state"]


@pytest.mark.parametrize(
    ("pattern", "topic", "may"),
    [
        ("/tf/*", "/tf", True),
        ("/t*", "/tf", True),
        ("/tf/a/b/rotation", "/tf", True),
        ("*rotation", "/tf", True),
        ("/tf", "/tf", False),  # the topic itself
        ("/tfs/*", "/tf", False),
        ("/imu/*", "/tf", False),
    ],
)
def test_what_may_name_a_stream_below(pattern: str, topic: str, may: bool) -> None:
    assert may_name_below(pattern, topic) == may
