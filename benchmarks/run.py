"""Measure robocache beside torch on this machine; docs/benchmarks.md says how and how to read it.

Examples:
    python benchmarks/run.py --device cuda --output benchmarks/results/h200.json
    python benchmarks/run.py --device cpu --threads 2 --quick
    python benchmarks/run.py --device cuda --no-peers        # while tuning a kernel
    python benchmarks/run.py --device cuda --wall            # only the cost of an eager call
    python benchmarks/run.py --device cuda --only '64x100 .*int64'
"""

from __future__ import annotations

import argparse
import datetime
import re
import secrets
import shlex
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

import fuse
import harness
import loader
import machine
import points
import resample
import store
import table
import voxelize

# An operation file has cases(device, dtypes, quick, backend) -> list[harness.Case].
OPERATIONS = (resample, fuse, voxelize, points, store, loader)

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
DEFAULT_DTYPES = {"cpu": ["float32"], "cuda": ["bfloat16", "float32"]}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument(
        "--dtype",
        nargs="+",
        choices=DTYPES,
        help="value types; the first gets every kind of times (cpu: float32; cuda: and bfloat16)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE.json",
        help="the report; the table is put beside it (benchmarks/results/latest-DEVICE.json)",
    )
    parser.add_argument("--quick", action="store_true", help="fewer types, peers and repeats")
    parser.add_argument(
        "--no-peers", action="store_true", help="check against torch, don't time it"
    )
    parser.add_argument("--wall", action="store_true", help="only robocache ÷ torch.add, wall time")
    parser.add_argument("--only", default="", metavar="PATTERN", help="regular expression of cases")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and stop")
    parser.add_argument("--threads", type=int, help="CPU threads (all)")
    parser.add_argument("--seed", type=int, help="of the data (a new one each run, reported)")
    parser.add_argument("--backend", default="auto", help="robocache's backend (auto)")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch sees no usable GPU here")
    if arguments.output and arguments.output.suffix != ".json":
        parser.error(f"--output: expected a name that ends in .json, got {arguments.output}")
    return arguments


def select_cases(arguments: argparse.Namespace, device: torch.device) -> list[harness.Case]:
    default_dtypes = DEFAULT_DTYPES[arguments.device][: 1 if arguments.quick else None]
    dtypes = [DTYPES[name] for name in arguments.dtype or default_dtypes]
    return [
        case
        for operation in OPERATIONS
        for case in operation.cases(device, dtypes, arguments.quick, arguments.backend)
        if re.search(arguments.only, case.name)
    ]


def measure_all(
    runner: harness.Runner, cases: list[harness.Case], report: dict[str, Any], output: Path
) -> None:
    """Measures one case after the other; the report is written after each."""
    for number, case in enumerate(cases, 1):
        runner.progress.case(f"{number}/{len(cases)} {case.name}")
        room = machine.free_bytes(runner.options.device)
        if 8 * case.footprint > room:
            runner.progress.note(f"skipped: needs {8 * case.footprint:,} bytes, {room:,} are free")
            continue
        try:
            report["cases"].append(asdict(runner.measure(case)))
        except Exception as error:  # the other cases may still be worth their time on the machine
            traceback.print_exc()
            runner.problems.append(f"{case.name}: {type(error).__name__}: {error}")
        report["seconds"] = time.perf_counter() - runner.progress.start
        machine.write_report(output, report)


def main() -> int:
    arguments = parse_arguments()
    device = torch.device("cuda", 0) if arguments.device == "cuda" else torch.device("cpu")
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    memory_kept = device.type == "cpu" and machine.keep_freed_memory()

    cases = select_cases(arguments, device)
    if arguments.list:
        print("\n".join(case.name for case in cases))
        return 0
    if not cases:
        print(f"no case matches {arguments.only!r}; --list prints their names", file=sys.stderr)
        return 2

    seed = secrets.randbelow(2**31) if arguments.seed is None else arguments.seed
    options = harness.Options(
        device,
        quick=arguments.quick,
        peers=not arguments.no_peers,
        wall_only=arguments.wall,
        seed=seed,
    )
    progress = harness.Progress()
    progress.note(f"{len(cases)} cases, seed {seed}")
    environment = machine.environment(options.device, memory_kept)
    if device.type == "cpu" and environment["load_average"] > 0.3:
        progress.note(
            f"load average {environment['load_average']:.1f}: other programs disturb this"
        )
    runner = harness.Runner(options, progress)
    output = arguments.output or (
        Path(__file__).resolve().parent / "results" / f"latest-{arguments.device}.json"
    )
    report: dict[str, Any] = {
        "environment": environment,
        "command": shlex.join(["python", "benchmarks/run.py", *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "device": arguments.device,
        "wall_only": arguments.wall,
        "seed": seed,
        "ceiling": runner.ceiling and asdict(runner.ceiling),
        "problems": runner.problems,
        "cases": [],
    }
    measure_all(runner, cases, report, output)

    if not report["cases"]:
        return 1
    text = table.markdown(report)
    output.with_suffix(".md").write_text(text)
    print(text)
    print(f"wrote {output} and {output.with_suffix('.md').name}", file=sys.stderr)
    return 1 if runner.problems else 0


if __name__ == "__main__":
    sys.exit(main())
