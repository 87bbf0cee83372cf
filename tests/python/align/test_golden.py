"""The golden cases (tests/golden), on every backend and against the NumPy reference."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import reference
import torch
from golden_cases import FOLDER, tensor
from strategies import FuseCall, StreamCall, expected_fusion
from support import Backend, assert_near, assert_same_bits

import robocache as rc

CASES = json.loads((FOLDER / "cases.json").read_text())["cases"]
FUSIONS = json.loads((FOLDER / "fuse.json").read_text())["cases"]
by_name = pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])
by_fusion = pytest.mark.parametrize("case", FUSIONS, ids=[c["name"] for c in FUSIONS])


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


def parts(encoded: dict[str, Any]) -> dict[str, Any]:
    """A stream's arguments under the names that Stream has for them."""
    named = {
        name: tensor(encoded[name])
        for name in ("values", "times", "lengths", "valid", "subtract", "multiply")
    }
    numbers = ("max_gap", "tolerance", "mean_window")
    offset = encoded["clock_offset"]
    named |= {name: encoded[name] for name in numbers}
    return named | {"clock_offset": 0 if offset is None else offset}


def check_fusion(case: dict[str, Any], out: Any, valid: Any, age: Any, rounding: float) -> None:
    expected, mask, ages = (tensor(case[name]) for name in ("expected", "valid", "age"))
    assert expected is not None and mask is not None
    what = f"{case['name']} ({case['reason']})"
    assert out.dtype == expected.dtype, what
    assert_same_bits(valid, mask, f"{what}: valid")
    if ages is not None:
        assert_same_bits(age, ages, f"{what}: age")
    if case["atol"] == 0 and rounding == 0:
        assert_same_bits(out, expected, what)
    else:
        size = expected.double().abs().nan_to_num(posinf=0.0, neginf=0.0)
        assert_near(out, expected, case["atol"] + rounding * size.clamp(min=1.0), what)


@by_fusion
def test_golden_fusion(backend: Backend, case: dict[str, Any]) -> None:
    """On pytorch means and sums are right within rounding."""
    methods = {method for stream in case["streams"] for method, _ in stream["layout"]}
    adds_up = backend.backend == "pytorch" and not methods.isdisjoint({"mean", "sum"})
    expected = tensor(case["expected"])
    assert expected is not None
    rounding = 0.0
    if adds_up and expected.dtype.is_floating_point:
        rounding = 8 * torch.finfo(expected.dtype).eps
    streams = []
    for encoded in case["streams"]:
        runs = [(name, width) for name, width in encoded["layout"]]
        method = runs[0][0] if len(runs) == 1 else runs
        streams.append(rc.Stream(**parts(encoded), method=method))
    results = backend.fuse(
        streams,
        tensor(case["target_times"]),
        outside=case["outside"],
        out_dtype=case["out_dtype"] and getattr(torch, case["out_dtype"]),
        return_valid=True,
        return_age=True,
    )
    out, valid, age = (result.cpu() for result in results)
    check_fusion(case, out, valid, age, rounding)


@by_fusion
def test_reference_agrees_on_fusions(case: dict[str, Any]) -> None:
    streams = []
    for encoded in case["streams"]:
        named = parts(encoded)
        values, times = named.pop("values"), named.pop("times")
        named["source_lengths"] = named.pop("lengths")
        named["source_valid"] = named.pop("valid")
        streams.append(StreamCall(values, times, encoded["layout"], False, named))
    targets = tensor(case["target_times"])
    assert targets is not None
    out_dtype = case["out_dtype"] and getattr(torch, case["out_dtype"])
    aligned, dtype, _ = expected_fusion(FuseCall(streams, targets, case["outside"], out_dtype))
    out = torch.cat([reference.rounded(a.values, dtype)[0] for a in aligned], -1)
    valid, age = (torch.stack(part, -1) for part in list(zip(*aligned, strict=True))[1:])
    check_fusion(case, out, valid, age, 0.0)


def test_file_is_what_the_generator_writes() -> None:
    done = subprocess.run(
        [sys.executable, str(FOLDER / "make_cases.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
