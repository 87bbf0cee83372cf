"""The machine: its memory, its description in reports, and the path of reports."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch


def free_bytes(device: torch.device) -> int:
    """Memory that a benchmark may take on a device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        meminfo = Path("/proc/meminfo").read_text()
        return int(meminfo.split("MemAvailable:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) // 2


def keep_freed_memory() -> bool:
    """Make malloc keep what is freed, as torch's CUDA allocator does.

    Otherwise every call on the CPU would fault its large buffers in anew, and the kernel's zeroing
    of pages would be most of what is timed, for robocache and torch alike.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return False
    m_trim_threshold, m_mmap_max = -1, -4
    return bool(mallopt(m_trim_threshold, -1)) and bool(mallopt(m_mmap_max, 0))


def environment(device: torch.device, memory_kept: bool) -> dict[str, Any]:
    """Describes hardware and software, so that readers can judge or reproduce the numbers."""
    import robocache

    root = Path(__file__).resolve().parent.parent
    git = ("git", "-C", str(root))
    commit = os.environ.get("ROBOCACHE_COMMIT") or output_of(*git, "rev-parse", "HEAD")
    metadata: dict[str, Any] = {
        "robocache": robocache.__version__,
        "commit": commit or "unknown",
        "modified": bool(output_of(*git, "status", "--porcelain", "--untracked-files=no")),
        "build": asdict(robocache.build_info()),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cpu": cpu_model(),
        "cpu_count": len(os.sched_getaffinity(0)),
        "torch_threads": torch.get_num_threads(),
        "load_average": os.getloadavg()[0],  # of the last minute, before this run
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        query = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "-i", "0")
        metadata |= {
            "gpu": properties.name,
            "driver": output_of(*query) or "unknown",
            "cuda": torch.version.cuda,
            "l2_bytes": properties.L2_cache_size,
            "multiprocessors": properties.multi_processor_count,
        }
    else:
        metadata["allocator"] = "malloc keeps freed memory" if memory_kept else "system default"
    return metadata


def output_of(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """In one step: what was written after the case before stays, if a run is interrupted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(report, indent=1, default=str) + "\n")
    partial.replace(path)
