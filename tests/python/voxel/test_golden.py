"""The golden cases of voxelization (tests/golden), on every backend and against the reference."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
import voxel_reference
from golden_cases import FOLDER, tensor
from support import Backend, assert_same_bits

CASES = json.loads((FOLDER / "voxels.json").read_text())["cases"]
DENSE = [case for case in CASES if case["form"] == "dense"]
SPARSE = [case for case in CASES if case["form"] == "sparse"]


def dense(case: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    options = {"features": tensor(case["features"]), "offsets": tensor(case["offsets"])}
    options |= {name: case[name] for name in ("mode", "origin")}
    options["out_dtype"] = case["out_dtype"] and getattr(torch, case["out_dtype"])
    return (tensor(case["points"]), case["grid_size"], case["voxel_size"]), options


def sparse(case: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    options = {"features": tensor(case["features"]), "offsets": tensor(case["offsets"])}
    options |= {"reduce": case["mode"], "origin": case["origin"]}
    return (tensor(case["points"]), case["voxel_size"]), options


def check(case: dict[str, Any], got: dict[str, Any]) -> None:
    for name, encoded in case["expected"].items():
        want = tensor(encoded)
        if want is None:
            assert got[name] is None
        else:
            what = f"{case['name']}: {case['reason']}: {name}"
            assert_same_bits(got[name].cpu(), want, what)


@pytest.mark.parametrize("case", DENSE, ids=[case["name"] for case in DENSE])
def test_dense(backend: Backend, case: dict[str, Any]) -> None:
    if backend.backend == "pytorch" and case["name"].endswith("_in_order"):
        pytest.skip("the pytorch backend adds in whatever order torch does")
    arguments, options = dense(case)
    grid, dropped = backend.voxelize(*arguments, **options, return_dropped=True)
    check(case, {"grid": grid, "dropped": dropped})


@pytest.mark.parametrize("case", SPARSE, ids=[case["name"] for case in SPARSE])
def test_sparse(backend: Backend, case: dict[str, Any]) -> None:
    arguments, options = sparse(case)
    check(case, backend.voxelize_sparse(*arguments, **options)._asdict())


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_reference_agrees(case: dict[str, Any]) -> None:
    """The reference that random tests lean on meets the same cases."""
    if case["form"] == "dense":
        arguments, options = dense(case)
        accepted, dropped = voxel_reference.voxelize(*arguments, **options)
        check(case, {"grid": accepted[0], "dropped": dropped})
    else:
        arguments, options = sparse(case)
        check(case, voxel_reference.voxelize_sparse(*arguments, **options))
