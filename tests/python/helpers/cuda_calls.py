"""Calls on CUDA: captured as a graph, and their peak memory."""

from __future__ import annotations

from typing import Any

import torch


class Captured(tuple[Any, ...]):
    """The results of a captured call, and the graph that computes them again."""

    graph: torch.cuda.CUDAGraph


def capture(call: Any) -> Captured:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()  # outside of the graph first, as torch's documentation asks
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call()
    captured = Captured(result if isinstance(result, tuple) else (result,))
    captured.graph = graph
    return captured


def peak(call: Any) -> int:
    """Bytes that a call takes at its peak beyond what is there already."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = call()
    torch.cuda.synchronize()
    del result
    return torch.cuda.max_memory_allocated() - before
