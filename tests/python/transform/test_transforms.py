"""Rotations, poses and deltas: golden cases, SciPy, round trips, backends beside each other."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest
import torch
from golden_cases import FOLDER, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from rotations import FORMS, WIDTHS, matrices, poses, rotations
from support import FLOATS, Backend, assert_near, assert_same_bits, find_backends

import robocache as rc

CASES = json.loads((FOLDER / "transforms.json").read_text())["cases"]


@pytest.fixture(autouse=True)
def seed() -> None:
    print(f"torch seed: {torch.seed()}")  # shown where a test fails


def ulps(dtype: torch.dtype, count: float) -> float:
    """Units in the last place of 1."""
    return count * torch.finfo(dtype).eps


# ---- golden cases ------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_golden(backend: Backend, case: dict[str, Any]) -> None:
    operation = case["operation"]
    arguments, options = [tensor(case["x"])], {}
    if operation == "convert_rotation":
        arguments += [case["form"], case["target"]]
    elif operation.endswith("_pose"):
        arguments += [tensor(case["row"]), case["form"]]
    else:
        arguments.append(tensor(case["row"]))
        options = {"time_step": case["time_step"], "times": tensor(case["times"])}
    got = getattr(backend, operation)(*arguments, **options).cpu()
    expected = tensor(case["expected"])
    assert expected is not None and got.dtype == expected.dtype
    assert_near(got, expected, case["atol"], f"{case['name']}: {case['reason']}")


def test_relative_to() -> None:
    x, reference = torch.tensor([[[1.0, 5.0], [2.0, 6.0]]]), torch.tensor([[1.0, math.nan]])
    mask = torch.tensor([True, False])
    relative = rc.relative_to(x, reference, mask)
    assert relative.tolist() == [[[0, 5], [1, 6]]]
    assert rc.absolute_from(relative, reference, mask).tolist() == x.tolist()
    assert rc.relative_to(x, torch.tensor([1.0, 2.0])).tolist() == [[[0, 3], [1, 4]]]
    assert rc.absolute_from(x, torch.tensor([1.0, 2.0])).tolist() == [[[2, 7], [3, 8]]]


# ---- SciPy ---------------------------------------------------------------------------------------


def test_scipy_converts_alike(backend: Backend) -> None:
    from scipy.spatial.transform import Rotation

    theirs = Rotation.random(500)
    angles = torch.cat([torch.logspace(-12, 0, 200), torch.linspace(1, math.pi - 1e-3, 200)])
    axes = torch.nn.functional.normalize(torch.randn(400, 3, dtype=torch.float64), dim=-1)
    theirs = Rotation.concatenate([theirs, Rotation.from_rotvec(axes * angles[:, None])])
    matrix = torch.from_numpy(theirs.as_matrix())
    forms = {
        "quaternion_xyzw": torch.from_numpy(theirs.as_quat(canonical=True)),
        "quaternion_wxyz": torch.from_numpy(theirs.as_quat(canonical=True, scalar_first=True)),
        "rotation_vector": torch.from_numpy(theirs.as_rotvec()),
        "matrix": matrix.flatten(-2),
        "rotation_6d": matrix[:, :2].flatten(-2),
    }
    for source, x in forms.items():
        for target, expected in forms.items():
            got = backend.convert_rotation(x, source, target).cpu()
            assert_near(got, expected, 3e-15, f"{source} to {target}")


def test_scipy_composes_alike(backend: Backend) -> None:
    from scipy.spatial.transform import Rotation

    anchor, pose = Rotation.random(200), Rotation.random(200)
    place, places = torch.randn(200, 3).double(), torch.randn(200, 3).double()
    relative = anchor.inv() * pose
    position = torch.from_numpy(anchor.inv().apply((places - place).numpy()))
    got = backend.relative_pose(
        torch.cat([places, torch.from_numpy(pose.as_quat())], -1)[:, None],
        torch.cat([place, torch.from_numpy(anchor.as_quat())], -1),
        "quaternion_xyzw",
    ).cpu()[:, 0]
    assert_near(got[:, :3], position, 1e-14)
    assert_near(got[:, 3:], torch.from_numpy(relative.as_quat(canonical=True)), 1e-14)


# ---- properties ----------------------------------------------------------------------------------


def test_there_and_back(backend: Backend) -> None:
    for source, target in itertools.product(FORMS, FORMS):
        x = rotations(source, 300)
        there = backend.convert_rotation(x, source, target)
        back = backend.convert_rotation(there, target, source).cpu()
        assert_near(matrices(back, source), matrices(x, source), 1e-14, f"{source}, {target}")


@pytest.mark.parametrize("dtype", FLOATS)
def test_pose_there_and_back(backend: Backend, dtype: torch.dtype) -> None:
    for form in FORMS:
        pose_there_and_back(backend, form, dtype)


def pose_there_and_back(backend: Backend, form: str, dtype: torch.dtype) -> None:
    x, anchor = poses(form, 2, 5, 7, dtype=dtype), poses(form, 2, 5, dtype=dtype)
    relative = backend.relative_pose(x, anchor, form)
    assert relative.shape == x.shape and relative.dtype == dtype and relative.is_contiguous()
    back = backend.absolute_pose(relative, anchor, form).cpu()
    assert_near(back[..., :3], x[..., :3], ulps(dtype, 64))
    assert_near(matrices(back[..., 3:], form), matrices(x[..., 3:], form), ulps(dtype, 32))
    itself = backend.relative_pose(anchor[..., None, :], anchor, form).cpu()
    assert (itself[..., :3] == 0).all()
    none = torch.eye(3).flatten().expand(2, 5, 1, 9)
    assert_near(matrices(itself[..., 3:], form), none, ulps(dtype, 8))


calls = st.tuples(
    st.lists(st.integers(0, 3), max_size=3),  # what stands before
    st.integers(0, 5),  # K
    st.sampled_from(FORMS),
    st.sampled_from(FORMS),
    st.sampled_from(FLOATS),
    st.booleans(),  # whether one row serves all
    st.sampled_from(["packed", "transposed", "reversed columns", "every other"]),
)


def strided(x: torch.Tensor, how: str) -> torch.Tensor:
    """Equal numbers with other strides."""
    if how == "transposed":
        return x.mT.contiguous().mT if x.dim() > 1 else x
    if how == "reversed columns":
        return x.flip(-1).clone()[..., list(range(x.size(-1)))[::-1]]
    if how == "every other":
        return torch.stack([x, torch.full_like(x, math.nan)], -1)[..., 0]
    return x


@settings(max_examples=40)
@given(call=calls, number=st.integers(0, 2**31))
def test_backends_agree(call: Any, number: int) -> None:
    """The library's own have the same bits; pytorch's differ by rounding."""
    lead, steps, source, target, dtype, is_shared, how = call
    torch.manual_seed(number)
    backends, _ = find_backends()
    x = strided(poses(source, *lead, steps, dtype=dtype), how)
    row = strided(poses(source, *([] if is_shared else lead), dtype=dtype), how)
    for function, arguments in (
        ("convert_rotation", (x[..., 3:], source, target)),
        ("relative_pose", (x, row, source)),
        ("absolute_pose", (x, row, source)),
        ("delta_to_absolute", (x, row)),
        ("absolute_to_delta", (x, row)),
    ):
        made = {}
        for backend in backends:
            out = getattr(backend, function)(*arguments).cpu()
            assert out.dtype == dtype and out.is_contiguous()
            assert out.shape[:-1] == x.shape[:-1]
            made[backend.name] = out
        first = made.pop("cpu", next(iter(made.values())))
        for name, out in made.items():
            if name == "cuda":
                assert_same_bits(out, first, function)
            else:
                assert_near(out, first, ulps(dtype, 64), f"{function} {name}")
        want = getattr(rc, function)(*(packed(a) for a in arguments), backend="cpu")
        assert_same_bits(first, want, f"{function} {how}")


def packed(x: Any) -> Any:
    return x.contiguous() if isinstance(x, torch.Tensor) else x


@settings(max_examples=60)
@given(
    st.lists(st.floats(width=32), min_size=9, max_size=9),
    st.sampled_from(FORMS),
    st.sampled_from(FORMS),
)
def test_any_numbers(numbers: list[float], source: str, target: str) -> None:
    """Any numbers give a rotation, zeros or NaN."""
    x = torch.tensor(numbers)[: WIDTHS[source]]
    made = {}
    for backend in find_backends()[0]:
        out = made[backend.name] = backend.convert_rotation(x, source, target).cpu()
        if backend.backend == "pytorch" or bool(out.isnan().any()) or not bool(out.any()):
            continue
        if target.startswith("quaternion"):
            assert abs(float(out.double().norm()) - 1) < 1e-5 or x.abs().max() > 1e18
        if target == "rotation_vector":
            assert float(out.double().norm()) < math.pi + 1e-5
    if "cuda" in made:
        assert_same_bits(made["cuda"], made["cpu"])


def test_sums_go_on_from_step_to_step(native: Backend) -> None:
    """In float32 and in order, whatever the number of steps."""
    deltas, start = torch.randn(3, 1000, 5), torch.randn(3, 5)
    got = native.delta_to_absolute(deltas, start).cpu()
    last = start
    for step in range(1000):
        last = last + deltas[:, step]
        assert_same_bits(got[:, step], last)


def test_times_anywhere_in_int64(backend: Backend) -> None:
    """Differences that int64 does not hold."""
    ends = [-(2**62) - 1, 2**62]
    for times, seconds in ((ends, 2**63 / 1e9), (ends[::-1], -(2**63) / 1e9)):
        got = backend.delta_to_absolute(
            torch.ones(1, 1, 1), torch.zeros(1, 1), times=torch.tensor(times)
        )
        assert got.item() == torch.tensor(seconds).float().item()


def test_large(backend: Backend) -> None:
    """More rows than a thread or a block takes."""
    x = torch.randn(70_000, 4)
    got = backend.convert_rotation(x, "quaternion_xyzw", "rotation_6d").cpu()
    some = torch.randint(0, len(x), (50,))
    want = backend.convert_rotation(x[some], "quaternion_xyzw", "rotation_6d").cpu()
    assert_near(got[some], want, ulps(torch.float32, 4 if backend.backend == "pytorch" else 0))


def test_calls_are_counted(backend: Backend) -> None:
    name = "pytorch" if backend.backend == "pytorch" else backend.backend
    before = rc.metrics().calls.get("relative_pose", {}).get(name, 0)
    backend.relative_pose(poses("matrix", 2), poses("matrix"), "matrix")
    assert rc.metrics().calls["relative_pose"][name] == before + 1
