"""LiveAligner into the memory of a GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from live_specs import ACTION, MS, SPEC, make_stream
from support import needs_gpu

import robocache as rc


@needs_gpu
def test_queries_into_device_memory_are_the_cpus() -> None:
    spec = replace(
        SPEC,
        streams=[make_stream("joints"), make_stream("half", out_dtype="BF16"), ACTION],
        with_age=True,
    )
    for reuse in (False, True):
        live = rc.LiveAligner(spec, robots=2, device="cuda", reuse_buffers=reuse)
        host = rc.LiveAligner(spec, robots=2)
        for i in range(12):
            for aligner in (live, host):
                for name in ("joints", "half"):
                    aligner.push(name, i * 10 * MS, [i, -i], i % 2)
            batch, expected = live.query(i * 10 * MS + 1), host.query(i * 10 * MS + 1)
            assert list(batch) == list(expected)
            for key, values in expected.items():
                assert batch[key].is_cuda and torch.equal(batch[key].cpu(), values), key
    action = torch.rand(2, 3, 2, device="cuda")
    undone = live.undo("action", action)
    assert isinstance(undone, torch.Tensor) and undone.is_cuda
    assert torch.equal(undone.cpu(), torch.as_tensor(host.undo("action", action.cpu())))


@needs_gpu
def test_queries_wait_where_all_copies_are_under_way() -> None:
    """Each batch holds what it was asked for, however far the GPU is behind."""
    cuda: Any = torch.cuda
    aligner = rc.LiveAligner(SPEC, device="cuda")
    stream = cuda.Stream()
    batches = []
    with cuda.stream(stream):
        cuda._sleep(50_000_000)
        for i in range(20):
            aligner.push("joints", i * MS, [i, -i])
            batches.append(aligner.query(i * MS))
    stream.synchronize()
    assert [int(batch["joints"][0, -1, 0]) for batch in batches] == list(range(20))


@needs_gpu
def test_queries_wait_for_copies_on_another_stream() -> None:
    cuda: Any = torch.cuda
    aligner = rc.LiveAligner(SPEC, device="cuda")
    with cuda.stream(cuda.Stream()):
        cuda._sleep(50_000_000)
        others = [aligner.query(0) for _ in range(8)]
    aligner.push("joints", 0, [7, -7])
    assert int(aligner.query(0)["joints"][0, -1, 0]) == 7 and len(others) == 8
