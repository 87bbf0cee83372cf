"""The data doctor: each finding on data that has it, and none of them on data that has nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from robocache.doctor import Finding, Series, check_episode
from robocache.doctor.episodes import (
    clock_drift,
    constant_channels,
    coverage,
    dropout,
    missing_streams,
    short_episodes,
)
from robocache.doctor.finding import duration
from robocache.doctor.motion import never_moves
from robocache.doctor.times import TIME_CHECKS
from robocache.doctor.values import VALUE_CHECKS
from robocache.readers import StreamMetadata

START = 1_700_000_000_000_000_000
MS = 1_000_000
S = 1_000_000_000


def clock(rows: int, hz: float = 100.0, jitter: float = 0.1, seed: int = 0) -> Any:
    """[rows] ns at a rate, each row off by `jitter` periods (standard deviation)."""
    rng = np.random.default_rng(seed)
    off = np.clip(rng.normal(0, jitter, rows), -0.45, 0.45)
    return START + np.rint((np.arange(rows) + off) / hz * 1e9).astype(np.int64)


def movement(rows: int, channels: int = 3, seed: int = 0) -> Any:
    """[rows,channels] float32: smooth, with a sensor's noise."""
    rng = np.random.default_rng(seed)
    t = np.arange(rows)[:, None] / 100
    smooth = np.sin(t * rng.uniform(0.5, 2, channels) + rng.uniform(0, 6, channels))
    return (smooth + rng.normal(0, 1e-3, (rows, channels))).astype(np.float32)


def turning(rows: int) -> Any:
    """[rows,4] unit quaternions x y z w, of one sign throughout."""
    t = np.arange(rows) / 100
    half = 0.5 * np.sin(t)
    return np.stack([0 * t, 0 * t, np.sin(half), np.cos(half)], axis=1).astype(np.float32)


def clean(rows: int = 2000, **metadata: Any) -> Series:
    values = turning(rows) if "slerp" in str(metadata.get("method")) else movement(rows)
    return Series("arm", clock(rows), values, StreamMetadata(**metadata))


def kinds(found: list[Finding]) -> set[str]:
    return {finding.kind for finding in found}


# ---- one stream ----------------------------------------------------------------------------------


def back(s: Series) -> Series:
    times = s.times.copy()
    times[700:] -= 50 * MS
    return replace(s, times=times)


def repeated(s: Series) -> Series:
    times = s.times.copy()
    times[501] = times[500]
    return replace(s, times=times)


def zero_stamp(s: Series) -> Series:
    times = s.times.copy()
    times[0] = 0
    return replace(s, times=times)


def silent(s: Series) -> Series:
    keep = np.ones(len(s.times), bool)
    keep[900:960] = False
    return replace(s, times=s.times[keep], values=s.values[keep])


def losing(s: Series) -> Series:
    times = clock(len(s.times), jitter=0.01)
    keep = np.ones(len(times), bool)
    keep[[300, 700, 1100]] = False
    return replace(s, times=times[keep], values=s.values[keep])


def slowing(s: Series) -> Series:
    steps = np.diff(s.times, prepend=s.times[0] - 10 * MS)
    steps[1200:] *= 2
    return replace(s, times=START + np.cumsum(steps))


def misnamed(s: Series) -> Series:
    return replace(s, metadata=StreamMetadata(rate=30.0))


def ahead(s: Series) -> Series:
    return replace(s, received=s.times - 5 * MS)


def nan(s: Series) -> Series:
    values = s.values.copy()
    values[800, 1] = np.nan
    return replace(s, values=values)


def frozen(s: Series) -> Series:
    values = s.values.copy()
    values[1000:1040] = values[1000]
    return replace(s, values=values)


def glitching(s: Series) -> Series:
    values = s.values.copy()
    values[[600, 900], 2] = 40
    return replace(s, values=values)


def clipped(s: Series) -> Series:
    return replace(s, values=np.clip(s.values, -0.6, 0.6))


def shrunk(s: Series) -> Series:
    return replace(
        s, values=turning(len(s.times)) * 0.9, metadata=StreamMetadata(method="slerp_xyzw")
    )


def flipped(s: Series) -> Series:
    q = turning(len(s.times))
    q[500:] *= -1
    return replace(s, values=q, metadata=StreamMetadata(method="slerp_xyzw"))


def flipped_in_linear(s: Series) -> Series:
    q = np.concatenate([s.values, turning(len(s.times))], axis=1)
    q[500:, 3:] *= -1
    names = ("x", "y", "z", "q.x", "q.y", "q.z", "q.w")
    return replace(s, values=q, metadata=StreamMetadata(method="linear", channels=names))


def wrapping(s: Series) -> Series:
    t = np.arange(len(s.times)) / 100
    angle = np.mod(2 * t + np.pi, 2 * np.pi) - np.pi
    return replace(s, values=np.stack([angle, np.sin(t)], axis=1))


def wrapping_degrees(s: Series) -> Series:
    metadata = StreamMetadata(units="deg", channels=("yaw", "pitch"))
    return replace(wrapping(s), values=np.rad2deg(wrapping(s).values), metadata=metadata)


FAULTS: list[tuple[Callable[[Series], Series], str, str, float | None]] = [
    # what, kind, severity, seconds after the start where it is first seen
    (back, "times_back", "error", None),
    (repeated, "times_repeat", "warning", 5.0),
    (zero_stamp, "far_time", "error", None),
    (silent, "gap", "warning", 9.0),
    (losing, "lost_rows", "info", 3.0),
    (slowing, "rate_change", "warning", 12.5),
    (misnamed, "wrong_rate", "warning", 0.0),
    (ahead, "arrives_early", "warning", 0.0),
    (nan, "not_finite", "warning", 8.0),
    (glitching, "spike", "warning", 6.0),
    (frozen, "stuck", "warning", 10.0),
    (clipped, "saturated", "warning", None),
    (shrunk, "not_unit", "warning", 0.0),
    (flipped, "sign_flip", "info", 5.0),
    (flipped_in_linear, "quaternion_linear", "warning", 5.0),
    (wrapping, "angle_wrap", "warning", 1.57),
    (wrapping_degrees, "angle_wrap", "warning", 1.57),
]


def test_steps_beyond_int64() -> None:
    """Times further apart than int64 goes are not taken for times that go back."""
    low, high = -(2**62), 2**62 + 5
    series = Series("a", np.array([low, high, low, low + 7]), np.zeros((4, 1)), StreamMetadata())
    largest = 2**63 - 1
    assert series.steps.tolist() == [largest, -largest, 7]


@pytest.mark.parametrize("metadata", [{}, {"method": "slerp_xyzw"}, {"rate": 100.0}], ids=str)
@pytest.mark.parametrize("rows", [0, 1, 2, 5, 50, 2000])
def test_clean_data_has_no_finding(rows: int, metadata: dict[str, Any]) -> None:
    assert check_episode([clean(rows, **metadata)]) == []


@pytest.mark.parametrize(
    ("fault", "kind", "severity", "at"), FAULTS, ids=[fault[0].__name__ for fault in FAULTS]
)
def test_fault(
    fault: Callable[[Series], Series], kind: str, severity: str, at: float | None
) -> None:
    found = check_episode([fault(clean())], 7)
    assert kinds(found) == {kind}, found
    (finding,) = found
    assert finding.severity == severity
    assert finding.stream == "arm"
    assert finding.episode == 7
    assert finding.text and finding.advice
    if at is not None:
        assert finding.time_s == pytest.approx(at, abs=0.6)


def test_every_check_has_a_fault() -> None:
    assert {check.__name__ for check in TIME_CHECKS + VALUE_CHECKS} == {k for _, k, _, _ in FAULTS}


def test_texts() -> None:
    """The texts of findings, as a user reads them."""
    (found,) = check_episode([nan(clean(channels=("j0", "j1", "j2")))])
    assert found.text == "1 of 2,000 rows have NaN, in channel j1"
    (found,) = check_episode([back(clean())])
    assert found.text.startswith("times go back once, by up to 37")
    (found,) = check_episode([silent(clean())])
    assert found.text.startswith("silent once for more than 3 usual intervals, longest 607")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(1e-7, "100 ns"), (0.601, "601 ms"), (1234, "1,234 s"), (999.9, "1,000 s"), (7200, "2 h"),
     (1.7e9, "19,676 d")],
)  # fmt: skip
def test_durations(seconds: float, words: str) -> None:
    assert duration(1e9 * seconds) == words


def test_rows_that_are_not_valid_are_left_out() -> None:
    series = nan(clean())
    valid = np.ones(len(series.times), bool)
    valid[800] = False
    assert check_episode([replace(series, valid=valid)]) == []


def test_times_made_from_a_rate_have_nothing_to_tell() -> None:
    series = silent(clean())
    assert check_episode([replace(series, metadata=StreamMetadata(timeline="rows"))]) == []


def test_what_holds_as_a_rule_is_not_stuck() -> None:
    """A command, and a 30 Hz value that is sent at 100 Hz."""
    rows = np.arange(2000)
    held = np.where(rows < 1000, 0.0, 80.0)[:, None]
    slow = movement(2000)[rows // 3 * 3]
    for values in (held, slow):
        assert check_episode([replace(clean(), values=values)]) == []


def test_rest_at_the_end_of_the_range_is_not_saturated() -> None:
    values = np.minimum(movement(2000), movement(2000)[:1])
    t = np.arange(2000)[:, None] / 2000
    values = np.clip(2 * t, 0, 1) * np.ones(3)  # moves there and rests
    found = check_episode([replace(clean(), values=values)])
    assert "saturated" not in kinds(found)


def test_a_gripper_and_a_setpoint_of_zero_are_not_saturated() -> None:
    """They are noted; an arm's channel that is clipped beside them is still a warning."""
    clip = clipped(clean()).values
    rng = np.random.default_rng(0)
    grip = np.clip(
        np.where(np.sin(np.arange(2000) / 80) > 0, 2, -2) + rng.normal(0, 1.2, 2000), 0, 1
    )
    throttle = np.maximum(movement(2000)[:, 0], 0)
    for values, channels in (
        (clip, ("gripper_l", "gripper_r", "thumb")),
        (grip[:, None], ("7",)),
        (throttle[:, None], ("throttle",)),
    ):
        series = replace(clean(channels=channels), values=values.astype(np.float32))
        assert {(f.kind, f.severity) for f in check_episode([series])} == {("saturated", "info")}
    values = np.concatenate([clip[:, 1:2], throttle[:, None]], axis=1)
    (found,) = check_episode([replace(clean(channels=("elbow", "throttle")), values=values)])
    assert (found.severity, found.text.split()[:2]) == ("warning", ["channel", "elbow"])


def test_a_robot_at_rest_is_not_stuck() -> None:
    """Its speed is zero then, or nothing else moves either; if something does, a sensor hangs."""
    arm = frozen(clean())
    (alone,) = check_episode([arm])
    assert alone.severity == "warning" and alone.rows == ((1001, 1040),)
    speed, other = (
        replace(clean(), name=n, values=movement(2000, 3, 5)) for n in ("speed", "hand")
    )
    resting = speed.values.copy()
    resting[995:1045] = 0
    holding = frozen(other)
    noise = replace(clean(), name="imu", values=movement(2000, 3, 7))
    for streams, severity in (
        ([arm, speed, noise], "warning"),
        ([arm, replace(speed, values=resting), noise], "info"),
        ([arm, holding], "info"),
        ([arm, holding, noise], "warning"),
    ):
        found = [f for f in check_episode(streams) if f.kind == "stuck" and f.stream == "arm"]
        assert [f.severity for f in found] == [severity], streams
        assert bool(found[0].rows) == (severity == "warning")


def test_a_command_of_zero_is_not_stuck() -> None:
    values = movement(2000)
    values[1000:1040] = 0
    (found,) = check_episode([replace(clean(), values=values)])
    assert (found.kind, found.severity, found.rows) == ("stuck", "info", ())


def test_speeds_are_no_angles() -> None:
    """By unit, by name, and by how they jump: an angle has no jumps of half a turn."""
    wrap = wrapping(clean())
    for metadata in (
        StreamMetadata(units="rad/s"),
        StreamMetadata(units="m"),
        StreamMetadata(channels=("angular_velocity", "gyro_z")),
    ):
        assert check_episode([replace(wrap, metadata=metadata)]) == []
    assert "angle_wrap" in kinds(
        check_episode([replace(wrap, metadata=StreamMetadata(units="rad"))])
    )
    rng = np.random.default_rng(0)
    speed = np.repeat(rng.uniform(-3.14, 3.14, 100), 20)[:, None]  # a command in steps
    assert "angle_wrap" not in kinds(check_episode([replace(clean(), values=speed)]))


def test_an_impact_is_not_a_spike() -> None:
    """A robot at rest may be pushed once; speeds and forces may jump: only a note."""
    values = clean().values.copy()
    values[:, 1] = 0
    values[1500:, 1] = 1e-6 * np.arange(500)
    values[1500, 1] = 5
    assert "spike" not in kinds(check_episode([replace(clean(), values=values)]))
    (found,) = check_episode([replace(glitching(clean()), name="wrench/force")])
    assert (found.kind, found.severity, found.rows) == ("spike", "info", ())


def test_rows_of_findings_are_those_of_the_stream() -> None:
    """Also where some are known to be not valid already."""
    series = nan(glitching(clean()))
    valid = np.ones(2000, bool)
    valid[100:700] = False
    found = {f.kind: f.rows for f in check_episode([replace(series, valid=valid)])}
    assert found == {"not_finite": ((800, 801),), "spike": ((900, 901),)}


def test_never_moves() -> None:
    assert never_moves([]) == []
    (found,) = never_moves(["a"])
    assert (found.severity, found.stream, found.text) == ("warning", "a", "never moves")
    (found,) = never_moves(["a", "b", "c", "d", "e"])
    assert found.text == "5 streams never move: a, b, c, d and 1 more"
    assert found.streams == ("a", "b", "c", "d", "e") and found.stream is None


def test_a_large_position_may_jump() -> None:
    values = np.cumsum(np.full((2000, 1), 0.1), axis=0)
    values[1000:] += 2 * np.pi
    assert "angle_wrap" not in kinds(check_episode([replace(clean(), values=values)]))


def test_layout() -> None:
    """Quaternions are found where the layout has them."""
    q = turning(2000)
    q[500:] *= -1
    values = np.concatenate([movement(2000), q], axis=1)
    metadata = StreamMetadata(method=(("linear", 3), ("slerp_xyzw", 4)))
    (found,) = check_episode([replace(clean(), values=values, metadata=metadata)])
    assert (found.kind, found.severity) == ("sign_flip", "info")


def test_a_picture_that_stands_still() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (300, 64)).astype(np.uint8)
    frames[100:130] = frames[100]
    series = Series("camera", clock(300, 30), frames, StreamMetadata(), is_image=True)
    (found,) = check_episode([series])
    assert found.kind == "stuck" and found.text.startswith("the picture stands still once")


# ---- an episode's streams ------------------------------------------------------------------------


def test_coverage() -> None:
    arm, camera = clean(), replace(clean(), name="camera")
    assert coverage([arm, camera]) == []
    cut = slice(300, 1200)
    late = replace(camera, times=camera.times[cut], values=camera.values[cut])
    (found,) = coverage([arm, late])
    assert found.stream == "camera"
    assert found.text == (
        "begins 3 s after the episode does and ends 8 s before the episode does"
    )  # fmt: skip


def test_a_latched_row_is_not_a_late_stream() -> None:
    """A map that is sent once; a sensor that stops is still found."""
    arm = clean()
    once = replace(arm, name="map", times=arm.times[500:501], values=arm.values[500:501])
    two = replace(arm, name="gps", times=arm.times[500:502], values=arm.values[500:502])
    found = {f.stream: f for f in coverage([arm, once, two])}
    assert found["map"].text == "has one row, 5 s after the episode's start"
    assert (found["map"].kind, found["map"].severity) == ("one_row", "info")
    assert (found["gps"].kind, found["gps"].severity) == ("coverage", "warning")
    assert coverage([once]) == []


def test_gaps_of_a_dropout_say_so() -> None:
    one = silent(clean())
    two = silent(replace(clean(), name="hand", times=clock(2000, seed=1)))
    three = replace(losing(clean()), name="foot", times=clock(1997, seed=2))
    keep = np.ones(1997, bool)
    keep[300:360] = keep[900:960] = False  # one of its own, and one with the others
    three = replace(three, times=three.times[keep], values=three.values[keep])
    found = {f.stream: f.cause for f in check_episode([one, two, three]) if f.kind == "gap"}
    assert found == {"arm": "dropout", "hand": "dropout", "foot": None}


def test_dropout() -> None:
    one, three = silent(clean()), replace(clean(), name="camera")
    two = silent(replace(clean(), name="hand", times=clock(2000, seed=1)))
    assert dropout([one, three, replace(three, name="lidar")]) == [], "one sensor failed"
    assert dropout([one, replace(one, name="fields of the same messages"), three]) == []
    (found,) = dropout([one, two, three])
    assert found.text.startswith("2 streams are silent together once, for up to 611")
    assert "arm, hand" in found.text
    assert kinds(check_episode([one, two])) == {"gap", "dropout"}


@pytest.mark.parametrize("parts_per_million", [0.0, 300.0, 2000.0, -2000.0])
def test_clock_drift(parts_per_million: float) -> None:
    """The stamps of one of two streams run fast or slow against the arrival of its rows."""
    rng = np.random.default_rng(0)
    arm, camera = clean(), replace(clean(), name="camera")
    elapsed = camera.times - START
    streams = [
        replace(arm, received=arm.times + 2 * MS + rng.integers(0, 3 * MS, len(arm.times))),
        replace(
            camera,
            times=START + np.rint(elapsed * (1 - parts_per_million * 1e-6)).astype(np.int64),
            received=camera.times + 60 * MS + rng.integers(0, 9 * MS, len(camera.times)),
        ),
    ]
    found = clock_drift(streams)
    if abs(parts_per_million) < 1000:  # 300 ppm are 6 ms in 20 s: of that the jitter is too much
        assert len(found) <= 1 and (parts_per_million or not found)
        return
    (drift,) = found
    assert drift.stream == "camera"
    assert "behind" in drift.text if parts_per_million > 0 else "ahead" in drift.text
    assert "from that of arm" in drift.text
    assert "40 ms" in drift.text or "39." in drift.text


# ---- all episodes --------------------------------------------------------------------------------


def test_short_episodes() -> None:
    assert short_episodes([100, 90, 110, 100, 95, 30]) == []
    found = short_episodes([100, 90, 110, 100, 95, 8, 1])
    assert [finding.episode for finding in found] == [5, 6]
    assert found[0].text == "8 rows, where 95 are usual"
    assert [finding.text for finding in short_episodes([1, 200])] == ["1 row"]
    assert short_episodes([]) == []
    found = short_episodes([100, None, 90, 110, 100, 8, None])  # of which two can't be read
    assert [(finding.episode, finding.text) for finding in found] == [
        (5, "8 rows, where 100 are usual")
    ]


def test_missing_streams() -> None:
    full = frozenset({"arm", "camera"})
    assert missing_streams([full, full]) == []
    (found,) = missing_streams([full, frozenset({"arm"}), full])
    assert (found.stream, found.episode, found.count) == ("camera", 1, 1)
    assert found.text == "absent from 1 of 3 episodes"
    (found,) = missing_streams([None, full, frozenset({"arm"}), None])
    assert (found.stream, found.episode) == ("camera", 2)
    assert found.text == "absent from 1 of 2 episodes"
    assert missing_streams([None, full]) == missing_streams([None]) == missing_streams([]) == []


def test_constant_channels() -> None:
    least, most = np.array([0.0, -1.0, 2.0]), np.array([0.0, 1.0, 2.0])
    arm = clean(channels=("x", "y", "z"))
    (found,) = constant_channels(arm, least, most, 10)
    assert found.text == "channels x, z are constant (0, 2)"
    assert constant_channels(arm, least, most + 1, 10) == []
    assert constant_channels(arm, least, most, 1) == []
    (found,) = constant_channels(clean(), np.zeros(3), np.zeros(3), 10)
    assert found.text == "all channels are constant (0, 0, 0)"
