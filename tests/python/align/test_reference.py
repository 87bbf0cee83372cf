"""Every backend against the sequential NumPy reference, on calls of every kind."""

from __future__ import annotations

import math

import reference
import torch
from hypothesis import given
from strategies import EXACT, SLERPS, Call, calls, columns
from support import FLOATS, assert_near, assert_same_bits, find_backends, same_bits

import robocache as rc


@given(calls(EXACT))
def test_exact_methods(call: Call) -> None:
    """Linear, previous and nearest: the reference's bits on every backend, masks included."""
    expected, mask = reference.resample(*call.tensors, layout=call.layout, **call.options)
    accepted = reference.rounded(expected, call.out_dtype)
    first = None
    for backend in find_backends()[0]:
        out, valid = backend.resample_to_cpu(*call.tensors, method=call.method, **call.options)
        assert out.dtype == call.out_dtype and out.shape == expected.shape
        assert_same_bits(valid, mask, f"{backend.name}: valid")
        right = torch.stack([same_bits(out, a) for a in accepted]).any(0)
        if not right.all():
            assert_same_bits(out, accepted[0], backend.name)
        alone = backend.resample(*call.tensors, method=call.method, **call.options).cpu()
        assert_same_bits(alone, out, f"{backend.name}: without the mask")
        first = out if first is None else first
        assert_same_bits(out, first, f"{backend.name}: unlike the first backend")


@given(calls((*EXACT, *SLERPS, "angle"), out_dtypes=(None, *FLOATS)))
def test_all_methods(call: Call) -> None:
    """Slerp and angle within their tolerance, the other runs beside them with the same bits."""
    if call.out_dtype == torch.uint8:
        call.options["out_dtype"] = torch.float32
        if call.options["outside"] == "nan":
            call.options["outside"] = "zero"
    expected, mask = reference.resample(*call.tensors, layout=call.layout, **call.options)
    accepted = reference.rounded(expected, call.out_dtype)
    allowed = tolerances(call, expected)
    for backend in find_backends()[0]:
        out, valid = backend.resample_to_cpu(*call.tensors, method=call.method, **call.options)
        assert_same_bits(valid, mask, f"{backend.name}: valid")
        for method, run in columns(call.layout):
            got, want = out[..., run], expected[..., run]
            if method in EXACT:
                right = torch.stack([same_bits(got, a[..., run]) for a in accepted]).any(0)
                if not right.all():
                    assert_same_bits(got, accepted[0][..., run], f"{backend.name}: {method}")
            else:
                if method == "angle":
                    want = same_turn(got, want, call.options["multiply"], run)
                assert_near(got, want, allowed[..., run], f"{backend.name}: {method}")


def tolerances(call: Call, expected: torch.Tensor) -> torch.Tensor:
    """4 units in the last place of 1, or of the largest angle; then what multiply, and roundings
    after it, make of them."""
    unit = torch.finfo(expected.dtype).eps
    size = expected.double().abs().nan_to_num()
    allowed = torch.full(expected.shape, 4 * unit, dtype=torch.float64)
    for method, run in columns(call.layout):
        if method == "angle" and call.values[..., run].numel() > 0:
            allowed[..., run] *= max(1.0, float(call.values[..., run].double().abs().max()))
    subtract, multiply = call.options["subtract"], call.options["multiply"]
    if subtract is not None or multiply is not None:
        factor = torch.ones(expected.size(-1)) if multiply is None else multiply.abs()
        largest = 4 if subtract is None else 4 + subtract.abs().double()  # before multiply
        allowed = factor.double() * (allowed + unit * largest) + unit * size
    if call.out_dtype != expected.dtype:
        out = torch.finfo(call.out_dtype)
        allowed = allowed + out.eps * size.clamp(min=out.tiny)
    return allowed


def same_turn(
    got: torch.Tensor, want: torch.Tensor, multiply: torch.Tensor | None, run: slice
) -> torch.Tensor:
    """At the seam between -pi and pi either end is right: take the one that `got` is near."""
    turn = torch.full([got.size(-1)], 2 * math.pi, dtype=torch.float64)
    if multiply is not None:
        turn = turn * multiply[run].double()
    off = got.double() - want.double()
    turns = torch.where(turn == 0, 0, (off / turn).round()).nan_to_num().clamp(-1, 1)
    return want.double() + turns * turn


@given(calls(EXACT))
def test_validation_accepts_what_is_right(call: Call) -> None:
    """rc.config(validate=True) changes no result."""
    for b in find_backends()[0]:
        plain = b.resample_to_cpu(*call.tensors, method=call.method, **call.options)
        with rc.config(validate=True):
            checked = b.resample_to_cpu(*call.tensors, method=call.method, **call.options)
        assert_same_bits(checked[0], plain[0], b.name)
        assert_same_bits(checked[1], plain[1], b.name)
