"""The golden cases (tests/golden), on every backend and against the NumPy reference."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import reference
import torch
from support import Backend, assert_near, assert_same_bits

FOLDER = Path(__file__).parents[1] / "golden"
CASES = json.loads((FOLDER / "cases.json").read_text())["cases"]
by_name = pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])


def tensor(encoded: dict[str, Any] | None) -> torch.Tensor | None:
    if encoded is None:
        return None
    dtype = getattr(torch, encoded["dtype"])
    data = encoded["data"]
    if dtype.is_floating_point:
        return (
            torch.tensor([float(x) for x in data], dtype=torch.float64)
            .to(dtype)
            .reshape(encoded["shape"])
        )
    return torch.tensor(data, dtype=dtype).reshape(encoded["shape"])


def arguments(case: dict[str, Any]) -> tuple[list[torch.Tensor | None], dict[str, Any]]:
    tensors = [tensor(case[key]) for key in ("values", "source_times", "target_times")]
    names = ("source_lengths", "source_valid", "subtract", "multiply")
    options = {name: tensor(case[name]) for name in names}
    options |= {name: case[name] for name in ("outside", "max_gap", "tolerance")}
    options["out_dtype"] = case["out_dtype"] and getattr(torch, case["out_dtype"])
    return tensors, options


def check(case: dict[str, Any], out: torch.Tensor, valid: torch.Tensor) -> None:
    expected, mask = tensor(case["expected"]), tensor(case["valid"])
    assert expected is not None and mask is not None
    what = f"{case['name']} ({case['reason']})"
    assert out.dtype == expected.dtype and valid.dtype == torch.bool, what
    assert_same_bits(valid, mask, f"{what}: valid")
    if case["atol"] == 0:
        assert_same_bits(out, expected, what)
    else:
        assert_near(out, expected, case["atol"], what)


@by_name
def test_golden(backend: Backend, case: dict[str, Any]) -> None:
    tensors, options = arguments(case)
    layout = [(name, width) for name, width in case["layout"]]
    method = layout[0][0] if len(layout) == 1 else layout
    check(case, *backend.resample_to_cpu(*tensors, method=method, **options))
    if len(layout) == 1 and layout[0][1] > 0:  # one run given as a layout is the same
        check(case, *backend.resample_to_cpu(*tensors, method=layout, **options))


@by_name
def test_golden_without_valid(backend: Backend, case: dict[str, Any]) -> None:
    """The call without the mask is another code path and gives the same values."""
    tensors, options = arguments(case)
    out = (
        backend.resample(*tensors, method=[tuple(run) for run in case["layout"]], **options)
        if (len(case["layout"]) > 1 or case["layout"][0][1] > 0)
        else backend.resample(*tensors, method=case["layout"][0][0], **options)
    )
    mask = tensor(case["valid"])
    assert mask is not None
    check(case, out.cpu(), mask)


@by_name
def test_reference_agrees(case: dict[str, Any]) -> None:
    """The reference that random tests lean on meets the same cases."""
    tensors, options = arguments(case)
    out, valid = reference.resample(*tensors, layout=case["layout"], **options)  # type: ignore[arg-type]
    check(case, reference.rounded(out, getattr(torch, case["expected"]["dtype"]))[0], valid)


def test_file_is_what_the_generator_writes() -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / "make_cases.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
