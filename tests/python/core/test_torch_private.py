"""Torch's private functions and their public replacements give the same."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from robocache.core import torch_private

# The names in torch_private, and the paths in torch.
PRIVATE = {
    "empty_strided_cpu": "_C._dynamo.guards._empty_strided_cpu",
    "empty_strided_cuda": "_C._dynamo.guards._empty_strided_cuda",
    "cuda_device": "_C._cuda_getDevice",
    "cuda_stream": "_C._cuda_getCurrentRawStream",
    "is_capturing": "_C._cuda_isCurrentStreamCapturing",
    "range_push": "_C._nvtx.rangePushA",
    "range_pop": "_C._nvtx.rangePop",
    "is_wrapped": "_C._functorch.is_functorch_wrapped_tensor",
    "copy_each": "_foreach_copy_",
}


def public(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module as it is where torch lacks every private function."""
    for path in (*PRIVATE.values(), "autograd.forward_ad._current_level"):
        parts = path.split(".")
        owner: Any = torch
        for part in parts[:-1]:
            owner = getattr(owner, part, None)
        if hasattr(owner, parts[-1]):
            monkeypatch.delattr(owner, parts[-1])
    spec = importlib.util.find_spec("robocache.core.torch_private")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in PRIVATE:
        assert getattr(module, name).__name__.startswith("_public_"), name
    return module


def test_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ((2, 3, 4), (12, 4, 1), torch.float16)
    want = torch_private.empty_strided_cpu(*arguments)
    got = public(monkeypatch).empty_strided_cpu(*arguments)
    for tensor in (got, want):
        assert tensor.shape == (2, 3, 4) and tensor.stride() == (12, 4, 1)
        assert tensor.dtype == torch.float16 and tensor.is_cpu


def test_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [torch.rand(3), torch.rand(2, 2)]
    for module in (torch_private, public(monkeypatch)):
        targets = [torch.zeros(3), torch.zeros(2, 2)]
        module.copy_each(targets, sources)
        assert all(map(torch.equal, targets, sources))


def test_wrapped_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def look(x: torch.Tensor) -> torch.Tensor:
        seen.extend(bool(is_wrapped(x)) for is_wrapped in functions)
        return x.sum()

    functions = [torch_private.is_wrapped, torch_private._public_is_wrapped]
    look(torch.rand(2))
    assert seen == [False, False]
    for transform in (torch.func.vmap, torch.func.grad):
        seen.clear()
        transform(look)(torch.rand(3, 2))
        assert seen == [True, True]


def test_tangents(monkeypatch: pytest.MonkeyPatch) -> None:
    assert torch_private.forward_level._current_level < 0
    with torch.autograd.forward_ad.dual_level():
        assert torch_private.forward_level._current_level >= 0
    assert public(monkeypatch).forward_level._current_level == 0  # there may be some


def test_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """The public functions of CUDA are called with the right arguments; without a GPU, a record."""
    module = public(monkeypatch)
    calls: list[Any] = []
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda index: SimpleNamespace(cuda_stream=100 + index)
    )
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", calls.append)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: calls.append("pop"))
    monkeypatch.setattr(torch, "empty_strided", lambda *a, **options: (*a, options))
    assert module.cuda_device() == 3
    assert module.cuda_stream(2) == 102
    assert module.is_capturing() is True
    module.range_push("batch")
    module.range_pop()
    assert calls == ["batch", "pop"]
    options = {"dtype": torch.int8, "device": "cuda"}
    assert module.empty_strided_cuda([2], [1], torch.int8) == ([2], [1], options)


def test_constants() -> None:
    """`mark_constant` does what torch's public function does, which imports Dynamo."""

    def private() -> int:
        return 1

    def public() -> int:
        return 1

    torch_private.mark_constant(private)
    torch.compiler.assume_constant_result(public)
    assert vars(private) == vars(public)


WITHOUT = """
import torch
from torch.autograd import forward_ad

for path in {paths}:
    owner = torch
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    delattr(owner, name)
import robocache as rc

values, times = torch.tensor([[0.0], [2.0]]), torch.tensor([0, 10])
targets = torch.tensor([5, 10])
def call(values):
    return rc.resample_trajectories(values, times, targets)
assert call(values).tolist() == [[1.0], [2.0]]
batch = torch.stack([values, values + 1])
assert torch.func.vmap(call)(batch).tolist() == [[[1.0], [2.0]], [[2.0], [3.0]]]
with forward_ad.dual_level():
    out = call(forward_ad.make_dual(values, torch.ones_like(values)))
    assert forward_ad.unpack_dual(out).tangent.tolist() == [[1.0], [1.0]]
"""


def test_operations_without_private_functions() -> None:
    """Alignment, vmap and forward-mode derivatives on a torch that lacks the private functions."""
    names = ["is_wrapped", "empty_strided_cpu", "copy_each"]
    script = WITHOUT.format(paths=[PRIVATE[name] for name in names])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_other_module_names_a_private_function() -> None:
    package = Path(torch_private.__file__).parent.parent
    private = re.compile(r"torch\._C|torch\._foreach|forward_ad\._|torch\.cuda\._")
    files = [path for path in package.rglob("*.py") if private.search(path.read_text("utf-8"))]
    assert files == []  # torch_private itself has their names without "torch."
