"""Headers of public formats: times, their units, and columns that make a vector or quaternion."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recordings import message_of, read_all

import robocache as rc
from robocache.readers import ReadOptions
from robocache.readers.tables import table

pa = pytest.importorskip("pyarrow", reason="tables need pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="tables need pyarrow")

NS = 1_000_000_000
UNIX = 1403636579758555392
QUATERNION = ["0.1", "0.2", "0.3", str(math.sqrt(0.86))]  # x, y, z, w


def write(path: Path, header: str, *rows: list[str], delimiter: str = ",") -> Path:
    path.write_text("\n".join([header, *[delimiter.join(row) for row in rows], ""]))
    return path


def numbers(count: int) -> list[str]:
    return [str(i + 0.5) for i in range(count)]


def facts_of(path: Path, **options: Any) -> dict[str, tuple[Any, ...]]:
    _, recording = read_all(path, ReadOptions(**options))
    return {
        name: (metadata.channels and "".join(metadata.channels), metadata.units, metadata.method)
        for name, metadata in recording.streams.items()
    }


# ---- public formats ------------------------------------------------------------------------------


def test_euroc(tmp_path: Path) -> None:
    header = "#timestamp [ns]," + ",".join(
        f"{name}_RS_S_{axis} [{units}]"
        for name, units in (("w", "rad s^-1"), ("a", "m s^-2"))
        for axis in "xyz"
    )
    path = write(tmp_path / "imu.csv", header, [str(UNIX), *numbers(6)])
    assert facts_of(path) == {
        "w_RS_S": ("xyz", "rad s^-1", None),
        "a_RS_S": ("xyz", "m s^-2", None),
    }
    read, recording = read_all(path)
    assert read["0"]["a_RS_S"].times.tolist() == [UNIX]
    assert read["0"]["a_RS_S"].values.tolist() == [[3.5, 4.5, 5.5]]
    assert recording.notes == {
        "columns w_RS_S_x [rad s^-1], w_RS_S_y [rad s^-1], w_RS_S_z [rad s^-1] "
        "read as stream w_RS_S (linear)": 1,
        "columns a_RS_S_x [m s^-2], a_RS_S_y [m s^-2], a_RS_S_z [m s^-2] "
        "read as stream a_RS_S (linear)": 1,
    }


def test_euroc_ground_truth(tmp_path: Path) -> None:
    """Its times have no unit, and are too large for any but nanoseconds."""
    header = "#timestamp, p_RS_R_x [m], p_RS_R_y [m], p_RS_R_z [m], " + ", ".join(
        f"q_RS_{axis} []" for axis in "wxyz"
    )
    x, y, z, w = QUATERNION
    path = write(tmp_path / "data.csv", header, [str(UNIX), *numbers(3), w, x, y, z])
    assert facts_of(path) == {"p_RS_R": ("xyz", "m", None), "q_RS": ("wxyz", None, "slerp_wxyz")}
    read, recording = read_all(path)
    assert read["0"]["q_RS"].times.tolist() == [UNIX]
    assert (
        "columns q_RS_w [], q_RS_x [], q_RS_y [], q_RS_z [] read as stream q_RS (slerp_wxyz)"
        in (recording.notes)
    )


def test_tum_trajectory(tmp_path: Path) -> None:
    header = "# ground truth trajectory\n# file: 'a.bag'\n# timestamp tx ty tz qx qy qz qw"
    row = ["1305031098.6659", *numbers(3), *QUATERNION]
    path = write(tmp_path / "groundtruth.txt", header, row, row, delimiter=" ")
    assert facts_of(path) == {"t": ("xyz", None, None), "q": ("xyzw", None, "slerp_xyzw")}
    read, _ = read_all(path)
    assert read["0"]["t"].values.tolist() == [[0.5, 1.5, 2.5]] * 2
    assert read["0"]["q"].times.tolist() == [1305031098665900000] * 2


@pytest.mark.parametrize(
    ("header", "row"),
    [("# notes on this run", "be careful with it"), ("# a b c", "1 2 3"), ("time x", "0.5 1")],
)
def test_texts_that_are_no_tables(tmp_path: Path, header: str, row: str) -> None:
    path = write(tmp_path / "a.txt", header, [row])
    assert message_of(path).startswith(f"{path}: expected a recording: ")


def test_rostopic(tmp_path: Path) -> None:
    """`rostopic echo -p`: all times are nanoseconds, and the header's stamp is a stream."""
    pose = "field.pose.pose"
    header = ",".join(
        ["%time", "field.header.seq", "field.header.stamp", "field.header.frame_id"]
        + [f"{pose}.position.{axis}" for axis in "xyz"]
        + [f"{pose}.orientation.{axis}" for axis in "xyzw"]
        + [f"field.pose.covariance{i}" for i in range(36)]
    )
    row = [str(UNIX + 5), "7", str(UNIX), "odom", *numbers(3), *QUATERNION, *numbers(36)]
    path = write(tmp_path / "odom.csv", header, row, row)
    metadata = facts_of(path)
    assert metadata[f"{pose}.position"] == ("xyz", None, None)
    assert metadata[f"{pose}.orientation"] == ("xyzw", None, "slerp_xyzw")
    assert metadata["field.pose.covariance"][0] == "".join(map(str, range(36)))
    read, _ = read_all(path)
    stamp = read["0"]["field.header.stamp"]
    assert stamp.values.dtype == np.int64 and stamp.values.tolist() == [UNIX] * 2
    assert stamp.times.tolist() == [UNIX + 5] * 2
    assert read["0"]["field.header.seq"].values.dtype == np.float64
    read, _ = read_all(path, ReadOptions(time_column="field.header.stamp"))
    assert read["0"][f"{pose}.position"].times.tolist() == [UNIX] * 2


def test_plotjuggler(tmp_path: Path) -> None:
    header = "__time," + ",".join(
        [f"/imu/orientation/{axis}" for axis in "xyzw"]
        + [f"/joints/position[{i}]" for i in range(4)]
        + [f"/ee/{name}" for name in ("x", "y", "z", "qw", "qx", "qy", "qz", "grip")]
    )
    x, y, z, w = QUATERNION
    values = [*QUATERNION, *numbers(4), *numbers(3), w, x, y, z, "1"]
    path = write(tmp_path / "a.csv", header, ["1508282723.5", *values])
    assert facts_of(path) == {
        "/imu/orientation": ("xyzw", None, "slerp_xyzw"),
        "/joints/position": ("0123", None, None),
        "/ee": ("xyzqwqxqyqzgrip", None, (("linear", 3), ("slerp_wxyz", 4), ("linear", 1))),
    }
    _, recording = read_all(path)
    assert "columns /ee/x to /ee/grip read as stream /ee (3 linear, 4 slerp_wxyz, 1 linear)" in (
        recording.notes
    )


def test_motive(tmp_path: Path) -> None:
    """OptiTrack's export has a header of several lines; what it did not see is empty."""
    first = "Format Version,1.23,Take Name,Take 1,Rotation Type,Quaternion,Length Units,Meters\n\n"
    above = [
        ["Rigid Body"] * 8 + ["Marker"] * 3,
        ["robot"] * 8 + ["m1"] * 3,
        ["1"] * 8 + ["2"] * 3,
        ["Rotation"] * 4 + ["Position"] * 3 + ["Mean Marker Error"] + ["Position"] * 3,
    ]
    header = first + "".join(f",,{','.join(row)}\n" for row in above)
    header += "Frame,Time (Seconds),X,Y,Z,W,X,Y,Z,,X,Y,Z"
    rows = (
        ["0", "0.000000", *QUATERNION, *numbers(7)],
        ["1", "0.008333", *[""] * 8, *numbers(3)],
    )
    path = write(tmp_path / "take.csv", header, *rows)
    assert facts_of(path) == {
        "Frame": (None, None, None),
        "robot.Rotation": ("XYZW", None, "slerp_xyzw"),
        "robot.Position": ("XYZ", None, None),
        "robot.Mean Marker Error": (None, None, None),
        "m1.Position": ("XYZ", None, None),
    }
    read, _ = read_all(path)
    assert read["0"]["robot.Rotation"].times.tolist() == [0]
    assert read["0"]["m1.Position"].times.tolist() == [0, 8_333_000]


# ---- times ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("#timestamp [ns]", "17", 17),
        ("%time", str(UNIX), UNIX),
        ("__time", "1.5", 3 * NS // 2),
        ("Time(seconds)", "2", 2 * NS),
        ("Time (Seconds)", "0.25", NS // 4),
        ("time_stamp_us", "3", 3000),
        ("Timestamp [µs]", "3", 3000),
        ("time", str(UNIX), UNIX),
    ],
)
def test_names_of_times(tmp_path: Path, name: str, value: str, expected: int) -> None:
    path = write(tmp_path / "a.csv", f"x,{name}", ["1", value])
    read, _ = read_all(path)
    assert read["0"]["x"].times.tolist() == [expected]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("clock_us", "3", 3000),
        ("Clock [ms]", "3", 3_000_000),
        ("recv(ns)", "3", 3),
        ("c", "3.5", 3_500_000_000),
    ],
)
def test_the_unit_in_the_name_that_the_options_give(
    tmp_path: Path, name: str, value: str, expected: int
) -> None:
    path = write(tmp_path / "a.csv", f"x,{name}", ["1", value])
    read, _ = read_all(path, ReadOptions(time_column=name))
    assert read["0"]["x"].times.tolist() == [expected]
    read, _ = read_all(path, ReadOptions(time_column=name, time_unit="s"))
    assert read["0"]["x"].times.tolist() == [int(float(value) * NS)]


@pytest.mark.parametrize("asked", ["#stamp [ns]", "# stamp [ns]", "stamp [ns]"])
def test_the_name_that_the_options_give_in_a_comment(tmp_path: Path, asked: str) -> None:
    """As the file shows it, or without the comment's mark."""
    path = write(tmp_path / "a.csv", "#stamp [ns],time", ["17", "1"])
    read, _ = read_all(path, ReadOptions(time_column=asked))
    assert read["0"]["time"].times.tolist() == [17]


def test_integers_that_can_only_be_nanoseconds(tmp_path: Path) -> None:
    """Below that size they may be anything, and the unit has to be said."""
    limit = 2**63 // 1000
    for value in (limit, UNIX // 1000):
        path = write(tmp_path / "a.csv", "time,x", [str(value), "1"])
        assert "expected the unit of the integers in column time, got none" in message_of(path)
    path = write(tmp_path / "a.csv", "time,x", [str(limit + 1), "1"])
    assert read_all(path)[0]["0"]["x"].times.tolist() == [limit + 1]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"time": [UNIX, UNIX + 1], "x": [1.0, 2.0]}), path)
    assert read_all(path)[0]["0"]["x"].times.tolist() == [UNIX, UNIX + 1]
    np.savez(tmp_path / "a.npz", times=np.array([UNIX]), x=np.zeros(1))
    assert read_all(tmp_path / "a.npz")[0]["0"]["x"].times.tolist() == [UNIX]
    np.savez(tmp_path / "a.npz", times=np.array([limit]), x=np.zeros(1))
    assert "expected the unit of the integers in times" in message_of(tmp_path / "a.npz")


# ---- integers ------------------------------------------------------------------------------------


def test_integers_beyond_float64_stay_integers(tmp_path: Path) -> None:
    rows = [["0.5", str(2**53 + 1), "7", "1.5"], ["0.6", "-3", "8", "2.5"]]
    path = write(tmp_path / "a.csv", "t,a.id,a.n,a.x", *rows)
    read, recording = read_all(path)
    assert read["0"]["a.id"].values.dtype == np.int64
    assert read["0"]["a.id"].values.tolist() == [2**53 + 1, -3]
    assert read["0"]["a"].values.tolist() == [[7, 1.5], [8, 2.5]]
    assert recording.streams["a"].channels == ("n", "x")
    path = write(tmp_path / "a.csv", "t,n", ["0.5", str(2**53)])
    assert read_all(path)[0]["0"]["n"].values.dtype == np.float64


def test_integers_beyond_float64_below_the_first_rows(tmp_path: Path) -> None:
    """The beginning of a file says which columns there are, all of it what they hold."""
    rows = [[f"{i}.5", str(i if i < 20_000 else UNIX)] for i in range(20_001)]
    read, _ = read_all(write(tmp_path / "a.csv", "t,n", *rows))
    assert read["0"]["n"].values.dtype == np.int64
    assert read["0"]["n"].values[-1] == UNIX


def test_integers_of_a_large_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "WHOLE_BYTES", 10)
    path = write(tmp_path / "a.csv", "t,n", ["0.5", str(UNIX)], ["0.6", str(UNIX + 1)])
    read, _ = read_all(path)
    assert read["0"]["n"].values.tolist() == [UNIX, UNIX + 1]
    path = write(tmp_path / "a.csv", "t,k,n", *[["0.5", "1", "2"]] * 400_000, ["0.6", "1", "x"])
    message = message_of(path)
    assert message.startswith(f"{path}: expected CSV, got ArrowInvalid: column n: ")
    assert "invalid value 'x'" in message


def test_integers_of_parquet_do_not_become_floats(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    columns = {"t": [0.5], "a.stamp": [UNIX + 1], "a.n": [7], "a.x": [1.5], "a.on": [True]}
    pq.write_table(pa.table(columns), path)
    read, recording = read_all(path)
    assert read["0"]["a.stamp"].values.tolist() == [UNIX + 1]
    assert recording.streams["a"].channels == ("n", "x")
    assert read["0"]["a.on"].values.dtype == np.bool_
    pq.write_table(pa.table(columns), path, write_statistics=False)
    assert read_all(path)[0]["0"]["a"].values.tolist() == [[UNIX + 1, 7]], "either may be large"


# ---- quaternions ---------------------------------------------------------------------------------


def quaternion_metadata(
    tmp_path: Path, names: str, values: list[str]
) -> dict[str, tuple[Any, ...]]:
    path = write(tmp_path / "a.csv", f"t,{names}", ["0.5", *values], ["0.6", *values])
    return facts_of(path)


X, Y, Z, W = QUATERNION
ZEROS = ["0"] * 4


@pytest.mark.parametrize(
    ("names", "values", "expected"),
    [
        ("qx,qy,qz,qw", QUATERNION, {"q": ("xyzw", None, "slerp_xyzw")}),
        ("qw,qx,qy,qz", [W, X, Y, Z], {"q": ("wxyz", None, "slerp_wxyz")}),
        ("qy,qw,qx,qz", [Y, W, X, Z], {"q": ("xyzw", None, "slerp_xyzw")}),
        ("q_x,q_y,q_z,q_w", QUATERNION, {"q": ("xyzw", None, "slerp_xyzw")}),
        ("hand_quat_x,hand_quat_y,hand_quat_z,hand_quat_w", QUATERNION,
         {"hand_quat": ("xyzw", None, "slerp_xyzw")}),
        ("rotW,rotX,rotY,rotZ", [W, X, Y, Z], {"rot": ("WXYZ", None, "slerp_wxyz")}),
        ("x,y,z,w", QUATERNION, {"xyzw": ("xyzw", None, "slerp_xyzw")}),
        # Names and numbers have to agree: unset rows say nothing, and then names decide.
        ("qx,qy,qz,qw", ZEROS, {"q": ("xyzw", None, "slerp_xyzw")}),
        ("fx,fy,fz,fw", ZEROS, {"f": ("xyzw", None, None)}),
        ("qx,qy,qz,qw", ["1", "2", "3", "4"], {"q": ("xyzw", None, None)}),
        # Numbered: joints or components.
        ("q0,q1,q2,q3", [W, X, Y, Z], {"q": ("0123", None, "slerp_wxyz")}),
        ("q1,q2,q3,q4", [W, X, Y, Z], {"q": ("1234", None, "slerp_wxyz")}),
        ("quat[0],quat[1],quat[2],quat[3]", [W, X, Y, Z], {"quat": ("0123", None, "slerp_wxyz")}),
        ("q0,q1,q2,q3", ["0.5", "1", "0", "2"], {"q": ("0123", None, None)}),
        ("q0,q1,q2,q3", ZEROS, {"q": ("0123", None, None)}),
        ("m0,m1,m2,m3", [W, X, Y, Z], {"m": ("0123", None, None)}),
        ("q0,q1,q2,q3,q4,q5", [W, X, Y, Z, "0", "0"], {"q": ("012345", None, None)}),
        ("q1,q2,q3", [X, Y, Z], {"q": ("123", None, None)}),
        # Incomplete groups stay apart, and so do names that another column has.
        ("qx,qy,qw", [X, Y, W], {"qx": (None,) * 3, "qy": (None,) * 3, "qw": (None,) * 3}),
        ("q1,q3", [X, Y], {"q1": (None,) * 3, "q3": (None,) * 3}),
        ("q,q0,q1", [X, Y, Z], {"q": (None,) * 3, "q0": (None,) * 3, "q1": (None,) * 3}),
        # Joints and a quaternion of one name, in either order.
        ("q1,q2,q3,qx,qy,qz,qw", ["1", "2", "3", *QUATERNION],
         {"q": ("123", None, None), "q_xyzw": ("xyzw", None, "slerp_xyzw")}),
        ("qw,qx,qy,qz,q_0,q_1", [W, X, Y, Z, "1", "2"],
         {"q_wxyz": ("wxyz", None, "slerp_wxyz"), "q": ("01", None, None)}),
        ("q,qx,qy,qz,qw", ["1", *QUATERNION],
         {"q": (None,) * 3, "q_xyzw": ("xyzw", None, "slerp_xyzw")}),
        ("v [m],v [mm]", [X, Y], {"v [m]": (None,) * 3, "v [mm]": (None,) * 3}),
        ("speed [m/s]", [X], {"speed": (None, "m/s", None)}),
    ],
)  # fmt: skip
def test_families(
    tmp_path: Path, names: str, values: list[str], expected: dict[str, tuple[Any, ...]]
) -> None:
    assert quaternion_metadata(tmp_path, names, values) == expected


def test_columns_of_a_quaternion_come_in_its_order(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "t,qy,qw,qx,qz", ["0.5", Y, W, X, Z])
    read, _ = read_all(path)
    assert read["0"]["q"].values.tolist() == [[float(v) for v in QUATERNION]]


def test_quaternions_of_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    x, y, z, w = (float(v) for v in QUATERNION)
    columns = {"t": [0.5], "pose": [{"x": 1.0, "y": 2.0, "z": 3.0}]}
    columns |= {f"q_{name}": [v] for name, v in zip("wxyz", (w, x, y, z), strict=True)}
    pq.write_table(pa.table(columns), path)
    assert facts_of(path) == {"pose": ("xyz", None, None), "q": ("wxyz", None, "slerp_wxyz")}


def test_a_store_interpolates_them_as_rotations(tmp_path: Path) -> None:
    half = str(math.sqrt(0.5))
    rows = [["0.0", "0", "0", "0", "1"], ["1.0", "0", "0", half, half]]
    path = write(tmp_path / "a.csv", "t,qx,qy,qz,qw", *rows)
    report = rc.convert(path, tmp_path / "s")
    store = rc.EpisodeStore(tmp_path / "s")
    assert store.streams["q"].method == "slerp_xyzw"
    assert "columns qx, qy, qz, qw read as stream q (slerp_xyzw): 1" in report.notes
    loader = rc.Loader(store, 1, {"q": [0.5]}, shuffle=False)
    batch = next(iter(loader))
    expected = [0, 0, math.sin(math.pi / 8), math.cos(math.pi / 8)]
    np.testing.assert_allclose(batch["q"].reshape(-1), expected, atol=1e-6)
