"""Print the Markdown table of a benchmark report.

Examples:
    python benchmarks/table.py benchmarks/results/h200.json
    python benchmarks/table.py benchmarks/results/h200.json --only 'bfloat16, float32 times, jitter'
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TIMES = "\N{MULTIPLICATION SIGN}"


def best(timings: Mapping[str, Any], key: str) -> tuple[float, str]:
    """The fastest of several formulations, and its name."""
    found = [(each[key], name) for name, each in timings.items() if each[key] is not None]
    return min(found) if found else (math.nan, "")


def microseconds(seconds: float | None) -> str:
    if seconds is None or not math.isfinite(seconds):
        return "-"
    value = seconds * 1e6
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def ratio(a: float | None, b: float | None, unit: str = "") -> str:
    if a is None or b is None or not (math.isfinite(a) and math.isfinite(b)):
        return "-"
    return f"{a / b:.2f}{unit}"


def share(a: float | None, b: float | None) -> str:
    if a is None or b is None or not (math.isfinite(a) and math.isfinite(b)):
        return "-"
    return f"{100 * a / b:.0f} %"


def shape_words(shape: str) -> str:
    return re.sub(r"(?<=\d)x(?=[\d(])", f" {TIMES} ", shape).replace("->", "\N{RIGHTWARDS ARROW}")


def gpu_row(case: Mapping[str, Any]) -> dict[str, str]:
    ours = case["robocache"]
    eager, _ = best(case["eager"], "device_s")
    compiled, formulation = best(case["compiled"], "device_s")
    eager_wall, _ = best(case["eager"], "wall_s")
    compiled_wall, _ = best(case["compiled"], "wall_s")
    return {
        "MB": f"{case['bytes'] * 1e-6:.2f}",
        "floor": microseconds(case["floor_s"]),
        "**robocache**": f"**{microseconds(ours['device_s'])}**",
        "of floor": share(case["floor_s"], ours["device_s"]),
        **one_copy(case),
        "torch.compile": microseconds(compiled),
        "its best form": formulation.replace("-no-cudagraphs", ""),
        "torch eager": microseconds(eager),
        "robocache ÷ compile": ratio(ours["device_s"], compiled),
        "wall: robocache": microseconds(ours["wall_s"]),
        "÷ torch.add": ratio(ours["wall_s"], case["torch_add_wall_s"]),
        "wall: compile": microseconds(compiled_wall),
        "wall: eager": microseconds(eager_wall),
    }


def one_copy(case: Mapping[str, Any]) -> dict[str, str]:
    """Older reports have none."""
    return {"one copy": microseconds(case["copy_s"])} if "copy_s" in case else {}


def cpu_row(case: Mapping[str, Any]) -> dict[str, str]:
    ours = case["robocache"]["wall_s"]
    eager, formulation = best(case["eager"], "wall_s")
    return {
        "MB": f"{case['bytes'] * 1e-6:.2f}",
        "**robocache**": f"**{microseconds(ours)}**",
        "GB/s": f"{case['bytes'] / ours * 1e-9:.1f}" if ours else "-",
        "of copy bandwidth": share(case["floor_s"], ours),
        "torch eager": microseconds(eager),
        "its best form": formulation,
        "times faster": ratio(eager, ours),
        "than with gather": ratio(case["eager"].get("gather", {}).get("wall_s"), ours),
    }


def wall_row(case: Mapping[str, Any]) -> dict[str, str]:
    ours, add = case["robocache"]["wall_s"], case["torch_add_wall_s"]
    return {
        "robocache": microseconds(ours),
        "torch.add": microseconds(add),
        "robocache ÷ torch.add": ratio(ours, add),
    }


def voxel_gpu_row(case: Mapping[str, Any]) -> dict[str, str]:
    """Each peer by itself: users run one or the other of them."""
    ours = case["robocache"]
    row = {
        "MB": f"{case['bytes'] * 1e-6:.2f}",
        "floor": microseconds(case["floor_s"]),
        "**robocache**": f"**{microseconds(ours['device_s'])}**",
        "÷ floor": ratio(ours["device_s"], case["floor_s"]),
        **one_copy(case),
    }
    if case["sort_floor_s"] is not None:
        row["floor with sort"] = microseconds(case["sort_floor_s"])
        row["÷ it"] = ratio(ours["device_s"], case["sort_floor_s"])
    for name, timing in case["eager"].items():
        row[name] = microseconds(timing["device_s"])
    if case["compiled"]:
        row["torch.compile"] = microseconds(best(case["compiled"], "device_s")[0])
    row["wall: robocache"] = microseconds(ours["wall_s"])
    row["÷ torch.add"] = ratio(ours["wall_s"], case["torch_add_wall_s"])
    row["wall: best peer"] = microseconds(best(case["eager"], "wall_s")[0])
    return row


def voxel_cpu_row(case: Mapping[str, Any]) -> dict[str, str]:
    ours = case["robocache"]["wall_s"]
    row = {
        "MB": f"{case['bytes'] * 1e-6:.2f}",
        "**robocache**": f"**{microseconds(ours)}**",
        "GB/s": f"{case['bytes'] / ours * 1e-9:.1f}" if ours else "-",
    }
    for name, timing in case["eager"].items():
        row[name] = microseconds(timing["wall_s"])
        row[f"{name} ÷ robocache"] = ratio(timing["wall_s"], ours)
    return row


def store_row(case: Mapping[str, Any]) -> dict[str, str]:
    ours = case["robocache"]["wall_s"]
    row = {"**robocache**": f"**{microseconds(ours)}**"}
    if case["memory_bytes"] is None:
        row["GB/s"] = f"{case['bytes'] / ours * 1e-9:.1f}" if ours else "-"
    else:
        row["memory, MB"] = f"{case['memory_bytes'] * 1e-6:.1f}"
    for name, timing in case["eager"].items():
        row[name] = microseconds(timing["wall_s"])
        row["robocache's speed, of it"] = share(timing["wall_s"], ours)
    return row


ROWS = {"cpu": cpu_row, "cuda": gpu_row}
VOXEL_ROWS = {"cpu": voxel_cpu_row, "cuda": voxel_gpu_row}


def markdown(report: Mapping[str, Any], only: str = "") -> str:
    """A heading line, one table a variant, and the command that repeats it."""
    environment, ceiling = report["environment"], report["ceiling"]
    versions = f"torch {environment['torch']}, robocache {environment['robocache']}"
    if report["device"] == "cuda":
        where = f"{environment['gpu']}, driver {environment['driver']}, CUDA {environment['cuda']}"
    else:
        where = f"{environment['cpu']}, {environment['torch_threads']} threads"
    commit = environment["commit"][:12] + " (modified)" * environment["modified"]
    lines = [f"{where}, {versions}, commit {commit}, {report['date']}."]
    if ceiling:
        line = f"Streaming {ceiling['bandwidth'] * 1e-9:,.0f} GB/s (read and written)"
        if ceiling["launch_s"]:
            line += f"; an empty kernel in a graph takes {ceiling['launch_s'] * 1e6:.2f} µs"
        lines.append(f"{line}. Times in µs.")

    cases = [
        case
        for case in report["cases"]
        if re.search(only, f"{case['operation']} {case['shape']} {case['variant']}")
    ]
    for heading in dict.fromkeys((case["operation"], case["variant"]) for case in cases):
        lines += ["", f"**{heading[0]}: {heading[1]}**", ""]
        chosen = [case for case in cases if (case["operation"], case["variant"]) == heading]
        rows_of = VOXEL_ROWS if heading[0].startswith("voxelize") else ROWS
        make_row = rows_of[report["device"]] if heading[0] != "store" else store_row
        if report["wall_only"]:
            make_row = wall_row
        rows = [{"shape": shape_words(case["shape"])} | make_row(case) for case in chosen]
        lines.append("| " + " | ".join(rows[0]) + " |")
        lines.append("|---|" + "---:|" * (len(rows[0]) - 1))
        lines += ["| " + " | ".join(row.values()) + " |" for row in rows]
    problems = [each for each in report["problems"] if re.search(only, each)]
    lines += ["", f"`{report['command']}` (seed {report['seed']}, {report['seconds']:.0f} s)"]
    lines += [""] * bool(problems) + [f"- problem: {problem}" for problem in problems]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("report", type=Path, help="JSON that benchmarks/run.py wrote")
    parser.add_argument("--only", default="", metavar="PATTERN", help="regular expression of cases")
    arguments = parser.parse_args()
    print(markdown(json.loads(arguments.report.read_text()), arguments.only), end="")


if __name__ == "__main__":
    main()
